// A library to be preloaded that skips the synchronise behind a copy from pageable memory where the program cannot
// tell: an engine in small, of which the differential test must find nothing, and with a rule left out (ENGINE_WITHOUT)
// must find that:
//   effects     what earlier work of the stream reads and writes in host memory is not waited for
//   other       what other streams read and write there does not keep the synchronise
//   reads       only what is written counts: pinned memory that an earlier copy has yet to read may be overwritten
//   order       later work on other streams is not held back
//   queries     a question that is answered "not ready" is passed on
//   captures    the device is told to wait while something is being captured
//   pageable    copies from pinned memory count too
//   stream      a synchronise of any stream counts as that of the copy's
//   graphs      launches of graphs have no effects on host memory
//   frees       memory is freed while a copy to it may not have run (cudaFree of pool memory waits for nothing)
//   mapped      managed and mapped memory, which kernels write unseen, are no reason to stand aside
// It exists to show that the programs reach what these rules are for.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#define ENGINE_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

bool Without(const char* rule) {
  static const char* const left_out = std::getenv("ENGINE_WITHOUT");
  return left_out != nullptr && std::strcmp(left_out, rule) == 0;
}

template <typename Function>
Function* Real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}
#define REAL(function) Real<decltype(function)>(#function)
#define REAL_DRIVER(function, symbol) Real<decltype(function)>(symbol)

// A stream, and whose it is if it is one that each thread has.
using Key = std::pair<cudaStream_t, long>;
long ThisThread() { return static_cast<long>(syscall(SYS_gettid)); }
Key KeyOf(cudaStream_t stream) { return {stream, stream == cudaStreamPerThread ? ThisThread() : 0}; }

struct Effect {
  Key stream;
  CUevent event;
};

std::mutex mutex;
std::vector<Effect> effects;  // not known to be complete
int captures = 0;
bool mapped = false;  // the program has memory that kernels reach and the host too

// A synchronise that was skipped: the thread, and what it would have waited for.
struct Owed {
  long thread;
  CUevent event;
};
std::vector<Owed> all_owed;

struct ThreadState {
  bool candidate = false;  // the last call was a copy whose synchronise may be skipped
  cudaStream_t stream = nullptr;
};
thread_local ThreadState mine;

CUevent NewEvent() {
  CUevent event = nullptr;
  REAL_DRIVER(cuEventCreate, "cuEventCreate")(&event, CU_EVENT_DISABLE_TIMING);
  return event;
}
CUevent RecordOn(cudaStream_t stream) {
  const CUevent event = NewEvent();
  REAL_DRIVER(cuEventRecord, "cuEventRecord")(event, stream);
  return event;
}
void Destroy(CUevent event) { REAL_DRIVER(cuEventDestroy, "cuEventDestroy_v2")(event); }
void WaitFor(CUevent event) { REAL_DRIVER(cuEventSynchronize, "cuEventSynchronize")(event); }
bool IsComplete(CUevent event) { return REAL_DRIVER(cuEventQuery, "cuEventQuery")(event) == CUDA_SUCCESS; }

