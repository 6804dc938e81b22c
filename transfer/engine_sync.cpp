// Synchronizations: which are skipped, what is deferred for them, and when that is settled.

#include <unistd.h>

#include <chrono>
#include <string>

#include "cuda/clock.h"
#include "policy/helper_thread.h"
#include "policy/log.h"
#include "transfer/engine.h"

namespace slipstream::transfer {
namespace {

constexpr Decision kSkip = Decision::kCount;  // no reason not to

constexpr uint64_t kLookNs = 1'000'000;
constexpr uint64_t kSmallLookNs = 200'000'000;

// Two steps of a large model, many times over.
constexpr std::chrono::seconds kLongestWaitForAnother{30};

}  // namespace

bool Engine::SeveralContexts() {
  if (Broken(Mutant::kS12Contexts)) return false;
  if (several_contexts_.load(std::memory_order_acquire)) return true;
  for (int device = 0; device < device_count_; ++device) {
    if (device == device_) continue;
    unsigned flags = 0;
    int active = 1;
    if (driver_.cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active == 0) continue;
    SecondContext();
    return true;
  }
  return false;
}

// Work of another context is not held behind what is deferred here: all of it is settled, and none is made again. A
// skip that did not see the flag is seen here, or sees it when it has entered its deferred wait.
void Engine::SecondContext() {
  several_contexts_.store(true, std::memory_order_seq_cst);
  SettleForAll(Decision::kSyncSettledSynchronize);
}

void Engine::UsesDevice(int device) {
  if (!Serving() || device == device_ || several_contexts_.load(std::memory_order_relaxed)) return;
  if (!Broken(Mutant::kS12Contexts)) SecondContext();
}

// What another thread has deferred has an end in any program that works: its own synchronization would have come back
// by now. But nobody can tell whether the calling thread is the one that the device waits for, so nothing waits without
// end for it.
void Engine::SettleForAll(Decision reason) {
  Settle(reason);
  if (!run_ahead_.MayBeOpen() || !Alive() || Broken(Mutant::kS13All) || Broken(Mutant::kS13Free)) return;
  OrTurnOff([&] {
    // The calling thread may have another device's context, or none yet.
    const cuda::InContext ours(driver_, context_);
    for (const cuda::RunAhead::DeferredWait& wait : run_ahead_.Open()) (void)WaitCountedAtMost(wait.fence, reason);
  });
}

// The loader counts what it loads, but walks all its objects to say so: tens of microseconds when they are out of the
// cache, and as long as another thread's dlopen takes. So for copies it is asked every millisecond at most, for small
// ones every kSmallLookNs and by the thread that pins memory where there is one. A transport that came in since then
// has to be initialised, its peers to be found and the memory to be registered first, which takes longer
// (milliseconds), and SYNC_MEMOPS on the destination tells of the last (DestinationAt).
bool Engine::TransportFound(Promptness how) {
  if (!transports_.Found() || policy_.skip_with_rdma) {  // NCCL is looked for even then
    const uint64_t before = transports_looked_ns_.load(std::memory_order_relaxed);
    const uint64_t now = cuda::NowNs();
    const bool small = how == Promptness::kForSmallCopy;
    if (how != Promptness::kAtOnce && now - before < (small ? kSmallLookNs : kLookNs)) return transports_.Found();
    transports_looked_ns_.store(now, std::memory_order_relaxed);
    if (small && before != 0 && AskToLook()) return transports_.Found();
    if (!transports_.Look()) return false;
  }
  if (!policy_.skip_with_rdma && transports_.name()[0] != '\0' && !transport_told_.exchange(true)) {
    const std::string text =
        std::string(transports_.name()) + " may let others read device memory, so every wait is made";
    policy::LogInfo(text);
    if (explain_ != nullptr) explain_("transport", text.c_str());
  }
  return true;
}

Decision Engine::WhyNotSkip(const Candidate& candidate, std::vector<cuda::FenceRef>* effects) {
  if (!candidate.plan.skip_synchronize) {
    return candidate.plan.skip_by == policy::Decider::kRule ? Decision::kSyncKeptRule : Decision::kSyncKeptOff;
  }
  thread_work_.NextTurn();
  if (OthersHaveTheirOwn(candidate.stream.handle)) return Decision::kSyncKeptThreads;
  if (mapped_.load(std::memory_order_acquire) && !Broken(Mutant::kS11)) return Decision::kSyncKeptMapped;
  const bool shared = shared_.load(std::memory_order_acquire) || candidate.destination_may_be_shared;
  if (!Broken(Mutant::kS22)) {
    if (shared) return Decision::kSyncKeptShared;
    const Promptness how = candidate.small ? Promptness::kForSmallCopy : Promptness::kForCopy;
    if (TransportFound(how) && !policy_.skip_with_rdma) return Decision::kSyncKeptRdma;
  }
  if (transports_.NcclByProxy()) return Decision::kSyncKeptThreads;
  if (SeveralContexts()) return Decision::kSyncKeptContexts;
  if (captures_.live() && !Broken(Mutant::kS12Contexts)) return Decision::kSyncKeptCapture;
  const uint64_t ticket = AskForEffects();
  if (Broken(Mutant::kS10Other)) {
    effects_.On(candidate.stream, effects);
  } else if (!effects_.OnlyOn(candidate.stream, effects)) {
    return Decision::kSyncKeptHostEffect;
  }
  if (!watch_.IsValid(ticket)) return Decision::kSyncKeptHostEffect;
  return kSkip;
}

bool Engine::SkipStreamSynchronize(cudaStream_t stream, bool per_thread) {
  ThreadState& thread = State();
  if (!thread.candidate.valid) return false;
  const Candidate candidate = thread.candidate;
  thread.candidate.valid = false;
  if (!Serving() || !(KeyOfStream(stream, per_thread) == candidate.stream)) return false;
  try {
    const cuda::RelaxedCapture relaxed(driver_);
    std::vector<cuda::FenceRef> effects;
    const Decision why_not = WhyNotSkip(candidate, &effects);
    if (why_not != kSkip) {
      Count(why_not);
      return false;
    }
    if (const cuda::FenceRef oldest = run_ahead_.MustWaitFor(candidate.stream); oldest && !Broken(Mutant::kS23)) {
      WaitCounted(oldest, Decision::kSyncSettledBound);
    }
    // What the host may look at without asking must be there; the device's own results may come later (S10).
    for (const cuda::FenceRef& effect : effects) {
      if (!Broken(Mutant::kS10) && effect.Wait() != CUDA_SUCCESS) return false;
    }
    // All later work of the context behind all work of the stream, as the host's wait would have put it (S12). That is
    // more than the copy: another thread may have used the stream since.
    cuda::FenceRef fence;
    CUresult held = CUDA_ERROR_UNKNOWN;
    const auto hold = [&] {
      fence = fences_.Record(context_, candidate.stream.handle);
      if (fence) held = Broken(Mutant::kS12) ? CUDA_SUCCESS : driver_.cuCtxWaitEvent(context_, fence.event());
    };
    const bool no_capture = captures_.Without(hold);
    if (Broken(Mutant::kS12Contexts) && !no_capture) hold();
    if (held != CUDA_SUCCESS) {
      Count(no_capture ? Decision::kSyncKeptError : Decision::kSyncKeptCapture);
      return false;
    }
    const uint64_t mark = marks_.Next();
    run_ahead_.Defer(candidate.stream, fence, mark);
    if (several_contexts_.load(std::memory_order_seq_cst)) {
      Count(Decision::kSyncKeptContexts);
      return fence.Wait() == CUDA_SUCCESS;
    }
    Defer(thread, candidate.stream, fence, mark);
    Count(effects.empty() ? Decision::kSyncSkipped : Decision::kSyncSkippedRest);
    return true;
  } catch (...) {
    TurnOff(Decision::kH2dDeclinedError);
    return false;
  }
}

void Engine::WaitCounted(const cuda::FenceRef& fence, Decision reason) {
  if (fence.Done()) return;
  const uint64_t start = cuda::NowNs();
  (void)fence.Wait();  // an error is the program's to see, from its own call
  Count(reason, 0, cuda::NowNs() - start);
}

// False: it took too long.
bool Engine::WaitCountedAtMost(const cuda::FenceRef& fence, Decision reason) {
  if (fence.Done()) return true;
  const uint64_t start = cuda::NowNs();
  const bool passed = fence.WaitAtMost(kLongestWaitForAnother);
  Count(reason, 0, cuda::NowNs() - start);
  return passed;
}

void Engine::Defer(ThreadState& thread, const cuda::StreamKey& stream, const cuda::FenceRef& fence, uint64_t mark) {
  if (has_thread_key_ && thread.deferred_count == 0) pthread_setspecific(thread_key_, this);
  Deferred* place = nullptr;
  for (size_t i = 0; i < thread.deferred_count && place == nullptr; ++i) {
    if (thread.deferred[i].stream == stream) place = &thread.deferred[i];
  }
  if (place == nullptr && thread.deferred_count == ThreadState::kMaxDeferred) {
    SettleWhat(thread, Decision::kSyncSettledBound, 0);  // a thread with so many streams: nothing is deferred any more
  }
  if (place == nullptr) place = &thread.deferred[thread.deferred_count++];
  const cuda::FenceRef older(place->fence);
  *place = {stream, cuda::FenceRef(fence).Release(), mark};
}

// Waits for what the thread has deferred since `after_mark`.
void Engine::SettleWhat(ThreadState& thread, Decision reason, uint64_t after_mark) {
  size_t kept = 0;
  for (size_t i = 0; i < thread.deferred_count; ++i) {
    if (thread.deferred[i].mark <= after_mark) {
      if (kept != i) thread.deferred[kept] = thread.deferred[i];
      ++kept;
      continue;
    }
    const cuda::FenceRef fence(thread.deferred[i].fence);
    WaitCounted(fence, reason);
  }
  for (size_t i = kept; i < thread.deferred_count; ++i) thread.deferred[i] = Deferred();
  thread.deferred_count = kept;
}

void Engine::Settle(Decision reason) {
  ThreadState& thread = State();
  if (policy_.verify) LookAtVerified();
  if (thread.deferred_count == 0 || !Alive()) return;
  const bool synchronizations = reason == Decision::kSyncSettledSynchronize || reason == Decision::kSyncSettledCopy;
  if (!synchronizations && Broken(Mutant::kS13Free)) return;
  const cuda::RelaxedCapture relaxed(driver_);
  SettleWhat(thread, reason, 0);
}

void Engine::BeforeFree() {
  if (!Serving() || Broken(Mutant::kS13Free)) return;
  SettleForAll(Decision::kSyncSettledFree);
}

bool Engine::WaitForHostEffects(CUcontext context) {
  if (phase() == Phase::kUnstarted) StartIfPossible();
  if (!Serving() || mapped_.load(std::memory_order_acquire) || shared_work_.load(std::memory_order_acquire))
    return false;
  try {
    std::vector<cuda::FenceRef> effects;
    const uint64_t ticket = AskForEffects();
    if (!effects_.All(context, &effects) || !watch_.IsValid(ticket)) return false;
    if (effects.empty()) return true;
    const cuda::RelaxedCapture relaxed(driver_);
    for (const cuda::FenceRef& effect : effects) {
      if (effect.Wait() != CUDA_SUCCESS) return false;
    }
    return true;
  } catch (...) {
    return false;
  }
}

// Whether work of one stream runs behind all that the other one was given before (CUDA runtime API, stream
// synchronization behavior: the legacy default stream and blocking streams wait for each other).
bool Engine::OrderedWith(const cuda::StreamKey& stream, const cuda::StreamKey& other) const {
  if (stream.handle == nullptr || other.handle == nullptr) return false;
  if (stream == other) return true;
  if ((stream.handle == CU_STREAM_LEGACY) == (other.handle == CU_STREAM_LEGACY)) return false;
  const CUstream created = stream.handle == CU_STREAM_LEGACY ? other.handle : stream.handle;
  unsigned flags = CU_STREAM_NON_BLOCKING;
  if (created == CU_STREAM_PER_THREAD) return true;
  return driver_.cuStreamGetFlags(created, &flags) == CUDA_SUCCESS && (flags & CU_STREAM_NON_BLOCKING) == 0;
}

void Engine::BeforeEventQuery(cudaEvent_t event) {
  if (!run_ahead_.MayBeOpen() || !Alive() || Broken(Mutant::kS13Query)) return;
  const cuda::EventMarks::Recording recorded = marks_.LastOf(event);
  if (!run_ahead_.MayBeOpenSince(recorded.mark)) return;
  OrTurnOff([&] {
    const cuda::RelaxedCapture relaxed(driver_);
    if (driver_.cuEventQuery(event) != CUDA_ERROR_NOT_READY) return;
    SettleWhat(State(), Decision::kSyncSettledQuery, recorded.mark);
    if (Broken(Mutant::kS63)) return;
    for (const cuda::RunAhead::DeferredWait& wait : run_ahead_.Open()) {
      if (wait.mark <= recorded.mark) continue;
      if (!recorded.in_all && !OrderedWith(wait.stream, recorded.stream)) continue;
      (void)WaitCountedAtMost(wait.fence, Decision::kSyncSettledQuery);
      if (!recorded.in_all) return;
    }
  });
}

void Engine::BeforeStreamQuery(cudaStream_t stream, bool per_thread) {
  if (!run_ahead_.MayBeOpen() || !Alive() || Broken(Mutant::kS13Query)) return;
  OrTurnOff([&] {
    // The runtime makes the context current on a thread's first call; until then the driver knows no default stream.
    CUcontext current = nullptr;
    (void)driver_.cuCtxGetCurrent(&current);
    const cuda::InContext ours(driver_, current != nullptr ? current : context_);
    // A stream that is being captured may not be asked: while there is one, what is deferred is settled unasked.
    const bool may_ask = !captures_.live();
    if (may_ask && driver_.cuStreamQuery(cuda::Explicit(stream, per_thread)) != CUDA_ERROR_NOT_READY) return;
    SettleWhat(State(), Decision::kSyncSettledQuery, 0);
    if (Broken(Mutant::kS63)) return;
    const cuda::StreamKey key = KeyOfStream(stream, per_thread);
    for (const cuda::RunAhead::DeferredWait& wait : run_ahead_.Open()) {
      if (OrderedWith(wait.stream, key)) (void)WaitCountedAtMost(wait.fence, Decision::kSyncSettledQuery);
    }
  });
}

void Engine::BeforeElapsedTime(cudaEvent_t start, cudaEvent_t end) {
  for (const cudaEvent_t event : {start, end}) {
    BeforeEventQuery(event);
    if (!run_ahead_.MayBeOpen() || !Alive() || Broken(Mutant::kS13Query) || Broken(Mutant::kS63)) continue;
    OrTurnOff([&] {
      const cuda::RelaxedCapture relaxed(driver_);
      const uint64_t mark = marks_.LastOf(event).mark;
      for (const cuda::RunAhead::DeferredWait& wait : run_ahead_.Open()) {
        if (wait.mark <= mark) continue;
        if (driver_.cuEventQuery(event) != CUDA_ERROR_NOT_READY) return;
        (void)WaitCountedAtMost(wait.fence, Decision::kSyncSettledQuery);
      }
    });
  }
}

// A thread that has ended cannot settle, and whoever joined it may rely on what it waited for. The driver's own state
// of the thread is gone by now, so another thread calls it.
struct Engine::LastSettlement {
  explicit LastSettlement(Engine* of) : engine(of) {}

