// S30: memory that is freed is handed out again only behind everything that was submitted before.
#include <future>
#include <thread>
#include <vector>

#include "tests/preload/allocator/pool_test.h"

namespace rules {
namespace {

class Order : public Pool {
 protected:
  // A wait of the device stands for a free's only where there is no other device.
  explicit Order(const char* devices = "1") { StartWith("SIMCUDA_DEVICES", devices); }
  // The program frees `old`, on which work is pending, and gets memory of the same size, which it uses at once on a
  // stream that nothing orders behind that work.
  void ReuseOn(cudaStream_t stream, uint8_t* old) {
    OK(cudaFree(old));
    uint8_t* const fresh = Malloc(kBlock);
    OK(cudaMemsetAsync(fresh, 0x22, kBlock, stream));
    OK(cudaStreamSynchronize(stream));
    OK(simQuiesce());
    EXPECT_TRUE(HoldsOnly(fresh, 0x22, kBlock));
  }
};

TEST_F(Order, S30_PendingOnAnotherStream) {
  uint8_t* const old = Malloc(kBlock);
  Backlog(a_);
  OK(LaunchFill(old, kBlock, 0x11, a_));
  const Tally tally("allocator");
  ReuseOn(b_, old);
  PARKED(tally, 1);
}

TEST_F(Order, S30_PendingOnTheLegacyStream) {
  uint8_t* const old = Malloc(kBlock);
  Backlog(nullptr);
  OK(LaunchFill(old, kBlock, 0x11, nullptr));
  ReuseOn(b_, old);
}

TEST_F(Order, S30_PendingFromAnotherThread) {
  uint8_t* const old = Malloc(kBlock);
  OnAnotherThread([&] {
    Backlog(a_);
    OK(LaunchFill(old, kBlock, 0x11, a_));
  });
  ReuseOn(b_, old);
}

// As a library with a runtime of its own launches: no hook sees it.
TEST_F(Order, S30_PendingUnseen) {
  uint8_t* old = Malloc(kBlock);
  Backlog(a_);
  size_t bytes = kBlock;
  int value = 0x11;
  void* arguments[] = {&old, &bytes, &value};
  OK(simLaunchUnseen(simtest::Address(&simtest::Fill), 1, 1, arguments, a_));
  ReuseOn(b_, old);
}

TEST_F(Order, S30_PendingInAGraph) {
  uint8_t* const old = Malloc(kBlock);
  OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeRelaxed));
  OK(LaunchFill(old, kBlock, 0x11, a_));
  cudaGraph_t graph = nullptr;
  OK(cudaStreamEndCapture(a_, &graph));
  cudaGraphExec_t executable = nullptr;
  OK(cudaGraphInstantiate(&executable, graph, 0));
  Backlog(a_);
  OK(cudaGraphLaunch(executable, a_));
  ReuseOn(b_, old);
}

// Freed by one thread, wanted by another, which uses it on its own stream.
TEST_F(Order, S30_WantedByAnotherThread) {
  uint8_t* const old = Malloc(kBlock);
  Backlog(a_);
  OK(LaunchFill(old, kBlock, 0x11, a_));
  OK(cudaFree(old));
  OnAnotherThread([&] {
    uint8_t* const fresh = Malloc(kBlock);
    OK(cudaMemsetAsync(fresh, 0x22, kBlock, b_));
    OK(cudaStreamSynchronize(b_));
    OK(simQuiesce());
    EXPECT_TRUE(HoldsOnly(fresh, 0x22, kBlock));
  });
}

// What the memory held when it was freed is nobody's business, but what is submitted before the free still reads it.
TEST_F(Order, S30_PendingReader) {
  uint8_t* const old = Malloc(kBlock);
  uint8_t* const copy = Malloc(kBlock);
  OK(cudaMemset(old, 0x33, kBlock));
  OK(cudaDeviceSynchronize());
  Backlog(a_);
  OK(cudaMemcpyAsync(copy, old, kBlock, cudaMemcpyDeviceToDevice, a_));
  ReuseOn(b_, old);
  EXPECT_TRUE(HoldsOnly(copy, 0x33, kBlock));
}

TEST_F(Order, S30_ReusedWhenThereIsNothingToWaitFor) {
  uint8_t* const old = Malloc(kBlock);
  OK(cudaMemset(old, 1, kBlock));
  OK(cudaDeviceSynchronize());
  const Tally tally("allocator");
  FreeWhenIdle(old);
  (void)Malloc(kBlock);
  DECIDED(tally, "parked", 1);
  DECIDED(tally, "reused", 1);
}

// The driver has no other memory: what is pending on the block stays in front of its new owner's work.
TEST_F(Order, S30wait_NothingElseIsLeft) {
  uint8_t* const old = Malloc(kBlock);
  LeaveFree(kBlock / 2);
  Backlog(a_);
  OK(LaunchFill(old, kBlock, 0x11, a_));
  const Tally tally("allocator");
  ReuseOn(b_, old);
  DECIDED(tally, "reused.behind", 1);
}

TEST_F(Order, S30wait_OnAStreamThatIsMadeLater) {
  uint8_t* const old = Malloc(kBlock);
  LeaveFree(kBlock / 2);
  Backlog(a_);
  OK(LaunchFill(old, kBlock, 0x11, a_));
  OK(cudaFree(old));
  uint8_t* const fresh = Malloc(kBlock);
  cudaStream_t late = nullptr;
  OK(cudaStreamCreateWithFlags(&late, cudaStreamNonBlocking));
  OK(cudaMemsetAsync(fresh, 0x22, kBlock, late));
  OK(cudaStreamSynchronize(late));
  OK(simQuiesce());
  EXPECT_TRUE(HoldsOnly(fresh, 0x22, kBlock));
}

