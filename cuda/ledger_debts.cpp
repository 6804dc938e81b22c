// Debts: synchronizations that were skipped, what shows them, and when they are settled.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <span>
#include <utility>

#include "cuda/ledger.h"
#include "cuda/own_work.h"
#include "policy/helper_thread.h"
#include "policy/no_cancellation.h"

namespace slipstream::cuda {
namespace {

// Two steps of a large model, many times over.
constexpr std::chrono::seconds kLongestWaitForAnother{30};

}  // namespace

bool Ledger::WaitCounted(const FenceRef& fence, Before what) {
  const CUresult before = fence.Ask();
  if (before == CUDA_SUCCESS) return false;
  const uint64_t start = NowNs();
  (void)fence.Wait();  // an error is the program's to see, from its own call
  Count(what, NowNs() - start);
  return before == CUDA_ERROR_NOT_READY;
}

// False: it took too long.
bool Ledger::WaitCountedAtMost(const FenceRef& fence, Before what) {
  if (fence.Done()) return true;
  const uint64_t start = NowNs();
  const bool passed = fence.WaitAtMost(kLongestWaitForAnother);
  Count(what, NowNs() - start);
  return passed;
}

// ---- making them

void Ledger::KeepToTwo(const StreamKey& stream) {
  const uint64_t now = Defers() ? NowNs() : 0;
  FenceRef running;
  const FenceRef oldest = run_ahead_.MustWaitFor(stream, &running);
  for (Deferred& deferred : DeferredHere()) {
    if (!running) break;
    if (!running.Is(deferred.fence) || std::exchange(deferred.told, true)) continue;
    RanOn(deferred.since_ns, now, FenceRef::WaitedUntilNs());
  }
  if (oldest && !Broken(Mutant::kS23)) (void)WaitCounted(oldest, Before::kThirdDebt);
}

// All later work of the context goes behind all work of the stream. That is more than the copy: another thread may have
// used the stream since.
Ledger::Deferral Ledger::Defer(const StreamKey& stream) {
  Kept* const kept = KeptHere::Get();
  if (kept == nullptr) return Deferral::kError;
  FenceRef fence;
  CUresult held = CUDA_ERROR_UNKNOWN;
  const auto hold = [&] {
    const OwnWork own;
    fence = fences_.Record(first_.context, stream.handle);
    if (fence) held = Broken(Mutant::kS12) ? CUDA_SUCCESS : driver_.cuCtxWaitEvent(first_.context, fence.event());
  };
  const bool no_capture = captures_.Without(hold);
  if (Broken(Mutant::kS12Contexts) && !no_capture) hold();
  if (held != CUDA_SUCCESS) return no_capture ? Deferral::kError : Deferral::kCapture;
  const uint64_t mark = marks_.Next();
  run_ahead_.Defer(stream, fence, mark);
  if (several_contexts_.load(std::memory_order_seq_cst)) {
    return fence.Wait() == CUDA_SUCCESS ? Deferral::kContexts : Deferral::kError;
  }
  Enter(*kept, stream, fence, mark);
  return Deferral::kMade;
}

void Ledger::Enter(Kept& kept, const StreamKey& stream, const FenceRef& fence, uint64_t mark) {
  if (kept.deferred_count == 0) WatchThread();
  const std::span<Deferred> all = DeferredHere();
  const auto same = std::find_if(all.begin(), all.end(), [&](const Deferred& one) { return one.stream == stream; });
  Deferred* place = same != all.end() ? &*same : nullptr;
  if (place == nullptr && kept.deferred_count == Kept::kMostDeferred) {
    SettleWhat(Before::kThirdDebt, 0);  // a thread with so many streams: nothing is deferred any more
  }
  if (place == nullptr) place = &kept.deferred[kept.deferred_count++];
  const FenceRef older(place->fence);
  const FenceRef before(std::exchange(Mine().unwritten, FenceRef(fence).Release()));
  if (!before && options_.defers != nullptr && !has_deferred_.exchange(true) && exit_wait_.Start(first_.context)) {
    options_.defers();
  }
  *place = {stream, FenceRef(fence).Release(), mark, NowNs()};
}

// A wait that was skipped at `since_ns` was due until `until_ns` at least. What was told before, and what the thread
// itself spent waiting for a fence, is not told (again).
void Ledger::RanOn(uint64_t since_ns, uint64_t until_ns, uint64_t waited_until_ns) const {
  Kept* const kept = KeptHere::Find();
  if (options_.ran_on == nullptr || kept == nullptr) return;
  const uint64_t from = std::max({since_ns, kept->told_until_ns, waited_until_ns});
  options_.ran_on(until_ns > from ? until_ns - from : 0);
  kept->told_until_ns = std::max(kept->told_until_ns, until_ns);
}

// ---- settling them

// Waits for what the thread has deferred since `after_mark`.
// Those that are seen to be due still were so from when they were skipped until now: together since the first of them.
void Ledger::SettleWhat(Before what, uint64_t after_mark) {
  Kept* const here = KeptHere::Find();
  if (here == nullptr || here->deferred_count == 0) return;
  const uint64_t waited_until = FenceRef::WaitedUntilNs();
  const uint64_t now = NowNs();  // before the driver is asked
  uint64_t since = now;
  size_t due = 0;
  size_t kept = 0;
  const std::span<Deferred> all = DeferredHere();
  for (const Deferred& deferred : all) {
    if (deferred.mark <= after_mark) {
      all[kept++] = deferred;
      continue;
    }
    const FenceRef fence(deferred.fence);
    if (!WaitCounted(fence, what) || deferred.told) continue;
    since = std::min(since, deferred.since_ns);
    ++due;
  }
  // The time with the first, and no moment twice.
  for (; due != 0; --due) RanOn(since, now, waited_until);
  for (Deferred& settled : all.subspan(kept)) settled = Deferred();
  here->deferred_count = kept;
}

void Ledger::Settle(Before what) {
  OfThread& thread = Mine();
  const bool synchronizes = what == Before::kSynchronization || what == Before::kCopy;
  if (synchronizes && thread.unwritten != nullptr) const FenceRef written(std::exchange(thread.unwritten, nullptr));
  if (!Defers() || !Alive()) return;
  if (!synchronizes && Broken(Mutant::kS13Free)) return;
  const policy::NoCancellation whole;
  const RelaxedCapture relaxed(driver_);
  SettleWhat(what, 0);
}

// What another thread has deferred has an end in any program that works: its own synchronization would have come back
// by now. But nobody can tell whether the calling thread is the one that the device waits for, so nothing waits without
// end for it.
void Ledger::SettleForAll(Before what) {
  Settle(what);
  if (!run_ahead_.MayBeOpen() || !Alive() || Broken(Mutant::kS13All) || Broken(Mutant::kS13Free)) return;
  const policy::NoCancellation whole;
  OrTurnOff([&] {
    // The calling thread may have another device's context, or none yet.
    const InContext ours(driver_, first_.context);
    for (const RunAhead::DeferredWait& wait : run_ahead_.Open()) (void)WaitCountedAtMost(wait.fence, what);
  });
}

CUresult Ledger::SettleAtExit() {
  OfThread& thread = Mine();
  const FenceRef last(std::exchange(thread.unwritten, nullptr));
  if (!last || !Alive() || Broken(Mutant::kS79)) return CUDA_SUCCESS;
  const policy::NoCancellation whole;
  for (Deferred& deferred : DeferredHere()) exit_wait_.Add(FenceRef(std::exchange(deferred, {}).fence));
  if (Kept* const kept = KeptHere::Find()) kept->deferred_count = 0;
  exit_wait_.Add(last);
  return exit_wait_.Wait();
}

void Ledger::BeforeFree() {
  if (Broken(Mutant::kS13Free)) return;
  SettleForAll(Before::kFree);
}

void Ledger::BeforeCopyTo(const void* destination) {
  if (!Defers() || !Alive()) return;
  if (KindOf(driver_, destination) != MemoryKind::kPageable) return;
  Fence* const unwritten = std::exchange(Mine().unwritten, nullptr);  // such a copy writes nothing out
  Settle(Before::kCopy);
  Mine().unwritten = unwritten;
}

// ---- questions that would show them

// Whether work of one stream runs behind all that the other one was given before (CUDA runtime API, stream
// synchronization behavior: the legacy default stream and blocking streams wait for each other).
bool Ledger::OrderedWith(const StreamKey& stream, const StreamKey& other) const {
  if (stream.handle == nullptr || other.handle == nullptr) return false;
  if (stream == other) return true;
  if ((stream.handle == CU_STREAM_LEGACY) == (other.handle == CU_STREAM_LEGACY)) return false;
  const CUstream created = stream.handle == CU_STREAM_LEGACY ? other.handle : stream.handle;
  unsigned flags = CU_STREAM_NON_BLOCKING;
  if (created == CU_STREAM_PER_THREAD) return true;
  return driver_.cuStreamGetFlags(created, &flags) == CUDA_SUCCESS && (flags & CU_STREAM_NON_BLOCKING) == 0;
}

void Ledger::BeforeEventQuery(cudaEvent_t event) {
  if (!run_ahead_.MayBeOpen() || !Alive() || Broken(Mutant::kS13Query)) return;
  const EventMarks::Recording recorded = marks_.LastOf(event);
  if (!run_ahead_.MayBeOpenSince(recorded.mark)) return;
  const policy::NoCancellation whole;
  OrTurnOff([&] {
    const RelaxedCapture relaxed(driver_);
    if (driver_.cuEventQuery(event) != CUDA_ERROR_NOT_READY) return;
    SettleWhat(Before::kQuery, recorded.mark);
    if (Broken(Mutant::kS63)) return;
    for (const RunAhead::DeferredWait& wait : run_ahead_.Open()) {
      if (wait.mark <= recorded.mark) continue;
      if (!recorded.in_all && !OrderedWith(wait.stream, recorded.stream)) continue;
      (void)WaitCountedAtMost(wait.fence, Before::kQuery);
      if (!recorded.in_all) return;
    }
  });
}

void Ledger::BeforeStreamQuery(cudaStream_t stream, bool per_thread) {
  if (!run_ahead_.MayBeOpen() || !Alive() || Broken(Mutant::kS13Query)) return;
  OrTurnOff([&] {
    // The runtime makes the context current on a thread's first call; until then the driver knows no default stream.
    CUcontext current = nullptr;
    (void)driver_.cuCtxGetCurrent(&current);
    const InContext ours(driver_, current != nullptr ? current : first_.context);
    // A stream that is being captured may not be asked: while there is one, what is deferred is settled unasked.
    const bool may_ask = !captures_.live();
    if (may_ask && driver_.cuStreamQuery(Explicit(stream, per_thread)) != CUDA_ERROR_NOT_READY) return;
    SettleWhat(Before::kQuery, 0);
    if (Broken(Mutant::kS63)) return;
    const StreamKey key = KeyOfStream(stream, per_thread);
    for (const RunAhead::DeferredWait& wait : run_ahead_.Open()) {
      if (OrderedWith(wait.stream, key)) (void)WaitCountedAtMost(wait.fence, Before::kQuery);
    }
  });
}

void Ledger::BeforeElapsedTime(cudaEvent_t start, cudaEvent_t end) {
  for (const cudaEvent_t event : {start, end}) {
    BeforeEventQuery(event);
    if (!run_ahead_.MayBeOpen() || !Alive() || Broken(Mutant::kS13Query) || Broken(Mutant::kS63)) continue;
    const policy::NoCancellation whole;
    OrTurnOff([&] {
      const RelaxedCapture relaxed(driver_);
      const uint64_t mark = marks_.LastOf(event).mark;
      for (const RunAhead::DeferredWait& wait : run_ahead_.Open()) {
        if (wait.mark <= mark) continue;
        if (driver_.cuEventQuery(event) != CUDA_ERROR_NOT_READY) return;
        (void)WaitCountedAtMost(wait.fence, Before::kQuery);
      }
    });
  }
}

// ---- the end of a thread

// A thread that has ended cannot settle, and whoever joined it may rely on what it waited for. The driver's own state
// of the thread is gone by now, so another thread calls it.
struct Ledger::LastSettlement {
  explicit LastSettlement(Ledger* of) : ledger(of) {}

