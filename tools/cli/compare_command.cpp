#include "tools/cli/compare_command.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <random>
#include <utility>

#include "policy/environment.h"
#include "policy/text.h"
#include "tools/cli/capture.h"
#include "tools/cli/compare_sides.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/measured_run.h"
#include "tools/cli/run_directory.h"
#include "tools/cli/run_figures.h"
#include "tools/cli/trace_build.h"
#include "tools/compare/comparison.h"
#include "tools/compare/schedule.h"
#include "tools/compare/text.h"
#include "tools/text/text.h"
#include "tracer/base/clock.h"
#include "tracer/counters/counter_reader.h"

namespace slipstream::cli {
namespace {

using compare::Comparison;
using compare::Outcome;
using compare::Ruler;
using policy::Escape;
using text::ForTerminal;
using text::HumanBytes;

// Of each side.
std::array<std::vector<std::string>, 2> CommandsOf(const CompareOptions& options) {
  if (!options.two_commands) return {options.command, options.command};
  const auto between = std::find(options.command.begin(), options.command.end(), "--");
  const auto second = between == options.command.end() ? between : between + 1;
  return {std::vector<std::string>{options.command.begin(), between}, {second, options.command.end()}};
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

class Comparer {
 public:
  Comparer(const CompareOptions& options, std::string version, const policy::Environment& environment)
      : options_(options),
        version_(std::move(version)),
        environment_(environment),
        commands_(CommandsOf(options)),
        tmpdir_(environment.Get("TMPDIR").value_or("")) {}

  // Why the yardstick cannot be used; empty: it can.
  const std::string& error() const { return yardstick_.error(); }

  // Runs everything; an exit status where the command cannot be run at all, else nothing.
  std::optional<int> RunAll() {
    made_.ruler = yardstick_.metric() != nullptr ? Ruler::kMetric
                  : yardstick_.by_steps()        ? Ruler::kSteps
                                                 : Ruler::kWall;
    made_.higher_is_better = yardstick_.higher_is_better();
    made_.metric = options_.yardstick.metric.value_or("");
    made_.pick = yardstick_.pick();
    made_.fail_if_slower = options_.fail_if_slower;
    made_.seed = options_.seed ? *options_.seed : std::random_device()();
    recorded_ = made_.ruler == Ruler::kSteps;
    if (recorded_) SayRecorded();
    probes_ = yardstick_.looks_for_steps() && options_.warm_ups != 0;
    if (!options_.pairs && options_.budget == 0) made_.asked_pairs = kPairs;
    if (options_.pairs) made_.asked_pairs = *options_.pairs;
    // Whether there are steps has to be seen before anything is measured by them.
    made_.warm_ups = recorded_ ? std::max<size_t>(options_.warm_ups, 1) : options_.warm_ups;
    all_runs_ = 2 * (made_.warm_ups + made_.asked_pairs);
    begin_ns_ = tracer::NowNs();

    for (size_t i = 0; i < made_.warm_ups && GoesOn(); ++i) RunPair(i, true);
    if (GoesOn() && recorded_) LookForSteps();
    const size_t most = made_.asked_pairs != 0 ? made_.asked_pairs : compare::kMostPairs;
    orders_ = compare::RandomOrders(most, made_.seed);
    for (size_t i = 0; i < most && GoesOn(); ++i) {
      if (!compare::FitsBudget(options_.budget, Elapsed(), done_runs_, run_seconds_)) {
        if (made_.asked_pairs != 0) made_.stopped = Stopped("the budget of " + About(options_.budget) + " is used up");
        break;
      }
      RunPair(i, false);
    }
    if (IsStopped()) made_.stopped = Stopped("it was interrupted");
    line_.reset();
    return cannot_start_;
  }

  Comparison* comparison() { return &made_; }
  std::array<CompareSide, 2>* sides() { return &sides_; }
  int signal() const { return signal_; }
  bool IsStopped() const { return signal_ != 0 || EndingSignals::stop()->load(); }

  void Finish() {
    if (made_.ruler == Ruler::kSteps) CheckSteps();
    if (made_.ruler == Ruler::kWall) SayStartUp();
    compare::MakeEstimate(&made_);
    made_.results = match_.Result();
    if (left_processes_) {
      made_.notes.emplace_back(
          "processes of the command went on when it had ended. They would have disturbed the next run, and were killed "
          "after " +
          About(kGraceSeconds) + ".");
    }
    if (repeated_ != 0) {
      made_.notes.push_back("runs that were stopped in between and made again: " + std::to_string(repeated_) + ".");
    }
  }

 private:
  struct OneRun {
    compare::RunFigures figures;
    StepFigures steps;
    bool good = false;
  };

  double Elapsed() const { return static_cast<double>(tracer::NowNs() - begin_ns_) / 1e9; }
  bool GoesOn() const { return !IsStopped() && made_.failures.empty() && !cannot_start_; }
  std::string OfAsked() const { return made_.asked_pairs == 0 ? "" : " of " + std::to_string(made_.asked_pairs); }
  std::string Stopped(const std::string& why) const {
    return why + ", with " + std::to_string(made_.pairs.size()) + OfAsked() + " pairs measured.";
  }

  std::string Where(size_t side, size_t index, bool warm_up) const {
    return (warm_up ? "warm-up" : "pair " + std::to_string(index + 1) + OfAsked()) + ", " + made_.sides[side].name;
  }

  // Seconds, after so many of the run that goes on; 0: not known.
  double SecondsLeft(double seconds) const {
    if (made_.asked_pairs == 0) return std::max(0.0, options_.budget - Elapsed());
    const double left = compare::SecondsLeft(done_runs_, run_seconds_, all_runs_, seconds);
    return options_.budget == 0 ? left : std::min(left, std::max(0.0, options_.budget - Elapsed()));
  }

  void RunPair(size_t index, bool warm_up) {
    compare::PairOfRuns pair;
    // The side that slipstream is loaded in anyway tells first whether there are steps: a bare side stays bare if not.
    const std::array<size_t, 2> order = probes_   ? std::array<size_t, 2>{1, 0}
                                        : warm_up ? compare::OrderOf(index)
                                                  : orders_[index];
    pair.first = order[0];
    bool good = true;
    // The other side of a run that failed is run too: it tells whose fault it is.
    for (const size_t side : order) {
      if (IsStopped() || cannot_start_) return;
      const OneRun run = RunSide(side, index, warm_up);
      pair.runs[side] = run.figures;
      good = good && run.good;
      if (std::exchange(probes_, false) && run.good) TakeProbe();
    }
    if (warm_up || !good || IsStopped()) return;
    made_.pairs.push_back(pair);
    Comparison now = made_;
    compare::MakeEstimate(&now);
    so_far_ = "; so far " + compare::RatioText(now);
  }

  // What --prepare says. Why it could not be done; empty: it was.
  std::string Prepare() const {
    if (options_.prepare.empty()) return "";
    constexpr int kLongest = 3600;
    std::vector<std::string> bare;
    for (const auto& [name, value] : environment_.variables()) bare.push_back(name + "=" + value);
    const Captured said = Capture({"sh", "-c", options_.prepare}, bare, kLongest, EndingSignals::stop());
    if (said.exit_status == 0) return "";
    return "--prepare: exit status " + std::to_string(said.exit_status) +
           (said.output.empty() ? "" : ": " + said.output.substr(0, said.output.find('\n')));
  }

  OneRun RunSide(size_t side, size_t index, bool warm_up) {
    OneRun one;
    RunDirectory directory;
    const std::string where = Where(side, index, warm_up);
    if (std::string why = Prepare(); !why.empty()) {
      if (IsStopped()) return one;
      made_.failures.push_back({side, warm_up ? 0 : index + 1, std::move(why), {}});
      return one;
    }
    MeasuredCommand what = {.whose = kCompareCommand, .command = &commands_[side]};
    what.measure.limit_seconds = options_.yardstick.timeout;
    if (line_ == nullptr) line_ = std::make_unique<ProgressLine>(kCompareCommand);
    bool is_new = true;
    if (line_->shown()) {
      what.measure.tick = [&](double seconds) {
        const double left = SecondsLeft(seconds);
        line_->Show(where + ": " + About(seconds) + (left > 0 ? "; about " + About(left) + " left" : "") + so_far_,
                    is_new);
        is_new = false;
      };
      what.measure.tick(0);  // also of a command that is over before anybody looks
    }
    what.variables = [&](RunDirectory* place) {
      return PrepareSide(kCompareCommand, sides_[side], environment_, recorded_ || probes_, tmpdir_, place);
    };
    const RunOnceResult result = RunMeasured(what, &directory);
    const MeasuredRun& run = result.run;
    repeated_ += result.repeated;
    signal_ = run.signal;
    cannot_start_ = result.status;
    if (signal_ != 0 || cannot_start_) return one;
    ++done_runs_;
    run_seconds_ += run.seconds;
    ++made_.runs[side];
    left_processes_ = left_processes_ || run.left_processes;
    one.figures.wall_seconds = run.seconds;
    std::string trouble = TroubleOf(run, what.measure);
    if (trouble.empty()) trouble = Take(side, directory, result.began, run, &one);
    one.good = trouble.empty();
    if (one.good) match_.Add(side, run.output, run.errors);
    Say(where, one, trouble, run);
    if (!one.good) made_.failures.push_back({side, warm_up ? 0 : index + 1, trouble, LastLines(run)});
    return one;
  }

  // The figure of a run that ended well; returns why there is none.
  std::string Take(size_t side, const RunDirectory& directory, double began, const MeasuredRun& run, OneRun* one) {
    one->figures.figure.value = run.seconds;
    compare::Side& said = made_.sides[side];
    if (said.counted && !directory.path().empty()) {
      std::vector<std::string> problems;
      const auto processes = tracer::ReadRunDirectory(directory.path(), &problems);
      said.processes = processes.size();
      said.calls = 0;
      for (const tracer::ProcessCounts& process : processes) {
        for (const tracer::FunctionCounts& function : process.functions) said.calls += function.calls;
      }
      if (!processes.empty() && processes.front().start_unix_ns != 0) {
        start_up_ = std::max(0.0, static_cast<double>(processes.front().start_unix_ns) / 1e9 - began);
        start_up_of_ = run.seconds;
      }
    }
    if (recorded_ || probes_) {
      one->steps = ReadSteps(kCompareCommand, directory.path(), version_);
      if (!one->steps.problem.empty()) {
        steps_problem_ = said.name + ": " + one->steps.problem;
      } else if (made_.ruler == Ruler::kSteps) {
        one->figures.figure.value = one->steps.seconds;
        one->figures.work_seconds = one->steps.work_seconds;
        one->figures.ran_ahead = one->steps.ran_ahead;
        made_.steps = one->steps.measured;
        if (made_.step_line.empty()) made_.step_line = one->steps.line;
        if (made_.step_line != one->steps.line) {
          steps_problem_ =
              "they begin at " + made_.step_line + " in one run, and at " + one->steps.line + " in another";
        }
        step_counts_[side] = one->steps.all;
      }
    }
    if (yardstick_.metric() != nullptr) {
      if (run.printed_too_much) return "it prints more than " + HumanBytes(kMostRead) + ", too much to be searched";
      const compare::MetricFigure read =
          compare::ReadMetric(*yardstick_.metric(), made_.pick, run.output + "\n" + run.errors);
      if (!read.problem.empty()) return read.problem;
      one->figures.figure = read.figure;
      made_.metric_matches = read.matches;
    }
    return "";
  }

  void SayRecorded() {
    if (!sides_[0].bare) return;
    made_.sides[0].detail =
        "the command with slipstream loaded and every engine off, because something has to record its steps; what "
        "recording costs is in both sides (--by wall has nothing of slipstream in this one)";
  }

  // Nobody asked for steps: they are the better ruler, if there are any.
  void TakeProbe() {
    if (steps_problem_.empty()) {
      made_.ruler = Ruler::kSteps;
      recorded_ = true;
      SayRecorded();
    } else {
      made_.no_steps = std::exchange(steps_problem_, "");
    }
  }

  // Behind the warm-up: where there are no steps, time is taken of whole runs, with nothing recorded.
  void LookForSteps() {
    if (steps_problem_.empty()) return;
    FallBack("Not by steps, as was " + Wanted() + ": " + steps_problem_ + ". Wall time is compared instead.");
    recorded_ = false;
    steps_problem_.clear();
    made_.step_line.clear();
    if (sides_[0].bare) made_.sides[0].detail = kBareDetail;
  }

  // At the end: the figures of some runs may be no steps'.
  void CheckSteps() {
    if (!steps_problem_.empty()) {
      FallBack("Not by steps, as was " + Wanted() + ": in one run they were not found (" + steps_problem_ +
               "). Wall time is compared instead, of runs that were recorded.");
      for (compare::PairOfRuns& pair : made_.pairs) {
        for (compare::RunFigures& run : pair.runs) run.figure = {run.wall_seconds, 0};
      }
      return;
    }
    CompareByWork();
    if (step_counts_[0] != step_counts_[1] && step_counts_[0] != 0 && step_counts_[1] != 0) {
      made_.notes.push_back("the sides do not make the same number of steps: " + std::to_string(step_counts_[0]) +
                            " and " + std::to_string(step_counts_[1]) + ".");
    }
  }

  // Where the host ran ahead in any run, of all: or a side whose runs are just below the limit would seem faster.
  void CompareByWork() {
    bool any = false;
    bool all_known = true;
    for (const compare::PairOfRuns& pair : made_.pairs) {
      for (const compare::RunFigures& run : pair.runs) {
        any = any || run.ran_ahead;
        all_known = all_known && run.work_seconds > 0;
      }
    }
    if (!any) return;
    if (!all_known) {
      made_.notes.emplace_back(
          "the host ran ahead of the device in some runs, and in others nothing tells when the device had done: a step "
          "may take longer than is said here. --by wall has everything in it.");
      return;
    }
    for (compare::PairOfRuns& pair : made_.pairs) {
      for (compare::RunFigures& run : pair.runs) run.figure = {run.work_seconds, 0};
    }
    made_.notes.emplace_back(
        "the host ran ahead of the device: what it waited for the device after the loop is in the times of the steps, "
        "in all runs.");
  }

  std::string Wanted() const { return yardstick_.by_steps() ? "asked" : "begun"; }

  void FallBack(const std::string& why) {
    made_.ruler = Ruler::kWall;
    made_.notes.push_back(why);
  }

  void SayStartUp() {
    if (start_up_of_ <= 0 || start_up_ < 0.1 * start_up_of_) return;
    made_.notes.push_back("of the last run under slipstream, " + compare::FormatSeconds(start_up_) + " of " +
                          compare::FormatSeconds(start_up_of_) +
                          " passed before the first CUDA call. Longer runs, --by steps or --metric show more of the "
                          "training.");
  }

  void Say(const std::string& where, const OneRun& one, const std::string& trouble, const MeasuredRun& run) {
    if (!line_->shown()) {
      const std::string figure =
          trouble.empty() ? compare::FormatFigure(made_, one.figures.figure) : "FAILED: " + Escape(trouble);
      Complain(kCompareCommand, where + ": " + figure);
    }
    if (!options_.verbose) return;
    line_.reset();
    std::fputs(ForTerminal("--- " + where + ", standard output:\n" + run.output).c_str(), stderr);
    std::fputs(ForTerminal("--- " + where + ", standard error:\n" + run.errors).c_str(), stderr);
  }

  const CompareOptions& options_;
  const std::string version_;
  const policy::Environment& environment_;
  const std::array<std::vector<std::string>, 2> commands_;
  const std::string tmpdir_;
  Comparison made_;
  std::array<CompareSide, 2> sides_;
  const Yardstick yardstick_{options_.yardstick};
  compare::OutputMatch match_ = yardstick_.NewMatch();
  std::unique_ptr<ProgressLine> line_;
  std::string so_far_;
  std::vector<std::array<size_t, 2>> orders_;  // of the pairs
  bool recorded_ = false;
  bool probes_ = false;  // the next run tells whether there are steps
  std::array<size_t, 2> step_counts_{};
  std::string steps_problem_;
  double start_up_ = 0;  // seconds before the first CUDA call of the last run that was counted
  double start_up_of_ = 0;
  size_t all_runs_ = 0;
  size_t done_runs_ = 0;
  double run_seconds_ = 0;
  uint64_t begin_ns_ = 0;
  bool left_processes_ = false;
  int repeated_ = 0;
  int signal_ = 0;
  std::optional<int> cannot_start_;
};

int StatusOf(const Comparison& comparison) {
  const std::optional<double>& limit = comparison.fail_if_slower;
  switch (OutcomeOf(comparison)) {
    case Outcome::kCompared:
      return limit && WhetherSlower(comparison.estimate, *limit) == compare::Slower::kShown ? kSlower : kSuccess;
    case Outcome::kResultsDiffer:
    case Outcome::kFailsOnOne:
      return kFailed;
    case Outcome::kFailsOnBoth:
      return kCommandFails;
    case Outcome::kTooFew:
      break;
  }
  return kPartial;
}

// What is wrong with the command line; empty: nothing.
std::string MistakeOf(const CompareOptions& options) {
  if (options.policies.size() > 2) return "--policy can be given twice, for two policies that are compared";
  if (options.pairs && *options.pairs < 1) return "-n: at least one pair";
  if (const auto commands = CommandsOf(options); options.two_commands && (commands[0].empty() || commands[1].empty())) {
    return "--commands needs two of them, with -- between:  slipstream compare --commands -- COMMAND... -- COMMAND...";
  }
  return MistakeOf(options.yardstick);
}

}  // namespace

int Compare(const CompareOptions& options, const std::string& version) {
  if (const std::string mistake = MistakeOf(options); !mistake.empty()) {
    Complain(kCompareCommand, mistake);
    return kUsage;
  }
  if (policy::DisabledByEnvironment()) {
    Complain(kCompareCommand,
             std::string(policy::kDisableVariable) +
                 " is set, so slipstream would do nothing on either side\n  Unset it, and compare again.");
    return kCannotStart;
  }
  const policy::Environment environment = policy::Environment::FromProcess();
  Comparer comparer(options, version, environment);
  if (!comparer.error().empty()) {
    Complain(kCompareCommand, comparer.error());
    return kUsage;
  }
  Comparison& made = *comparer.comparison();
  const auto commands = CommandsOf(options);
  made.command = Joined(commands[0]);
  if (options.two_commands) made.command += " -- " + Joined(commands[1]);
  int status = kSuccess;
  if (!MakeSides(options.policies, options.two_commands, environment, comparer.sides(), &made, &status)) return status;
  for (size_t i = 0; options.two_commands && i < commands.size(); ++i) {
    made.sides[i].detail = Joined(commands[i]) + ", " + made.sides[i].detail;
  }
  {
    const EndingSignals signals;
    if (const std::optional<int> cannot = comparer.RunAll()) return *cannot;
    comparer.Finish();
    status = StatusOf(made);
    if (comparer.signal() != 0) status = 128 + comparer.signal();
    const int printed = Print(kCompareCommand, options.json       ? compare::ComparisonJson(made, status)
                                               : options.markdown ? compare::ComparisonMarkdown(made)
                                                                  : compare::FormatComparison(made));
    if (printed != kSuccess) status = printed;
  }
  if (comparer.signal() != 0) {
    raise(comparer.signal());
  } else if (comparer.IsStopped()) {
    EndingSignals::EndAsAsked();
  }
  return status;
}

}  // namespace slipstream::cli
