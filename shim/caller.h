// Whose code a call comes from, where that decides what it means.
//
// Threading: any thread; the loader's own lock is taken at the first call from each object, and no other. No
// allocation.
// Hazard: an object that is unloaded leaves its entry behind. What is loaded there later is taken for it.
#pragma once

namespace slipstream::shim {

// CUPTI, the sanitizer, and what the Nsight tools load into a process: what they ask of CUDA is not the program's.
bool IsToolOfCuda(const void* address);

// A libcudart, whose calls of the driver are made inside the program's calls of the runtime.
bool IsSharedRuntime(const void* address);

// A library that sees to its own order (S11): where it uses mapped memory or shares its own, it waits for what it has
// to wait for, whatever the program does. cuBLAS, cuDNN, collectives and the tools above.
bool KeepsItsOwnOrder(const void* address);

// NCCL and NVSHMEM.
bool IsCollective(const void* address);

// The place that made the call of the driver's that the thread is in; null: it is in none, or in one of the runtime's.
[[gnu::visibility("hidden")]] extern constinit thread_local const void* t_driver_caller;

class DriverCaller {
 public:
  explicit DriverCaller(const void* caller) { t_driver_caller = caller; }
  ~DriverCaller() { t_driver_caller = nullptr; }
  DriverCaller(const DriverCaller&) = delete;
  DriverCaller& operator=(const DriverCaller&) = delete;
};

// Whether the call that the thread is in counts as the program's where order is concerned. The runtime's hooks see none
// of the libraries that do not: those carry a runtime of their own.
inline bool OrderIsTheProgramsCare() { return t_driver_caller == nullptr || !KeepsItsOwnOrder(t_driver_caller); }

// Whether the call that the thread is in is made by a collective, on a stream of its own beside the thread's: whose
// order with other ranks is its own care, and which belongs to the step of the thread that called it (S74).
inline bool IsOfCollective() { return t_driver_caller != nullptr && IsCollective(t_driver_caller); }

}  // namespace slipstream::shim
