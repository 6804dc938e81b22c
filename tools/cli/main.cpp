// The command line of slipstream. Parsing only: what a command does is in the file of its name.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "policy/record_window.h"
#include "tools/cli/advise_command.h"
#include "tools/cli/compare_command.h"
#include "tools/cli/compare_runs_command.h"
#include "tools/cli/completion.h"
#include "tools/cli/demo_command.h"
#include "tools/cli/doctor.h"
#include "tools/cli/duration.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/export.h"
#include "tools/cli/help.h"
#include "tools/cli/help_topic.h"
#include "tools/cli/metrics_command.h"
#include "tools/cli/percent.h"
#include "tools/cli/policy_command.h"
#include "tools/cli/policy_diff.h"
#include "tools/cli/policy_explain.h"
#include "tools/cli/record_command.h"
#include "tools/cli/report_command.h"
#include "tools/cli/run.h"
#include "tools/cli/run_end.h"
#include "tools/cli/runs_here.h"
#include "tools/cli/site_command.h"
#include "tools/cli/summary_command.h"
#include "tools/cli/top_command.h"
#include "tools/cli/tune_command.h"
#include "tools/cli/version.h"
#include "tools/cli/watcher.h"
#include "tools/text/shell.h"
#include "tools/text/text.h"

namespace {

using slipstream::cli::kSuccess;
using slipstream::cli::kUsage;
using slipstream::cli::kVersion;

constexpr char kFooter[] =
    "Exit status: 0 done; 1 what was asked for could not be made, or a check found\n"
    "problems; 2 the command line is wrong; 125 slipstream could not start a command.\n"
    "`slipstream COMMAND --help` has the options, examples and statuses of each;\n"
    "`slipstream help` lists the pages of the manual.";

// Of a policy file that is named: what it is named for.
constexpr char kPolicyHelp[] = "Policy file (TOML); takes the place of SLIPSTREAM_POLICY, the user's and the project's";

// A recorded run that is named.
constexpr char kRunHelp[] =
    "The run's directory, one spool file in it, or a database of it; several directories or files are one run whose "
    "ranks were recorded apart; default: the newest run in the working directory";
constexpr char kJsonHelp[] = "Print JSON";
constexpr char kForceHelp[] = "Replace a file that is there";

// The database of a recorded run, for the commands that ask it.
void AddInput(CLI::App* app, slipstream::cli::TraceInputOptions* options) {
  app->add_flag("--rebuild", options->rebuild, "Read the run again, though its directory has a database of it");
  app->add_flag_callback(
      "--no-cache", [options] { options->keep = false; }, "Use and leave no database in the run's directory");
  app->add_flag("-v,--verbose", options->verbose, "Say where the database is, and why");
}

// A command, with whatever its options are read into.
struct Command {
  CLI::App* app = nullptr;
  std::string name;            // with that of the command above it: "policy check"
  bool takes_command = false;  // what stands behind "--"
  bool needs_command = false;
  std::function<int(const std::vector<std::string>& command)> run;
};

class CommandLine {
 public:
  CommandLine() {
    app_.set_version_flag("-V,--version", slipstream::cli::VersionLine(), "Print the version and the commit");
    app_.set_help_flag("-h,--help", "Print this");
    app_.require_subcommand(1);
    app_.formatter(formatter_);
    formatter_->SetUsage(&app_, "COMMAND [OPTIONS]");
  }

  // `usage` behind its name; `footer`: examples, and exit statuses of its own.
  Command& Add(const std::string& name, const std::string& usage, const std::string& description,
               const std::string& footer, CLI::App* above = nullptr) {
    CLI::App* const app = (above != nullptr ? above : &app_)->add_subcommand(name, description);
    const std::string whole = (above != nullptr ? above->get_name() + " " : "") + name;
    formatter_->SetUsage(app, whole + (usage.empty() ? "" : " " + usage));
    app->footer(footer);
    Command& command = commands_.emplace_back();
    command.app = app;
    command.name = whole;
    return command;
  }

  const CLI::App& app() const { return app_; }

  int Run(std::vector<std::string> arguments) {
    app_.footer(kFooter);  // now: commands would have begun with it
    bool has_separator = false;
    const std::vector<std::string> behind = TakeCommand(&arguments, &has_separator);
    if (!arguments.empty() && arguments.front() == "help") {
      if (const std::optional<int> status = Help({arguments.begin() + 1, arguments.end()})) return *status;
      if (arguments.size() != 2 || (arguments[1] != "--help" && arguments[1] != "-h")) {  // those are of `help` itself
        arguments.erase(arguments.begin());
        arguments.emplace_back("--help");
      }
    }
    try {
      std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // what CLI11 takes
      app_.parse(reversed);
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) {
        app_.exit(error);
        return kSuccess;
      }
      const slipstream::cli::Meant meant =
          slipstream::cli::WhatWasMeant(app_, arguments, behind, has_separator, [this](const std::string& name) {
            return std::any_of(commands_.begin(), commands_.end(),
                               [&](const Command& command) { return command.name == name && command.takes_command; });
          });
      if (!meant.line.empty()) {
        const std::string line = "  slipstream " + slipstream::text::InShell(meant.line) + "\n";
        std::fputs((slipstream::text::ForTerminal("slipstream: " + meant.why + "\n") + line).c_str(), stderr);
        return kUsage;
      }
      const std::string mistake = slipstream::cli::MistakeText(error, app_, arguments);
      std::fputs(slipstream::text::ForTerminal(mistake).c_str(), stderr);
      return kUsage;
    }
    for (const Command& command : commands_) {
      if (!command.app->parsed() || !command.run) continue;
      if (has_separator && !command.takes_command) {
        std::fprintf(stderr, "slipstream %s: takes no command behind --\n", command.name.c_str());
        return kUsage;
      }
      if (behind.empty() && command.needs_command) {
        std::fprintf(stderr, "slipstream: no command. Write:  slipstream %s [options] -- COMMAND...\n",
                     command.name.c_str());
        return kUsage;
      }
      return command.run(behind);
    }
    return kUsage;
  }

