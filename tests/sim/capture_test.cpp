// Stream capture: what a capture survives and what invalidates it. The tables were measured on an H200 (driver 580,
// CUDA 13.0).
#include <functional>
#include <thread>

#include "tests/sim/sim_test.h"

namespace simtest {
namespace {

class CaptureTest : public Sim {
 protected:
  void SetUp() override {
    Sim::SetUp();
    OK(cudaStreamCreate(&blocking_));
    OK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    OK(cudaEventRecord(event_, b_));
    OK(cuCtxGetCurrent(&context_));
    OK(cudaDeviceSynchronize());
  }
  static cudaStreamCaptureStatus Status(cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    EXPECT_EQ(cudaStreamIsCapturing(stream, &status), cudaSuccess);
    return status;
  }
  static cudaError_t End(cudaStream_t stream) {
    cudaGraph_t graph = nullptr;
    const cudaError_t result = cudaStreamEndCapture(stream, &graph);
    if (graph != nullptr) {
      EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    }
    return result;
  }
  // The call during a capture of `stream`: its result, and whether the capture was still active after it.
  struct Outcome {
    int result;
    bool survived;
    bool operator==(const Outcome&) const = default;
  };
  Outcome During(cudaStream_t stream, cudaStreamCaptureMode mode, bool other_thread, const std::function<int()>& call) {
    EXPECT_EQ(cudaStreamBeginCapture(stream, mode), cudaSuccess);
    int result = -1;
    if (other_thread) {
      std::thread([&result, &call] {
        cudaSetDevice(0);
        result = call();
      }).join();
    } else {
      result = call();
    }
    const bool survived = Status(stream) == cudaStreamCaptureStatusActive;
    EXPECT_EQ(End(stream), survived ? cudaSuccess : cudaErrorStreamCaptureInvalidated);
    cudaGetLastError();
    return {result, survived};
  }

  cudaStream_t blocking_ = nullptr;
  cudaEvent_t event_ = nullptr;
  CUcontext context_ = nullptr;
};

constexpr cudaStreamCaptureMode kModes[] = {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                                            cudaStreamCaptureModeRelaxed};

TEST_F(CaptureTest, UnsafeCallsAreRefusedByModeAndThread) {
  void* block = nullptr;
  const std::vector<std::pair<const char*, std::function<int()>>> calls = {
      {"cudaMalloc", [&block] { return cudaMalloc(&block, 64); }},
      {"cudaMallocHost", [&block] { return cudaMallocHost(&block, 64); }},
      {"cudaMallocManaged", [&block] { return cudaMallocManaged(&block, 64, cudaMemAttachGlobal); }},
      {"cudaFree(NULL)", [] { return cudaFree(nullptr); }},
      {"cudaFreeHost(NULL)", [] { return cudaFreeHost(nullptr); }},
      {"cudaEventQuery", [this] { return cudaEventQuery(event_); }},
      {"cudaEventSynchronize", [this] { return cudaEventSynchronize(event_); }},
      {"cudaStreamQuery of another", [this] { return cudaStreamQuery(b_); }},
      {"cudaStreamSynchronize of another", [this] { return cudaStreamSynchronize(b_); }},
  };
  for (const auto& [name, call] : calls) {
    for (const bool other : {false, true}) {
      const Outcome refused = {cudaErrorStreamCaptureUnsupported, false};
      const Outcome fine = {cudaSuccess, true};
      EXPECT_EQ(During(a_, cudaStreamCaptureModeGlobal, other, call), refused) << name << other;
      EXPECT_EQ(During(a_, cudaStreamCaptureModeThreadLocal, other, call), other ? fine : refused) << name << other;
      EXPECT_EQ(During(a_, cudaStreamCaptureModeRelaxed, other, call), fine) << name << other;
    }
  }
}

TEST_F(CaptureTest, SafeCallsAreFineInEveryMode) {
  size_t bytes = 0;
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  cudaIpcMemHandle_t handle;
  for (const auto mode : kModes) {
    EXPECT_TRUE(During(a_, mode, false, [&] { return cudaMemGetInfo(&bytes, &bytes); }).survived);
    EXPECT_TRUE(During(a_, mode, false, [&] { return cudaStreamCreate(&stream); }).survived);
    EXPECT_TRUE(During(a_, mode, false, [&] { return cudaStreamDestroy(stream); }).survived);
    EXPECT_TRUE(During(a_, mode, false, [&] { return cudaEventCreate(&event); }).survived);
    EXPECT_TRUE(During(a_, mode, false, [&] { return cudaIpcGetMemHandle(&handle, device_); }).survived);
    EXPECT_TRUE(During(a_, mode, false, [&] { return cudaMemsetAsync(device_, 0, 1, b_); }).survived);
  }
}

TEST_F(CaptureTest, SynchronizingWhatCapturesIsRefusedInEveryMode) {
  const Outcome refused = {cudaErrorStreamCaptureUnsupported, false};
  for (const auto mode : kModes) {
    for (const bool other : {false, true}) {
      EXPECT_EQ(During(a_, mode, other, [this] { return cudaStreamQuery(a_); }), refused);
      EXPECT_EQ(During(a_, mode, other, [this] { return cudaStreamSynchronize(a_); }), refused);
      EXPECT_EQ(During(a_, mode, other, [] { return cudaDeviceSynchronize(); }), refused);
      EXPECT_EQ(During(a_, mode, other, [this] { return static_cast<int>(cuCtxRecordEvent(context_, event_)); }),
                refused);
    }
  }
}

TEST_F(CaptureTest, TheLegacyStreamCollidesWithBlockingCapturesOnly) {
  const std::vector<std::pair<const char*, std::function<int()>>> calls = {
      {"cudaMemcpy", [this] { return cudaMemcpy(device_, pageable_.data(), 16, cudaMemcpyHostToDevice); }},
      {"cudaMemset", [this] { return cudaMemset(device_, 0, 16); }},
      {"cudaMemsetAsync", [this] { return cudaMemsetAsync(device_, 0, 16, nullptr); }},
      {"cudaEventRecord", [this] { return cudaEventRecord(event_, nullptr); }},
  };
  for (const auto& [name, call] : calls) {
    for (const auto mode : kModes) {
      const Outcome implicit = {cudaErrorStreamCaptureImplicit, false};
      const Outcome fine = {cudaSuccess, true};
      EXPECT_EQ(During(blocking_, mode, false, call), implicit) << name;
      EXPECT_EQ(During(a_, mode, false, call), fine) << name;
    }
  }
}

TEST_F(CaptureTest, CapturedWorkDoesNotRun) {
  OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeRelaxed));
  OK(LaunchFill(device_, kBytes, 7, a_));
  OK(cudaMemcpyAsync(pageable_.data(), device_, 16, cudaMemcpyDeviceToHost, a_));  // pageable memory is no obstacle
  EXPECT_EQ(simPendingOperations(nullptr), 0);
  EXPECT_EQ(End(a_), cudaSuccess);
}

