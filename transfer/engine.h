// The transfer engine: what happens around the program's CUDA calls. Start reading here; docs/transfer.md says it for
// users.
//
// A copy from pageable memory is read into pinned staging memory at once and enqueued on the caller's own stream; the
// synchronization that follows it immediately is skipped where the program cannot tell. What was skipped is deferred,
// and settled by the same thread before anything that could show the difference; other threads' queries see it too
// (S63). Everything that cannot be proven goes the program's own way: the real call.
//
// The rules have numbers (S01 to S23); each stands beside the code that keeps it, with its mutant (mutant.h).
//
// Threading: every function from any thread, before or after a context exists (S56). No lock is held while calling
//   anything that waits for the device (S55).
// Ownership: never destroyed. Real functions come as arguments; nothing here calls upward.
// Errors: an error that the program sees comes from the real call, so that the runtime's last error is what it would
// be. Trouble of the engine's own (no memory, a driver call that fails) makes it stand aside.
#pragma once

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "cuda/capture_watch.h"
#include "cuda/driver.h"
#include "cuda/effect_watch.h"
#include "cuda/event_marks.h"
#include "cuda/fence.h"
#include "cuda/graph_watch.h"
#include "cuda/host_effects.h"
#include "cuda/memory_kind.h"
#include "cuda/mutant.h"
#include "cuda/registered_ranges.h"
#include "cuda/run_ahead.h"
#include "cuda/stream_ref.h"
#include "cuda/thread_work.h"
#include "policy/policy.h"
#include "policy/transfer_plan.h"
#include "transfer/call_sites.h"
#include "transfer/copy_workers.h"
#include "transfer/decision.h"
#include "transfer/delivery.h"
#include "transfer/device_staging.h"
#include "transfer/path_chooser.h"
#include "transfer/ring.h"
#include "transfer/small_staging.h"
#include "transfer/thread_state.h"
#include "transfer/transports.h"
#include "transfer/verifier.h"

namespace slipstream::transfer {

using RealCopyAsync = cudaError_t(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t);
using RealCopy = cudaError_t(void*, const void*, size_t, cudaMemcpyKind);

class Engine {
 public:
  // Makes no CUDA call and starts no thread. `threads`: that copy, the calling one included (at least 1).
  // `ranks_here`: processes of the job on this machine, which share its memory; below 1: unknown. Never destroyed.
  Engine(const policy::Transfer& policy, int threads, int ranks_here, CountDecision count, const CallSites& sites);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Any hooked call but those below: a promoted copy's synchronization does not follow immediately any more.
  void OtherCall() {
    ThreadState& thread = State();
    if (!Broken(Mutant::kS09)) thread.candidate.valid = false;
  }

  // The calling thread has submitted work to the stream: a handle, or 0, as the program gave it.
  void Submitted(uint64_t stream) {
    if (!Serving()) return;
    ThreadState& thread = State();
    CUstream const handle = stream != 0 ? reinterpret_cast<CUstream>(stream) : CU_STREAM_LEGACY;
    if (thread_work_.Submitted(thread.work, handle) && has_thread_key_) pthread_setspecific(thread_key_, this);
  }

  // Whether another thread has work of its own, seen from the stream that the calling one last submitted work to (S65).
  // A hold for the calling thread is in question.
  bool OthersHaveWork() {
    thread_work_.NextTurn();
    return OthersHaveTheirOwn(cuda::ThreadWork::LastOf(State().work));
  }

  // -- copies. `stream` is what the program gave, `per_thread` whether the function's name ends in _ptsz or _ptds.
  cudaError_t CopyAsync(RealCopyAsync* real, void* destination, const void* source, size_t bytes, cudaMemcpyKind kind,
                        cudaStream_t stream, bool per_thread);

  // cudaMemcpy: the same on the default stream, with the synchronization that it contains.
  cudaError_t Copy(RealCopy* real, void* destination, const void* source, size_t bytes, cudaMemcpyKind kind,
                   bool per_thread);

  // Whether the calling thread has deferred anything.
  static bool Defers() { return State().deferred_count != 0; }

