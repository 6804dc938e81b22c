// A CUDA program for the tests of traces: calls whose records are known beforehand, and processes that end, fork and
// lose their files while calls are being recorded. Unaware of slipstream.

#define __CUDA_API_VERSION_INTERNAL
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <glob.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

// The calls of `details`, one a line: function, bytes, stream, status. `tests/preload/tracer` compares them with the
// trace; a line is printed behind its call.
void Say(const char* function, size_t bytes, const void* stream, cudaError_t status) {
  std::printf("%s %zu %zu %d\n", function, bytes, reinterpret_cast<uintptr_t>(stream), static_cast<int>(status));
}

int Details() {
  void* device = nullptr;
  Say("cudaFree", 0, nullptr, cudaFree(nullptr));  // makes the context
  Say("cudaMalloc", 1 << 20, nullptr, cudaMalloc(&device, 1 << 20));
  cudaStream_t one = nullptr;
  cudaStream_t two = nullptr;
  Say("cudaStreamCreateWithFlags", 0, nullptr, cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
  Say("cudaStreamCreate", 0, nullptr, cudaStreamCreate(&two));
  std::vector<char> host(1 << 20, 'x');
  const auto copy = [&](size_t bytes, cudaStream_t stream) {
    Say("cudaMemcpyAsync", bytes, stream, cudaMemcpyAsync(device, host.data(), bytes, cudaMemcpyHostToDevice, stream));
    Say("cudaStreamSynchronize", 0, stream, cudaStreamSynchronize(stream));
  };
  copy(4096, one);
  copy(1 << 20, two);
  copy(100, nullptr);
  copy(101, cudaStreamLegacy);
  copy(102, cudaStreamPerThread);
  Say("cudaMemcpy", 50, nullptr, cudaMemcpy(host.data(), device, 50, cudaMemcpyDeviceToHost));
  Say("cudaMemsetAsync", 256, two, cudaMemsetAsync(device, 0, 256, two));
  // Where the handle 0 is another stream.
  Say("cudaMemcpyAsync_ptsz", 103, cudaStreamPerThread,
      cudaMemcpyAsync_ptsz(device, host.data(), 103, cudaMemcpyHostToDevice, nullptr));
  Say("cudaMemcpyAsync_ptsz", 104, one, cudaMemcpyAsync_ptsz(device, host.data(), 104, cudaMemcpyHostToDevice, one));
  Say("cudaMemcpyAsync_ptsz", 105, cudaStreamLegacy,
      cudaMemcpyAsync_ptsz(device, host.data(), 105, cudaMemcpyHostToDevice, cudaStreamLegacy));
  Say("cudaStreamSynchronize_ptsz", 0, cudaStreamPerThread, cudaStreamSynchronize_ptsz(nullptr));
  Say("cudaMemcpy_ptds", 60, cudaStreamPerThread, cudaMemcpy_ptds(device, host.data(), 60, cudaMemcpyHostToDevice));
  Say("cudaMemset_ptds", 61, cudaStreamPerThread, cudaMemset_ptds(device, 0, 61));
  cudaLaunchConfig_t configuration = {};
  configuration.stream = two;
  Say("cudaLaunchKernelExC", 0, two, cudaLaunchKernelExC(&configuration, &configuration, nullptr));
  configuration.stream = nullptr;
  Say("cudaLaunchKernelExC_ptsz", 0, cudaStreamPerThread,
      cudaLaunchKernelExC_ptsz(&configuration, &configuration, nullptr));
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  Say("cudaStreamIsCapturing", 0, two, cudaStreamIsCapturing(two, &capture));
  Say("cudaDeviceSynchronize", 0, nullptr, cudaDeviceSynchronize());
  // Refused: no bytes moved, and the status is the call's own.
  Say("cudaFree", 0, nullptr, cudaFree(host.data()));
  Say("cudaGetLastError", 0, nullptr, cudaGetLastError());
  Say("cudaMemcpyAsync", 0, one, cudaMemcpyAsync(device, nullptr, 4096, cudaMemcpyHostToDevice, one));
  Say("cudaStreamDestroy", 0, one, cudaStreamDestroy(one));
  Say("cudaFree", 0, nullptr, cudaFree(device));
  return 0;
}

// Copies in pairs: of the same bytes, and of bytes of which one differs. And one of pinned memory, which nobody may
// read before its stream comes to it.
int Contents() {
  constexpr size_t kLarge = 1 << 20;
  void* device = nullptr;
  cudaStream_t stream = nullptr;
  cudaMalloc(&device, kLarge);
  cudaStreamCreate(&stream);
  std::vector<char> host(kLarge, 'x');
  const auto copy = [&](const void* from, size_t bytes) {
    Say("cudaMemcpyAsync", bytes, stream, cudaMemcpyAsync(device, from, bytes, cudaMemcpyHostToDevice, stream));
    cudaStreamSynchronize(stream);
  };
  for (const size_t bytes : {size_t{4096}, kLarge}) {
    copy(host.data(), bytes);
    copy(std::vector<char>(host).data(), bytes);
    host[bytes - 1] = 'y';
    copy(host.data(), bytes);
    host[bytes - 1] = 'x';
    copy(host.data(), bytes);
  }
  void* const pinned = mmap(nullptr, kLarge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  cudaHostRegister(pinned, kLarge, 0);
  mprotect(pinned, kLarge, PROT_NONE);
  Say("cudaMemcpyAsync", kLarge, stream, cudaMemcpyAsync(device, pinned, kLarge, cudaMemcpyHostToDevice, stream));
  mprotect(pinned, kLarge, PROT_READ | PROT_WRITE);
  cudaStreamSynchronize(stream);
  cudaHostUnregister(pinned);
  cudaFree(device);
  return 0;
}

// What the calls of `blocks` did to memory of devices, one a line: use, kind, bytes, address, stream, device.
void Did(const char* use, const char* kind, size_t bytes, const void* address, const void* stream, int device) {
  std::printf("%s %s %zu %zu %zu %d\n", use, kind, bytes, reinterpret_cast<uintptr_t>(address),
              reinterpret_cast<uintptr_t>(stream), device);
}

int Blocks() {
  void* first = nullptr;
  void* second = nullptr;
  void* managed = nullptr;
  void* ordered = nullptr;
  cudaPitchedPtr pitched = {};
  size_t pitch = 0;
  cudaStream_t stream = nullptr;
  cudaStreamCreate(&stream);
  cudaMalloc(&first, 3 << 20);
  Did("allocated", "device", 3 << 20, first, nullptr, 0);
  cudaFree(first);
  Did("freed", "device", 0, first, nullptr, -1);
  cudaMallocPitch(&first, &pitch, 100, 7);
  Did("allocated", "device", 700, first, nullptr, 0);
  cudaMalloc3D(&pitched, cudaExtent{10, 20, 30});
  Did("allocated", "device", 6000, pitched.ptr, nullptr, 0);
  cudaMallocManaged(&managed, 5000);
  Did("allocated", "managed", 5000, managed, nullptr, -1);
  cudaMallocAsync(&ordered, 4 << 20, stream);
  Did("allocated", "device", 4 << 20, ordered, stream, 0);
  cudaFreeAsync(ordered, stream);
  Did("freed", "device", 0, ordered, stream, -1);
  // Of the other device, whichever is current when it goes.
  cudaSetDevice(1);
  cudaMalloc(&second, 2 << 20);
  Did("allocated", "device", 2 << 20, second, nullptr, 1);
  cudaSetDevice(0);
  cudaFree(second);
  Did("freed", "device", 0, second, nullptr, -1);
  // None of these is any.
  cudaFree(nullptr);
  cudaFree(&pitch);
  cudaGetLastError();
  cudaMalloc(&second, size_t{1} << 60);
  cudaGetLastError();
  cudaMalloc(nullptr, 1 << 20);
  cudaGetLastError();
  void* pinned = nullptr;
  cudaMallocHost(&pinned, 4096);
  cudaFreeHost(pinned);
  cudaFree(managed);
  Did("freed", "device", 0, managed, nullptr, -1);  // a free does not say of what
  cudaDeviceReset();
  Did("reset", "device", 0, nullptr, nullptr, -1);
  return 0;
}

void Calls(int count) {
  for (int i = 0; i < count; ++i) cudaPeekAtLastError();
}

int Storm(int threads, int calls) {
  cudaGetLastError();  // the first of the process, alone
  std::vector<std::thread> pool;
  for (int i = 0; i < threads; ++i) pool.emplace_back(Calls, calls);
  for (std::thread& thread : pool) thread.join();
  return 0;
}

// A child in the middle, which calls CUDA, starts a thread that does, and ends as programs do. Another thread is at its
// calls meanwhile, neither at its start nor at its end: it may hold no lock there of an allocator that does not mind
// forks (AddressSanitizer's), which the child would wait for.
int Fork(int calls) {
  Calls(calls);
  std::atomic<bool> calling{false};
  std::atomic<bool> forked{false};
  std::thread beside([&] {
    Calls(1);
    calling.store(true);
    calling.notify_one();
    Calls(calls - 1);
    forked.wait(false);
  });
  calling.wait(false);
  const pid_t child = fork();
  if (child == 0) {
    Calls(1000);
    std::thread(Calls, 1000).join();
    std::exit(5);  // exit handlers and all
  }
  forked.store(true);
  forked.notify_one();
  int status = 0;
  waitpid(child, &status, 0);
  beside.join();
  Calls(calls);
  std::printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  return 0;
}

// 1000 calls and a byte on standard output for every byte on standard input.
int Steps() {
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) == 1) {
    Calls(1000);
    if (write(STDOUT_FILENO, "x", 1) != 1) return 1;
  }
  return 0;
}

