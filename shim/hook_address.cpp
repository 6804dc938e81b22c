#include "shim/hook_address.h"

#include <cstddef>
#include <cstring>

// By name alone, and without a CUDA header, whose macros rename some. The library is linked with -Bsymbolic.
#define HOOK_DRIVER_NAME(group, function, name) \
  extern "C" [[gnu::visibility("default")]] void slipstream_exported_##function() __asm__(name);
#define HOOK_NAME(group, function) HOOK_DRIVER_NAME(group, function, #function)
#include "shim/hooks.def"

namespace slipstream::shim {

void* HookOf(tracer::HookId id) {
  using Hook = void();
  static constexpr Hook* kHooks[] = {
#define HOOK_DRIVER_NAME(group, function, name) &slipstream_exported_##function,
#define HOOK_NAME(group, function) &slipstream_exported_##function,
#include "shim/hooks.def"
  };
  static_assert(sizeof(kHooks) / sizeof(kHooks[0]) == tracer::kHookCount);
  return reinterpret_cast<void*>(kHooks[tracer::Index(id)]);
}

tracer::HookId HookNamed(const char* name) {
  for (size_t index = 0; index < tracer::kHookCount; ++index) {
    const auto id = static_cast<tracer::HookId>(index);
    if (std::strcmp(tracer::NameOf(id), name) == 0) return id;
  }
  return tracer::HookId::kCount;
}

}  // namespace slipstream::shim