  // -- before calls that wait, or that could show what is deferred (S13).
  void Settle(Decision reason);
  // Before what shows it to another process, or ends it: what every thread has deferred.
  void SettleForAll(Decision reason);
  // Before device memory is freed. A free of pool memory waits for nothing by itself, and the memory may have been
  // handed over by the thread that has deferred them: all threads' deferred waits are settled.
  void BeforeFree();

  // In place of a free that would have waited for the device: returns when the host can see in host memory all that it
  // could have seen behind that wait (S30b), which is for one context; null: for every context. False: that cannot be
  // told.
  bool WaitForHostEffects(CUcontext context);

  // Whether a transport is loaded that reaches device memory by itself, and the policy heeds that (S22); or work that
  // nobody sees may be what a wait of the device waits for (S64).
  bool ReachedFromOutside() {
    const bool transport = TransportLoaded();
    return (transport && !policy_.skip_with_rdma) || transports_.NcclByProxy();
  }
  // Whether it is loaded, whatever the policy says.
  bool TransportLoaded() { return TransportFound(Promptness::kAtOnce); }

  // Before an asynchronous copy to `destination`: one to pageable host memory waits for the device.
  void BeforeCopyTo(const void* destination);

  // -- work that meets the host in host memory (S10): after the call that enqueued it.
  // What a copy or a memset touches. Either side may be NULL: nothing that could be host memory.
  struct Touched {
    const void* destination = nullptr;
    size_t destination_span = 0;
    const void* source = nullptr;
    size_t source_span = 0;
  };
  void Touches(const Touched& touched, cudaStream_t stream, bool per_thread);
  void HostEffect(cuda::HostEffectKind kind, const cuda::AddressRange& range, cudaStream_t stream, bool per_thread);
  // The same, anywhere and on any stream.
  void HostEffectAnywhere();

  // -- synchronizations and queries
  // Whether the call is to return success without being made.
  bool SkipStreamSynchronize(cudaStream_t stream, bool per_thread);
  // Before the driver is asked: waits for what is deferred if the answer would show it. What another thread has
  // deferred is waited for where it is the same stream's, or one's that the stream runs in order with; so a watchdog
  // that polls is answered at once about work that nobody has waited for (S63).
  void BeforeEventQuery(cudaEvent_t event);
  void BeforeStreamQuery(cudaStream_t stream, bool per_thread);
  // The time between two events is no poll: "not ready" is an exception then. Waits for all that was deferred behind
  // either.
  void BeforeElapsedTime(cudaEvent_t start, cudaEvent_t end);

  // -- events and streams
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
  void StreamDestroyed(cudaStream_t stream);

  // -- captures and graphs
  template <typename Begin>
  cudaError_t BeginCapture(cudaStream_t stream, bool per_thread, const Begin& begin) {
    SettleForAll(Decision::kSyncSettledCapture);
    return captures_.Begin(KeyOfStream(stream, per_thread), begin);
  }
  // Calls work() while no capture can begin; false, without calling it, while one is live.
  template <typename Work>
  bool WithoutCapture(const Work& work) {
    return captures_.Without(work);
  }
  // Whether a capture may be live. Asks nobody and takes no lock.
  bool CaptureLive() const { return captures_.live(); }
  void CaptureMayHaveEnded(cudaStream_t stream, bool per_thread);
  void GraphInstantiated(cudaGraphExec_t executable, cudaGraph_t graph);
  void GraphForgotten(cudaGraphExec_t executable) { graphs_.Forget(executable); }
  void GraphLaunched(cudaGraphExec_t executable, cudaStream_t stream, bool per_thread);