// Takes its run's directory away in the middle. Closes no descriptor for it: the recorder's thread has a table of its
// own, and ThreadSanitizer takes equal numbers of two tables for one file.
int Remove(const char* directory) {
  Calls(100);
  glob_t files = {};
  if (glob((std::string(directory) + "/*").c_str(), 0, nullptr, &files) == 0) {
    for (size_t i = 0; i < files.gl_pathc; ++i) unlink(files.gl_pathv[i]);
    globfree(&files);
  }
  if (rmdir(directory) != 0) std::perror("rmdir");
  Calls(50'000);
  std::printf("done\n");
  return 0;
}

// The names of the process's threads, once it has called CUDA.
int Threads() {
  Calls(1);
  std::set<std::string> names;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    names.insert(name);
  }
  for (const std::string& name : names) std::printf("%s\n", name.c_str());
  return 0;
}

int Limited(rlim_t bytes, bool ignore, int calls) {
  signal(SIGXFSZ, ignore ? SIG_IGN : SIG_DFL);
  const rlimit limit = {bytes, bytes};
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
  Calls(calls);
  std::printf("done\n");
  return 0;
}

struct CallsAtExit {
  int calls = 0;
  ~CallsAtExit() { Calls(calls); }
};
CallsAtExit g_calls_at_exit;

