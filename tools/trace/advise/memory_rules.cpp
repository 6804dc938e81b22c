#include <algorithm>
#include <string>

#include "tools/trace/advise/changes.h"
#include "tools/trace/advise/rules.h"
#include "tools/trace/advise/sums.h"

namespace slipstream::advise {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;
constexpr char kNeedsPools[] = "what the device's pool held was not recorded";

bool IsMalloc(const CallGroup& group) {
  return group.function == "cudaMalloc" || group.function == "cuMemAlloc" || group.function == "cuMemAlloc_v2";
}
bool IsFree(const CallGroup& group) { return group.function == "cudaFree" || group.function == "cuMemFree_v2"; }
bool ServedByPool(const CallGroup& group) {
  return group.decision.starts_with("allocator.reused") || group.decision == "allocator.parked";
}

// The lines that asked for most of what the program had of the device at its peak.
void NameHolders(const Facts& facts, int64_t device, Advice* advice) {
  for (const report::HeldReport& held : facts.process->held) {
    if (held.device != device) continue;
    for (size_t i = 0; i < held.holders.size() && i < 3; ++i) {
      const report::HolderReport& holder = held.holders[i];
      if (!holder.known) continue;
      advice->places.push_back({holder.file, holder.line, holder.function});
      advice->evidence.push_back(Bytes(holder.sum.bytes) + " asked for at " + report::HolderLabel(holder, 60));
    }
  }
}

Verdict NearTheLimit(const Facts& facts) {
  if (facts.process->memory.empty() || !facts.device_memory) return Verdict::Abstain(kNeedsPools);
  const report::MemoryReport& pool =
      *std::max_element(facts.process->memory.begin(), facts.process->memory.end(),
                        [](const auto& a, const auto& b) { return a.peak_live < b.peak_live; });
  if (pool.retries == 0 && pool.peak_live < *facts.device_memory / 100 * 92) return Verdict::Nothing();
  Advice advice;
  advice.finding = "The device's memory is nearly full.";
  advice.evidence = {Bytes(pool.peak_live) + " of " + Bytes(*facts.device_memory) + " in use at the peak"};
  if (pool.retries != 0) {
    advice.evidence.push_back(report::Counted(static_cast<uint64_t>(pool.retries), "allocation", "allocations") +
                              " succeeded only after idle memory had gone back");
  }
  NameHolders(facts, pool.device, &advice);
  advice.why_unknown = "what failing costs is no time of a step";
  advice.change = "Compute activations again instead of keeping them, or accumulate gradients over smaller batches.";
  advice.snippet = "out = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)";
  advice.confidence = Confidence::kHigh;
  return Verdict::Say(advice);
}

// Of the most that a pool had in use, this share of the device leaves room for activations.
constexpr double kRoomy = 0.5;

Verdict RecomputedActivations(const Facts& facts) {
  constexpr double kLeastShare = 0.05;
  if (!facts.devices_recorded) return Verdict::Abstain(kNeedsDevices);
  const auto sums = ByPlace(facts.work, [](const WorkGroup& group) { return group.recomputes; });
  const int64_t per_step = facts.PerStep(SumOf(sums).time);
  if (ShareOfStep(facts, per_step) < kLeastShare) return Verdict::Nothing();
  if (facts.process->memory.empty() || !facts.device_memory) return Verdict::Abstain(kNeedsPools);
  int64_t peak = 0;
  for (const report::MemoryReport& pool : facts.process->memory) peak = std::max(peak, pool.peak_live);
  if (static_cast<double>(peak) > kRoomy * static_cast<double>(*facts.device_memory)) return Verdict::Nothing();
  Advice advice;
  advice.finding = "Activations are computed a second time to save memory, and most of the device's memory is free.";
  advice.evidence = {report::Time(per_step) + " (" + report::Percent(ShareOfStep(facts, per_step), 1) + OfAStep(facts) +
                         ") of kernels of the second forward pass, which torch.utils.checkpoint makes",
                     Bytes(peak) + " of " + Bytes(*facts.device_memory) + " in use at the peak"};
  advice.places = PlacesOf(sums);
  advice.cost = per_step;
  ShrinkWork(
      facts, [](const WorkGroup& group) { return group.recomputes; }, 0, &advice.what_if);
  ShrinkHost(
      facts, [](const CallGroup& group) { return group.recomputes; }, 0, &advice.what_if);
  advice.gains = Gains::kBusy;
  advice.scope = Scope::kSpecific;
  advice.change = "Keep the activations of as many blocks as the memory has room for, all of them if it does.";
  advice.snippet =
      "for i, block in enumerate(blocks):  # every second one, say\n    x = checkpoint(block, x, "
      "use_reentrant=False) if i % 2 else block(x)";
  advice.confidence = Confidence::kMedium;
  return Verdict::Say(advice);
}

Verdict Fragmentation(const Facts& facts) {
  if (facts.process->memory.empty()) return Verdict::Abstain(kNeedsPools);
  for (const report::MemoryReport& pool : facts.process->memory) {
    const int64_t idle = pool.peak_point.idle;
    if (idle < kGiB || idle < pool.peak / 5) continue;
    Advice advice;
    advice.finding = "Memory is reserved that nothing is in: requests of changing sizes do not fit what is free.";
    advice.evidence = {"at the peak of " + Bytes(pool.peak) + ", " + Bytes(idle) + " (" +
                       report::Percent(static_cast<double>(idle), static_cast<double>(pool.peak)) + ") was idle"};
    // They reserve what is in use, in pages of 2 MiB.
    const int64_t less = pool.peak - pool.peak_live;
    if (less > 0) {
      advice.evidence.push_back("by the recorded allocations expandable segments would have reserved " +
                                Bytes(pool.peak_live) + " at most, " + Bytes(less) + " less");
    }
    NameHolders(facts, pool.device, &advice);
    advice.why_unknown = "it costs memory, and time only when memory runs out";
    advice.change = "Have PyTorch keep its tensors in expandable segments, which grow and shrink by pages.";
    advice.snippet = "[allocator]\nmode = \"expandable\"";
    advice.confidence = Confidence::kMedium;
    return Verdict::Say(advice);
  }
  return Verdict::Nothing();
}

Verdict MallocInSteadyState(const Facts& facts) {
  const auto real = [](const CallGroup& group) { return (IsMalloc(group) || IsFree(group)) && !ServedByPool(group); };
  const auto sums = ByPlace(facts.calls, real);
  const PlaceSum all = SumOf(sums);
  const int64_t per_step = facts.PerStep(all.time);
  // What one step does alone is no habit of the loop, and memory that only grows is not given back.
  const double calls = facts.CountPerStep(all.count);
  const uint64_t frees =
      SumOf(ByPlace(facts.calls, [&](const CallGroup& group) { return real(group) && IsFree(group); })).count;
  if (!facts.process->has_steps || calls < 1 || 4 * frees < all.count || per_step < 100 * kMicrosecond)
    return Verdict::Nothing();
  Advice advice;
  advice.finding = "The loop takes memory from the driver and gives it back, step after step.";
  advice.evidence = {EachStepText(facts, all.count,
                                  {"call of cudaMalloc or cudaFree that reached the driver",
                                   "calls of cudaMalloc and cudaFree that reached the driver"}) +
                     ", " + report::Time(per_step)};
  advice.places = PlacesOf(sums);
  advice.cost = AtMostIdle(facts, per_step);
  ChangeCalls(facts, real, CallChange::kGone, &advice.what_if);
  advice.change = "Keep it: have slipstream pool it (on by default), and raise what it may keep.";
  advice.snippet = "[allocator]\nmode = \"segments\"";
  advice.confidence = Confidence::kHigh;
  return Verdict::Say(advice);
}

Verdict EmptyCacheInTheLoop(const Facts& facts) {
  constexpr double kMany = 3;
  const auto sums = ByPlace(
      facts.calls, [](const CallGroup& group) { return IsFree(group) && group.of_step_thread && group.place.known(); });
  for (const PlaceSum& sum : sums) {
    const double frees = facts.CountPerStep(sum.count);
    if (frees < kMany || !facts.process->has_steps) continue;
    // A program that has nothing pooled frees at every line, and gets memory at the same ones.
    const PlaceSum taken = SumOf(
        ByPlace(facts.calls, [&](const CallGroup& group) { return IsMalloc(group) && group.place == sum.place; }));
    if (4 * sum.count < 3 * SumOf(sums).count || 10 * taken.count > sum.count) continue;
    const PlaceSum again = SumOf(ByPlace(facts.calls, IsMalloc));
    Advice advice;
    advice.finding = "One line frees many segments in every step, as torch.cuda.empty_cache() does.";
    advice.evidence = {EachStepText(facts, sum.count, {"free", "frees"}) + ", " +
                       report::Time(facts.PerStep(sum.time)) + "; " + report::Time(facts.PerStep(again.time)) +
                       " to get memory again"};
    advice.places = {sum.place};
    advice.cost = AtMostIdle(facts, facts.PerStep(report::Sum(sum.time, again.time)));
    // The line goes, with whatever it calls beside (it waits for the device first) and what it does from one free to
    // the next.
    constexpr int64_t kBetweenFrees = 50 * kMicrosecond;
    const auto here = [&](const CallGroup& group) { return group.of_step_thread && group.place == sum.place; };
    ChangeCalls(
        facts, [&](const CallGroup& group) { return IsMalloc(group) || here(group); }, CallChange::kGone,
        &advice.what_if);
    TakeGaps(facts, here, &advice.what_if, kBetweenFrees);
    advice.scope = Scope::kSpecific;
    advice.change = "Take empty_cache() out of the loop: it makes no memory available to the same program.";
    advice.snippet = "# torch.cuda.empty_cache()";
    advice.confidence = Confidence::kHigh;
    return Verdict::Say(advice);
  }
  return Verdict::Nothing();
}

using report::VerdictKind;

constexpr Rule kMemoryRules[] = {
    {"near-memory-limit", "Memory nearly full", "memory", NearTheLimit},
    {"recomputed-activations", "Activations computed twice", "devices", RecomputedActivations,
     About(VerdictKind::kGpuBound)},
    {"fragmentation", "Reserved memory that nothing is in", "memory", Fragmentation},
    {"malloc-in-steady-state", "cudaMalloc in every step", "calls", MallocInSteadyState,
     About(VerdictKind::kAllocating)},
    {"empty-cache-in-loop", "empty_cache() in the loop", "steps", EmptyCacheInTheLoop,
     About(VerdictKind::kAllocating, VerdictKind::kSynchronizing)},
};

}  // namespace

std::span<const Rule> MemoryRules() { return kMemoryRules; }

}  // namespace slipstream::advise
