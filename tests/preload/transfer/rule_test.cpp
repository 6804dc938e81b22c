#include "tests/preload/transfer/rule_test.h"

#include <cstdlib>

#if RULES_CUDART == 12
// As cuda_runtime_api.h of CUDA 12 declares them.
extern "C" {
cudaError_t Batch12(void**, void**, size_t*, size_t, cudaMemcpyAttributes*, size_t*, size_t, size_t*,
                    cudaStream_t) __asm__("cudaMemcpyBatchAsync");
cudaError_t Prefetch12(const void*, size_t, int, cudaStream_t) __asm__("cudaMemPrefetchAsync");
cudaError_t Advise12(const void*, size_t, cudaMemoryAdvise, int) __asm__("cudaMemAdvise");
}
#endif

namespace rules {

cudaError_t CopyBatch(void* destination, const void* source, size_t bytes, cudaStream_t stream) {
  size_t start = 0;
  cudaMemcpyAttributes attributes = {};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
#if RULES_CUDART == 12
  void* from = const_cast<void*>(source);
  size_t failed = 0;
  return Batch12(&destination, &from, &bytes, 1, &attributes, &start, 1, &failed, stream);
#else
  return cudaMemcpyBatchAsync(&destination, &source, &bytes, 1, &attributes, &start, 1, stream);
#endif
}

cudaError_t PrefetchToDevice(const void* memory, size_t bytes, cudaStream_t stream) {
#if RULES_CUDART == 12
  return Prefetch12(memory, bytes, 0, stream);
#else
  cudaMemLocation device = {};
  device.type = cudaMemLocationTypeDevice;
  return cudaMemPrefetchAsync(memory, bytes, device, 0, stream);
#endif
}

cudaError_t AdviseReadMostly(const void* memory, size_t bytes) {
#if RULES_CUDART == 12
  return Advise12(memory, bytes, cudaMemAdviseSetReadMostly, 0);
#else
  cudaMemLocation device = {};
  device.type = cudaMemLocationTypeDevice;
  return cudaMemAdvise(memory, bytes, cudaMemAdviseSetReadMostly, device);
#endif
}

void Rule::Prepare(int device) {
  simtest::RegisterKernels();
  if (std::getenv("SIMCUDA_SEED") == nullptr) {
    OK(simSetSeed(0));
  }
  OK(cudaSetDevice(device));
  for (uint8_t** buffer : {&device_, &other_, &third_}) {
    OK(cudaMalloc(reinterpret_cast<void**>(buffer), kHuge));
  }
  OK(cudaMalloc(reinterpret_cast<void**>(&scratch_), kSmall));
  OK(cudaMallocHost(reinterpret_cast<void**>(&pinned_), kLarge));
  std::memset(pinned_, 0, kLarge);
  source_.assign(kHuge, 0x11);
  OK(cudaStreamCreateWithFlags(&a_, cudaStreamNonBlocking));
  OK(cudaStreamCreateWithFlags(&b_, cudaStreamNonBlocking));
}

void Rule::WarmUp() {
  OK(CopyUp(device_, source_.data(), kSmall, a_));
  OK(cudaDeviceSynchronize());
  OK(simQuiesce());
  OK(cudaGetLastError());
}

void Rule::SetUp() {
  ASSERT_NO_FATAL_FAILURE(Prepare());
  ASSERT_NO_FATAL_FAILURE(WarmUp());
}

void Rule::Backlog(cudaStream_t stream, int kernels) {
  for (int i = 0; i < kernels; ++i) {
    OK(LaunchFill(scratch_, kSmall, i, stream));
  }
}

void Rule::CopyAndSynchronize(cudaStream_t stream, size_t bytes) {
  OK(CopyUp(device_, source_.data(), bytes, stream));
  OK(cudaStreamSynchronize(stream));
}

void Rule::DeferOnA() {
  const Tally tally("transfer");
  Backlog(a_);
  CopyAndSynchronize(a_);
  DECIDED(tally, "sync.skipped", 1);
}

void Rule::WaitElsewhere(cudaStream_t stream, int device) {
  OnAnotherThread([stream] { EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess); }, device);
}

void AnotherDefers::SetUp() {
  ASSERT_NO_FATAL_FAILURE(Prepare());
  OnAnotherThread([this] { WarmUp(); });
}

void AnotherDefers::EarlierBacklog(cudaStream_t stream) {
  OnAnotherThread([this, stream] { Backlog(stream); });
}

void AnotherDefers::AnotherDefersOn(cudaStream_t stream) {
  EXPECT_EQ(LaunchFill(other_, 1, 1, stream), cudaSuccess);
  std::promise<void> owes;
  other_thread_ = std::thread([this, stream, &owes, end = end_.get_future()] {
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    const Tally tally("transfer");
    Backlog(stream);
    CopyAndSynchronize(stream);
    DECIDED(tally, "sync.skipped", 1);
    owes.set_value();
    end.wait();
  });
  owes.get_future().wait();
}

void AnotherDefers::LetGo() {
  if (!other_thread_.joinable()) return;
  end_.set_value();
  other_thread_.join();
}

}  // namespace rules

int ExportAndWait();  // s22_sharing_test.cpp: the other process of some tests

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--exporter") == 0) {
    return ExportAndWait();
  }
  ::testing::InitGoogleTest(&argc, argv);
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  rules::LimitTime();
  return RUN_ALL_TESTS();
}