int AtExit() {
  g_calls_at_exit.calls = 7;
  Calls(3);
  std::atexit([] { cudaGetLastError(); });
  return 0;
}

int Memory(int blocks) {
  std::vector<void*> memory(static_cast<size_t>(blocks));
  for (void*& block : memory) {
    if (cudaMalloc(&block, 4 << 20) != cudaSuccess) return 1;
  }
  for (void* const block : memory) cudaFree(block);
  return 0;
}

// The device's first memory, which is when a pool first says what it holds, and what is in use of the device then; with
// `capture`, while a stream is being captured.
int DeviceUse(bool capture) {
  cudaStream_t stream = nullptr;
  if (cudaStreamCreate(&stream) != cudaSuccess) return 1;
  if (capture && cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) != cudaSuccess) return 1;
  void* block = nullptr;
  if (cudaMalloc(&block, 6 << 20) != cudaSuccess) return 1;
  cudaGraph_t graph = nullptr;
  if (capture && cudaStreamEndCapture(stream, &graph) != cudaSuccess) return 1;
  size_t free = 0;
  size_t total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) return 1;
  std::printf("%zu\n", total - free);
  return 0;
}

// Calls, tells by one pipe, and ends when somebody opens the other one.
int Stays(const char* ready, const char* ends) {
  cudaFree(nullptr);
  close(open(ready, O_WRONLY));
  close(open(ends, O_RDONLY));
  return 0;
}

// A line for each step; so many calls that the rings are emptied between them.
int Lines() {
  void* device = nullptr;
  cudaMalloc(&device, 64);
  const std::vector<char> host(64);
  for (int step = 0; step < 200; ++step) {
    for (int i = 0; i < 200; ++i) cudaMemcpy(device, host.data(), host.size(), cudaMemcpyHostToDevice);
    std::printf("step %d\n", step);
    std::fflush(stdout);
  }
  return cudaFree(device);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const auto number = [&](int at) { return argc > at ? std::atoi(argv[at]) : 0; };
  if (what == "details") return Details();
  if (what == "blocks") return Blocks();
  if (what == "contents") return Contents();
  if (what == "calls") {
    Calls(number(2));
    return 0;
  }
  if (what == "storm") return Storm(number(2), number(3));
  if (what == "fork") return Fork(number(2));
  if (what == "steps") return Steps();
  if (what == "remove") return Remove(argv[2]);
  if (what == "threads") return Threads();
  if (what == "lines") return Lines();
  if (what == "stays") return Stays(argv[2], argv[3]);
  if (what == "limited") return Limited(static_cast<rlim_t>(number(2)), number(3) != 0, number(4));
  if (what == "at_exit") return AtExit();
  if (what == "memory") return Memory(number(2));
  if (what == "device_use") return DeviceUse(number(2) != 0);
  if (what == "exec") {
    Calls(number(2));
    execl("/proc/self/exe", argv[0], "calls", argv[2], static_cast<char*>(nullptr));
    return 1;
  }
  std::fprintf(stderr, "unknown: %s\n", what.c_str());
  return 2;
}
