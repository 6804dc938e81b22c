// How `slipstream compare` and `slipstream tune` run a command to measure it, and by what.
//
// Threading, signals: as measured_run.h.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/cli/measured_run.h"
#include "tools/cli/run_directory.h"
#include "tools/compare/metric.h"
#include "tools/compare/output_match.h"

namespace slipstream::cli {

// As the command line has it.
struct YardstickOptions {
  std::string by = "auto";            // "wall", "steps"; "auto": steps where there are any
  std::optional<std::string> metric;  // then `by` is not looked at
  std::string of = "last";            // which match of `metric`: last, median, mean
  bool higher_is_better = false;
  bool lower_is_better = false;
  std::optional<std::string> result;
  double timeout = 0;  // seconds of a run; 0: none
};

// What is wrong with their combination; empty: nothing.
std::string MistakeOf(const YardstickOptions& options);

class Yardstick {
 public:
  explicit Yardstick(const YardstickOptions& options);

  // Why a pattern cannot be used; empty: all can.
  const std::string& error() const { return error_; }
  bool by_steps() const { return !metric_ && options_.by == "steps"; }
  // If there are any; else by wall time.
  bool looks_for_steps() const { return !metric_ && options_.by == "auto"; }
  bool higher_is_better() const { return metric_ && options_.higher_is_better; }
  // Null: none was named.
  const compare::Pattern* metric() const { return metric_ ? &*metric_ : nullptr; }
  compare::Pick pick() const;
  // For what the command prints; the yardstick must outlive it.
  compare::OutputMatch NewMatch() const { return {result_ ? &*result_ : nullptr, metric()}; }

 private:
  const YardstickOptions options_;
  std::optional<compare::Pattern> metric_;
  std::optional<compare::Pattern> result_;
  std::string error_;
};

// What to run, and how.
struct MeasuredCommand {
  const char* whose = "";  // whose complaints they are: "compare", "tune"
  const std::vector<std::string>* command = nullptr;
  MeasureOptions measure{};
  // Makes the directory of the run, where it wants one, and its variables; called for every try.
  std::function<std::vector<std::string>(RunDirectory* directory)> variables{};
};

struct RunOnceResult {
  MeasuredRun run;
  int repeated = 0;             // runs that were stopped in between, and made again
  double began = 0;             // of the last try, seconds since 1970
  std::optional<int> status{};  // it cannot be run: the exit status; why was said
};

// Repeated, at most twice, if a run was stopped in between. Without any variables, it is not run, and `status` is
// kCannotStart.
RunOnceResult RunMeasured(const MeasuredCommand& what, RunDirectory* directory);

}  // namespace slipstream::cli
