// A CUDA program that does what training programs do, and checks every byte of it: what it prints, and its exit status,
// are the same bare and under the library, whatever fails inside the library. Unaware of slipstream.
//
//   typical PART...    copies, bursts, steps, threads, graphs, memory, pressure, pinned, devices; or all
//
// Threads have objects of their own, so that nothing printed depends on their order.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/sim/simcuda.h"
#include "tests/support/pattern.h"

namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kKiB = 1024;
constexpr size_t kMiB = 1024 * kKiB;
constexpr size_t kSizes[] = {1, 4 * kKiB, 64 * kKiB, 64 * kKiB + 1, kMiB, 5 * kMiB + 3};
constexpr size_t kLongest = 6 * kMiB;

std::atomic<int> g_wrong{0};

// Says what was not as it should be, and where.
bool Is(bool right, const char* what, int line) {
  if (!right) {
    g_wrong.fetch_add(1);
    std::printf("line %d: %s\n", line, what);
  }
  return right;
}
bool Gave(cudaError_t wanted, cudaError_t status, const char* what, int line) {
  if (status == wanted) return true;
  g_wrong.fetch_add(1);
  std::printf("line %d: %s gave %d, and not %d\n", line, what, static_cast<int>(status), static_cast<int>(wanted));
  return false;
}
#define IS(condition) Is(condition, #condition, __LINE__)
#define OK(call) Gave(cudaSuccess, call, #call, __LINE__)
#define GIVES(status, call) Gave(status, call, #call, __LINE__)

void AddOne() {}  // stands for the kernel
void AddOneBody(const simLaunch*, void** arguments) {
  const size_t bytes = *static_cast<size_t*>(arguments[1]);
  auto* const at = static_cast<uint8_t*>(simDevicePointer(*static_cast<void**>(arguments[0]), bytes));
  if (at == nullptr) return;
  for (size_t i = 0; i < bytes; ++i) ++at[i];
}
const void* Kernel() { return reinterpret_cast<const void*>(&AddOne); }

cudaError_t Launch(void* at, size_t bytes, cudaStream_t stream) {
  void* arguments[] = {&at, &bytes};
  return cudaLaunchKernel(Kernel(), dim3(1), dim3(32), arguments, 0, stream);
}

using slipstream::test::Pattern;
Bytes PlusOne(Bytes bytes) {
  for (uint8_t& byte : bytes) ++byte;
  return bytes;
}

