// The path of one hooked call. Every wrapper in entry.cpp is one line that comes here.
//
//   Straight: gate -> the real function                 nothing is recorded, no engine is on
//   Routed:   gate -> the real function                 the first call, or one made from inside another hooked call
//             gate -> span -> engines (hook_rows.h) -> the real function -> count
//
// Threading: any thread, before or after a context exists (S56). No lock, no allocation.
// Hazard: the straight path must stay a tail call: three loads, two compares, a jump.
#pragma once

#include <cuda_runtime_api.h>
#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "shim/caller.h"
#include "shim/detail.h"
#include "shim/driver_library.h"
#include "shim/gate.h"
#include "shim/hook_rows.h"
#include "shim/runtime.h"
#include "shim/stream_of.h"
#include "tracer/span.h"

namespace slipstream::shim {

// ---- calls inside a call: a tool that is called from inside one (NVTX, CUPTI, another preload) may call CUDA itself;
// that call is passed on and not counted.
// A signal handler may leave a call by siglongjmp, one of a copy whose memory cannot be touched say (S77), and no
// destructor runs. So a call that finds another one makes sure that it is still there.

// Of a frame that may be gone, and its place another one's.
[[gnu::no_sanitize_address]] inline uint32_t ReturnsTo(const void* frame) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(static_cast<void* const volatile*>(frame)[1]));
}

// Whether the call of this frame is inside the one that t_call has; else the thread has left that one, and is as it
// was before it.
bool IsInsideAnother(const void* frame);

