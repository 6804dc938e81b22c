// Which intercepted function a record is about: its number, its name and the group it belongs to.
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
  kRegister,
};

enum class HookId : uint16_t {
#define SLIPSTREAM_HOOK(group, function) function,
#include "generated/hook_names.inc"
#undef SLIPSTREAM_HOOK
  kCount
};

inline constexpr size_t kHookCount = static_cast<size_t>(HookId::kCount);

constexpr size_t Index(HookId id) { return static_cast<size_t>(id); }

// The function's exported name, for example "cudaMemcpyAsync_ptsz". Static storage, NUL-terminated.
const char* NameOf(HookId id);
HookGroup GroupOf(HookId id);

// The group's name as summaries spell it, for example "synchronize". Static storage.
std::string_view NameOf(HookGroup group);

}  // namespace slipstream::tracer