  Ledger* const ledger;
  std::vector<FenceRef> fences;
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
};

void* Ledger::SettleForAnother(void* argument) {
  auto* const settlement = static_cast<LastSettlement*>(argument);
  const Driver& driver = settlement->ledger->driver_;
  (void)driver.cuCtxSetCurrent(settlement->ledger->first_.context);
  const RelaxedCapture relaxed(driver);
  for (const FenceRef& fence : settlement->fences) (void)settlement->ledger->WaitCounted(fence, Before::kThreadExit);
  const std::lock_guard lock(settlement->mutex);
  settlement->done = true;
  settlement->changed.notify_one();  // with the lock held: the settlement lives on the stack of the thread that is told
  return nullptr;
}

void Ledger::ThreadEnds(void* argument) {
  auto* const ledger = static_cast<Ledger*>(argument);
  OfThread& thread = Mine();
  if (getpid() != ledger->process_) return;
  ledger->thread_work_.Leave(thread.work);
  const FenceRef unwritten(std::exchange(thread.unwritten, nullptr));
  if (!ledger->Alive()) return;
  ledger->OrTurnOff([&] {
    LastSettlement settlement(ledger);
    for (Deferred& deferred : DeferredHere()) {
      settlement.fences.emplace_back(std::exchange(deferred.fence, nullptr));
    }
    if (Kept* const kept = KeptHere::Find()) kept->deferred_count = 0;
    ledger->run_ahead_.ThreadEnded(ThreadId());
    if (settlement.fences.empty() || Broken(Mutant::kS13Thread)) return;
    if (!policy::StartHelperThread("slipstream-wait", SettleForAnother, &settlement)) return;
    std::unique_lock lock(settlement.mutex);
    settlement.changed.wait(lock, [&] { return settlement.done; });
  });
}

}  // namespace slipstream::cuda