  Engine* const engine;
  std::vector<cuda::FenceRef> fences;
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
};

void* Engine::SettleForAnother(void* argument) {
  auto* const settlement = static_cast<LastSettlement*>(argument);
  const cuda::Driver& driver = settlement->engine->driver_;
  (void)driver.cuCtxSetCurrent(settlement->engine->context_);
  const cuda::RelaxedCapture relaxed(driver);
  for (const cuda::FenceRef& fence : settlement->fences)
    settlement->engine->WaitCounted(fence, Decision::kSyncSettledThreadExit);
  const std::lock_guard lock(settlement->mutex);
  settlement->done = true;
  settlement->changed.notify_one();  // with the lock held: the settlement lives on the stack of the thread that is told
  return nullptr;
}

void Engine::ThreadEnds(void* argument) {
  auto* const engine = static_cast<Engine*>(argument);
  ThreadState& thread = State();
  if (getpid() != engine->process_) return;
  engine->thread_work_.Leave(thread.work);
  if (!engine->Alive()) return;
  engine->OrTurnOff([&] {
    LastSettlement settlement(engine);
    for (size_t i = 0; i < thread.deferred_count; ++i) {
      settlement.fences.emplace_back(std::exchange(thread.deferred[i].fence, nullptr));
    }
    thread.deferred_count = 0;
    engine->run_ahead_.ThreadEnded(thread.id);
    if (settlement.fences.empty() || Broken(Mutant::kS13Thread)) return;
    if (!policy::StartHelperThread("slipstream-wait", SettleForAnother, &settlement)) return;
    std::unique_lock lock(settlement.mutex);
    settlement.changed.wait(lock, [&] { return settlement.done; });
  });
}

}  // namespace slipstream::transfer
