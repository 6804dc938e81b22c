#include "tracer/base/hook_id.h"

namespace slipstream::tracer {
std::string_view NameOf(HookGroup group) {
  switch (group) {
    case HookGroup::kAllocate:
      return "allocate";
    case HookGroup::kFree:
      return "free";
    case HookGroup::kHostMemory:
      return "host_memory";
    case HookGroup::kMemoryQuery:
      return "memory_query";
    case HookGroup::kManaged:
      return "managed";
    case HookGroup::kCopy:
      return "copy";
    case HookGroup::kSet:
      return "set";
    case HookGroup::kStream:
      return "stream";
    case HookGroup::kEvent:
      return "event";
    case HookGroup::kSynchronize:
      return "synchronize";
    case HookGroup::kCapture:
      return "capture";
    case HookGroup::kLaunch:
      return "launch";
    case HookGroup::kGraph:
      return "graph";
    case HookGroup::kPool:
      return "pool";
    case HookGroup::kIpc:
      return "ipc";
    case HookGroup::kPeer:
      return "peer";
    case HookGroup::kDevice:
      return "device";
    case HookGroup::kError:
      return "error";
    case HookGroup::kLookup:
      return "lookup";
    case HookGroup::kRegister:
      return "register";
  }
  return "unknown";
}

}  // namespace slipstream::tracer
