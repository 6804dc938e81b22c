// The ledger: all that the program has in flight, as far as a rule asks about it. Both engines ask; neither owns it.
//
//   effects   work that the host can see the results of without asking (S03, S04, S10, S30b)
//   captures  streams that are being captured, and graphs whose launch has no effect on host memory (S05, S37)
//   debts     synchronizations that were skipped: who may see that, and has to wait first (S13, S23, S63)
//   threads   which of them have work of their own (S65)
//   memory    what is pinned, registered, mapped, shared, or read by a transport (S01, S02, S11, S22)
//
// Hooks write it, around the program's calls. It begins with the first question: what was submitted before lies behind
// one fence that stands for all of it. What cannot be told counts as being in flight.
//
// Threading: every function from any thread, before or after a context exists (S56). No lock is held while calling
//   anything that waits for the device (S55).
// Ownership: never destroyed.
// Errors: where bookkeeping fails (no memory, a driver call that fails) the ledger is off from then on, and so is
//   whatever rests on it.
#pragma once

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "cuda/address_range.h"
#include "cuda/capture_watch.h"
#include "cuda/clock.h"
#include "cuda/driver.h"
#include "cuda/effect_watch.h"
#include "cuda/event_marks.h"
#include "cuda/exit_wait.h"
#include "cuda/fence.h"
#include "cuda/graph_watch.h"
#include "cuda/host_effects.h"
#include "cuda/memory_kind.h"
#include "cuda/mutant.h"
#include "cuda/registered_ranges.h"
#include "cuda/run_ahead.h"
#include "cuda/sharded.h"
#include "cuda/stream_ref.h"
#include "cuda/thread_work.h"
#include "cuda/transports.h"
#include "policy/thread_owned.h"

namespace slipstream::cuda {

// Before what a skipped synchronization was made up for.
enum class Before : uint8_t {
  kSynchronization,
  kCopy,  // a blocking one
  kFree,
  kShare,  // with another process
  kCapture,
  kReset,
  kProfilerStop,
  kQuery,
  kThreadExit,
  kThirdDebt,  // of one stream (S23)
};

// Why nothing is known.
enum class Off : uint8_t {
  kNot,           // it is
  kError,         // bookkeeping failed
  kContext,       // of another kind, or its device was reset
  kDriver,        // which lacks events of a whole context
  kSystemMemory,  // which the device reaches by itself (S02)
  kNoPinning,     // the device lets no memory be registered
};

class Ledger {
 public:
  struct Options {
    bool hmm_is_system_memory = true;  // reaching pageable memory by page faults counts (S02)
    bool heeds_transports = true;      // memory that a transport could read counts as shared
    // It begins: the driver is there, and has registered what exit handlers it has. False: it may not, for good. Null:
    // nobody cares.
    bool (*begins)() = nullptr;
    // A debt was waited for. Null: nobody counts.
    void (*settled)(Before what, uint64_t time_ns) = nullptr;
    // A wait that the calling thread had skipped was seen to be due still. `time_ns`: for at least so long the thread
    // has gone on, in no wait of slipstream's, while that or another one was; no moment is told twice. Null: as above.
    void (*ran_on)(uint64_t time_ns) = nullptr;
    // For the first time in the process a thread has deferred a wait, and SettleAtExit can wait. Null: nobody cares.
    void (*defers)() = nullptr;
    // What a user should know of this process, said once. Null: nobody listens.
    void (*explain)(const char* key, const char* text) = nullptr;
  };

  // Makes no CUDA call and starts no thread. Never destroyed.
  explicit Ledger(const Options& options);
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // -- beginning and end

  // Begins where that can be: the calling thread has a context that can be followed, and no capture is live.
  void BeginIfPossible();
  bool Unbegun() const { return phase() == Phase::kUnbegun; }
  // Whether everything is known that was submitted since it began.
  bool Serving() const { return phase() == Phase::kServing && Alive(); }
  // kNot before it has begun, too.
  Off off() const { return phase() == Phase::kOff ? off_.load(std::memory_order_relaxed) : Off::kNot; }
  void TurnOff(Off why);
  // Runs bookkeeping; where memory runs out, the ledger is off from then on.
  template <typename Work>
  void OrTurnOff(const Work& work) noexcept {
    try {
      work();
    } catch (...) {
      TurnOff(Off::kError);
    }
  }
  // The process is exiting: nothing is settled any more (S53).
  void Stop() { stopped_.store(true, std::memory_order_seq_cst); }
  bool Alive() const { return !stopped_.load(std::memory_order_acquire); }
  // From here on the program's own calls are made (S66); what threads have deferred is settled.
  void StandAside();
  // The device is about to be reset, by its ordinal; below 0: the calling thread's. Handles and registrations are gone
  // then, and the ledger with them; debts were settled before. Whether it is device().
  bool DeviceReset(int device);

