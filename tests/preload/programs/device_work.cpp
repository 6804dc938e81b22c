// A CUDA program whose work on the device is known: kernels, copies and memsets, by the runtime, by a library with a
// runtime of its own, by a graph, by the driver, and by nobody that can be seen. Unaware of slipstream.
//
//   device_work ROUNDS THREADS [cupti|devices|blocking|forks|waits]
//                                                          prints what it did. cupti: and what libcupti it finds in its
//                                                          process at the end; devices: only copies between two
//                                                          devices; blocking: only blocking copies behind kernels;
//                                                          forks: every thread forks again and again in between;
//                                                          waits: only synchronizations of every kind, and queries

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/sim/simcuda.h"

extern "C" int StaticLibraryLaunch(const void* function, void** args, cudaStream_t stream);
extern "C" int StaticLibrarySynchronize(cudaStream_t stream);
extern "C" int StaticLibraryWaitEvent(cudaStream_t stream, cudaEvent_t event);

namespace {

constexpr size_t kBytes = 10'000;

// Stand for kernels: their addresses are the handles.
void Hooked() {}
void Unhooked() {}
void Captured() {}
void Long() {}
void Unseen() {}

template <void (*kKernel)()>
const void* Handle() {
  return reinterpret_cast<const void*>(kKernel);
}

void Body(const simLaunch*, void**) {}

// Long enough for its end to stand out from what readings of the device's clock may miss.
void LongBody(const simLaunch*, void**) { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }

bool Failed(const char* what, int status) {
  if (status != 0) std::printf("%s: %d\n", what, status);
  return status != 0;
}

void Round(void* device, cudaStream_t stream, std::vector<char>* host) {
  void* argument = device;
  void* arguments[] = {&argument};
  Failed("copy in", cudaMemcpyAsync(device, host->data(), kBytes, cudaMemcpyHostToDevice, stream));
  Failed("set", cudaMemsetAsync(device, 7, 5000, stream));
  Failed("launch", cudaLaunchKernel(Handle<Hooked>(), dim3(70'000, 3, 2), dim3(32, 4, 2), arguments, 1024, stream));
  Failed("launch of a library", StaticLibraryLaunch(Handle<Unhooked>(), arguments, stream));
  Failed("copy out", cudaMemcpyAsync(host->data(), device, 300, cudaMemcpyDeviceToHost, stream));
  Failed("synchronize", cudaStreamSynchronize(stream));
}

// A child that ends as programs do, one that execs, one that calls CUDA, which does not work there, in turn.
void Fork(int number, cudaStream_t stream) {
  const pid_t child = fork();
  if (child == 0) {
    switch (number % 3) {
      case 0:
        std::exit(3);
      case 1:
        execl("/bin/sh", "sh", "-c", "exit 3", static_cast<char*>(nullptr));
        _exit(4);
      default:
        void* argument = nullptr;
        void* arguments[] = {&argument};
        const bool launched = cudaLaunchKernel(Handle<Hooked>(), dim3(1), dim3(1), arguments, 0, stream) == cudaSuccess;
        const bool waited = cudaStreamSynchronize(stream) == cudaSuccess;
        _exit(launched || waited ? 5 : 3);
    }
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 3) {
    std::printf("child %d: status %d\n", number % 3, status);
  }
}

void Thread(int rounds, bool forks) {
  std::vector<char> host(kBytes, 'x');
  void* device = nullptr;
  cudaStream_t stream = nullptr;
  if (Failed("cudaMalloc", cudaMalloc(&device, kBytes)) || Failed("stream", cudaStreamCreate(&stream))) return;
  for (int i = 0; i < rounds; ++i) {
    Round(device, stream, &host);
    if (forks && i % 4 == 0) Fork(i / 4, stream);
  }
  Failed("stream", cudaStreamDestroy(stream));
  Failed("cudaFree", cudaFree(device));
}

// A graph with two kernels, launched twice.
void Graph() {
  void* argument = nullptr;
  void* arguments[] = {&argument};
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  Failed("stream", cudaStreamCreate(&stream));
  Failed("begin", cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < 2; ++i) {
    Failed("captured", cudaLaunchKernel(Handle<Captured>(), dim3(1), dim3(1), arguments, 0, stream));
  }
  Failed("end", cudaStreamEndCapture(stream, &graph));
  Failed("instantiate", cudaGraphInstantiate(&executable, graph, 0));
  for (int i = 0; i < 2; ++i) Failed("graph", cudaGraphLaunch(executable, stream));
  Failed("synchronize", cudaStreamSynchronize(stream));
}

void NobodysWork() {
  void* argument = nullptr;
  void* arguments[] = {&argument};
  Failed("unseen", simLaunchUnseen(Handle<Unseen>(), 1, 1, arguments, nullptr));
  Failed("unseen", simSynchronizeUnseen(nullptr));
}

// From device 0 to device 1 and back, and within device 1.
void BetweenDevices() {
  void* at[2] = {};
  for (int device = 0; device < 2; ++device) {
    Failed("device", cudaSetDevice(device));
    Failed("cudaMalloc", cudaMalloc(&at[device], kBytes));
  }
  Failed("there", cudaMemcpyPeerAsync(at[1], 1, at[0], 0, 777, nullptr));
  Failed("back", cudaMemcpyPeerAsync(at[0], 0, at[1], 1, 888, nullptr));
  Failed("within", cudaMemcpyAsync(at[1], static_cast<char*>(at[1]) + 1000, 999, cudaMemcpyDeviceToDevice, nullptr));
  Failed("synchronize", cudaDeviceSynchronize());
  Failed("device", cudaSetDevice(0));
}

// Blocking copies as PyTorch makes them, two behind one kernel, and a cudaMemcpy behind another; a kernel on a stream
// that nobody waits for at all; and work of the host before it waits for everything.
void BlockingCopies() {
  constexpr size_t kMany = 200'000;
  std::vector<char> host(kMany, 'x');
  void* device = nullptr;
  void* argument = nullptr;
  void* arguments[] = {&argument};
  cudaStream_t stream = nullptr;
  cudaStream_t other = nullptr;
  cudaEvent_t event = nullptr;
  if (Failed("cudaMalloc", cudaMalloc(&device, kMany)) || Failed("event", cudaEventCreate(&event))) return;
  Failed("stream", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Failed("stream", cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  const auto launch = [&](cudaStream_t on) {
    Failed("launch", cudaLaunchKernel(Handle<Long>(), dim3(1), dim3(1), arguments, 0, on));
  };
  // What the first copy finds to be running may be anything to the engine.
  Failed("copy in", cudaMemcpyAsync(device, host.data(), kBytes, cudaMemcpyHostToDevice, stream));
  Failed("synchronize", cudaDeviceSynchronize());
  launch(other);
  launch(stream);
  for (int i = 0; i < 2; ++i) {
    Failed("copy in", cudaMemcpyAsync(device, host.data(), kBytes, cudaMemcpyHostToDevice, stream));
    Failed("synchronize", cudaStreamSynchronize(stream));
    for (int j = 0; j < 20; ++j) Failed("event", cudaEventRecord(event, stream));
  }
  Failed("synchronize", cudaDeviceSynchronize());
  launch(nullptr);
  Failed("copy in", cudaMemcpy(device, host.data(), kMany, cudaMemcpyHostToDevice));
  for (int j = 0; j < 20; ++j) Failed("event", cudaEventRecord(event, nullptr));
  launch(nullptr);
  Failed("synchronize", cudaDeviceSynchronize());
  Failed("event", cudaEventDestroy(event));
}

// By the runtime, each kind once; six by a library with a runtime of its own; and questions that wait for nothing.
void Waits() {
  cudaStream_t stream = nullptr;
  cudaStream_t other = nullptr;
  cudaEvent_t event = nullptr;
  void* argument = nullptr;
  void* arguments[] = {&argument};
  Failed("stream", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Failed("stream", cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  Failed("event", cudaEventCreate(&event));
  Failed("launch", cudaLaunchKernel(Handle<Long>(), dim3(1), dim3(1), arguments, 0, stream));
  Failed("record", cudaEventRecord(event, stream));
  Failed("wait", cudaStreamWaitEvent(other, event, 0));
  Failed("synchronize", cudaStreamSynchronize(stream));
  Failed("synchronize", cudaEventSynchronize(event));
  for (int i = 0; i < 100; ++i) Failed("query", cudaEventQuery(event));
  for (int i = 0; i < 5; ++i) Failed("synchronize of a library", StaticLibrarySynchronize(stream));
  Failed("wait of a library", StaticLibraryWaitEvent(other, event));
}

void SayWhatCuptiSaw() {
  void* const cupti = dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD);
  if (cupti == nullptr) {
    std::printf("no libcupti\n");
    return;
  }
  const auto violations = reinterpret_cast<uint64_t (*)()>(dlsym(cupti, "simCuptiViolations"));
  const auto zeroed = reinterpret_cast<uint64_t (*)()>(dlsym(cupti, "simCuptiZeroedBuffers"));
  if (violations == nullptr || zeroed == nullptr) return;
  std::printf("libcupti, %d violations, %d buffers to make zero\n", static_cast<int>(violations()),
              static_cast<int>(zeroed()));
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 1;
  const int threads = argc > 2 ? std::atoi(argv[2]) : 0;
  const bool forks = argc > 3 && std::strcmp(argv[3], "forks") == 0;
  const size_t sizes[] = {sizeof(void*)};
  simRegisterKernel(Handle<Hooked>(), "_Z6hookedIfEvPT_", Body, sizes, 1, 1000);
  simRegisterKernel(Handle<Unhooked>(), "unhooked", Body, sizes, 1, 1000);
  simRegisterKernel(Handle<Captured>(), "captured", Body, sizes, 1, 1000);
  simRegisterKernel(Handle<Unseen>(), "unseen", Body, sizes, 1, 1000);
  simRegisterKernel(Handle<Long>(), "long", LongBody, sizes, 1, 1000);
  Failed("first", cudaFree(nullptr));  // the process's first call, alone
  if (argc > 3 && std::strcmp(argv[3], "devices") == 0) {
    BetweenDevices();
  } else if (argc > 3 && std::strcmp(argv[3], "blocking") == 0) {
    BlockingCopies();
  } else if (argc > 3 && std::strcmp(argv[3], "waits") == 0) {
    Waits();
  } else if (threads == 0) {
    Thread(rounds, /*forks=*/false);
    Graph();
    NobodysWork();
  }
  std::vector<std::thread> pool;
  for (int i = 0; i < threads; ++i) pool.emplace_back(Thread, rounds, forks);
  for (std::thread& thread : pool) thread.join();
  Failed("synchronize", cudaDeviceSynchronize());
  std::printf("%d rounds done\n", rounds);
  if (argc > 3 && std::strcmp(argv[3], "cupti") == 0) SayWhatCuptiSaw();
  return 0;
}
