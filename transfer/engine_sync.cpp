// Synchronizations: which are skipped.

#include "transfer/engine.h"

namespace slipstream::transfer {
namespace {

constexpr Decision kSkip = Decision::kCount;  // no reason not to

// Of small copies, which are many.
constexpr uint64_t kSmallLookNs = 200'000'000;

}  // namespace

Decision Engine::WhyNotSkip(const Candidate& candidate, std::vector<cuda::FenceRef>* effects) {
  if (!candidate.plan.skip_synchronize) {
    return candidate.plan.skip_by == policy::Decider::kRule ? Decision::kSyncKeptRule : Decision::kSyncKeptOff;
  }
  ledger_.NextTurn();
  if (ledger_.OthersHaveTheirOwn(candidate.stream.handle)) return Decision::kSyncKeptThreads;
  if (ledger_.MemoryIsMapped() && !Broken(Mutant::kS11)) return Decision::kSyncKeptMapped;
  if (ledger_.DoKernelsPrint()) return Decision::kSyncKeptPrintf;
  if (!Broken(Mutant::kS22)) {
    if (ledger_.MemoryIsShared() || candidate.destination_may_be_shared) return Decision::kSyncKeptShared;
    const bool transport = ledger_.TransportFound(candidate.small ? kSmallLookNs : kTransportLookNs,
                                                  [&] { return candidate.small && AskToLook(); });
    if (transport && ledger_.HeedsTransports()) return Decision::kSyncKeptRdma;
  }
  if (ledger_.NcclByProxy()) return Decision::kSyncKeptThreads;
  if (ledger_.SeveralContexts()) return Decision::kSyncKeptContexts;
  if (captures_.live() && !Broken(Mutant::kS12Contexts)) return Decision::kSyncKeptCapture;
  return ledger_.EffectsOnlyOn(candidate.stream, effects) ? kSkip : Decision::kSyncKeptHostEffect;
}

bool Engine::SkipStreamSynchronize(cudaStream_t stream, bool per_thread) {
  ThreadState& thread = State();
  if (!thread.candidate.valid) return false;
  const Candidate candidate = thread.candidate;
  thread.candidate.valid = false;
  if (!Serving() || !(ledger_.KeyOfStream(stream, per_thread) == candidate.stream)) return false;
  try {
    const cuda::RelaxedCapture relaxed(driver_);
    std::vector<cuda::FenceRef> effects;
    const Decision why_not = WhyNotSkip(candidate, &effects);
    if (why_not != kSkip) {
      Count(why_not);
      return false;
    }
    ledger_.KeepToTwo(candidate.stream);
    // What the host may look at without asking must be there; the device's own results may come later (S10).
    for (const cuda::FenceRef& effect : effects) {
      if (!Broken(Mutant::kS10) && effect.Wait() != CUDA_SUCCESS) return false;
    }
    switch (ledger_.Defer(candidate.stream)) {
      case cuda::Ledger::Deferral::kMade:
        Count(effects.empty() ? Decision::kSyncSkipped : Decision::kSyncSkippedRest);
        return true;
      case cuda::Ledger::Deferral::kContexts:
        Count(Decision::kSyncKeptContexts);
        return true;
      case cuda::Ledger::Deferral::kCapture:
        Count(Decision::kSyncKeptCapture);
        return false;
      case cuda::Ledger::Deferral::kError:
        Count(Decision::kSyncKeptError);
        return false;
    }
    return false;
  } catch (...) {
    TurnOff(Decision::kH2dDeclinedError);
    return false;
  }
}

}  // namespace slipstream::transfer