  // -- what it stands on. The driver's functions and these are there once it has begun.

  // Whether there is a driver to ask.
  bool DriverThere();
  const Driver& driver() const { return driver_; }
  FencePool& fences() { return fences_; }
  CaptureWatch& captures() { return captures_; }
  // A primary context, and its device: the one in which the ledger began, which debts are of.
  struct Served {
    CUcontext context = nullptr;
    CUdevice device = 0;
  };
  CUcontext context() const { return first_.context; }
  CUdevice device() const { return first_.device; }
  // The calling thread's context, if it is a primary one that can be followed.
  bool ServesCurrent(Served* current);

  // -- threads and streams

  // A number that is the calling thread's own.
  static uint64_t ThreadId() { return ThreadNumber(); }
  StreamKey KeyOfStream(cudaStream_t stream, bool per_thread) {
    return KeyOf(Explicit(stream, per_thread), ThreadId());
  }
  // The calling thread has submitted work to the stream: a handle, or 0, as the program gave it. `is_own` says whether
  // that is work of its own, and is only asked where that matters: most work follows work to the same stream.
  template <typename IsOwn>
  void Submitted(uint64_t stream, const IsOwn& is_own) {
    CUstream const handle = stream != 0 ? reinterpret_cast<CUstream>(stream) : CU_STREAM_LEGACY;
    if (thread_work_.IsKnown(Mine().work, handle) || !is_own()) return;
    if (phase() == Phase::kOff || !Alive()) return;  // also before it has begun
    if (thread_work_.Submitted(Mine().work, handle)) WatchThread();
  }
  // A hold is in question once more (S65).
  void NextTurn() { thread_work_.NextTurn(); }
  // Whether another thread has work of its own, seen from the stream, an explicit handle.
  bool OthersHaveTheirOwn(CUstream stream) const {
    return !Broken(Mutant::kS65) && thread_work_.OthersHaveTheirOwn(Mine().work, stream);
  }
  // The same from the stream that the calling thread last submitted work to. A hold for it is in question.
  bool OthersHaveWork() {
    NextTurn();
    return OthersHaveTheirOwn(ThreadWork::LastOf(Mine().work));
  }
  // Whether another thread has lately submitted work to the stream.
  bool OthersUse(CUstream stream) const { return thread_work_.OthersUse(Mine().work, stream); }
  void StreamDestroyed(cudaStream_t stream);

  // Before the calling thread uses a device, by its ordinal: perhaps a second one (S12).
  void UsesDevice(int device);
  // Whether there is a second one, so that nothing is deferred.
  bool SeveralContexts();

  // -- effects on host memory: behind the call that enqueued them

  // What a copy or a memset touches. Either side may be NULL: nothing that could be host memory.
  struct Touched {
    const void* destination = nullptr;
    size_t destination_span = 0;
    const void* source = nullptr;
    size_t source_span = 0;
  };
  void Touches(const Touched& touched, cudaStream_t stream, bool per_thread);
  void HostEffect(HostEffectKind kind, const AddressRange& range, cudaStream_t stream, bool per_thread);
  // The same, anywhere and on any stream.
  void HostEffectAnywhere();

  // They are about to be asked for: what was not recorded lies behind one fence from here on.
  void WatchEffects() { (void)AskForEffects(); }
  // Whether unfinished work may write the range, or that cannot be told (S03, S04).
  bool MayBeWritten(const AddressRange& range);
  // Whether all unfinished effects are of `stream`, whose fences are added; false too where that cannot be told (S10).
  bool EffectsOnlyOn(const StreamKey& stream, std::vector<FenceRef>* fences);
  // In place of a free that would have waited for the device: returns when the host can see in host memory all that it
  // could have seen behind that wait (S30b), which is for one context; null: for every context. False: that cannot be
  // told.
  bool WaitForHostEffects(CUcontext context);

  // -- captures and graphs

