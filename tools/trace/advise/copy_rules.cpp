#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "tools/text/decisions.h"
#include "tools/trace/advise/changes.h"
#include "tools/trace/advise/rules.h"
#include "tools/trace/advise/sums.h"

namespace slipstream::advise {
namespace {

// Lines whose copies are of pageable memory by the devices' records. Small ones to the device do not wait: the driver
// keeps their bytes (kMayReturnEarly of call_kind.h).
std::vector<Place> PageableLines(const Facts& facts) {
  return PlacesOf(ByPlace(facts.work,
                          [](const WorkGroup& group) {
                            const int64_t least = group.copy_kind == kHostToDevice ? kSmallCopy : kScalar;
                            return IsCopy(group) && group.pageable && group.most > least;
                          }),
                  SIZE_MAX);
}

// Whose copies all bring bytes to the host, by the devices' records.
bool OnlyToTheHost(const Facts& facts, const Place& place) {
  bool any = false;
  for (const WorkGroup& group : facts.work) {
    if (!IsCopy(group) || !(group.place == place)) continue;
    if (group.copy_kind != kDeviceToHost) return false;
    any = true;
  }
  return any;
}

// Copies that slipstream left as they were, from memory that the device does not reach by itself; or about which it
// decided nothing, being switched off.
Verdict PageableCopies(const Facts& facts) {
  const std::vector<Place> pageable = PageableLines(facts);
  const auto undecided = [&](const CallGroup& group) {
    return IsCopyCall(group) && group.decision.empty() && IsOfTheStep(group) && group.most > kScalar &&
           Has(pageable, group.place);
  };
  const auto left = [&](const CallGroup& group) {
    if (!IsCopyCall(group) || group.most <= kScalar) return false;
    // Other memory than the device's to pageable memory: to pinned memory, it may be.
    if (group.decision == "transfer.d2h.declined.memory") return Has(pageable, group.place);
    return group.decision.starts_with("transfer.d2h.declined") || group.decision.starts_with("transfer.sync.kept") ||
           undecided(group);
  };
  const auto sums = ByPlace(facts.calls, left);
  const PlaceSum all = SumOf(sums);
  const int64_t per_step = facts.PerStep(all.time);
  if (all.count == 0 || per_step < 50 * kMicrosecond) return Verdict::Nothing();
  Advice advice;
  advice.finding = "Copies from pageable memory make the host wait while the driver stages them.";
  advice.evidence = {EachStepText(facts, all.count, {"copy of pageable memory", "copies of pageable memory"}) + ", " +
                     Bytes(facts.PerStep(all.bytes)) + ", " + report::Time(per_step) + " of host time"};
  for (const CallGroup& group : facts.calls) {
    if (left(group) && !undecided(group) && group.time > all.time / 4) {
      advice.evidence.push_back("left alone by slipstream: " + std::string(text::DecisionMeaning(group.decision)));
    }
  }
  if (std::any_of(facts.calls.begin(), facts.calls.end(), undecided)) {
    advice.evidence.emplace_back(
        "the devices' records say that their memory is pageable, and slipstream decided nothing about them");
  }
  advice.places = PlacesOf(sums);
  advice.cost = AtMostIdle(facts, per_step);
  // From pinned memory nobody waits for them any more.
  const std::vector<Place> lines = PlacesOf(sums, SIZE_MAX);
  ChangeCalls(facts, left, CallChange::kReturns, &advice.what_if);
  ChangeCalls(
      facts, [&](const CallGroup& group) { return HoldsTheStep(group) && Has(lines, group.place); },
      CallChange::kReturns, &advice.what_if);
  advice.change = "Give the loader pinned memory and copy without waiting.";
  advice.snippet = "DataLoader(..., pin_memory=True)\nx = x.to(\"cuda\", non_blocking=True)";
  const PlaceSum to_host = SumOf(ByPlace(facts.calls, [&](const CallGroup& group) {
    return left(group) && (group.decision.starts_with("transfer.d2h") || OnlyToTheHost(facts, group.place));
  }));
  if (2 * to_host.time > all.time) {
    advice.finding = "Copies to pageable memory make the host wait until the driver has brought them.";
    advice.change = "Copy into pinned memory that is kept, and wait just before the host reads it.";
    advice.snippet =
        "host = torch.empty_like(x, device=\"cpu\", pin_memory=True)  # once\nhost.copy_(x, non_blocking=True)";
  }
  advice.confidence = facts.devices_recorded ? Confidence::kHigh : Confidence::kMedium;
  return Verdict::Say(advice);
}

Verdict BlockingCopies(const Facts& facts) {
  const auto blocking = [](const CallGroup& group) {
    return IsCopyCall(group) && group.function.find("Async") == std::string::npos && group.most > kSmallCopy &&
           IsOfTheStep(group) && !group.decision.starts_with("transfer.h2d.promoted");
  };
  const auto sums = ByPlace(facts.calls, blocking);
  const PlaceSum all = SumOf(sums);
  const int64_t per_step = facts.PerStep(all.time);
  if (per_step < 50 * kMicrosecond) return Verdict::Nothing();
  Advice advice;
  advice.finding = "Blocking copies (cudaMemcpy) hold the thread that makes the steps until they are done.";
  advice.evidence = {EachStepText(facts, all.count, {"blocking copy", "blocking copies"}) + ", " +
                     Bytes(facts.PerStep(all.bytes)) + ", " + report::Time(per_step)};
  advice.places = PlacesOf(sums);
  advice.cost = AtMostIdle(facts, per_step);
  ChangeCalls(facts, blocking, CallChange::kReturns, &advice.what_if);
  advice.change = "Use asynchronous copies from pinned memory, on a stream.";
  advice.snippet = "x = x.pin_memory().to(\"cuda\", non_blocking=True)";
  advice.confidence = Confidence::kMedium;
  return Verdict::Say(advice);
}

// Of the device where it is most, in ns of the measured steps.
int64_t CopiesAlone(const Facts& facts) {
  int64_t alone = 0;
  for (const report::DeviceReport& device : facts.process->devices) alone = std::max(alone, device.times.copies_alone);
  return facts.OfMeasuredSteps(alone);
}

// Time of the devices in small copies.
int64_t SmallCopyTime(const Facts& facts) {
  int64_t time = 0;
  for (const WorkGroup& group : facts.work) {
    if (group.kernel.empty() && group.copy_kind >= 0 && group.most <= kSmallCopy) report::AddTo(&time, group.time);
  }
  return time;
}

// Less than this of a step is not worth a change, nor fewer steps a proof.
constexpr int64_t kLeastSame = 64 << 10;
constexpr uint64_t kLeastSteps = 5;

bool IsUpload(const CallGroup& group) {
  return IsCopyCall(group) && group.bytes > 0 && !group.decision.starts_with("transfer.d2h");
}
bool IsUpload(const WorkGroup& group) { return group.kernel.empty() && group.copy_kind == kHostToDevice; }

// A line that uploads the same bytes in each step. Of a copy without a fingerprint, as of one that found no staging
// memory, the same holds as of the line's others.
struct SameLine {
  PlaceSum calls;    // their part of the line's
  int64_t work = 0;  // and of the devices' time, ns
  double share = 0;  // of the line's
  uint64_t steps = 0;
  uint64_t known_steps = 0;
};

std::vector<SameLine> SameLines(const Facts& facts) {
  std::vector<SameLine> lines;
  std::vector<double> shares;
  for (const SameUpload& upload : facts.same_uploads) {
    if (upload.known_steps < kLeastSteps || 4 * upload.known_steps < facts.step_times.size()) continue;
    const auto at = std::find_if(lines.begin(), lines.end(),
                                 [&](const SameLine& line) { return line.calls.place == upload.place; });
    if (at == lines.end()) {
      lines.push_back({.calls = {upload.place}, .steps = upload.steps, .known_steps = upload.known_steps});
      shares.push_back(upload.share);
      continue;
    }
    at->steps = std::min(at->steps, upload.steps);
    shares[static_cast<size_t>(at - lines.begin())] += upload.share;
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    const double share = std::min(1.0, shares[i]);
    lines[i].share = share;
    const auto part = [&](auto whole) { return static_cast<decltype(whole)>(share * static_cast<double>(whole)); };
    PlaceSum& sum = lines[i].calls;
    for (const CallGroup& group : facts.calls) {
      if (!IsUpload(group) || !(group.place == sum.place)) continue;
      sum.count += part(group.calls);
      report::AddTo(&sum.bytes, part(group.bytes));
      report::AddTo(&sum.time, part(group.time));
    }
    for (const WorkGroup& group : facts.work) {
      if (IsUpload(group) && group.place == sum.place) report::AddTo(&lines[i].work, part(group.time));
    }
  }
  std::erase_if(lines, [&](const SameLine& line) { return facts.PerStep(line.calls.bytes) < kLeastSame; });
  std::stable_sort(lines.begin(), lines.end(),
                   [](const SameLine& a, const SameLine& b) { return a.calls.time + a.work > b.calls.time + b.work; });
  return lines;
}
bool UploadsTheSame(const std::vector<SameLine>& lines, const Place& place) {
  return std::any_of(lines.begin(), lines.end(), [&](const SameLine& line) { return line.calls.place == place; });
}
int64_t WorkOf(const std::vector<SameLine>& lines) {
  int64_t time = 0;
  for (const SameLine& line : lines) report::AddTo(&time, line.work);
  return time;
}

Verdict ManySmallCopies(const Facts& facts) {
  constexpr double kMany = 20;  // a step; SmallCopyLines
  auto sums = SmallCopyLines(facts);
  std::erase_if(sums, [same = SameLines(facts)](const PlaceSum& sum) { return UploadsTheSame(same, sum.place); });
  if (facts.CountPerStep(SumOf(sums).count) < kMany) return Verdict::Nothing();
  const PlaceSum all = SumOf(sums);
  const int64_t copying = facts.PerStep(all.time);
  const int64_t between = facts.PerStep(GapBefore(facts, PlacesOf(sums, SIZE_MAX)));
  const int64_t exposed = facts.PerStep(std::min(SmallCopyTime(facts), CopiesAlone(facts)));
  Advice advice;
  advice.finding = "Many small copies: each costs its launch, whatever it carries.";
  advice.evidence = {EachStepText(facts, all.count, {"copy of at most 64 KiB", "copies of at most 64 KiB"}) + ", " +
                         Bytes(facts.PerStep(all.bytes)),
                     report::Time(copying) + " of host time in them and " + report::Time(between) + " right before"};
  if (exposed > 0) advice.evidence.push_back(report::Time(exposed) + " of the device without a kernel beside");
  advice.places = PlacesOf(sums);
  advice.cost = AtMostIdle(facts, copying + between) + exposed;
  // The few copies that are enough are not in it, and kernels of the lines stay.
  const std::vector<Place> lines = PlacesOf(sums, SIZE_MAX);
  const auto to_copy = [&](const CallGroup& group) {
    const bool large = IsCopyCall(group) && group.most > kSmallCopy;
    return group.of_step_thread && Has(lines, group.place) && !IsLaunchCall(group) && !large;
  };
  ChangeCalls(facts, to_copy, CallChange::kGone, &advice.what_if);
  TakeGaps(facts, to_copy, &advice.what_if);
  ShrinkWork(
      facts,
      [&](const WorkGroup& group) { return IsCopy(group) && group.most <= kSmallCopy && Has(lines, group.place); }, 0,
      &advice.what_if);
  advice.change = "Put what belongs together into one tensor and copy that.";
  advice.snippet = "batch = torch.stack(items).to(\"cuda\", non_blocking=True)";
  return Verdict::Say(advice);
}

// The bytes of a batch are a whole number of float images of a usual size, and of no smaller type's.
Verdict FloatImages(const Facts& facts) {
  if (!facts.devices_recorded) return Verdict::Abstain(kNeedsDevices);
  constexpr int64_t kLeast = 8 << 20;  // of one copy
  constexpr std::array<int64_t, 9> kSides = {224, 256, 299, 320, 384, 448, 512, 640, 1024};
  const auto same = SameLines(facts);
  const WorkGroup* largest = nullptr;
  for (const WorkGroup& group : facts.work) {
    if (!group.kernel.empty() || group.copy_kind != kHostToDevice || group.least != group.most || group.most < kLeast)
      continue;
    if (UploadsTheSame(same, group.place)) continue;
    if (largest == nullptr || group.time > largest->time) largest = &group;
  }
  if (largest == nullptr) return Verdict::Nothing();
  int64_t side = 0;
  for (const int64_t one : kSides) {
    if (side == 0 && largest->most % (one * one * 3 * 4) == 0) side = one;
  }
  if (side == 0) return Verdict::Nothing();
  const int64_t images = largest->most / (side * side * 3 * 4);
  Advice advice;
  advice.finding = "Images seem to cross the bus as 4-byte floats; as bytes they are a quarter of that.";
  advice.evidence = {"each copy is " + Bytes(largest->most) + ", which is " + std::to_string(images) +
                         " float images of 3 x " + std::to_string(side) + " x " + std::to_string(side) + " exactly",
                     report::Time(facts.PerStep(largest->time)) + " of the bus" + EachStep(facts)};
  advice.places = {largest->place};
  int64_t alone = 0;
  for (const report::DeviceReport& device : facts.process->devices) report::AddTo(&alone, device.times.copies_alone);
  advice.cost = std::min(facts.PerStep(largest->time), facts.PerStep(facts.OfMeasuredSteps(alone))) * 3 / 4;
  ShrinkWork(
      facts, [&](const WorkGroup& group) { return &group == largest; }, 0.25, &advice.what_if);
  advice.gains = Gains::kBusy;
  advice.change = "Send uint8 and convert on the device; the loader has less to do as well.";
  advice.snippet = "x = x.to(\"cuda\", non_blocking=True).float().div_(255)  # x is uint8";
  advice.confidence = Confidence::kLow;
  return Verdict::Say(advice);
}

// What is uploaded comes a step ahead, and its calls and the waits at its lines return. What goes to the host can only
// pass what comes behind it, until the host waits for it.
void MoveExposedCopies(const Facts& facts, const std::vector<SameLine>& same, WhatIf* what_if) {
  const std::vector<Place> small = PlacesOf(SmallCopyLines(facts), SIZE_MAX);
  const auto counts = [&](const WorkGroup& group, int64_t kind) {
    const bool is_small = group.most <= kSmallCopy && Has(small, group.place);
    return group.kernel.empty() && group.copy_kind == kind && !is_small && !UploadsTheSame(same, group.place);
  };
  const auto uploads = [&](const WorkGroup& group) { return counts(group, kHostToDevice); };
  const auto downloads = [&](const WorkGroup& group) { return counts(group, kDeviceToHost); };
  MoveCopies(facts, uploads, StreamChange::kAhead, what_if);
  MoveCopies(facts, downloads, StreamChange::kAside, what_if);
  std::vector<Place> lines = PlacesOf(ByPlace(facts.work, uploads), SIZE_MAX);
  // A wait there may be for what goes to the host.
  const std::vector<Place> others = PlacesOf(
      ByPlace(facts.work, [](const WorkGroup& group) { return IsCopy(group) && group.copy_kind != kHostToDevice; }),
      SIZE_MAX);
  std::erase_if(lines, [&](const Place& place) { return Has(others, place); });
  ChangeCalls(
      facts,
      [&](const CallGroup& group) {
        return IsOfTheStep(group) && Has(lines, group.place) && (IsCopyCall(group) || HoldsTheStep(group));
      },
      CallChange::kReturns, what_if);
}

Verdict ExposedCopies(const Facts& facts) {
  if (!facts.report->device_copies_recorded || !facts.devices_recorded) {
    return Verdict::Abstain(kNeedsDevices);
  }
  // What many small copies are to blame for has a rule of its own, and so has what need not be copied.
  const int64_t small = SmallCopyLines(facts).empty() ? 0 : SmallCopyTime(facts);
  const auto same = SameLines(facts);
  const int64_t others = CopiesAlone(facts) - small - WorkOf(same);
  const int64_t per_step = facts.PerStep(std::max<int64_t>(0, others));
  if (ShareOfStep(facts, per_step) < 0.02) return Verdict::Nothing();
  const auto sums = ByPlace(facts.work, [&](const WorkGroup& group) {
    return group.kernel.empty() && (group.copy_kind == kHostToDevice || group.copy_kind == kDeviceToHost) &&
           !UploadsTheSame(same, group.place);
  });
  Advice advice;
  advice.finding = "The device copies while it computes nothing: the copies hide behind no kernel.";
  advice.evidence = {report::Time(per_step) + OfAStep(facts) + " with copies and no kernel (" +
                     report::Percent(ShareOfStep(facts, per_step), 1) + ")"};
  advice.places = PlacesOf(sums);
  advice.cost = per_step;
  const auto crosses = [](const WorkGroup& group) {
    return group.kernel.empty() && (group.copy_kind == kHostToDevice || group.copy_kind == kDeviceToHost);
  };
  const int64_t crossing = facts.PerStep(SumOf(sums).time);
  if (crossing > 0) {
    ShrinkWork(facts, crosses, 1 - std::min(1.0, static_cast<double>(per_step) / static_cast<double>(crossing)),
               &advice.no_more);
    MoveExposedCopies(facts, same, &advice.what_if);
  }
  advice.gains = Gains::kBusy;
  advice.scope = Scope::kGeneral;
  advice.change =
      "Copy the next batch while the present one is computed: on a stream of its own, from pinned memory, without "
      "waiting.";
  // Without record_stream() the memory of a batch could be used again while kernels still read it.
  advice.snippet =
      "with torch.cuda.stream(copies):  # before the step on x\n"
      "    next_x = next_x.to(\"cuda\", non_blocking=True)\n"
      "torch.cuda.current_stream().wait_stream(copies)  # before the step on next_x\n"
      "next_x.record_stream(torch.cuda.current_stream())";
  advice.confidence = Confidence::kHigh;
  return Verdict::Say(advice);
}

// By samples of the bytes: of copies that slipstream promoted, which it has read itself.
Verdict SameDataAgain(const Facts& facts) {
  if (facts.step_times.size() < kLeastSteps) return Verdict::Abstain("there are fewer than five measured steps");
  if (facts.fingerprinted == 0) {
    return Verdict::Abstain(
        "what copies carried is not known: none of pageable memory was promoted, or the trace is old");
  }
  const auto lines = SameLines(facts);
  if (lines.empty()) return Verdict::Nothing();
  std::vector<PlaceSum> sums;
  const SameLine* least = lines.data();
  for (const SameLine& line : lines) {
    sums.push_back(line.calls);
    if (line.steps < least->steps) least = &line;
  }
  const PlaceSum all = SumOf(sums);
  const int64_t copying = facts.PerStep(all.time);
  const int64_t exposed = facts.PerStep(std::min(WorkOf(lines), CopiesAlone(facts)));
  Advice advice;
  advice.finding = "The same bytes are uploaded again in every step.";
  advice.evidence = {EachStepText(facts, all.count, {"copy", "copies"}) + ", " + Bytes(facts.PerStep(all.bytes)) +
                         ", with the bytes of the step before",
                     "so it was in at least " + std::to_string(least->steps) + " of " +
                         std::to_string(least->known_steps) +
                         " steps; samples of the bytes were compared (1 KiB of each copy), not all of them",
                     report::Time(copying) + " of host time in these copies" + EachStep(facts)};
  if (exposed > 0) advice.evidence.push_back(report::Time(exposed) + " of the device without a kernel beside");
  advice.places = PlacesOf(sums);
  advice.cost = AtMostIdle(facts, copying) + exposed;
  for (const SameLine& line : lines) {
    const auto here = [&](const auto& group) { return group.place == line.calls.place; };
    // With others at the line, these calls stay.
    if (line.share > 0.9) {
      ChangeCalls(
          facts, [&](const CallGroup& group) { return here(group) && (IsUpload(group) || HoldsTheStep(group)); },
          CallChange::kGone, &advice.what_if);
    }
    ShrinkWork(
        facts, [&](const WorkGroup& group) { return here(group) && IsUpload(group); }, 1 - line.share, &advice.what_if);
  }
  advice.scope = Scope::kSpecific;
  advice.change = "Upload it once, before the loop, and keep it on the device.";
  advice.snippet = "mask = mask.to(\"cuda\")  # before the loop\nself.register_buffer(\"mask\", mask)  # of a module";
  advice.confidence = Confidence::kMedium;
  return Verdict::Say(advice);
}

Verdict BuiltOnTheHost(const Facts& facts) {
  constexpr size_t kLines = 8;
  const auto same = SameLines(facts);
  const auto sums = ByPlace(facts.calls, [&](const CallGroup& group) {
    return IsCopyCall(group) && group.most > 0 && group.most <= kSmallCopy && group.of_step_thread &&
           group.place.known() && !UploadsTheSame(same, group.place);
  });
  if (sums.size() < kLines) return Verdict::Nothing();
  const PlaceSum all = SumOf(sums);
  Advice advice;
  advice.finding = "Small tensors are made on the host and copied, at many lines.";
  advice.evidence = {std::to_string(sums.size()) + " lines of the loop each copy at most 64 KiB at a time, " +
                     report::Time(facts.PerStep(all.time)) + " of host time" + EachStep(facts)};
  advice.places = PlacesOf(sums);
  advice.cost = AtMostIdle(facts, facts.PerStep(all.time));
  const std::vector<Place> lines = PlacesOf(sums, SIZE_MAX);
  ChangeCalls(
      facts,
      [&](const CallGroup& group) {
        return group.of_step_thread && Has(lines, group.place) &&
               (HoldsTheStep(group) || (IsCopyCall(group) && group.most > 0 && group.most <= kSmallCopy));
      },
      CallChange::kGone, &advice.what_if);
  advice.change = "Make them where they are used.";
  advice.snippet = "mask = torch.zeros(n, device=\"cuda\")  # not torch.zeros(n).cuda()";
  advice.confidence = Confidence::kLow;
  return Verdict::Say(advice);
}

using report::VerdictKind;

constexpr Rule kCopyRules[] = {
    {"pageable-copies", "Copies from pageable memory", "calls", PageableCopies,
     About(VerdictKind::kInCopy, VerdictKind::kSynchronizing)},
    {"blocking-copies", "Blocking copies", "calls", BlockingCopies,
     About(VerdictKind::kInCopy, VerdictKind::kSynchronizing)},
    {"many-small-copies", "Many small copies", "calls", ManySmallCopies,
     About(VerdictKind::kInCopy, VerdictKind::kSynchronizing, VerdictKind::kOutsideCalls, VerdictKind::kExposedCopies)},
    {"float-images", "Float images over the bus", "devices", FloatImages, About(VerdictKind::kExposedCopies)},
    {"exposed-copies", "Copies that hide behind no kernel", "devices", ExposedCopies,
     About(VerdictKind::kExposedCopies)},
    {"same-data-again", "The same data uploaded again", "contents of copies", SameDataAgain,
     About(VerdictKind::kInCopy, VerdictKind::kSynchronizing, VerdictKind::kExposedCopies)},
    {"built-on-the-host", "Tensors built on the host and moved", "calls", BuiltOnTheHost,
     About(VerdictKind::kInCopy, VerdictKind::kSynchronizing, VerdictKind::kOutsideCalls)},
};

}  // namespace

std::span<const Rule> CopyRules() { return kCopyRules; }

}  // namespace slipstream::advise
