#include "tools/cli/tune_command.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdio>
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
#include "tools/cli/measured_run.h"
#include "tools/cli/run_directory.h"
#include "tools/cli/run_figures.h"
#include "tools/cli/text_file.h"
#include "tools/cli/trace_build.h"
#include "tools/compare/metric.h"
#include "tools/compare/output_match.h"
#include "tools/compare/schedule.h"
#include "tools/compare/text.h"
#include "tools/text/json_text.h"
#include "tools/text/text.h"
#include "tools/tune/journal.h"
#include "tools/tune/policy_file.h"
#include "tools/tune/search.h"
#include "tracer/base/clock.h"
#include "tracer/counters/counter_reader.h"

namespace slipstream::cli {
namespace {

using policy::Escape;
using text::Json;
using text::PadRight;
using tune::Contest;
using tune::Fate;
using tune::Settings;
using tune::Stage;

constexpr char kCommand[] = "tune";
constexpr char kSchema[] = "slipstream-tune-1";
constexpr size_t kKeptOutputs = 4;  // of runs of policies that were accepted, to compare results with
constexpr char kEnvironment[] = "environment.";

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

std::string Host() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

// Lines behind those that are there already, each written at once.
class JournalFile {
 public:
  explicit JournalFile(std::string path) : path_(std::move(path)) {}
  ~JournalFile() {
    if (fd_ >= 0) close(fd_);
  }
  JournalFile(const JournalFile&) = delete;
  JournalFile& operator=(const JournalFile&) = delete;

  // Keeps the first `bytes`. Why it cannot be written; empty: it can.
  std::string Open(size_t bytes) {
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd_ < 0 || ftruncate(fd_, static_cast<off_t>(bytes)) != 0 || lseek(fd_, 0, SEEK_END) < 0) {
      return std::strerror(errno);
    }
    return "";
  }
  // A full disk costs what would have been gone on from, and nothing else.
  void Append(std::string_view line) {
    while (fd_ >= 0 && !line.empty()) {
      const ssize_t count = write(fd_, line.data(), line.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return;
      line.remove_prefix(static_cast<size_t>(count));
    }
  }
  bool open() const { return fd_ >= 0; }
  void Remove() const { unlink(path_.c_str()); }

 private:
  const std::string path_;
  int fd_ = -1;
};

// What one run of the command came to.
struct OneRun {
  compare::Figure figure;
  std::string trouble;  // why there is no figure; empty: there is
  std::string output;
  std::string errors;
  std::vector<std::string> last_lines;
  std::vector<tracer::ProcessCounts> processes;  // that called CUDA
};

class Tuner {
 public:
  Tuner(const TuneOptions& options, std::string version, const policy::Environment& environment)
      : options_(options),
        version_(std::move(version)),
        environment_(environment),
        tmpdir_(environment.Get("TMPDIR").value_or("")),
        journal_path_(options.out + ".journal"),
        journal_(journal_path_) {}

  // Why the yardstick cannot be used; empty: it can.
  const std::string& error() const { return yardstick_.error(); }

  // Nothing: it is over, or was interrupted; else why it cannot be done, already said, as an exit status.
  std::optional<int> Run() {
    begin_ns_ = tracer::NowNs();
    base_ = PrepareRun(options_.policy, environment_);
    if (base_.status != kSuccess) return base_.status;
    SayNotes(base_.loaded);
    if (!base_.loaded.policy.enabled) {
      Complain(kCommand, "the policy says enabled = false: there is nothing to tune");
      return kCannotStart;
    }
    if (const std::string mistake = LookAtFiles(); !mistake.empty()) {
      Complain(kCommand, mistake);
      return kFailed;
    }
    // Not counted: it warms what can be warm, and tells what the program does.
    const OneRun first = RunOnce({}, "a run first, which does not count");
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
      Complain(kCommand, journal_.open()
                             ? "interrupted; --resume with the same options goes on (" + Escape(journal_path_) + ")"
                             : "interrupted");
      return 128 + (signal_ != 0 ? signal_ : SIGTERM);
    }
    tune::Account account = {.command = Command(), .when = Utc(), .where = Host(), .ruler = RulerText()};
    account.notes = notes_;
    const std::string text = tune::PolicyFileText(*search_, base_.loaded, not_tried_, account);
    if (const std::string error = WriteTextFile(options_.out, text, options_.force || options_.resume);
        !error.empty()) {
      Complain(kCommand, Escape(options_.out) + ": " + error);
      return kFailed;
    }
    journal_.Remove();
    return Print(kCommand, options_.json ? JsonText() : Screen());
  }

