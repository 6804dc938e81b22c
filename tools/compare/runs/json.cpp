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
          {"low_ns", if_interval(of.low)},
          {"high_ns", if_interval(of.high)},
          {"confidence", if_interval(kConfidence)},
          {"different", if_interval(of.different)},
          {"first_blocks", of.first_blocks},
          {"second_blocks", of.second_blocks},
          {"degrees_of_freedom", if_interval(of.degrees)}};
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
  root["parts_of"] = comparison.by_device ? "device" : "host";
  root["parts"] = PartsJson(comparison);
  root["lines"] = Json::array();
  root["kernels"] = Json::array();
  root["copies"] = Json::array();
  root["notes"] = std::move(notes);
  return text::JsonText(root);
}

}  // namespace slipstream::compare
