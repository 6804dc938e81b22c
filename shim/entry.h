// The path of one hooked call. Every wrapper in entry.cpp is one line that comes here.
//
//   Straight: gate -> the real function                 nothing is recorded, no engine is on
//   Routed:   gate -> the real function                 the first call, or one made from inside another hooked call
//             gate -> span -> engine (around.h) -> the real function -> count
//
// Threading: any thread, before or after a context exists (S56). No lock, no allocation.
// Hazard: the straight path must stay a tail call: three loads, two compares, a jump.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "shim/around.h"
#include "shim/detail.h"
#include "shim/gate.h"
#include "shim/pooled.h"
#include "shim/runtime.h"
#include "shim/stream_of.h"
#include "tracer/span.h"

namespace slipstream::shim {

// How deep the calling thread is in hooked calls: a tool that is called from inside one (NVTX, CUPTI, another preload)
// may call CUDA itself; that call is passed on and not counted.
[[gnu::visibility("hidden")]] extern constinit thread_local uint32_t t_depth;

class Reentry {
 public:
  Reentry() { ++t_depth; }
  ~Reentry() { --t_depth; }
  Reentry(const Reentry&) = delete;
  Reentry& operator=(const Reentry&) = delete;
};

// The real function, when there is nothing to do but call it; null otherwise.
template <typename Function>
[[gnu::always_inline]] inline Function* Straight(tracer::HookId id) {
  const Gate& gate = TheGate();
  const RuntimeLibrary* const library = gate.library.load(std::memory_order_acquire);
  if (library == nullptr || gate.recording.load(std::memory_order_relaxed) != tracer::kRecordNothing) return nullptr;
  return reinterpret_cast<Function*>(library->functions[tracer::Index(id)].load(std::memory_order_relaxed));
}

using RouteFinder = Route (*)(tracer::HookId id, const void* caller) noexcept;

inline Route EnterGate(tracer::HookId id, const void* caller) noexcept {
  const Gate& gate = TheGate();
  const RuntimeLibrary* const library = gate.library.load(std::memory_order_acquire);
  if (library != nullptr) [[likely]] {
    void* const function = library->functions[tracer::Index(id)].load(std::memory_order_relaxed);
    if (function != nullptr) [[likely]]
      return {function, gate.recording.load(std::memory_order_relaxed)};
  }
  return Runtime::Enter(id, caller);
}

// The result of a call that asks for the thread's last error is an answer, and cudaErrorNotReady is one too.
constexpr bool IsFailure(tracer::HookGroup group, cudaError_t result) {
  return result != cudaSuccess && result != cudaErrorNotReady && group != tracer::HookGroup::kError;
}

// The runtime that is loaded lacks the function; without slipstream the program would have failed to link, or would
// have found a weak reference to be null.
inline constexpr cudaError_t kNoSuchFunction = cudaErrorNotSupported;

// The call itself, by way of the engines that may have something to do around it.
template <tracer::HookId kId, typename Function, typename... Arguments>
[[gnu::always_inline]] inline cudaError_t Make(uint32_t recording, Function* real, Arguments... arguments) {
  const auto around = [recording, real](Arguments... others) {
    return recording & kRouteTransfer ? Around<kId>::Call(Runtime::transfer(), real, others...) : real(others...);
  };
  const auto host = [recording, &around](Arguments... others) {
    if constexpr (PooledHost<kId>::kHasRow) {
      if (recording & kRoutePinned) {
        return PooledHost<kId>::Call(Runtime::pinned(), Runtime::transfer(), around, others...);
      }
    }
    return around(others...);
  };
  if constexpr (Pooled<kId>::kHasRow) {
    if (recording & kRouteAllocator) {
      return Pooled<kId>::Call(Runtime::allocator(), Runtime::transfer(), reinterpret_cast<const void*>(real), host,
                               arguments...);
    }
  }
  return host(arguments...);
}

// Every other way of a call. Out of line, so that the straight path stays short. A number that is none of its
// enumeration's is the program's own affair and the runtime's to refuse: a sanitiser must not stop at it here.
template <tracer::HookGroup kGroup, tracer::HookId kId, RouteFinder kFindRoute, typename Function, typename Detail,
          typename... Arguments>
[[gnu::noinline, gnu::no_sanitize("enum")]] cudaError_t Routed(const void* caller, const Detail& detail,
                                                               Arguments... arguments) {
  const Route route = kFindRoute(kId, caller);
  auto* const real = reinterpret_cast<Function*>(route.function);
  if (real == nullptr) [[unlikely]]
    return kNoSuchFunction;
  if (route.recording == tracer::kRecordNothing || t_depth != 0) return real(arguments...);

  const Reentry inside;
  if ((route.recording & kRouteEngines) == route.recording) return Make<kId>(route.recording, real, arguments...);
  const uint64_t nvtx_bytes = route.recording & tracer::kRecordNvtx ? detail().bytes : 0;
  tracer::Span span(Runtime::tracer(), kId, nvtx_bytes, [&] { return StreamOf<kId>(arguments...); });
  const cudaError_t result = Make<kId>(route.recording, real, arguments...);
  const bool failed = IsFailure(kGroup, result);
  span.Close(failed ? tracer::CallDetail() : detail(), failed, static_cast<int32_t>(result));
  return result;
}

}  // namespace slipstream::shim