 private:
  // `slipstream help` and `slipstream help TOPIC`. Nothing: it is as --help of these words.
  std::optional<int> Help(const std::vector<std::string>& words) const {
    if (words.empty()) {
      const std::string text = app_.help() + "\n" + slipstream::cli::TopicsText();
      return std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0 ? kSuccess : slipstream::cli::kFailed;
    }
    if (words.size() > 1 || words[0].empty() || words[0][0] == '-') return std::nullopt;
    int status = kSuccess;
    if (slipstream::cli::ShowTopic(words[0], &status)) return status;
    std::vector<std::string> verbs;
    for (const CLI::App* const verb : app_.get_subcommands({})) verbs.push_back(verb->get_name());
    if (std::find(verbs.begin(), verbs.end(), words[0]) != verbs.end()) return std::nullopt;
    std::fputs(slipstream::text::ForTerminal(slipstream::cli::NoTopicText(words[0], verbs)).c_str(), stderr);
    return kUsage;
  }

  // What stands behind "--" is the command, untouched: CLI11 never sees it.
  static std::vector<std::string> TakeCommand(std::vector<std::string>* arguments, bool* found) {
    *found = false;
    for (size_t i = 0; i < arguments->size(); ++i) {
      if ((*arguments)[i] != "--") continue;
      *found = true;
      std::vector<std::string> command(arguments->begin() + static_cast<std::ptrdiff_t>(i) + 1, arguments->end());
      arguments->resize(i);
      return command;
    }
    return {};
  }

  CLI::App app_{"Makes unmodified PyTorch training faster and explains where the time goes.", "slipstream"};
  const std::shared_ptr<slipstream::cli::HelpFormatter> formatter_ = std::make_shared<slipstream::cli::HelpFormatter>();
  std::deque<Command> commands_;
};

// The first of several runs that are named, and the others behind it.
template <typename Options>
void AddRuns(CLI::App* app, const std::shared_ptr<Options>& options, const char* help) {
  const auto take = [options](const std::vector<std::string>& named) {
    if (named.empty()) return;
    options->run = named.front();
    options->more.assign(named.begin() + 1, named.end());
  };
  app->add_option_function<std::vector<std::string>>("RUN", take, help);
}

// The newest run here where none is named. False: there is none, and it has said so.
bool HasRun(const char* command, const char* write, std::string* run) {
  if (!run->empty()) return true;
  if (const std::vector<std::string> newest = slipstream::cli::TakeNewest(command, 1); !newest.empty()) {
    *run = newest.front();
    return true;
  }
  std::fprintf(stderr,
               "slipstream: no run, and none here. Write:  slipstream %s %s\n  `slipstream run --record -- COMMAND` "
               "leaves a run in the working directory.\n",
               command, write);
  return false;
}

// A time with its unit, in seconds.
CLI::Option* AddDuration(CLI::App* command, const std::string& names, double* seconds, const std::string& help,
                         double least = 0, double most = slipstream::cli::kMostSeconds) {
  const std::string name = names.substr(names.rfind("--"));
  const auto take = [name, seconds, least, most](const std::string& text) {
    const std::optional<double> found = slipstream::cli::ParseDuration(text);
    if (!found) throw CLI::ValidationError(name, "\"" + text + "\" is no time, such as 90, 90s, 10m or 1h30m");
    if (*found < least || *found > most)
      throw CLI::ValidationError(name, text + " is not from " +
                                           slipstream::text::HumanTime(static_cast<uint64_t>(least * 1e9)) + " to " +
                                           slipstream::text::AboutTime(most));
    *seconds = *found;
  };
  return command->add_option_function<std::string>(names, take, help)->type_name("TIME");
}

