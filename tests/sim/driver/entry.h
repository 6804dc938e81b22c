// The frame around every exported function of the simulated driver: counting, failures on demand, refusals.
//
// Purpose: SIM_DRIVER defines one exported function, its count, and its row in cuGetProcAddress's table. The compiler
// checks the row against cudaTypedefs.h, so that a wrong version or signature does not build.
// Threading: counters are atomic; the failure list has its own mutex.
// Hazard: an exported function is entered before cuInit, in forked children and in host functions. Entry refuses there.
#ifndef TESTS_SIM_DRIVER_ENTRY_H_
#define TESTS_SIM_DRIVER_ENTRY_H_

#include <cudaProfilerTypedefs.h>
#include <cudaTypedefs.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <type_traits>

#include "tests/sim/driver/observe.h"
#include "tests/sim/driver/world.h"

#define SIM_EXPORT extern "C" __attribute__((visibility("default")))

namespace simcuda {

struct Counter {
  std::string library;
  std::string function;
  std::atomic<uint64_t> outside{0};  // entered by the program or another library
  std::atomic<uint64_t> inside{0};   // entered by a libcudart
  std::atomic<uint64_t> own{0};      // of those from outside, entered by slipstream; counted where somebody asks
  bool anywhere = false;             // works before cuInit, in forked children and in host functions
};

// Never destroyed; the same one for the same names.
Counter* FindCounter(const char* library, const char* function);
// Counts the entry and says what it must return instead of working: 0 nothing, else a code. `refusal` is what a
// function returns that may not be called here. `caller` is an address of the code that made the call, or null.
int EnterCounted(Counter* counter, bool* injected, const void* caller);

// From the exit handler that this registers, once, the driver is ending where SIMCUDA_EXIT says for how long: the
// program's calls are answered CUDA_ERROR_DEINITIALIZED, and a thread of slipstream's that calls it, which the program
// has never heard of, ends the process with SIGSEGV, as a driver may that takes itself to pieces.
void RegisterExitHandler();

// The same for a library that is no driver and has no counts: only what a test wants to fail, fails.
int EnterOutsideDriver(Counter* counter, const void* caller);

// A row of cuGetProcAddress's table.
struct Procedure {
  const char* base;
  int since;  // 1000 * major + 10 * minor
  bool per_thread;
  void* address;
};
struct ProcedureRow {
  ProcedureRow(const char* base, int since, bool per_thread, void* address);
};
const Procedure* FindProcedure(const char* base, int version, bool per_thread, bool* exists);

class Entry {
 public:
  Entry(Counter* counter, bool per_thread, const void* caller)
      : thread_(ThisThread()), before_(thread_.per_thread_default) {
    thread_.per_thread_default = per_thread;
    result_ = EnterCounted(counter, &injected_, caller);
  }
  ~Entry() { thread_.per_thread_default = before_; }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  bool refused() const { return injected_ || result_ != 0; }
  CUresult result() const { return static_cast<CUresult>(result_); }

 private:
  ThreadState& thread_;
  bool before_;
  bool injected_ = false;
  int result_ = 0;
};

}  // namespace simcuda

#define SIM_DRIVER_BODY(symbol, per_thread, implementation, arguments)                        \
  static ::simcuda::Counter* const counter = ::simcuda::FindCounter("libcuda.so.1", #symbol); \
  ::simcuda::Entry entry(counter, per_thread, __builtin_return_address(0));                   \
  if (entry.refused()) {                                                                      \
    return entry.result();                                                                    \
  }                                                                                           \
  ::simcuda::Observed observed(#symbol);                                                      \
  return observed.Leave(implementation arguments);

// SIM_DRIVER(cuMemAlloc, 3020, cuMemAlloc_v2, (parameters), (arguments)) { body }
#define SIM_DRIVER(base, since, symbol, parameters, arguments)                                                     \
  static CUresult Do_##symbol parameters;                                                                          \
  SIM_EXPORT CUresult symbol parameters { SIM_DRIVER_BODY(symbol, false, Do_##symbol, arguments) }                 \
  static_assert(std::is_same_v<PFN_##base##_v##since, decltype(&symbol)>, #symbol " is not " #base " of " #since); \
  static const ::simcuda::ProcedureRow row_##symbol(#base, since, false, reinterpret_cast<void*>(&symbol));        \
  static CUresult Do_##symbol parameters

// The same with a per-thread-default-stream twin (suffix _ptsz, or _ptds for calls that take no stream).
#define SIM_DRIVER_PT(base, since, symbol, suffix, parameters, arguments)                                          \
  SIM_EXPORT CUresult symbol##suffix parameters;                                                                   \
  static CUresult Do_##symbol parameters;                                                                          \
  SIM_EXPORT CUresult symbol parameters{                                                                           \
      SIM_DRIVER_BODY(symbol, false, Do_##symbol, arguments)} SIM_EXPORT CUresult symbol##suffix parameters {      \
    SIM_DRIVER_BODY(symbol##suffix, true, Do_##symbol, arguments)                                                  \
  }                                                                                                                \
  static_assert(std::is_same_v<PFN_##base##_v##since, decltype(&symbol)>, #symbol " is not " #base " of " #since); \
  static const ::simcuda::ProcedureRow row_##symbol(#base, since, false, reinterpret_cast<void*>(&symbol));        \
  static const ::simcuda::ProcedureRow row_##symbol##suffix(#base, since > 7000 ? since : 7000, true,              \
                                                            reinterpret_cast<void*>(&symbol##suffix));             \
  static CUresult Do_##symbol parameters

#endif  // TESTS_SIM_DRIVER_ENTRY_H_