TEST_F(CaptureTest, QueryOfACapturedEvent) {
  OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeRelaxed));
  OK(cudaMemsetAsync(device_, 0, 16, a_));
  OK(cudaEventRecord(event_, a_));
  float ms = 0;
  RETURNS(cudaErrorCapturedEvent, cudaEventElapsedTime(&ms, event_, event_));
  EXPECT_EQ(Status(a_), cudaStreamCaptureStatusActive);
  RETURNS(cudaErrorCapturedEvent, cudaEventQuery(event_));
  EXPECT_EQ(Status(a_), cudaStreamCaptureStatusInvalidated);
  RETURNS(cudaErrorStreamCaptureInvalidated, cudaMemsetAsync(device_, 0, 16, a_));
  EXPECT_EQ(End(a_), cudaErrorStreamCaptureInvalidated);
  RETURNS(cudaErrorInvalidValue, cudaEventQuery(event_));  // its capture is over
  RETURNS(cudaErrorInvalidValue, cudaStreamWaitEvent(b_, event_, 0));
}

TEST_F(CaptureTest, AForkMustBeJoined) {
  for (const bool join : {false, true}) {
    OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeRelaxed));
    OK(cudaMemsetAsync(device_, 0, 16, a_));
    OK(cudaEventRecord(event_, a_));
    OK(cudaStreamWaitEvent(b_, event_, 0));
    EXPECT_EQ(Status(b_), cudaStreamCaptureStatusActive);
    OK(cudaMemsetAsync(other_, 0, 16, b_));
    if (join) {
      OK(cudaEventRecord(event_, b_));
      OK(cudaStreamWaitEvent(a_, event_, 0));
    } else {
      EXPECT_EQ(End(b_), cudaErrorStreamCaptureUnmatched);
      EXPECT_EQ(Status(a_), cudaStreamCaptureStatusInvalidated);
      EXPECT_EQ(End(a_), cudaErrorStreamCaptureInvalidated);
      OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeRelaxed));
      OK(cudaEventRecord(event_, a_));
      OK(cudaStreamWaitEvent(b_, event_, 0));
      OK(cudaMemsetAsync(other_, 0, 16, b_));
    }
    EXPECT_EQ(End(a_), join ? cudaSuccess : cudaErrorStreamCaptureUnjoined);
    EXPECT_EQ(Status(b_), cudaStreamCaptureStatusNone);
  }
}

