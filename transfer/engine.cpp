#include "transfer/engine.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>

#include "policy/log.h"

namespace slipstream::transfer {
namespace {

constinit thread_local ThreadState t_state;

constexpr std::chrono::seconds kLongestCallAtExit{5};

}  // namespace

Engine::Engine(const policy::Transfer& policy, int threads, int ranks_here, CountDecision count, const CallSites& sites)
    : policy_(policy),
      considers_to_device_(Considers(policy, policy::Direction::kHostToDevice)),
      considers_to_host_(Considers(policy, policy::Direction::kDeviceToHost)),
      policy_has_more_to_say_(!policy.rules.empty() || !policy.small_copies || !policy.large_copies ||
                              policy.d2h == policy::TransferMode::kOff || policy.device_staging == 0),
      threads_(threads < 1 ? 1 : threads),
      ranks_here_(ranks_here),
      count_(count),
      sites_(sites),
      site_rules_(policy_, sites),
      process_(getpid()) {
  has_thread_key_ = pthread_key_create(&thread_key_, ThreadEnds) == 0;
}

ThreadState& Engine::State() { return t_state; }

ThreadState& Engine::Identified() {
  ThreadState& thread = t_state;
  if (thread.id == 0) thread.id = next_thread_.fetch_add(1, std::memory_order_relaxed);
  return thread;
}

policy::TransferPlan Engine::PlanFor(policy::Direction direction, const Request& request) {
  policy::TransferPlan plan = PlanOf(policy_, direction, request.bytes, request.in.device,
                                     Broken(Mutant::kR3) ? ~policy::RulesAt{0} : site_rules_.Here());
  if (Broken(Mutant::kR1)) plan.promote = PlanByKeys(policy_, direction, request.bytes).promote;
  if (Broken(Mutant::kR2)) plan.skip_synchronize = PlanByKeys(policy_, direction, request.bytes).skip_synchronize;
  return plan;
}

bool Engine::DriverThere() {
  if (driver_there_.load(std::memory_order_acquire)) return true;
  // Nobody waits: the loader's lock is taken below, and a thread that holds it, in a constructor that calls CUDA, may
  // be here too.
  const std::unique_lock lock(start_mutex_, std::try_to_lock);
  if (!lock) return driver_there_.load(std::memory_order_acquire);
  if (!driver_there_.load(std::memory_order_relaxed)) {
    driver_there_.store(cuda::LoadDriver(&driver_), std::memory_order_release);
  }
  return driver_there_.load(std::memory_order_relaxed);
}

void Engine::TurnOff(Decision reason) {
  off_reason_.store(reason, std::memory_order_relaxed);
  phase_.store(Phase::kOff, std::memory_order_seq_cst);
}

void Engine::Stop() {
  stopped_.store(true, std::memory_order_seq_cst);
  // The thread that pins memory should be out of the driver before the driver's own exit handlers run. A call takes
  // milliseconds; one that takes so much longer will not come back, and the process is to end all the same.
  const auto end = std::chrono::steady_clock::now() + kLongestCallAtExit;
  while (growing_.load(std::memory_order_seq_cst) != 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // an atomic's wait has no end
  }
}

void Engine::HostEffect(cuda::HostEffectKind kind, const cuda::AddressRange& range, cudaStream_t stream,
                        bool per_thread) {
  if (!Tracking()) return;
  OrTurnOff([&] {
    const CUstream handle = cuda::Explicit(stream, per_thread);
    ThreadState& thread = Identified();
    const cuda::RelaxedCapture relaxed(driver_);
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (driver_.cuStreamIsCapturing(handle, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE) {
      return;  // it went into a graph, which is looked at when it is instantiated
    }
    CUcontext context = nullptr;
    cuda::FenceRef fence;
    if (driver_.cuStreamGetCtx(handle, &context) == CUDA_SUCCESS) fence = fences_.Record(context, handle);
    effects_.Add(cuda::KeyOf(handle, thread.id), thread.id, kind, range, std::move(fence));
    watch_.Recorded(Broken(Mutant::kAsleepSoon) ? 2 : cuda::EffectWatch::kIdleAfter);
  });
}

bool Engine::WasPinned(const void* address) {
  PinnedPages& pinned = State().pinned;
  const uintptr_t page = PinnedPages::PageOf(address);
  return pinned.life == pinned_life_.load(std::memory_order_acquire) &&
         pinned.pages[PinnedPages::PlaceOf(page)] == page;
}

cuda::MemoryKind Engine::KindOfOrPinned(const void* address) {
  if (WasPinned(address)) return cuda::MemoryKind::kHost;
  const uint64_t life = pinned_life_.load(std::memory_order_acquire);  // before the question
  const cuda::MemoryKind kind = cuda::KindOf(driver_, address);
  if (kind != cuda::MemoryKind::kHost) return kind;
  PinnedPages& pinned = State().pinned;
  if (pinned.life != life) {
    pinned.life = life;
    std::fill(std::begin(pinned.pages), std::end(pinned.pages), 0);
  }
  const uintptr_t page = PinnedPages::PageOf(address);
  pinned.pages[PinnedPages::PlaceOf(page)] = page;
  return kind;
}

uint64_t Engine::AskForEffects() {
  const uint64_t ticket = watch_.Ticket();
  if (ticket != 0) return ticket;
  const bool awake = watch_.Wake([this] {
    const cuda::RelaxedCapture relaxed(driver_);
    cuda::FenceRef before;
    if (!captures_.Without([&] { before = fences_.RecordContext(context_); }) || !before) return false;
    if (!Broken(Mutant::kS10Asleep)) {
      effects_.Add(cuda::StreamKey(), 0, cuda::HostEffectKind::kWrite, cuda::AddressRange::All(), std::move(before));
      AddEffectsOfOtherContexts(context_);
    }
    return true;
  });
  return awake ? watch_.Ticket() : 0;
}

void Engine::HostEffectAnywhere() {
  if (!Tracking()) return;
  OrTurnOff([&] {
    const cuda::RelaxedCapture relaxed(driver_);
    CUcontext context = nullptr;
    cuda::FenceRef fence;
    // During a capture nobody can say when it is over: then it never is.
    if (driver_.cuCtxGetCurrent(&context) == CUDA_SUCCESS && context != nullptr) {
      captures_.Without([&] { fence = fences_.RecordContext(context); });
    }
    effects_.Add(cuda::StreamKey(), Identified().id, cuda::HostEffectKind::kWrite, cuda::AddressRange::All(),
                 std::move(fence));
    AddEffectsOfOtherContexts(context);
  });
}

void Engine::Touches(const Touched& touched, cudaStream_t stream, bool per_thread) {
  if (!Tracking()) return;
  const auto kind_of = [this](const void* memory, size_t span) {
    return memory == nullptr || span == 0 ? cuda::MemoryKind::kDevice : KindOfOrPinned(memory);
  };
  const cuda::MemoryKind destination = kind_of(touched.destination, touched.destination_span);
  const cuda::MemoryKind source = kind_of(touched.source, touched.source_span);
  // Pageable memory is done with when the call returns, as a destination and as a source; so is a copy from host to
  // host (CUDA runtime API, API synchronization behavior). A fence of ours behind such a call would be the only work of
  // an idle stream, and a query would see it.
  const auto lasts = [](cuda::MemoryKind kind) {
    return kind != cuda::MemoryKind::kDevice && kind != cuda::MemoryKind::kPageable;
  };
  const auto on_host = [](cuda::MemoryKind kind) {
    return kind == cuda::MemoryKind::kHost || kind == cuda::MemoryKind::kPageable;
  };
  if (on_host(destination) && on_host(source)) return;
  if (destination == cuda::MemoryKind::kPageable) return;
  if (lasts(destination)) {
    HostEffect(cuda::HostEffectKind::kWrite, cuda::AddressRange::Of(touched.destination, touched.destination_span),
               stream, per_thread);
  }
  if (lasts(source)) {
    HostEffect(cuda::HostEffectKind::kRead, cuda::AddressRange::Of(touched.source, touched.source_span), stream,
               per_thread);
  }
}

void Engine::StreamDestroyed(cudaStream_t stream) {
  const CUstream handle = cuda::Explicit(stream, false);
  effects_.Retire(handle);
  run_ahead_.Retire(handle);
  marks_.Retire(handle);
  if (Serving()) small_.Retire(handle);
  for (size_t i = 0; i < State().deferred_count; ++i) {
    if (State().deferred[i].stream.handle == handle) State().deferred[i].stream = {};
  }
}

void Engine::StandAside() {
  SecondContext();  // a skip that is being made meanwhile is settled too
  TurnOff(Decision::kH2dDeclinedContext);
}

void Engine::DeviceReset(int device) {
  const Phase before = phase();
  TurnOff(Decision::kH2dDeclinedContext);
  // It has had no fence that anybody will ask about.
  if (before == Phase::kUnstarted || before == Phase::kStarting || context_ == nullptr) return;
  CUdevice current = device;
  // A thread that has made no call yet has the first device (CUDA runtime API, cudaGetDevice).
  if (device < 0 && driver_.cuCtxGetDevice(&current) != CUDA_SUCCESS) current = 0;
  if (current == device_) {
    fences_.Abandon(context_);
    device_staging_.Forget();
  } else if (static_cast<size_t>(current) < others_.size()) {
    fences_.Abandon(others_[static_cast<size_t>(current)].load(std::memory_order_acquire));
  }
}

void Engine::CaptureMayHaveEnded(cudaStream_t stream, bool per_thread) {
  // A table of its own: a question that is not asked leaves the capture open for good, and another thread may be at
  // filling in the engine's.
  cuda::Driver driver;
  if (!captures_.live() || !cuda::LoadDriver(&driver)) return;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  const cuda::RelaxedCapture relaxed(driver);
  if (driver.cuStreamIsCapturing(cuda::Explicit(stream, per_thread), &status) != CUDA_SUCCESS) return;  // unsure = live
  if (status == CU_STREAM_CAPTURE_STATUS_NONE) captures_.Ended(KeyOfStream(stream, per_thread));
}

void Engine::GraphInstantiated(cudaGraphExec_t executable, cudaGraph_t graph) {
  if (!DriverThere()) return;
  OrTurnOff([&] { graphs_.Instantiated(driver_, executable, graph); });
}

void Engine::GraphLaunched(cudaGraphExec_t executable, cudaStream_t stream, bool per_thread) {
  if (!Tracking() || graphs_.IsHarmless(executable)) return;
  HostEffect(cuda::HostEffectKind::kWrite, cuda::AddressRange::All(), stream, per_thread);
}

void Engine::HostRegistered(const void* address, size_t bytes, bool mapped) {
  OrTurnOff([&] { registered_.Add(cuda::AddressRange::Of(address, bytes)); });
  if (mapped) UsesMappedMemory();
}

void Engine::AdvisesMemory(const void* address) {
  if (!DriverThere() || cuda::KindOf(driver_, address) == cuda::MemoryKind::kPageable)
    system_memory_.store(true, std::memory_order_release);
}

}  // namespace slipstream::transfer
