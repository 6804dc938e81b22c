// cuCtxRecordEvent and cuCtxWaitEvent: the two calls that cover work no hook has seen.
#include <algorithm>
#include <thread>

#include "tests/sim/sim_test.h"

namespace simtest {
namespace {

class ContextEventTest : public Sim {
 protected:
  void SetUp() override {
    Sim::SetUp();
    OK(cuCtxGetCurrent(&context_));
    OK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
  }
  CUcontext context_ = nullptr;
  cudaEvent_t event_ = nullptr;
};

TEST_F(ContextEventTest, RecordCoversStreamsThreadsAndUnseenLaunches) {
  Log log;
  Log* pointer = &log;
  int what = 1;
  void* args[] = {&pointer, &what};
  OK(simLaunchUnseen(Address(&Append), 1, 32, args, a_));
  std::thread([&log] { LaunchAppend(&log, 2, cudaStreamPerThread); }).join();
  OK(LaunchAppend(&log, 3, nullptr));
  OK(cuCtxRecordEvent(context_, event_));
  OK(LaunchAppend(&log, 4, b_));  // after it
  OK(cudaEventSynchronize(event_));
  std::vector<int> sorted = log.entries;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, (std::vector<int>{1, 2, 3}));
}

TEST_F(ContextEventTest, WaitHoldsExistingAndFutureStreamsAndUnseenLaunches) {
  OK(LaunchFill(device_, kBytes, 7, a_));
  OK(cudaEventRecord(event_, a_));
  OK(cuCtxWaitEvent(context_, event_));
  cudaStream_t late = nullptr;
  OK(cudaStreamCreateWithFlags(&late, cudaStreamNonBlocking));
  void* dst = other_;
  void* src = device_;
  size_t n = kBytes;
  void* args[] = {&dst, &src, &n};
  OK(simLaunchUnseen(Address(&Move), 1, 32, args, late));
  OK(cudaStreamSynchronize(late));
  EXPECT_EQ(Byte(other_), 7);
}

TEST_F(ContextEventTest, TheWaitIsNoWorkOfTheStreamsThatItHolds) {
  Log log;
  OK(LaunchAppend(&log, 1, a_));
  OK(cudaEventRecord(event_, a_));
  OK(cuCtxWaitEvent(context_, event_));
  for (cudaStream_t idle : {static_cast<cudaStream_t>(nullptr), b_}) {
    RETURNS(cudaSuccess, cudaStreamQuery(idle));
    OK(cudaStreamSynchronize(idle));
  }
  EXPECT_TRUE(log.entries.empty());
  RETURNS(cudaErrorNotReady, cudaStreamQuery(a_));
  OK(cudaStreamSynchronize(a_));
}

TEST_F(ContextEventTest, WithoutTheWaitTheSameProgramIsWrong) {
  OK(LaunchFill(device_, kBytes, 7, a_));
  OK(LaunchMove(other_, device_, kBytes, b_));
  OK(cudaStreamSynchronize(b_));
  EXPECT_NE(Byte(other_), 7);
}

TEST_F(ContextEventTest, BothInvalidateALiveCaptureAndSaySo) {
  for (const bool record : {true, false}) {
    OK(cudaEventRecord(event_, b_));
    OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeRelaxed));
    RETURNS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
            record ? cuCtxRecordEvent(context_, event_) : cuCtxWaitEvent(context_, event_));
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    OK(cudaStreamIsCapturing(a_, &status));
    EXPECT_EQ(status, cudaStreamCaptureStatusInvalidated);
    cudaGraph_t graph = nullptr;
    RETURNS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(a_, &graph));
  }
}

TEST_F(ContextEventTest, NullIsNotTheCurrentContext) {
  RETURNS(CUDA_ERROR_INVALID_CONTEXT, cuCtxRecordEvent(nullptr, event_));
  RETURNS(CUDA_ERROR_INVALID_CONTEXT, cuCtxWaitEvent(nullptr, event_));
}