  // -- memory and sharing
  void HostRegistered(const void* address, size_t bytes, bool mapped);
  void HostUnregistered(const void* address) {
    registered_.Remove(address);
    HostFreed();
  }
  // Pinned memory was given back: what lies there from now on may be pageable.
  void HostFreed() { pinned_life_.fetch_add(1, std::memory_order_release); }
  // The program uses managed memory, or memory of the host through a device address (S11).
  void UsesMappedMemory() { mapped_.store(true, std::memory_order_release); }
  // The program gives advice about, or prefetches, [address, address + bytes) (S02).
  void AdvisesMemory(const void* address);
  // Memory is shared with other processes (S22).
  void SharesMemory() { shared_.store(true, std::memory_order_release); }
  // So is the order of work: they see when it has run (S10).
  void SharesWork() {
    shared_work_.store(true, std::memory_order_release);
    SharesMemory();
  }
  // What a user should know of this process, said once and from any thread. Before the first copy.
  void ExplainBy(void (*explain)(const char* key, const char* text)) { explain_ = explain; }
  // Memory that is mapped by hand is slipstream's own where `is` says so: it cannot be shared, and nobody else unmaps
  // it. Before the first copy.
  void MappingsAreOwn(bool (*is)(const void* address)) { own_mapping_ = is; }
  // Staging memory of the device goes back to the driver. Waits for the copies that it holds; whether there was any.
  bool GiveBackDeviceStaging();
  // The program could pin no more memory (S36): staging memory of the host is unpinned but for the little of small
  // copies, and no more is pinned from then on. Waits for the copies that it holds. Whether there was any.
  bool GiveBackHostStaging();
  // After an allocation that the driver made: device staging goes back where it has left little.
  void AfterAllocation();
  // Of the current device: what GiveBackDeviceStaging would free counts as free (S32), but for more than `total`.
  void AddDeviceStaging(size_t* free, const size_t* total);

  // Before the calling thread uses a device, by its ordinal: perhaps a second one (S12).
  void UsesDevice(int device);
  // From here on the program's own calls are made (S66); what threads have deferred is settled.
  void StandAside();
  // The device is about to be reset, by its ordinal; below 0: the calling thread's. Handles and registrations are gone
  // then, and the engine with them. What threads have deferred belongs to the life that ends; it was settled before.
  void DeviceReset(int device);

  // The process is exiting: nothing is promoted, skipped or settled any more (S53).
  void Stop();

 private:
  enum class Phase : uint32_t {
    kUnstarted,  // no copy was a candidate yet
    kStarting,   // effects on host memory are tracked
    kServing,
    kOff,
  };

  static ThreadState& State();

  // A context that copies are made in: a device's primary one.
  struct Served {
    CUcontext context = nullptr;
    CUdevice device = 0;
  };

  // The program's own call.
  struct Request;
  struct Real {
    RealCopyAsync* async;
    RealCopy* blocking;  // where async is null
    cudaError_t operator()(const Request& request) const;
  };
  struct Request {
    char* destination;
    const char* source;
    size_t bytes;
    int kind;  // a cudaMemcpyKind, or whatever number the program gave
    cudaStream_t given;
    CUstream stream;
    cuda::StreamKey key;
    Real real;
    Served in{};  // once it is known that it may be promoted
  };
  Request RequestOf(const Real& real, void* destination, const void* source, size_t bytes, cudaMemcpyKind kind,
                    cudaStream_t stream, bool per_thread);

  struct LastSettlement;
  static void ThreadEnds(void* engine);
  static void* SettleForAnother(void* settlement);
  ThreadState& Identified();
  cuda::StreamKey KeyOfStream(cudaStream_t stream, bool per_thread) {
    return cuda::KeyOf(cuda::Explicit(stream, per_thread), Identified().id);
  }
  bool Alive() const { return !stopped_.load(std::memory_order_acquire); }
  Phase phase() const { return phase_.load(std::memory_order_seq_cst); }
  bool Serving() const { return phase() == Phase::kServing && Alive(); }
  // Effects count from the moment in which the engine begins to start; what is older is covered by a fence of that
  // time. An engine that is off needs them no more, and one that a reset turned off early has no driver to ask.
  bool Tracking() const {
    const Phase now = phase();
    return (now == Phase::kStarting || now == Phase::kServing) && watch_.Records() && Alive();
  }
  // To be held while effects are asked for; 0: they cannot be told now.
  uint64_t AskForEffects();
  // Of memory that this thread has asked about before, and that was pinned then. If it is not any more, it is taken for
  // pinned all the same, which is the program's own call.
  bool WasPinned(const void* address);
  cuda::MemoryKind KindOfOrPinned(const void* address);
  bool LeavesPinned(const void* memory);
  // What the policy makes of a copy of a served device; the engine serves.
  policy::TransferPlan PlanFor(policy::Direction direction, const Request& request);
  bool DriverThere();
  void TurnOff(Decision reason);
  void Count(Decision decision, uint64_t bytes = 0, uint64_t time_ns = 0) const { count_(decision, bytes, time_ns); }
  // Runs bookkeeping; where memory runs out, the engine is off from then on.
  template <typename Work>
  void OrTurnOff(const Work& work) noexcept {
    try {
      work();
    } catch (...) {
      TurnOff(Decision::kH2dDeclinedError);
    }
  }

