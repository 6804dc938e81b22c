// The frame around every exported function of a simulated libcudart, and its way to the driver.
//
// Purpose: the runtime is thin. A function here turns its arguments into one or two driver calls, as the real library
// does, and keeps what is the runtime's own: the last error, the current device, the context made at first use.
// Threading: the last error and the current device are per thread.
// Hazard: compiled three times (libcudart.so.12, .so.13, static archive; SIM_CUDART, SIM_LIBRARY, SIM_HIDDEN say
// which).
//   Nothing may depend on which copy it is except through those.
// Source: the driver is found by dlopen("libcuda.so.1") and cuGetProcAddress_v2, like the real runtime does.
#ifndef TESTS_SIM_RUNTIME_ENTRY_H_
#define TESTS_SIM_RUNTIME_ENTRY_H_

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>
#include <cudaProfilerTypedefs.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>

#ifdef SIM_HIDDEN
#define SIM_RT_EXPORT extern "C" __attribute__((visibility("hidden")))
#else
#define SIM_RT_EXPORT extern "C" __attribute__((visibility("default")))
#endif

namespace simrt {

// Functions of the simulated driver that no real one has (control.cpp, launch.cpp).
struct Private {
  void* (*find_counter)(const char* library, const char* function) = nullptr;
  int (*enter)(void* counter) = nullptr;
  void (*leave)() = nullptr;
  int (*find_function)(const void* host_function, void** function) = nullptr;
  int (*find_variable)(const void* symbol, CUdeviceptr* address, size_t* bytes) = nullptr;
  int (*register_variable)(const void* symbol, const char* name, size_t bytes) = nullptr;
  void (*register_compiled)(const void* binary, const void* host_function, const char* name) = nullptr;
  void (*unregister_compiled)(const void* binary) = nullptr;
};
// Loads the driver at the first call. All null if there is none.
const Private& TheDriver();
// Null if the driver has no such function for that CUDA version.
void* Resolve(const char* base, int version, bool per_thread);

struct ThreadState {
  cudaError_t last_error = cudaSuccess;
  int device = 0;
  bool per_thread_default = false;  // entered by a _ptsz or _ptds name
};
ThreadState& ThisThread();

inline cudaError_t ToRuntime(CUresult result) {
  return static_cast<cudaError_t>(result);
}  // same numbers since CUDA 10.1

template <typename Function, typename... Arguments>
cudaError_t Call(Function function, Arguments... arguments) {
  return function != nullptr ? ToRuntime(function(arguments...)) : cudaErrorNotSupported;
}

// Gives the thread a current context: the primary one of its device, if it has none.
cudaError_t EnsureContext();

// A __managed__ variable: *host_variable is its address from the first context on.
void AddManagedVariable(void** host_variable, size_t bytes);

// The stream to name to the driver: 0 means the per-thread one in a function entered by its _ptsz name.
inline CUstream StreamOf(cudaStream_t stream) {
  return stream == nullptr && ThisThread().per_thread_default ? CU_STREAM_PER_THREAD : stream;
}

inline CUdeviceptr Address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
inline CUdeviceptr* Slot(void** pointer) { return reinterpret_cast<CUdeviceptr*>(pointer); }

// Where SIMCUDA_RUNTIME_EXIT says for how long, the library takes itself apart when the process ends. A call that
// begins meanwhile ends the process with SIGSEGV, as in libcudart 13.0, where the functions have what they read no
// more; later ones are refused.
cudaError_t EnterEnding();
extern std::atomic<bool> g_ending;

class Entry {
 public:
  Entry(void* counter, bool per_thread) : thread_(ThisThread()), before_(thread_.per_thread_default) {
    thread_.per_thread_default = per_thread;
    if (g_ending.load(std::memory_order_relaxed)) {
      code_ = EnterEnding();
    } else if (counter == nullptr) {
      code_ = cudaErrorInsufficientDriver;
    } else {
      entered_ = true;
      code_ = static_cast<cudaError_t>(TheDriver().enter(counter));
    }
  }
  ~Entry() {
    thread_.per_thread_default = before_;
    if (entered_) {
      TheDriver().leave();
    }
  }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  bool refused() const { return code_ != cudaSuccess; }
  cudaError_t code() const { return code_; }
  // Every error a call returns becomes the thread's last error. cudaErrorNotReady does not in CUDA 13 (measured); it is
  // said to in earlier ones, and is here: a program must bear both.
  cudaError_t Finish(cudaError_t result) const {
    if (result != cudaSuccess && (SIM_CUDART == 12 || result != cudaErrorNotReady)) {
      thread_.last_error = result;
    }
    return result;
  }

