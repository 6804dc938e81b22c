#include "tools/cli/yardstick.h"

#include <cerrno>
#include <chrono>

#include "policy/text.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/trace_build.h"

namespace slipstream::cli {

using policy::Escape;

std::string MistakeOf(const YardstickOptions& options) {
  if (options.metric && options.higher_is_better == options.lower_is_better) {
    return "--metric needs one of --higher-is-better (a throughput) and --lower-is-better (a time)";
  }
  if (!options.metric && (options.higher_is_better || options.lower_is_better)) {
    return "--higher-is-better and --lower-is-better are for --metric";
  }
  if (options.metric && options.by == "steps") return "--metric and --by steps are two ways to measure: name one";
  return "";
}

Yardstick::Yardstick(const YardstickOptions& options) : options_(options) {
  const auto take = [&](const std::optional<std::string>& text, const char* name, size_t least,
                        std::optional<compare::Pattern>* pattern) {
    if (!text) return;
    pattern->emplace(*text, least, 1);
    if (error_.empty() && !(*pattern)->error().empty()) {
      error_ = std::string(name) + " \"" + Escape(*text) + "\": " + (*pattern)->error();
    }
  };
  take(options_.metric, "--metric", 1, &metric_);
  take(options_.result, "--result", 0, &result_);
}

compare::Pick Yardstick::pick() const {
  if (options_.of == "mean") return compare::Pick::kMean;
  return options_.of == "median" ? compare::Pick::kMedian : compare::Pick::kLast;
}

RunOnceResult RunMeasured(const MeasuredCommand& what, RunDirectory* directory) {
  constexpr int kMostTries = 3;
  RunOnceResult result;
  for (int tries = 0; tries < kMostTries; ++tries) {
    directory->Remove();
    const std::vector<std::string> variables = what.variables(directory);
    if (variables.empty()) {
      result.status = kCannotStart;
      return result;
    }
    result.began = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    result.run = Measure(*what.command, variables, what.measure);
    const MeasuredRun& run = result.run;
    if (!run.disturbed || run.signal != 0 || run.wanted_terminal || run.timed_out) break;
    ++result.repeated;
  }
  if (result.run.signal == 0 && !result.run.started) {
    Complain(what.whose, Escape(what.command->front()) + ": " + TroubleOf(result.run, what.measure));
    result.status = result.run.start_errno == ENOENT ? kNotFound : kNotExecutable;
  }
  return result;
}

}  // namespace slipstream::cli
