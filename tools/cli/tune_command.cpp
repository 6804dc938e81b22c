#include "tools/cli/tune_command.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <utility>

#include "policy/environment.h"
#include "policy/load.h"
#include "policy/options.h"
#include "policy/text.h"
#include "tools/cli/compare_sides.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/journal_file.h"
#include "tools/cli/measured_run.h"
#include "tools/cli/run_directory.h"
#include "tools/cli/run_figures.h"
#include "tools/cli/text_file.h"
#include "tools/cli/trace_build.h"
#include "tools/cli/tune_machine.h"
#include "tools/cli/tune_text.h"
#include "tools/compare/metric.h"
#include "tools/compare/output_match.h"
#include "tools/compare/schedule.h"
#include "tools/compare/text.h"
#include "tools/text/text.h"
#include "tools/tune/journal.h"
#include "tools/tune/policy_file.h"
#include "tools/tune/search.h"
#include "tracer/base/clock.h"
#include "tracer/counters/counter_reader.h"

namespace slipstream::cli {
namespace {

using policy::Escape;
using tune::Contest;
using tune::Fate;
using tune::Settings;
using tune::Stage;

constexpr char kTuneCommand[] = "tune";
constexpr size_t kMostPairsAgain = 3;  // in which no steps were found
constexpr size_t kKeptOutputs = 4;     // of runs of policies that were accepted, to compare results with
constexpr char kEnvironment[] = "environment.";
constexpr char kPreReserve[] = "allocator.pre_reserve";
// Of the first run, where a run leaves no trace else: devices stand behind its first calls.
constexpr char kTraceOfFirst[] = "4MiB";

std::string WithoutQuotes(std::string_view literal) {
  if (literal.size() < 2 || literal.front() != '"') return std::string(literal);
  std::string text;
  for (size_t i = 1; i + 1 < literal.size(); ++i) {
    if (literal[i] == '\\' && i + 2 < literal.size()) ++i;
    text += literal[i];
  }
  return text;
}

// Whether a policy of these settings may compute something else than another one.
bool MayChangeResults(const Settings& settings) {
  return std::any_of(settings.begin(), settings.end(),
                     [](const auto& setting) { return setting.first.starts_with(kEnvironment); });
}

int ProcessorsHere() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

std::string Utc() {
  char text[40];
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&now, &parts);
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
}

// What one run of the command came to.
struct OneRun {
  compare::Figure figure;
  std::string trouble;        // why there is no figure; empty: there is
  bool has_no_steps = false;  // is the trouble
  std::string output;
  std::string errors;
  std::vector<std::string> last_lines;
  std::vector<tracer::ProcessCounts> processes;  // that called CUDA
  DevicesSeen devices;                           // of the first run
};

class Tuner {
 public:
  Tuner(const TuneOptions& options, std::string version, const policy::Environment& environment)
      : options_(options),
        version_(std::move(version)),
        environment_(environment),
        tmpdir_(environment.Get("TMPDIR").value_or("")),
        journal_(options.out + ".journal") {}

  // Why the yardstick cannot be used; empty: it can.
  const std::string& error() const { return yardstick_.error(); }

  // Nothing: it is over, or was interrupted; else why it cannot be done, already said, as an exit status.
  std::optional<int> Run() {
    begin_ns_ = tracer::NowNs();
    base_ = PrepareRun(options_.policy, environment_);
    if (base_.status != kSuccess) return base_.status;
    SayNotes(base_.loaded);
    if (!base_.loaded.policy.enabled) {
      Complain(kTuneCommand, "the policy says enabled = false: there is nothing to tune");
      return kCannotStart;
    }
    if (const std::string mistake = LookAtFiles(); !mistake.empty()) {
      Complain(kTuneCommand, mistake);
      return kFailed;
    }
    // Not counted: it warms what can be warm, and tells what the program does.
    const OneRun first = RunOnce({}, "a run first, which does not count", true);
    if (cannot_go_on_) return cannot_go_on_;
    if (IsStopped()) return std::nullopt;
    if (!first.trouble.empty()) return Fails(first);
    KeepOutput(first);
    MakeSearch(first);
    return Replay();
  }

  void SearchOn() {
    while (search_->next() && !IsStopped() && !cannot_go_on_) RunPair();
    line_.reset();
  }

