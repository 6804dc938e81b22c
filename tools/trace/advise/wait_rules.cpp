#include <algorithm>
#include <string>
#include <vector>

#include "tools/trace/advise/changes.h"
#include "tools/trace/advise/rules.h"
#include "tools/trace/advise/stalls.h"
#include "tools/trace/advise/sums.h"

namespace slipstream::advise {
namespace {

bool HasCopyAt(const Facts& facts, const Place& place, int64_t least, int64_t most) {
  return std::any_of(facts.calls.begin(), facts.calls.end(), [&](const CallGroup& group) {
    return IsCopyCall(group) && group.place == place && group.least >= least && group.most <= most && group.most > 0;
  });
}

constexpr Noun kForScalar = {"wait for a scalar (.item(), float(), print of a tensor, an if on one)",
                             "waits for a scalar (.item(), float(), print of a tensor, an if on one)"};

// `waits`: which they are.
template <typename Wanted>
Advice AboutWaits(const Facts& facts, const Wanted& waits, const Noun& what) {
  const auto sums = ByPlace(facts.calls, waits);
  const PlaceSum all = SumOf(sums);
  Advice advice;
  ChangeCalls(facts, waits, CallChange::kGone, &advice.what_if);
  advice.evidence = {EachStepText(facts, all.count, what) + ", " + report::Time(facts.PerStep(all.time)) +
                     " of waiting"};
  if (const auto idle = facts.IdlePerStep()) {
    advice.evidence.push_back("the device had nothing to do for " + report::Time(*idle) + EachStep(facts) +
                              ": no more than that can be won");
  }
  advice.places = PlacesOf(sums);
  advice.cost = AtMostIdle(facts, facts.PerStep(all.time));
  advice.confidence = facts.devices_recorded ? Confidence::kHigh : Confidence::kLow;
  return advice;
}

// Numbers that are read at these lines.
Advice AboutNumbers(const Facts& facts, const std::vector<Place>& lines) {
  const auto waits = [&](const CallGroup& group) { return HoldsTheStep(group) && Has(lines, group.place); };
  // What autograd does has the line of backward(), with copies that are no numbers.
  const auto copies_number = [](const CallGroup& group) {
    return IsCopyCall(group) && (group.of_step_thread || (group.of_backward && group.most <= kScalar));
  };
  const auto copies =
      ByPlace(facts.calls, [&](const CallGroup& group) { return copies_number(group) && Has(lines, group.place); });
  Advice advice = AboutWaits(facts, waits, kForScalar);
  advice.cost =
      AtMostIdle(facts, facts.PerStep(SumOf(ByPlace(facts.calls, waits)).time) + facts.PerStep(SumOf(copies).time));
  const auto at_lines = [&](const auto& group) { return Has(lines, group.place); };
  const auto of_item = [&](const CallGroup& group) {
    return at_lines(group) && (HoldsTheStep(group) || copies_number(group));
  };
  ChangeCalls(facts, of_item, CallChange::kGone, &advice.what_if);
  // With what .item() does before each of them.
  constexpr int64_t kBetween = 50 * kMicrosecond;
  TakeGaps(facts, of_item, &advice.what_if, kBetween);
  ShrinkWork(
      facts, [&](const WorkGroup& group) { return IsCopy(group) && group.most <= kScalar && at_lines(group); }, 0,
      &advice.what_if);
  return advice;
}

// A few bytes to the host, and a wait for them, at one line.
Verdict ItemSynchronizes(const Facts& facts) {
  std::vector<Place> lines = ScalarLines(facts);
  std::erase_if(lines,
                [others = PlacesOf(AnomalyLines(facts), SIZE_MAX)](const Place& line) { return Has(others, line); });
  if (lines.empty()) return Verdict::Nothing();
  Advice advice = AboutNumbers(facts, lines);
  advice.finding = "The host waits for single numbers in the middle of the step, and the device runs dry behind it.";
  advice.change = "Keep the number on the device, and read it every so many steps.";
  advice.snippet = "total += loss.detach()\nif step % 100 == 0: print(total.item())";
  return Verdict::Say(advice);
}

Verdict DetectsAnomalies(const Facts& facts) {
  const std::vector<PlaceSum> sums = AnomalyLines(facts);
  if (sums.empty() || !facts.process->has_steps) return Verdict::Nothing();
  Advice advice = AboutNumbers(facts, PlacesOf(sums, SIZE_MAX));
  advice.finding = "Anomaly detection is on: behind each function of the backward pass the host waits for one byte.";
  const Anomalies& anomalies = facts.anomalies;
  const auto lines = PlacesOf(sums, SIZE_MAX);
  ShrinkHost(
      facts,
      [&](const CallGroup& group) {
        return group.of_backward && !IsCopyCall(group) && !IsWaitCall(group) && Has(lines, group.place);
      },
      anomalies.backward_stays, &advice.what_if);
  ShrinkHost(
      facts,
      [&](const CallGroup& group) {
        return group.of_step_thread && !IsCopyCall(group) && !IsWaitCall(group) &&
               std::binary_search(anomalies.forward_sites.begin(), anomalies.forward_sites.end(), group.ids[1]);
      },
      anomalies.forward_stays, &advice.what_if);
  if (anomalies.forward_stays < 1) {
    advice.evidence.push_back(
        "the host takes " + report::Time(anomalies.forward_launch) + " for a launch of the forward pass, and " +
        report::Time(anomalies.backward_launch) +
        " for one of the backward pass: what is more is taken for the stack trace of each function");
  }
  advice.evidence.emplace_back("not in the number: the time of the kernels that look for NaN");
  advice.change = "Switch it off when the NaN is found.";
  advice.snippet = "torch.autograd.set_detect_anomaly(False)";
  advice.scope = Scope::kSpecific;
  return Verdict::Say(advice);
}

Verdict ExplicitSynchronizes(const Facts& facts) {
  const auto waits = [&](const CallGroup& group) {
    return HoldsTheStep(group) && group.place.known() && !HasCopyAt(facts, group.place, 1, INT64_MAX);
  };
  const PlaceSum all = SumOf(ByPlace(facts.calls, waits));
  if (all.count == 0 || facts.CountPerStep(all.count) < 0.5) return Verdict::Nothing();
  Advice advice =
      AboutWaits(facts, waits, {"synchronization that belongs to no copy", "synchronizations that belong to no copy"});
  advice.finding = "The loop synchronizes: the host stands until the device has done everything.";
  advice.change = "Take it out, or time with events.";
  advice.snippet = "start.record(); step(); end.record()  # read start.elapsed_time(end) later";
  return Verdict::Say(advice);
}

Verdict CopyThenSynchronize(const Facts& facts) {
  const auto waits = [&](const CallGroup& group) {
    if (!group.place.known()) return false;
    if (HoldsTheStep(group)) return HasCopyAt(facts, group.place, kScalar + 1, INT64_MAX);
    // Where slipstream brings it to the host through staging memory, the copy itself waits.
    return IsCopyCall(group) && IsOfTheStep(group) && group.most > kScalar &&
           group.decision.starts_with("transfer.d2h.promoted");
  };
  const auto sums = ByPlace(facts.calls, waits);
  const PlaceSum all = SumOf(sums);
  if (all.count == 0 || facts.PerStep(all.time) < 50 * kMicrosecond) return Verdict::Nothing();
  Advice advice = AboutWaits(facts, waits, {"wait for a copy, at its line", "waits for a copy, at its line"});
  // Without the wait, a copy that itself waits must not either.
  const std::vector<Place> lines = PlacesOf(sums, SIZE_MAX);
  ChangeCalls(
      facts, [&](const CallGroup& group) { return IsCopyCall(group) && IsOfTheStep(group) && Has(lines, group.place); },
      CallChange::kReturns, &advice.what_if);
  advice.finding = "Copies are waited for where they are made.";
  advice.change = "Copy without waiting; where the host needs the bytes, wait just before it reads them.";
  advice.snippet = "x = x.to(\"cuda\", non_blocking=True)";
  return Verdict::Say(advice);
}

// The step thread is outside CUDA right before the line that uploads the batch, and the device has nothing to do.
Verdict WaitsForTheLoader(const Facts& facts) {
  const report::SiteReport* longest = nullptr;
  const std::vector<Place> uploads = UploadLines(facts);
  for (const report::SiteReport& site : facts.process->sites) {
    if (!site.of_step_thread || !site.known || !Has(uploads, {site.file, site.line, site.function})) continue;
    if (longest == nullptr || site.gap > longest->gap) longest = &site;
  }
  if (longest == nullptr || !facts.process->has_steps) {
    return Verdict::Abstain("no line uploads batches, or no steps were found");
  }
  const LateBatches late = LateBatchesOf(facts);
  const int64_t gap = facts.PerStep(longest->gap) - late.of_others;
  if (ShareOfStep(facts, gap) < kLateShare) return Verdict::Nothing();
  Advice advice;
  advice.finding = "The loop waits for its data: before the batch is uploaded, nothing happens.";
  advice.evidence = {report::Time(gap) + " of a step (" + report::Percent(ShareOfStep(facts, gap), 1) +
                     ") pass outside CUDA calls right before the upload"};
  advice.places = {{longest->file, longest->line, longest->function}};
  advice.cost = AtMostIdle(facts, gap);
  TakeGaps(
      facts, [&](const CallGroup& group) { return group.of_step_thread && group.place == advice.places[0]; },
      &advice.what_if);
  if (late.steps > 0) {
    advice.of_slow_steps = late.per_step;
    advice.evidence.push_back(report::Time(late.per_step) + EachStep(facts) + " of it because " +
                              std::to_string(late.steps) + " of " + std::to_string(facts.step_times.size()) +
                              " steps come later there than the others");
  }
  advice.change = "Loader workers if there are none, or more of them; less work for each item.";
  advice.snippet = "DataLoader(..., num_workers=8, persistent_workers=True, prefetch_factor=4)";
  advice.confidence = facts.devices_recorded ? Confidence::kHigh : Confidence::kMedium;
  return Verdict::Say(advice);
}

// While the loop is outside CUDA calls before an upload.
enum class BatchMaker : uint8_t {
  kUnknown,
  kStepThread,
  kWorkers,
  kNobody,  // neither of them runs or is ready to
};

BatchMaker WhoMakesTheBatch(const Facts& facts) {
  const auto& thread = facts.tasks.step_thread;
  const auto& workers = facts.tasks.workers;
  if (!thread || thread->time == 0 || !workers || workers->most == 0) return BatchMaker::kUnknown;
  const double gap = static_cast<double>(facts.PerStep(GapBefore(facts, UploadLines(facts))));
  // Wherever in a step it slept: for what is left of the gap, it had work at the least.
  if (gap - thread->slept() * StepOf(facts) >= gap / 2) return BatchMaker::kStepThread;
  // Of workers that ended between two looks it is not known what they did.
  if (workers->time == 0 || workers->began != 0) return BatchMaker::kUnknown;
  return workers->wanted() >= 0.5 * static_cast<double>(workers->most) ? BatchMaker::kWorkers : BatchMaker::kNobody;
}

// "4 worker processes, of which 0.3 had work on average"
std::string WorkersText(const TaskSum& workers) {
  std::string text = report::Counted(static_cast<uint64_t>(workers.most), "worker process", "worker processes");
  if (workers.time > 0 && workers.began == 0) {
    text += ", of which " + report::Number(workers.wanted()) + " had work on average";
  }
  return text;
}

Verdict LoaderInProcess(const Facts& facts) {
  Verdict verdict = WaitsForTheLoader(facts);
  if (verdict.kind != Verdict::Kind::kAdvice) return verdict;
  if (!facts.tasks.workers) {
    return Verdict::Abstain("how many worker processes there were is not recorded: see loader-wait");
  }
  if (facts.tasks.workers->most > 0) return Verdict::Nothing();
  Advice& advice = verdict.advice;
  advice.finding = "The loader runs in the training process: while it makes a batch, nothing else happens.";
  advice.evidence.emplace_back("no worker process was there while the steps ran");
  advice.change = "Let worker processes make the batches while the device computes.";
  const auto processors = facts.ProcessorsToUse();
  const auto ranks = static_cast<double>(std::max<size_t>(1, facts.machine.size()));
  const double share = processors.value_or(8) / ranks;
  if (processors) {
    advice.evidence.push_back(ProcessorsText(*processors) + " to use" +
                              (ranks > 1 ? ", for the ranks on this machine together" : ""));
  }
  const auto workers = static_cast<int64_t>(std::clamp(share - 1, 1.0, 8.0));
  advice.snippet =
      "DataLoader(..., num_workers=" + std::to_string(workers) + ", persistent_workers=True, prefetch_factor=4)";
  return verdict;
}

Verdict LoaderWait(const Facts& facts) {
  Verdict verdict = WaitsForTheLoader(facts);
  if (verdict.kind != Verdict::Kind::kAdvice || !facts.tasks.workers) return verdict;
  const TaskSum& workers = *facts.tasks.workers;
  if (workers.most == 0) return Verdict::Nothing();  // LoaderInProcess
  const BatchMaker at_work = WhoMakesTheBatch(facts);
  if (at_work == BatchMaker::kStepThread) return Verdict::Nothing();  // BatchOnStepThread
  Advice& advice = verdict.advice;
  advice.finding = "The loop waits for its data: the loader's workers are too slow.";
  advice.evidence.push_back(WorkersText(workers));
  const auto processors = facts.ProcessorsToUse();
  advice.change = "More loader workers, or less work for each item.";
  const std::string options = ", persistent_workers=True, prefetch_factor=4)";
  constexpr double kMost = 0.25;  // of a step: workers that are ahead would have handed a batch over sooner
  if (at_work == BatchMaker::kNobody && ShareOfStep(facts, *advice.cost) < kMost) {
    advice.finding = "The loop waits for its data, while the loader's workers have nothing to do, or wait too.";
    advice.change =
        "Where they are ahead, it is the hand-over that takes time: fewer and larger tensors in a batch. Where they "
        "wait for storage: more workers, which take no processor meanwhile.";
    advice.snippet = "DataLoader(..., pin_memory=True)  # and a collate_fn that returns few tensors";
    advice.confidence = Confidence::kLow;
  } else if (at_work == BatchMaker::kNobody) {
    advice.finding = "The loop waits for its data, and the loader's workers wait too: for storage, or for each other.";
    advice.change =
        "More workers, which wait side by side and take no processor meanwhile; or bring the data nearer, and in "
        "larger files.";
    advice.snippet =
        "DataLoader(..., num_workers=" + std::to_string(std::clamp<int64_t>(4 * workers.most, 8, 64)) + options;
    advice.confidence = Confidence::kMedium;
  } else if (processors && static_cast<double>(workers.most) >= *processors) {
    advice.evidence.push_back("there are " + ProcessorsText(*processors));
    advice.change =
        "Less work for each item, or work that is done once and kept: more workers would share the same processors.";
    advice.snippet =
        "images = decode_once_and_keep(paths)  # smaller images, uint8, no transform that the device can do";
  } else {
    advice.snippet = "DataLoader(..., num_workers=" + std::to_string(2 * workers.most) + options;
  }
  return verdict;
}

Verdict BatchOnStepThread(const Facts& facts) {
  Verdict verdict = WaitsForTheLoader(facts);
  if (verdict.kind != Verdict::Kind::kAdvice) return verdict;
  if (!facts.tasks.workers || !facts.tasks.step_thread) {
    return Verdict::Abstain("how long the thread that makes the steps ran is not recorded: see loader-wait");
  }
  if (WhoMakesTheBatch(facts) != BatchMaker::kStepThread) return Verdict::Nothing();
  Advice& advice = verdict.advice;
  advice.finding = "The training thread works on each batch before it uploads it, while the loader's workers could.";
  advice.evidence.push_back(WorkersText(*facts.tasks.workers));
  advice.evidence.push_back("the thread that makes the steps slept for " +
                            report::Percent(facts.tasks.step_thread->slept(), 1) +
                            " of the time: it waits for no batch");
  advice.change = "Do it in the dataset or in collate_fn, which the workers run, or on the device behind the upload.";
  advice.snippet = "x = augment(x.to(\"cuda\", non_blocking=True))  # not augment(x).to(\"cuda\")";
  advice.scope = Scope::kSpecific;
  return verdict;
}

using report::VerdictKind;

constexpr Rule kWaitRules[] = {
    {"item-synchronize", ".item() and other implicit synchronizations", "calls", ItemSynchronizes,
     About(VerdictKind::kSynchronizing, VerdictKind::kInCopy)},
    {"anomaly-detection", "Anomaly detection", "steps", DetectsAnomalies,
     About(VerdictKind::kSynchronizing, VerdictKind::kInCopy, VerdictKind::kOutsideCalls)},
    {"explicit-synchronize", "Synchronizations in the loop", "calls", ExplicitSynchronizes,
     About(VerdictKind::kSynchronizing)},
    {"copy-then-synchronize", "Copies that are waited for at once", "calls", CopyThenSynchronize,
     About(VerdictKind::kSynchronizing, VerdictKind::kInCopy)},
    {"loader-in-process", "The loader runs in the training process", "steps, processes", LoaderInProcess,
     About(VerdictKind::kOutsideCalls, VerdictKind::kBetweenSteps)},
    {"loader-wait", "The device waits for the loader", "steps", LoaderWait,
     About(VerdictKind::kOutsideCalls, VerdictKind::kBetweenSteps)},
    {"batch-on-step-thread", "The training thread makes the batch", "steps, processes", BatchOnStepThread,
     About(VerdictKind::kOutsideCalls, VerdictKind::kBetweenSteps)},
};

}  // namespace

std::span<const Rule> WaitRules() { return kWaitRules; }

}  // namespace slipstream::advise
