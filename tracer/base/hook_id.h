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
inline constexpr bool kOfDriver[] = {
#define SLIPSTREAM_HOOK(group, function) false,
#define SLIPSTREAM_DRIVER_HOOK(group, function, name) true,
#include "generated/hook_names.inc"
#undef SLIPSTREAM_HOOK
#undef SLIPSTREAM_DRIVER_HOOK
};
}  // namespace hook_id

constexpr size_t Index(HookId id) { return static_cast<size_t>(id); }

// Whether it is a function of the driver (libcuda); all others are the runtime's (libcudart).
constexpr bool IsOfDriver(HookId id) { return hook_id::kOfDriver[Index(id)]; }

// The function's exported name, for example "cudaMemcpyAsync_ptsz". Static storage, NUL-terminated.
const char* NameOf(HookId id);
HookGroup GroupOf(HookId id);

// The group's name as summaries spell it, for example "synchronize". Static storage.
std::string_view NameOf(HookGroup group);

}  // namespace slipstream::tracer
