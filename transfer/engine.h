// The transfer engine: what happens around the program's CUDA calls. Start reading here; docs/transfer.md says it for
// users.
//
// A copy from pageable memory is read into pinned staging memory at once and enqueued on the caller's own stream, a
// small one by the driver, which does the same; the synchronization that follows it immediately is skipped where the
// program cannot tell. What was skipped is a debt in the ledger, which knows all that the program has in flight
// (cuda/ledger.h). Everything that cannot be proven goes the program's own way: the real call.
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

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "cuda/driver.h"
#include "cuda/fence.h"
#include "cuda/ledger.h"
#include "cuda/memory_kind.h"
#include "cuda/mutant.h"
#include "cuda/stream_ref.h"
#include "policy/policy.h"
#include "policy/transfer_plan.h"
#include "transfer/call_sites.h"
#include "transfer/copy_workers.h"
#include "transfer/decision.h"
#include "transfer/delivery.h"
#include "transfer/device_staging.h"
#include "transfer/mirrors.h"
#include "transfer/path_chooser.h"
#include "transfer/ring.h"
#include "transfer/thread_state.h"
#include "transfer/verifier.h"

namespace slipstream::transfer {

using RealCopyAsync = cudaError_t(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t);
using RealCopy = cudaError_t(void*, const void*, size_t, cudaMemcpyKind);

class Engine {
 public:
  // Makes no CUDA call and starts no thread. `threads`: that copy, the calling one included (at least 1).
  // `ranks_here`: processes of the job on this machine, which share its memory; below 1: unknown. Never destroyed.
  Engine(const policy::Transfer& policy, int threads, int ranks_here, CountDecision count, const CallSites& sites,
         cuda::Ledger& ledger);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Any hooked call but those below: a promoted copy's synchronization does not follow immediately any more.
  static void OtherCall() {
    ThreadState& thread = State();
    if (!Broken(Mutant::kS09)) thread.candidate.valid = false;
  }

  // -- copies. `stream` is what the program gave, `per_thread` whether the function's name ends in _ptsz or _ptds.
  cudaError_t CopyAsync(RealCopyAsync* real, void* destination, const void* source, size_t bytes, cudaMemcpyKind kind,
                        cudaStream_t stream, bool per_thread);

  // cudaMemcpy: the same on the default stream, with the synchronization that it contains.
  cudaError_t Copy(RealCopy* real, void* destination, const void* source, size_t bytes, cudaMemcpyKind kind,
                   bool per_thread);

  // Whether copies that the calling thread makes from here on get a fingerprint (fingerprint.h), where they are
  // promoted: then the engine has read their bytes itself.
  static void WantFingerprints(bool wanted) { State().wants_fingerprints = wanted; }
  // Of the copy whose promotion is being counted; 0: it has none.
  static uint64_t Fingerprint() { return State().fingerprint; }

  // -- synchronizations
  // Whether the call is to return success without being made.
  bool SkipStreamSynchronize(cudaStream_t stream, bool per_thread);
  // transfer.verify: compares what has come back. Before anything that waits.
  void LookAtVerified();

  // -- memory and the device
  // Staging memory of the device goes back to the driver, if it is there. Waits for the copies that it holds; whether
  // there was any.
  bool GiveBackDeviceStaging(CUdevice device);
  // The program could pin no more memory (S36): staging memory of the host is unpinned, and no more is pinned from then
  // on. Waits for the copies that it holds. Whether there was any.
  bool GiveBackHostStaging();
  // After an allocation that the driver made: device staging goes back where it has left little. Waits for nothing.
  void AfterAllocation();
  // Of the current device: what GiveBackDeviceStaging would free counts as free (S32), but for more than `total`.
  void AddDeviceStaging(size_t* free, const size_t* total);

  // The ledger's device was reset, and staging memory on it is gone.
  void ForgetDevice() { device_staging_.Forget(); }

  // The process is exiting, and the ledger has stopped: returns when no thread of the engine's is in the driver (S53).
  void Stop();

 private:
  static ThreadState& State();

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
    cuda::Ledger::Served in{};  // once it is known that it may be promoted
  };
  Request RequestOf(const Real& real, void* destination, const void* source, size_t bytes, cudaMemcpyKind kind,
                    cudaStream_t stream, bool per_thread);

