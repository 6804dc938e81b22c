#include "tools/cli/run_figures.h"

#include <cstdint>
#include <string_view>

#include "tools/cli/exit_codes.h"
#include "tools/cli/trace_input.h"
#include "tools/compare/blocks.h"
#include "tools/compare/metric.h"
#include "tools/text/text.h"
#include "tools/trace/report/report.h"
#include "tracer/spool/spool_reader.h"

namespace slipstream::cli {

using text::WithThousands;

StepFigures ReadSteps(const char* command, const std::string& directory, const std::string& version) {
  StepFigures steps;
  std::string error;
  if (tracer::ListSpools(directory, &error).empty()) {
    steps.problem = error.empty() ? "no CUDA call was recorded" : error;
    return steps;
  }
  const TraceInput input = OpenTrace({command, directory, version, {}, {.keep = false}});
  if (input.status != kSuccess) {
    steps.problem = "the trace cannot be read";
    return steps;
  }
  const report::Report report = report::MakeReport(input.database.get(), {});
  if (!input.database->ok() || report.processes.empty()) {
    steps.problem = "the trace cannot be read";
    return steps;
  }
  const report::ProcessReport& process = report.processes[report.shown];
  if (!process.has_steps || process.measured_steps == 0) {
    steps.problem = "no line of Python that steps begin at was found in " + WithThousands(report.calls) + " CUDA calls";
  } else if (process.drops_everywhere || input.partial()) {
    steps.problem = "the trace lacks calls";
  } else {
    steps.measured = process.measured_steps;
    steps.all = process.steps.size();
    std::vector<double> times;
    std::vector<double> work_times;
    for (const report::Step& step : process.steps) {
      if (step.use != report::StepUse::kMeasured) continue;
      times.push_back(static_cast<double>(step.time()) / 1e9);
      work_times.push_back(static_cast<double>(step.work_time) / 1e9);
    }
    steps.seconds = compare::TypicalStep(times);
    steps.line = process.step_site;
    steps.work_seconds = compare::TypicalStep(work_times);
    steps.ran_ahead = process.ran_ahead;
  }
  return steps;
}

std::vector<std::string> LastLines(const MeasuredRun& run) {
  constexpr size_t kLastLines = 12;
  std::vector<std::string> lines;
  for (const std::string* const text : {&run.output, &run.errors}) {
    for (const std::string_view line : compare::LinesOf(*text)) {
      if (!line.empty()) lines.emplace_back(line);
    }
  }
  if (lines.size() > kLastLines) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(kLastLines));
  return lines;
}

std::string About(double seconds) { return text::AboutTime(seconds); }

}  // namespace slipstream::cli
