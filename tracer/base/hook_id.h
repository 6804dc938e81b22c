// Identifies an intercepted function: its number, its name and its group.
//
// The numbers come from shim/hooks.def and may change with every build: files carry names, never numbers alone.
// Threading: constants and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace slipstream::tracer {

enum class HookGroup : uint8_t {
  kAllocate,
  kFree,
  kHostMemory,
  kMemoryQuery,
  kManaged,
  kCopy,
  kSet,
  kStream,
  kEvent,
  kSynchronize,
  kCapture,
  kLaunch,
  kGraph,
  kPool,
  kIpc,
  kPeer,
  kDevice,
  kError,
  kLookup,
  kRegister,
};

enum class HookId : uint16_t {
#define SLIPSTREAM_HOOK(group, function) function,
#define SLIPSTREAM_DRIVER_HOOK(group, function, name) function,
#include "generated/hook_names.inc"
#undef SLIPSTREAM_HOOK
#undef SLIPSTREAM_DRIVER_HOOK
  kCount
};

inline constexpr size_t kHookCount = static_cast<size_t>(HookId::kCount);

namespace hook_id {
struct Row {
  const char* name;  // as it is exported
  HookGroup group;
  bool is_of_driver;
};
inline constexpr Row kRows[] = {
#define SLIPSTREAM_HOOK(group, function) {#function, HookGroup::group, false},
#define SLIPSTREAM_DRIVER_HOOK(group, function, name) {name, HookGroup::group, true},
#include "generated/hook_names.inc"
#undef SLIPSTREAM_HOOK
#undef SLIPSTREAM_DRIVER_HOOK
};
static_assert(sizeof(kRows) / sizeof(kRows[0]) == kHookCount);
}  // namespace hook_id

constexpr size_t Index(HookId id) { return static_cast<size_t>(id); }

// Whether it is a function of the driver (libcuda); all others are the runtime's (libcudart).
constexpr bool IsOfDriver(HookId id) { return hook_id::kRows[Index(id)].is_of_driver; }

// The function's exported name, for example "cudaMemcpyAsync_ptsz". Static storage, NUL-terminated.
constexpr const char* NameOf(HookId id) { return hook_id::kRows[Index(id)].name; }
constexpr HookGroup GroupOf(HookId id) { return hook_id::kRows[Index(id)].group; }

// The group's name as summaries spell it, for example "synchronize". Static storage.
std::string_view NameOf(HookGroup group);

}  // namespace slipstream::tracer
