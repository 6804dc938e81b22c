// cudaMemcpy to the device: a copy on the default stream with the synchronization in it, by the same rules.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/preload/transfer/rule_test.h"

namespace rules {
namespace {

TEST_F(Rule, S12_ABlockingCopyIsPromotedAndItsWaitSkipped) {
  cudaStream_t blocking = nullptr;
  OK(cudaStreamCreate(&blocking));
  for (const size_t bytes : {kSmall, kLarge, kHuge}) {
    SCOPED_TRACE(bytes);
    const auto pattern = Pattern(bytes, static_cast<uint32_t>(bytes));
    auto source = pattern;
    OK(LaunchFill(device_, bytes, 1, blocking));
    Backlog(blocking);
    OK(LaunchMove(other_, device_, bytes, blocking));
    const Tally tally("transfer");
    OK(cudaMemcpy(device_, source.data(), bytes, cudaMemcpyHostToDevice));
    DECIDED(tally, "sync.skipped", 1);
    std::fill(source.begin(), source.end(), uint8_t{0x77});
    OK(LaunchMove(third_, device_, bytes, blocking));
    OK(cudaStreamSynchronize(blocking));
    EXPECT_TRUE(Holds(third_, pattern));
    EXPECT_TRUE(HoldsOnly(other_, 1, bytes));
    OK(cudaDeviceSynchronize());
  }
}

TEST_F(Rule, S13_WhatABlockingCopyOwesIsPaidLikeAnyOther) {
  Backlog(nullptr);
  const Tally tally("transfer");
  OK(cudaMemcpy(device_, source_.data(), kSmall, cudaMemcpyHostToDevice));
  DECIDED(tally, "sync.skipped", 1);
  // What went before it has run; its own DMA may be on its way, as without the engine.
  (void)cudaStreamQuery(nullptr);
  EXPECT_LE(Pending(cudaStreamLegacy), 1);
  (void)cudaGetLastError();
}

TEST_F(Rule, S10_ABlockingCopyWaitsForWhatTheHostMayLookAt) {
  OK(LaunchFill(device_, kSmall, 9, nullptr));
  Backlog(nullptr);
  OK(cudaMemcpyAsync(pinned_, device_, kSmall, cudaMemcpyDeviceToHost, nullptr));
  const Tally tally("transfer");
  OK(cudaMemcpy(other_, source_.data(), kSmall, cudaMemcpyHostToDevice));
  EXPECT_EQ(pinned_[0], 9);
  EXPECT_EQ(pinned_[kSmall - 1], 9);
  DECIDED(tally, "h2d.promoted.small", 1);
}

// Where the wait may not be skipped it is made, for all that the stream has.
class Kept : public Rule {
 protected:
  Kept() { StartWith("SLIPSTREAM_TRANSFER_SKIP_SYNCHRONIZE", "false"); }
};

TEST_F(Kept, Policy_ABlockingCopyWaits) {
  Backlog(nullptr);
  const Tally tally("transfer");
  OK(cudaMemcpy(device_, source_.data(), kSmall, cudaMemcpyHostToDevice));
  EXPECT_LE(Pending(cudaStreamLegacy), 1);
  DECIDED(tally, "h2d.promoted.small", 1);
  DECIDED(tally, "sync.kept.off", 1);
}

TEST_F(Rule, S17_ABlockingCopyOfWhichACallFails) {
  for (const char* function : {"cuMemcpyHtoDAsync_v2", "cuEventRecord", "cuCtxWaitEvent", "cuEventSynchronize"}) {
    for (uint64_t nth = 1; nth <= 4; ++nth) {
      SCOPED_TRACE(std::string(function) + " at call " + std::to_string(nth));
      const auto pattern = Pattern(kLarge, static_cast<uint32_t>(nth));
      Backlog(nullptr, 4);
      OK(simFailCall(function, cudaErrorUnknown, nth, 0));
      const cudaError_t copied = cudaMemcpy(device_, pattern.data(), kLarge, cudaMemcpyHostToDevice);
      simClearFailures();
      OK(copied);
      OK(cudaGetLastError());
      OK(cudaDeviceSynchronize());
      EXPECT_TRUE(Holds(device_, pattern));
    }
  }
}

TEST_F(Rule, S20_BlockingCopiesOfNothingAndFromNowhere) {
  OK(cudaMemcpy(device_, source_.data(), 0, cudaMemcpyHostToDevice));
  RETURNS(cudaErrorInvalidValue, cudaMemcpy(nullptr, source_.data(), kSmall, cudaMemcpyHostToDevice));
  RETURNS(cudaErrorInvalidValue, cudaGetLastError());
  OK(cudaDeviceSynchronize());
}

TEST_F(Rule, S16_ABlockingCopyToTheHostIsComplete) {
  OK(LaunchFill(device_, kLarge, 5, nullptr));
  std::vector<uint8_t> back(kLarge, 0);
  OK(cudaMemcpy(back.data(), device_, kLarge, cudaMemcpyDeviceToHost));
  EXPECT_EQ(back, std::vector<uint8_t>(kLarge, 5));
}

// transfer.verify: what was written is read back and compared.
class Verified : public Rule {
 protected:
  Verified() { StartWith("SLIPSTREAM_TRANSFER_VERIFY", "true"); }
};

TEST_F(Verified, Policy_CopiesAreCompared) {
  OK(cudaDeviceSynchronize());  // looks at the warm-up's
  const Tally tally("transfer");
  for (const size_t bytes : {kSmall, kLarge, kHuge}) {
    const auto pattern = Pattern(bytes, static_cast<uint32_t>(bytes));
    OK(CopyUp(device_, pattern.data(), bytes, a_));
    OK(cudaStreamSynchronize(a_));
    OK(cudaDeviceSynchronize());
    EXPECT_TRUE(Holds(device_, pattern));
  }
  OK(cudaDeviceSynchronize());  // looks at what has come back
  DECIDED(tally, "verified", 3);
  NEVER_DECIDED(tally, "verified.wrong");
}

// Where another thread writes to the same stream the destination may rightly have changed by the time it is read.
TEST_F(Verified, Policy_WhatAnotherThreadMayWriteIsNotCompared) {
  OK(cudaDeviceSynchronize());
  OnAnotherThread([&] { EXPECT_EQ(LaunchFill(other_, kSmall, 1, a_), cudaSuccess); });
  const Tally gone("transfer");
  OK(CopyUp(device_, source_.data(), kLarge, a_));
  OK(cudaDeviceSynchronize());
  OK(cudaDeviceSynchronize());
  DECIDED(gone, "verified", 1);  // the thread has ended
  std::atomic<bool> done{false};
  std::atomic<bool> works{false};
  std::thread other([&] {
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(LaunchFill(other_, kSmall, 1, a_), cudaSuccess);
    works = true;
    works.notify_one();
    done.wait(false);
  });
  works.wait(false);
  const Tally tally("transfer");
  OK(CopyUp(device_, source_.data(), kLarge, a_));
  OK(cudaDeviceSynchronize());
  OK(cudaDeviceSynchronize());
  DECIDED(tally, "unverified", 1);
  DECIDED(tally, "verified", 0);
  done = true;
  done.notify_one();
  other.join();
}

class VerifiedFetch : public Verified {
 protected:
  VerifiedFetch() { StartWith("SLIPSTREAM_TRANSFER_D2H", "on"); }
};

TEST_F(VerifiedFetch, Policy_CopiesToTheHostAreCompared) {
  for (const size_t bytes : {kLarge, kHuge, kLarge, kHuge}) {
    const auto pattern = Pattern(kHuge, static_cast<uint32_t>(bytes));
    OK(cudaMemcpy(device_, pattern.data(), kHuge, cudaMemcpyHostToDevice));
    OK(cudaDeviceSynchronize());
    OK(cudaDeviceSynchronize());
    const Tally tally("transfer");
    std::vector<uint8_t> back(bytes, 0);
    OK(cudaMemcpyAsync(back.data(), device_, bytes, cudaMemcpyDeviceToHost, a_));
    EXPECT_EQ(std::memcmp(back.data(), pattern.data(), bytes), 0);
    DECIDED(tally, "d2h.promoted", 1);
    DECIDED(tally, "verified", 1);
  }
}

// The program gets what is on the device all the same.
TEST_F(VerifiedFetch, Verify_APieceThatNeverArrivedIsFound) {
  const auto pattern = Pattern(kHuge, 3);
  OK(cudaMemcpy(device_, pattern.data(), kHuge, cudaMemcpyHostToDevice));
  OK(cudaDeviceSynchronize());
  OK(cudaDeviceSynchronize());
  testing::internal::CaptureStderr();
  const Tally tally("transfer");
  std::vector<uint8_t> back(kHuge, 0);
  OK(simFailCall("cuMemcpyDtoHAsync_v2", SIM_LOST, 3, 0));
  OK(cudaMemcpyAsync(back.data(), device_, kHuge, cudaMemcpyDeviceToHost, a_));
  simClearFailures();
  EXPECT_EQ(back, pattern);
  DECIDED(tally, "verified.wrong", 1);
  NEVER_DECIDED(tally, "d2h.promoted");
  OK(cudaMemcpyAsync(back.data(), device_, kHuge, cudaMemcpyDeviceToHost, a_));
  NEVER_DECIDED(tally, "d2h.promoted");
  const std::string said = testing::internal::GetCapturedStderr();
  if (std::getenv("LD_PRELOAD") != nullptr) {
    EXPECT_NE(said.find("a copy of 4194304 bytes from device address"), std::string::npos) << said;
  }
}

TEST_F(Verified, Verify_ACopyThatNeverArrivedIsFoundAndTheEngineStandsAside) {
  OK(cudaDeviceSynchronize());
  testing::internal::CaptureStderr();
  for (const size_t bytes : {kSmall, kLarge}) {
    OK(LaunchFill(device_, bytes, 0, a_));
    OK(cudaDeviceSynchronize());
    const Tally tally("transfer");
    OK(simFailCall("cuMemcpyHtoDAsync_v2", SIM_LOST, 1, 0));  // as if the bus had lost it
    OK(CopyUp(device_, source_.data(), bytes, a_));
    simClearFailures();
    OK(cudaStreamSynchronize(a_));
    OK(cudaDeviceSynchronize());
    OK(cudaDeviceSynchronize());
    if (bytes == kSmall) {
      DECIDED(tally, "verified.wrong", 1);
      OK(CopyUp(device_, source_.data(), bytes, a_));
      OK(cudaDeviceSynchronize());
      EXPECT_TRUE(Holds(device_, source_, bytes));
      DECIDED(tally, "h2d.declined.verify", 1);
    }
  }
  const std::string said = testing::internal::GetCapturedStderr();
  if (std::getenv("LD_PRELOAD") != nullptr) {
    EXPECT_NE(said.find("a copy of 4096 bytes"), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace rules
