#include "tools/trace/report/verdict.h"

#include <array>

#include "tools/trace/report/busiest.h"

namespace slipstream::report {
namespace {

// Shares of the time: from here on a device is busy, and up to there a loss is not worth a word.
constexpr double kBusy = 0.9;
constexpr double kSmall = 0.05;

bool RecordsAreMissing(const ProcessReport& process) {
  return process.dropped != 0 || process.drops_everywhere || process.left_bytes != 0 || process.damaged_bytes != 0 ||
         process.missing_chunks != 0 || process.missing_records != 0 || process.malformed_chunks != 0 ||
         process.skipped_records != 0;
}

bool DevicesAreKnown(const Report& report, const ProcessReport& process) {
  return report.kernels_recorded && !process.unwatched_everywhere && !process.devices.empty();
}

VerdictKind OfHost(size_t host) {
  if (host == kHostOutside) return VerdictKind::kOutsideCalls;
  switch (static_cast<CallKind>(host)) {
    case CallKind::kCopy:
      return VerdictKind::kInCopy;
    case CallKind::kSynchronize:
      return VerdictKind::kSynchronizing;
    case CallKind::kAllocator:
      return VerdictKind::kAllocating;
    case CallKind::kLaunch:
      return VerdictKind::kLaunching;
    case CallKind::kOther:
      break;
  }
  return VerdictKind::kOtherCalls;
}

void PutKernels(const DeviceReport& device, Verdict* verdict) {
  for (const KernelLineReport& of : device.kernel_lines) {
    if (!of.call_known || !of.line.known) continue;
    verdict->line = of.line;
    verdict->line_time = of.time;
    verdict->kernel = of.top_kernel;
    verdict->kernel_time = of.top_time;
    return;
  }
  if (device.top.empty()) return;
  verdict->kernel = device.top.front().name;
  verdict->kernel_time = device.top.front().time;
}

void PutIdle(const DeviceReport& device, size_t host, Verdict* verdict) {
  for (const IdleLineReport& of : device.idle_lines) {
    if (of.host != host || of.no_call || !of.line.known) continue;
    verdict->line = of.line;
    verdict->before_line = of.before_call;
    verdict->line_time = of.time;
    return;
  }
}

struct Loss {
  VerdictKind kind = VerdictKind::kGpuBound;
  int64_t time = 0;
  std::optional<size_t> host;  // of kHostStates
};

// Each is a row of the device's table.
Loss WorstLoss(const DeviceTimes& times) {
  Loss worst;
  const auto look = [&](VerdictKind kind, int64_t time, std::optional<size_t> host) {
    if (time > worst.time) worst = {.kind = kind, .time = time, .host = host};
  };
  look(VerdictKind::kExposedCommunication, times.communication_alone, std::nullopt);
  look(VerdictKind::kExposedCopies, times.copies_alone, std::nullopt);
  for (size_t host = 0; host < kHostStates; ++host) look(OfHost(host), times.idle[host], host);
  return worst;
}

void JudgeDevice(const ProcessReport& process, Verdict* verdict) {
  const DeviceReport& device = process.devices[*verdict->device];
  const DeviceTimes& times = device.times;
  const auto whole = static_cast<double>(process.measured_time);
  verdict->busy = times.kernels;
  const Loss worst = WorstLoss(times);
  const bool computes = static_cast<double>(times.kernels - times.communication_alone) > kBusy * whole;
  if (computes || static_cast<double>(worst.time) < kSmall * whole) {
    verdict->bottleneck = VerdictKind::kGpuBound;
    verdict->time = times.kernels;
    PutKernels(device, verdict);
    return;
  }
  verdict->bottleneck = worst.kind;
  verdict->time = worst.time;
  if (worst.host) PutIdle(device, *worst.host, verdict);
}

// Where no line's share of a part is known, none is named.
void JudgeHost(const ProcessReport& process, Verdict* verdict) {
  verdict->bottleneck = VerdictKind::kDevicesNotKnown;
  size_t longest = 0;
  for (size_t i = 1; i < kParts; ++i) {
    if (process.parts[i].total > process.parts[longest].total) longest = i;
  }
  verdict->part = static_cast<Part>(longest);
  verdict->time = process.parts[longest].total;
  verdict->whole = process.step_time.total;
  if (verdict->part != Part::kOutside) return;
  for (const SiteReport& site : process.sites) {
    if (!site.known || site.gap <= verdict->line_time) continue;
    verdict->line = LineReport{.known = true,
                               .of_step_thread = site.of_step_thread,
                               .file = site.file,
                               .line = site.line,
                               .function = site.function};
    verdict->before_line = true;
    verdict->line_time = site.gap;
  }
}

// Whether the program spends more time between two steps than on the worst loss within one.
bool PausesAreWorse(const ProcessReport& process, const Verdict& verdict) {
  if (process.pause_time.count == 0 || process.pace.count == 0) return false;
  const double pause = process.pause_time.mean();
  if (pause <= kSmall * process.pace.mean()) return false;
  return verdict.bottleneck == VerdictKind::kGpuBound || pause > verdict.per_step;
}

void JudgePauses(const ProcessReport& process, Verdict* verdict) {
  verdict->bottleneck = VerdictKind::kBetweenSteps;
  verdict->time = process.pause_time.total;
  verdict->whole = process.pace.total;
  verdict->per_step = process.pause_time.mean();
  verdict->line.reset();
  verdict->before_line = false;
  verdict->line_time = 0;
  verdict->kernel.clear();
  verdict->kernel_time = 0;
  for (const WallPartReport& part : process.wall.parts) {
    if (part.part != WallPart::kBetween || !part.most) continue;
    verdict->line = LineReport{.known = true,
                               .of_step_thread = true,
                               .file = part.most->file,
                               .line = part.most->line,
                               .function = part.most->function};
    verdict->before_line = part.most->before;
    verdict->line_time = part.most->time;
  }
}

}  // namespace

std::string_view NameOf(VerdictKind kind) {
  constexpr std::array<std::string_view, 14> kNames = {
      "nothing_measured", "gpu_bound",         "outside_of_calls", "launches",       "synchronizes",
      "copies",           "allocator",         "other_calls",      "exposed_copies", "exposed_communication",
      "between_steps",    "devices_not_known", "no_steps",         "slow_rank"};
  return kNames[static_cast<size_t>(kind)];
}

std::optional<Verdict> VerdictOf(const Report& report) {
  if (report.processes.empty()) return std::nullopt;
  const ProcessReport& process = report.processes[report.shown];
  Verdict verdict;
  verdict.process = report.shown;
  verdict.records_missing = RecordsAreMissing(process);
  verdict.whole = process.measured_time;
  if (process.measured_time <= 0) return verdict;
  if (DevicesAreKnown(report, process)) {
    verdict.device = Busiest(process);
    verdict.divisor = process.device_divisor();
    JudgeDevice(process, &verdict);
  } else {
    verdict.divisor = process.divisor();
    JudgeHost(process, &verdict);
  }
  verdict.per_step = static_cast<double>(verdict.time) / verdict.divisor;
  if (PausesAreWorse(process, verdict)) JudgePauses(process, &verdict);
  verdict.kind = verdict.bottleneck;
  if (!process.has_steps) verdict.kind = VerdictKind::kNoSteps;
  if (report.slowest) verdict.kind = VerdictKind::kSlowRank;
  return verdict;
}

}  // namespace slipstream::report
