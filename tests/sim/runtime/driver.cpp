// Finds the driver, makes contexts.
#include <dlfcn.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/sim/runtime/entry.h"

namespace simrt {
namespace {

struct Loaded {
  Private functions;
  PFN_cuGetProcAddress_v12000 get_proc_address = nullptr;
};

Loaded Load() {
  Loaded loaded;
  void* library = nullptr;
  Dl_info self = {};
  // Next to this library first, so that a folder on the run path is enough.
  if (dladdr(reinterpret_cast<void*>(&Load), &self) != 0 && self.dli_fname != nullptr) {
    std::string path(self.dli_fname);
    if (const size_t slash = path.rfind('/'); slash != std::string::npos) {
      path.replace(slash + 1, std::string::npos, "libcuda.so.1");
      library = dlopen(path.c_str(), RTLD_NOW);
    }
  }
  if (library == nullptr) {
    library = dlopen("libcuda.so.1", RTLD_NOW);
  }
  if (library == nullptr) {
    return loaded;
  }
  const auto find = [library](const char* name, auto* slot) {
    *slot = reinterpret_cast<std::remove_pointer_t<decltype(slot)>>(dlsym(library, name));
    return *slot != nullptr;
  };
  Private functions;
  const bool simulated =
      find("simFindCounter", &functions.find_counter) && find("simEnterRuntime", &functions.enter) &&
      find("simLeaveRuntime", &functions.leave) && find("simFindFunction", &functions.find_function) &&
      find("simFindVariable", &functions.find_variable) && find("simRegisterVariable", &functions.register_variable) &&
      find("simRegisterCompiled", &functions.register_compiled) &&
      find("simUnregisterCompiled", &functions.unregister_compiled);
  // A real driver cannot carry the simulated runtime.
  if (simulated && find("cuGetProcAddress_v2", &loaded.get_proc_address)) {
    loaded.functions = functions;
  }
  return loaded;
}

// Whoever comes first loads it, perhaps several at once: a thread that waited for another one's static object would
// wait for ever in a child that was forked meanwhile. Each has a place of its own for what it loads, in the library
// itself so that unloading the library leaves nothing behind.
const Loaded& TheLoaded() {
  static std::atomic<const Loaded*> the_loaded{nullptr};
  const Loaded* loaded = the_loaded.load(std::memory_order_acquire);
  if (loaded != nullptr) {
    return *loaded;
  }
  static std::array<Loaded, 64> places;
  static std::atomic<size_t> taken{0};
  const size_t place = taken.fetch_add(1, std::memory_order_relaxed);
  Loaded* const mine = place < places.size() ? &places[place] : new Loaded;
  *mine = Load();
  return the_loaded.compare_exchange_strong(loaded, mine, std::memory_order_acq_rel) ? *mine : *loaded;
}

}  // namespace

// ---- the end

std::atomic<bool> g_ending{false};

namespace {

std::atomic<bool> g_ended{false};

[[gnu::destructor]] void End() {
  const char* const milliseconds = std::getenv("SIMCUDA_RUNTIME_EXIT");
  if (milliseconds == nullptr) return;
  g_ending.store(true, std::memory_order_seq_cst);
  std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(milliseconds)));
  g_ended.store(true, std::memory_order_seq_cst);
}

}  // namespace

cudaError_t EnterEnding() {
  if (!g_ended.load(std::memory_order_seq_cst)) std::raise(SIGSEGV);
  return cudaErrorCudartUnloading;
}

const Private& TheDriver() { return TheLoaded().functions; }

void* Resolve(const char* base, int version, bool per_thread) {
  const Loaded& loaded = TheLoaded();
  if (loaded.get_proc_address == nullptr) {
    return nullptr;
  }
  void* function = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  const cuuint64_t flags =
      per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
  loaded.get_proc_address(base, &function, version, flags, &status);
  return status == CU_GET_PROC_ADDRESS_SUCCESS ? function : nullptr;
}

ThreadState& ThisThread() {
  static thread_local ThreadState state;
  return state;
}

namespace {

struct ManagedVariable {
  void** host_variable;
  size_t bytes;
};
std::mutex managed_mutex;
std::vector<ManagedVariable>* managed_waiting = nullptr;  // libraries register before this one's own objects are made

cudaError_t MakeManagedVariables() {
  std::lock_guard<std::mutex> guard(managed_mutex);
  while (managed_waiting != nullptr && !managed_waiting->empty()) {
    CUdeviceptr address = 0;
    SIM_RT_TRY(CU(cuMemAllocManaged, 6000, &address, managed_waiting->back().bytes, CU_MEM_ATTACH_GLOBAL))
    *managed_waiting->back().host_variable = reinterpret_cast<void*>(address);
    managed_waiting->pop_back();
  }
  return cudaSuccess;
}

}  // namespace

void AddManagedVariable(void** host_variable, size_t bytes) {
  std::lock_guard<std::mutex> guard(managed_mutex);
  if (managed_waiting == nullptr) managed_waiting = new std::vector<ManagedVariable>;
  managed_waiting->push_back({host_variable, bytes});
}

cudaError_t EnsureContext() {
  CUcontext current = nullptr;
  cudaError_t result = CU(cuCtxGetCurrent, 4000, &current);
  if (result == cudaErrorInitializationError) {
    SIM_RT_TRY(CU(cuInit, 2000, 0u))
    result = CU(cuCtxGetCurrent, 4000, &current);
  }
  SIM_RT_TRY(result)
  if (current != nullptr) {
    return cudaSuccess;
  }
  // One reference per process and life of the primary context is enough; cudaDeviceReset drops them all.
  static std::mutex mutex;
  static CUcontext primary[16] = {};
  const int device = ThisThread().device;
  std::lock_guard<std::mutex> guard(mutex);
  unsigned flags = 0;
  int active = 0;
  SIM_RT_TRY(CU(cuDevicePrimaryCtxGetState, 7000, device, &flags, &active))
  if (active == 0 || primary[device] == nullptr) {
    SIM_RT_TRY(CU(cuDevicePrimaryCtxRetain, 7000, &primary[device], device))
  }
  SIM_RT_TRY(CU(cuCtxSetCurrent, 4000, primary[device]))
  return MakeManagedVariables();
}

}  // namespace simrt
