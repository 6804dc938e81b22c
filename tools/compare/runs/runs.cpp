#include "tools/compare/runs/runs.h"

#include <algorithm>
#include <string_view>

#include "tools/compare/runs/lines.h"
#include "tools/compare/runs/notes.h"
#include "tools/compare/runs/work.h"
#include "tools/trace/report/format.h"
#include "tools/trace/report/steps.h"

namespace slipstream::compare {
namespace {

using report::DeviceTimes;
using report::kHostStates;
using report::kParts;
using report::Part;
using report::ProcessReport;

std::vector<int64_t> TimesOf(const ProcessReport& process, bool by_work) {
  by_work = by_work && process.work_time.total > 0;
  std::vector<int64_t> times;
  for (const report::Step& step : process.steps) {
    if (step.use == report::StepUse::kMeasured) times.push_back(by_work ? step.work_time : step.time());
  }
  return times;
}

// Sums of both runs, as the time of a step.
class PartsOf {
 public:
  // Per how many steps they are.
  PartsOf(double first, double second) : first_(first), second_(second) {}

  void Add(std::string_view name, const std::string& label, int64_t first, int64_t second) {
    if (first == 0 && second == 0) return;
    parts_.push_back({.name = std::string(name),
                      .label = label,
                      .first = static_cast<double>(first) / first_,
                      .second = static_cast<double>(second) / second_});
  }
  std::vector<PartChange> Take() { return std::move(parts_); }

 private:
  const double first_;
  const double second_;
  std::vector<PartChange> parts_;
};

// In the order of the report's tables. Kernels, copies alone and idle time are the measured time to the ns (sweep.h).
std::vector<PartChange> DeviceParts(const RecordedRun& first, const RecordedRun& second, bool by_work) {
  const auto steps = [by_work](const ProcessReport& of) { return by_work ? of.divisor_of_work() : of.divisor(); };
  const DeviceTimes& a = first.Device()->times;
  const DeviceTimes& b = second.Device()->times;
  PartsOf parts(steps(first.of()), steps(second.of()));
  parts.Add("computes", "GPU computes", a.kernels - a.communication_alone, b.kernels - b.communication_alone);
  parts.Add("communicates_alone", "GPU only communicates", a.communication_alone, b.communication_alone);
  parts.Add("copies_alone", "GPU only copies or sets memory", a.copies_alone, b.copies_alone);
  for (size_t host = 0; host < kHostStates; ++host) {
    // kHostOutside is the call kinds' number; Part has another thread's calls in between.
    const Part part = host == report::kHostOutside ? Part::kOutside : static_cast<Part>(host);
    parts.Add("idle_" + std::string(NameOf(part)), std::string("GPU idle, host ") + report::HostLabel(host),
              a.idle[host], b.idle[host]);
  }
  if (by_work) return parts.Take();
  // Steps that lie in each other count for each of them, and the device once.
  parts.Add("steps_overlap", "steps that overlap", first.of().step_time.total - first.of().measured_time,
            second.of().step_time.total - second.of().measured_time);
  return parts.Take();
}

std::vector<PartChange> HostParts(const ProcessReport& first, const ProcessReport& second, bool by_work) {
  PartsOf parts(first.divisor(), second.divisor());
  for (size_t i = 0; i < kParts; ++i) {
    const auto part = static_cast<Part>(i);
    parts.Add(NameOf(part), report::Label(part), first.parts[i].total, second.parts[i].total);
  }
  const auto later = [by_work](const ProcessReport& of) {
    return by_work && of.work_time.total > 0 ? of.work_time.total - of.step_time.total : 0;
  };
  parts.Add("waits_after_the_steps", "waiting after all steps, a share", later(first), later(second));
  return parts.Take();
}

}  // namespace

const report::DeviceReport* RecordedRun::Device() const {
  if (!report.kernels_recorded || of().unwatched_everywhere || of().devices.empty()) return nullptr;
  return &*std::max_element(
      of().devices.begin(), of().devices.end(),
      [](const report::DeviceReport& a, const report::DeviceReport& b) { return a.times.kernels < b.times.kernels; });
}

std::map<std::string, std::string> ReadFacts(trace_db::DatabaseReader* reader, int64_t process) {
  std::map<std::string, std::string> facts;
  if (!reader->HasTable("SLIPSTREAM_FACTS")) return facts;
  trace_db::Question question(*reader, "SELECT key, value FROM SLIPSTREAM_FACTS WHERE processId = ?");
  question.Bind(1, process);
  while (question.Next()) facts[std::string(question.Text(0))] = question.Text(1);
  return facts;
}

RunsComparison CompareRecorded(const RecordedRun& first, const RecordedRun& second, double floor) {
  RunsComparison comparison;
  comparison.first = &first;
  comparison.second = &second;
  comparison.by_device = first.Device() != nullptr && second.Device() != nullptr;
  if (first.HasSteps() && second.HasSteps()) {
    const bool by_work = first.of().ran_ahead || second.of().ran_ahead;
    comparison.by_work = by_work;
    comparison.step = CompareSteps(TimesOf(first.of(), by_work), TimesOf(second.of(), by_work), floor);
    comparison.lines = CompareLines(first, second);
    if (comparison.by_device) {
      comparison.lines_of_kernels = !first.Device()->kernel_lines.empty() && !second.Device()->kernel_lines.empty();
      comparison.kernels = CompareKernels(first, second);
      comparison.copies = CompareCopies(first, second);
    }
    comparison.parts = comparison.by_device ? DeviceParts(first, second, comparison.by_work)
                                            : HostParts(first.of(), second.of(), comparison.by_work);
  }
  comparison.notes = NotesOn(first, second);
  return comparison;
}

}  // namespace slipstream::compare
