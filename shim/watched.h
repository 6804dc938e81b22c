// The functions of the driver that are seen at every `intercept.level` while an engine serves: what the engines
// withhold must be given back before such a call could miss it, by whatever door the call comes. At the level "runtime"
// they are neither counted nor recorded, and no engine serves them.
//
// Threading: pure functions.
#pragma once

#include "tracer/base/hook_id.h"

namespace slipstream::shim {

constexpr bool IsWatched(tracer::HookId id) {
  switch (id) {
    // Which hand out the others.
    case tracer::HookId::cuGetProcAddress_v1:
    case tracer::HookId::cuGetProcAddress_v2:
    // Physical memory: PyTorch's expandable segments grow by it (S36).
    case tracer::HookId::cuMemCreate:
      return true;
    default:
      return false;
  }
}

}  // namespace slipstream::shim