  template <typename Begin>
  cudaError_t BeginCapture(cudaStream_t stream, bool per_thread, const Begin& begin) {
    SettleForAll(Before::kCapture);
    return captures_.Begin(KeyOfStream(stream, per_thread), begin);
  }
  // Calls work() while no capture can begin; false, without calling it, while one is live. A context-wide event or wait
  // would fail then, and break the capture (measured). `work` neither waits for the device nor takes a lock that is
  // held around a driver call.
  template <typename Work>
  bool WithoutCapture(const Work& work) {
    if (Broken(Mutant::kS37)) {
      work();
      return true;
    }
    return captures_.Without(work);
  }
  // Whether a capture may be live. Asks nobody and takes no lock.
  bool CaptureLive() const { return captures_.live(); }
  void CaptureMayHaveEnded(cudaStream_t stream, bool per_thread);
  void GraphInstantiated(cudaGraphExec_t executable, cudaGraph_t graph);
  void GraphForgotten(cudaGraphExec_t executable) { graphs_.Forget(executable); }
  // Whether the driver takes memory of the graph's own when it is launched.
  bool GraphOwnsMemory(cudaGraphExec_t executable) { return graphs_.OwnsMemory(executable); }
  void GraphLaunched(cudaGraphExec_t executable, cudaStream_t stream, bool per_thread);

  // -- debts

  // How a synchronization of the stream was deferred.
  enum class Deferral : uint8_t {
    kMade,
    kCapture,   // not: one is live
    kError,     // not: the driver refused
    kContexts,  // not: there is a second context, and the stream was waited for
  };
  // Puts all later work of the context behind all work of the stream, as the host's wait would have (S12), and enters
  // the wait as owed. The stream is one of context().
  Deferral Defer(const StreamKey& stream);
  // Waits until one of at most two debts of the stream is left (S23).
  void KeepToTwo(const StreamKey& stream);
  // Whether the calling thread owes anything.
  static bool Defers() { return !DeferredHere().empty(); }
  // Before calls that wait, or that could show what is deferred (S13).
  void Settle(Before what);
  // Before what shows it to another process, or ends it: what every thread has deferred.
  void SettleForAll(Before what);
  // The calling thread ends the process by exit(). Without slipstream it would have waited before it came there for
  // what it has deferred, and what kernels had printed would have been written out by that. At most 30 s.
  // What the driver says of that work: CUDA_SUCCESS too where it is not done by then.
  CUresult SettleAtExit();
  // Before device memory is freed. A free of pool memory waits for nothing by itself, and the memory may have been
  // handed over by the thread that has deferred them: all threads' debts are settled.
  void BeforeFree();
  // Before an asynchronous copy to `destination`: one to pageable host memory waits for the device.
  void BeforeCopyTo(const void* destination);
  // Before the driver is asked: waits for what is deferred if the answer would show it. What another thread has
  // deferred is waited for where it is the same stream's, or one's that the stream runs in order with; so a watchdog
  // that polls is answered at once about work that nobody has waited for (S63).
  void BeforeEventQuery(cudaEvent_t event);
  void BeforeStreamQuery(cudaStream_t stream, bool per_thread);
  // The time between two events is no poll: "not ready" is an exception then. Waits for all that was deferred behind
  // either.
  void BeforeElapsedTime(cudaEvent_t start, cudaEvent_t end);

  void EventRecorded(cudaEvent_t event, cudaStream_t stream, bool per_thread) {
    // An event without a mark counts as recorded early, which is right as long as nothing was deferred.
    // While nothing is recorded, nothing is skipped before all of that has run (effect_watch.h).
    if (Serving() && watch_.Records()) OrTurnOff([&] { marks_.Recorded(event, KeyOfStream(stream, per_thread)); });
  }
  // Behind the work of all streams of a context.
  void EventRecordedInAll(cudaEvent_t event) {
    if (Serving() && watch_.Records()) OrTurnOff([&] { marks_.RecordedInAll(event); });
  }
  void EventDestroyed(cudaEvent_t event) { marks_.Destroyed(event); }

  // -- memory

  void HostRegistered(const void* address, size_t bytes, bool mapped);
  void HostUnregistered(const void* address) {
    registered_.Remove(address);
    HostFreed();
  }
  // Pinned memory was given back: what lies there from now on may be pageable.
  void HostFreed() { pinned_life_.fetch_add(1, std::memory_order_release); }
  // Whether a part of the range was registered, be its ends as they may (S01).
  bool Registered(const AddressRange& range) { return registered_.Overlap(range); }
  // What the address is; where the calling thread has asked before, and it was pinned then, without another question.
  // If it is not any more, it is taken for pinned all the same, which is the program's own call.
  MemoryKind KindOfOrPinned(const void* address);
  bool WasPinned(const void* address);

