#include "shim/driver_library.h"

#include <cuda.h>
#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstring>
#include <string_view>

#include "shim/caller.h"
#include "shim/hook_address.h"
#include "shim/loaded_object.h"
#include "shim/runtime.h"

namespace slipstream::shim {
namespace {

constinit std::atomic<void*> g_handle{nullptr};
constinit std::array<char, 512> g_path{};

constexpr tracer::HookId kFirst = tracer::HookId::cuMemAlloc_v2;
static_assert(tracer::IsOfDriver(kFirst) && !tracer::IsOfDriver(static_cast<tracer::HookId>(tracer::Index(kFirst) - 1)),
              "the driver's functions are the last rows of hooks.def, and this is the first of them");

void* NotOurs(void* function) { return function != nullptr && !IsOurs(function) ? function : nullptr; }

}  // namespace

constinit std::atomic<void*> DriverLibrary::functions_[tracer::kHookCount]{};
constinit std::atomic<void*> DriverLibrary::own_functions_[tracer::kHookCount]{};
constinit std::atomic<bool> DriverLibrary::is_absent_[tracer::kHookCount]{};

void* DriverLibrary::Handle() {
  void* handle = g_handle.load(std::memory_order_acquire);
  if (handle != nullptr || !MayAskLoader()) return handle;
  // Counts a reference, perhaps one for each thread that comes here at once: it stays loaded from here on.
  handle = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
  if (handle != nullptr) g_handle.store(handle, std::memory_order_release);
  return handle;
}

const char* DriverLibrary::Path() {
  void* const handle = Handle();
  if (handle == nullptr || g_path[0] != '\0') return g_path.data();
  const std::string_view name = LoadedObject::At(dlsym(handle, "cuInit")).name;
  const size_t length = name.size() < g_path.size() ? name.size() : g_path.size() - 1;
  std::memcpy(g_path.data(), name.data(), length);
  return g_path.data();
}

void* DriverLibrary::Function(tracer::HookId id) {
  std::atomic<void*>& slot = functions_[tracer::Index(id)];
  void* function = slot.load(std::memory_order_relaxed);
  if (function != nullptr || IsAbsent(id) || !MayAskLoader()) return function;
  const bool is_loaded = Handle() != nullptr;  // before the look-up: another thread may load it meanwhile
  function = NotOurs(dlsym(RTLD_NEXT, tracer::NameOf(id)));
  if (function == nullptr) function = OwnFunction(id);
  if (function != nullptr) {
    slot.store(function, std::memory_order_relaxed);
  } else if (is_loaded) {
    is_absent_[tracer::Index(id)].store(true, std::memory_order_relaxed);
  }
  return function;
}

void DriverLibrary::ResolveAll() {
  static constinit std::atomic<bool> g_done{false};
  if (g_done.load(std::memory_order_acquire) || Handle() == nullptr) return;
  for (size_t index = tracer::Index(kFirst); index < tracer::kHookCount; ++index) {
    static_cast<void>(Function(static_cast<tracer::HookId>(index)));
  }
  g_done.store(true, std::memory_order_release);
}

void* DriverLibrary::OwnFunction(tracer::HookId id) {
  std::atomic<void*>& slot = own_functions_[tracer::Index(id)];
  void* function = slot.load(std::memory_order_relaxed);
  if (function != nullptr || IsAbsent(id)) return function;
  void* const handle = Handle();
  if (handle == nullptr || !MayAskLoader()) return nullptr;
  function = NotOurs(dlsym(handle, tracer::NameOf(id)));
  if (function != nullptr) slot.store(function, std::memory_order_relaxed);
  return function;
}

const char* DriverLibrary::WrapperOf(tracer::HookId id) {
  void* const function = Function(id);
  void* const own = OwnFunction(id);
  return function == nullptr || own == nullptr || function == own ? "" : LoadedObject::At(function).name;
}

// Where another preloaded library wraps the function behind our hook: it must not come back to the hook, and a libcuda
// that only some libraries see is none that it could hand its calls on to.
bool DriverLibrary::IsPastWrapper(tracer::HookId id, const void* caller) {
  if (Function(id) == OwnFunction(id)) return false;
  // The wrapper's own name comes first in its object's scope.
  const bool is_wrapper = LoadedObject::At(caller).Holds(FoundFrom(caller, tracer::NameOf(id)));
  return is_wrapper || dlsym(RTLD_NEXT, "cuDriverGetVersion") == nullptr;
}

bool DriverLibrary::HasPrimaryContext(int device) {
  using GetState = CUresult(CUdevice, unsigned*, int*);
  static constinit std::atomic<GetState*> asked{nullptr};
  GetState* get_state = asked.load(std::memory_order_relaxed);
  if (get_state == nullptr) {
    void* const handle = Handle();
    if (handle == nullptr) return true;
    get_state = reinterpret_cast<GetState*>(dlsym(handle, "cuDevicePrimaryCtxGetState"));
    asked.store(get_state, std::memory_order_relaxed);
  }
  unsigned flags = 0;
  int active = 1;
  return get_state == nullptr || get_state(device, &flags, &active) != CUDA_SUCCESS || active != 0;
}

void* DriverLibrary::InPlaceOf(void* real, const char* name, const void* caller) {
  ResolveAll();
  const DriverLevel level = real != nullptr ? Runtime::LevelOfDriver() : DriverLevel::kPassing;
  if (level == DriverLevel::kPassing || IsToolOfCuda(caller)) return real;
  // What a libcudart asks for is for its own calls, which are seen as the runtime's.
  if (level == DriverLevel::kWatched && IsSharedRuntime(caller)) return real;
  const tracer::HookId id = HookFor(real, name, level);
  void* const function = id == tracer::HookId::kCount || IsPastWrapper(id, caller) ? real : HookOf(id);
  dlerror();  // the look-up succeeded; of what an older driver lacks ours did not
  return function;
}

tracer::HookId DriverLibrary::HookFor(const void* real, const char* name, DriverLevel level) {
  const auto stands_for = [&](tracer::HookId id) {
    return (level != DriverLevel::kWatched || IsWatched(id)) && (Function(id) == real || OwnFunction(id) == real);
  };
  // Most names are those that are exported.
  const tracer::HookId named = HookNamed(name);
  if (named != tracer::HookId::kCount && tracer::IsOfDriver(named) && stands_for(named)) return named;
  for (size_t index = tracer::Index(kFirst); index < tracer::kHookCount; ++index) {
    const auto id = static_cast<tracer::HookId>(index);
    if (stands_for(id)) return id;
  }
  return tracer::HookId::kCount;
}

}  // namespace slipstream::shim
