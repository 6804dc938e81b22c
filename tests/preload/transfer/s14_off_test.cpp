// S14: where blocking is asked for, or pinned memory is something else, the engine is off; and errors are not lost.
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "tests/preload/transfer/rule_test.h"

namespace rules {
namespace {

class Off : public Cold {
 protected:
  void SetUp() override {}
  void PrepareAndWarmUp() {
    Prepare();
    WarmUp();
  }
  void ExpectNothingIsPromoted() {
    const Tally tally("transfer");
    for (const size_t bytes : {kSmall, kLarge}) {
      Backlog(a_);
      CopyAndSynchronize(a_, bytes);
      EXPECT_EQ(Pending(a_), 0);
      EXPECT_TRUE(HoldsOnly(device_, 0x11, bytes));
    }
    NEVER_DECIDED(tally, "h2d.promoted");
    NEVER_DECIDED(tally, "sync.skipped");
  }
};

TEST_F(Off, S14_LaunchBlocking) {
  ASSERT_EQ(setenv("CUDA_LAUNCH_BLOCKING", "1", 1), 0);
  Prepare();
  ExpectNothingIsPromoted();
}

TEST_F(Off, S14_LaunchBlockingSetToZeroIsNothing) {
  ASSERT_EQ(setenv("CUDA_LAUNCH_BLOCKING", "0", 1), 0);
  PrepareAndWarmUp();
  const Tally tally("transfer");
  CopyAndSynchronize(a_);
  OK(cudaDeviceSynchronize());
  DECIDED(tally, "h2d.promoted.small", 1);
}

// The management library of the machine, by its name, is then this one.
TEST_F(Off, S14_ConfidentialComputing) {
  ASSERT_EQ(setenv("FAKE_NVML_CONFIDENTIAL", "1", 1), 0);
  ASSERT_NE(dlopen(FAKE_NVML, RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
  Prepare();
  ExpectNothingIsPromoted();
}

TEST_F(Off, S14_AMachineThatCouldBeConfidentialAndIsNot) {
  ASSERT_EQ(setenv("FAKE_NVML_CONFIDENTIAL", "0", 1), 0);
  ASSERT_NE(dlopen(FAKE_NVML, RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
  PrepareAndWarmUp();
  const Tally tally("transfer");
  CopyAndSynchronize(a_);
  OK(cudaDeviceSynchronize());
  DECIDED(tally, "h2d.promoted.small", 1);
}

// A kernel's fault reaches the program at the next call that waits, at the latest, and stays.
TEST_F(Rule, S14_TheErrorOfEarlierWorkIsNotLost) {
  OK(cudaLaunchKernel(simtest::Address(&simtest::Crash), dim3(1), dim3(1), nullptr, 0, a_));
  const cudaError_t copy = CopyUp(device_, source_.data(), kSmall, a_);
  const cudaError_t wait = cudaStreamSynchronize(a_);
  const cudaError_t device = cudaDeviceSynchronize();
  EXPECT_TRUE(copy == cudaSuccess || copy == cudaErrorIllegalAddress) << copy;
  EXPECT_TRUE(wait == cudaSuccess || wait == cudaErrorIllegalAddress) << wait;
  RETURNS(cudaErrorIllegalAddress, device);
  for (const size_t bytes : {kSmall, kLarge}) {
    RETURNS(cudaErrorIllegalAddress, CopyUp(device_, source_.data(), bytes, a_));
    RETURNS(cudaErrorIllegalAddress, cudaStreamSynchronize(a_));
    RETURNS(cudaErrorIllegalAddress, cudaGetLastError());
  }
}

TEST_F(Rule, S14_AnErrorBehindASkip) {
  DeferOnA();
  OK(cudaLaunchKernel(simtest::Address(&simtest::Crash), dim3(1), dim3(1), nullptr, 0, b_));
  RETURNS(cudaErrorIllegalAddress, cudaDeviceSynchronize());
  RETURNS(cudaErrorIllegalAddress, cudaStreamQuery(a_));
  RETURNS(cudaErrorIllegalAddress, cudaFree(device_));
}

// The first thing that some programs do with a device is to reset it: what was never started is off then, and work on
// host memory goes on without it.
TEST_F(Off, S14_ResetBeforeTheFirstCopy) {
  OK(cudaDeviceReset());
  Prepare();
  OK(cudaMemcpyAsync(pinned_, device_, kSmall, cudaMemcpyDeviceToHost, a_));
  OK(cudaMemsetAsync(pinned_, 1, kSmall, a_));
  OK(cudaLaunchHostFunc(
      a_, [](void*) {}, nullptr));
  OK(cudaDeviceSynchronize());
  EXPECT_EQ(pinned_[0], 1);
}

// A forked child that leaves has none of the threads that its copy of the library may be waiting for.
TEST_F(Off, S53_AForkedChildLeavesWhileMemoryIsBeingPinned) {
  StartWith("SLIPSTREAM_TRANSFER_START", "background");
  Prepare();
  simHoldCalls("cuMemHostRegister_v2");
  OK(CopyUp(device_, source_.data(), kLarge, a_));
  while (Engine() && simHeldCalls() == 0) {
    std::this_thread::yield();
  }
  const pid_t child = fork();
  if (child == 0) {
    std::exit(0);  // with its handlers
  }
  int status = -1;
  const auto deadline = std::chrono::steady_clock::now() + Patience();
  while (waitpid(child, &status, WNOHANG) == 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(status, 0) << "the child hangs";
  kill(child, SIGKILL);
  simReleaseCalls();
  OK(cudaDeviceSynchronize());
}

// Nor does a process wait for a call of the driver that does not come back.
TEST_F(Off, S53_AProcessLeavesThoughPinningHangs) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer starts no thread in a forked child";
#endif
  const char* const seed = std::getenv("SIMCUDA_SEED");
  if (seed != nullptr && std::string(seed) != "0")
    GTEST_SKIP() << "no work that runs in any order, and seconds each time";
  const pid_t child = fork();
  if (child == 0) {
    StartWith("SLIPSTREAM_TRANSFER_START", "background");
    Prepare();
    simHoldCalls("cuMemHostRegister_v2");
    (void)CopyUp(device_, source_.data(), kLarge, a_);
    while (Engine() && simHeldCalls() == 0) {
      std::this_thread::yield();
    }
    std::exit(0);
  }
  pollfd ended = {.fd = static_cast<int>(syscall(SYS_pidfd_open, child, 0)), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&ended, 1, static_cast<int>(std::chrono::milliseconds(Patience()).count())), 1) << "it hangs";
  kill(child, SIGKILL);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  close(ended.fd);
}

// Pinning takes milliseconds, and the driver's locks: it is not the program's thread that does it, nor does that thread
// wait for it.
TEST_F(Off, S55_C17_NoCopyWaitsForMemoryThatIsBeingPinned) {
  StartWith("SLIPSTREAM_TRANSFER_START", "background");
  Prepare();
  const Tally tally("transfer");
  simHoldCalls("cuMemHostRegister_v2");
  OK(CopyUp(device_, source_.data(), kLarge, a_));
  while (Engine() && simHeldCalls() == 0) {
    std::this_thread::yield();
  }
  for (const size_t bytes : {kSmall, kLarge, kHuge}) {
    OK(CopyUp(device_, source_.data(), bytes, a_));
    OK(cudaStreamSynchronize(a_));
    OK(cudaDeviceSynchronize());
    EXPECT_TRUE(HoldsOnly(device_, 0x11, bytes));
  }
  EXPECT_EQ(simHeldCalls(), Engine() ? 1 : 0);
  DECIDED(tally, "h2d.promoted.small", 1);  // which needs none
  NEVER_DECIDED(tally, "h2d.promoted.large");
  simReleaseCalls();
}

// ---- what the policy switches off stays off.
TEST_F(Off, Policy_NoCopies) {
  StartWith("SLIPSTREAM_TRANSFER_H2D", "off");
  StartWith("SLIPSTREAM_TRANSFER_D2H", "off");
  Prepare();
  ExpectNothingIsPromoted();
}
TEST_F(Off, Policy_NoSmallCopies) {
  StartWith("SLIPSTREAM_TRANSFER_SMALL_COPIES", "false");
  PrepareAndWarmUp();
  const Tally tally("transfer");
  CopyAndSynchronize(a_, kSmall);
  EXPECT_EQ(Pending(a_), 0);
  OK(CopyUp(device_, source_.data(), kLarge, a_));
  OK(cudaDeviceSynchronize());
  DECIDED(tally, "h2d.promoted.small", 0);
  DECIDED(tally, "h2d.promoted.large", 1);
}
TEST_F(Off, Policy_NoLargeCopies) {
  StartWith("SLIPSTREAM_TRANSFER_LARGE_COPIES", "false");
  PrepareAndWarmUp();
  const Tally tally("transfer");
  CopyAndSynchronize(a_, kLarge);
  EXPECT_EQ(Pending(a_), 0);
  OK(CopyUp(device_, source_.data(), kSmall, a_));
  OK(cudaDeviceSynchronize());
  DECIDED(tally, "h2d.promoted.small", 1);
  DECIDED(tally, "h2d.promoted.large", 0);
}
TEST_F(Off, Policy_NoSkipping) {
  StartWith("SLIPSTREAM_TRANSFER_SKIP_SYNCHRONIZE", "false");
  PrepareAndWarmUp();
  const Tally tally("transfer");
  CopyAndSynchronize(a_);
  EXPECT_EQ(Pending(a_), 0);
  DECIDED(tally, "h2d.promoted.small", 1);
  DECIDED(tally, "sync.kept.off", 1);
}

}  // namespace
}  // namespace rules