  // -- start and growth (engine_start.cpp)
  void StartIfPossible();
  void AddEffectsOfOtherContexts(CUcontext known);
  bool CanServe(CUcontext context, Decision* why_not);
  Decision WhyNotDevice(CUdevice device) const;
  // The calling thread's context, if it is one that copies are made in.
  bool ServesCurrent(Served* current);
  void WantStaging(size_t bytes);
  // Device memory that the copy has to itself; 0: there is none for it, and WhyNoLease says why.
  CUdeviceptr TakeDeviceStaging(const Request& request);
  Decision WhyNoLease(const Request& request) const;
  // How long a segment a copy wants that is not there; 0: none, or none can be had.
  size_t SegmentFor(size_t bytes) const;
  void AskForGrowth();
  // Why a copy found no staging memory where there is none at all.
  Decision WhyNoStaging() const {
    const bool none = growth_failed_.load(std::memory_order_relaxed) || most_ring_.load(std::memory_order_relaxed) == 0;
    return none ? Decision::kH2dDeclinedNoMemory : Decision::kH2dDeclinedStarting;
  }
  // Has the thread that pins memory look for RDMA transports; false: there is none, or it is at work.
  bool AskToLook();
  bool GrowDeviceStep();
  void Grow();
  bool GrowStep();
  bool StagingIsShort() const;
  bool MayPin(size_t bytes) const;
  static void* GrowMain(void* engine);

  // -- copies (engine_copy.cpp)
  bool CopyPromoted(Request& request, cuda::FenceRef* fence);
  cudaError_t OtherCopy(Request& request, bool per_thread);
  Decision WhyNotNow(Request& request, policy::TransferPlan* plan);
  Decision WhyNotThis(const Request& request, cuda::Destination* destination);
  static Delivery::To ToOf(const Request& request) {
    return {request.in.context, reinterpret_cast<CUdeviceptr>(request.destination), request.bytes, request.stream};
  }
  bool PromoteSmall(const Request& request, cuda::FenceRef* fence);
  bool PromoteLarge(const Request& request, cuda::FenceRef* fence);
  bool ReturnsEarlyByMutant(const Request& request);

  // -- copies to the host (engine_fetch.cpp)
  // How long the program's own call takes, where that is to be learnt.
  struct Stopwatch {
    PathChooser* learner = nullptr;
    uint64_t start = 0;
  };
  bool Fetch(Request& request, Stopwatch* watch);
  Decision WhyNotFetch(Request& request);
  Decision FetchStaged(const Request& request, bool idle);

  // -- comparing (engine_verify.cpp)
  void LookAtVerified();
  void ExpectToFind(const Request& request, uint64_t sum);
  // Whether the destination of a copy to the host has what `from`, memory of the device that nobody writes, holds.
  // `slot`: of the ring, for the way there.
  bool ArrivedRight(const Request& request, CUdeviceptr from, char* slot);
  void SayWrong(size_t bytes, const char* direction, CUdeviceptr address, uint32_t site, const char* meaning);