  bool Alive() const { return ledger_.Alive(); }
  bool Off() const { return off_.load(std::memory_order_acquire) != kNotOff; }
  bool Serving() const { return !Off() && ledger_.Serving(); }
  bool LeavesPinned(const void* memory);
  // What the policy makes of a copy of a served device; the engine serves.
  policy::TransferPlan PlanFor(policy::Direction direction, const Request& request);
  // No copy is promoted from here on. Where bookkeeping may have failed, the ledger is off too.
  void TurnOff(Decision reason);
  // Why the engine does not serve, as far as is known.
  Decision WhyOff() const;
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

  // -- growth (engine_growth.cpp)
  // Has the thread that pins memory find out whether a copy may be promoted at all (S14). Whether that is known.
  bool MayBegin();
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
  bool GrowMirrorStep();
  // `bytes` of pinned memory; null: there is none, or the program wanted it back.
  char* Pin(size_t bytes);
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
  bool SourceMayChange(const Request& request);
  static void FaultHere(const Request& request);
  static Delivery::To ToOf(const Request& request) {
    return {request.in.context, reinterpret_cast<CUdeviceptr>(request.destination), request.bytes, request.stream};
  }
  static void TakeFingerprint(const char* memory, size_t bytes);
  bool LeaveToDriver(const Request& request);
  bool Stage(const Request& request, cuda::FenceRef* fence);
  bool ReturnsEarlyByMutant(const Request& request);

  // -- sources that do not change (engine_mirror.cpp)
  enum class Mirrored : uint8_t { kNot, kSent, kFailed };
  Mirrored SendMirrored(const Request& request, bool busy, cuda::FenceRef* fence);

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
  void ExpectToFind(const Request& request, uint64_t sum);
  // Whether the destination of a copy to the host has what `from`, memory of the device that nobody writes, holds.
  // `slot`: of the ring, for the way there.
  bool ArrivedRight(const Request& request, CUdeviceptr from, char* slot);
  void SayWrong(size_t bytes, const char* direction, CUdeviceptr address, uint32_t site, const char* meaning);

  // -- skipping (engine_sync.cpp)
  Decision WhyNotSkip(const Candidate& candidate, std::vector<cuda::FenceRef>* effects);

  static constexpr Decision kNotOff = Decision::kCount;
  // How old an answer may be about the transports that are loaded. One that came in since then has to be initialized,
  // its peers to be found and the memory to be registered first, which takes longer (milliseconds), and SYNC_MEMOPS on
  // the destination tells of the last (DestinationAt). Of small copies, which are many, the thread that pins memory
  // asks.
  static constexpr uint64_t kTransportLookNs = 1'000'000;

  const policy::Transfer policy_;
  const bool considers_to_device_;  // whether such copies are looked at
  const bool considers_to_host_;
  const bool policy_has_more_to_say_;  // of copies whose memory is pinned
  const int threads_;
  const int ranks_here_;
  const CountDecision count_;
  const CallSites sites_;
  SiteRules site_rules_;
  std::atomic<Decision> off_{kNotOff};

  // Copies are made in other contexts too, through host memory alone; but no synchronization is skipped but in the
  // ledger's own (S12).
  cuda::Ledger& ledger_;
  // Of a policy that has staging memory pinned by the program's own call: asked before, since that asks the dynamic
  // loader, whose lock may then be a thread's that waits for the call (S78).
  const bool confidential_;
  const cuda::Driver& driver_ = ledger_.driver();
  cuda::FencePool& fences_ = ledger_.fences();
  cuda::CaptureWatch& captures_ = ledger_.captures();

  Ring ring_;
  DeviceStaging device_staging_{driver_};
  Mirrors mirrors_;
  Verifier verifier_{driver_, fences_, ring_};
  CopyWorkers workers_;
  PathChooser staging_ways_;       // with workers, or without
  PathChooser fresh_fetch_ways_;   // through staging memory, or by the program's own call, into memory without pages
  PathChooser filled_fetch_ways_;  // and into memory that has some

  // Growth of staging memory.
  std::mutex grow_mutex_;
  std::condition_variable grow_wanted_;
  std::atomic<size_t> wanted_bytes_{0};         // of the ring
  std::atomic<size_t> wanted_device_bytes_{0};  // of the longest copy that device staging memory is too little for
  std::atomic<bool> begun_{false};              // copies may be promoted (S14)
  bool grower_started_ = false;                 // under grow_mutex_
  bool look_wanted_ = false;                    // under grow_mutex_
  std::atomic<bool> growth_failed_{false};
  std::atomic<size_t> most_ring_{SIZE_MAX};  // bytes, since the machine or the container had no more to spare
  std::atomic<uint32_t> growing_{0};         // 1: memory is being pinned
};

}  // namespace slipstream::transfer