  int signal() const { return signal_; }
  bool IsStopped() const { return signal_ != 0 || EndingSignals::stop()->load(); }
  const std::optional<int>& cannot_go_on() const { return cannot_go_on_; }

  // The file, and what is printed.
  int Finish() {
    if (IsStopped()) {
      Complain(kTuneCommand,
               journal_.open() ? "interrupted; --resume with the same options goes on (" + Escape(journal_.path()) + ")"
                               : "interrupted");
      return 128 + (signal_ != 0 ? signal_ : SIGTERM);
    }
    tune::Account account = {.program = std::filesystem::path(options_.command[0]).filename().string(),
                             .when = Utc(),
                             .where = WhereText(),
                             .ruler = RulerText()};
    account.notes = notes_;
    const std::string text = tune::PolicyFileText(*search_, base_.loaded, not_tried_, account);
    if (const std::string error = WriteTextFile(options_.out, text, options_.force || options_.resume);
        !error.empty()) {
      // It may have taken hours.
      Complain(kTuneCommand, Escape(options_.out) + ": " + error + "\n  What it would hold is printed instead.");
      Print(kTuneCommand, options_.json ? TuneJson(Outcome()) : text::ForTerminal(text));
      return kFailed;
    }
    // What was not tried for want of time can still be.
    if (!search_->stopped_early()) journal_.Remove();
    return Print(kTuneCommand, options_.json ? TuneJson(Outcome()) : TuneText(Outcome()));
  }

 private:
  double Elapsed() const { return static_cast<double>(tracer::NowNs() - begin_ns_) / 1e9; }

  std::string RulerText() const {
    if (yardstick_.metric() != nullptr) {
      return "what \"" + *options_.yardstick.metric + "\" finds in the command's output (" + options_.yardstick.of +
             ", " + (yardstick_.higher_is_better() ? "higher" : "lower") + " is better)";
    }
    return recorded_ ? "the mean time of a step, with every call recorded" : "the wall time of the command";
  }

  // What is at the places that will be written.
  std::string LookAtFiles() const {
    std::error_code error;
    const bool out = std::filesystem::exists(std::filesystem::symlink_status(options_.out, error));
    const bool journal = std::filesystem::exists(std::filesystem::symlink_status(journal_.path(), error));
    const std::filesystem::path parent = std::filesystem::absolute(options_.out, error).parent_path();
    if (!out && access(parent.c_str(), W_OK | X_OK) != 0)
      return Escape(options_.out) + ": " + std::strerror(errno) + "\n  -o FILE writes another one.";
    if (options_.resume && !journal) return Escape(journal_.path()) + ": there is no search to go on with";
    if (out && !options_.force && !options_.resume) {
      return Escape(options_.out) + ": exists\n  --force replaces it, -o FILE writes another one" +
             (journal ? ", --resume tries what there was no time for." : ".");
    }
    if (journal && !options_.resume && !options_.force) {
      return Escape(journal_.path()) +
             ": of a search that is not over\n  --resume goes on with it, --force begins "
             "anew.";
    }
    return "";
  }

  std::optional<int> Fails(const OneRun& run) const {
    Complain(kTuneCommand, "the command fails: " + run.trouble);
    for (const std::string& line : run.last_lines) Complain(kTuneCommand, "  " + Escape(line));
    return kCommandFails;
  }

  void KeepOutput(const OneRun& run) {
    if (outputs_.size() < kKeptOutputs) outputs_.emplace_back(run.output, run.errors);
  }

