// `slipstream run` as a user meets it.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>

#include "tests/preload/counts.h"
#include "tests/support/plain_build.h"
#include "tests/support/process.h"

namespace slipstream::test {
namespace {

Finished RunUnder(const std::vector<std::string>& options, const std::vector<std::string>& command,
                  Variables variables = {}, const std::string& input = "") {
  std::vector<std::string> words = {SLIPSTREAM_COMMAND, "run"};
  words.insert(words.end(), options.begin(), options.end());
  words.emplace_back("--");
  words.insert(words.end(), command.begin(), command.end());
  const Variables sanitized = Preload("");
  if (sanitized.count("ASAN_OPTIONS") != 0) variables.try_emplace("ASAN_OPTIONS", sanitized.at("ASAN_OPTIONS"));
  return RunProgram(words, variables, input);
}

TEST(RunCommandTest, OutputAndInputPassThrough) {
  NEEDS_PLAIN_BUILD();
  const Finished finished = RunUnder({"--quiet"}, {"sh", "-c", "cat; echo err >&2"}, {}, "hello\n");
  EXPECT_EQ(finished.out, "hello\n");
  EXPECT_EQ(finished.err, "err\n");
  EXPECT_EQ(finished.status, 0);
}

TEST(RunCommandTest, ExitStatusPassesThrough) {
  NEEDS_PLAIN_BUILD();
  for (const int status : {0, 1, 3, 125, 127, 255}) {
    const std::string script = "exit " + std::to_string(status);
    EXPECT_EQ(RunUnder({"--quiet"}, {"sh", "-c", script}).status, status);
    EXPECT_EQ(RunUnder({}, {"sh", "-c", script}).status, status);
  }
}

TEST(RunCommandTest, DeathBySignalPassesThrough) {
  NEEDS_PLAIN_BUILD();
  for (const int number : {SIGTERM, SIGKILL, SIGSEGV, SIGINT}) {
    const std::string script = "kill -" + std::to_string(number) + " $$";
    EXPECT_EQ(RunUnder({}, {"sh", "-c", script}).status, 128 + number);
  }
}

TEST(RunCommandTest, MissingAndForbiddenCommands) {
  const Finished missing = RunUnder({}, {"no-such-command-anywhere"});
  EXPECT_EQ(missing.status, 127);
  EXPECT_NE(missing.err.find("no-such-command-anywhere: No such file"), std::string::npos) << missing.err;
  EXPECT_EQ(RunUnder({"--quiet"}, {"no-such-command-anywhere"}).status, 127);
  EXPECT_EQ(RunUnder({}, {"/etc"}).status, 126);
}

TEST(RunCommandTest, CommandLineErrors) {
  EXPECT_EQ(RunProgram({SLIPSTREAM_COMMAND, "run"}).status, 2);
  EXPECT_EQ(RunProgram({SLIPSTREAM_COMMAND, "run", "--"}).status, 2);
  EXPECT_EQ(RunProgram({SLIPSTREAM_COMMAND, "run", "--nonsense", "--", "true"}).status, 2);
  EXPECT_EQ(RunProgram({SLIPSTREAM_COMMAND, "policy", "check", "--", "true"}).status, 2);
  EXPECT_EQ(RunProgram({SLIPSTREAM_COMMAND}).status, 2);
  EXPECT_EQ(RunProgram({SLIPSTREAM_COMMAND, "--help"}).status, 0);
  const Finished version = RunProgram({SLIPSTREAM_COMMAND, "--version"});
  EXPECT_EQ(version.out.rfind("slipstream 0.", 0), 0U) << version.out;
}

TEST(RunCommandTest, OptionsOfTheCommandAreTheCommands) {
  NEEDS_PLAIN_BUILD();
  const Finished finished = RunUnder({"--quiet"}, {"echo", "--help", "--", "--policy", "-x"});
  EXPECT_EQ(finished.out, "--help -- --policy -x\n");
}

TEST(RunCommandTest, S52_C3_ExistingPreloadsAreKeptBehindOurs) {
  NEEDS_PLAIN_BUILD();
  const Finished finished = RunUnder({"--quiet"}, {"sh", "-c", "echo $LD_PRELOAD"}, {{"LD_PRELOAD", INTERPOSER}});
  EXPECT_EQ(finished.out, std::string(SLIPSTREAM_LIBRARY) + ":" + INTERPOSER + "\n");
}

TEST(RunCommandTest, EnvironmentOfThePolicyYieldsToTheUsers) {
  NEEDS_PLAIN_BUILD();
  const std::string policy = NewDirectory() + "/policy.toml";
  WriteFile(policy, "version = 1\n[environment]\nFRUIT = \"apple\"\nTREE = \"oak\"\n");
  const Finished finished =
      RunUnder({"--quiet", "--policy", policy}, {"sh", "-c", "echo $FRUIT $TREE"}, {{"TREE", "elm"}});
  EXPECT_EQ(finished.out, "apple elm\n");
}

// H12: a Kubernetes service of the name sets such ones, and the job has them as it would bare.
TEST(RunCommandTest, OtherPeoplesVariablesAreNoneOfOurs) {
  NEEDS_PLAIN_BUILD();
  const Variables others = {{"SLIPSTREAM_HOME", "/opt/slipstream"}, {"SLIPSTREAM_PORT", "tcp://10.0.0.1:80"}};
  const Finished finished = RunUnder({"--quiet"}, {"sh", "-c", "echo $SLIPSTREAM_HOME $SLIPSTREAM_PORT"}, others);
  EXPECT_EQ(finished.status, 0);
  EXPECT_EQ(finished.out, "/opt/slipstream tcp://10.0.0.1:80\n");
  EXPECT_EQ(finished.err, "");
  const Finished slip = RunUnder({}, {"true"}, {{"SLIPSTREAM_LOG_LEVLE", "debug"}});
  EXPECT_NE(slip.err.find("did you mean \"SLIPSTREAM_LOG_LEVEL\"?"), std::string::npos) << slip.err;
}

TEST(RunCommandTest, ThePolicyReachesTheProcessFromAnyDirectory) {
  const std::string place = NewDirectory();
  WriteFile(place + "/policy.toml", "version = 1\n[tracer]\ncounters = \"calls\"\n");
  const std::string summary = place + "/summary.json";
  const std::string script = "cd " + place + " && exec " + SLIPSTREAM_COMMAND +
                             " run --quiet --policy policy.toml --summary " + summary + " -- env -C / " + PROGRAM +
                             " workload";
  NEEDS_PLAIN_BUILD();
  EXPECT_EQ(RunProgram({"sh", "-c", script}).status, 0);
  const auto json = nlohmann::json::parse(ReadFile(summary));
  for (const auto& function : json["totals"]["functions"]) EXPECT_EQ(function["time_ns"], 0);
  EXPECT_EQ(json["processes"][0]["facts"]["policy"], place + "/policy.toml");
}

TEST(RunCommandTest, S59_RefusesABrokenPolicyWithLineAndColumn) {
  const std::string place = NewDirectory();
  WriteFile(place + "/broken.toml", "version = 1\n[tracer]\nnvtx = \"maybe\"\ncountres = \"off\"\n");
  const Finished refused = RunUnder({"--policy", place + "/broken.toml"}, {"touch", place + "/ran"});
  EXPECT_EQ(refused.status, 125);
  EXPECT_EQ(refused.out, "");
  EXPECT_NE(refused.err.find("broken.toml:3:8"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("broken.toml:4:1"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("did you mean \"tracer.counters\""), std::string::npos) << refused.err;
  EXPECT_EQ(NamesIn(place), std::vector<std::string>{"broken.toml"}) << "the command must not have run";

  WriteFile(place + "/open.toml", "version = 1\n");
  chmod((place + "/open.toml").c_str(), 0666);
  EXPECT_EQ(RunUnder({"--policy", place + "/open.toml"}, {"true"}).status, 125);
  EXPECT_EQ(RunUnder({"--policy", place + "/missing.toml"}, {"true"}).status, 125);
  EXPECT_EQ(RunUnder({}, {"true"}, {{"SLIPSTREAM_TRACER_NVTX", "maybe"}}).status, 125);
}

// Once, whether it is the command or a process that has the library by other means.
TEST(RunCommandTest, AKeyThatIsGoneIsSaidAndTheCommandRuns) {
  const std::string policy = NewDirectory() + "/policy.toml";
  WriteFile(policy, "version = 1\n[allocator]\npinned = \"pool\"\n");
  const std::string note = "\"allocator.pinned\" has no effect any more: the pinned pool was removed";
  const auto said = [&note](const std::string& text) {
    const size_t first = text.find(note);
    return first != std::string::npos && text.find(note, first + 1) == std::string::npos;
  };
  const std::string bare = RunProgram({PROGRAM, "workload"}).out;
  const Variables variables = {{"SLIPSTREAM_ALLOCATOR_PINNED", "pool"}, {"SLIPSTREAM_LOG_LEVEL", "warn"}};
  Variables preloaded = Preload(SLIPSTREAM_LIBRARY);
  preloaded.insert(variables.begin(), variables.end());
  const Finished process = RunProgram({PROGRAM, "workload"}, preloaded);
  EXPECT_EQ(process.status, 0);
  EXPECT_EQ(process.out, bare);
  EXPECT_TRUE(said(process.err)) << process.err;

  NEEDS_PLAIN_BUILD();
  const Finished run = RunUnder({"--quiet", "--policy", policy}, {PROGRAM, "workload"});
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.out, bare);
  EXPECT_TRUE(run.err.starts_with("slipstream: " + policy + ":3:1: ")) << run.err;
  EXPECT_TRUE(said(run.err)) << run.err;
  const Finished set = RunUnder({"--quiet"}, {"sh", "-c", "exit 3"}, {{"SLIPSTREAM_ALLOCATOR_PINNED", "anything"}});
  EXPECT_EQ(set.status, 3);
  EXPECT_TRUE(said(set.err)) << set.err;
}

TEST(RunCommandTest, ASummaryThatCannotBeWrittenIsRefusedBeforeTheCommandRuns) {
  const std::string place = NewDirectory();
  const Finished refused = RunUnder({"--summary", place + "/no/such/place"}, {"touch", place + "/ran"});
  EXPECT_EQ(refused.status, 125);
  EXPECT_TRUE(NamesIn(place).empty());
}

TEST(RunCommandTest, TheJsonSummaryEqualsTheSimulatorsCounts) {
  const std::string place = NewDirectory();
  const Finished finished =
      RunUnder({"--quiet", "--summary", place + "/summary.json"}, {PROGRAM, "workload", "10"},
               {{"SIMCUDA_COUNTS", place + "/simulator.json"},
                {"SLIPSTREAM_TRANSFER_H2D", "off"},  // the engines' own calls are the driver's, not the runtime's
                {"SLIPSTREAM_TRANSFER_D2H", "off"},
                {"SLIPSTREAM_ALLOCATOR_MODE", "off"},
                {"RANK", "3"},
                {"LOCAL_RANK", "1"}});
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ(finished.err, "");
  const auto json = nlohmann::json::parse(ReadFile(place + "/summary.json"));
  EXPECT_EQ(json["schema"], "slipstream-summary-1");
  EXPECT_EQ(json["exit_status"], 0);
  ASSERT_EQ(json["processes"].size(), 1U);
  EXPECT_EQ(json["processes"][0]["rank"], 3);
  EXPECT_EQ(json["processes"][0]["local_rank"], 1);
  EXPECT_EQ(json["processes"][0]["runtimes"][0]["version"], 13000);
  CallCounts counted;
  for (const auto& function : json["totals"]["functions"]) counted[function["name"]] = function["calls"];
  EXPECT_EQ(counted, SimulatorCounts(place + "/simulator.json", "libcudart.so.13"));
}

TEST(RunCommandTest, SummaryLinesAddUp) {
  const std::string place = NewDirectory();
  const Finished finished = RunUnder({"--summary", place + "/summary.json"}, {PROGRAM, "workload", "10"});
  const auto json = nlohmann::json::parse(ReadFile(place + "/summary.json"));
  uint64_t calls = 0;
  for (const auto& function : json["totals"]["functions"]) calls += function["calls"].get<uint64_t>();
  // "slipstream: N CUDA calls, ..." and the column of calls, the "all" line apart.
  EXPECT_NE(finished.err.find("slipstream: " + std::to_string(calls) + " CUDA calls"), std::string::npos)
      << finished.err;
  std::istringstream lines(finished.err.substr(finished.err.find("errors\n") + 7));
  uint64_t sum = 0;
  bool saw_all = false;
  for (std::string line; std::getline(lines, line) && !saw_all;) {
    std::string number = line.substr(38, 13);
    number.erase(std::remove(number.begin(), number.end(), ','), number.end());
    saw_all = line.rfind("  all ", 0) == 0;
    if (saw_all) {
      EXPECT_EQ(std::stoull(number), sum);
    } else {
      sum += std::stoull(number);
    }
  }
  EXPECT_TRUE(saw_all) << finished.err;
  EXPECT_EQ(sum, calls);
}

TEST(RunCommandTest, C4_SeeingNothingIsSaid) {
  NEEDS_PLAIN_BUILD();
  const Finished finished = RunUnder({}, {"true"});
  EXPECT_NE(finished.err.find("true left no counts: it made no CUDA call that slipstream sees"), std::string::npos)
      << finished.err;
  EXPECT_EQ(finished.err.find("[children]"), std::string::npos) << finished.err;
  const Finished chosen = RunUnder({}, {"true"}, {{"SLIPSTREAM_CHILDREN_PRELOAD", "none"}});
  EXPECT_NE(test::Unwrapped(chosen.err).find("only as far as the policy's [children] says"), std::string::npos)
      << chosen.err;
}

TEST(RunCommandTest, SeveralProcessesAreShownSideBySide) {
  NEEDS_PLAIN_BUILD();
  const std::string place = NewDirectory();
  const std::string both = std::string(PROGRAM) + " workload & RANK=1 " + PROGRAM + " workload; wait";
  const Finished finished = RunUnder({"--summary", place + "/summary.json"}, {"sh", "-c", both});
  const auto json = nlohmann::json::parse(ReadFile(place + "/summary.json"));
  EXPECT_EQ(json["processes"].size(), 2U);
  EXPECT_NE(finished.err.find("2 processes"), std::string::npos) << finished.err;
  EXPECT_NE(finished.err.find("rank 1"), std::string::npos) << finished.err;
}

bool IsGoneSoon(const std::string& path) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (access(path.c_str(), F_OK) == 0) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

TEST(RunCommandTest, NothingIsLeftBehind) {
  NEEDS_PLAIN_BUILD();
  for (const char* end : {"exit 0", "exit 3", "kill -9 $$"}) {
    const std::string place = NewDirectory();
    const std::string script = "echo $SLIPSTREAM_RUN_DIRECTORY; test -d $SLIPSTREAM_RUN_DIRECTORY || echo missing; " +
                               std::string(PROGRAM) + " workload > /dev/null; ls $SLIPSTREAM_RUN_DIRECTORY | wc -l; " +
                               end;
    const Finished finished =
        RunUnder({"--summary", place + "/summary.json"}, {"sh", "-c", script}, {{"SLIPSTREAM_RUN_WATCHER", "on"}});
    std::istringstream lines(finished.out);
    std::string directory;
    std::string files;
    std::getline(lines, directory);
    std::getline(lines, files);
    EXPECT_EQ(files, "2") << "counters, and what the end needs to know; " << finished.out << finished.err;
    EXPECT_NE(directory, "");
    const bool killed = end[0] == 'k';
    EXPECT_TRUE(killed || access(directory.c_str(), F_OK) != 0) << directory;
    EXPECT_TRUE(IsGoneSoon(directory));  // by the watcher, where the command was killed
    EXPECT_EQ(NamesIn(place), std::vector<std::string>{"summary.json"});
  }
}

TEST(RunCommandTest, C7_DisabledMeansThatTheCommandRunsAsItIs) {
  NEEDS_PLAIN_BUILD();
  const Finished finished =
      RunUnder({"--policy", "/missing.toml"}, {"sh", "-c", "echo [$LD_PRELOAD]"}, {{"SLIPSTREAM_DISABLE", "1"}});
  EXPECT_EQ(finished.out, "[]\n");
  EXPECT_EQ(finished.err, "");
}

}  // namespace
}  // namespace slipstream::test
