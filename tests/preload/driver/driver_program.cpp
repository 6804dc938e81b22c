// Reaches functions of the driver in every way there is, and says whose they are and what they do.
//
//   ways            a line for each function and way: name, way, the symbol and library that the address belongs to
//   lookup LIBRARY  the same for what a library finds
//   calls N         N allocations by each way, beside N by the runtime
//   fork            a child uses what its parent was given
//   early           functions of the driver and of the runtime before there is a context, and on threads that have none
//   behind LIBRARY  copies of the program's own, behind what a library with a runtime of its own has done before

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace {

// "cuMemAlloc_v2 of libcuda.so.1"
std::string Whose(void* function) {
  Dl_info info = {};
  if (function == nullptr) return "nobody";
  if (dladdr(function, &info) == 0 || info.dli_fname == nullptr) return "unknown";
  const char* const slash = std::strrchr(info.dli_fname, '/');
  return std::string(info.dli_sname != nullptr ? info.dli_sname : "?") + " of " +
         (slash != nullptr ? slash + 1 : info.dli_fname);
}

void Say(const std::string& what, const char* way, void* function) {
  std::printf("%s by %s: %s\n", what.c_str(), way, Whose(function).c_str());
}

void* ByName(const char* name) { return dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), name); }

template <typename Result>
void* Asked(Result result, void* function) {
  return static_cast<int>(result) == 0 ? function : nullptr;
}

int Ways() {
  for (const char* const name : {"cuMemAlloc_v2", "cuMemcpyHtoDAsync_v2_ptsz", "cuInit", "cuMemAlloc", "cuNoSuch"}) {
    Say(name, "dlsym", ByName(name));
    Say(name, "dlsym in the global scope", dlsym(RTLD_DEFAULT, name));
    Say(name, "dlsym in the program", dlsym(dlopen(nullptr, RTLD_NOW), name));
  }
  Say("cudaMalloc", "dlsym in the global scope", dlsym(RTLD_DEFAULT, "cudaMalloc"));

  using First = decltype(&cuGetProcAddress_v2);
  struct Question {
    const char* name;
    int version;
    cuuint64_t flags;
  };
  constexpr cuuint64_t kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  const Question questions[] = {{"cuMemAlloc", 13000, 0},
                                {"cuMemAlloc", 2000, 0},
                                {"cuMemcpyAsync", 13000, 0},
                                {"cuMemcpyAsync", 13000, kPerThread},
                                {"cuStreamGetCaptureInfo", 11030, 0},
                                {"cuStreamGetCaptureInfo", 13000, kPerThread},
                                {"cuEventElapsedTime", 12000, 0},
                                {"cuEventElapsedTime", 13000, 0},
                                {"cuGetProcAddress", 12000, 0},
                                {"cuGetProcAddress", 11030, 0},
                                {"cuDeviceGetCount", 13000, 0},
                                {"cuNoSuch", 13000, 0}};
  for (const Question& question : questions) {
    const std::string what = std::string(question.name) + " " + std::to_string(question.version) + " " +
                             std::to_string(static_cast<int>(question.flags));
    void* function = nullptr;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    CUresult result = cuGetProcAddress_v2(question.name, &function, question.version, question.flags, &status);
    Say(what, ("cuGetProcAddress_v2, " + std::to_string(status)).c_str(), Asked(result, function));
    // Without a place for the status, and by the address that was looked up.
    const auto looked_up = reinterpret_cast<First>(ByName("cuGetProcAddress_v2"));
    function = nullptr;
    result = looked_up(question.name, &function, question.version, question.flags, nullptr);
    Say(what, "cuGetProcAddress_v2 that was looked up", Asked(result, function));
    const auto older = reinterpret_cast<CUresult (*)(const char*, void**, int, cuuint64_t)>(ByName("cuGetProcAddress"));
    function = nullptr;
    result = older(question.name, &function, question.version, question.flags);
    Say(what, "cuGetProcAddress", Asked(result, function));
    function = nullptr;
    const cudaError_t by_runtime = cudaGetDriverEntryPointByVersion(
        question.name, &function, static_cast<unsigned>(question.version),
        question.flags != 0 ? cudaEnablePerThreadDefaultStream : cudaEnableLegacyStream, nullptr);
    Say(what, "cudaGetDriverEntryPointByVersion", Asked(by_runtime, function));
  }
  void* function = &function;
  std::printf("bad version: %d\n", cuGetProcAddress_v2("cuMemAlloc", &function, 99000, 0, nullptr));
  std::printf("no place: %d\n", cuGetProcAddress_v2("cuMemAlloc", nullptr, 13000, 0, nullptr));
  return 0;
}

