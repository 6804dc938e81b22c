// S12: all later work runs behind what a synchronization would have waited for.
#include <atomic>

#include "tests/preload/transfer/rule_test.h"

namespace rules {
namespace {

// In each test another thread waits for the later work, so that it is not the payment of what is deferred that brings
// the order.
class LaterWork : public Rule {
 protected:
  void SetUp() override {
    Rule::SetUp();
    source_ = Pattern(kHuge, 6);
    OK(LaunchFill(device_, kHuge, 1, a_));
    OK(LaunchFill(other_, kHuge, 2, a_));
    OK(cudaDeviceSynchronize());
    OK(simQuiesce());
  }
  void SkippedCopy(cudaStream_t stream, size_t bytes = kSmall) {
    const Tally tally("transfer");
    Backlog(stream);
    CopyAndSynchronize(stream, bytes);
    DECIDED(tally, "sync.skipped", 1);
  }
};

TEST_F(LaterWork, S12_AKernelOnAnotherStream) {
  for (const size_t bytes : {kSmall, kLarge, kHuge}) {
    SkippedCopy(a_, bytes);
    OK(LaunchMove(other_, device_, bytes, b_));
    WaitElsewhere(b_);
    EXPECT_TRUE(Holds(other_, source_, bytes)) << bytes;
    OK(cudaDeviceSynchronize());
    OK(LaunchFill(device_, kHuge, 1, a_));
  }
}

TEST_F(LaterWork, S12_AStreamMadeLater) {
  SkippedCopy(a_);
  cudaStream_t later = nullptr;
  OK(cudaStreamCreateWithFlags(&later, cudaStreamNonBlocking));
  OK(LaunchMove(other_, device_, kSmall, later));
  WaitElsewhere(later);
  EXPECT_TRUE(Holds(other_, source_, kSmall));
}

TEST_F(LaterWork, S12_TheLegacyStream) {
  SkippedCopy(a_);
  OK(LaunchMove(other_, device_, kSmall, nullptr));
  WaitElsewhere(nullptr);
  EXPECT_TRUE(Holds(other_, source_, kSmall));
}

TEST_F(LaterWork, S12_ACopyOnTheLegacyStream) {
  SkippedCopy(nullptr);
  OK(LaunchMove(other_, device_, kSmall, b_));
  WaitElsewhere(b_);
  EXPECT_TRUE(Holds(other_, source_, kSmall));
}

TEST_F(LaterWork, S12_AnotherThreadsWork) {
  SkippedCopy(a_);
  OnAnotherThread([this] {
    EXPECT_EQ(LaunchMove(other_, device_, kSmall, cudaStreamPerThread), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(cudaStreamPerThread), cudaSuccess);
  });
  EXPECT_TRUE(Holds(other_, source_, kSmall));
}

TEST_F(LaterWork, S12_ACopyAMemsetAndAGraph) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  OK(cudaStreamBeginCapture(b_, cudaStreamCaptureModeRelaxed));
  OK(LaunchMove(other_, device_, kSmall, b_));
  OK(cudaStreamEndCapture(b_, &graph));
  OK(cudaGraphInstantiate(&exec, graph, 0));
  SkippedCopy(a_);
  OK(cudaGraphLaunch(exec, b_));
  OK(cudaMemcpyAsync(third_, device_, kSmall, cudaMemcpyDeviceToDevice, b_));
  OK(cudaMemsetAsync(device_, 9, kSmall, b_));
  WaitElsewhere(b_);
  EXPECT_TRUE(Holds(other_, source_, kSmall));
  EXPECT_TRUE(Holds(third_, source_, kSmall));
  EXPECT_TRUE(HoldsOnly(device_, 9, kSmall));
}

// A library's launch, which no hook sees.
TEST_F(LaterWork, S12_WorkThatNoHookSees) {
  SkippedCopy(a_);
  size_t bytes = kSmall;
  void* args[] = {&other_, &device_, &bytes};
  OK(simLaunchUnseen(simtest::Address(&simtest::Move), 1, 32, args, b_));
  WaitElsewhere(b_);
  EXPECT_TRUE(Holds(other_, source_, kSmall));
}

// The synchronization waits for the stream's earlier work too, whoever has submitted it.
TEST_F(LaterWork, S12_TheStreamsEarlierWork) {
  Backlog(a_);
  OK(LaunchFill(third_, kSmall, 7, a_));
  CopyAndSynchronize(a_);
  OK(LaunchMove(other_, third_, kSmall, b_));
  WaitElsewhere(b_);
  EXPECT_TRUE(HoldsOnly(other_, 7, kSmall));
}

// A library's launch between the copy and the synchronization: the latter waits for it.
TEST_F(LaterWork, S12_UnseenWorkBetweenTheCopyAndTheSynchronization) {
  Backlog(a_);
  OK(CopyUp(device_, source_.data(), kSmall, a_));
  size_t bytes = kSmall;
  int value = 7;
  void* args[] = {&third_, &bytes, &value};
  OK(simLaunchUnseen(simtest::Address(&simtest::Fill), 1, 32, args, a_));
  OK(cudaStreamSynchronize(a_));
  OK(LaunchMove(other_, third_, kSmall, b_));
  WaitElsewhere(b_);
  EXPECT_TRUE(HoldsOnly(other_, 7, kSmall));
}

TEST_F(LaterWork, S12_SeveralCopiesOnSeveralStreams) {
  cudaStream_t c = nullptr;
  OK(cudaStreamCreateWithFlags(&c, cudaStreamNonBlocking));
  Backlog(a_);
  OK(CopyUp(device_, source_.data(), kSmall, a_));
  OK(cudaStreamSynchronize(a_));
  Backlog(b_);
  OK(CopyUp(device_ + kSmall, source_.data() + kSmall, kSmall, b_));
  OK(cudaStreamSynchronize(b_));
  OK(LaunchMove(other_, device_, 2 * kSmall, c));
  WaitElsewhere(c);
  EXPECT_TRUE(Holds(other_, source_, 2 * kSmall));
}

// ---- contexts and captures
class Contexts : public LaterWork {
 protected:
  // A second device, its stream, and memory of it that reaches the first one's.
  void UseSecondDevice() {
    OK(cudaSetDevice(1));
    OK(cudaMalloc(reinterpret_cast<void**>(&far_), kSmall));
    OK(cudaStreamCreateWithFlags(&far_stream_, cudaStreamNonBlocking));
    OK(cudaDeviceEnablePeerAccess(0, 0));
  }
  void ReadFromSecondDevice() { OK(LaunchMove(far_, device_, kSmall, far_stream_)); }