// What of the command is recorded: --steps, or --delay and --duration.
void AddWindow(Command* command, slipstream::cli::RunOptions* options) {
  struct Window {
    std::optional<std::string> steps;
    double delay = 0;
    double duration = 0;
  };
  const auto window = std::make_shared<Window>();
  const auto take_steps = [window](const std::string& text) {
    const bool is_number = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
    window->steps = is_number ? "0-" + std::to_string(std::strtoull(text.c_str(), nullptr, 10) - 1) : text;
    if (text.find_first_not_of('0') == std::string::npos ||
        !slipstream::policy::RecordWindow::Parse("steps " + *window->steps))
      throw CLI::ValidationError("--steps", "\"" + text + "\" is no number of steps and no part, such as 100 or 10-20");
  };
  CLI::Option* const steps =
      command->app->add_option_function<std::string>("--steps", take_steps, "Record this many steps, or these: 10-20")
          ->type_name("N|A-B");
  AddDuration(command->app, "--delay", &window->delay, "Record from so many whole seconds after the first use of CUDA")
      ->excludes(steps);
  AddDuration(command->app, "--duration", &window->duration, "Record for so many whole seconds")->excludes(steps);
  command->app->final_callback([window, options] {
    if (window->steps) options->set.emplace_back("tracer.window", "steps " + *window->steps);
    if (window->delay <= 0 && window->duration <= 0 && !window->steps) return;
    options->record = true;
    if (window->steps) return;
    // The policy counts in them: a part of one that was asked for would be another one.
    for (const double seconds : {window->delay, window->duration}) {
      if (seconds != std::floor(seconds))
        throw CLI::ValidationError(seconds == window->delay ? "--delay" : "--duration",
                                   "whole seconds, such as 10s or 2m");
    }
    const auto from = static_cast<uint64_t>(window->delay);
    const auto to = static_cast<uint64_t>(window->delay + window->duration);
    options->set.emplace_back(
        "tracer.window", "seconds " + std::to_string(from) + "-" + (window->duration > 0 ? std::to_string(to) : ""));
  });
}

void AddRun(CommandLine* line) {
  const auto options = std::make_shared<slipstream::cli::RunOptions>();
  Command& command = line->Add("run", "[OPTIONS] -- COMMAND [ARGUMENT...]", "Run a command under slipstream",
                               "Examples:\n"
                               "  slipstream run -- python train.py\n"
                               "  slipstream run --record -- torchrun --nproc-per-node=4 train.py\n"
                               "  slipstream run --report --steps 10-110 -- python train.py\n"
                               "Exit status: that of COMMAND (128 + N, and the same signal, when a signal N\n"
                               "ended it); 125 slipstream could not start it; 126 it cannot be executed;\n"
                               "127 it was not found.");
  command.app->add_option("--policy", options->policy, kPolicyHelp)->type_name("FILE");
  command.app->add_option("--summary", options->summary, "Write the summary to this file, as JSON")->type_name("FILE");
  command.app->add_flag("--record", options->record,
                        "Record every call; the trace stays in a folder slipstream-trace-... of the working directory");
  command.app->add_option("-o,--out", options->out, "Record into this directory, which is made")->type_name("DIR");
  command.app->add_flag("--report", options->report, "Record, and say at the end where the time went");
  AddWindow(&command, options.get());
  const auto set = [options](const std::vector<std::string>& settings) {
    for (const std::string& text : settings) {
      if (std::string why = slipstream::cli::ParseSetting(text, &options->set.emplace_back()); !why.empty())
        throw CLI::ValidationError("--set", why);
    }
  };
  command.app->add_option_function<std::vector<std::string>>("--set", set, "Set a key of the policy; more than once")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  command.app->add_flag("--quiet", options->quiet, "Print no summary at the end");
  command.takes_command = command.needs_command = true;
  command.run = [options](const std::vector<std::string>& words) {
    options->command = words;
    options->version = kVersion;
    options->record = options->record || options->out || options->report;
    return slipstream::cli::Run(*options);
  };
}

void AddSummary(CommandLine* line) {
  const auto options = std::make_shared<slipstream::cli::SummaryOptions>();
  Command& command = line->Add("summary", "[OPTIONS] [RUN]", "Print the summary of a run again",
                               "The last runs' summaries are kept in $XDG_STATE_HOME/slipstream/runs, else in\n"
                               "~/.local/state/slipstream/runs: also those of runs that were killed.\n"
                               "Exit status: 0 done; 1 there is no such summary; 2 the command line is wrong.");
  command.app->add_option("RUN", options->run,
                          "The directory of its trace, or the number (pid) of its command; default: the last run");
  command.app->add_flag("--json", options->json, "As `slipstream run --summary` writes it");
  command.run = [options](const std::vector<std::string>&) { return slipstream::cli::Summary(*options); };
}

void AddDoctor(CommandLine* line) {
  const auto options = std::make_shared<slipstream::cli::DoctorOptions>();
  Command& command =
      line->Add("doctor", "[OPTIONS] [-- COMMAND [ARGUMENT...]]", "Say what slipstream finds here and which hooks bind",
                "Examples:\n"
                "  slipstream doctor\n"
                "  slipstream doctor -- python train.py --epochs 1\n"
                "Exit status: 0 all is well; 1 it is not: no driver or device, an obstacle, a\n"
                "policy that cannot be used, or the probe (COMMAND, or a small PyTorch program)\n"
                "failed or used no CUDA; 2 the command line is wrong.");
  command.app->add_option("--policy", options->policy, kPolicyHelp)->type_name("FILE");
  command.app->add_flag("--json", options->json, kJsonHelp);
  command.takes_command = true;
  command.run = [options](const std::vector<std::string>& words) {
    options->command = words;
    return slipstream::cli::Doctor(*options, kVersion);
  };
}