TEST_F(CaptureTest, CapturesDoNotMixWithEachOtherOrWithTheOutside) {
  OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeRelaxed));
  RETURNS(cudaErrorStreamCaptureIsolation, cudaStreamWaitEvent(a_, event_, 0));
  EXPECT_EQ(End(a_), cudaErrorStreamCaptureInvalidated);
  OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeRelaxed));
  OK(cudaStreamBeginCapture(b_, cudaStreamCaptureModeRelaxed));
  OK(cudaMemsetAsync(device_, 0, 16, a_));
  OK(cudaEventRecord(event_, a_));
  RETURNS(cudaErrorStreamCaptureMerge, cudaStreamWaitEvent(b_, event_, 0));
  EXPECT_EQ(End(a_), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(End(b_), cudaErrorStreamCaptureInvalidated);
}

TEST_F(CaptureTest, BeginAndEndInTheWrongPlace) {
  RETURNS(cudaErrorStreamCaptureUnsupported, cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed));
  RETURNS(cudaErrorStreamCaptureUnsupported, cudaStreamBeginCapture(cudaStreamLegacy, cudaStreamCaptureModeRelaxed));
  EXPECT_EQ(End(a_), cudaErrorIllegalState);
  OK(cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeRelaxed));
  EXPECT_EQ(End(cudaStreamPerThread), cudaSuccess);
  OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeGlobal));
  RETURNS(cudaErrorIllegalState, cudaStreamBeginCapture(a_, cudaStreamCaptureModeGlobal));
  EXPECT_EQ(Status(a_), cudaStreamCaptureStatusActive);
  cudaError_t elsewhere = cudaSuccess;
  std::thread([this, &elsewhere] { elsewhere = End(a_); }).join();
  EXPECT_EQ(elsewhere, cudaErrorStreamCaptureWrongThread);
  EXPECT_EQ(Status(a_), cudaStreamCaptureStatusNone);
  OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeRelaxed));
  std::thread([this, &elsewhere] { elsewhere = End(a_); }).join();
  EXPECT_EQ(elsewhere, cudaSuccess);
}

TEST_F(CaptureTest, ARelaxedThreadMayCallAnything) {
  OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeGlobal));
  std::thread([] {
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
    EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
    void* block = nullptr;
    EXPECT_EQ(cudaMalloc(&block, 64), cudaSuccess);
  }).join();
  EXPECT_EQ(Status(a_), cudaStreamCaptureStatusActive);
  EXPECT_EQ(End(a_), cudaSuccess);
}

TEST_F(CaptureTest, CallbacksAreNotCapturedHostFunctionsAre) {
  OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeRelaxed));
  OK(cudaLaunchHostFunc(
      a_, [](void*) {}, nullptr));
  EXPECT_EQ(Status(a_), cudaStreamCaptureStatusActive);
  RETURNS(cudaErrorStreamCaptureUnsupported, cudaStreamAddCallback(
                                                 a_, [](cudaStream_t, cudaError_t, void*) {}, nullptr, 0));
  EXPECT_EQ(End(a_), cudaErrorStreamCaptureInvalidated);
}

TEST_F(CaptureTest, InfoShowsTheGraphInProgress) {
  OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeRelaxed));
  OK(cudaMemsetAsync(device_, 0, 16, a_));
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
  const cudaGraphNode_t* tail = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  size_t count = 0;
  OK(cudaStreamGetCaptureInfo(a_, &status, &id, &graph, &tail, &edges, &count));
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_NE(id, 0u);
  ASSERT_EQ(count, 1u);
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  OK(cudaGraphNodeGetType(tail[0], &type));
  EXPECT_EQ(type, cudaGraphNodeTypeMemset);
  OK(cudaStreamUpdateCaptureDependencies(a_, nullptr, nullptr, 0, cudaStreamSetCaptureDependencies));
  OK(cudaMemsetAsync(other_, 0, 16, a_));
  OK(cudaStreamGetCaptureInfo(a_, &status, &id, &graph, &tail, &edges, &count));
  size_t roots = 0;
  OK(cudaGraphGetRootNodes(graph, nullptr, &roots));
  EXPECT_EQ(roots, 2u);
  EXPECT_EQ(End(a_), cudaSuccess);  // a node dropped on purpose need not be joined (cuda_runtime_api.h)
}

}  // namespace
}  // namespace simtest