  // The program gives advice about, or prefetches, what lies at `address` (S02).
  void AdvisesMemory(const void* address);
  // Whether it has done so with memory of the system.
  bool UsesSystemMemory() const { return system_memory_.load(std::memory_order_acquire); }
  // Whether a device of those that are served could read pageable memory by itself (HMM). When the driver reads it for
  // an asynchronous copy is not said then.
  bool DeviceReadsPageable() const { return device_reads_pageable_.load(std::memory_order_acquire); }
  // The program uses managed memory, or memory of the host through a device address (S11).
  void UsesMappedMemory() { mapped_.store(true, std::memory_order_release); }
  // The program's kernels print, and what they print is written out by synchronizations (S79).
  void KernelsPrint() { kernels_print_.store(true, std::memory_order_release); }
  bool DoKernelsPrint() const { return kernels_print_.load(std::memory_order_acquire) && !Broken(Mutant::kS79); }
  bool MemoryIsMapped() const { return mapped_.load(std::memory_order_acquire); }
  // Memory is shared with other processes (S22).
  void SharesMemory() { shared_.store(true, std::memory_order_release); }
  bool MemoryIsShared() const { return shared_.load(std::memory_order_acquire); }
  // So is the order of work: they see when it has run (S10).
  void SharesWork() {
    shared_work_.store(true, std::memory_order_release);
    SharesMemory();
  }

  // Whether a transport is loaded that reaches device memory by itself, as of `age_ns` ago or less (S22). Asks the
  // loader, which costs tens of microseconds, and as long as another thread's dlopen takes. `elsewhere()`: whether
  // somebody else will, so that the last answer does.
  template <typename Elsewhere>
  bool TransportFound(uint64_t age_ns, const Elsewhere& elsewhere) {
    if (!transports_.Found() || !options_.heeds_transports) {  // NCCL is looked for even then
      const uint64_t before = transports_looked_ns_.load(std::memory_order_relaxed);
      const uint64_t now = NowNs();
      if (now - before < age_ns) return transports_.Found();
      transports_looked_ns_.store(now, std::memory_order_relaxed);
      if (before != 0 && elsewhere()) return transports_.Found();
      if (!transports_.Look()) return false;
    }
    TellOfTransport();
    return true;
  }
  bool TransportLoaded() {
    return TransportFound(0, [] { return false; });
  }
  // For elsewhere().
  void LookForTransports() { (void)transports_.Look(); }
  bool HeedsTransports() const { return options_.heeds_transports; }
  // Work that nobody sees may be what a wait of the device waits for (S64).
  bool NcclByProxy() const { return transports_.NcclByProxy(); }
  // Either of the two.
  bool ReachedFromOutside() {
    const bool transport = TransportLoaded();
    return (transport && options_.heeds_transports) || NcclByProxy();
  }

 private:
  enum class Phase : uint32_t {
    kUnbegun,
    kBeginning,  // effects on host memory are tracked
    kServing,
    kOff,
  };

  // A synchronization that was skipped: on each stream the newest stands for the older ones.
  struct Deferred {
    StreamKey stream;
    Fence* fence = nullptr;  // held
    uint64_t mark = 0;       // of EventMarks' counter
    uint64_t since_ns = 0;   // when the thread went on
    bool told = false;       // that it was seen to be due still
  };

  // Pages of the host that were pinned when the thread asked about them. None of which the program registered a part:
  // the rest is pageable to whoever asks (S63).
  struct PinnedPages {
    static constexpr size_t kPlaces = 32;
    static constexpr uintptr_t kPageBytes = 4096;  // the smallest there are

    uint64_t life = 0;  // of what is remembered
    uintptr_t pages[kPlaces] = {};

    static uintptr_t PageOf(const void* address) { return reinterpret_cast<uintptr_t>(address) / kPageBytes; }
    // A loader's buffers lie megabytes apart.
    static size_t PlaceOf(uintptr_t page) { return (page ^ page >> 8 ^ page >> 16) % kPlaces; }
  };

