#include "shim/hook_address.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

// By name alone, and without a CUDA header, whose macros rename some. The library is linked with -Bsymbolic.
#define HOOK_DRIVER_NAME(group, function, name) \
  extern "C" [[gnu::visibility("default")]] void slipstream_exported_##function() __asm__(name);
#define HOOK_NAME(group, function) HOOK_DRIVER_NAME(group, function, #function)
#include "shim/hooks.def"

namespace slipstream::shim {
namespace {

constexpr size_t kPlaces = 2048;  // a power of two, and a look-up ends since most stay free
static_assert(tracer::kHookCount < kPlaces / 2);

constexpr size_t PlaceOf(const char* name) {
  uint32_t hash = 2166136261;  // FNV-1a
  for (; *name != '\0'; ++name) hash = (hash ^ static_cast<unsigned char>(*name)) * 16777619;
  return (hash ^ hash >> 16) % kPlaces;
}

// Each at the first free place from its name's on; kCount: free.
constexpr std::array<tracer::HookId, kPlaces> kByName = [] {
  std::array<tracer::HookId, kPlaces> places = {};
  for (tracer::HookId& place : places) place = tracer::HookId::kCount;
  for (size_t index = 0; index < tracer::kHookCount; ++index) {
    const auto id = static_cast<tracer::HookId>(index);
    size_t place = PlaceOf(tracer::NameOf(id));
    while (places[place] != tracer::HookId::kCount) place = (place + 1) % kPlaces;
    places[place] = id;
  }
  return places;
}();

constexpr tracer::HookId Find(const char* name) {
  const std::string_view wanted = name;
  size_t place = PlaceOf(name);
  while (kByName[place] != tracer::HookId::kCount && tracer::NameOf(kByName[place]) != wanted) {
    place = (place + 1) % kPlaces;
  }
  return kByName[place];
}

constexpr bool FindsEach() {
  for (size_t index = 0; index < tracer::kHookCount; ++index) {
    const auto id = static_cast<tracer::HookId>(index);
    if (Find(tracer::NameOf(id)) != id) return false;
  }
  return true;
}
static_assert(FindsEach());

}  // namespace

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

tracer::HookId HookNamed(const char* name) { return Find(name); }

}  // namespace slipstream::shim