void AddReport(CommandLine* line) {
  const auto options = std::make_shared<slipstream::cli::ReportCommandOptions>();
  Command& command = line->Add("report", "[OPTIONS] [RUN...]", "Say where the time of a recorded run went",
                               "Examples:\n"
                               "  slipstream report slipstream-trace-20260101-120000-abcdef\n"
                               "  slipstream report --html report.html slipstream-trace-...\n"
                               "  slipstream report slipstream-trace-20260101-*  # of srun: a directory a rank\n"
                               "Exit status: 0 done; 1 it could not be made; 2 the command line is wrong; 3 the\n"
                               "report is there, and lacks what could not be read.\n"
                               "`slipstream help report` has every figure's meaning.");
  AddRuns(command.app, options, kRunHelp);
  command.app->add_flag("--full", options->full, "Print every figure, not only what fits on one screen");
  command.app->add_option("--html", options->html, "Write a page with plots, to be read without a network")
      ->type_name("FILE");
  command.app->add_flag("--force", options->force, kForceHelp);
  command.app->add_flag("--json", options->json, kJsonHelp);
  AddInput(command.app, &options->input);
  command.run = [options](const std::vector<std::string>&) {
    return HasRun("report", "RUN", &options->run) ? slipstream::cli::Report(*options, kVersion) : kUsage;
  };
}

void AddAdvise(CommandLine* line) {
  const auto options = std::make_shared<slipstream::cli::AdviseOptions>();
  Command& command = line->Add("advise", "[OPTIONS] [RUN...]", "Say what to change, and what that would gain",
                               "Examples:\n"
                               "  slipstream run --record -- python train.py\n"
                               "  slipstream advise slipstream-trace-...\n"
                               "  slipstream advise slipstream-trace-20260101-*  # of srun: all ranks at once\n"
                               "Exit status: 0 done; 1 it could not be made; 2 the command line is wrong; 3 the\n"
                               "run could not be read to its end. `slipstream help RULE` explains a rule.");
  AddRuns(command.app, options, kRunHelp);
  command.app->add_option("--rank", options->rank, "The process of this rank alone; else all that make steps")
      ->type_name("N");
  command.app->add_flag("--list", options->list, "Print the rules, and what each needs of a trace");
  command.app->add_flag("--json", options->json, kJsonHelp);
  AddInput(command.app, &options->input);
  command.run = [options](const std::vector<std::string>&) {
    if (!options->list && !HasRun("advise", "RUN (or --list)", &options->run)) return kUsage;
    return slipstream::cli::Advise(*options, kVersion);
  };
}

void AddYardstick(CLI::App* command, slipstream::cli::YardstickOptions* options) {
  command
      ->add_option("--by", options->by,
                   "What to measure: wall, the time of the whole command; steps, those of the training loop, which is "
                   "recorded for that; auto (default): steps where there are any")
      ->check(CLI::IsMember({"auto", "wall", "steps"}))
      ->type_name("WHAT");
  command
      ->add_option("--metric", options->metric,
                   "Measure by what the command prints: a regular expression (ECMAScript) with one group in "
                   "parentheses, a number")
      ->type_name("PATTERN");
  command->add_option("--of", options->of, "Which of several numbers: last (default), median or mean")
      ->check(CLI::IsMember({"last", "median", "mean"}))
      ->type_name("WHICH");
  command->add_flag("--higher-is-better", options->higher_is_better, "--metric is a throughput");
  command->add_flag("--lower-is-better", options->lower_is_better, "--metric is a time");
  command
      ->add_option("--result", options->result,
                   "Compare as results only what this regular expression finds in the output (its group, if it has "
                   "one)")
      ->type_name("PATTERN");
  AddDuration(command, "--timeout", &options->timeout, "Kill a run after this time: it has failed then");
}

// The names of the options and words that were given, but for these.
std::vector<std::string> GivenBeside(const CLI::App& app, const std::set<std::string>& known) {
  std::vector<std::string> names;
  for (const CLI::Option* const option : app.get_options()) {
    if (option->count() != 0 && !known.contains(option->get_name())) names.push_back(option->get_name());
  }
  return names;
}

// A percentage, as a share.
CLI::Option* AddPercent(CLI::App* command, const std::string& name, std::optional<double>* share,
                        const std::string& help) {
  const auto take = [name, share](const std::string& text) {
    *share = slipstream::cli::ParsePercent(text);
    if (!*share)
      throw CLI::ValidationError(name, "\"" + text + "\" is no percentage from 0 to 1000, such as 3% or 2.5");
  };
  return command->add_option_function<std::string>(name, take, help)->type_name("PERCENT");
}

void AddTwoRuns(CLI::App* command, slipstream::cli::CompareRunsOptions* options) {
  command->add_option("RUN", options->runs,
                      "Instead of a command: two recorded runs, each a directory, a spool file or a database");
  command->add_option("--rank", options->rank, "Of two recorded runs: the processes of this rank")->type_name("N");
  AddPercent(command, "--floor", &options->floor,
             "Of two recorded runs: what the steps of two runs of one program may differ by (2%)");
}

