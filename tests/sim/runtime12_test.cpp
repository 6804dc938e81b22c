// libcudart.so.12: its signatures, where they differ from those in the headers of CUDA 13.
#include <array>
#include <cstring>

#include "tests/sim/sim_test.h"

// As cuda_runtime_api.h of CUDA 12 declares them.
extern "C" {
cudaError_t Advise12(const void*, size_t, cudaMemoryAdvise, int) __asm__("cudaMemAdvise");
cudaError_t Prefetch12(const void*, size_t, int, cudaStream_t) __asm__("cudaMemPrefetchAsync");
cudaError_t Batch12(void**, void**, size_t*, size_t, cudaMemcpyAttributes*, size_t*, size_t, size_t*,
                    cudaStream_t) __asm__("cudaMemcpyBatchAsync");
cudaError_t Info12(cudaStream_t, cudaStreamCaptureStatus*, unsigned long long*) __asm__("cudaStreamGetCaptureInfo");
cudaError_t ThreadSynchronize12() __asm__("cudaThreadSynchronize");
cudaError_t Properties12(void*, int) __asm__("cudaGetDeviceProperties_v2");
cudaError_t Attributes12(void*, const void*) __asm__("cudaPointerGetAttributes");
}

namespace simtest {
namespace {

using Runtime12Test = Sim;

TEST_F(Runtime12Test, SaysItsVersion) {
  int version = 0;
  OK(cudaRuntimeGetVersion(&version));
  EXPECT_EQ(version, 12080);
  EXPECT_GT(simCallCountIn("libcudart.so.12", "cudaRuntimeGetVersion"), 0u);
  EXPECT_EQ(simCallCountIn("libcudart.so.13", "cudaRuntimeGetVersion"), 0u);
}

TEST_F(Runtime12Test, ManagedHintsTakeADeviceNumber) {
  void* managed = nullptr;
  OK(cudaMallocManaged(&managed, 64));
  OK(Advise12(managed, 64, cudaMemAdviseSetPreferredLocation, 1));
  int where = -2;
  OK(cudaMemRangeGetAttribute(&where, sizeof where, cudaMemRangeAttributePreferredLocation, managed, 64));
  EXPECT_EQ(where, 1);
  OK(Prefetch12(managed, 64, cudaCpuDeviceId, a_));
  OK(cudaMemRangeGetAttribute(&where, sizeof where, cudaMemRangeAttributeLastPrefetchLocation, managed, 64));
  EXPECT_EQ(where, cudaCpuDeviceId);
}

// Those of CUDA 13 have 64 bytes more; a program of CUDA 12 has other things there.
TEST_F(Runtime12Test, AttributesOfAPointerEndWithTheHostPointer) {
  constexpr size_t kBytes12 = 24;
  std::array<unsigned char, 128> memory;
  memory.fill(0x5A);
  OK(Attributes12(memory.data(), device_));
  cudaMemoryType type = cudaMemoryTypeUnregistered;
  std::memcpy(&type, memory.data(), sizeof type);
  EXPECT_EQ(type, cudaMemoryTypeDevice);
  for (size_t i = kBytes12; i < memory.size(); ++i) ASSERT_EQ(memory[i], 0x5A) << "byte " << i;
}

TEST_F(Runtime12Test, BatchHasAFailIndexBeforeTheStream) {
  void* dst = device_;
  void* src = pageable_.data();
  size_t size = 16;
  size_t start = 0;
  size_t failed = 0;
  cudaMemcpyAttributes attributes = {};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  OK(Batch12(&dst, &src, &size, 1, &attributes, &start, 1, &failed, a_));
  EXPECT_EQ(Byte(device_), 0x11);
  RETURNS(cudaErrorInvalidValue, Batch12(&dst, &src, &size, 0, &attributes, &start, 1, &failed, a_));
  EXPECT_EQ(failed, SIZE_MAX);
}

TEST_F(Runtime12Test, CaptureInfoHasThreeArguments) {
  OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeRelaxed));
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  OK(Info12(a_, &status, &id));
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_NE(id, 0u);
  cudaGraph_t graph = nullptr;
  OK(cudaStreamEndCapture(a_, &graph));
}

TEST_F(Runtime12Test, OldNamesAndOldStructures) {
  OK(LaunchFill(device_, 1, 1, a_));
  OK(ThreadSynchronize12());
  EXPECT_EQ(simPendingOperations(nullptr), 0);
  alignas(8) char properties[1032 + 8];  // sizeof(cudaDeviceProp) of CUDA 12, and a guard
  std::memset(properties, 0x5A, sizeof properties);
  OK(Properties12(properties, 0));
  EXPECT_EQ(std::string(properties, 14), "Simulated CUDA");
  int major = 0;
  int threads = 0;
  std::memcpy(&major, properties + 360, sizeof major);      // offsets of CUDA 12
  std::memcpy(&threads, properties + 624, sizeof threads);  // maxThreadsPerMultiProcessor
  EXPECT_EQ(major, 8);
  EXPECT_EQ(threads, 2048);
  EXPECT_EQ(properties[1032], 0x5A);
}

TEST_F(Runtime12Test, NotReadyIsTheLastErrorThere) {
  OK(LaunchFill(device_, 1, 1, a_));
  RETURNS(cudaErrorNotReady, cudaStreamQuery(a_));
  RETURNS(cudaErrorNotReady, cudaGetLastError());
}

}  // namespace
}  // namespace simtest
