// Another library that is preloaded, in front of slipstream or behind it: it keeps every promise of CUDA's, and looks
// at what the program does by the driver's functions. What it sees that CUDA rules out, it tells the program as
// cudaErrorUnknown. OTHER says which:
//   watch    after a wait, asks whether what was waited for is over, as a progress bar or a watchdog does
//   time     records events around a copy to the device, as a profiler does, and reads them after the wait
//
// Threading: the program's; each thread has its own events.

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

#define OTHER_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

bool Does(const char* what) {
  static const char* const wanted = std::getenv("OTHER");
  return wanted != nullptr && std::strcmp(wanted, what) == 0;
}

// The next one of that name, whoever it is.
template <typename Function>
Function* Next(const char* name) {
  void* volatile const found = dlsym(RTLD_NEXT, name);  // not the last thing: this library asks
  return reinterpret_cast<Function*>(found);
}
#define NEXT(function) Next<decltype(function)>(#function)

// ---- time

// Around the thread's last copy to the device.
struct Timer {
  CUevent begin = nullptr;
  CUevent end = nullptr;
  unsigned long long stream = 0;  // a number, not a handle, which another stream may get
  bool runs = false;

  bool Make() {
    return begin != nullptr || (cuEventCreate(&begin, CU_EVENT_DEFAULT) == CUDA_SUCCESS &&
                                cuEventCreate(&end, CU_EVENT_DEFAULT) == CUDA_SUCCESS);
  }
};
thread_local Timer timer;

unsigned long long NumberOf(cudaStream_t stream) {
  unsigned long long number = 0;
  return cuStreamGetId(stream, &number) == CUDA_SUCCESS ? number : 0;
}

bool MayTime(cudaStream_t stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return Does("time") && cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
         status == CU_STREAM_CAPTURE_STATUS_NONE && timer.Make();
}

template <typename Copy>
cudaError_t Timed(cudaStream_t stream, const Copy& copy) {
  if (!MayTime(stream)) return copy();
  timer.runs = cuEventRecord(timer.begin, stream) == CUDA_SUCCESS;
  const cudaError_t result = copy();
  timer.runs = timer.runs && cuEventRecord(timer.end, stream) == CUDA_SUCCESS;
  timer.stream = NumberOf(stream);
  return result;
}

// ---- after a wait that succeeded

bool IsOver(cudaStream_t stream) {
  float milliseconds = 0;
  if (Does("watch")) return cuStreamQuery(stream) == CUDA_SUCCESS;
  if (!Does("time") || !timer.runs || timer.stream != NumberOf(stream)) return true;
  timer.runs = false;
  return cuEventElapsedTime(&milliseconds, timer.begin, timer.end) == CUDA_SUCCESS;
}

cudaError_t After(cudaError_t result, bool is_over) {
  return result == cudaSuccess && !is_over ? cudaErrorUnknown : result;
}

}  // namespace

OTHER_EXPORT cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind,
                                         cudaStream_t stream) {
  // Not what is complete when it returns: the event behind it would be more for the program to wait for.
  if (kind != cudaMemcpyHostToDevice) return NEXT(cudaMemcpyAsync)(dst, src, bytes, kind, stream);
  return Timed(stream, [&] { return NEXT(cudaMemcpyAsync)(dst, src, bytes, kind, stream); });
}

OTHER_EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const cudaError_t result = NEXT(cudaStreamSynchronize)(stream);
  return After(result, result != cudaSuccess || IsOver(stream));
}

OTHER_EXPORT cudaError_t cudaDeviceSynchronize() {
  const cudaError_t result = NEXT(cudaDeviceSynchronize)();
  return After(result, result != cudaSuccess || IsOver(nullptr));
}

OTHER_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const cudaError_t result = NEXT(cudaEventSynchronize)(event);
  return After(result, result != cudaSuccess || !Does("watch") || cuEventQuery(event) == CUDA_SUCCESS);
}