int Lookup(const char* library) {
  void* const handle = dlopen(library, RTLD_NOW);
  auto* const look_up = handle != nullptr ? reinterpret_cast<void* (*)(const char*)>(dlsym(handle, "LookUp")) : nullptr;
  if (look_up == nullptr) return 1;
  Say("cuMemAlloc_v2", "a library", look_up("cuMemAlloc_v2"));
  return 0;
}

#define CHECK(call)                            \
  do {                                         \
    const int result = static_cast<int>(call); \
    if (result != 0) {                         \
      std::printf("%s: %d\n", #call, result);  \
      return 1;                                \
    }                                          \
  } while (false)

using Allocate = decltype(&cuMemAlloc_v2);

int Allocations(Allocate allocate, int count) {
  for (int i = 0; i < count; ++i) {
    CUdeviceptr address = 0;
    CHECK(allocate(&address, 4096));
    CHECK(cuMemFree_v2(address));
  }
  return 0;
}

int Calls(int count) {
  CHECK(cuInit(0));
  CUcontext context = nullptr;
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  CHECK(Allocations(&cuMemAlloc_v2, count));
  CHECK(Allocations(reinterpret_cast<Allocate>(ByName("cuMemAlloc_v2")), count));
  void* asked = nullptr;
  CHECK(cuGetProcAddress_v2("cuMemAlloc", &asked, 13000, 0, nullptr));
  CHECK(Allocations(reinterpret_cast<Allocate>(asked), count));
  for (int i = 0; i < count; ++i) {
    void* pointer = nullptr;
    CHECK(cudaMalloc(&pointer, 4096));
    CHECK(cudaFree(pointer));
  }
  CUdeviceptr address = 0;
  CHECK(cuMemAlloc_v2(&address, 1 << 20));
  std::string bytes(1 << 20, 'x');
  CHECK(cuMemcpyHtoD_v2(address, bytes.data(), bytes.size()));
  std::string back(bytes.size(), ' ');
  CHECK(cuMemcpyDtoH_v2(back.data(), address, back.size()));
  std::printf("bytes: %s\n", back == bytes ? "equal" : "different");
  std::printf("twice: %d %d\n", static_cast<int>(cuMemFree_v2(address)), static_cast<int>(cuMemFree_v2(address)));
  return 0;
}

int Fork() {
  CHECK(Calls(1));
  const auto allocate = reinterpret_cast<Allocate>(ByName("cuMemAlloc_v2"));
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    CUdeviceptr address = 0;
    const int given = static_cast<int>(allocate(&address, 4096));
    const int found = static_cast<int>(reinterpret_cast<Allocate>(ByName("cuMemAlloc_v2"))(&address, 4096));
    const int linked = static_cast<int>(cuMemAlloc_v2(&address, 4096));
    std::printf("child: %d %d %d\n", given, found, linked);
    std::fflush(stdout);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(Calls(1));
  return status;
}

// Every call's status, and no address: those are another process's own.
void WithoutContext(const char* when) {
  static char host[4096];
  static const char* place;
  place = when;
  const auto say = [](const char* what, CUresult result) {
    std::printf("%s, %s: %d\n", place, what, static_cast<int>(result));
  };
  CUdeviceptr address = 0;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  CUcontext context = nullptr;
  void* pinned = nullptr;
  unsigned type = 0;
  size_t free = 0;
  size_t total = 0;
  int count = -1;
  say("cuCtxGetCurrent", cuCtxGetCurrent(&context));
  std::printf("%s, a context: %s\n", when, context != nullptr ? "yes" : "no");
  say("cuDeviceGetCount", cuDeviceGetCount(&count));
  say("cuMemAlloc", cuMemAlloc_v2(&address, 4096));
  say("cuMemFree", cuMemFree_v2(0));
  say("cuMemHostAlloc", cuMemHostAlloc(&pinned, 4096, 0));
  say("cuMemHostRegister", cuMemHostRegister_v2(host, sizeof(host), 0));
  say("cuMemGetInfo", cuMemGetInfo_v2(&free, &total));
  say("cuMemcpyHtoD", cuMemcpyHtoD_v2(0x1000, host, 64));
  say("cuMemcpyHtoDAsync", cuMemcpyHtoDAsync_v2(0x1000, host, 64, nullptr));
  say("cuMemcpyDtoHAsync", cuMemcpyDtoHAsync_v2(host, 0x1000, 64, nullptr));
  say("cuMemsetD8", cuMemsetD8_v2(0x1000, 0, 64));
  say("cuStreamCreate", cuStreamCreate(&stream, 0));
  say("cuStreamSynchronize", cuStreamSynchronize(nullptr));
  say("cuStreamQuery", cuStreamQuery(nullptr));
  say("cuEventCreate", cuEventCreate(&event, 0));
  say("cuCtxSynchronize", cuCtxSynchronize());
  say("cuPointerGetAttribute",
      cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(host)));
}

