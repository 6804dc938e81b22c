#include "shim/cupti_lookup.h"

#include <dlfcn.h>

#include <atomic>
#include <cstring>

#include "shim/caller.h"
#include "shim/loaded_object.h"
#include "shim/runtime.h"

// By name alone: what they take is cupti.cpp's affair.
#define HOOK_CUPTI(function) extern "C" [[gnu::visibility("default")]] int function();
#include "shim/hooks.def"
#undef HOOK_CUPTI

namespace slipstream::shim {
namespace {

enum Function : int {
#define HOOK_CUPTI(function) kIndex_##function,
#include "shim/hooks.def"
#undef HOOK_CUPTI
  kFunctions
};

// The real ones that were looked up.
constinit std::atomic<void*> g_looked_up[kFunctions]{};

struct Hook {
  int index = -1;  // -1: slipstream has no such function
  void* function = nullptr;
};

Hook HookOf(const char* name) {
#define HOOK_CUPTI(function) \
  if (std::strcmp(name, #function) == 0) return {kIndex_##function, reinterpret_cast<void*>(&::function)};
#include "shim/hooks.def"
#undef HOOK_CUPTI
  return {};
}

// The first one to be looked up stays the one.
bool Remember(int index, void* found, const char* library) {
  std::atomic<void*>& slot = g_looked_up[index];
  void* known = slot.load(std::memory_order_acquire);
  if (known == nullptr) {
    // Counts a reference. One of another namespace is not found by its name.
    if (dlopen(library, RTLD_NOLOAD | RTLD_LAZY) == nullptr) return false;
    if (slot.compare_exchange_strong(known, found, std::memory_order_acq_rel)) return true;
  }
  return known == found;
}

void* InPlaceOf(void* found, const char* name, const void* caller) {
  const Hook hook = HookOf(name);
  if (hook.index < 0 || !Runtime::TracesDevices() || IsToolOfCuda(caller)) return found;
  const LoadedObject object = LoadedObject::At(found);
  if (!IsLibcupti(BaseName(object.name).data()) || !Remember(hook.index, found, object.name)) return found;
  return RealCupti(name, caller) == found ? hook.function : found;
}

}  // namespace

bool IsHookedCupti(const char* name) { return HookOf(name).index >= 0; }

void* LookedUpCupti(const char* name) {
  const Hook hook = HookOf(name);
  return hook.index >= 0 ? g_looked_up[hook.index].load(std::memory_order_acquire) : nullptr;
}

void* CuptiInPlaceOf(void* found, const char* name, const void* caller) {
  if (found == nullptr) return nullptr;
  void* const function = InPlaceOf(found, name, caller);
  dlerror();  // the client's look-up succeeded, and leaves no error behind
  return function;
}

}  // namespace slipstream::shim