void AddCompare(CommandLine* line) {
  const auto options = std::make_shared<slipstream::cli::CompareOptions>();
  Command& command = line->Add("compare", "[OPTIONS] -- COMMAND [ARGUMENT...] | RUN RUN",
                               "Run a command bare and under slipstream in turn, and say how much faster one is; or "
                               "say what got slower between two recorded runs",
                               "Examples:\n"
                               "  slipstream compare -- python train.py --epochs 1\n"
                               "  slipstream compare --metric '([0-9.]+) samples/s' --higher-is-better \\\n"
                               "      -- python train.py\n"
                               "  slipstream compare --policy old.toml --policy new.toml -- python train.py\n"
                               "  slipstream compare --time 10m --commands \\\n"
                               "      -- python train.py -- python train.py --workers 8\n"
                               "  slipstream compare slipstream-trace-before slipstream-trace-after\n"
                               "  slipstream compare --fail-if-slower 3% --commands \\\n"
                               "      -- python old.py -- python new.py\n"
                               "Exit status: 0 compared, whatever the ratio; 1 the sides print different\n"
                               "results, or one alone fails; 2 the command line is wrong; 3 too few pairs for an\n"
                               "interval; 4 COMMAND fails on both sides; 5 --fail-if-slower: it is; 125 a policy\n"
                               "is refused; 126 COMMAND cannot be executed; 127 it was not found; the signal\n"
                               "that stopped it.\n"
                               "`slipstream help compare` says what is measured and how.");
  command.app->add_option("-n,--pairs", options->pairs, "Pairs of runs (8; with --time alone, as many as fit)")
      ->check(CLI::Range(1, 10000))
      ->type_name("N");
  command.app->add_option("--warmup", options->warm_ups, "Runs of each side first that do not count (1)")
      ->check(CLI::Range(0, 100))
      ->type_name("N");
  command.app
      ->add_option("--seed", options->seed, "Draw the order of the sides as in the comparison that printed this number")
      ->type_name("N");
  command.app
      ->add_option("--policy", options->policies,
                   "Policy file (TOML) to compare bare runs with; given twice, two policies are compared")
      ->allow_extra_args(false)
      ->type_name("FILE");
  AddYardstick(command.app, &options->yardstick);
  AddDuration(command.app, "--time,--budget", &options->budget,
              "Begin no pair that would not end within this time: 90, 5m, 2h");
  command.app->add_flag("--commands", options->two_commands,
                        "COMMAND holds two, with -- between them; both run under slipstream");
  AddPercent(command.app, "--fail-if-slower", &options->fail_if_slower,
             "Exit with status 5 if the second side is shown to be slower by more than this, such as 3%");
  command.app->add_option("--prepare", options->prepare, "Run this by a shell before each run; its time does not count")
      ->type_name("COMMAND");
  CLI::Option* const json = command.app->add_flag("--json", options->json, kJsonHelp);
  command.app->add_flag("--markdown", options->markdown, "Print a table for a pull request, in Markdown")
      ->excludes(json);
  command.app->add_flag("-v,--verbose", options->verbose, "Show what the command prints, on standard error");
  const auto runs = std::make_shared<slipstream::cli::CompareRunsOptions>();
  AddTwoRuns(command.app, runs.get());
  command.takes_command = true;
  command.run = [options, runs, app = command.app](const std::vector<std::string>& words) {
    runs->json = options->json;
    runs->verbose = options->verbose;
    runs->fail_if_slower = options->fail_if_slower;
    runs->has_command = !words.empty();
    runs->others = GivenBeside(*app, {"RUN", "--rank", "--floor", "--fail-if-slower", "--json", "--verbose"});
    // An option of a comparison of commands says that a command was meant: then its absence is the mistake.
    if (words.empty() && runs->runs.empty() && runs->others.empty()) {
      runs->runs = slipstream::cli::TakeNewest("compare", 2);
    }
    if (const std::optional<int> status = slipstream::cli::CompareRuns(*runs, kVersion)) return *status;
    options->command = words;
    return slipstream::cli::Compare(*options, kVersion);
  };
}

void AddTune(CommandLine* line) {
  const auto options = std::make_shared<slipstream::cli::TuneOptions>();
  Command& command = line->Add("tune", "[OPTIONS] -- COMMAND [ARGUMENT...]",
                               "Look for a policy under which a command is faster, and write it to a file",
                               "Examples:\n"
                               "  slipstream tune -- python train.py --epochs 1\n"
                               "  slipstream tune --budget 1h --metric '([0-9.]+) samples/s' \\\n"
                               "      --higher-is-better -- python train.py\n"
                               "  slipstream tune --try NVIDIA_TF32_OVERRIDE=1 -o fast.toml -- python train.py\n"
                               "Exit status: 0 the file is there, whether something faster was found or not; 1\n"
                               "it is not; 2 the command line is wrong; 4 COMMAND fails; 125 slipstream could\n"
                               "not start it; 126 it cannot be executed; 127 it was not found; the signal that\n"
                               "stopped it. `slipstream help tune` says what is tried and how.");
  command.app->add_option("-o,--out", options->out, "The policy file to write (slipstream-tuned.toml)")
      ->type_name("FILE");
  command.app->add_flag("--force", options->force, kForceHelp);
  command.app->add_flag("--resume", options->resume,
                        "Go on with a search that was interrupted, or whose time was over "
                        "(FILE.journal)");
  command.app->add_option("--policy", options->policy, "Policy file (TOML) to begin with; default: the one in force")
      ->type_name("FILE");
  AddDuration(command.app, "--budget", &options->budget, "The time that all of it may take (30m)");
  command.app->add_option("-n,--pairs", options->pairs, "Pairs of runs in a contest of two policies, at most (6)")
      ->check(CLI::Range(3, 1000))
      ->type_name("N");
  command.app
      ->add_option("--only", options->only,
                   "Try this key of the policy, or this section of it, such as transfer.threads or allocator, and no "
                   "other; more than once: all that are named")
      ->allow_extra_args(false)
      ->type_name("KEY");
  command.app
      ->add_option("--try", options->environment,
                   "A variable of the environment that may be set, although it changes what is computed, such as "
                   "NVIDIA_TF32_OVERRIDE=1")
      ->allow_extra_args(false)
      ->type_name("NAME=VALUE");
  AddYardstick(command.app, &options->yardstick);
  command.app->add_flag("--json", options->json, kJsonHelp);
  command.takes_command = command.needs_command = true;
  command.run = [options](const std::vector<std::string>& words) {
    options->command = words;
    return slipstream::cli::Tune(*options, kVersion);
  };
}

