#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tools/trace/advise/changes.h"
#include "tools/trace/advise/convolutions.h"
#include "tools/trace/advise/rules.h"
#include "tools/trace/advise/sums.h"
#include "tools/trace/report/busiest.h"
#include "tools/trace/report/call_kind.h"
#include "tools/trace/report/kernel_name.h"

namespace slipstream::advise {
namespace {

// Null: none has run a kernel.
const report::DeviceReport* Busiest(const Facts& facts) {
  const std::optional<size_t> busiest = report::Busiest(*facts.process);
  if (!busiest || facts.process->devices[*busiest].kernels == 0) return nullptr;
  return &facts.process->devices[*busiest];
}

// What a kernel takes that has nothing to do.
constexpr int64_t kKernelFloor = 2 * kMicrosecond;

bool Contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// What tensor cores could do. A convolution of each channel by itself multiplies no matrices: PyTorch's own, and
// cuDNN's, whose names say one channel and one filter.
bool IsMatrixWork(const WorkGroup& group) {
  constexpr std::array<std::string_view, 7> kNames = {"gemm", "Gemm", "conv", "sgemm", "xmma", "cutlass", "nvjet"};
  constexpr std::array<std::string_view, 2> kOfOneChannel = {"depthwise", "c1_k1"};
  const auto is_in_name = [&](std::string_view name) { return Contains(group.kernel, name); };
  return !IsPointwise(group.kernel) && std::any_of(kNames.begin(), kNames.end(), is_in_name) &&
         std::none_of(kOfOneChannel.begin(), kOfOneChannel.end(), is_in_name);
}

// By its name, of 32-bit floats all through: what TF32 is for.
bool IsSinglePrecision(const WorkGroup& group) {
  constexpr std::array<std::string_view, 3> kNames = {"sgemm", "ffma", "f32f32_f32f32"};
  return std::any_of(kNames.begin(), kNames.end(), [&](std::string_view name) { return Contains(group.kernel, name); });
}

// Devices whose tensor cores do at least seven times as many products of TF32 as the rest does of 32-bit floats:
// docs/advise.md has the figures.
bool HasFastTf32(const Facts& facts) {
  const int64_t capability = facts.compute_capability.value_or(0);
  return capability == 80 || capability == 90 || capability == 100;
}

// The share of its time that a matrix product of 32-bit floats keeps with TF32; docs/advise.md has the reasons.
double ShareWithTf32(const WorkGroup& group) {
  constexpr double kShare = 0.25;
  constexpr double kShortest = 5 * kMicrosecond;
  if (group.count == 0 || group.time <= 0) return 1;
  const double mean = static_cast<double>(group.time) / static_cast<double>(group.count);
  return std::min(1.0, std::max(kShare, kShortest / mean));
}

// The lines with long pauses right before them, the longest together first, where without all the shorter ones most of
// what `no_gaps` gains would still be lost; none: elsewhere.
template <typename Wanted>
std::vector<PlaceSum> LongPauses(const Facts& facts, const WhatIf& no_gaps, const Wanted& wanted) {
  constexpr double kMostOfIt = 0.7;
  if (facts.replay == nullptr) return {};
  WhatIf no_short_ones;
  TakeGaps(facts, wanted, &no_short_ones, kPause);
  const auto all = static_cast<double>(facts.replay->Saved(no_gaps));
  if (static_cast<double>(facts.replay->Saved(no_short_ones)) > (1 - kMostOfIt) * all) return {};
  std::vector<CallGroup> pauses = facts.calls;
  for (CallGroup& group : pauses) {
    group.calls = group.pauses;
    group.time = group.pause_time;
  }
  return ByPlace(pauses, [&](const CallGroup& group) { return group.pauses != 0 && wanted(group); });
}

// The device waits for a host that is between two calls.
// What to do about pauses of milliseconds.
void AboutPauses(const Facts& facts, Advice* advice) {
  const auto processors = facts.ProcessorsToUse();
  const auto& workers = facts.tasks.workers;
  if (processors && workers && static_cast<double>(workers->most) > *processors) {
    advice->change =
        "It is not lost call by call, and there are more worker processes than processors: with fewer of them, the "
        "thread that makes the steps has one when it needs it. See too-many-workers.";
    advice->snippet = FewerWorkers(facts, *processors);
    return;
  }
  advice->change =
      "It is not lost call by call: look at what runs right before these lines. Python that goes through much belongs "
      "into another process or behind the loop.";
  advice->snippet = "journal.append(loss.detach())  # and go through it behind the loop";
  const bool prepares = std::any_of(facts.work.begin(), facts.work.end(), [](const WorkGroup& group) {
    return group.kernel.find("cudnn") != std::string::npos && group.kernel.find("sdpa") != std::string::npos;
  });
  if (!prepares) return;
  advice->change += " cuDNN's attention prepares itself for each new shape, and wants few of them.";
  advice->snippet += "\nlength = math.ceil(length / 128) * 128  # pad to few lengths";
}

// Without the devices' work nobody knows whether it is lost, but a fifth of each step is never nothing.
Verdict LongGap(const Facts& facts) {
  constexpr double kLong = 0.2;
  const std::vector<Place> uploads = UploadLines(facts);  // which have a rule of their own
  const report::SiteReport* longest = nullptr;
  for (const report::SiteReport& site : facts.process->sites) {
    if (!site.of_step_thread || !site.known || Has(uploads, {site.file, site.line, site.function})) continue;
    if (longest == nullptr || site.gap > longest->gap) longest = &site;
  }
  if (longest == nullptr || !facts.process->has_steps) return Verdict::Abstain(kNeedsDevices);
  const int64_t gap = facts.PerStep(longest->gap);
  if (ShareOfStep(facts, gap) < kLong) return Verdict::Abstain(kNeedsDevices);
  Advice advice;
  advice.finding = "The host is outside CUDA calls for long at one place, and the device may wait for it.";
  advice.evidence = {report::Time(gap) + " of a step (" + report::Percent(ShareOfStep(facts, gap), 1) +
                     ") right before this line"};
  advice.places = {{longest->file, longest->line, longest->function}};
  advice.why_unknown = "whether the device worked meanwhile is not recorded";
  advice.at_stake = gap;
  advice.change = "Look at what runs right before this line, and record what the devices do.";
  advice.snippet = "[tracer]\ndevice = \"cupti\"";
  advice.confidence = Confidence::kLow;
  advice.scope = Scope::kRest;
  return Verdict::Say(advice);
}

Verdict HostBound(const Facts& facts) {
  const report::DeviceReport* const device = Busiest(facts);
  if (device == nullptr) return facts.devices_recorded ? Verdict::Abstain(kNeedsDevices) : LongGap(facts);
  // What the loader, many small copies and loops over tensors are to blame for have rules of their own.
  std::vector<Place> others = UploadLines(facts);
  for (const auto& lines : {SmallCopyLines(facts), LoopLines(facts)}) {
    for (const PlaceSum& line : lines) others.push_back(line.place);
  }
  const int64_t gap = GapBefore(facts, others);
  const int64_t idle = device->times.idle[report::kHostOutside];
  const int64_t per_step = facts.PerStep(facts.OfMeasuredSteps(std::max<int64_t>(0, idle - gap)));
  if (ShareOfStep(facts, per_step) < 0.05) return Verdict::Nothing();
  Advice advice;
  advice.finding = "The device waits for Python: it has nothing to do while the host is outside CUDA calls.";
  advice.evidence = {"idle for " + report::Time(per_step) + EachStep(facts) + " (" +
                     report::Percent(ShareOfStep(facts, per_step), 1) + ") while the host was outside CUDA calls"};
  advice.change = "Give the device more to do for each line of Python: compile the model, or a larger batch.";
  advice.snippet = "model = torch.compile(model)";
  const auto elsewhere = [&](const CallGroup& group) { return !Has(others, group.place); };
  TakeGaps(facts, elsewhere, &advice.what_if);
  const std::vector<PlaceSum> pauses = LongPauses(facts, advice.what_if, elsewhere);
  if (!pauses.empty()) {
    const PlaceSum all = SumOf(pauses);
    advice.evidence.push_back(report::Time(facts.PerStep(all.time)) + " in " +
                              EachStepText(facts, all.count, {"pause", "pauses"}) + ", of " +
                              report::Time(all.time / static_cast<int64_t>(all.count)) + " on average");
    advice.places = PlacesOf(pauses, 3);
    AboutPauses(facts, &advice);
  }
  std::vector<const report::SiteReport*> sites;
  for (const report::SiteReport& site : facts.process->sites) {
    const Place place = {site.file, site.line, site.function};
    if (site.known && site.of_step_thread && site.gap > 0 && !Has(others, place)) sites.push_back(&site);
  }
  std::stable_sort(sites.begin(), sites.end(), [](const auto* a, const auto* b) { return a->gap > b->gap; });
  std::string before;
  for (size_t i = 0; i < sites.size() && i < 3 && pauses.empty(); ++i) {
    advice.places.push_back({sites[i]->file, sites[i]->line, sites[i]->function});
    before += (before.empty() ? "" : ", ") + report::Time(facts.PerStep(sites[i]->gap));
  }
  if (!before.empty()) advice.evidence.push_back(before + " right before the lines that are named");
  advice.cost = per_step;
  advice.scope = Scope::kRest;
  advice.confidence = Confidence::kHigh;
  return Verdict::Say(advice);
}

Verdict LaunchBound(const Facts& facts) {
  constexpr int64_t kBetweenLaunches = 200 * kMicrosecond;
  constexpr int64_t kShort = 20 * kMicrosecond;
  const report::DeviceReport* const device = Busiest(facts);
  if (device == nullptr) return Verdict::Abstain(kNeedsDevices);
  const int64_t per_step =
      facts.PerStep(facts.OfMeasuredSteps(device->times.idle[static_cast<size_t>(report::CallKind::kLaunch)]));
  const int64_t mean = device->kernel_time / static_cast<int64_t>(device->kernels);
  if (ShareOfStep(facts, per_step) < 0.05 || mean > kShort) return Verdict::Nothing();
  Advice advice;
  advice.finding = "Launching takes longer than the kernels do: the device runs dry while the host launches.";
  advice.evidence = {
      EachStepText(facts, device->kernels, {"kernel", "kernels"}) + ", " + report::Time(mean) + " each on average",
      "idle for " + report::Time(per_step) + EachStep(facts) + " while the host was launching"};
  advice.cost = per_step;
  advice.scope = Scope::kGeneral;
  // What PyTorch does between two launches is gone with them; what the program does for longer is not.
  const auto to_launch = [](const CallGroup& group) {
    const report::CallKind kind = report::KindOf(group.function);
    return kind == report::CallKind::kLaunch || kind == report::CallKind::kOther;
  };
  ChangeCalls(facts, to_launch, CallChange::kGone, &advice.what_if);
  TakeGaps(facts, to_launch, &advice.what_if, kBetweenLaunches);
  const auto launches = ByPlace(facts.calls, [](const CallGroup& group) { return IsLaunchCall(group); });
  advice.places = PlacesOf(launches);
  advice.change = "Launch the step as one graph.";
  advice.snippet =
      "model = torch.compile(model, mode=\"reduce-overhead\")  # CUDA graphs; not with backend:cudaMallocAsync";
  advice.confidence = Confidence::kHigh;
  return Verdict::Say(advice);
}

Verdict NoTensorCores(const Facts& facts) {
  constexpr double kMostOfThem = 0.8;
  if (Busiest(facts) == nullptr) return Verdict::Abstain(kNeedsDevices);
  const auto without = [](const WorkGroup& group) {
    return !group.kernel.empty() && IsMatrixWork(group) && !report::NamesTensorCores(group.kernel);
  };
  const auto sums = ByPlace(facts.work, without);
  const PlaceSum all = SumOf(sums);
  const int64_t per_step = facts.PerStep(all.time);
  if (ShareOfStep(facts, per_step) < 0.05) return Verdict::Nothing();
  const auto longest = std::max_element(facts.work.begin(), facts.work.end(), [&](const auto& a, const auto& b) {
    return (without(a) ? a.time : 0) < (without(b) ? b.time : 0);
  });
  Advice advice;
  advice.finding = "Matrix products run without tensor cores.";
  advice.evidence = {report::Time(per_step) + " of kernels" + EachStep(facts) + " (" +
                         report::Percent(ShareOfStep(facts, per_step), 1) +
                         ") whose names say matrix product or convolution and no tensor core",
                     "the longest: " + report::Cut(longest->kernel, 60)};
  advice.places = PlacesOf(sums);
  advice.at_stake = per_step;
  advice.gains = Gains::kBusy;
  const PlaceSum single =
      SumOf(ByPlace(facts.work, [&](const WorkGroup& group) { return without(group) && IsSinglePrecision(group); }));
  if (!facts.compute_capability) {
    advice.why_unknown = "the trace does not say which device it is";
  } else if (!HasFastTf32(facts)) {
    advice.why_unknown = "how much faster they are on tensor cores of this device depends on their shapes and types";
  } else if (static_cast<double>(single.time) < kMostOfThem * static_cast<double>(all.time)) {
    advice.why_unknown = "the names of these kernels do not say of which type the products are";
  } else {
    double gained = 0;
    advice.what_if.work.resize(facts.work.size(), 1.0);
    for (size_t i = 0; i < facts.work.size(); ++i) {
      const WorkGroup& group = facts.work[i];
      if (!without(group) || !IsSinglePrecision(group)) continue;
      advice.what_if.work[i] = ShareWithTf32(group);
      gained += static_cast<double>(group.time) * (1 - advice.what_if.work[i]);
    }
    advice.cost = facts.PerStep(static_cast<int64_t>(gained));
    advice.evidence.push_back("with TF32 they take about a quarter of the time on this device, and at least 5 us each");
  }
  advice.change = "Allow TF32, or compute in 16 bits. Both change the numbers a little.";
  advice.snippet =
      "torch.set_float32_matmul_precision(\"high\")\nwith torch.autocast(\"cuda\", dtype=torch.bfloat16): ...";
  advice.confidence = Confidence::kMedium;
  return Verdict::Say(advice);
}

Verdict UnfusedPointwise(const Facts& facts) {
  if (Busiest(facts) == nullptr) return Verdict::Abstain(kNeedsDevices);
  const std::vector<Place> loops = PlacesOf(LoopLines(facts), SIZE_MAX);  // which have a rule of their own
  const auto sums = ByPlace(
      facts.work, [&](const WorkGroup& group) { return IsPointwise(group.kernel) && !Has(loops, group.place); });
  const PlaceSum all = SumOf(sums);
  const int64_t per_step = facts.PerStep(all.time);
  if (ShareOfStep(facts, per_step) < 0.15) return Verdict::Nothing();
  Advice advice;
  advice.finding = "Much of a step is spent in pointwise kernels, each of which reads and writes all of its tensors.";
  advice.evidence = {EachStepText(facts, all.count, {"pointwise kernel", "pointwise kernels"}) + ", " +
                     report::Time(per_step) + " (" + report::Percent(ShareOfStep(facts, per_step), 1) + OfAStep(facts) +
                     ")"};
  advice.places = PlacesOf(sums);
  advice.why_unknown = "how many of them can become one is the compiler's to find out";
  advice.at_stake = per_step;
  advice.change = "Have them fused.";
  advice.snippet = "model = torch.compile(model)";
  advice.confidence = Confidence::kMedium;
  return Verdict::Say(advice);
}

// Lines that launch hundreds of short pointwise kernels: a loop over tensors, as optimizers do without foreach.
Verdict LoopOverTensors(const Facts& facts) {
  if (Busiest(facts) == nullptr) return Verdict::Abstain(kNeedsDevices);
  const auto sums = LoopLines(facts);
  if (sums.empty()) return Verdict::Nothing();
  const PlaceSum all = SumOf(sums);
  const std::vector<Place> places = PlacesOf(sums, SIZE_MAX);
  const auto calls = ByPlace(facts.calls, [&](const CallGroup& group) {
    return group.of_step_thread && IsLaunchCall(group) && Has(places, group.place);
  });
  const int64_t launching = facts.PerStep(SumOf(calls).time);
  const int64_t between = facts.PerStep(GapBefore(facts, places));
  Advice advice;
  advice.finding = "A short kernel is launched for each of many tensors.";
  advice.evidence = {EachStepText(facts, all.count, {"pointwise kernel", "pointwise kernels"}) + " of " +
                         report::Time(all.time / static_cast<int64_t>(all.count)) + " each at " +
                         report::Counted(sums.size(), "line", "lines"),
                     report::Time(launching) + " to launch them and " + report::Time(between) + " right before"};
  advice.places = PlacesOf(sums);
  advice.cost = AtMostIdle(facts, launching + between);
  const auto to_launch = [&](const CallGroup& group) {
    return group.of_step_thread && Has(places, group.place) && !IsCopyCall(group) && !IsWaitCall(group);
  };
  ChangeCalls(facts, to_launch, CallChange::kGone, &advice.what_if);
  TakeGaps(facts, to_launch, &advice.what_if);
  const double mean = static_cast<double>(all.time) / static_cast<double>(all.count);
  ShrinkWork(
      facts, [&](const WorkGroup& group) { return IsPointwise(group.kernel) && Has(places, group.place); },
      std::max(0.0, 1 - static_cast<double>(kKernelFloor) / mean), &advice.what_if);
  advice.change = "Where it is the optimizer, let it do all tensors at once.";
  advice.snippet = "optimizer = torch.optim.AdamW(model.parameters(), fused=True)";
  advice.confidence = Confidence::kMedium;
  return Verdict::Say(advice);
}

Verdict ZeroGradSets(const Facts& facts) {
  constexpr double kMany = 30;
  const auto sums = ByPlace(facts.calls, [](const CallGroup& group) {
    return group.function.starts_with("cudaMemset") && group.of_step_thread && group.place.known() &&
           group.most > kScalar;  // a library's counters are no gradients
  });
  for (const PlaceSum& sum : sums) {
    const double calls = facts.CountPerStep(sum.count);
    if (calls < kMany) continue;
    Advice advice;
    advice.finding = "One line sets many tensors to zero.";
    advice.evidence = {EachStepText(facts, sum.count, {"memset", "memsets"}) + ", " + Bytes(facts.PerStep(sum.bytes)) +
                       ", " + report::Time(facts.PerStep(sum.time)) + " of host time"};
    advice.places = {sum.place};
    advice.cost = AtMostIdle(facts, facts.PerStep(sum.time));
    ChangeCalls(
        facts,
        [&](const CallGroup& group) { return group.function.starts_with("cudaMemset") && group.place == sum.place; },
        CallChange::kGone, &advice.what_if);
    ShrinkWork(
        facts,
        [&](const WorkGroup& group) { return group.kernel.empty() && !IsCopy(group) && group.place == sum.place; }, 0,
        &advice.what_if);
    advice.change = "Let gradients go instead of clearing them.";
    advice.snippet = "optimizer.zero_grad(set_to_none=True)";
    return Verdict::Say(advice);
  }
  return Verdict::Nothing();
}

Verdict IdleSms(const Facts& facts) {
  const report::DeviceReport* const device = Busiest(facts);
  if (device == nullptr) return Verdict::Abstain(kNeedsDevices);
  if (!device->sm_efficiency) return Verdict::Abstain("the database does not say how many SMs the device has");
  int64_t used = 0;
  for (const report::MemoryReport& pool : facts.process->memory) {
    if (pool.device == device->device) used = pool.peak;
  }
  if (used == 0 || !facts.device_memory) return Verdict::Abstain("how much memory is in use was not recorded");
  const bool idle = *device->sm_efficiency < 0.5;
  const bool room = used < *facts.device_memory / 2;
  const int64_t busy = facts.PerStep(facts.OfMeasuredSteps(device->times.kernels));
  if (!idle || !room || ShareOfStep(facts, busy) < 0.5) return Verdict::Nothing();
  Advice advice;
  advice.finding = "Kernels leave SMs idle, and there is memory for a larger batch.";
  advice.evidence = {"estimated SM efficiency " + report::Percent(*device->sm_efficiency, 1),
                     Bytes(used) + " of " + Bytes(*facts.device_memory) + " at the peak"};
  advice.places = PlacesOf(ByPlace(
      facts.work, [&](const WorkGroup& group) { return !group.kernel.empty() && group.device == device->device; }));
  advice.why_unknown = "samples per second at another batch size are for a run to show";
  advice.at_stake = static_cast<int64_t>(static_cast<double>(busy) * (1 - *device->sm_efficiency));
  advice.change = "Try a larger batch. It changes the training.";
  advice.snippet = "DataLoader(..., batch_size=2 * batch_size)";
  advice.confidence = Confidence::kLow;
  return Verdict::Say(advice);
}

// Whether all uploads of the steps have one size at each line; nothing: there are none.
std::optional<bool> UploadsAreAlike(const Facts& facts) {
  std::optional<bool> alike;
  const std::vector<Place> uploads = UploadLines(facts);
  for (const CallGroup& group : facts.calls) {
    if (!IsCopyCall(group) || !group.of_step_thread || group.most < kSmallCopy || !Has(uploads, group.place)) continue;
    alike = alike.value_or(true) && group.least == group.most;
  }
  return alike;
}

// Whether a search would find something else is not known; that there was none, and that one would pay off, is.
Verdict CudnnHeuristics(const Facts& facts) {
  constexpr size_t kSearch = 3;  // names of kernels that are not seen again
  constexpr double kLeast = 0.05;
  if (Busiest(facts) == nullptr) return Verdict::Abstain(kNeedsDevices);
  const auto sums = ByPlace(facts.work, [](const WorkGroup& group) { return IsConvolution(group.kernel); });
  const PlaceSum all = SumOf(sums);
  const int64_t per_step = facts.PerStep(all.time);
  if (all.count == 0 || ShareOfStep(facts, per_step) < kLeast) return Verdict::Nothing();
  if (facts.convolutions.tried >= kSearch) return Verdict::Nothing();
  const std::optional<bool> alike = UploadsAreAlike(facts);
  if (!alike) return Verdict::Abstain("no line uploads batches: whether shapes stay the same is not known");
  if (!*alike) return Verdict::Nothing();
  if (!facts.convolutions.begin_recorded) {
    return Verdict::Abstain("the first steps are not recorded: whether algorithms were searched for is not known");
  }
  Advice advice;
  advice.finding = "Shapes stay the same, and cuDNN was not asked to search for the fastest algorithms.";
  advice.evidence = {EachStepText(facts, all.count, {"convolution", "convolutions"}) + ", " + report::Time(per_step) +
                         " (" + report::Percent(ShareOfStep(facts, per_step), 1) + OfAStep(facts) + ")",
                     "uploads have one size at each line, and the first steps tried no other kernels"};
  advice.places = PlacesOf(sums);
  advice.why_unknown = "whether a search finds faster ones is for a run to show";
  advice.at_stake = per_step;
  advice.gains = Gains::kBusy;
  advice.change = "Have cuDNN try its algorithms once for each shape.";
  advice.snippet = "torch.backends.cudnn.benchmark = True";
  advice.confidence = Confidence::kLow;
  return Verdict::Say(advice);
}

using report::VerdictKind;

constexpr Rule kDeviceRules[] = {
    {"host-bound", "The device waits for Python", "devices", HostBound,
     About(VerdictKind::kOutsideCalls, VerdictKind::kBetweenSteps)},
    {"launch-bound", "Launching takes longer than the kernels", "devices", LaunchBound,
     About(VerdictKind::kLaunching, VerdictKind::kOtherCalls)},
    {"no-tensor-cores", "Matrix products without tensor cores", "devices", NoTensorCores,
     About(VerdictKind::kGpuBound)},
    {"unfused-pointwise", "Pointwise kernels that are not fused", "devices", UnfusedPointwise,
     About(VerdictKind::kGpuBound)},
    {"loop-over-tensors", "A kernel for each of many tensors", "devices", LoopOverTensors,
     About(VerdictKind::kLaunching, VerdictKind::kOutsideCalls, VerdictKind::kGpuBound)},
    {"zero-grad-memsets", "Gradients that are cleared", "calls", ZeroGradSets, About(VerdictKind::kInCopy)},
    {"idle-sms", "Idle SMs and room in memory", "devices", IdleSms, About(VerdictKind::kGpuBound)},
    {"cudnn-heuristics", "cuDNN's choice of algorithms", "devices", CudnnHeuristics, About(VerdictKind::kGpuBound)},
};

}  // namespace

std::span<const Rule> DeviceRules() { return kDeviceRules; }

}  // namespace slipstream::advise