// An event takes the work of its own context only; any context can wait for it (cuda.h).
TEST_F(ContextEventTest, AnEventIsRecordedInItsOwnContext) {
  Log log;
  OK(cudaSetDevice(1));
  CUcontext theirs = nullptr;
  OK(cuCtxGetCurrent(&theirs));
  cudaEvent_t event = nullptr;
  cudaStream_t stream = nullptr;
  OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  RETURNS(CUDA_ERROR_INVALID_HANDLE, cuCtxRecordEvent(context_, event));
  RETURNS(CUDA_ERROR_INVALID_HANDLE, cuCtxRecordEvent(theirs, event_));
  RETURNS(cudaErrorInvalidResourceHandle, cudaEventRecord(event, a_));
  RETURNS(cudaErrorInvalidResourceHandle, cudaEventRecord(event_, stream));
  OK(cuCtxRecordEvent(theirs, event));
  OK(LaunchAppend(&log, 1, stream));
  OK(cuCtxRecordEvent(theirs, event));
  OK(cuCtxWaitEvent(context_, event));
  OK(cudaSetDevice(0));
  OK(LaunchAppend(&log, 2, a_));
  OK(cudaStreamSynchronize(a_));
  EXPECT_EQ(log.entries, (std::vector<int>{1, 2}));
}

TEST_F(ContextEventTest, OtherContextsAreNotHeld) {
  OK(cudaSetDevice(1));
  uint8_t* far = nullptr;
  OK(cudaMalloc(reinterpret_cast<void**>(&far), kBytes));
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Log log;
  OK(cudaSetDevice(0));
  OK(LaunchAppend(&log, 1, a_));
  OK(cudaEventRecord(event_, a_));
  OK(cuCtxWaitEvent(context_, event_));
  OK(cudaSetDevice(1));
  OK(LaunchAppend(&log, 2, stream));
  OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(log.entries, std::vector<int>{2});
}

// cuda_runtime_api.h: a property is the attribute of the same meaning.
TEST_F(ContextEventTest, PropertiesAreTheAttributes) {
  cudaDeviceProp properties = {};
  OK(cudaGetDeviceProperties(&properties, 1));
  const auto attribute = [](cudaDeviceAttr which) {
    int value = -1;
    EXPECT_EQ(cudaDeviceGetAttribute(&value, which, 1), cudaSuccess);
    return value;
  };
  EXPECT_EQ(properties.pciBusID, attribute(cudaDevAttrPciBusId));
  EXPECT_EQ(properties.l2CacheSize, attribute(cudaDevAttrL2CacheSize));
  EXPECT_EQ(properties.regsPerBlock, attribute(cudaDevAttrMaxRegistersPerBlock));
  EXPECT_EQ(properties.regsPerMultiprocessor, attribute(cudaDevAttrMaxRegistersPerMultiprocessor));
  EXPECT_EQ(properties.maxBlocksPerMultiProcessor, attribute(cudaDevAttrMaxBlocksPerMultiprocessor));
  EXPECT_EQ(properties.totalConstMem, static_cast<size_t>(attribute(cudaDevAttrTotalConstantMemory)));
  EXPECT_EQ(properties.sharedMemPerMultiprocessor,
            static_cast<size_t>(attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor)));
  EXPECT_EQ(properties.sharedMemPerBlockOptin, static_cast<size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)));
  EXPECT_EQ(properties.memoryBusWidth, attribute(cudaDevAttrGlobalMemoryBusWidth));
  EXPECT_EQ(properties.memPitch, static_cast<size_t>(attribute(cudaDevAttrMaxPitch)));
  EXPECT_EQ(properties.textureAlignment, static_cast<size_t>(attribute(cudaDevAttrTextureAlignment)));
  EXPECT_EQ(properties.streamPrioritiesSupported, attribute(cudaDevAttrStreamPrioritiesSupported));
  EXPECT_EQ(properties.cooperativeLaunch, attribute(cudaDevAttrCooperativeLaunch));
  EXPECT_EQ(properties.hostRegisterSupported, attribute(cudaDevAttrHostRegisterSupported));
  EXPECT_NE(properties.l2CacheSize, 0);
}

}  // namespace
}  // namespace simtest