 private:
  double Elapsed() const { return static_cast<double>(tracer::NowNs() - begin_ns_) / 1e9; }

  std::string Command() const {
    std::string text;
    for (const std::string& word : options_.command) text += (text.empty() ? "" : " ") + word;
    return text;
  }

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
    const bool journal = std::filesystem::exists(std::filesystem::symlink_status(journal_path_, error));
    if (options_.resume && !journal) return Escape(journal_path_) + ": there is no search to go on with";
    if (out && !options_.force && !options_.resume) {
      return Escape(options_.out) + ": exists\n  --force replaces it, -o FILE writes another one.";
    }
    if (journal && !options_.resume && !options_.force) {
      return Escape(journal_path_) +
             ": of a search that was interrupted\n  --resume goes on with it, --force begins "
             "anew.";
    }
    return "";
  }

  std::optional<int> Fails(const OneRun& run) const {
    Complain(kCommand, "the command fails: " + run.trouble);
    for (const std::string& line : run.last_lines) Complain(kCommand, "  " + Escape(line));
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
    std::vector<tune::Knob> knobs =
        KnobsFor(base_.loaded.policy, traffic, {ProcessorsHere(), 0}, options_.environment, &not_tried_);
    std::erase_if(knobs, [&](const tune::Knob& knob) { return IsSetOutside(knob); });
    subject_ = {options_.command, PolicyText(), RulerText(), knobs};
    search_.emplace(std::move(knobs), tune::SearchOptions{.higher_is_better = yardstick_.higher_is_better(),
                                                          .most_pairs = options_.pairs});
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
    std::string text;
    if (options_.resume) {
      std::ifstream file(journal_path_);
      std::ostringstream read;
      read << file.rdbuf();
      text = read.str();
    }
    const tune::Replayed replayed = tune::Replay(text, subject_, &*search_);
    if (!replayed.error.empty()) {
      Complain(kCommand, Escape(journal_path_) + ": " + replayed.error + "\n  --force begins anew.");
      return kFailed;
    }
    if (const std::string error = journal_.Open(replayed.bytes); !error.empty()) {
      Complain(kCommand, Escape(journal_path_) + ": cannot be written: " + error);
      return kFailed;
    }
    if (replayed.bytes == 0) journal_.Append(tune::SubjectLine(subject_));
    if (replayed.events != 0) {
      Complain(kCommand, "goes on behind " + std::to_string(replayed.events) + " measurements");
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

  OneRun RunOnce(const Settings& settings, const std::string& where) {
    OneRun one;
    const policy::Environment environment = With(settings);
    CompareSide side;
    side.policy = options_.policy;
    side.prepared = PrepareRun(options_.policy, environment);
    if (side.prepared.status != kSuccess) {
      cannot_go_on_ = side.prepared.status;
      return one;
    }
    MeasuredCommand what = {.whose = kCommand, .command = &options_.command};
    what.measure.limit_seconds = options_.yardstick.timeout;
    if (line_ == nullptr) line_ = std::make_unique<ProgressLine>(kCommand);
    bool is_new = true;
    if (line_->shown()) {
      what.measure.tick = [&](double seconds) {
        const double left = options_.budget - Elapsed();
        line_->Show(where + ": " + About(seconds) + (left > 0 ? "; at most " + About(left) + " left" : ""), is_new);
        is_new = false;
      };
    }
    what.variables = [&](RunDirectory* place) {
      return PrepareSide(kCommand, side, environment, recorded_, tmpdir_, place);
    };
    RunDirectory directory;
    RunOnceResult result = RunMeasured(what, &directory);
    MeasuredRun& run = result.run;
    signal_ = run.signal;
    cannot_go_on_ = result.status;
    if (signal_ != 0 || cannot_go_on_) return one;
    run_seconds_ = std::max(run_seconds_, run.seconds);
    one.trouble = TroubleOf(run, what.measure);
    if (one.trouble.empty()) TakeFigure(directory, run, &one);
    one.last_lines = LastLines(run);
    one.output = std::move(run.output);
    one.errors = std::move(run.errors);
    return one;
  }

  void TakeFigure(const RunDirectory& directory, const MeasuredRun& run, OneRun* one) {
    one->figure.value = run.seconds;
    if (!directory.path().empty()) {
      std::vector<std::string> problems;
      one->processes = tracer::ReadRunDirectory(directory.path(), &problems);
    }
    if (recorded_) {
      const StepFigures steps = ReadSteps(kCommand, directory.path(), version_);
      one->figure.value = steps.seconds;
      one->trouble = steps.problem;
      if (step_line_.empty()) step_line_ = steps.line;
      if (one->trouble.empty() && step_line_ != steps.line) {
        one->trouble = "its steps begin at " + steps.line + ", and in another run at " + step_line_;
      }
    }
    if (yardstick_.metric() != nullptr) {
      const compare::MetricFigure read =
          compare::ReadMetric(*yardstick_.metric(), yardstick_.pick(), run.output + "\n" + run.errors);
      one->figure = read.figure;
      one->trouble = read.problem;
    }
    if (one->trouble.empty() && one->figure.value <= 0) one->trouble = "a figure that is not above 0";
  }

  // One pair of the contest that comes next.
  void RunPair() {
    const Contest contest = *search_->next();
    if (contest.stage == Stage::kTrying && !TimeFor()) {
      journal_.Append(tune::EventLine(&contest, {.kind = tune::Event::Kind::kStopped}));
      search_->StopTrying();
      notes_.push_back("The time of " + About(options_.budget) + " was over before everything had been tried.");
      return;
    }
    if (contest.pair == 0) BeginContest();
    std::array<OneRun, 2> runs;
    for (const size_t side : compare::OrderOf(contest.pair)) {
      runs[side] = RunOnce(side == 0 ? contest.incumbent : contest.challenger, Label(contest));
      if (IsStopped() || cannot_go_on_) return;
    }
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
    const double confirming = static_cast<double>(search_->PairsToConfirm() + 2 * options_.pairs);
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
    if (!line_->shown()) Complain(kCommand, tried.key + " = " + tried.value + ": " + FateText(tried));
  }

  static std::string FateText(const tune::Tried& tried) {
    return tried.fate == Fate::kKept ? "kept, " + tune::Worth(tried.confirmed ? *tried.confirmed : tried.estimate)
                                     : tune::Reason(tried);
  }

  static constexpr size_t kSetting = 38;
  static constexpr size_t kOutcome = 15;

  // 80 columns, but for what was refused and why.
  static std::string Row(const tune::Tried& tried) {
    constexpr std::array<const char*, 5> kWords = {"kept", "slower", "no difference", "refused", "not confirmed"};
    const compare::Estimate& estimate = tried.confirmed ? *tried.confirmed : tried.estimate;
    const char* const outcome = kWords[static_cast<size_t>(tried.fate)];
    const std::string text = "  " + PadRight(tried.key + " = " + tried.value, kSetting - 1) + " ";
    if (tried.fate == Fate::kRefused) return text + outcome + "\n      " + Escape(tried.why) + "\n";
    char speed[48];
    if (estimate.has_interval) {
      std::snprintf(speed, sizeof(speed), "%.3f (%.3f to %.3f)", estimate.ratio, estimate.low, estimate.high);
    } else {
      std::snprintf(speed, sizeof(speed), "%.3f", estimate.ratio);
    }
    return text + PadRight(outcome, kOutcome) + speed + "\n";
  }

  std::string Screen() const {
    std::string text = "slipstream tune: " + Escape(Command()) + "\n";
    text += "  compared: " + Escape(RulerText()) + "\n";
    text += "  " + PadRight("tried", kSetting) + PadRight("", kOutcome) + "speed, 95 %\n";
    for (const tune::Tried& tried : search_->tried()) text += Row(tried);
    for (const tune::NotTried& one : not_tried_) {
      text += "  " + PadRight(one.key, kSetting) + "not tried\n      " + one.why + "\n";
    }
    for (const std::string& note : notes_) text += "  " + Escape(note) + "\n";
    if (search_->best().empty()) {
      text += "NOTHING FASTER WAS FOUND.\n";
    } else if (search_->in_all()) {
      text += "FASTER: " + tune::Worth(*search_->in_all()) + "\n  as before; measured once more at the end.\n";
    }
    return text + "Wrote " + Escape(options_.out) + ":  slipstream run --policy " + Escape(options_.out) + " -- ...\n";
  }

  static Json EstimateJson(const std::optional<compare::Estimate>& estimate) {
    if (!estimate || estimate->pairs == 0) return nullptr;
    return {{"value", estimate->ratio},
            {"low", estimate->has_interval ? Json(estimate->low) : nullptr},
            {"high", estimate->has_interval ? Json(estimate->high) : nullptr},
            {"pairs", estimate->pairs}};
  }

  std::string JsonText() const {
    Json tried = Json::array();
    for (const tune::Tried& one : search_->tried()) {
      tried.push_back({{"key", one.key},
                       {"value", one.value},
                       {"outcome", NameOf(one.fate)},
                       {"why", text::OrNull(one.why)},
                       {"speed_ratio", EstimateJson(one.estimate)},
                       {"confirmed_speed_ratio", EstimateJson(one.confirmed)}});
    }
    Json not_tried = Json::array();
    for (const tune::NotTried& one : not_tried_) not_tried.push_back({{"key", one.key}, {"why", one.why}});
    const Json json = {{"schema", kSchema},
                       {"command", options_.command},
                       {"policy_file", options_.out},
                       {"compared", RulerText()},
                       {"settings", search_->best()},
                       {"speed_ratio", search_->best().empty() ? Json(nullptr) : EstimateJson(search_->in_all())},
                       {"tried", std::move(tried)},
                       {"not_tried", std::move(not_tried)},
                       {"stopped_early", search_->stopped_early()},
                       {"notes", notes_}};
    return text::JsonText(json);
  }

  const TuneOptions& options_;
  const std::string version_;
  const policy::Environment& environment_;
  const std::string tmpdir_;
  const std::string journal_path_;
  JournalFile journal_;
  Preparation base_;
  const Yardstick yardstick_{options_.yardstick};
  const bool recorded_ = yardstick_.by_steps();
  std::optional<tune::Search> search_;
  tune::Subject subject_;
  std::vector<tune::NotTried> not_tried_;
  std::vector<std::string> notes_;
  std::deque<std::pair<std::string, std::string>> outputs_;
  std::optional<compare::OutputMatch> match_;
  std::unique_ptr<ProgressLine> line_;
  std::string step_line_;
  double run_seconds_ = 0;  // of the longest
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
  return "";
}

}  // namespace

int Tune(const TuneOptions& options, const std::string& version) {
  if (const std::string mistake = MistakeOf(options); !mistake.empty()) {
    Complain(kCommand, mistake);
    return kUsage;
  }
  if (policy::DisabledByEnvironment()) {
    Complain(kCommand, std::string(policy::kDisableVariable) +
                           " is set, so slipstream would do nothing\n  Unset it, and tune again.");
    return kCannotStart;
  }
  const policy::Environment environment = policy::Environment::FromProcess();
  Tuner tuner(options, version, environment);
  if (!tuner.error().empty()) {
    Complain(kCommand, tuner.error());
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
