// A library whose constructor has a thread call CUDA and waits for it, as OpenMP and std::async do in a static
// initializer. Whoever loads it holds the dynamic loader's lock meanwhile: none of the calls may take it. With
// WAITING_DRIVER_ONLY it calls no runtime.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <thread>
#include <vector>

namespace {

#ifdef WAITING_DRIVER_ONLY

int Calls() {
  int failed = 0;
  const auto expect = [&failed](int status) { failed += status != 0 ? 1 : 0; };
  std::vector<char> host(4096, 1);
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUdeviceptr memory = 0;
  expect(cuDevicePrimaryCtxRetain(&context, 0));
  expect(cuCtxSetCurrent(context));
  expect(cuMemGetInfo(&free_bytes, &total_bytes));
  expect(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
  expect(cuMemAlloc(&memory, host.size()));
  expect(cuMemcpyHtoDAsync(memory, host.data(), host.size(), stream));
  expect(cuStreamSynchronize(stream));
  expect(cuMemFree(memory));
  expect(cuStreamDestroy(stream));
  return failed;
}

#else

int Calls() {
  constexpr size_t kLarge = size_t{1} << 20;
  constexpr size_t kSmall = 4096;
  std::vector<char> host(kLarge, 1);
  int failed = 0;
  const auto expect = [&failed](int status) { failed += status != 0 ? 1 : 0; };
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  void* memory = nullptr;
  CUdeviceptr driver_memory = 0;
  expect(cudaMemGetInfo(&free_bytes, &total_bytes));
  expect(cudaStreamCreate(&stream));
  expect(cudaEventCreate(&event));
  expect(cudaMalloc(&memory, kLarge));
  for (const size_t bytes : {kSmall, kLarge}) {
    expect(cudaMemcpyAsync(memory, host.data(), bytes, cudaMemcpyHostToDevice, stream));
    expect(cudaStreamSynchronize(stream));
    expect(cudaMemcpyAsync(host.data(), memory, bytes, cudaMemcpyDeviceToHost, stream));
    expect(cudaMemsetAsync(memory, 0, bytes, stream));
    expect(cudaEventRecord(event, stream));
    expect(cudaEventSynchronize(event));
    expect(cudaEventQuery(event));
    expect(cudaMemcpy(host.data(), memory, bytes, cudaMemcpyDeviceToHost));
  }
  expect(cuMemGetInfo(&free_bytes, &total_bytes));
  expect(cuMemAlloc(&driver_memory, kLarge));
  expect(cuMemcpyHtoDAsync(driver_memory, host.data(), kLarge, stream));
  expect(cuStreamSynchronize(stream));
  expect(cuStreamQuery(stream));
  expect(cuMemFree(driver_memory));
  expect(cudaFree(memory));
  expect(cudaEventDestroy(event));
  expect(cudaStreamDestroy(stream));
  return failed;
}

#endif

[[gnu::constructor]] void Begin() {
  int failed = -1;
  std::thread([&failed] { failed = Calls(); }).join();
  std::printf("in a constructor: %d failed\n", failed);
}

}  // namespace
