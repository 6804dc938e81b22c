// A library that uses CUDA, as the programs under test dlopen one; linked to libcudart 12 or 13 by the build.

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>

// The few names by hand: this file is built against either runtime, and the headers are those of one.
extern "C" {
int cudaMalloc(void** pointer, size_t size);
int cudaFree(void* pointer);
int cudaGetLastError();
int cudaStreamCreate(void** stream);
int cudaStreamDestroy(void* stream);
int cudaRuntimeGetVersion(int* version);
#if USER_RUNTIME == 12
int cudaMemPrefetchAsync(const void* pointer, size_t count, int device, void* stream);
int cudaStreamGetCaptureInfo_v2(void* stream, int* status, unsigned long long* id, void** graph, void** dependencies,
                                size_t* count);
#else
struct Location {
  int type;
  int id;
};
int cudaMemPrefetchAsync(const void* pointer, size_t count, Location location, unsigned int flags, void* stream);
#endif
}

// Returns the version of the runtime that it is linked to, or minus the number of the step that failed.
extern "C" [[gnu::visibility("default")]] int UseCuda() {
  void* pointer = nullptr;
  if (cudaMalloc(&pointer, 4096) != 0) return -1;
  if (cudaFree(pointer) != 0) return -2;
  void* stream = nullptr;
  if (cudaStreamCreate(&stream) != 0) return -3;
#if USER_RUNTIME == 12
  int status = 7;
  unsigned long long id = 0;
  if (cudaStreamGetCaptureInfo_v2(stream, &status, &id, nullptr, nullptr, nullptr) != 0 || status != 0) return -4;
#endif
  if (cudaStreamDestroy(stream) != 0) return -5;
  int version = 0;
  if (cudaRuntimeGetVersion(&version) != 0) return -6;
  return version;
}

// Only functions whose signature depends on the runtime: the result of prefetching plain device memory,
// which both refuse.
extern "C" [[gnu::visibility("default")]] int UsePrefetch() {
  int on_stack = 0;
#if USER_RUNTIME == 12
  return cudaMemPrefetchAsync(&on_stack, sizeof(on_stack), 0, nullptr);
#else
  return cudaMemPrefetchAsync(&on_stack, sizeof(on_stack), Location{1, 0}, 0, nullptr);
#endif
}

extern "C" [[gnu::visibility("default")]] int cuOfTheUser() { return 0; }

// How many of these are in this library's scope: a hooked function of the runtime's, one that is not, and its own.
extern "C" [[gnu::visibility("default")]] int LookUpInItsScope() {
  int found = 0;
  for (const char* const name : {"cudaMalloc", "cudaGetErrorString", "cuOfTheUser"}) {
    void* volatile function = dlsym(RTLD_DEFAULT, name);
    found += function != nullptr ? 1 : 0;
  }
  return found;
}
