// S07, S36: a copy of which the stream is busy goes to the device at once, and to its destination in the stream's
// order; the memory that it lies in meanwhile is nobody's loss.
#include <cstdlib>

#include "tests/preload/transfer/rule_test.h"

namespace rules {
namespace {

class Ahead : public Rule {
 protected:
  Ahead() { StartWith("SLIPSTREAM_ALLOCATOR_MODE", "segments"); }

  size_t FreeMemory() {
    size_t free = 0;
    size_t total = 0;
    EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
    EXPECT_LE(free, total);
    return free;
  }
  // What the driver has, whatever anybody says of it.
  static size_t DriversFreeMemory() { return simFreeMemory(0); }
};

// With the pool, and without it.
class Allocating : public Ahead, public ::testing::WithParamInterface<const char*> {
 protected:
  Allocating() { StartWith("SLIPSTREAM_ALLOCATOR_MODE", GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Modes, Allocating, ::testing::Values("off", "segments"));

TEST_F(Ahead, S07ahead_EarlierWorkReadsTheOldBytesAndLaterWorkTheNew) {
  uint8_t* far = nullptr;
  uint8_t* old = nullptr;
  uint8_t* seen = nullptr;
  constexpr size_t kMost = 37 * kMiB + 4711;
  for (uint8_t** buffer : {&far, &old, &seen}) OK(cudaMalloc(reinterpret_cast<void**>(buffer), kMost));
  const Tally tally("transfer");
  uint64_t copies = 0;
  for (const size_t bytes : {kLarge, kHuge, 8 * kMiB, 8 * kMiB + 1, kMost}) {
    for (const bool synchronize : {false, true}) {
      SCOPED_TRACE(std::to_string(bytes) + (synchronize ? " with" : " without") + " a synchronization");
      auto source = Pattern(bytes, static_cast<uint32_t>(bytes) + (synchronize ? 1 : 0));
      const auto expected = source;
      OK(LaunchFill(far, bytes, 1, a_));
      Backlog(a_);
      OK(LaunchMove(old, far, bytes, a_));
      OK(CopyUp(far, source.data(), bytes, a_));
      if (synchronize) {
        OK(cudaStreamSynchronize(a_));
      }
      std::fill(source.begin(), source.end(), uint8_t{0x77});
      ++copies;
      OK(LaunchMove(seen, far, bytes, a_));
      OK(LaunchFill(far, bytes, 2, a_));
      OK(cudaStreamSynchronize(a_));
      EXPECT_TRUE(HoldsOnly(old, 1, bytes));
      EXPECT_TRUE(Holds(seen, expected));
      EXPECT_TRUE(HoldsOnly(far, 2, bytes));
    }
  }
  DECIDED(tally, "h2d.promoted.large", copies);
  DECIDED(tally, "h2d.ahead", copies);
}

// Blocks are used again when what they held was passed on, and not before.
TEST_F(Ahead, S08early_ManyCopiesOneAfterTheOther) {
  constexpr int kCopies = 40;
  uint8_t* far = nullptr;
  OK(cudaMalloc(reinterpret_cast<void**>(&far), kCopies * kLarge));
  const Tally tally("transfer");
  for (int round = 0; round < 3; ++round) {
    Backlog(a_);
    for (int i = 0; i < kCopies; ++i) {
      std::memset(source_.data(), i + round + 1, kLarge);
      OK(CopyUp(far + static_cast<size_t>(i) * kLarge, source_.data(), kLarge, a_));
    }
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < kCopies; ++i) {
      EXPECT_TRUE(HoldsOnly(far + static_cast<size_t>(i) * kLarge, static_cast<uint8_t>(i + round + 1), kLarge)) << i;
    }
  }
  DECIDED_AT_LEAST(tally, "h2d.ahead", 3);
}

// The stream that it belongs to waits for its arrival, whatever another one does.
TEST_F(Ahead, S07arrived_OnTwoStreams) {
  const Tally tally("transfer");
  const auto first = Pattern(kHuge, 21);
  const auto second = Pattern(kHuge, 22);
  for (int round = 0; round < 8; ++round) {
    Backlog(a_, 4);
    Backlog(b_, 4);
    OK(CopyUp(device_, first.data(), kHuge, a_));
    OK(CopyUp(other_, second.data(), kHuge, b_));
    OK(LaunchMove(third_, device_, kHuge, a_));
    OK(cudaStreamSynchronize(a_));
    EXPECT_TRUE(Holds(third_, first));
    OK(LaunchMove(third_, other_, kHuge, b_));
    OK(cudaStreamSynchronize(b_));
    EXPECT_TRUE(Holds(third_, second));
    OK(LaunchFill(device_, kHuge, 0, a_));
    OK(LaunchFill(other_, kHuge, 0, b_));
    OK(cudaDeviceSynchronize());
  }
  DECIDED_AT_LEAST(tally, "h2d.ahead", 16);
}

TEST_P(Allocating, S36_ItIsFreeMemoryForTheProgram) {
  const size_t before = FreeMemory();
  const size_t drivers = DriversFreeMemory();
  Backlog(a_);
  OK(CopyUp(device_, source_.data(), kHuge, a_));
  if (Engine()) {
    EXPECT_LT(DriversFreeMemory(), drivers);
  }
  EXPECT_EQ(FreeMemory(), before);
  OK(cudaDeviceSynchronize());
}

TEST_P(Allocating, S36_AnAllocationThatFindsNoMemoryGetsIt) {
  const size_t before = FreeMemory();
  const Tally tally("transfer");
  Backlog(a_);
  OK(CopyUp(device_, source_.data(), kHuge, a_));
  OK(LaunchMove(third_, device_, kHuge, a_));
  void* rest = nullptr;
  OK(cudaMalloc(&rest, before - 32 * kMiB));
  OK(cudaGetLastError());
  OK(cudaDeviceSynchronize());
  EXPECT_TRUE(Holds(third_, source_, kHuge));
  DECIDED(tally, "gave_back", 1);
  // None is taken again.
  OK(cudaFree(rest));
  const size_t free = DriversFreeMemory();
  Backlog(a_);
  OK(CopyUp(device_, source_.data(), kHuge, a_));
  EXPECT_EQ(DriversFreeMemory(), free);
  OK(cudaDeviceSynchronize());
  DECIDED(tally, "h2d.ahead", 1);
}

TEST_P(Allocating, S36_OtherAllocationsToo) {
  const size_t before = FreeMemory();
  Backlog(a_);
  OK(CopyUp(device_, source_.data(), kHuge, a_));
  void* rest = nullptr;
  OK(cudaMallocAsync(&rest, before - 32 * kMiB, b_));
  OK(cudaGetLastError());
  OK(cudaDeviceSynchronize());
}

TEST_P(Allocating, Policy_ItIsGivenBackWhenLittleIsLeft) {
  const size_t before = FreeMemory();
  const Tally tally("transfer");
  Backlog(a_);
  OK(CopyUp(device_, source_.data(), kHuge, a_));
  OK(cudaDeviceSynchronize());
  void* most = nullptr;
  OK(cudaMalloc(&most, before - 65 * kMiB));
  DECIDED(tally, "gave_back", 1);
}

// What a copy is in flight in comes back later: an allocation waits for no work that it does not wait for bare.
TEST_P(Allocating, S73_ACopyInFlightIsNotWaitedFor) {
  const size_t before = FreeMemory();
  const Tally tally("transfer");
  Backlog(a_);
  OK(CopyUp(device_, source_.data(), kHuge, a_));
  void* most = nullptr;
  OK(cudaMalloc(&most, before - 104 * kMiB));
  if (Engine()) {  // bare, the copy waited
    EXPECT_NE(Pending(a_), 0);
  }
  OK(cudaDeviceSynchronize());
  void* more = nullptr;
  OK(cudaMalloc(&more, kMiB));
  DECIDED(tally, "gave_back", 1);
}

// Work that only the host lets go on is on the device: what is given back must not wait for it.
TEST_P(Allocating, S73_StagingIsGivenBackBesideWorkThatWaitsForTheHost) {
  const size_t before = FreeMemory();
  const Tally tally("transfer");
  Backlog(a_);
  OK(CopyUp(device_, source_.data(), kHuge, a_));
  OK(cudaDeviceSynchronize());
  uint32_t* flag = nullptr;
  OK(cudaMallocHost(reinterpret_cast<void**>(&flag), sizeof *flag));
  *flag = 0;
  OK(cuStreamWaitValue32(b_, reinterpret_cast<CUdeviceptr>(flag), 1, CU_STREAM_WAIT_VALUE_EQ));
  auto allocated = std::async(std::launch::async, [before] {
    void* most = nullptr;
    return cudaMalloc(&most, before - 104 * kMiB);
  });
  EXPECT_EQ(allocated.wait_for(Patience()), std::future_status::ready) << "it waits for the device";
  *flag = 1;
  OK(allocated.get());
  OK(cudaDeviceSynchronize());
  DECIDED(tally, "gave_back", 1);
}

TEST_F(Ahead, Policy_NoneIsTakenWhereLittleIsFree) {
  void* most = nullptr;
  OK(cudaMalloc(&most, FreeMemory() - 100 * kMiB));
  const size_t drivers = DriversFreeMemory();
  const Tally tally("transfer");
  Backlog(a_);
  OK(CopyUp(device_, source_.data(), kHuge, a_));
  OK(cudaDeviceSynchronize());
  EXPECT_EQ(DriversFreeMemory(), drivers);
  NEVER_DECIDED(tally, "h2d.ahead");
  EXPECT_TRUE(Holds(device_, source_, kHuge));
}

// A copy that is too long for what is free stands in nobody's way.
TEST_F(Ahead, Policy_ShorterCopiesFindMemoryBehindOneThatIsTooLong) {
  constexpr size_t kTooLong = 80 * kMiB;
  uint8_t* far = nullptr;
  OK(cudaMalloc(reinterpret_cast<void**>(&far), kTooLong));
  size_t free = 0;
  size_t total = 0;
  OK(cudaMemGetInfo(&free, &total));
  void* most = nullptr;
  OK(cudaMalloc(&most, free - total / 16 - 70 * kMiB));
  const std::vector<uint8_t> source(kTooLong, 5);
  const Tally tally("transfer");
  OK(CopyUp(far, source.data(), kTooLong, a_));
  OK(cudaDeviceSynchronize());
  DECIDED(tally, "h2d.declined.device", 1);
  Backlog(a_);
  OK(CopyUp(device_, source_.data(), kHuge, a_));
  OK(cudaDeviceSynchronize());
  EXPECT_TRUE(Holds(device_, source_, kHuge));
  DECIDED(tally, "h2d.promoted.large", 1);
}

class AheadVerified : public Ahead {
 protected:
  AheadVerified() { StartWith("SLIPSTREAM_TRANSFER_VERIFY", "true"); }
};

// An engine that has found itself wrong, and is off, gives back what it took.
TEST_F(AheadVerified, S36_AnEngineThatIsOffKeepsNothing) {
  const size_t before = FreeMemory();
  const Tally tally("transfer");
  Backlog(a_);
  OK(simFailCall("cuMemcpyHtoDAsync_v2", SIM_LOST, 1, 0));  // as if the bus had lost it
  OK(CopyUp(device_, source_.data(), kHuge, a_));
  simClearFailures();
  OK(cudaDeviceSynchronize());
  OK(cudaDeviceSynchronize());  // looks at what has come back
  DECIDED(tally, "h2d.ahead", 1);
  DECIDED(tally, "verified.wrong", 1);
  EXPECT_EQ(FreeMemory(), before);
  void* rest = nullptr;
  OK(cudaMalloc(&rest, before - 32 * kMiB));
  DECIDED(tally, "gave_back", 1);
}

class AheadOff : public Ahead {
 protected:
  AheadOff() { StartWith("SLIPSTREAM_TRANSFER_DEVICE_STAGING", "0"); }
};

TEST_F(AheadOff, Policy_ACopyWaitsForItsStreamAndALongOneIsLeftAlone) {
  const size_t drivers = DriversFreeMemory();
  const Tally tally("transfer");
  Backlog(a_);
  OK(CopyUp(device_, source_.data(), kLarge, a_));
  OK(CopyUp(other_, source_.data(), kHuge, a_));
  EXPECT_EQ(DriversFreeMemory(), drivers);
  OK(cudaDeviceSynchronize());
  NEVER_DECIDED(tally, "h2d.ahead");
  DECIDED(tally, "h2d.promoted.large", 1);
  DECIDED(tally, "h2d.declined.device", 1);
}

// Behind a copy ahead that fails at any call, the destination holds the whole copy or the error is the real call's.
TEST_F(Ahead, S17_AnyCallThatFails) {
  for (const char* function : {"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoDAsync_v2", "cuStreamWaitEvent", "cuEventRecord",
                               "cuStreamQuery", "cuEventQuery"}) {
    for (uint64_t nth = 1; nth <= 6; ++nth) {
      SCOPED_TRACE(std::string(function) + " at call " + std::to_string(nth));
      source_ = Pattern(kHuge, static_cast<uint32_t>(nth));
      OK(LaunchFill(device_, kHuge, 1, a_));
      Backlog(a_, 4);
      OK(simFailCall(function, cudaErrorUnknown, nth, 0));
      const cudaError_t copied = CopyUp(device_, source_.data(), kHuge, a_);
      simClearFailures();
      EXPECT_TRUE(copied == cudaSuccess || copied == cudaErrorUnknown) << copied;
      RETURNS(copied, cudaGetLastError());
      OK(cudaStreamSynchronize(a_));
      OK(cudaDeviceSynchronize());
      if (copied == cudaSuccess) {
        EXPECT_TRUE(Holds(device_, source_, kHuge));
      }
    }
  }
  // And copies go on.
  const Tally tally("transfer");
  Backlog(a_);
  OK(CopyUp(device_, source_.data(), kHuge, a_));
  OK(cudaDeviceSynchronize());
  EXPECT_TRUE(Holds(device_, source_, kHuge));
  DECIDED(tally, "h2d.promoted.large", 1);
}

}  // namespace
}  // namespace rules
