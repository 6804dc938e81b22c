#include "tools/trace/report/verdict_text.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "policy/text.h"
#include "tools/trace/report/format.h"
#include "tools/trace/report/lines_text.h"

namespace slipstream::report {
namespace {

using policy::Escape;

constexpr size_t kLineColumns = 70;
constexpr size_t kVerdictColumns = 50;

// As the tables have it: of a step, else of all.
std::string AStep(int64_t time, const Verdict& verdict) { return Time(static_cast<double>(time) / verdict.divisor); }

// Where a few long steps make the mean, which the tables' figures are of, another one than the median.
std::string Base(const ProcessReport& process) {
  constexpr double kAlike = 0.05;
  if (!process.has_steps) return "the recorded " + Time(process.measured_time);
  const Distribution& pace = process.pace_of_work();
  std::string text = "a step of " + Time(pace.mean());
  const auto median = static_cast<double>(pace.median);
  if (std::abs(pace.mean() - median) > kAlike * pace.mean()) text += " on average (median " + Time(median) + ")";
  return text;
}

std::string Share(const Verdict& verdict) {
  return Percent(static_cast<double>(verdict.time), static_cast<double>(verdict.whole));
}

std::string WhoHoldsUp(const Report& report) {
  const Slowest& slowest = *report.slowest;
  const std::string name = ShortName(report.processes[slowest.process]);
  const std::string than = ShortName(report.processes[slowest.than]);
  const std::string by = Time(slowest.difference) + " a step";
  switch (slowest.by) {
    case Slowest::By::kCommunication:
      return than + " waits for " + name + ", " + by + " longer in kernels that communicate; of " + name + ": ";
    case Slowest::By::kStepTime:
      return name + " is the slowest, " + by + " behind " + than + " in the median; of it: ";
    case Slowest::By::kOutsideWaits:
      break;
  }
  return name + " waits least, and is " + by + " longer outside copies and synchronizations than " + than + "; of it: ";
}

// What stands before what holds the process up.
std::string Before(const Report& report, const Verdict& verdict) {
  const ProcessReport& process = report.processes[verdict.process];
  std::string text;
  if (verdict.records_missing) text += "RECORDS ARE MISSING (see below), so this is of what is left: ";
  if (report.slowest) {
    text += WhoHoldsUp(report);
  } else if (report.processes.size() > 1) {
    text += "of " + ShortName(process) + ": ";
  }
  if (!process.has_steps) {
    text +=
        "no steps were found" + (process.why_no_steps.empty() ? "" : " (" + Escape(process.why_no_steps) + ")") + "; ";
  }
  return text;
}

// A device with one small kernel at a time is as busy as one whose kernels fill it: that is said where most is empty.
std::string Busy(const ProcessReport& process, const Verdict& verdict) {
  constexpr double kMostlyEmpty = 0.5;
  const DeviceReport& device = process.devices[*verdict.device];
  const std::string number = process.devices.size() > 1 ? " " + std::to_string(device.device) : "";
  std::string text = "GPU" + number + " busy " +
                     Percent(static_cast<double>(verdict.busy), static_cast<double>(process.measured_time)) + " of " +
                     Base(process);
  const std::optional<double> used = device.sms_while_busy(process.measured_time);
  if (used && *used < kMostlyEmpty) text += ", on about " + Percent(*used, 1) + " of its SMs";
  return text;
}

std::string OfWhich(const Verdict& verdict) {
  if (!verdict.line) return "";
  return ", " + AStep(verdict.line_time, verdict) + " of it " + (verdict.before_line ? "before " : "at ") +
         LineLabel(*verdict.line, kLineColumns);
}

std::string GpuBound(const ProcessReport& process, const Verdict& verdict) {
  const auto of_kernels = [&](int64_t time) {
    return AStep(time, verdict) + " (" +
           Percent(static_cast<double>(time), static_cast<double>(process.devices[*verdict.device].kernel_time)) +
           " of kernel time)";
  };
  std::string text = Busy(process, verdict);
  const std::string kernel = Cut(Escape(verdict.kernel), kVerdictColumns);
  if (verdict.line) {
    text += "; most in kernels of " + LineLabel(*verdict.line, kLineColumns) + ": " + of_kernels(verdict.line_time) +
            ", first of them " + kernel;
  } else if (!verdict.kernel.empty()) {
    text += "; most in " + kernel + ": " + of_kernels(verdict.kernel_time);
  }
  return text;
}

std::string Idle(const Report& report, const ProcessReport& process, const Verdict& verdict, size_t host,
                 const char* why) {
  return Busy(process, verdict) + (report.device_copies_recorded ? "; idle for " : "; idle or copying for ") +
         AStep(verdict.time, verdict) + " (" + Share(verdict) + ") while the host was " + HostLabel(host) + why +
         OfWhich(verdict);
}

// Though the devices were recorded.
std::string NoKernels(const ProcessReport& process) {
  uint64_t failed = 0;
  for (const ErrorReport& error : process.errors) {
    if (error.function.find("Launch") != std::string::npos) failed += error.calls;
  }
  std::string text = "no kernel ran";
  if (failed != 0) text += ": " + Counted(failed, "launch", "launches") + " failed (see \"failed\" below)";
  return text;
}

std::string DevicesNotKnown(const Report& report, const ProcessReport& process, const Verdict& verdict) {
  std::string why =
      "what the GPU did was not recorded (" +
      (process.no_devices.empty() ? "tracer.device was off, or CUPTI was not there" : Escape(process.no_devices)) + ")";
  if (process.devices_recorded) why = NoKernels(process);
  if (process.unwatched_everywhere) {
    why = "what the GPU did is not known, as devices were recorded in no step to its end";
  } else if (report.kernels_recorded) {
    why = "none of its kernels are in the trace";
  }
  const std::string of =
      process.ran_ahead ? Time(process.step_time.mean()) + " that a step takes on the host" : Base(process);
  return why + "; of " + of + " the longest part is " + Label(*verdict.part) + ", " + AStep(verdict.time, verdict) +
         " (" + Share(verdict) + ")" + OfWhich(verdict);
}

std::string BetweenSteps(const ProcessReport& process, const Verdict& verdict) {
  std::string text = Time(verdict.per_step) + " lie between two steps, " + Share(verdict) +
                     " of the time from one to the next (" + Time(process.pace.mean()) +
                     "): a loader, or what the loop does outside its steps";
  if (verdict.line) {
    text += std::string(", most of it ") + (verdict.before_line ? "before " : "at ") +
            LineLabel(*verdict.line, kLineColumns);
  }
  if (verdict.device) text += "; in the steps " + Busy(process, verdict);
  return text;
}

std::string Bottleneck(const Report& report, const ProcessReport& process, const Verdict& verdict) {
  const auto idle = [&](size_t host, const char* why = "") { return Idle(report, process, verdict, host, why); };
  switch (verdict.bottleneck) {
    case VerdictKind::kGpuBound:
      return GpuBound(process, verdict);
    case VerdictKind::kOutsideCalls:
      return idle(kHostOutside, " (Python, PyTorch or the loader)");
    case VerdictKind::kLaunching:
      return idle(static_cast<size_t>(CallKind::kLaunch), " (launch-bound)");
    case VerdictKind::kSynchronizing:
      return idle(static_cast<size_t>(CallKind::kSynchronize));
    case VerdictKind::kInCopy:
      return idle(static_cast<size_t>(CallKind::kCopy));
    case VerdictKind::kAllocating:
      return idle(static_cast<size_t>(CallKind::kAllocator));
    case VerdictKind::kOtherCalls:
      return idle(static_cast<size_t>(CallKind::kOther));
    case VerdictKind::kExposedCopies:
      return Busy(process, verdict) + "; for " + AStep(verdict.time, verdict) + " (" + Share(verdict) +
             ") it only copied or set memory, which no kernel hides";
    case VerdictKind::kExposedCommunication:
      return Busy(process, verdict) + "; for " + AStep(verdict.time, verdict) + " (" + Share(verdict) +
             ") it communicated and computed nothing";
    case VerdictKind::kBetweenSteps:
      return BetweenSteps(process, verdict);
    case VerdictKind::kDevicesNotKnown:
      return DevicesNotKnown(report, process, verdict);
    case VerdictKind::kNothing:
    case VerdictKind::kNoSteps:
    case VerdictKind::kSlowRank:
      break;
  }
  return "no time was measured";
}

}  // namespace

std::string VerdictSentence(const Report& report, const Verdict& verdict) {
  return Before(report, verdict) + Bottleneck(report, report.processes[verdict.process], verdict);
}

std::string SlowestSentence(const Report& report) {
  if (!report.slowest) return "slowest: none: ranks differ by less than their own steps do";
  const Slowest& slowest = *report.slowest;
  const std::string name = ShortName(report.processes[slowest.process]);
  const ProcessReport& than = report.processes[slowest.than];
  const std::string by = Time(slowest.difference) + " a step";
  switch (slowest.by) {
    case Slowest::By::kCommunication:
      return "waiting: " + ShortName(than) + " is " + by + " longer in kernels that communicate than " + name +
             ", which is there last: the others wait for it";
    case Slowest::By::kStepTime:
      return "slowest: " + name + ", " + by + " (" +
             Percent(static_cast<double>(slowest.difference), static_cast<double>(than.step_time.median)) +
             ") behind " + ShortName(than) + " in the median";
    case Slowest::By::kOutsideWaits:
      break;
  }
  return "slowest: " + name + ", as it waits least: steps are alike, and it is " + by +
         " longer outside copies and synchronizations than " + ShortName(than) +
         " (what the devices did was not recorded)";
}

std::string VerdictText(const Report& report, size_t columns) {
  const std::optional<Verdict> verdict = VerdictOf(report);
  return verdict ? Wrapped(columns, "VERDICT: " + VerdictSentence(report, *verdict)) : "";
}

}  // namespace slipstream::report