  void MakeSearch(const OneRun& first) {
    tune::Traffic traffic;
    const bool counted = WantsCounters(base_.loaded.policy) && !first.processes.empty();
    if (!counted) {
      traffic = {true, true, true, true};
      notes_.emplace_back(WantsCounters(base_.loaded.policy) ? "NO CUDA CALL WAS SEEN in the first run."
                                                             : "The policy counts no calls, so everything was tried.");
    }
    for (const tracer::ProcessCounts& process : first.processes) {
      for (const tracer::CopyCounts& copies : process.copies) {
        traffic.copies_to_device = traffic.copies_to_device || (copies.kind == "host_to_device" && copies.calls != 0);
        traffic.copies_to_host = traffic.copies_to_host || (copies.kind == "device_to_host" && copies.calls != 0);
      }
      for (const tracer::FunctionCounts& function : process.functions) {
        if (function.calls == 0) continue;
        const std::string& name = function.name;
        traffic.allocates = traffic.allocates || name.starts_with("cudaMalloc") || name.starts_with("cuMemAlloc");
      }
      const std::string executable = std::filesystem::path(process.executable).filename().string();
      traffic.uses_pytorch = traffic.uses_pytorch || executable.starts_with("python");
    }
    traffic.pool_peak = PoolPeakOf(first.processes);
    std::vector<tune::Knob> knobs =
        KnobsFor(base_.loaded.policy, traffic, {ProcessorsHere(), first.devices.smallest_memory}, options_.environment,
                 &not_tried_);
    std::erase_if(knobs, [&](const tune::Knob& knob) { return !IsWanted(knob.key) || IsSetOutside(knob); });
    std::erase_if(not_tried_, [&](const tune::NotTried& one) { return !IsWanted(one.key); });
    if (options_.resume) TakeSizes(&knobs);
    subject_ = {options_.command, PolicyText(), RulerText(), knobs, PlaceHere(first.devices.names, version_)};
    search_.emplace(std::move(knobs), tune::SearchOptions{.higher_is_better = yardstick_.higher_is_better(),
                                                          .most_pairs = options_.pairs});
  }

  // What a program's memory comes to differs a little from run to run: the sizes that were tried are tried again.
  void TakeSizes(std::vector<tune::Knob>* knobs) {
    journal_text_ = ReadJournal();
    const auto is_it = [](const tune::Knob& knob) { return knob.key == kPreReserve; };
    const auto before = tune::KnobsOf(journal_text_).value_or(std::vector<tune::Knob>());
    const auto then = std::find_if(before.begin(), before.end(), is_it);
    const auto now = std::find_if(knobs->begin(), knobs->end(), is_it);
    if (then != before.end() && now != knobs->end()) now->values = then->values;
  }

  std::string ReadJournal() const {
    std::ifstream file(journal_.path());
    std::ostringstream read;
    read << file.rdbuf();
    return read.str();
  }

  std::string WhereText() const {
    const tune::Place& place = subject_.place;
    std::string text = place.host;
    if (!place.devices.empty()) text += (text.empty() ? "" : ", ") + place.devices;
    if (!place.driver.empty()) text += (text.empty() ? "driver " : ", driver ") + place.driver;
    return text + (text.empty() ? "slipstream " : ", slipstream ") + version_;
  }

  // By --only, which is about keys of the policy: variables are named themselves.
  bool IsWanted(const std::string& key) const {
    const std::vector<std::string>& only = options_.only;
    return only.empty() || key.starts_with(kEnvironment) ||
           std::any_of(only.begin(), only.end(), [&](const std::string& name) { return tune::NamesKey(name, key); });
  }

  // Variables are stronger than the file that is to be written.
  bool IsSetOutside(const tune::Knob& knob) {
    const policy::Option* const option = policy::FindOption(knob.key);
    const std::string variable =
        option != nullptr ? policy::VariableOf(*option) : knob.key.substr(sizeof(kEnvironment) - 1);
    if (!environment_.Get(variable)) return false;
    not_tried_.push_back({knob.key, variable + " is set in the environment, which is stronger than a policy"});
    return true;
  }

  // All of the policy that the search begins with.
  std::string PolicyText() const {
    std::string text;
    for (const policy::Option& option : policy::Options()) {
      text += policy::KeyOf(option) + " = " + policy::Literal(option, option.get(base_.loaded.policy)) + "\n";
    }
    for (const auto& [name, value] : base_.loaded.policy.environment) text += name + "=" + value + "\n";
    return text + std::to_string(base_.loaded.policy.transfer.rules.size()) + " rules\n";
  }

  std::optional<int> Replay() {
    const tune::Replayed replayed = tune::Replay(journal_text_, subject_, &*search_);
    if (!replayed.error.empty()) {
      Complain(kTuneCommand, Escape(journal_.path()) + ": " + replayed.error + "\n  --force begins anew.");
      return kFailed;
    }
    if (const std::string error = journal_.Open(replayed.bytes); !error.empty()) {
      Complain(kTuneCommand, Escape(journal_.path()) + ": cannot be written: " + error);
      return kFailed;
    }
    if (replayed.bytes == 0) journal_.Append(tune::SubjectLine(subject_));
    if (replayed.events != 0 || replayed.stopped) {
      Complain(kTuneCommand, "goes on behind " + std::to_string(replayed.events) + " measurements" +
                                 (replayed.stopped ? ", with what there was no time for" : ""));
    }
    return std::nullopt;
  }