class Inside {
 public:
  explicit Inside(const void* frame) {
    t_call.returns_to = ReturnsTo(frame);
    std::atomic_signal_fence(std::memory_order_release);  // a call in a handler that comes in between is inside or not
    t_call.frame = frame;
  }
  ~Inside() { t_call.frame = nullptr; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
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
template <typename Transfer, typename Allocator, typename WithoutPool, typename Real, typename... Arguments>
[[gnu::always_inline]] inline cudaError_t MakeBy(uint32_t recording, Real real, Arguments... arguments) {
  const auto around = [recording, real](Arguments... others) {
    return recording & kRouteLedger ? Transfer::Call(Runtime::engines(), real, others...) : real(others...);
  };
  if constexpr (Allocator::kHasRow) {
    if (recording & kRouteAllocator) {
      return Allocator::Call(Runtime::allocator(), Runtime::engines(), AddressOf(real), around, arguments...);
    }
  }
  if constexpr (WithoutPool::kHasRow) {
    if (recording & kRouteLedger) {
      return WithoutPool::Call(Runtime::engines(), AddressOf(real), around, arguments...);
    }
  }
  return around(arguments...);
}

// What stands around a watched function of the driver (IsWatched): its kind's own `Watched`, where the kind would
// serve.
template <typename Kind>
struct WatchedKind {
  using Type = Kind;
};
template <typename Kind>
requires requires { typename Kind::Watched; }
struct WatchedKind<Kind> {
  using Type = typename Kind::Watched;
};

template <typename Kind>
struct UnpooledKind {
  using Type = pooled::None<tracer::HookId::kCount>;
};
template <typename Kind>
requires requires { typename Kind::WithoutPool; }
struct UnpooledKind<Kind> {
  using Type = typename Kind::WithoutPool;
};

template <tracer::HookId kId, typename Real, typename... Arguments>
[[gnu::always_inline]] inline cudaError_t Make(uint32_t recording, Real real, Arguments... arguments) {
  using Transfer = TransferHook<kId>;
  using Allocator = AllocatorHook<kId>;
  using WithoutPool = typename UnpooledKind<Allocator>::Type;
  using WatchedTransfer = typename WatchedKind<Transfer>::Type;
  using WatchedAllocator = typename WatchedKind<Allocator>::Type;
  if constexpr (!std::is_same_v<Transfer, WatchedTransfer> || !std::is_same_v<Allocator, WatchedAllocator>) {
    if (recording & kRouteWatched)
      return MakeBy<WatchedTransfer, WatchedAllocator, WithoutPool>(recording, real, arguments...);
  }
  return MakeBy<Transfer, Allocator, WithoutPool>(recording, real, arguments...);
}

// Whether a call that succeeds has submitted work to a stream, which a hold of the whole context would keep waiting.
// Events are none: PyTorch's autograd threads record them on the streams of collectives.
template <tracer::HookId kId>
inline constexpr bool kSubmits = [] {
  constexpr tracer::HookGroup kGroup = tracer::GroupOf(kId);
  return kGroup == tracer::HookGroup::kLaunch || kGroup == tracer::HookGroup::kCopy ||
         kGroup == tracer::HookGroup::kSet || requires {
    TransferHook<kId>::kSubmits;
  };
}();

// A look-up is no use of CUDA: a static runtime makes hundreds when it is first used. It is neither counted nor
// recorded, and stands between nothing and nothing.
template <tracer::HookId kId>
inline constexpr bool kIsLookup = tracer::GroupOf(kId) == tracer::HookGroup::kLookup;

template <tracer::HookId kId>
inline constexpr bool kIsWatched =
    kIsLookup<kId> || kSubmits<kId> || TransferHook<kId>::kHasRow || AllocatorHook<kId>::kHasRow;

constexpr bool IsAboutMemory(tracer::HookGroup group) {
  return group == tracer::HookGroup::kAllocate || group == tracer::HookGroup::kFree;
}

// The same; the engines hear of what was submitted (S65).
template <tracer::HookId kId, typename Real, typename... Arguments>
[[gnu::always_inline]] inline cudaError_t MakeKnown(uint32_t recording, Real real, Arguments... arguments) {
  if (kSubmits<kId> && recording & kRouteWatched && Broken(Mutant::kS71)) return real(arguments...);
  const cudaError_t result = Make<kId>(recording, real, arguments...);
  if constexpr (kSubmits<kId>) {
    if (result == cudaSuccess && recording & kRouteLedger) {
      Runtime::ledger().Submitted(StreamOf<kId>(arguments...), [] { return !IsOfCollective(); });
    }
  }
  return result;
}

// The call with what is recorded about it. `call` is the function, or what stands for it.
template <tracer::HookId kId, typename Call, typename Detail, typename... Arguments>
[[gnu::always_inline]] inline cudaError_t Recorded(uint32_t recording, const void* frame,
                                                   [[maybe_unused]] const void* caller, Call call, const Detail& detail,
                                                   Arguments... arguments) {
  const Inside inside(frame);
  if ((recording & kRouteEngines) == recording) return MakeKnown<kId>(recording, call, arguments...);
  const uint64_t nvtx_bytes = recording & tracer::kRecordNvtx ? detail().bytes : 0;
  tracer::Span span(Runtime::tracer(), kId, nvtx_bytes, [&] { return StreamOf<kId>(arguments...); });
  // What copies carry is of use to a trace alone.
  const bool wants_fingerprints =
      tracer::GroupOf(kId) == tracer::HookGroup::kCopy && (recording & tracer::kRecordTrace) != 0;
  if (wants_fingerprints) transfer::Engine::WantFingerprints(true);
  const cudaError_t result = MakeKnown<kId>(recording, call, arguments...);
  if (wants_fingerprints) transfer::Engine::WantFingerprints(false);
  const bool failed = IsFailure(tracer::GroupOf(kId), result);
  tracer::CallDetail done = failed ? tracer::CallDetail() : detail();
  if constexpr (IsAboutMemory(tracer::GroupOf(kId))) done.caller = caller;
  span.Close(done, failed, static_cast<int32_t>(result));
  return result;
}

// Behind functions that hand out addresses of the driver's by name. Inside a runtime too.
template <tracer::HookId kId, typename Result, typename... Arguments>
[[gnu::always_inline]] inline void PutHooksInPlace([[maybe_unused]] const void* caller, [[maybe_unused]] Result result,
                                                   [[maybe_unused]] Arguments... arguments) {
  if constexpr (kIsLookup<kId>) {
    const char* const name = std::get<0>(std::tie(arguments...));
    void** const found = std::get<1>(std::tie(arguments...));
    if (result == Result{} && found != nullptr) *found = DriverLibrary::InPlaceOf(*found, name, caller);
  }
}

// ---- cancellation. The C library unwinds a cancelled thread by its own means, and no destructor of ours runs then
// (foreign_unwind.cpp). So no thread is cancelled below a frame with something in its hands. A call that may wait is a
// point of cancellation when it is over, in Whole's frame, which has nothing.

// Whether that holds for the function. Not for those that make no more than a few steps: it would add 6 ns to a launch.
template <tracer::HookId kId>
inline constexpr bool kIsWhole = [] {
  switch (tracer::GroupOf(kId)) {
    case tracer::HookGroup::kLaunch:
    case tracer::HookGroup::kEvent:
    case tracer::HookGroup::kCapture:
    case tracer::HookGroup::kMemoryQuery:
    case tracer::HookGroup::kError:
    case tracer::HookGroup::kLookup:
      return false;
    default:
      return true;
  }
}();
template <tracer::HookId kId>
inline constexpr bool kIsPointOfCancellation = tracer::GroupOf(kId) == tracer::HookGroup::kCopy
                                               || tracer::GroupOf(kId) == tracer::HookGroup::kSynchronize;

// Below Whole: puts back what it has changed where an exception passes (of another preload, behind us).
class CancelStateOfCaller {
 public:
  explicit CancelStateOfCaller(int state) : state_(state) {}
  ~CancelStateOfCaller() {
    if (!unwinds_) return;
    t_call.cancel_state = -1;
    UncountInside();
    pthread_setcancelstate(state_, nullptr);
  }
  CancelStateOfCaller(const CancelStateOfCaller&) = delete;
  CancelStateOfCaller& operator=(const CancelStateOfCaller&) = delete;
  void Returns() { unwinds_ = false; }

 private:
  const int state_;
  bool unwinds_ = true;
};

// `call` gets the caller's cancellation state, and the frame that stands for the call.
template <tracer::HookId kId, typename Call>
[[gnu::always_inline]] inline auto Whole(const Call& call) {
  const void* const frame = __builtin_frame_address(0);
  if constexpr (kIsWhole<kId>) {
    const bool inside = t_call.frame != nullptr && IsInsideAnother(frame);
    int before = PTHREAD_CANCEL_ENABLE;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    if (!inside) {
      t_call.cancel_state = static_cast<int8_t>(before);
      if (kIsWatched<kId>) CountInside();  // no engine stands around the others
    }
    const auto result = call(before, frame);
    if (!inside) {
      if (kIsWatched<kId>) UncountInside();
      t_call.cancel_state = -1;
    }
    pthread_setcancelstate(before, nullptr);
    // Not inside another call: that one's frames have something to destroy.
    if (kIsPointOfCancellation<kId> && before == PTHREAD_CANCEL_ENABLE && !inside) pthread_testcancel();
    return result;
  } else {
    return call(PTHREAD_CANCEL_ENABLE, frame);
  }
}

template <tracer::HookId kId, RouteFinder kFindRoute, typename Function, typename Detail, typename... Arguments>
[[gnu::noinline]] cudaError_t RoutedWhole(int cancel_state, const void* frame, const void* caller, const Detail& detail,
                                          Arguments... arguments) {
  [[maybe_unused]] std::conditional_t<kIsWhole<kId>, CancelStateOfCaller, int> of_caller(cancel_state);
  const Route route = kFindRoute(kId, caller);
  auto* const real = reinterpret_cast<Function*>(route.function);
  if (real == nullptr) [[unlikely]]
    return kNoSuchFunction;
  cudaError_t result = cudaSuccess;
  if (t_call.frame != nullptr && IsInsideAnother(frame)) [[unlikely]] {
    ++t_call.passed_on;
    result = real(arguments...);
    --t_call.passed_on;
  } else if (kIsLookup<kId> || route.recording == tracer::kRecordNothing) {
    result = real(arguments...);
  } else {
    result = Recorded<kId>(route.recording, frame, caller, real, detail, arguments...);
  }
  PutHooksInPlace<kId>(caller, result, arguments...);
  if constexpr (kIsWhole<kId>) of_caller.Returns();
  return result;
}

// Every other way of a call. Out of line, so that the straight path stays short.
template <tracer::HookId kId, RouteFinder kFindRoute, typename Function, typename Detail, typename... Arguments>
[[gnu::noinline]] cudaError_t Routed(const void* caller, const Detail& detail, Arguments... arguments) {
  return Whole<kId>([&](int cancel_state, const void* frame) {
    return RoutedWhole<kId, kFindRoute, Function>(cancel_state, frame, caller, detail, arguments...);
  });
}

// ---- the driver's functions. Straight where the policy has them pass; a call that is made inside another hooked one,
// by the runtime say, is passed on and not counted.

template <tracer::HookId kId, typename Function>
[[gnu::always_inline]] inline Function* StraightDriver() {
  const Gate& gate = TheGate();
  const std::atomic<bool>& straight = kIsWatched<kId> ? gate.watched_straight : gate.driver_straight;
  if (!straight.load(std::memory_order_acquire)) return nullptr;
  return reinterpret_cast<Function*>(DriverLibrary::Known(kId));
}

inline Route EnterDriverGate(tracer::HookId id) noexcept {
  const Gate& gate = TheGate();
  if (gate.state.load(std::memory_order_acquire) == GateState::kReady) [[likely]] {
    void* const function = DriverLibrary::Known(id);
    const DriverLevel level = gate.driver_level.load(std::memory_order_relaxed);
    if (function != nullptr && level > DriverLevel::kPassing) [[likely]]
      return {function, Runtime::RecordingOfDriver(level, gate.recording.load(std::memory_order_relaxed))};
  }
  return Runtime::EnterDriver(id);
}

// The driver that is loaded lacks the function: a program that asked for it by name was told so.
inline constexpr CUresult kNoSuchDriverFunction = CUDA_ERROR_NOT_FOUND;

template <tracer::HookId kId, typename Function, typename Detail, typename... Arguments>
[[gnu::noinline]] CUresult RoutedDriverWhole(int cancel_state, const void* frame, const void* caller,
                                             const Detail& detail, Arguments... arguments) {
  [[maybe_unused]] std::conditional_t<kIsWhole<kId>, CancelStateOfCaller, int> of_caller(cancel_state);
  const Route route =
      kIsLookup<kId> ? Route{DriverLibrary::Function(kId), tracer::kRecordNothing} : EnterDriverGate(kId);
  auto* const real = reinterpret_cast<Function*>(route.function);
  if (real == nullptr) [[unlikely]]
    return kNoSuchDriverFunction;
  CUresult result = CUDA_SUCCESS;
  if (t_call.frame != nullptr && IsInsideAnother(frame)) [[unlikely]] {
    ++t_call.passed_on;
    result = real(arguments...);
    --t_call.passed_on;
  } else if (route.recording == tracer::kRecordNothing) {
    result = real(arguments...);
  } else {
    const DriverCaller called(caller);
    result = static_cast<CUresult>(
        Recorded<kId>(route.recording, frame, caller, DriverCall<Function>{real}, detail, arguments...));
  }
  PutHooksInPlace<kId>(caller, result, arguments...);
  if constexpr (kIsWhole<kId>) of_caller.Returns();
  return result;
}

template <tracer::HookId kId, typename Function, typename Detail, typename... Arguments>
[[gnu::noinline]] CUresult RoutedDriver(const void* caller, const Detail& detail, Arguments... arguments) {
  return Whole<kId>([&](int cancel_state, const void* frame) {
    return RoutedDriverWhole<kId, Function>(cancel_state, frame, caller, detail, arguments...);
  });
}

}  // namespace slipstream::shim