  // -- skipping and paying (engine_sync.cpp)
  Decision WhyNotSkip(const Candidate& candidate, std::vector<cuda::FenceRef>* effects);
  void Defer(ThreadState& thread, const cuda::StreamKey& stream, const cuda::FenceRef& fence, uint64_t mark);
  void SettleWhat(ThreadState& thread, Decision reason, uint64_t after_mark);
  void WaitCounted(const cuda::FenceRef& fence, Decision reason);
  bool WaitCountedAtMost(const cuda::FenceRef& fence, Decision reason);
  bool OrderedWith(const cuda::StreamKey& stream, const cuda::StreamKey& other) const;
  bool OthersHaveTheirOwn(CUstream stream) const {
    return !Broken(Mutant::kS65) && thread_work_.OthersHaveTheirOwn(State().work, stream);
  }
  bool SeveralContexts();
  void SecondContext();
  enum class Promptness : uint8_t { kAtOnce, kForCopy, kForSmallCopy };
  bool TransportFound(Promptness how);

  const policy::Transfer policy_;
  const bool considers_to_device_;  // whether such copies are looked at
  const bool considers_to_host_;
  const bool policy_has_more_to_say_;  // of copies whose memory is pinned
  const int threads_;
  const int ranks_here_;
  const CountDecision count_;
  const CallSites sites_;
  SiteRules site_rules_;
  const pid_t process_;
  std::atomic<Phase> phase_{Phase::kUnstarted};
  std::atomic<Decision> off_reason_{Decision::kH2dDeclinedError};
  std::atomic<bool> stopped_{false};
  std::atomic<bool> driver_there_{false};
  std::mutex start_mutex_;
  cuda::Driver driver_;
  pthread_key_t thread_key_ = 0;
  bool has_thread_key_ = false;
  std::atomic<uint64_t> next_thread_{1};

  // Of the context that is served first; constant once the engine serves. In others copies are made too, through host
  // memory alone, but no synchronization is skipped (S12).
  CUcontext context_ = nullptr;
  CUdevice device_ = 0;
  int device_count_ = 0;
  std::array<std::atomic<CUcontext>, 64> others_{};  // that are served, by device

  cuda::FencePool fences_{driver_};
  SmallStaging small_;
  Ring ring_;
  DeviceStaging device_staging_{driver_};
  bool (*own_mapping_)(const void* address) = nullptr;
  Verifier verifier_{driver_, fences_, ring_};
  CopyWorkers workers_;
  PathChooser staging_ways_;       // with workers, or without
  PathChooser fresh_fetch_ways_;   // through staging memory, or by the program's own call, into memory without pages
  PathChooser filled_fetch_ways_;  // and into memory that has some
  cuda::HostEffects effects_;
  cuda::CaptureWatch captures_;
  cuda::GraphWatch graphs_;
  cuda::EventMarks marks_;
  cuda::RunAhead run_ahead_;
  cuda::ThreadWork thread_work_;
  cuda::RegisteredRanges registered_;

  cuda::EffectWatch watch_;
  std::atomic<uint64_t> pinned_life_{1};
  std::atomic<bool> mapped_{false};
  std::atomic<bool> shared_{false};
  std::atomic<bool> shared_work_{false};
  std::atomic<bool> system_memory_{false};
  std::atomic<bool> several_contexts_{false};
  Transports transports_;
  std::atomic<uint64_t> transports_looked_ns_{0};
  std::atomic<bool> transport_told_{false};
  void (*explain_)(const char* key, const char* text) = nullptr;

  // Growth of staging memory.
  std::mutex grow_mutex_;
  std::condition_variable grow_wanted_;
  std::atomic<size_t> wanted_bytes_{0};         // of the ring
  std::atomic<size_t> wanted_device_bytes_{0};  // of the longest copy that device staging memory is too little for
  bool grower_started_ = false;                 // under grow_mutex_
  bool look_wanted_ = false;                    // under grow_mutex_
  std::atomic<bool> growth_failed_{false};
  std::atomic<size_t> most_ring_{SIZE_MAX};  // bytes, since the machine or the container had no more to spare
  std::atomic<uint32_t> growing_{0};         // 1: memory is being pinned
};

}  // namespace slipstream::transfer