 private:
  ThreadState& thread_;
  bool before_;
  bool entered_ = false;
  cudaError_t code_ = cudaSuccess;
};

inline void* FindCounter(const char* function) {
  const Private& driver = TheDriver();
  return driver.find_counter != nullptr ? driver.find_counter(SIM_LIBRARY, function) : nullptr;
}

}  // namespace simrt

// CU(cuMemAlloc, 3020, &pointer, bytes): the driver function with the signature of that version, as a cudaError_t.
#define SIM_RESOLVED(base, since, suffix, per_thread)                                                \
  ([] {                                                                                              \
    static const auto resolved_ =                                                                    \
        reinterpret_cast<PFN_##base##_v##since##suffix>(::simrt::Resolve(#base, since, per_thread)); \
    return resolved_;                                                                                \
  }())
#define CU(base, since, ...) ::simrt::Call(SIM_RESOLVED(base, since, , false) __VA_OPT__(, ) __VA_ARGS__)
// The same for a call without a stream argument that has a per-thread twin (of CUDA 7.0).
#define CU_PTDS(base, since, ...)                                                                               \
  (::simrt::ThisThread().per_thread_default ? ::simrt::Call(SIM_RESOLVED(base, 7000, _ptds, true), __VA_ARGS__) \
                                            : ::simrt::Call(SIM_RESOLVED(base, since, , false), __VA_ARGS__))

#define SIM_RT_TRY(expression)                                                  \
  if (const cudaError_t try_result = (expression); try_result != cudaSuccess) { \
    return try_result;                                                          \
  }

#define SIM_RT_BODY(name, per_thread, needs_context, call)            \
  static void* const counter = ::simrt::FindCounter(name);            \
  const ::simrt::Entry entry(counter, per_thread);                    \
  if (entry.refused()) {                                              \
    return entry.Finish(entry.code());                                \
  }                                                                   \
  if (needs_context) {                                                \
    if (const cudaError_t context_error = ::simrt::EnsureContext()) { \
      return entry.Finish(context_error);                             \
    }                                                                 \
  }                                                                   \
  return entry.Finish(call);

// SIM_RT(cudaMalloc, (parameters), (arguments)) { body }: one exported function that needs a context.
#define SIM_RT(name, parameters, arguments)                                                          \
  static cudaError_t Do_##name parameters;                                                           \
  SIM_RT_EXPORT cudaError_t name parameters { SIM_RT_BODY(#name, false, true, Do_##name arguments) } \
  static cudaError_t Do_##name parameters

// Needs no context.
#define SIM_RT_BARE(name, parameters, arguments)                                                      \
  static cudaError_t Do_##name parameters;                                                            \
  SIM_RT_EXPORT cudaError_t name parameters { SIM_RT_BODY(#name, false, false, Do_##name arguments) } \
  static cudaError_t Do_##name parameters

// With a per-thread twin, suffix _ptsz or _ptds.
#define SIM_RT_PT(name, suffix, parameters, arguments)                                                          \
  SIM_RT_EXPORT cudaError_t name##suffix parameters;                                                            \
  static cudaError_t Do_##name parameters;                                                                      \
  SIM_RT_EXPORT cudaError_t name parameters{                                                                    \
      SIM_RT_BODY(#name, false, true, Do_##name arguments)} SIM_RT_EXPORT cudaError_t name##suffix parameters { \
    SIM_RT_BODY(#name #suffix, true, true, Do_##name arguments)                                                 \
  }                                                                                                             \
  static cudaError_t Do_##name parameters

// A function whose signature differs between CUDA 12 and 13, or that the header of 13 does not have: defined under
// another C++ name and exported under the real one.
#define SIM_RT_AS(name, parameters, arguments)                                                             \
  SIM_RT_EXPORT cudaError_t sim_##name parameters __asm__(#name);                                          \
  static cudaError_t Do_##name parameters;                                                                 \
  SIM_RT_EXPORT cudaError_t sim_##name parameters { SIM_RT_BODY(#name, false, true, Do_##name arguments) } \
  static cudaError_t Do_##name parameters

#define SIM_RT_AS_PT(name, suffix, parameters, arguments)                                                             \
  SIM_RT_EXPORT cudaError_t sim_##name parameters __asm__(#name);                                                     \
  SIM_RT_EXPORT cudaError_t sim_##name##suffix parameters __asm__(#name #suffix);                                     \
  static cudaError_t Do_##name parameters;                                                                            \
  SIM_RT_EXPORT cudaError_t sim_##name parameters{                                                                    \
      SIM_RT_BODY(#name, false, true, Do_##name arguments)} SIM_RT_EXPORT cudaError_t sim_##name##suffix parameters { \
    SIM_RT_BODY(#name #suffix, true, true, Do_##name arguments)                                                       \
  }                                                                                                                   \
  static cudaError_t Do_##name parameters

#endif  // TESTS_SIM_RUNTIME_ENTRY_H_