  // The variables of the process, and what the settings put in front of them.
  policy::Environment With(const Settings& settings) const {
    std::map<std::string, std::string> variables(environment_.variables().begin(), environment_.variables().end());
    for (const auto& [key, value] : settings) {
      const policy::Option* const option = policy::FindOption(key);
      variables[option != nullptr ? policy::VariableOf(*option) : key.substr(sizeof(kEnvironment) - 1)] =
          WithoutQuotes(value);
    }
    return policy::Environment(variables);
  }

  // `first`: the run that does not count; it leaves a trace whatever the others do, a whole one where steps are looked
  // for.
  OneRun RunOnce(const Settings& settings, const std::string& where, bool first = false) {
    OneRun one;
    policy::Environment environment = With(settings);
    const bool looks_for_steps = first && yardstick_.looks_for_steps();
    if (first && !recorded_ && !looks_for_steps) {
      std::map<std::string, std::string> variables(environment.variables().begin(), environment.variables().end());
      variables["SLIPSTREAM_TRACER_MAX_FILE"] = kTraceOfFirst;
      variables["SLIPSTREAM_TRACER_KEEP"] = "first";
      environment = policy::Environment(variables);
    }
    CompareSide side;
    side.policy = options_.policy;
    side.prepared = PrepareRun(options_.policy, environment);
    if (side.prepared.status != kSuccess) {
      cannot_go_on_ = side.prepared.status;
      return one;
    }
    MeasuredCommand what = {.whose = kTuneCommand, .command = &options_.command};
    what.measure.limit_seconds = options_.yardstick.timeout;
    if (line_ == nullptr) line_ = std::make_unique<ProgressLine>(kTuneCommand);
    bool is_new = true;
    if (line_->shown()) {
      what.measure.tick = [&](double seconds) {
        line_->Show(where + ": " + About(seconds) + LeftText(), is_new);
        is_new = false;
      };
    }
    what.variables = [&](RunDirectory* place) {
      return PrepareSide(kTuneCommand, side, environment, recorded_ || first, tmpdir_, place);
    };
    RunDirectory directory;
    RunOnceResult result = RunMeasured(what, &directory);
    MeasuredRun& run = result.run;
    signal_ = run.signal;
    cannot_go_on_ = result.status;
    if (signal_ != 0 || cannot_go_on_) return one;
    run_seconds_ = first || !counted_any_ ? run.seconds : std::max(run_seconds_, run.seconds);
    counted_any_ = !first;
    one.trouble = TroubleOf(run, what.measure);
    if (one.trouble.empty()) TakeFigure(directory, run, looks_for_steps, &one);
    if (first && !directory.path().empty()) one.devices = DevicesOf(directory.path());
    one.last_lines = LastLines(run);
    one.output = std::move(run.output);
    one.errors = std::move(run.errors);
    return one;
  }

  // `looks_for_steps`: where there are any, this run and all others are measured by them.
  void TakeFigure(const RunDirectory& directory, const MeasuredRun& run, bool looks_for_steps, OneRun* one) {
    one->figure.value = run.seconds;
    if (!directory.path().empty()) {
      std::vector<std::string> problems;
      one->processes = tracer::ReadRunDirectory(directory.path(), &problems);
    }
    const bool reads_steps = recorded_ || looks_for_steps;
    const StepFigures steps = reads_steps ? ReadSteps(kTuneCommand, directory.path(), version_) : StepFigures{};
    if (looks_for_steps) recorded_ = steps.problem.empty();
    if (recorded_) {
      // Where that is known, a policy does not win by a host that waits later.
      one->figure.value = steps.work_seconds > 0 ? steps.work_seconds : steps.seconds;
      one->trouble = steps.problem;
      if (step_line_.empty()) step_line_ = steps.line;
      if (one->trouble.empty() && step_line_ != steps.line) {
        one->trouble = "its steps begin at " + steps.line + ", and in another run at " + step_line_;
      }
      one->has_no_steps = !one->trouble.empty();
    }
    if (yardstick_.metric() != nullptr) {
      const compare::MetricFigure read =
          compare::ReadMetric(*yardstick_.metric(), yardstick_.pick(), run.output + "\n" + run.errors);
      one->figure = read.figure;
      one->trouble = read.problem;
    }
    if (one->trouble.empty() && one->figure.value <= 0) one->trouble = "a figure that is not above 0";
  }