// A wait of the device would hold the other thread's work, too: the driver gets the block back, which waits on the host
// as the program's free would have.
TEST_F(Order, S65_NothingElseIsLeftBesideAThreadWithWorkOfItsOwn) {
  uint8_t* const old = Malloc(kBlock);
  LeaveFree(kBlock / 2);
  std::promise<void> submitted;
  std::promise<void> over;
  std::thread beside([&] {
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(LaunchFill(scratch_, 64, 1, b_), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(b_), cudaSuccess);
    submitted.set_value();
    over.get_future().wait();
  });
  submitted.get_future().wait();
  Backlog(a_);
  OK(LaunchFill(old, kBlock, 0x11, a_));
  const Tally tally("allocator");
  OK(cudaFree(old));
  (void)Malloc(kBlock);
  EXPECT_EQ(Pending(a_), 0);
  DECIDED(tally, "reused.behind", 0);
  DECIDED_AT_LEAST(tally, "reclaimed", 1);
  over.set_value();
  beside.join();
}

// The importer's work is behind no wait of this process's.
TEST_F(Order, S33_NothingIsPendingOnWhatIsExported) {
  uint8_t* const old = Malloc(kBlock);
  LeaveFree(kBlock / 2);
  Backlog(a_);
  OK(LaunchFill(old, kBlock, 0x11, a_));
  const Tally tally("allocator");
  OK(cudaFree(old));
  uint8_t* const fresh = Malloc(kBlock);
  DECIDED(tally, "reused.behind", 1);
  cudaIpcMemHandle_t handle;
  OK(cudaIpcGetMemHandle(&handle, fresh));
  EXPECT_EQ(Pending(a_), 0);
}

class TwoDevices : public Order {
 protected:
  TwoDevices() : Order("2") {}
  void SetUp() override {
    Order::SetUp();
    OK(cudaSetDevice(1));
    theirs_ = Malloc(kBlock);
    OK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    OK(cudaMemset(theirs_, 0x11, kBlock));
    OK(cudaDeviceSynchronize());
  }
  // A copy from device 1 that is pending on a stream of that device.
  void PendingCopyTo(uint8_t* memory) {
    OK(cudaSetDevice(1));
    for (int i = 0; i < 64; ++i) {
      OK(cudaMemsetAsync(theirs_, 0x11, kBlock, stream_));
    }
    OK(cudaMemcpyPeerAsync(memory, 0, theirs_, 1, kBlock, stream_));
    OK(cudaSetDevice(0));
  }
  uint8_t* Here(size_t bytes) {
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    return Malloc(bytes);
  }

  uint8_t* theirs_ = nullptr;
  cudaStream_t stream_ = nullptr;  // of device 1
};

// The driver's own free does not wait for a copy on a stream of the other device (measured), so no program may count on
// it; the pool is stricter.
TEST_F(TwoDevices, S30access_PendingOnAnotherDevice) {
  if (std::getenv("SLIPSTREAM_ALLOCATOR_MODE") == nullptr) GTEST_SKIP() << "the driver waits for its own device only";
  uint8_t* const old = Here(kBlock);
  PendingCopyTo(old);
  const Tally tally("allocator");
  OK(cudaFree(old));
  PARKED(tally, 1);
  // Several: whoever asks often enough finds that its own device is done.
  std::vector<uint8_t*> fresh;
  for (int i = 0; i < 4; ++i) {
    fresh.push_back(Malloc(kBlock));
    OK(cudaMemsetAsync(fresh.back(), 0x22, kBlock, b_));
    OK(cudaStreamSynchronize(b_));
  }
  OK(simQuiesce());
  for (const uint8_t* block : fresh) EXPECT_TRUE(HoldsOnly(block, 0x22, kBlock));
}

// Nothing holds work of one device behind the other's, or what the other waits for would never come: the driver gets
// the block back, which waits on the host as the program's free would have.
TEST_F(TwoDevices, S30access_NothingElseIsLeft) {
  uint8_t* const old = Here(kBlock);
  LeaveFree(kBlock / 2);
  Backlog(a_);
  OK(LaunchFill(old, kBlock, 0x11, a_));
  OK(cudaSetDevice(1));
  for (int i = 0; i < 64; ++i) {
    OK(cudaMemsetAsync(theirs_, 0x11, kBlock, stream_));
  }
  OK(cudaSetDevice(0));
  const Tally tally("allocator");
  const int theirs = Pending(stream_);
  ReuseOn(b_, old);
  DECIDED(tally, "reused.behind", 0);
  DECIDED_AT_LEAST(tally, "reclaimed", 1);
  EXPECT_GT(theirs, 0);
}

TEST_F(TwoDevices, S30access_AFreeWaitsForNothingOfTheOtherDevice) {
  uint8_t* const old = Here(kBlock);
  uint8_t* pinned = nullptr;
  OK(cudaMallocHost(reinterpret_cast<void**>(&pinned), kBlock));
  OK(cudaSetDevice(1));
  for (int i = 0; i < 64; ++i) {
    OK(cudaMemsetAsync(theirs_, 0x11, kBlock, stream_));
  }
  OK(cudaMemcpyAsync(pinned, theirs_, kBlock, cudaMemcpyDeviceToHost, stream_));
  OK(cudaSetDevice(0));
  const int before = Pending(stream_);
  const Tally tally("allocator");
  OK(cudaFree(old));
  EXPECT_GT(before, 8);
  EXPECT_GT(Pending(stream_), before - 8) << "a kernel there may wait for what this thread submits next";
  PARKED(tally, 1);
}

}  // namespace
}  // namespace rules

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  rules::LimitTime();
  return RUN_ALL_TESTS();
}