  // What is kept for each thread, which touches its own only: first what every call may ask for. Trivial to construct
  // and destroy: it lives in the static TLS block.
  struct OfThread {
    // Of the last wait that was deferred, until a call of the program's synchronizes: what kernels had printed in front
    // of it has not been written out. Null: nothing is owed in that respect.
    Fence* unwritten = nullptr;
    ThreadWork::Mine work = {};
  };
  // And what a thread has that copies.
  struct Kept {
    static constexpr size_t kMostDeferred = 8;

    Deferred deferred[kMostDeferred];
    size_t deferred_count = 0;
    uint64_t told_until_ns = 0;  // of the time in which the thread went on
    PinnedPages pinned;
  };
  using KeptHere = policy::ThreadOwned<Kept>;
  // What the calling thread has deferred.
  static std::span<Deferred> DeferredHere() {
    Kept* const kept = KeptHere::Find();
    return kept != nullptr ? std::span(kept->deferred, kept->deferred_count) : std::span<Deferred>();
  }

  [[gnu::visibility("hidden")]] static constinit thread_local OfThread t_mine;
  static OfThread& Mine() { return t_mine; }
  // ThreadEnds is called when the calling thread ends. False: it is not.
  bool WatchThread() { return has_thread_key_ && pthread_setspecific(thread_key_, this) == 0; }
  struct LastSettlement;
  static void ThreadEnds(void* ledger);
  static void* SettleForAnother(void* settlement);

  Phase phase() const { return phase_.load(std::memory_order_seq_cst); }
  // Effects count from the moment in which the ledger begins; what is older is covered by a fence of that time. A
  // ledger that is off needs them no more, and one that a reset turned off early has no driver to ask.
  bool Tracking() const {
    const Phase now = phase();
    return (now == Phase::kBeginning || now == Phase::kServing) && watch_.Records() && Alive();
  }
  bool CanFollow(CUcontext context, Off* why_not);
  Off WhyNotDevice(CUdevice device);
  void AddEffectsOfOtherContexts(CUcontext known);
  // To be held while effects are asked for; 0: they cannot be told now.
  uint64_t AskForEffects();
  void SecondContext();
  void TellOfTransport();

  void Enter(Kept& kept, const StreamKey& stream, const FenceRef& fence, uint64_t mark);
  void SettleWhat(Before what, uint64_t after_mark);
  // Whether the driver said that it was still running.
  bool WaitCounted(const FenceRef& fence, Before what);
  void RanOn(uint64_t since_ns, uint64_t until_ns, uint64_t waited_until_ns) const;
  bool WaitCountedAtMost(const FenceRef& fence, Before what);
  bool OrderedWith(const StreamKey& stream, const StreamKey& other) const;
  void Count(Before what, uint64_t time_ns) const {
    if (options_.settled != nullptr) options_.settled(what, time_ns);
  }

  const Options options_;
  const pid_t process_;
  std::atomic<Phase> phase_{Phase::kUnbegun};
  std::atomic<Off> off_{Off::kError};
  std::atomic<bool> stopped_{false};
  std::atomic<bool> driver_there_{false};
  std::mutex begin_mutex_;
  bool told_ = false;  // options_.begins has said yes; with the lock
  Driver driver_;
  pthread_key_t thread_key_ = 0;
  bool has_thread_key_ = false;

  Served first_;  // constant once the ledger serves
  int device_count_ = 0;
  std::array<std::atomic<CUcontext>, 64> others_{};  // that are served, by device
  std::atomic<bool> several_contexts_{false};

  FencePool fences_{driver_};
  HostEffects effects_;
  EffectWatch watch_;
  CaptureWatch captures_;
  GraphWatch graphs_;
  EventMarks marks_;
  RunAhead run_ahead_;
  ExitWait exit_wait_{driver_};
  std::atomic<bool> has_deferred_{false};
  ThreadWork thread_work_;
  RegisteredRanges registered_;
  std::atomic<uint64_t> pinned_life_{1};
  std::atomic<bool> mapped_{false};
  std::atomic<bool> kernels_print_{false};
  std::atomic<bool> shared_{false};
  std::atomic<bool> shared_work_{false};
  std::atomic<bool> system_memory_{false};
  std::atomic<bool> device_reads_pageable_{false};
  Transports transports_;
  std::atomic<uint64_t> transports_looked_ns_{0};
  std::atomic<bool> transport_told_{false};
};

}  // namespace slipstream::cuda