  // At most, to try and to confirm all that is still to be.
  double SecondsLeft() const {
    return static_cast<double>(search_->PairsToConfirm() + search_->MostPairsToTry()) * 2 * run_seconds_;
  }

  // While anything is tried it takes no longer than the budget.
  std::string LeftText() const {
    double left = options_.budget - Elapsed();
    if (search_) left = search_->MostPairsToTry() == 0 ? SecondsLeft() : std::min(left, SecondsLeft());
    return left > 0 ? "; at most " + About(left) + " left" : "";
  }

  // One pair of the contest that comes next.
  void RunPair() {
    const Contest contest = *search_->next();
    if (contest.stage == Stage::kTrying && !TimeFor()) {
      notes_.push_back("Of " + About(options_.budget) +
                       " too little is left to try one more and to confirm it; all would take " + About(SecondsLeft()) +
                       " more at most.");
      journal_.Append(tune::EventLine(&contest, {.kind = tune::Event::Kind::kStopped}));
      search_->StopTrying();
      return;
    }
    if (contest.pair == 0) BeginContest();
    std::array<OneRun, 2> runs;
    for (const size_t side : compare::OrderOf(contest.pair)) {
      runs[side] = RunOnce(side == 0 ? contest.incumbent : contest.challenger, Label(contest));
      if (IsStopped() || cannot_go_on_) return;
    }
    // That no steps are found says nothing of a policy: the pair is run once more.
    if ((runs[0].has_no_steps || runs[1].has_no_steps) && pairs_again_++ < kMostPairsAgain) return;
    if (!runs[0].trouble.empty()) {
      line_.reset();
      cannot_go_on_ = Fails(runs[0]);
      return;
    }
    KeepOutput(runs[0]);
    tune::Event event = {.figures = {runs[0].figure, runs[1].figure}};
    const std::string wrong = WhatIsWrong(contest, runs);
    if (!wrong.empty()) {
      event.kind = tune::Event::Kind::kRefused;
      event.why = wrong;
    }
    journal_.Append(tune::EventLine(&contest, event));
    const size_t tried = search_->tried().size();
    if (wrong.empty()) {
      search_->Add(event.figures);
    } else {
      search_->Refuse(wrong);
    }
    if (search_->tried().size() != tried) SayTried(search_->tried().back());
  }

  // Whether one pair more, and what would have to be confirmed then, still fit.
  bool TimeFor() const {
    const auto confirming = static_cast<double>(search_->PairsToConfirmIfKept());
    return Elapsed() + (confirming + 1) * 2 * run_seconds_ <= options_.budget;
  }

  void BeginContest() {
    match_.emplace(yardstick_.NewMatch());
    for (const auto& [output, errors] : outputs_) match_->Add(0, output, errors);
  }

  std::string WhatIsWrong(const Contest& contest, const std::array<OneRun, 2>& runs) {
    if (!runs[1].trouble.empty()) return "the command fails with it: " + runs[1].trouble;
    if (!match_) BeginContest();  // a contest that was begun before this process
    match_->Add(0, runs[0].output, runs[0].errors);
    match_->Add(1, runs[1].output, runs[1].errors);
    if (MayChangeResults(contest.challenger)) return "";
    const compare::MatchResult results = match_->Result();
    if (!results.can_be_told() || results.differences == 0) return "";
    const compare::OutputDifference& one = results.shown.front();
    return "the command prints other results with it: \"" + Escape(one.second.empty() ? "nothing" : one.second) +
           "\" instead of \"" + Escape(one.first) + "\"";
  }

  static std::string Label(const Contest& contest) {
    switch (contest.stage) {
      case Stage::kTrying:
        return contest.key + " = " + contest.value;
      case Stage::kConfirming:
        return "once more, " + contest.key + " = " + contest.value;
      case Stage::kInAll:
        return "once more, all that was kept";
    }
    return "";
  }

  void SayTried(const tune::Tried& tried) {
    if (line_->shown()) return;
    Complain(kTuneCommand, tried.key + " = " + tried.value + ": " + FateText(tried) + LeftText());
  }