  uint8_t* far_ = nullptr;
  cudaStream_t far_stream_ = nullptr;
};

TEST_F(Contexts, S12contexts_AnotherDeviceReadsAfterwards) {
  UseSecondDevice();
  OK(cudaSetDevice(0));
  const Tally tally("transfer");
  Backlog(a_);
  CopyAndSynchronize(a_);
  EXPECT_EQ(Pending(a_), 0);
  OK(cudaSetDevice(1));
  ReadFromSecondDevice();
  WaitElsewhere(far_stream_, 1);
  EXPECT_TRUE(Holds(far_, source_, kSmall));
  NEVER_DECIDED(tally, "sync.skipped");
}

TEST_F(Contexts, S12contexts_ASecondContextBetweenTheCopyAndTheSynchronization) {
  const Tally tally("transfer");
  Backlog(a_);
  OK(CopyUp(device_, source_.data(), kSmall, a_));
  OnAnotherThread([this] { UseSecondDevice(); }, 1);
  OK(cudaStreamSynchronize(a_));
  EXPECT_EQ(Pending(a_), 0);
  OnAnotherThread(
      [this] {
        ReadFromSecondDevice();
        EXPECT_EQ(cudaStreamSynchronize(far_stream_), cudaSuccess);
      },
      1);
  EXPECT_TRUE(Holds(far_, source_, kSmall));
  DECIDED(tally, "sync.kept.contexts", 1);
}

// Made by a call of the driver's that no hook sees; the engine meets it at a copy.
TEST_F(Contexts, S12contexts_AContextOfTheProgramsOwnAfterASkip) {
  SkippedCopy(a_);
  OnAnotherThread([this] {
    CUcontext own = nullptr;
    CUdeviceptr memory = 0;
    OK(cuCtxCreate_v4(&own, nullptr, 0, 0));
    OK(cuMemAlloc_v2(&memory, kSmall));
    OK(CopyUp(reinterpret_cast<void*>(memory), source_.data(), kSmall, nullptr));
    EXPECT_EQ(Pending(a_), 0);  // what was deferred is settled
    OK(cuMemFree_v2(memory));
    OK(cuCtxDestroy_v2(own));
  });
  const Tally tally("transfer");
  Backlog(a_);
  CopyAndSynchronize(a_);
  EXPECT_EQ(Pending(a_), 0);
  DECIDED(tally, "sync.kept.contexts", 1);
}

// Through host memory, in the second device's own stream order, and waited for: only the skipping is the first one's.
TEST_F(Contexts, S12contexts_CopiesOfTheSecondDeviceAreStaged) {
  UseSecondDevice();
  uint8_t* memory = nullptr;
  OK(cudaMalloc(reinterpret_cast<void**>(&memory), kHuge));
  const Tally tally("transfer");
  for (const size_t bytes : {kSmall, kLarge, kHuge}) {
    OK(LaunchFill(memory, kHuge, 3, far_stream_));
    OK(CopyUp(memory, source_.data(), bytes, far_stream_));
    OK(LaunchFill(memory + bytes / 2, 1, static_cast<uint8_t>(source_[bytes / 2] + 1), far_stream_));
    OK(cudaStreamSynchronize(far_stream_));
    EXPECT_EQ(Pending(far_stream_), 0);
    std::vector<uint8_t> back(bytes);
    OK(cudaMemcpyAsync(back.data(), memory, bytes, cudaMemcpyDeviceToHost, far_stream_));
    EXPECT_NE(back[bytes / 2], source_[bytes / 2]) << "the kernel behind the copy came first";
    back[bytes / 2] = source_[bytes / 2];
    EXPECT_TRUE(std::equal(back.begin(), back.end(), source_.begin())) << bytes;
    OK(cudaMemcpy(memory, source_.data(), bytes, cudaMemcpyHostToDevice));
    OK(cudaDeviceSynchronize());  // it may return when the source has been read
    EXPECT_TRUE(Holds(memory, source_, bytes)) << bytes;
  }
  DECIDED(tally, "h2d.promoted.small", 2);
  DECIDED(tally, "h2d.promoted.large", 2);
  DECIDED(tally, "sync.kept.contexts", 2);  // those in cudaMemcpy; behind a kernel a synchronization is always made
  DECIDED(tally, "d2h.promoted", 1);
  // Only the first device has staging memory for copies of more than 2 MiB.
  DECIDED(tally, "h2d.declined.device", 2);
  DECIDED(tally, "d2h.declined.device", 1);
  NEVER_DECIDED(tally, "sync.skipped");
  NEVER_DECIDED(tally, "h2d.ahead");
}

// They have one name, and no order.
TEST_F(Contexts, S12contexts_DefaultStreamsOfTwoDevicesShareNoStagingMemory) {
  UseSecondDevice();
  OK(cudaSetDevice(0));
  Backlog(nullptr);
  OK(CopyUp(device_, source_.data(), kLarge, nullptr));
  OK(cudaSetDevice(1));
  const std::vector<uint8_t> others = Pattern(kLarge, 77);
  uint8_t* far = nullptr;
  OK(cudaMalloc(reinterpret_cast<void**>(&far), kLarge));
  // More than a segment of staging memory holds.
  for (size_t bytes = 0; bytes < 40 * kMiB; bytes += kLarge) {
    OK(CopyUp(far, others.data(), kLarge, nullptr));
    OK(cudaStreamSynchronize(nullptr));
  }
  OK(cudaSetDevice(0));
  OK(cudaStreamSynchronize(nullptr));
  EXPECT_TRUE(Holds(device_, source_, kLarge));
}

// The second context is made when something is already deferred.
TEST_F(Contexts, S12contexts_ASecondContextAfterASkip) {
  SkippedCopy(a_);
  UseSecondDevice();
  ReadFromSecondDevice();
  WaitElsewhere(far_stream_, 1);
  EXPECT_TRUE(Holds(far_, source_, kSmall));
}

TEST_F(Contexts, S12contexts_AnotherThreadsSecondContextAfterASkip) {
  SkippedCopy(a_);
  OnAnotherThread(
      [this] {
        UseSecondDevice();
        ReadFromSecondDevice();
        EXPECT_EQ(cudaStreamSynchronize(far_stream_), cudaSuccess);
      },
      1);
  EXPECT_TRUE(Holds(far_, source_, kSmall));
}

// Copies in a context that is not the first one's go their own way.
TEST_F(Contexts, S12contexts_AContextOfTheProgramsOwn) {
  CUcontext own = nullptr;
  OK(cuCtxCreate_v4(&own, nullptr, 0, 0));
  void* memory = nullptr;
  cudaStream_t stream = nullptr;
  OK(cudaMalloc(&memory, kSmall));
  OK(cudaStreamCreate(&stream));
  const Tally tally("transfer");
  OK(CopyUp(memory, source_.data(), kSmall, stream));
  OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(Pending(stream), 0);
  EXPECT_TRUE(Holds(memory, source_, kSmall));
  DECIDED(tally, "h2d.declined.context", 1);
  OK(cuCtxDestroy(own));
}

// A capture begins between a thread's copy and its synchronization. CUDA allows that, and it must not be broken.
TEST_F(Contexts, S12contexts_ACaptureBegunBetweenTheCopyAndTheSynchronization) {
  const Tally tally("transfer");
  Backlog(b_);
  OK(CopyUp(device_, source_.data(), kSmall, b_));
  std::atomic<int> step{0};
  std::thread capturer([&] {
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(cudaStreamBeginCapture(a_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    step = 1;
    while (step != 2) {
      std::this_thread::yield();
    }
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(a_, &graph), cudaSuccess);
  });
  while (step != 1) {
    std::this_thread::yield();
  }
  EXPECT_EQ(cudaStreamSynchronize(b_), cudaSuccess);
  EXPECT_EQ(Pending(b_), 0);
  step = 2;
  capturer.join();
  EXPECT_TRUE(Holds(device_, source_, kSmall));
  DECIDED(tally, "sync.kept.capture", 1);
}

}  // namespace
}  // namespace rules