// In a capture of any mode, these calls of ours are nobody's business.
class RelaxedCapture {
 public:
  RelaxedCapture() { Exchange(); }
  ~RelaxedCapture() { Exchange(); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  void Exchange() { REAL_DRIVER(cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode")(&mode_); }
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

cudaMemoryType TypeOf(const void* pointer) {
  cudaPointerAttributes attributes = {};
  REAL(cudaPointerGetAttributes)(&attributes, pointer);
  return attributes.type;
}

bool IsCapturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return REAL(cudaStreamIsCapturing)(stream, &status) != cudaSuccess || status != cudaStreamCaptureStatusNone;
}

// Whether a copy reads or writes host memory after its call has returned. (One to pageable memory, and one from host to
// host, is complete then; an event behind it would make the stream look busy.)
bool HasEffect(const void* dst, const void* src) {
  const cudaMemoryType from = TypeOf(src);
  const cudaMemoryType to = TypeOf(dst);
  const bool reads = from == cudaMemoryTypeHost && to == cudaMemoryTypeDevice;
  const bool writes = from == cudaMemoryTypeDevice && to == cudaMemoryTypeHost;
  return writes || (reads && !Without("reads") && !Without("pageable"));
}

// Work that reads or writes host memory has been submitted to the stream.
cudaError_t WithEffect(cudaError_t result, cudaStream_t stream) {
  mine.candidate = false;
  if (result != cudaSuccess || IsCapturing(stream)) return result;
  const std::lock_guard<std::mutex> lock(mutex);
  effects.push_back({KeyOf(stream), RecordOn(stream)});
  return result;
}

// Whether the effects allow a skip; those of the stream itself are then complete. The mutex is held.
bool EffectsAllow(cudaStream_t stream) {
  std::erase_if(effects, [](const Effect& effect) {
    const bool complete = IsComplete(effect.event);
    if (complete) Destroy(effect.event);
    return complete;
  });
  const Key key = KeyOf(stream);
  const auto other = [&key](const Effect& effect) { return effect.stream != key; };
  if (!Without("other") && std::any_of(effects.begin(), effects.end(), other)) return false;
  if (Without("effects")) return true;
  for (const Effect& effect : effects) {
    if (effect.stream == key) WaitFor(effect.event);
  }
  return true;
}

bool Skip(cudaStream_t stream) {
  const RelaxedCapture relaxed;
  // To the end: no capture may begin meanwhile.
  const std::lock_guard<std::mutex> lock(mutex);
  if (captures > 0 && !Without("captures")) return false;
  if (mapped && !Without("mapped")) return false;
  if (!EffectsAllow(stream)) return false;
  const CUevent event = RecordOn(mine.stream);
  if (!Without("order")) {
    CUcontext context = nullptr;
    REAL_DRIVER(cuCtxGetCurrent, "cuCtxGetCurrent")(&context);
    REAL_DRIVER(cuCtxWaitEvent, "cuCtxWaitEvent")(context, event);
  }
  all_owed.push_back({ThisThread(), event});
  return true;
}

// Waits for what this thread, or every thread, has skipped.
void Pay(bool everybody) {
  const RelaxedCapture relaxed;
  const std::lock_guard<std::mutex> lock(mutex);
  std::erase_if(all_owed, [everybody, thread = ThisThread()](const Owed& owed) {
    const bool pays = everybody || owed.thread == thread;
    if (pays) WaitFor(owed.event);
    if (pays) Destroy(owed.event);
    return pays;
  });
}

template <typename Ask>
cudaError_t Asked(const Ask& ask) {
  mine.candidate = false;
  const cudaError_t answer = ask();
  if (answer != cudaErrorNotReady || Without("queries")) return answer;
  // Asked again even where nothing is owed any more: another thread's free may just have paid it.
  Pay(false);
  return ask();
}

}  // namespace

ENGINE_EXPORT cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t count, cudaMemcpyKind kind,
                                          cudaStream_t stream) {
  mine.candidate = false;
  const cudaError_t result = REAL(cudaMemcpyAsync)(dst, src, count, kind, stream);
  if (result != cudaSuccess || count == 0) return result;
  if (HasEffect(dst, src)) return WithEffect(result, stream);
  const cudaMemoryType from = TypeOf(src);
  const bool eligible = from == cudaMemoryTypeUnregistered || (from == cudaMemoryTypeHost && Without("pageable"));
  mine.candidate = eligible && TypeOf(dst) == cudaMemoryTypeDevice && !IsCapturing(stream);
  mine.stream = stream;
  return result;
}

ENGINE_EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const bool candidate = mine.candidate && (stream == mine.stream || Without("stream"));
  mine.candidate = false;
  return candidate && Skip(stream) ? cudaSuccess : REAL(cudaStreamSynchronize)(stream);
}

ENGINE_EXPORT cudaError_t cudaMemcpy2DAsync(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
                                            size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  const cudaError_t result = REAL(cudaMemcpy2DAsync)(dst, dpitch, src, spitch, width, height, kind, stream);
  if (HasEffect(dst, src)) return WithEffect(result, stream);
  mine.candidate = false;
  return result;
}
ENGINE_EXPORT cudaError_t cudaMemsetAsync(void* devPtr, int value, size_t count, cudaStream_t stream) {
  const cudaError_t result = REAL(cudaMemsetAsync)(devPtr, value, count, stream);
  if (TypeOf(devPtr) == cudaMemoryTypeHost) return WithEffect(result, stream);
  mine.candidate = false;
  return result;
}
ENGINE_EXPORT cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void* userData) {
  return WithEffect(REAL(cudaLaunchHostFunc)(stream, fn, userData), stream);
}
ENGINE_EXPORT cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* userData,
                                                unsigned int flags) {
  return WithEffect(REAL(cudaStreamAddCallback)(stream, callback, userData, flags), stream);
}
ENGINE_EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  const cudaError_t result = REAL(cudaGraphLaunch)(exec, stream);
  return Without("graphs") ? result : WithEffect(result, stream);
}

ENGINE_EXPORT cudaError_t cudaFree(void* devPtr) {
  mine.candidate = false;
  if (!Without("frees")) Pay(true);
  return REAL(cudaFree)(devPtr);
}

ENGINE_EXPORT cudaError_t cudaMallocManaged(void** devPtr, size_t size, unsigned int flags) {
  const std::lock_guard<std::mutex> lock(mutex);
  mapped = true;
  return REAL(cudaMallocManaged)(devPtr, size, flags);
}
ENGINE_EXPORT cudaError_t cudaHostGetDevicePointer(void** pDevice, void* pHost, unsigned int flags) {
  const std::lock_guard<std::mutex> lock(mutex);
  mapped = true;
  return REAL(cudaHostGetDevicePointer)(pDevice, pHost, flags);
}

ENGINE_EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const std::lock_guard<std::mutex> lock(mutex);
  const cudaError_t result = REAL(cudaStreamBeginCapture)(stream, mode);
  captures += result == cudaSuccess ? 1 : 0;
  return result;
}
ENGINE_EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard<std::mutex> lock(mutex);
  --captures;
  return REAL(cudaStreamEndCapture)(stream, graph);
}

ENGINE_EXPORT cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return Asked([stream] { return REAL(cudaStreamQuery)(stream); });
}
ENGINE_EXPORT cudaError_t cudaEventQuery(cudaEvent_t event) {
  return Asked([event] { return REAL(cudaEventQuery)(event); });
}
// The runtime header of CUDA 13 gives this name to another symbol.
#undef cudaEventElapsedTime
ENGINE_EXPORT cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return Asked([ms, start, end] { return REAL(cudaEventElapsedTime)(ms, start, end); });
}
