// Rules about what the names of kernels say of a program's types, sizes and layouts.

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/trace/advise/changes.h"
#include "tools/trace/advise/rules.h"
#include "tools/trace/advise/sums.h"

namespace slipstream::advise {
namespace {

using report::VerdictKind;

constexpr double kLeastOfStep = 0.05;

bool HasAny(std::string_view name, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) { return name.find(part) != name.npos; });
}

// What such kernels have in common. Their time is in `at_stake`; the rest is the rule's.
struct OfKernels {
  Advice advice;
  PlaceSum all;
  int64_t per_step = 0;
};

template <typename Wanted>
OfKernels AboutKernelsThat(const Facts& facts, const Wanted& wanted, const Noun& what) {
  OfKernels found;
  const auto sums = ByPlace(facts.work, wanted);
  found.all = SumOf(sums);
  found.per_step = facts.PerStep(found.all.time);
  const WorkGroup* longest = nullptr;
  for (const WorkGroup& group : facts.work) {
    if (wanted(group) && (longest == nullptr || group.time > longest->time)) longest = &group;
  }
  if (longest == nullptr) return found;
  found.advice.evidence = {EachStepText(facts, found.all.count, what) + ", " + report::Time(found.per_step) + " (" +
                               report::Percent(ShareOfStep(facts, found.per_step), 1) + OfAStep(facts) + ")",
                           "the longest: " + report::Cut(longest->kernel, 100)};
  found.advice.places = PlacesOf(sums);
  found.advice.at_stake = found.per_step;
  found.advice.gains = Gains::kBusy;
  return found;
}

// cuDNN's convolutions on tensor cores want the channels innermost, and turn tensors that have them elsewhere.
Verdict ChannelsLast(const Facts& facts) {
  if (!facts.devices_recorded) return Verdict::Abstain(kNeedsDevices);
  const auto turns = [](const WorkGroup& group) {
    return HasAny(group.kernel, {"nchwToNhwcKernel", "nhwcToNchwKernel"});
  };
  OfKernels found =
      AboutKernelsThat(facts, turns, {"kernel that changes the layout", "kernels that change the layout"});
  if (ShareOfStep(facts, found.per_step) < kLeastOfStep) return Verdict::Nothing();
  Advice& advice = found.advice;
  advice.finding = "Images have their channels outermost, and cuDNN turns them around for each convolution.";
  advice.cost = found.per_step;
  ShrinkWork(facts, turns, 0, &advice.what_if);
  advice.scope = Scope::kSpecific;
  advice.change = "Give the model and its images the layout that the convolutions compute in.";
  advice.snippet =
      "model = model.to(memory_format=torch.channels_last)\nx = x.to(\"cuda\", memory_format=torch.channels_last)";
  advice.confidence = Confidence::kHigh;
  return Verdict::Say(advice);
}

Verdict DoublePrecision(const Facts& facts) {
  constexpr double kMostOfThem = 0.8;
  if (!facts.devices_recorded) return Verdict::Abstain(kNeedsDevices);
  std::vector<WorkGroup> of_it;
  WhatIf what_if;
  what_if.work.resize(facts.work.size(), 1.0);
  for (size_t i = 0; i < facts.work.size(); ++i) {
    if (facts.work[i].double_time <= 0) continue;
    of_it.push_back(facts.work[i]);
    of_it.back().time = facts.work[i].double_time;
    // It takes as long as its bytes do.
    what_if.work[i] = 1 - static_cast<double>(of_it.back().time) / static_cast<double>(facts.work[i].time) / 2;
  }
  const auto sums = ByPlace(of_it, [](const WorkGroup&) { return true; });
  const int64_t per_step = facts.PerStep(SumOf(sums).time);
  if (ShareOfStep(facts, per_step) < kLeastOfStep) return Verdict::Nothing();
  const PlaceSum pointwise = SumOf(ByPlace(of_it, [](const WorkGroup& group) { return IsPointwise(group.kernel); }));
  Advice advice;
  advice.finding = "Part of the step is computed in double precision (float64).";
  advice.evidence = {report::Time(per_step) + " (" + report::Percent(ShareOfStep(facts, per_step), 1) + OfAStep(facts) +
                     ") of kernels whose names have double precision in them"};
  advice.places = PlacesOf(sums);
  if (static_cast<double>(pointwise.time) >= kMostOfThem * static_cast<double>(SumOf(sums).time)) {
    advice.cost = per_step / 2;
    advice.what_if = std::move(what_if);
  } else {
    advice.at_stake = per_step;
    advice.why_unknown = "how much faster they are in single precision depends on the device";
  }
  advice.gains = Gains::kBusy;
  advice.change = "Look for what is float64 where it need not be: an array of NumPy, a number in a tensor of its own.";
  advice.snippet = "x = torch.from_numpy(array).float()  # NumPy's arrays are float64";
  advice.confidence = Confidence::kMedium;
  return Verdict::Say(advice);
}

// CUTLASS names how many elements in a row its kernels can rely on. In 16 bits, 8 of them are the 16 bytes that one
// load brings.
Verdict OddSizes(const Facts& facts) {
  if (!facts.devices_recorded) return Verdict::Abstain(kNeedsDevices);
  const auto odd = [](const WorkGroup& group) {
    const std::string_view name = group.kernel;
    return name.find("tensorop") != name.npos && name.find("f16") != name.npos &&
           HasAny(name, {"_align1", "_align2", "_align4"}) && name.find("_align16") == name.npos;
  };
  OfKernels found = AboutKernelsThat(facts, odd, {"matrix product of an odd size", "matrix products of odd sizes"});
  if (ShareOfStep(facts, found.per_step) < kLeastOfStep) return Verdict::Nothing();
  Advice& advice = found.advice;
  advice.finding =
      "Matrix products in 16 bits have sizes that are no multiple of 8, for which tensor cores are slower.";
  advice.why_unknown = "how much faster they are with other sizes is for a run to show";
  advice.change = "Pad the sizes that the model has (a vocabulary, classes, a hidden size) to multiples of 8.";
  advice.snippet = "head = torch.nn.Linear(width, math.ceil(classes / 8) * 8)";
  advice.confidence = Confidence::kMedium;
  return Verdict::Say(advice);
}

constexpr Rule kKernelRules[] = {
    {"channels-last", "Images whose layout is changed", "devices", ChannelsLast, About(VerdictKind::kGpuBound)},
    {"double-precision", "Double precision", "devices", DoublePrecision, About(VerdictKind::kGpuBound)},
    {"odd-sizes", "Sizes that are no multiple of 8", "devices", OddSizes, About(VerdictKind::kGpuBound)},
};

}  // namespace

std::span<const Rule> KernelRules() { return kKernelRules; }

}  // namespace slipstream::advise