void AddRecord(CommandLine* line) {
  const auto options = std::make_shared<slipstream::cli::RecordOptions>();
  Command& command = line->Add("record", "[OPTIONS] PID on|off", "Turn the recording of a running process on or off",
                               "Examples:\n"
                               "  SLIPSTREAM_TRACER_RECORD=paused slipstream run -- python train.py\n"
                               "  slipstream record 12345 on\n"
                               "  slipstream record 12345 off\n"
                               "Exit status: 0 the process has obeyed; 1 it cannot; 2 the command line is wrong.\n"
                               "`slipstream help trace` says what a trace with pauses has.");
  command.app->add_option("PID", options->pid, "The number of a process under `slipstream run`")->required();
  command.app->add_option("WHAT", options->what, "on or off")->required();
  command.run = [options](const std::vector<std::string>&) { return slipstream::cli::Record(*options); };
}

void AddTop(CommandLine* line) {
  const auto options = std::make_shared<slipstream::cli::TopOptions>();
  Command& command = line->Add("top", "[OPTIONS] [PID|RUN]", "Show what running programs do, while they run",
                               "Examples:\n"
                               "  slipstream top\n"
                               "  slipstream top 12345\n"
                               "  slipstream top --once --json | jq '.processes[].trace.steps.median_ns'\n"
                               "Exit status: 0 done; 1 there is nothing to show; 2 the command line is wrong.\n"
                               "`slipstream help top` says what each figure is.");
  command.app->add_option("RUN", options->run,
                          "The number of a process under slipstream or of what started it, or a run's directory; "
                          "default: all processes under slipstream on this machine that are yours (of root: all)");
  command.app->add_flag("--once", options->once, "Print one look as text, and end");
  command.app->add_flag("--json", options->json, "Print one JSON object a look, each in a line");
  AddDuration(command.app, "--interval", &options->interval_s, "From one look to the next; default: 1s", 0.1, 3600);
  command.run = [options](const std::vector<std::string>&) { return slipstream::cli::Top(*options); };
}

void AddSite(CommandLine* line) {
  using slipstream::site::By;
  const auto options = std::make_shared<slipstream::cli::SiteOptions>();
  const auto since_s = std::make_shared<double>(0);
  Command& command =
      line->Add("site", "[OPTIONS] [DIR]", "Say what the runs of all users gained, and where they failed",
                "Examples:\n"
                "  slipstream site /srv/slipstream\n"
                "  slipstream site --since 7d --by user\n"
                "Each run leaves its summary in the directory that run.summaries of the policy\n"
                "names (`slipstream help site`).\n"
                "Exit status: 0 done; 1 the directory cannot be read; 2 the command line is\n"
                "wrong, or no directory is named and the policy has none.");
  command.app->add_option("DIR", options->directory, "The summaries' directory; default: that of run.summaries");
  CLI::Option* const since = AddDuration(command.app, "--since", since_s.get(),
                                         "Only runs that ended in this time before now, such as 7d; 100d at most");
  const auto by = [options](const std::string& name) {
    for (const By one : slipstream::site::kAllBy) {
      if (name == slipstream::site::NameOf(one)) options->by = one;
    }
  };
  command.app->add_option_function<std::string>("--by", by, "Only one table: by user, program or version")
      ->type_name("WHAT")
      ->check(CLI::IsMember({"user", "program", "version"}));
  command.app->add_flag("--json", options->json, kJsonHelp);
  command.run = [options, since, since_s](const std::vector<std::string>&) {
    if (!since->empty()) {
      options->since_s = *since_s;
      options->since = since->results().front();
    }
    return slipstream::cli::Site(*options);
  };
}