  static std::string FateText(const tune::Tried& tried) {
    return tried.fate == Fate::kKept ? "kept, " + tune::Worth(tried.confirmed ? *tried.confirmed : tried.estimate)
                                     : tune::Reason(tried);
  }

  TuneOutcome Outcome() const {
    return {.search = *search_,
            .command = options_.command,
            .ruler = RulerText(),
            .not_tried = not_tried_,
            .notes = notes_,
            .place = subject_.place,
            .out = options_.out,
            .journal = search_->stopped_early() ? journal_.path() : ""};
  }

  const TuneOptions& options_;
  const std::string version_;
  const policy::Environment& environment_;
  const std::string tmpdir_;
  JournalFile journal_;
  Preparation base_;
  const Yardstick yardstick_{options_.yardstick};
  bool recorded_ = yardstick_.by_steps();
  std::optional<tune::Search> search_;
  tune::Subject subject_;
  std::string journal_text_;  // of the search that this one goes on with
  std::vector<tune::NotTried> not_tried_;
  std::vector<std::string> notes_;
  std::deque<std::pair<std::string, std::string>> outputs_;
  std::optional<compare::OutputMatch> match_;
  std::unique_ptr<ProgressLine> line_;
  std::string step_line_;
  double run_seconds_ = 0;  // of the longest; of the first one, which warms what can be warm, until there are others
  bool counted_any_ = false;
  size_t pairs_again_ = 0;
  uint64_t begin_ns_ = 0;
  int signal_ = 0;
  std::optional<int> cannot_go_on_;
};

// What is wrong with the command line; empty: nothing.
std::string MistakeOf(const TuneOptions& options) {
  if (options.pairs < compare::kLeastPairs) {
    return "-n: fewer than " + std::to_string(compare::kLeastPairs) + " pairs show nothing";
  }
  if (std::string mistake = MistakeOf(options.yardstick); !mistake.empty()) return mistake;
  for (const std::string& setting : options.environment) {
    const size_t equals = setting.find('=');
    const std::string name = setting.substr(0, equals);
    const bool valid =
        equals != std::string::npos && !name.empty() &&
        std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; }) &&
        std::isdigit(static_cast<unsigned char>(name[0])) == 0;
    if (!valid) return "--try \"" + Escape(setting) + "\": NAME=VALUE, of a variable of the environment";
    if (name == "LD_PRELOAD" || name.starts_with(policy::kVariablePrefix)) {
      return "--try \"" + Escape(setting) + "\": no policy sets that variable";
    }
  }
  const std::vector<std::string> keys = tune::KeysToTune();
  for (const std::string& name : options.only) {
    if (std::any_of(keys.begin(), keys.end(), [&](const std::string& key) { return tune::NamesKey(name, key); }))
      continue;
    std::string all;
    for (const std::string& key : keys) all += (all.empty() ? "" : ", ") + key;
    return "--only \"" + Escape(name) + "\": nothing of that name is tried; what is: " + all;
  }
  return "";
}

}  // namespace

int Tune(const TuneOptions& options, const std::string& version) {
  if (const std::string mistake = MistakeOf(options); !mistake.empty()) {
    Complain(kTuneCommand, mistake);
    return kUsage;
  }
  if (policy::DisabledByEnvironment()) {
    Complain(kTuneCommand, std::string(policy::kDisableVariable) +
                               " is set, so slipstream would do nothing\n  Unset it, and tune again.");
    return kCannotStart;
  }
  const policy::Environment environment = policy::Environment::FromProcess();
  Tuner tuner(options, version, environment);
  if (!tuner.error().empty()) {
    Complain(kTuneCommand, tuner.error());
    return kUsage;
  }
  int status = kSuccess;
  {
    const EndingSignals signals;
    if (const std::optional<int> cannot = tuner.Run()) return *cannot;
    if (!tuner.IsStopped()) tuner.SearchOn();
    if (tuner.cannot_go_on()) return *tuner.cannot_go_on();
    status = tuner.Finish();
  }
  if (tuner.signal() != 0) {
    raise(tuner.signal());
  } else if (tuner.IsStopped()) {
    EndingSignals::EndAsAsked();
  }
  return status;
}

}  // namespace slipstream::cli
