// The command line of slipstream. Parsing only: what a command does is in the file of its name.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "tools/cli/doctor.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/export.h"
#include "tools/cli/policy_command.h"
#include "tools/cli/policy_explain.h"
#include "tools/cli/report_command.h"
#include "tools/cli/run.h"

namespace {

using slipstream::cli::DoctorOptions;
using slipstream::cli::RunOptions;

constexpr char kFooter[] =
    "Exit status: that of COMMAND where one was run (128 + N, and the same signal, when a signal N ended it);\n"
    "1 a check found problems, or what was asked for could not be made; 2 the command line is wrong;\n"
    "3 an export or a report is there and lacks what could not be read; 125 slipstream could not start the command;\n"
    "126 COMMAND cannot be executed; 127 COMMAND was not found.";

// What stands behind "--" is the command, untouched: CLI11 never sees it.
std::vector<std::string> TakeCommand(std::vector<std::string>& arguments, bool* found) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] != "--") continue;
    *found = true;
    std::vector<std::string> command(arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1, arguments.end());
    arguments.resize(i);
    return command;
  }
  *found = false;
  return {};
}

int Main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  bool has_separator = false;
  const std::vector<std::string> command = TakeCommand(arguments, &has_separator);

  CLI::App app("Makes unmodified PyTorch training faster and explains where the time goes.", "slipstream");
  app.set_version_flag("--version", "slipstream " SLIPSTREAM_VERSION);
  app.require_subcommand(1);
  app.footer(kFooter);

  RunOptions run;
  CLI::App* run_command =
      app.add_subcommand("run", "Run a command under slipstream:  slipstream run [options] -- COMMAND...");
  run_command->add_option("--policy", run.policy, "Policy file (TOML)");
  run_command->add_option("--summary", run.summary, "Write the summary to this file, as JSON");
  run_command->add_flag("--record", run.record,
                        "Record every call; the trace stays in a folder slipstream-trace-... of the working directory");
  run_command->add_flag("--quiet", run.quiet, "Print no summary at the end");

  DoctorOptions doctor;
  CLI::App* doctor_command = app.add_subcommand(
      "doctor", "Say what slipstream finds here and which hooks bind:  slipstream doctor [options] [-- COMMAND...]");
  doctor_command->add_option("--policy", doctor.policy, "Policy file (TOML)");
  doctor_command->add_flag("--json", doctor.json, "Print JSON");

  slipstream::cli::ExportOptions exported;
  CLI::App* export_command = app.add_subcommand(
      "export", "Write a recorded run in a format that other tools read:  slipstream export RUN --sqlite FILE");
  export_command->add_option("RUN", exported.run,
                             "The run's directory, or one spool file in it; for other formats, also its database");
  export_command->add_option("--sqlite", exported.sqlite,
                             "Write an SQLite database, in the table layout of Nsight Systems' export");
  export_command->add_option("--chrome", exported.chrome,
                             "Write Chrome's JSON, as the PyTorch profiler does; compressed where FILE ends in .gz");
  export_command->add_option("--perfetto", exported.perfetto,
                             "Write a trace for the Perfetto UI; compressed where FILE ends in .gz");
  export_command->add_option("--rank", exported.rank, "Only the processes of this rank (--chrome, --perfetto)");
  export_command->add_flag("--force", exported.force, "Replace a file that is there");
  export_command->add_flag("--json", exported.json, "Say as JSON what was exported");

  slipstream::cli::ReportCommandOptions reported;
  CLI::App* report_command =
      app.add_subcommand("report", "Say where the time of a recorded run went:  slipstream report RUN");
  report_command->add_option("RUN", reported.run, "The run's directory, one spool file in it, or a database of it");
  report_command->add_option("--html", reported.html, "Write a page with plots, to be read without a network");
  report_command->add_flag("--force", reported.force, "Replace a file that is there");
  report_command->add_flag("--json", reported.json, "Print JSON");

  CLI::App* policy_command = app.add_subcommand("policy", "Check, show, explain or write policy files");
  policy_command->require_subcommand(1);
  std::string policy_file;
  std::optional<std::string> shown_file;
  bool json = false;
  bool force = false;
  CLI::App* check =
      policy_command->add_subcommand("check", "Check a policy file; every problem with its line and column");
  check->add_option("FILE", policy_file, "Policy file (TOML)")->required();
  CLI::App* show = policy_command->add_subcommand("show", "Show the policy in force and where each value comes from");
  show->add_option("FILE", shown_file, "Policy file (TOML); default: SLIPSTREAM_POLICY, else the defaults");
  show->add_flag("--json", json, "Print JSON");
  slipstream::cli::ExplainOptions explained;
  CLI::App* explain =
      policy_command->add_subcommand("explain", "Say what becomes of a copy, and which line of the policy decides it");
  explain->add_option("--size", explained.size, "Of the copy: bytes, or like 80MB, 512KiB")->required();
  explain->add_option("--direction", explained.direction, "h2d: to the device; d2h: to the host")->required();
  explain->add_option("--device", explained.device, "The device's number; default: 0");
  explain->add_option("--site", explained.site, "Where it is made, like train.py:42; default: nobody knows");
  explain->add_option("--policy", explained.policy,
                      "Policy file (TOML); default: SLIPSTREAM_POLICY, else the defaults");
  explain->add_flag("--json", explained.json, "Print JSON");
  CLI::App* init =
      policy_command->add_subcommand("init", "Write a policy file with every key, its default and its meaning");
  init->add_option("FILE", policy_file, "Where to")->required();
  init->add_flag("--force", force, "Replace a file that is there");

  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // what CLI11 takes
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? slipstream::cli::kSuccess : slipstream::cli::kUsage;
  }

  if (has_separator && !run_command->parsed() && !doctor_command->parsed()) {
    std::fprintf(stderr, "slipstream: only `run` and `doctor` take a command after --\n");
    return slipstream::cli::kUsage;
  }
  if (run_command->parsed()) {
    if (command.empty()) {
      std::fprintf(stderr, "slipstream: no command. Write:  slipstream run [options] -- COMMAND...\n");
      return slipstream::cli::kUsage;
    }
    run.command = command;
    return slipstream::cli::Run(run);
  }
  if (doctor_command->parsed()) {
    doctor.command = command;
    return slipstream::cli::Doctor(doctor, SLIPSTREAM_VERSION);
  }
  if (export_command->parsed()) {
    const bool has_format = exported.sqlite || exported.chrome || exported.perfetto;
    if (has_format && exported.run.empty()) {
      std::fprintf(stderr,
                   "slipstream: no run. Write:  slipstream export RUN --sqlite FILE (or --chrome, --perfetto)\n");
      return slipstream::cli::kUsage;
    }
    return slipstream::cli::Export(exported, SLIPSTREAM_VERSION);
  }
  if (report_command->parsed()) {
    if (reported.run.empty()) {
      std::fprintf(stderr, "slipstream: no run. Write:  slipstream report RUN\n");
      return slipstream::cli::kUsage;
    }
    return slipstream::cli::Report(reported, SLIPSTREAM_VERSION);
  }
  if (check->parsed()) return slipstream::cli::PolicyCheck(policy_file);
  if (show->parsed()) return slipstream::cli::PolicyShow(shown_file, json);
  if (explain->parsed()) return slipstream::cli::PolicyExplain(explained);
  return slipstream::cli::PolicyInit(policy_file, force);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "slipstream: %s\n", error.what());  // out of memory, in practice
  }
  return slipstream::cli::kCannotStart;
}
