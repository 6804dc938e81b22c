#include <array>
#include <utility>
#include <vector>

#include "tools/compare/ratio.h"
#include "tools/compare/runs/text.h"
#include "tools/text/json_text.h"

namespace slipstream::compare {
namespace {

using text::Json;
using text::OrNull;

Json RunJson(const RecordedRun& run) {
  const report::ProcessReport& process = run.of();
  const report::DeviceReport* const device = run.Device();
  return {{"run", run.name},
          {"process", report::NameOf(process)},
          {"rank", OrNull(process.rank)},
          {"measured_steps", run.HasSteps() ? process.measured_steps : 0},
          {"step_line", OrNull(process.step_site)},
          {"device", device != nullptr ? Json(device->device) : Json(nullptr)},
          {"device_name", device != nullptr ? OrNull(device->name) : Json(nullptr)},
          {"partial", run.partial}};
}

Json StepJson(const std::optional<StepDifference>& step) {
  const bool has_interval = step && step->has_interval;
  const auto if_step = [&](double value) { return step ? Json(value) : Json(nullptr); };
  const auto if_interval = [&](const auto& value) { return has_interval ? Json(value) : Json(nullptr); };
  const StepDifference& of = step ? *step : StepDifference();
  return {{"first_ns", if_step(of.first)},
          {"second_ns", if_step(of.second)},
          {"difference_ns", if_step(of.difference())},
          {"low_ns", if_interval(of.low())},
          {"high_ns", if_interval(of.high())},
          {"confidence", if_interval(kConfidence)},
          {"different", if_interval(of.different)},
          {"floor", if_step(of.floor)},
          {"first_blocks", of.first_blocks},
          {"second_blocks", of.second_blocks},
          {"first_effective_blocks", if_step(of.first_effective)},
          {"second_effective_blocks", if_step(of.second_effective)},
          {"degrees_of_freedom", if_interval(of.degrees)}};
}

Json LimitJson(const RunsComparison& comparison) {
  if (!comparison.fail_if_slower) return nullptr;
  const double limit = *comparison.fail_if_slower;
  const StepDifference step = comparison.step.value_or(StepDifference());
  const Slower slower = WhetherSlower(step, limit);
  const std::optional<double> longer = LengthToTell(step, limit);
  return {{"limit", limit},
          {"verdict", NameOf(slower)},
          {"times_as_many_steps_to_tell", slower == Slower::kUnknown ? OrNull(longer) : Json(nullptr)}};
}

Json PartsJson(const RunsComparison& comparison) {
  Json parts = Json::array();
  for (const PartChange& part : comparison.parts) {
    parts.push_back({{"part", part.name},
                     {"first_ns", part.first},
                     {"second_ns", part.second},
                     {"difference_ns", part.difference()}});
  }
  return parts;
}

Json ChangeJson(const std::array<double, 2>& times) {
  return {{"first_ns", times[0]}, {"second_ns", times[1]}, {"difference_ns", times[1] - times[0]}};
}

Json OnlyIn(bool in_first, bool in_second) {
  return in_first && in_second ? Json(nullptr) : Json(in_first ? "first" : "second");
}

Json LinesJson(const RunsComparison& comparison) {
  Json lines = Json::array();
  for (const LineChange& change : comparison.lines) {
    const auto times = [&](LineMeasure measure, bool is_known) {
      return is_known ? ChangeJson(change.times[static_cast<size_t>(measure)]) : Json(nullptr);
    };
    lines.push_back({{"file", OrNull(change.line.file)},
                     {"line", OrNull(change.line.line)},
                     {"function", OrNull(change.line.function)},
                     {"of_step_thread", change.line.of_step_thread},
                     {"was_file", OrNull(change.was_file)},
                     {"was_line", OrNull(change.was_line)},
                     {"only_in", OnlyIn(change.in_first, change.in_second)},
                     {"device_idle", times(LineMeasure::kIdle, comparison.by_device)},
                     {"in_calls", times(LineMeasure::kInCalls, true)},
                     {"outside_before", times(LineMeasure::kBefore, true)},
                     {"kernels", times(LineMeasure::kKernels, comparison.lines_of_kernels)}});
  }
  return lines;
}

Json WorkJson(const RunsComparison& comparison, const std::vector<WorkChange>& changes, const char* name,
              bool with_bytes) {
  if (!comparison.by_device || !comparison.step) return nullptr;
  Json list = Json::array();
  for (const WorkChange& change : changes) {
    Json work = {{name, change.name},
                 {"only_in", OnlyIn(change.counts[0] != 0, change.counts[1] != 0)},
                 {"first_count", change.counts[0]},
                 {"second_count", change.counts[1]}};
    work.update(ChangeJson(change.times));
    if (with_bytes) {
      work["first_bytes"] = change.bytes[0];
      work["second_bytes"] = change.bytes[1];
    }
    list.push_back(std::move(work));
  }
  return list;
}

}  // namespace

std::string RunsComparisonJson(const RunsComparison& comparison, int exit_status) {
  Json notes = Json::array();
  for (const Note& note : comparison.notes) notes.push_back({{"text", note.text}, {"unsound", note.unsound}});
  Json root;
  root["schema"] = kCompareRunsSchema;
  root["exit_status"] = exit_status;
  root["first"] = RunJson(*comparison.first);
  root["second"] = RunJson(*comparison.second);
  root["step_time"] = StepJson(comparison.step);
  root["fail_if_slower"] = LimitJson(comparison);
  root["parts_of"] = comparison.by_device ? "device" : "host";
  root["parts"] = PartsJson(comparison);
  root["lines"] = LinesJson(comparison);
  root["kernels"] = WorkJson(comparison, comparison.kernels, "name", false);
  root["copies"] = WorkJson(comparison, comparison.copies, "kind", true);
  root["notes"] = std::move(notes);
  return text::JsonText(root);
}

}  // namespace slipstream::compare