void* Allocate(size_t bytes) {
  void* at = nullptr;
  return OK(cudaMalloc(&at, bytes)) ? at : nullptr;
}
cudaStream_t NewStream() {
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

// What a blocking copy of PyTorch's is: the source is written over as soon as the wait is over.
void UpAndWait(void* device, Bytes* source, cudaStream_t stream) {
  OK(cudaMemcpyAsync(device, source->data(), source->size(), cudaMemcpyHostToDevice, stream));
  OK(cudaStreamSynchronize(stream));
  std::fill(source->begin(), source->end(), uint8_t{0xEE});
}
Bytes Down(const void* device, size_t bytes, cudaStream_t stream) {
  Bytes back(bytes, 0x77);
  OK(cudaMemcpyAsync(back.data(), device, bytes, cudaMemcpyDeviceToHost, stream));
  OK(cudaStreamSynchronize(stream));
  return back;
}

void Backlog(void* scratch, cudaStream_t stream) {
  for (int i = 0; i < 12; ++i) OK(Launch(scratch, 64, stream));
}

// Both ways, of all sizes, blocking and not, with work in front and without, on three kinds of streams.
void Copies() {
  void* const device = Allocate(kLongest);
  void* const scratch = Allocate(kLongest);
  const cudaStream_t own = NewStream();
  for (const cudaStream_t stream : {own, cudaStream_t{nullptr}, cudaStreamPerThread}) {
    for (const bool busy : {true, false}) {
      uint32_t seed = busy ? 1 : 100;
      for (const size_t bytes : kSizes) {
        Bytes source = Pattern(bytes, ++seed);
        const Bytes wanted = PlusOne(source);
        if (busy) Backlog(scratch, stream);
        UpAndWait(device, &source, stream);
        OK(Launch(device, bytes, stream));
        if (busy) Backlog(scratch, stream);
        IS(Down(device, bytes, stream) == wanted);
        Bytes blocking = Pattern(bytes, ++seed);
        const Bytes same = blocking;
        OK(cudaMemcpy(device, blocking.data(), bytes, cudaMemcpyDefault));
        std::fill(blocking.begin(), blocking.end(), uint8_t{0});
        OK(cudaMemcpy(blocking.data(), device, bytes, cudaMemcpyDeviceToHost));
        IS(blocking == same);
      }
    }
  }
  // Refused ones, and what is said of them.
  Bytes source(16);
  GIVES(cudaErrorInvalidValue, cudaMemcpyAsync(device, nullptr, 16, cudaMemcpyHostToDevice, own));
  GIVES(cudaErrorInvalidValue, cudaGetLastError());
  GIVES(cudaSuccess, cudaGetLastError());
  OK(cudaMemcpyAsync(device, source.data(), 0, cudaMemcpyHostToDevice, own));
  OK(cudaStreamDestroy(own));
  OK(cudaFree(scratch));
  OK(cudaFree(device));
}

// More copies at once than staging memory has room for, behind work that has not run; each source is written over as
// soon as its call is back, as CUDA allows for pageable memory of up to 2 MiB that the driver stages.
void Bursts() {
  constexpr size_t kEach = 64 * kKiB;
  constexpr size_t kCopies = 300;
  const cudaStream_t streams[] = {NewStream(), NewStream()};
  auto* const device = static_cast<uint8_t*>(Allocate(kEach * kCopies));
  void* const scratch = Allocate(kKiB);
  for (uint32_t round = 0; round < 2; ++round) {
    for (const cudaStream_t stream : streams) {
      for (int i = 0; i < 10; ++i) Backlog(scratch, stream);
    }
    Bytes source;
    for (uint32_t i = 0; i < kCopies; ++i) {
      source = Pattern(kEach - size_t{100} * (i % 7), i + 1000 * round);
      OK(cudaMemcpyAsync(device + i * kEach, source.data(), source.size(), cudaMemcpyHostToDevice, streams[i % 2]));
      std::fill(source.begin(), source.end(), uint8_t{0xDD});
    }
    OK(cudaDeviceSynchronize());
    bool right = true;
    for (uint32_t i = 0; i < kCopies; ++i) {
      const Bytes wanted = Pattern(kEach - size_t{100} * (i % 7), i + 1000 * round);
      right = right && Down(device + i * kEach, wanted.size(), streams[0]) == wanted;
    }
    IS(right);
  }
  for (const cudaStream_t stream : streams) OK(cudaStreamDestroy(stream));
  OK(cudaFree(scratch));
  OK(cudaFree(device));
}

// A training loop: a batch goes in, kernels, a number comes out, temporary memory, events.
void Steps(int steps) {
  const cudaStream_t stream = NewStream();
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  OK(cudaEventCreate(&begin));
  OK(cudaEventCreate(&end));
  for (int step = 0; step < steps; ++step) {
    const size_t bytes = step % 5 == 4 ? 2 * kMiB + 7 : 20 * kKiB;
    void* const batch = Allocate(2 * kMiB + 512 * static_cast<size_t>(step % 3 + 1));
    OK(cudaEventRecord(begin, stream));
    Bytes source = Pattern(bytes, static_cast<uint32_t>(step));
    const uint8_t wanted = static_cast<uint8_t>(source[bytes / 2] + 2);
    UpAndWait(batch, &source, stream);
    OK(Launch(batch, bytes, stream));
    OK(Launch(batch, bytes, stream));
    OK(cudaEventRecord(end, stream));
    if (step % 4 == 1) {
      cudaError_t status = cudaErrorNotReady;
      while ((status = cudaEventQuery(end)) == cudaErrorNotReady) {
      }
      IS(status == cudaSuccess);
      float ms = -1;
      OK(cudaEventElapsedTime(&ms, begin, end));
      IS(ms >= 0);
    }
    uint8_t loss = 0;
    OK(cudaMemcpyAsync(&loss, static_cast<uint8_t*>(batch) + bytes / 2, 1, cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    IS(loss == wanted);
    if (step % 4 == 2) {
      Launch(batch, bytes, stream);
      OK(cudaStreamWaitEvent(nullptr, end, 0));
      OK(cudaEventSynchronize(end));
    }
    (void)cudaGetLastError();
    OK(cudaFree(batch));
    if (step % 8 == 7) OK(cudaDeviceSynchronize());
  }
  OK(cudaEventDestroy(begin));
  OK(cudaEventDestroy(end));
  OK(cudaStreamDestroy(stream));
}

void Threads() {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      const cudaStream_t stream = NewStream();
      for (int round = 0; round < 6; ++round) {
        const size_t bytes = round % 3 == 2 ? 3 * kMiB : 30 * kKiB + static_cast<size_t>(i);
        void* const device = Allocate(3 * kMiB);
        Bytes source = Pattern(bytes, static_cast<uint32_t>(100 * i + round));
        const Bytes wanted = PlusOne(source);
        UpAndWait(device, &source, stream);
        OK(Launch(device, bytes, stream));
        IS(Down(device, bytes, stream) == wanted);
        OK(cudaFree(device));
      }
      OK(cudaStreamDestroy(stream));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A graph with a kernel and a copy to pinned memory; copies between its launches; and allocations while it is captured.
void Graphs() {
  constexpr size_t kBytes = 40 * kKiB;
  const cudaStream_t stream = NewStream();
  void* const device = Allocate(kBytes);
  uint8_t* pinned = nullptr;
  OK(cudaHostAlloc(reinterpret_cast<void**>(&pinned), kBytes, cudaHostAllocDefault));
  Bytes source = Pattern(kBytes, 9);
  const Bytes first = source;
  UpAndWait(device, &source, stream);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  OK(Launch(device, kBytes, stream));
  void* const during = Allocate(kMiB);
  OK(cudaMemcpyAsync(pinned, device, kBytes, cudaMemcpyDeviceToHost, stream));
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaGraphInstantiateWithFlags(&executable, graph, 0));
  OK(cudaGraphLaunch(executable, stream));
  OK(cudaStreamSynchronize(stream));
  IS(Bytes(pinned, pinned + kBytes) == PlusOne(first));
  for (uint32_t round = 0; round < 3; ++round) {
    source = Pattern(kBytes, 50 + round);
    const Bytes wanted = PlusOne(source);
    UpAndWait(device, &source, stream);
    OK(cudaGraphLaunch(executable, stream));
    OK(cudaStreamSynchronize(stream));
    IS(Bytes(pinned, pinned + kBytes) == wanted);
    IS(Down(device, kBytes, stream) == wanted);
  }
  OK(cudaGraphExecDestroy(executable));
  OK(cudaGraphDestroy(graph));
  OK(cudaFree(during));
  OK(cudaFreeHost(pinned));
  OK(cudaFree(device));
  OK(cudaStreamDestroy(stream));
}

// Blocks come and go; freed ones are taken again while work that used them is pending.
void Memory() {
  const cudaStream_t a = NewStream();
  const cudaStream_t b = NewStream();
  size_t total = 0;
  size_t left = 0;
  OK(cudaMemGetInfo(&left, &total));
  IS(left <= total);
  std::vector<void*> kept;
  for (uint32_t round = 0; round < 10; ++round) {
    const size_t bytes = round % 2 == 0 ? 2 * kMiB : 20 * kMiB / (1 + round % 3);
    void* const block = Allocate(bytes);
    Bytes source = Pattern(8 * kKiB, round);
    const Bytes wanted = source;
    OK(cudaMemsetAsync(block, static_cast<int>(round), bytes, a));
    UpAndWait(block, &source, a);
    IS(Down(block, 8 * kKiB, a) == wanted);
    for (int i = 0; i < 5; ++i) OK(Launch(block, bytes, a));
    OK(cudaFree(block));
    void* const next = Allocate(bytes);
    source = Pattern(8 * kKiB, 1000 + round);
    const Bytes other = source;
    UpAndWait(next, &source, b);
    IS(Down(next, 8 * kKiB, b) == other);
    cudaPointerAttributes attributes = {};
    OK(cudaPointerGetAttributes(&attributes, next));
    IS(attributes.type == cudaMemoryTypeDevice && attributes.device == 0);
    // What was in front of the free was in front of all that was done with the block since.
    OK(cudaStreamSynchronize(a));
    IS(Down(next, 8 * kKiB, b) == other);
    if (round % 3 == 0) {
      kept.push_back(next);
    } else {
      OK(cudaFree(next));
    }
  }
  cudaIpcMemHandle_t handle = {};
  OK(cudaIpcGetMemHandle(&handle, kept[0]));
  for (void* const block : kept) OK(cudaFree(block));
  int on_stack = 0;
  GIVES(cudaErrorInvalidValue, cudaFree(&on_stack));
  GIVES(cudaErrorInvalidValue, cudaGetLastError());
  OK(cudaFree(nullptr));
  void* ordered = nullptr;
  OK(cudaMallocAsync(&ordered, kMiB, a));
  Bytes source = Pattern(kMiB, 3);
  const Bytes wanted = source;
  UpAndWait(ordered, &source, a);
  IS(Down(ordered, kMiB, a) == wanted);
  OK(cudaFreeAsync(ordered, a));
  OK(cudaStreamDestroy(a));
  OK(cudaStreamDestroy(b));
  OK(cudaDeviceSynchronize());
}

// Up to the end of the device's memory, and back, as a program does that looks for its largest batch.
void Pressure() {
  size_t total = 0;
  size_t left = 0;
  const cudaStream_t stream = NewStream();
  void* const work = Allocate(4 * kMiB);
  for (uint32_t round = 0; round < 2; ++round) {
    OK(cudaMemGetInfo(&left, &total));
    std::vector<void*> blocks;
    void* block = nullptr;
    cudaError_t status = cudaSuccess;
    while ((status = cudaMalloc(&block, 8 * kMiB)) == cudaSuccess) blocks.push_back(block);
    GIVES(cudaErrorMemoryAllocation, status);
    GIVES(cudaErrorMemoryAllocation, cudaPeekAtLastError());
    GIVES(cudaErrorMemoryAllocation, cudaGetLastError());
    GIVES(cudaSuccess, cudaGetLastError());
    Bytes source = Pattern(4 * kMiB, round);
    const Bytes wanted = PlusOne(source);
    Backlog(work, stream);
    UpAndWait(work, &source, stream);
    OK(Launch(work, 4 * kMiB, stream));
    IS(Down(work, 4 * kMiB, stream) == wanted);
    std::printf("%zu blocks of 8 MiB\n", blocks.size());
    for (void* const each : blocks) OK(cudaFree(each));
    // Pieces of another size: what lies idle is of no use as it is.
    blocks.clear();
    while (cudaMalloc(&block, 24 * kMiB) == cudaSuccess) blocks.push_back(block);
    GIVES(cudaErrorMemoryAllocation, cudaGetLastError());
    std::printf("%zu blocks of 24 MiB\n", blocks.size());
    for (void* const each : blocks) OK(cudaFree(each));
  }
  void* block = nullptr;
  GIVES(cudaErrorMemoryAllocation, cudaMalloc(&block, size_t{1} << 50));
  GIVES(cudaErrorMemoryAllocation, cudaGetLastError());
  OK(cudaFree(work));
  OK(cudaStreamDestroy(stream));
}

std::atomic<int> g_called{0};

// Pinned memory that comes and goes, registered memory, and a host function between.
void Pinned() {
  const cudaStream_t stream = NewStream();
  void* const device = Allocate(10 * kMiB);
  for (uint32_t round = 0; round < 6; ++round) {
    const size_t bytes = round % 2 == 0 ? 10 * kMiB : 100 * kKiB;
    uint8_t* up = nullptr;
    uint8_t* down = nullptr;
    OK(cudaHostAlloc(reinterpret_cast<void**>(&up), bytes, cudaHostAllocDefault));
    OK(cudaMallocHost(reinterpret_cast<void**>(&down), bytes));
    const Bytes source = Pattern(bytes, round);
    std::memcpy(up, source.data(), bytes);
    OK(cudaMemcpyAsync(device, up, bytes, cudaMemcpyHostToDevice, stream));
    OK(Launch(device, bytes, stream));
    OK(cudaMemcpyAsync(down, device, bytes, cudaMemcpyDeviceToHost, stream));
    OK(cudaLaunchHostFunc(
        stream, [](void*) { g_called.fetch_add(1); }, nullptr));
    OK(cudaStreamSynchronize(stream));
    IS(Bytes(down, down + bytes) == PlusOne(source));
    IS(g_called.load() == static_cast<int>(round) + 1);
    OK(cudaFreeHost(up));
    OK(cudaFreeHost(down));
  }
  Bytes registered = Pattern(kMiB, 70);
  const Bytes wanted = registered;
  OK(cudaHostRegister(registered.data(), registered.size(), cudaHostRegisterDefault));
  OK(cudaMemcpyAsync(device, registered.data(), registered.size(), cudaMemcpyHostToDevice, stream));
  OK(cudaStreamSynchronize(stream));
  OK(cudaHostUnregister(registered.data()));
  IS(Down(device, registered.size(), stream) == wanted);
  GIVES(cudaErrorInvalidValue, cudaFreeHost(registered.data()));
  (void)cudaGetLastError();
  OK(cudaFree(device));
  OK(cudaStreamDestroy(stream));
}

// Two devices, peers, and a reset of the second.
void Devices() {
  int devices = 0;
  OK(cudaGetDeviceCount(&devices));
  void* at[2] = {};
  for (int device = 0; device < 2; ++device) {
    OK(cudaSetDevice(device));
    at[device] = Allocate(kMiB);
    Bytes source = Pattern(kMiB, static_cast<uint32_t>(device));
    const Bytes wanted = source;
    UpAndWait(at[device], &source, nullptr);
    IS(Down(at[device], kMiB, nullptr) == wanted);
  }
  OK(cudaMemcpyPeerAsync(at[1], 1, at[0], 0, kMiB, nullptr));
  OK(cudaDeviceSynchronize());
  IS(Down(at[1], kMiB, nullptr) == Pattern(kMiB, 0));
  OK(cudaDeviceEnablePeerAccess(0, 0));
  OK(cudaFree(at[0]));
  void* const again = Allocate(kMiB);
  IS(cudaMemset(again, 5, kMiB) == cudaSuccess);
  IS(Down(again, kMiB, nullptr) == Bytes(kMiB, 5));
  OK(cudaFree(again));
  OK(cudaDeviceReset());
  OK(cudaSetDevice(0));
  void* const last = Allocate(kMiB);
  Bytes source = Pattern(kMiB, 4);
  const Bytes wanted = source;
  UpAndWait(last, &source, nullptr);
  IS(Down(last, kMiB, nullptr) == wanted);
  OK(cudaFree(last));
}

}  // namespace

int main(int argc, char** argv) {
  const size_t sizes[] = {sizeof(void*), sizeof(size_t)};
  simRegisterKernel(Kernel(), "add_one", AddOneBody, sizes, 2, 1000);
  for (int i = 1; i < argc; ++i) {
    const std::string part = argv[i];
    const auto wants = [&](const char* name) { return part == name || part == "all"; };
    if (wants("copies")) Copies();
    if (wants("bursts")) Bursts();
    if (wants("steps")) Steps(30);
    if (wants("threads")) Threads();
    if (wants("graphs")) Graphs();
    if (wants("memory")) Memory();
    if (wants("pressure")) Pressure();
    if (wants("pinned")) Pinned();
    if (wants("devices")) Devices();
    OK(cudaGetLastError());
    std::printf("%s: %d wrong\n", argv[i], g_wrong.load());
  }
  return g_wrong.load() == 0 ? 0 : 1;
}
