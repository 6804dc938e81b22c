#include <algorithm>
#include <array>
#include <string>

#include "tools/text/decisions.h"
#include "tools/trace/advise/rules.h"
#include "tools/trace/advise/sums.h"

namespace slipstream::advise {
namespace {

constexpr int64_t kHostToDevice = 1;  // copyKind
constexpr int64_t kDeviceToHost = 2;

// Copies that slipstream left as they were, from memory that the device does not reach by itself.
Verdict PageableCopies(const Facts& facts) {
  const auto left = [](const CallGroup& group) {
    return IsCopyCall(group) && group.bytes > 0 &&
           (group.decision.starts_with("transfer.d2h.declined") || group.decision.starts_with("transfer.sync.kept"));
  };
  const auto sums = ByPlace(facts.calls, left);
  const PlaceSum all = SumOf(sums);
  const int64_t per_step = facts.PerStep(all.time);
  if (all.count == 0 || per_step < 50 * kMicrosecond) return Verdict::Nothing();
  Advice advice;
  advice.finding = "Copies from pageable memory make the host wait while the driver stages them.";
  advice.evidence = {PerStepText(facts.CountPerStep(all.count)) + " copies of pageable memory, " +
                     Bytes(facts.PerStep(all.bytes)) + ", " + report::Time(per_step) + " of host time"};
  for (const CallGroup& group : facts.calls) {
    if (left(group) && group.time > all.time / 4) {
      advice.evidence.push_back("left alone by slipstream: " + std::string(text::DecisionMeaning(group.decision)));
    }
  }
  advice.places = PlacesOf(sums);
  advice.cost = AtMostIdle(facts, per_step);
  advice.change = "Give the loader pinned memory and copy without waiting.";
  advice.snippet = "DataLoader(..., pin_memory=True)\nx = x.to(\"cuda\", non_blocking=True)";
  advice.confidence = facts.devices_recorded ? Confidence::kHigh : Confidence::kMedium;
  return Verdict::Say(advice);
}

Verdict BlockingCopies(const Facts& facts) {
  const auto blocking = [](const CallGroup& group) {
    return IsCopyCall(group) && group.function.find("Async") == std::string::npos && group.most > kSmallCopy &&
           group.of_step_thread && !group.decision.starts_with("transfer.h2d.promoted");
  };
  const auto sums = ByPlace(facts.calls, blocking);
  const PlaceSum all = SumOf(sums);
  const int64_t per_step = facts.PerStep(all.time);
  if (per_step < 50 * kMicrosecond) return Verdict::Nothing();
  Advice advice;
  advice.finding = "Blocking copies (cudaMemcpy) hold the thread that makes the steps until they are done.";
  advice.evidence = {PerStepText(facts.CountPerStep(all.count)) + " blocking copies, " +
                     Bytes(facts.PerStep(all.bytes)) + ", " + report::Time(per_step)};
  advice.places = PlacesOf(sums);
  advice.cost = AtMostIdle(facts, per_step);
  advice.change = "Use asynchronous copies from pinned memory, on a stream.";
  advice.snippet = "x = x.pin_memory().to(\"cuda\", non_blocking=True)";
  advice.confidence = Confidence::kMedium;
  return Verdict::Say(advice);
}

// Of the device where it is most, in ns of the measured time.
int64_t CopiesAlone(const Facts& facts) {
  int64_t alone = 0;
  for (const report::DeviceReport& device : facts.process->devices) alone = std::max(alone, device.times.copies_alone);
  return alone;
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
constexpr size_t kLeastSteps = 5;

// By line, what costs most first: lines that upload the same 64 KiB or more in each step.
std::vector<PlaceSum> SameDataLines(const Facts& facts) {
  if (facts.step_times.size() < kLeastSteps) return {};
  std::vector<PlaceSum> sums;
  for (const SameUpload& upload : facts.same_uploads) {
    auto at = std::find_if(sums.begin(), sums.end(), [&](const PlaceSum& sum) { return sum.place == upload.place; });
    if (at == sums.end()) at = sums.insert(sums.end(), PlaceSum{upload.place});
    at->count += upload.copies;
    report::AddTo(&at->bytes, upload.bytes * static_cast<int64_t>(upload.copies));
    report::AddTo(&at->time, upload.time);
  }
  std::erase_if(sums, [&](const PlaceSum& sum) { return facts.PerStep(sum.bytes) < kLeastSame; });
  std::stable_sort(sums.begin(), sums.end(), [](const auto& a, const auto& b) { return a.time > b.time; });
  return sums;
}
bool UploadsTheSame(const Facts& facts, const Place& place) {
  const auto sums = SameDataLines(facts);
  return std::any_of(sums.begin(), sums.end(), [&](const PlaceSum& sum) { return sum.place == place; });
}

// Time of the devices in those copies: of a line's copies, the part of its bytes that is the same.
int64_t SameDataTime(const Facts& facts) {
  double time = 0;
  for (const PlaceSum& same : SameDataLines(facts)) {
    double all_time = 0;
    double all_bytes = 0;
    for (const WorkGroup& group : facts.work) {
      if (!group.kernel.empty() || group.copy_kind != kHostToDevice || !(group.place == same.place)) continue;
      all_time += static_cast<double>(group.time);
      all_bytes += static_cast<double>(group.bytes);
    }
    if (all_bytes > 0) time += all_time * std::min(1.0, static_cast<double>(same.bytes) / all_bytes);
  }
  return static_cast<int64_t>(time);
}

Verdict ManySmallCopies(const Facts& facts) {
  constexpr double kMany = 20;  // a step; SmallCopyLines
  auto sums = SmallCopyLines(facts);
  std::erase_if(sums, [&](const PlaceSum& sum) { return UploadsTheSame(facts, sum.place); });
  if (facts.CountPerStep(SumOf(sums).count) < kMany) return Verdict::Nothing();
  const PlaceSum all = SumOf(sums);
  const int64_t copying = facts.PerStep(all.time);
  const int64_t between = facts.PerStep(GapBefore(facts, PlacesOf(sums, SIZE_MAX)));
  const int64_t exposed = facts.PerStep(std::min(SmallCopyTime(facts), CopiesAlone(facts)));
  Advice advice;
  advice.finding = "Many small copies: each costs its launch, whatever it carries.";
  advice.evidence = {PerStepText(facts.CountPerStep(all.count)) + " copies of at most 64 KiB, " +
                         Bytes(facts.PerStep(all.bytes)) + " in all",
                     report::Time(copying) + " of host time in them and " + report::Time(between) + " right before"};
  if (exposed > 0) advice.evidence.push_back(report::Time(exposed) + " of the device without a kernel beside");
  advice.places = PlacesOf(sums);
  advice.cost = AtMostIdle(facts, copying + between) + exposed;
  advice.change = "Put what belongs together into one tensor and copy that.";
  advice.snippet = "batch = torch.stack(items).to(\"cuda\", non_blocking=True)";
  return Verdict::Say(advice);
}

// The bytes of a batch are a whole number of float images of a usual size, and of no smaller type's.
Verdict FloatImages(const Facts& facts) {
  if (!facts.devices_recorded) return Verdict::Abstain(kNeedsDevices);
  constexpr int64_t kLeast = 8 << 20;  // of one copy
  constexpr std::array<int64_t, 9> kSides = {224, 256, 299, 320, 384, 448, 512, 640, 1024};
  const WorkGroup* largest = nullptr;
  for (const WorkGroup& group : facts.work) {
    if (!group.kernel.empty() || group.copy_kind != kHostToDevice || group.least != group.most || group.most < kLeast)
      continue;
    if (UploadsTheSame(facts, group.place)) continue;
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
                     report::Time(facts.PerStep(largest->time)) + " of the bus per step"};
  advice.places = {largest->place};
  int64_t alone = 0;
  for (const report::DeviceReport& device : facts.process->devices) report::AddTo(&alone, device.times.copies_alone);
  advice.cost = std::min(facts.PerStep(largest->time), facts.PerStep(alone)) * 3 / 4;
  advice.change = "Send uint8 and convert on the device; the loader has less to do as well.";
  advice.snippet = "x = x.to(\"cuda\", non_blocking=True).float().div_(255)  # x is uint8";
  advice.confidence = Confidence::kLow;
  return Verdict::Say(advice);
}

Verdict ExposedCopies(const Facts& facts) {
  if (!facts.report->device_copies_recorded || !facts.devices_recorded) {
    return Verdict::Abstain(kNeedsDevices);
  }
  // What many small copies are to blame for has a rule of its own, and so has what need not be copied.
  const int64_t small = SmallCopyLines(facts).empty() ? 0 : SmallCopyTime(facts);
  const int64_t others = CopiesAlone(facts) - small - SameDataTime(facts);
  const int64_t per_step = facts.PerStep(std::max<int64_t>(0, others));
  if (ShareOfStep(facts, per_step) < 0.02) return Verdict::Nothing();
  const auto sums = ByPlace(facts.work, [&](const WorkGroup& group) {
    return group.kernel.empty() && (group.copy_kind == kHostToDevice || group.copy_kind == kDeviceToHost) &&
           !UploadsTheSame(facts, group.place);
  });
  Advice advice;
  advice.finding = "The device copies while it computes nothing: the copies hide behind no kernel.";
  advice.evidence = {report::Time(per_step) + " of a step with copies and no kernel (" +
                     report::Percent(ShareOfStep(facts, per_step), 1) + ")"};
  advice.places = PlacesOf(sums);
  advice.cost = per_step;
  advice.change = "Copy the next batch while the present one is computed: from pinned memory, without waiting.";
  advice.snippet = "next_x = next_x.to(\"cuda\", non_blocking=True)  # before the step on x is launched";
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
  const auto sums = SameDataLines(facts);
  if (sums.empty()) return Verdict::Nothing();
  const PlaceSum all = SumOf(sums);
  uint64_t steps = UINT64_MAX;
  for (const SameUpload& upload : facts.same_uploads) {
    if (Has(PlacesOf(sums, SIZE_MAX), upload.place)) steps = std::min(steps, upload.steps);
  }
  const int64_t copying = facts.PerStep(all.time);
  const int64_t exposed = facts.PerStep(std::min(SameDataTime(facts), CopiesAlone(facts)));
  Advice advice;
  advice.finding = "The same bytes are uploaded again in every step.";
  advice.evidence = {PerStepText(facts.CountPerStep(all.count)) + " copies, " + Bytes(facts.PerStep(all.bytes)) +
                         ", carry what they carried in the step before, in at least " + std::to_string(steps) + " of " +
                         std::to_string(facts.step_times.size()) + " steps",
                     "samples of the bytes were compared, 1 KiB of each copy, not all of them",
                     report::Time(copying) + " of host time in these copies per step"};
  if (exposed > 0) advice.evidence.push_back(report::Time(exposed) + " of the device without a kernel beside");
  advice.places = PlacesOf(sums);
  advice.cost = AtMostIdle(facts, copying) + exposed;
  advice.change = "Upload it once, before the loop, and keep it on the device.";
  advice.snippet = "mask = mask.to(\"cuda\")  # before the loop\nself.register_buffer(\"mask\", mask)  # of a module";
  advice.confidence = Confidence::kMedium;
  return Verdict::Say(advice);
}

Verdict BuiltOnTheHost(const Facts& facts) {
  constexpr size_t kLines = 8;
  const auto sums = ByPlace(facts.calls, [&](const CallGroup& group) {
    return IsCopyCall(group) && group.most > 0 && group.most <= kSmallCopy && group.of_step_thread &&
           group.place.known() && !UploadsTheSame(facts, group.place);
  });
  if (sums.size() < kLines) return Verdict::Nothing();
  const PlaceSum all = SumOf(sums);
  Advice advice;
  advice.finding = "Small tensors are made on the host and copied, at many lines.";
  advice.evidence = {std::to_string(sums.size()) + " lines of the loop each copy at most 64 KiB at a time, " +
                     report::Time(facts.PerStep(all.time)) + " of host time per step"};
  advice.places = PlacesOf(sums);
  advice.cost = AtMostIdle(facts, facts.PerStep(all.time));
  advice.change = "Make them where they are used.";
  advice.snippet = "mask = torch.zeros(n, device=\"cuda\")  # not torch.zeros(n).cuda()";
  advice.confidence = Confidence::kLow;
  return Verdict::Say(advice);
}

constexpr Rule kRules[] = {
    {"pageable-copies", "Copies from pageable memory", "calls", PageableCopies},
    {"blocking-copies", "Blocking copies", "calls", BlockingCopies},
    {"many-small-copies", "Many small copies", "calls", ManySmallCopies},
    {"float-images", "Float images over the bus", "devices", FloatImages},
    {"exposed-copies", "Copies that hide behind no kernel", "devices", ExposedCopies},
    {"same-data-again", "The same data uploaded again", "contents of copies", SameDataAgain},
    {"built-on-the-host", "Tensors built on the host and moved", "calls", BuiltOnTheHost},
};

}  // namespace

std::span<const Rule> CopyRules() { return kRules; }

}  // namespace slipstream::advise
