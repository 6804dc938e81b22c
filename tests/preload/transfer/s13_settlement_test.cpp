// S13: what is deferred is settled by the thread that has deferred it, before anything that could show the
// difference.
#include <cuda_profiler_api.h>

#include <future>
#include <thread>

#include "tests/preload/transfer/rule_test.h"

namespace rules {
namespace {

class Settlement : public Rule {
 protected:
  // After `call` all that the synchronization had to wait for is done.
  void SettledBy(const char* decision, const std::function<cudaError_t()>& call) {
    DeferOnA();
    const Tally tally("transfer");
    RETURNS(cudaSuccess, call());
    EXPECT_EQ(Pending(a_), 0);
    EXPECT_TRUE(HoldsOnly(device_, 0x11, kSmall));
    DECIDED(tally, decision, 1);
  }
  void NotSettledBy(const std::function<cudaError_t()>& call) {
    DeferOnA();
    const Tally tally("transfer");
    RETURNS(cudaSuccess, call());
    NEVER_DECIDED(tally, "sync.settled");
    OK(cudaDeviceSynchronize());
    EXPECT_EQ(Pending(a_), 0);
  }
};

// ---- synchronizations
TEST_F(Settlement, S13_ADeviceSynchronization) {
  SettledBy("sync.settled.synchronize", [] { return cudaDeviceSynchronize(); });
}
TEST_F(Settlement, S13_TheStreamsNextSynchronization) {
  SettledBy("sync.settled.synchronize", [this] { return cudaStreamSynchronize(a_); });
}
TEST_F(Settlement, S13_AnotherStreamsSynchronization) {
  SettledBy("sync.settled.synchronize", [this] { return cudaStreamSynchronize(b_); });
}
TEST_F(Settlement, S13_AnEventSynchronization) {
  cudaEvent_t event = nullptr;
  OK(cudaEventCreate(&event));
  OK(cudaEventRecord(event, b_));
  SettledBy("sync.settled.synchronize", [event] { return cudaEventSynchronize(event); });
}

TEST_F(Settlement, S13_AWaitThatIsStillDueSaysThatTheThreadRanOn) {
  DeferOnA();
  const Tally tally("transfer");
  OK(cudaDeviceSynchronize());
  DECIDED(tally, "sync.ran_on", 1);
}
TEST_F(Settlement, S13_OneThatIsOverSaysNothing) {
  DeferOnA();
  const Tally tally("transfer");
  OK(simQuiesce());
  OK(cudaDeviceSynchronize());
  DECIDED(tally, "sync.ran_on", 0);
}

// ---- blocking copies and memsets
TEST_F(Settlement, S13_ABlockingCopyToTheHost) {
  std::vector<uint8_t> back(16);
  SettledBy("sync.settled.copy", [&] { return cudaMemcpy(back.data(), other_, 16, cudaMemcpyDeviceToHost); });
}
// One from pageable memory is promoted, and has deferred in its turn (blocking_copy_test.cpp).
TEST_F(Settlement, S13_ABlockingCopyToTheDevice) {
  SettledBy("sync.settled.copy", [this] { return cudaMemcpy(other_, pinned_, 16, cudaMemcpyHostToDevice); });
}
TEST_F(Settlement, S13_ABlocking2DCopy) {
  std::vector<uint8_t> back(64);
  SettledBy("sync.settled.copy", [&] { return cudaMemcpy2D(back.data(), 8, other_, 8, 8, 8, cudaMemcpyDeviceToHost); });
}
TEST_F(Settlement, S13_AnAsynchronousCopyToPageableMemory) {
  std::vector<uint8_t> back(16);
  SettledBy("sync.settled.copy", [&] { return cudaMemcpyAsync(back.data(), other_, 16, cudaMemcpyDeviceToHost, b_); });
}
TEST_F(Settlement, S13_WhatASecondThreadReadsIsThere) {
  DeferOnA();
  std::vector<uint8_t> back(kSmall);
  OnAnotherThread(
      [&] { EXPECT_EQ(cudaMemcpyAsync(back.data(), device_, kSmall, cudaMemcpyDeviceToHost, b_), cudaSuccess); });
  EXPECT_EQ(back, std::vector<uint8_t>(kSmall, 0x11));
}
TEST_F(Settlement, S13_TwoStreamsAreBothPaid) {
  DeferOnA();
  Backlog(b_);
  CopyAndSynchronize(b_);
  OK(cudaDeviceSynchronize());
  EXPECT_EQ(Pending(a_) + Pending(b_), 0);
}
TEST_F(Settlement, S13_ManyStreamsAreAllPaid) {
  std::vector<cudaStream_t> streams(20);
  for (cudaStream_t& stream : streams) {
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    Backlog(stream, 8);
    CopyAndSynchronize(stream);
  }
  OK(cudaStreamSynchronize(b_));
  for (const cudaStream_t stream : streams) {
    EXPECT_EQ(Pending(stream), 0);
  }
}

// ---- frees, exports, captures, resets, profilers
TEST_F(Settlement, S13free_AFree) {
  SettledBy("sync.settled.free", [this] { return cudaFree(third_); });
}
TEST_F(Settlement, S13free_AFreeOfPoolMemory) {
  void* block = nullptr;
  OK(cudaMallocAsync(&block, kSmall, b_));
  OK(cudaStreamSynchronize(b_));
  SettledBy("sync.settled.free", [block] { return cudaFree(block); });
}
TEST_F(Settlement, S13free_AFreeOfPinnedMemory) {
  SettledBy("sync.settled.free", [this] { return cudaFreeHost(pinned_); });
}
TEST_F(Settlement, S13free_AnUnregistration) {
  std::vector<uint8_t> registered(kSmall);
  OK(cudaHostRegister(registered.data(), kSmall, 0));
  SettledBy("sync.settled.free", [&] { return cudaHostUnregister(registered.data()); });
}
TEST_F(Settlement, S13free_ExportedMemory) {
  cudaIpcMemHandle_t handle;
  SettledBy("sync.settled.share", [&] { return cudaIpcGetMemHandle(&handle, device_); });
}
TEST_F(Settlement, S13free_AnExportedEvent) {
  cudaEvent_t event = nullptr;
  OK(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming));
  cudaIpcEventHandle_t handle;
  SettledBy("sync.settled.share", [&] { return cudaIpcGetEventHandle(&handle, event); });
}
TEST_F(Settlement, S13free_AnExportedPool) {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  properties.location.type = cudaMemLocationTypeDevice;
  cudaMemPool_t pool = nullptr;
  OK(cudaMemPoolCreate(&pool, &properties));
  int file = -1;
  SettledBy("sync.settled.share",
            [&] { return cudaMemPoolExportToShareableHandle(&file, pool, cudaMemHandleTypePosixFileDescriptor, 0); });
}
TEST_F(Settlement, S13free_ACapture) {
  SettledBy("sync.settled.capture", [this] { return cudaStreamBeginCapture(b_, cudaStreamCaptureModeRelaxed); });
  cudaGraph_t graph = nullptr;
  OK(cudaStreamEndCapture(b_, &graph));
}
// A kernel in front of the copy may still use them.
TEST_F(Settlement, S13free_ATexture) {
  SettledBy("sync.settled.free", [] { return cudaDestroyTextureObject(0x100); });
}
TEST_F(Settlement, S13free_ASurface) {
  SettledBy("sync.settled.free", [] { return cudaDestroySurfaceObject(0x100); });
}
TEST_F(Settlement, S13free_ALibraryOfCode) {
  cudaLibrary_t library = nullptr;
  OK(cudaLibraryLoadData(&library, ".version 8.0", nullptr, nullptr, 0, nullptr, nullptr, 0));
  SettledBy("sync.settled.free", [library] { return cudaLibraryUnload(library); });
}
TEST_F(Settlement, S13free_AProfilersStop) {
  SettledBy("sync.settled.profiler", [] { return cudaProfilerStop(); });
}
TEST_F(Settlement, S13free_AReset) {
  DeferOnA();
  const Tally tally("transfer");
  OK(cudaDeviceReset());
  DECIDED(tally, "sync.settled.reset", 1);
  // A new life.
  OK(cudaMalloc(reinterpret_cast<void**>(&device_), kSmall));
  OK(cudaStreamCreate(&a_));
  CopyAndSynchronize(a_);
  OK(cudaDeviceSynchronize());
  EXPECT_TRUE(HoldsOnly(device_, 0x11, kSmall));
}

TEST_F(Settlement, S13free_DestroyingAndFreeingInStreamOrderDoNotPay) {
  cudaEvent_t event = nullptr;
  OK(cudaEventCreate(&event));
  void* block = nullptr;
  OK(cudaMallocAsync(&block, kSmall, b_));
  NotSettledBy([event] { return cudaEventDestroy(event); });
  NotSettledBy([this, block] { return cudaFreeAsync(block, b_); });
  NotSettledBy([this] { return cudaStreamDestroy(b_); });
}
TEST_F(Settlement, S13free_AStreamMayBeDestroyedWhileItOwes) {
  DeferOnA();
  OK(cudaStreamDestroy(a_));
  OK(cudaDeviceSynchronize());
  EXPECT_TRUE(HoldsOnly(device_, 0x11, kSmall));
  // Its handle may come back.
  OK(cudaStreamCreateWithFlags(&a_, cudaStreamNonBlocking));
  DeferOnA();
  OK(cudaStreamQuery(a_));
}

// ---- queries
TEST_F(Settlement, S13query_TheStreamIsDone) {
  DeferOnA();
  const Tally tally("transfer");
  RETURNS(cudaSuccess, cudaStreamQuery(a_));
  EXPECT_EQ(Pending(a_), 0);
  DECIDED(tally, "sync.settled.query", 1);
}
TEST_F(Settlement, S13query_AnEventRecordedBeforeIsDone) {
  cudaEvent_t event = nullptr;
  OK(cudaEventCreate(&event));
  Backlog(a_);
  OK(cudaEventRecord(event, a_));
  DeferOnA();
  const Tally tally("transfer");
  RETURNS(cudaSuccess, cudaEventQuery(event));
  DECIDED(tally, "sync.settled.query", 1);
}
TEST_F(Settlement, S13query_TheTimeBetweenEventsRecordedBeforeIsKnown) {
  cudaEvent_t start = nullptr;
  cudaEvent_t end = nullptr;
  OK(cudaEventCreate(&start));
  OK(cudaEventCreate(&end));
  OK(cudaEventRecord(start, a_));
  Backlog(a_);
  OK(cudaEventRecord(end, a_));
  DeferOnA();
  float ms = -1;
  RETURNS(cudaSuccess, cudaEventElapsedTime(&ms, start, end));
  EXPECT_GE(ms, 0.0F);
}
// The deferred part does not contain it, so its answer is the driver's, and nobody waits.
TEST_F(Settlement, S13query_AnEventRecordedAfterwardsIsTheDriversToAnswer) {
  cudaEvent_t event = nullptr;
  OK(cudaEventCreate(&event));
  DeferOnA();
  Backlog(a_);
  OK(cudaEventRecord(event, a_));
  const Tally tally("transfer");
  RETURNS(cudaErrorNotReady, cudaEventQuery(event));
  (void)cudaGetLastError();
  DECIDED(tally, "sync.settled.query", 0);
}
TEST_F(Settlement, S13query_AThreadThatOwesOnAnotherStream) {
  DeferOnA();
  Backlog(b_);
  const cudaError_t answer = cudaStreamQuery(b_);  // behind what is deferred, and not done either
  EXPECT_TRUE(answer == cudaSuccess || answer == cudaErrorNotReady) << answer;
  (void)cudaGetLastError();
  RETURNS(cudaSuccess, cudaStreamQuery(a_));
}

// Another thread's capture does not change what a stream says that this thread has synchronized.
TEST_F(Settlement, S13query_DuringAnotherThreadsCapture) {
  DeferOnA();
  OnAnotherThread([this] { OK(cudaStreamBeginCapture(b_, cudaStreamCaptureModeRelaxed)); });
  RETURNS(cudaSuccess, cudaStreamQuery(a_));
  cudaGraph_t graph = nullptr;
  OK(cudaStreamEndCapture(b_, &graph));
}

// ---- the end of a thread
// What is settled there must not break the capture that another thread has begun meanwhile.
TEST_F(Settlement, S13thread_DuringAGlobalCapture) {
  std::promise<void> owes;
  std::promise<void> captures;
  std::thread owing([&] {
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    DeferOnA();
    owes.set_value();
    captures.get_future().wait();
  });
  owes.get_future().wait();
  const cudaError_t begun = cudaStreamBeginCapture(b_, cudaStreamCaptureModeGlobal);
  captures.set_value();
  owing.join();
  EXPECT_EQ(Pending(a_), 0);
  OK(begun);
  cudaGraph_t graph = nullptr;
  OK(cudaStreamEndCapture(b_, &graph));
}
TEST_F(Settlement, S13thread_AThreadsEnd) {
  const Tally tally("transfer");
  OnAnotherThread([this] { DeferOnA(); });
  EXPECT_EQ(Pending(a_), 0);
  RETURNS(cudaSuccess, cudaStreamQuery(a_));
  EXPECT_TRUE(HoldsOnly(device_, 0x11, kSmall));
  DECIDED(tally, "sync.settled.thread_exit", 1);
}
TEST_F(Settlement, S13thread_AThreadThatOwesOnManyStreams) {
  OnAnotherThread([this] {
    DeferOnA();
    Backlog(b_);
    CopyAndSynchronize(b_);
  });
  EXPECT_EQ(Pending(a_) + Pending(b_), 0);
}

}  // namespace
}  // namespace rules
