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
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
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
    return name.find("tensorop") != std::string_view::npos && name.find("f16") != std::string_view::npos &&
           HasAny(name, {"_align1", "_align2", "_align4"}) && name.find("_align16") == std::string_view::npos;
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

// torch.use_deterministic_algorithms(True) has every empty tensor filled, so that nothing is read by mistake: nearly
// each line that makes tensors launches fills then, and a line that wants one alone does so by itself.
Verdict FilledBeforeUse(const Facts& facts) {
  constexpr double kLeastOfKernels = 0.15;
  constexpr size_t kLeastLines = 5;
  if (!facts.devices_recorded) return Verdict::Abstain(kNeedsDevices);
  struct AtLine {
    int64_t site = 0;
    uint64_t kernels = 0;
    uint64_t fills = 0;
  };
  std::vector<AtLine> lines;
  std::vector<WorkGroup> filled;
  WhatIf what_if;
  what_if.work.resize(facts.work.size(), 1.0);
  for (size_t i = 0; i < facts.work.size(); ++i) {
    const WorkGroup& group = facts.work[i];
    if (group.kernel.empty()) continue;
    auto line = std::find_if(lines.begin(), lines.end(), [&](const AtLine& at) { return at.site == group.ids[1]; });
    if (line == lines.end()) line = lines.insert(lines.end(), {group.ids[1]});
    line->kernels += group.count;
    line->fills += group.fills;
    if (group.fills == 0 || group.time <= 0) continue;
    what_if.work[i] = 1 - static_cast<double>(group.fill_time) / static_cast<double>(group.time);
    filled.push_back(group);
    filled.back().time = group.fill_time;
    filled.back().count = group.fills;
  }
  const auto sums = ByPlace(filled, [](const WorkGroup&) { return true; });
  const PlaceSum all = SumOf(sums);
  uint64_t kernels = 0;
  for (const AtLine& line : lines) kernels += line.kernels;
  const auto with_fills =
      static_cast<size_t>(std::count_if(lines.begin(), lines.end(), [](const AtLine& line) { return line.fills > 0; }));
  if (static_cast<double>(all.count) < kLeastOfKernels * static_cast<double>(kernels) || with_fills < kLeastLines ||
      2 * with_fills < lines.size())
    return Verdict::Nothing();
  what_if.host.resize(facts.calls.size(), 1.0);
  for (size_t i = 0; i < facts.calls.size(); ++i) {
    if (!IsLaunchCall(facts.calls[i])) continue;
    const auto line =
        std::find_if(lines.begin(), lines.end(), [&](const AtLine& at) { return at.site == facts.calls[i].ids[1]; });
    if (line == lines.end() || line->kernels == 0) continue;
    what_if.host[i] = 1 - static_cast<double>(line->fills) / static_cast<double>(line->kernels);
  }
  const int64_t per_step = facts.PerStep(all.time);
  Advice advice;
  advice.finding = "New tensors are filled before they are written, as deterministic algorithms have it.";
  advice.evidence = {report::Number(facts.CountPerStep(all.count)) + " of " +
                         EachStepText(facts, kernels, {"kernel", "kernels"}) + " are fills, at " +
                         std::to_string(with_fills) + " of the " + std::to_string(lines.size()) +
                         " lines that launch any",
                     report::Time(per_step) + " (" + report::Percent(ShareOfStep(facts, per_step), 1) + OfAStep(facts) +
                         ") of the device's time, and the host's for as many launches"};
  advice.places = PlacesOf(sums);
  advice.cost = per_step;
  advice.what_if = std::move(what_if);
  advice.change =
      "Leave the filling out: results stay as deterministic, as long as no uninitialized memory is read. Without "
      "deterministic algorithms there is none, and some kernels are faster.";
  advice.snippet = "torch.utils.deterministic.fill_uninitialized_memory = False";
  advice.confidence = Confidence::kMedium;
  return Verdict::Say(advice);
}

// The backward pass of an embedding makes a gradient of all its rows: it fills it, adds to the few rows that the batch
// used, and the optimizer reads and writes all of them. A fill writes each element once; of what the optimizer's
// kernels do for an element, Adam's seven reads and writes are the most.
Verdict DenseEmbeddingGradient(const Facts& facts) {
  constexpr int64_t kLeastFill = 50 * kMicrosecond;  // some 100 MB: it takes as long as its bytes do
  constexpr int64_t kMostOfOptimizer = 7;
  if (!facts.devices_recorded) return Verdict::Abstain(kNeedsDevices);
  const auto of_optimizer = [](const WorkGroup& group) { return HasAny(group.kernel, {"multi_tensor_apply"}); };
  int64_t fills = 0;
  for (const WorkGroup& group : facts.work) {
    const auto count = static_cast<int64_t>(group.gradient_fills);
    if (count > 0 && group.gradient_fill_time / count >= kLeastFill) report::AddTo(&fills, group.gradient_fill_time);
  }
  const auto lines = ByPlace(facts.work, [](const WorkGroup& group) { return IsOfEmbeddingGradient(group.kernel); });
  const auto steps = ByPlace(facts.work, of_optimizer);
  const int64_t optimizer = SumOf(steps).time;
  if (fills == 0 || optimizer == 0) return Verdict::Nothing();
  const int64_t of_rows = std::min(optimizer, kMostOfOptimizer * fills);
  const int64_t per_step = facts.PerStep(fills) + facts.PerStep(of_rows);
  if (ShareOfStep(facts, per_step) < kLeastOfStep) return Verdict::Nothing();
  Advice advice;
  advice.finding = "An embedding's gradient has all of its rows, of which a batch uses few.";
  advice.evidence = {
      report::Time(facts.PerStep(fills)) + EachStep(facts) + " to fill it, " + report::Time(facts.PerStep(optimizer)) +
          " of the optimizer's, which goes through all rows",
      "what the optimizer does for them is estimated by the time of the fill: " + report::Time(facts.PerStep(of_rows))};
  advice.places = PlacesOf(lines);
  for (const Place& place : PlacesOf(steps)) {
    if (advice.places.size() < 5) advice.places.push_back(place);
  }
  advice.at_stake = per_step;
  advice.why_unknown = "an optimizer of sparse gradients launches more and waits: a run shows what is left";
  advice.gains = Gains::kBusy;
  advice.scope = Scope::kSpecific;
  advice.change = "Let the gradient have the rows that were used, and give the embedding an optimizer that takes it.";
  advice.snippet =
      "words = nn.Embedding(rows, width, sparse=True)\n"
      "optimizers = [torch.optim.SparseAdam(words.parameters()), torch.optim.AdamW(rest, fused=True)]";
  advice.confidence = Confidence::kMedium;
  return Verdict::Say(advice);
}

constexpr Rule kKernelRules[] = {
    {"channels-last", "Images whose layout is changed", "devices", ChannelsLast, About(VerdictKind::kGpuBound)},
    {"dense-embedding-gradient", "Gradients of whole embeddings", "devices", DenseEmbeddingGradient,
     About(VerdictKind::kGpuBound)},
    {"double-precision", "Double precision", "devices", DoublePrecision, About(VerdictKind::kGpuBound)},
    {"filled-before-use", "New tensors that are filled", "devices", FilledBeforeUse,
     About(VerdictKind::kLaunching, VerdictKind::kGpuBound)},
    {"odd-sizes", "Sizes that are no multiple of 8", "devices", OddSizes, About(VerdictKind::kGpuBound)},
};

}  // namespace

std::span<const Rule> KernelRules() { return kKernelRules; }

}  // namespace slipstream::advise