void AddMetrics(CommandLine* line) {
  const auto options = std::make_shared<slipstream::cli::MetricsOptions>();
  Command& command = line->Add("metrics", "[OPTIONS]", "Print what runs under slipstream here, for Prometheus",
                               "Examples:\n"
                               "  slipstream metrics\n"
                               "  slipstream metrics --interval 15s \\\n"
                               "    --output /var/lib/node_exporter/textfile/slipstream.prom\n"
                               "With --interval it goes on until SIGTERM or SIGINT, and then removes the file.\n"
                               "Exit status: 0 done; 1 the file cannot be written; 2 the command line is wrong.\n"
                               "`slipstream help site` says what each metric is.");
  CLI::Option* const output =
      command.app
          ->add_option("--output", options->output, "Replace this file, for the textfile collector of node_exporter")
          ->type_name("FILE");
  AddDuration(command.app, "--interval", &options->interval_s, "Write it again and again, from one time to the next", 1,
              3600)
      ->needs(output);
  command.app->add_flag("--openmetrics", options->open_metrics,
                        "The format OpenMetrics; default: the text format of Prometheus, which node_exporter reads");
  command.run = [options](const std::vector<std::string>&) {
    options->version = kVersion;
    return slipstream::cli::Metrics(*options);
  };
}

void AddExport(CommandLine* line) {
  const auto options = std::make_shared<slipstream::cli::ExportOptions>();
  Command& command = line->Add("export", "[OPTIONS] [RUN...]", "Write a recorded run in formats that other tools read",
                               "Examples:\n"
                               "  slipstream export slipstream-trace-... --sqlite run.sqlite\n"
                               "  slipstream export slipstream-trace-... --perfetto run.pftrace.gz --rank 0\n"
                               "  slipstream export slipstream-trace-... --sqlite run.db --chrome run.json.gz\n"
                               "Exit status: 0 done; 1 a file could not be made; 2 the command line is wrong; 3\n"
                               "all are there, and lack what could not be read. With --check: 0 nothing is\n"
                               "missing and nothing contradicts; 1 something is or does; 2 it cannot be read.\n"
                               "`slipstream help export` describes the formats, `slipstream help trace` the\n"
                               "check.");
  CLI::App* const app = command.app;
  AddRuns(app, options,
          "The run's directory, or one spool file in it; for other formats than --sqlite, also its database; several "
          "directories or files are one run whose ranks were recorded apart; default: the newest run in the working "
          "directory");
  app->add_option("--sqlite", options->sqlite,
                  "Write an SQLite database, in the table layout of Nsight Systems' export")
      ->type_name("FILE");
  app->add_option("--chrome", options->chrome,
                  "Write Chrome's JSON, as the PyTorch profiler does; compressed where FILE ends in .gz")
      ->type_name("FILE");
  app->add_option("--perfetto", options->perfetto,
                  "Write a trace for the Perfetto UI; compressed where FILE ends in .gz")
      ->type_name("FILE");
  app->add_option("--allocations", options->allocations,
                  "Write what was allocated and freed, to be replayed; compressed where FILE ends in .gz")
      ->type_name("FILE");
  app->add_option("--rank", options->rank,
                  "Only the processes of this rank (--chrome, --perfetto, --allocations; a database has all)")
      ->type_name("N");
  app->add_flag("--force", options->force, kForceHelp);
  app->add_flag("--check", options->check, "Write no file: say what the run has, lacks and contradicts");
  app->add_flag("--json", options->json, "Say as JSON what was exported, or checked");
  AddInput(app, &options->input);
  command.run = [options](const std::vector<std::string>&) {
    const bool has_format =
        options->sqlite || options->chrome || options->perfetto || options->allocations || options->check;
    if (has_format && !HasRun("export", "RUN --sqlite FILE (or another format)", &options->run)) return kUsage;
    return slipstream::cli::Export(*options, kVersion);
  };
}

void AddPolicyFiles(CommandLine* line, CLI::App* above) {
  const auto file = std::make_shared<std::optional<std::string>>();
  Command& check = line->Add("check", "[FILE]", "Check policy files; every problem with its line and column",
                             "Exit status: 0 all are well; 1 there is a problem.", above);
  check.app->add_option("FILE", *file, "Policy file (TOML); default: every file that is looked for here");
  check.run = [file](const std::vector<std::string>&) { return slipstream::cli::PolicyCheck(*file); };

  const auto json = std::make_shared<bool>(false);
  Command& show = line->Add("show", "[OPTIONS] [FILE]", "Show the policy in force and where each value comes from",
                            "Exit status: 0 done; 1 a policy is refused.", above);
  show.app->add_option("FILE", *file, kPolicyHelp);
  show.app->add_flag("--json", *json, kJsonHelp);
  show.run = [file, json](const std::vector<std::string>&) { return slipstream::cli::PolicyShow(*file, *json); };

  const auto place = std::make_shared<std::string>();
  const auto force = std::make_shared<bool>(false);
  Command& init = line->Add("init", "[OPTIONS] FILE", "Write a policy file with every key, its default and its meaning",
                            "Exit status: 0 the file is there; 1 it is not.", above);
  init.app->add_option("FILE", *place, "Where to")->required();
  init.app->add_flag("--force", *force, kForceHelp);
  init.run = [place, force](const std::vector<std::string>&) { return slipstream::cli::PolicyInit(*place, *force); };
}

