// A CUDA program that sees what somebody else's questions about its devices would change. Unaware of slipstream.
//
//   device_questions quiet CALLS      calls that make no context; prints what must be as it was
//   device_questions threads COUNT    so many threads, whose first calls are made at once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

void Quiet(int calls) {
  cuInit(0);
  const int failed = cudaSetDevice(99);
  int answer = -1;
  int succeeded = 0;
  errno = 77;
  for (int i = 0; i < calls; ++i) succeeded += cudaDeviceCanAccessPeer(&answer, 0, 1) == cudaSuccess ? 1 : 0;
  const int kept = errno;
  int contexts = 0;
  for (CUdevice device = 0; device < 2; ++device) {
    unsigned flags = 0;
    int active = -1;
    cuDevicePrimaryCtxGetState(device, &flags, &active);
    contexts += active;
  }
  CUcontext current = nullptr;
  cuCtxGetCurrent(&current);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  cuThreadExchangeStreamCaptureMode(&mode);
  std::printf("failed with %d, %d succeeded, errno %d, %d primary contexts, %s current one, mode %d, last error %d\n",
              failed, succeeded, kept, contexts, current != nullptr ? "a" : "no", static_cast<int>(mode),
              static_cast<int>(cudaGetLastError()));
}

void Threads(int count) {
  cuInit(0);
  std::atomic<int> waiting{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&] {
      ++waiting;
      while (waiting != count) std::this_thread::yield();
      int answer = -1;
      for (int call = 0; call < 64; ++call) cudaDeviceCanAccessPeer(&answer, 0, 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("done\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int number = std::atoi(argv[2]);
  if (std::string(argv[1]) == "quiet") {
    Quiet(number);
  } else {
    Threads(number);
  }
  return 0;
}