int Early() {
  WithoutContext("before cuInit");
  std::printf("cuInit: %d\n", static_cast<int>(cuInit(0)));
  WithoutContext("without a context");
  // The runtime's first call of all is a copy, on a thread that never set a device.
  std::string bytes(3 << 20, 'x');
  std::string back(bytes.size(), ' ');
  std::thread([&] {
    void* memory = nullptr;
    std::printf("copy: %d\n",
                static_cast<int>(cudaMemcpyAsync(nullptr, bytes.data(), 64, cudaMemcpyHostToDevice, nullptr)));
    std::printf("left: %d\n", static_cast<int>(cudaGetLastError()));
    std::printf("free: %d\n", static_cast<int>(cudaFree(nullptr)));
    std::printf("allocation: %d\n", static_cast<int>(cudaMalloc(&memory, bytes.size())));
    std::printf("up: %d\n",
                static_cast<int>(cudaMemcpyAsync(memory, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, nullptr)));
    std::printf("down: %d\n", static_cast<int>(cudaMemcpy(back.data(), memory, back.size(), cudaMemcpyDeviceToHost)));
    std::printf("bytes: %s\n", back == bytes ? "equal" : "different");
    std::printf("freed: %d\n", static_cast<int>(cudaFree(memory)));
  }).join();
  // The process has a context by now, and this thread still has none.
  WithoutContext("beside another thread's context");
  CUcontext context = nullptr;
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cudaMemcpy(&back[0], bytes.data(), 64, cudaMemcpyHostToHost));
  CHECK(cuCtxSetCurrent(nullptr));
  WithoutContext("after it was put down");
  return 0;
}

int Behind(const char* library) {
  void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  auto* const first = handle != nullptr ? reinterpret_cast<void (*)()>(dlsym(handle, "UseCudaFirst")) : nullptr;
  if (first == nullptr) return 1;
  first();
  const std::string bytes(3 << 20, 'x');
  std::string back(bytes.size(), ' ');
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, bytes.size()));
  for (int i = 0; i < 3; ++i) {
    CHECK(cudaMemcpyAsync(memory, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, nullptr));
    CHECK(cudaStreamSynchronize(nullptr));
  }
  first();  // once more, beside the program's context
  CHECK(cudaMemcpy(back.data(), memory, back.size(), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(memory));
  CHECK(cudaGetLastError());
  std::printf("bytes: %s\n", back == bytes ? "equal" : "different");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "ways") return Ways();
  if (what == "lookup" && argc > 2) return Lookup(argv[2]);
  if (what == "calls" && argc > 2) return Calls(std::atoi(argv[2]));
  if (what == "fork") return Fork();
  if (what == "early") return Early();
  if (what == "behind" && argc > 2) return Behind(argv[2]);
  std::fputs("driver_program ways | lookup LIBRARY | calls N | fork | early | behind LIBRARY\n", stderr);
  return 2;
}
