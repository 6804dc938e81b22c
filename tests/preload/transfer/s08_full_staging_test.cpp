// S08: staging memory that is full is never waited for: what holds it may be waiting for this very thread.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tests/preload/transfer/rule_test.h"

namespace rules {
namespace {

class FullStaging : public Rule {
 protected:
  FullStaging() { StartWith("SLIPSTREAM_TRANSFER_MAX_PINNED", "8MiB"); }

  // Whoever waits for the device before everything is submitted waits for the flag, and the flag for everything to be
  // submitted: that will never end, so it need not be waited for.
  static void LeaveIfSomebodyWaits(const std::atomic<bool>& submitted) {
    while (!submitted) {
      if (simStuckWaits() != 0) {
        std::fputs("a copy waits for what waits for the host\n", stderr);
        _exit(1);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the question takes the simulator's lock
    }
  }

  // Copies behind a wait that only this thread can end, and only after the last of them.
  void CopyBehindAWaitForTheHost(size_t bytes, int copies) {
    uint8_t* far = nullptr;
    OK(cudaMalloc(reinterpret_cast<void**>(&far), bytes * static_cast<size_t>(copies)));
    auto* const flag = reinterpret_cast<uint32_t*>(pinned_);
    __atomic_store_n(flag, 0, __ATOMIC_RELEASE);
    OK(cuStreamWaitValue32(a_, reinterpret_cast<CUdeviceptr>(flag), 1, CU_STREAM_WAIT_VALUE_EQ));
    std::atomic<bool> submitted{false};
    std::thread watch([&] { LeaveIfSomebodyWaits(submitted); });
    for (int i = 0; i < copies; ++i) {
      std::memset(source_.data(), i, bytes);
      OK(CopyUp(far + bytes * static_cast<size_t>(i), source_.data(), bytes, a_));
    }
    submitted = true;
    watch.join();
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < copies; ++i) {
      EXPECT_TRUE(HoldsOnly(far + bytes * static_cast<size_t>(i), static_cast<uint8_t>(i), bytes)) << i;
    }
  }
};

class FullStagingOfBoth : public FullStaging {
 protected:
  FullStagingOfBoth() { StartWith("SLIPSTREAM_TRANSFER_DEVICE_STAGING", "64MiB"); }
};

// First the device's is full, then the host's.
TEST_F(FullStagingOfBoth, S08_LargeCopies) {
  const Tally tally("transfer");
  CopyBehindAWaitForTheHost(kLarge, 100);
  DECIDED(tally, "h2d.ahead", 64);
  DECIDED_AT_LEAST(tally, "h2d.promoted.large", 65);
  DECIDED_AT_LEAST(tally, "h2d.declined.full", 1);
}

// They need none.
TEST_F(FullStaging, S08_SmallCopies) {
  const Tally tally("transfer");
  CopyBehindAWaitForTheHost(size_t{64} << 10, 200);
  DECIDED(tally, "h2d.promoted.small", 200);
}

// Staging memory comes back, and serves again.
TEST_F(FullStaging, S08_FullStagingEmpties) {
  const Tally before("transfer");
  CopyBehindAWaitForTheHost(kLarge, 100);
  DECIDED_AT_LEAST(before, "h2d.declined.full", 1);
  const Tally tally("transfer");
  CopyBehindAWaitForTheHost(kLarge, 4);
  DECIDED(tally, "h2d.promoted.large", 4);
}

// A copy that is longer than what is free goes through it, slot by slot, as long as the device keeps up. On a machine
// whose threads wait for a processor the simulated one does not always: then it is the program's own, and the next one
// is looked at.
TEST_F(FullStaging, S08_ACopyLongerThanStagingMemory) {
  constexpr size_t kBytes = size_t{80} << 20;
  constexpr uint64_t kMostCopies = 50;
  uint8_t* far = nullptr;
  OK(cudaMalloc(reinterpret_cast<void**>(&far), kBytes));
  const Tally tally("transfer");
  uint64_t copies = 0;
  do {
    const auto pattern = Pattern(kBytes, 5 + static_cast<uint32_t>(copies));
    OK(CopyUp(far, pattern.data(), kBytes, a_));
    OK(cudaStreamSynchronize(a_));
    OK(cudaDeviceSynchronize());
    ASSERT_TRUE(Holds(far, pattern));
    ++copies;
  } while (Engine() && tally.Of("h2d.promoted.large") == 0 && copies < kMostCopies);
  DECIDED(tally, "h2d.promoted.large", 1);
  DECIDED(tally, "h2d.declined.full", copies - 1);
}

// While the whole device is held nothing is read, and the copy gets no further than its slots: it is the program's own.
TEST_F(FullStaging, S08_ALongCopyBehindAHold) {
  constexpr size_t kBytes = size_t{80} << 20;
  uint8_t* far = nullptr;
  OK(cudaMalloc(reinterpret_cast<void**>(&far), kBytes));
  const auto first = Pattern(kBytes, 5);
  const auto second = Pattern(kBytes, 6);
  OK(CopyUp(far, first.data(), kBytes, b_));
  OK(cudaDeviceSynchronize());
  auto* const flag = reinterpret_cast<uint32_t*>(pinned_);
  __atomic_store_n(flag, 0, __ATOMIC_RELEASE);
  OK(cuStreamWaitValue32(a_, reinterpret_cast<CUdeviceptr>(flag), 1, CU_STREAM_WAIT_VALUE_EQ));
  // Ends the hold when somebody waits for it.
  std::atomic<bool> over{false};
  std::thread release([&] {
    while (!over && simStuckWaits() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
  });
  const Tally tally("transfer");
  CopyAndSynchronize(a_);
  OK(CopyUp(far, second.data(), kBytes, b_));
  over = true;
  release.join();
  OK(cudaDeviceSynchronize());
  EXPECT_TRUE(Holds(far, second));
  DECIDED(tally, "sync.skipped", 1);
  DECIDED(tally, "h2d.declined.full", 1);
  DECIDED(tally, "h2d.declined.error", 0);
}

class Staging : public Rule {};

// On a stream with nothing to do a copy goes on through the slots that have been read already, and no others are
// overwritten: neither its own...
TEST_F(Staging, S08early_ALongCopyOnAnIdleStream) {
  constexpr size_t kBytes = (size_t{96} << 20) + 4711;
  uint8_t* far = nullptr;
  OK(cudaMalloc(reinterpret_cast<void**>(&far), kBytes));
  const auto pattern = Pattern(kBytes, 6);
  OK(cudaStreamSynchronize(a_));
  const Tally tally("transfer");
  OK(CopyUp(far, pattern.data(), kBytes, a_));
  OK(cudaDeviceSynchronize());
  EXPECT_TRUE(Holds(far, pattern));
  DECIDED(tally, "h2d.promoted.large", 1);
}

// ...nor those of a copy before.
TEST_F(Staging, S08early_OneCopyAfterTheOther) {
  constexpr int kCopies = 24;
  uint8_t* far = nullptr;
  OK(cudaMalloc(reinterpret_cast<void**>(&far), kCopies * kLarge));
  const Tally tally("transfer");
  for (int i = 0; i < kCopies; ++i) {
    std::memset(source_.data(), i + 1, kLarge);
    OK(CopyUp(far + static_cast<size_t>(i) * kLarge, source_.data(), kLarge, a_));
  }
  OK(cudaDeviceSynchronize());
  for (int i = 0; i < kCopies; ++i) {
    EXPECT_TRUE(HoldsOnly(far + static_cast<size_t>(i) * kLarge, static_cast<uint8_t>(i + 1), kLarge)) << i;
  }
  DECIDED_AT_LEAST(tally, "h2d.promoted.large", 1);
}

}  // namespace
}  // namespace rules