void AddPolicy(CommandLine* line) {
  CLI::App* const above =
      line->Add("policy", "COMMAND [OPTIONS]", "Check, show, compare, explain or write policy files",
                "`slipstream help policy` has every key.")
          .app;
  above->require_subcommand(1);
  AddPolicyFiles(line, above);

  const auto compared = std::make_shared<slipstream::cli::DiffOptions>();
  Command& diff = line->Add("diff", "[OPTIONS] A [B]", "Say key by key what differs between two policies",
                            "Example:\n"
                            "  slipstream policy diff default effective\n"
                            "Exit status: 0 they are the same; 1 they differ; 2 one cannot be had.",
                            above);
  diff.app->add_option("A", compared->a, "A policy file, or default, system, user, project or effective")->required();
  diff.app->add_option("B", compared->b, "The same; default: effective, what holds for `slipstream run` from here");
  diff.app->add_flag("--json", compared->json, kJsonHelp);
  diff.run = [compared](const std::vector<std::string>&) { return slipstream::cli::PolicyDiff(*compared); };

  const auto explained = std::make_shared<slipstream::cli::ExplainOptions>();
  Command& explain = line->Add("explain", "[OPTIONS] --size SIZE --direction WHICH",
                               "Say what becomes of a copy, and which line of the policy decides it",
                               "Example:\n"
                               "  slipstream policy explain --size 80MB --direction h2d --site train.py:42\n"
                               "Exit status: 0 done; 1 a policy is refused; 2 the command line is wrong.",
                               above);
  explain.app->add_option("--size", explained->size, "Of the copy: bytes, or like 80MB, 512KiB")
      ->required()
      ->type_name("SIZE");
  explain.app->add_option("--direction", explained->direction, "h2d: to the device; d2h: to the host")
      ->required()
      ->type_name("WHICH");
  explain.app->add_option("--device", explained->device, "The device's number; default: 0")->type_name("N");
  explain.app->add_option("--site", explained->site, "Where it is made, like train.py:42; default: nobody knows")
      ->type_name("PLACE");
  explain.app->add_option("--policy", explained->policy, kPolicyHelp)->type_name("FILE");
  explain.app->add_flag("--json", explained->json, kJsonHelp);
  explain.run = [explained](const std::vector<std::string>&) { return slipstream::cli::PolicyExplain(*explained); };
}

void AddDemo(CommandLine* line) {
  const auto options = std::make_shared<slipstream::cli::DemoOptions>();
  Command& command =
      line->Add("demo", "[OPTIONS]", "Show slipstream at work on a small training program, and what to do next",
                "With a GPU and PyTorch (and torchvision) it trains a small ResNet; elsewhere a\n"
                "training loop on a simulated device, which `pip install 'slipstream[demo]'`\n"
                "brings.\n"
                "Exit status: 0 both ran, and simulated losses agree; 1 something failed, or\n"
                "there is no device.");
  command.app->add_flag("--simulated", options->simulated, "Use the simulated device even where there is a GPU");
  command.run = [options](const std::vector<std::string>&) { return slipstream::cli::Demo(*options); };
}

void AddCompletion(CommandLine* line) {
  const auto shell = std::make_shared<std::string>();
  Command& command = line->Add("completion", "bash|zsh|fish", "Print a script that completes this command line",
                               "Example, in ~/.bashrc:\n"
                               "  source <(slipstream completion bash)\n"
                               "`slipstream help completion` has the others.\n"
                               "Exit status: 0 done; 2 the command line is wrong.");
  command.app->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command.run = [shell, line](const std::vector<std::string>&) {
    std::fputs(slipstream::cli::CompletionFor(line->app(), *shell, slipstream::cli::Topics()).c_str(), stdout);
    return std::fflush(stdout) == 0 ? kSuccess : slipstream::cli::kFailed;
  };
}

// CommandLine::Help has done it: here it only has a row in the overview.
void AddHelp(CommandLine* line) {
  const auto topic = std::make_shared<std::string>();
  Command& command = line->Add("help", "[TOPIC]", "Show the manual: a command's page, another one, or a rule of advice",
                               "Examples:\n"
                               "  slipstream help                 # the commands, the pages and the rules\n"
                               "  slipstream help report\n"
                               "  slipstream help effects\n"
                               "  slipstream help exposed-copies  # a rule of `slipstream advise`\n"
                               "On a terminal it uses $PAGER, or less. `man slipstream` has the same pages.\n"
                               "Exit status: 0 done; 2 there is no such topic.");
  command.app->add_option("TOPIC", *topic, "What `slipstream help` lists; default: the list");
}

int Main(int argc, char** argv) {
  CommandLine line;
  AddRun(&line);
  AddSummary(&line);
  AddReport(&line);
  AddAdvise(&line);
  AddCompare(&line);
  AddTune(&line);
  AddTop(&line);
  AddSite(&line);
  AddMetrics(&line);
  AddRecord(&line);
  AddExport(&line);
  AddPolicy(&line);
  AddDoctor(&line);
  AddDemo(&line);
  AddCompletion(&line);
  AddHelp(&line);
  return line.Run(std::vector<std::string>(argv + 1, argv + argc));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    // Not for people: what the root of a run executes as it exits (shim/run_root.h).
    if (argc == 4 && std::string_view(argv[1]) == "end-of-run") return slipstream::cli::EndRunOfRoot(argv[2], argv[3]);
    slipstream::cli::KnowArguments(argc, argv);
    return Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "slipstream: %s\n", error.what());  // out of memory, in practice
  }
  return slipstream::cli::kCannotStart;
}
