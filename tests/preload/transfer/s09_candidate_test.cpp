// S09: only the same thread's immediately following synchronization of the same stream may be skipped.
#include "tests/preload/transfer/rule_test.h"

namespace rules {
namespace {

TEST_F(Rule, S09_TheSynchronizationBehindTheCopyIsSkipped) {
  const Tally tally("transfer");
  Backlog(a_);
  CopyAndSynchronize(a_);
  DECIDED(tally, "sync.skipped", 1);
  if (Engine()) {
    EXPECT_GT(Pending(a_), 0);
  }
}

TEST_F(Rule, S09_AnyCallInBetweenIsOneTooMany) {
  cudaEvent_t event = nullptr;
  OK(cudaEventCreate(&event));
  void* allocated = nullptr;
  cudaPointerAttributes attributes = {};
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  size_t free = 0;
  const std::pair<const char*, std::function<cudaError_t()>> calls[] = {
    {"launch", [&] { return LaunchFill(scratch_, kSmall, 1, a_); }},
    {"launch on another stream", [&] { return LaunchFill(scratch_, kSmall, 1, b_); }},
    {"memset", [&] { return cudaMemsetAsync(scratch_, 0, kSmall, a_); }},
    {"copy within the device", [&] { return cudaMemcpyAsync(other_, device_, 16, cudaMemcpyDeviceToDevice, a_); }},
    {"event record", [&] { return cudaEventRecord(event, a_); }},
    {"event query",
     [&] {
       (void)cudaEventQuery(event);
       return cudaSuccess;
     }},
    {"stream wait", [&] { return cudaStreamWaitEvent(a_, event, 0); }},
    {"host function",
     [&] {
       return cudaLaunchHostFunc(
           a_, [](void*) {}, nullptr);
     }},
    {"allocation", [&] { return cudaMalloc(&allocated, 512); }},
    {"pointer attributes", [&] { return cudaPointerGetAttributes(&attributes, device_); }},
    {"capture question", [&] { return cudaStreamIsCapturing(a_, &status); }},
    {"memory question", [&] { return cudaMemGetInfo(&free, nullptr); }},
#if !RULES_STATIC  // of which the driver is told nothing
    {"same device", [&] { return cudaSetDevice(0); }},
#endif
    {"empty copy", [&] { return CopyUp(device_, source_.data(), 0, a_); }},
  };
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    const Tally tally("transfer");
    Backlog(a_);
    OK(CopyUp(device_, source_.data(), kSmall, a_));
    OK(call());
    OK(cudaStreamSynchronize(a_));
    EXPECT_EQ(Pending(a_), 0);
    DECIDED(tally, "h2d.promoted.small", 1);
    NEVER_DECIDED(tally, "sync.skipped");
  }
}

TEST_F(Rule, S09_AskingForErrorsIsNothingInBetween) {
  const Tally tally("transfer");
  OK(CopyUp(device_, source_.data(), kSmall, a_));
  RETURNS(cudaSuccess, cudaPeekAtLastError());
  RETURNS(cudaSuccess, cudaGetLastError());
  OK(cudaStreamSynchronize(a_));
  DECIDED(tally, "sync.skipped", 1);
}

TEST_F(Rule, S09_OnlyOneSynchronizationIsSkipped) {
  const Tally tally("transfer");
  Backlog(a_);
  CopyAndSynchronize(a_);
  OK(cudaStreamSynchronize(a_));
  EXPECT_EQ(Pending(a_), 0);
  EXPECT_TRUE(HoldsOnly(device_, 0x11, kSmall));
  DECIDED(tally, "sync.skipped", 1);
}

TEST_F(Rule, S09_AnotherThreadsSynchronizationIsMade) {
  const Tally tally("transfer");
  Backlog(a_);
  OK(CopyUp(device_, source_.data(), kSmall, a_));
  WaitElsewhere(a_);
  EXPECT_EQ(Pending(a_), 0);
  NEVER_DECIDED(tally, "sync.skipped");
}

TEST_F(Rule, S09_AnotherStreamsSynchronizationIsMade) {
  const Tally tally("transfer");
  Backlog(a_);
  Backlog(b_);
  OK(CopyUp(device_, source_.data(), kSmall, a_));
  OK(cudaStreamSynchronize(b_));
  EXPECT_EQ(Pending(b_), 0);
  OK(cudaStreamSynchronize(a_));
  EXPECT_EQ(Pending(a_), 0);
  NEVER_DECIDED(tally, "sync.skipped");
}

// The per-thread streams of two threads have one name.
TEST_F(Rule, S09_AnotherThreadsPerThreadStreamIsAnotherOne) {
  const Tally tally("transfer");
  OK(CopyUp(device_, source_.data(), kSmall, cudaStreamPerThread));
  OnAnotherThread([this] {
    Backlog(cudaStreamPerThread);
    EXPECT_EQ(cudaStreamSynchronize(cudaStreamPerThread), cudaSuccess);
    EXPECT_EQ(Pending(cudaStreamPerThread), 0);
  });
  OK(cudaStreamSynchronize(cudaStreamPerThread));
  NEVER_DECIDED(tally, "sync.kept");
}

TEST_F(Rule, S09_TheSynchronizationBehindACopyThatFailedIsMade) {
  const Tally tally("transfer");
  Backlog(a_);
  RETURNS(cudaErrorInvalidValue, CopyUp(nullptr, source_.data(), kSmall, a_));
  OK(cudaStreamSynchronize(a_));
  EXPECT_EQ(Pending(a_), 0);
  (void)cudaGetLastError();
  NEVER_DECIDED(tally, "sync.skipped");
}

// A device-wide wait is no synchronization of the stream.
TEST_F(Rule, S09_ADeviceSynchronizationIsMade) {
  const Tally tally("transfer");
  Backlog(a_);
  OK(CopyUp(device_, source_.data(), kSmall, a_));
  OK(cudaDeviceSynchronize());
  EXPECT_EQ(Pending(a_), 0);
  NEVER_DECIDED(tally, "sync.skipped");
}

}  // namespace
}  // namespace rules
