// `slipstream compare` as a user and a script meet it. The commands that are compared print numbers of their own, so
// that nothing here depends on how long anything takes.

#include "tools/cli/compare_command.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/plain_build.h"
#include "tests/support/process.h"
#include "tools/cli/compare_sides.h"
#include "tools/cli/exit_codes.h"
#include "tools/compare/schedule.h"

namespace slipstream::cli {
namespace {

using test::Finished;
using test::NewDirectory;
using test::ReadFile;
using test::RunProgram;
using test::Variables;
using test::WriteFile;

Finished RunCompare(const std::vector<std::string>& options, const std::vector<std::string>& command,
                    const Variables& variables = {}) {
  std::vector<std::string> words = {SLIPSTREAM_COMMAND, "compare"};
  words.insert(words.end(), options.begin(), options.end());
  words.emplace_back("--");
  words.insert(words.end(), command.begin(), command.end());
  return RunProgram(words, variables);
}

Finished CompareScript(const std::vector<std::string>& options, const std::string& script,
                       const Variables& variables = {}) {
  return RunCompare(options, {"sh", "-c", script}, variables);
}

// A script that does one thing bare and another under slipstream.
std::string Either(const std::string& bare, const std::string& under) {
  return "if [ -z \"$LD_PRELOAD\" ]; then " + bare + "; else " + under + "; fi";
}

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(CompareCommandTest, AThroughput) {
  NEEDS_PLAIN_BUILD();
  const std::string script = Either("echo speed 100.0", "echo speed 200.0");
  const std::vector<std::string> options = {"-n", "3", "--metric", "speed (.*)", "--higher-is-better"};
  Finished finished = CompareScript(options, script);
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_TRUE(Has(finished.out, "FASTER: slipstream has 2.000 times the speed of bare")) << finished.out;
  EXPECT_TRUE(Has(finished.out, "NO CUDA CALL WAS SEEN")) << finished.out;
  EXPECT_TRUE(Has(finished.err, "slipstream compare: pair 3 of 3, slipstream: 200.0\n")) << finished.err;

  std::vector<std::string> json_options = options;
  json_options.emplace_back("--json");
  finished = CompareScript(json_options, script);
  const auto json = nlohmann::json::parse(finished.out);
  EXPECT_EQ(json["schema"], "slipstream-compare-1");
  EXPECT_EQ(json["exit_status"], 0);
  EXPECT_EQ(json["measured"], "metric");
  EXPECT_EQ(json["sides"][0]["figures"], nlohmann::json({100.0, 100.0, 100.0}));
  EXPECT_EQ(json["sides"][1]["figures"], nlohmann::json({200.0, 200.0, 200.0}));
  EXPECT_NEAR(json["speed_ratio"]["value"], 2, 1e-9);
  EXPECT_EQ(json["sides"][1]["cuda_calls"], 0);
  EXPECT_EQ(json["sides"][0]["cuda_calls"], nullptr);
}

TEST(CompareCommandTest, ATime) {
  NEEDS_PLAIN_BUILD();
  const Finished finished = CompareScript({"-n", "3", "--metric", "took ([0-9.]+)", "--lower-is-better"},
                                          Either("echo took 1.00 >&2", "echo took 2.00 >&2"));
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_TRUE(Has(finished.out, "SLOWER: slipstream has 0.500 times the speed of bare")) << finished.out;
}

TEST(CompareCommandTest, NoDifference) {
  NEEDS_PLAIN_BUILD();
  const Finished finished =
      CompareScript({"-n", "3", "--metric", "speed (.*)", "--higher-is-better"}, "echo speed 100.0");
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_TRUE(Has(finished.out, "NO DIFFERENCE FOUND: slipstream has 1.000 times")) << finished.out;
}

TEST(CompareCommandTest, FailIfSlower) {
  NEEDS_PLAIN_BUILD();
  const auto compare = [](const std::string& limit, const std::string& script, std::vector<std::string> options) {
    options.insert(options.end(), {"--metric", "took ([0-9.]+)", "--lower-is-better", "--fail-if-slower", limit});
    return CompareScript(options, script);
  };
  const std::string slower = Either("echo took 1.0000", "echo took 1.0500");
  Finished finished = compare("3%", slower, {"-n", "3"});
  EXPECT_EQ(finished.status, kSlower) << finished.err;
  EXPECT_TRUE(Has(finished.out, "  SLOWER BY MORE THAN 3 %: the whole interval lies beyond.\n")) << finished.out;
  finished = compare("3", slower, {"-n", "3", "--json"});
  EXPECT_EQ(finished.status, kSlower) << finished.err;
  auto json = nlohmann::json::parse(finished.out);
  EXPECT_EQ(json["exit_status"], kSlower);
  EXPECT_EQ(json["fail_if_slower"]["limit"], 0.03);
  EXPECT_EQ(json["fail_if_slower"]["verdict"], "slower");
  EXPECT_TRUE(json["fail_if_slower"]["pairs_to_tell"].is_null());
  finished = compare("8 %", slower, {"-n", "3"});
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_TRUE(Has(finished.out, "  Not slower by more than 8 %: the whole interval lies within.\n")) << finished.out;
  EXPECT_EQ(compare("3%", Either("echo took 1.0", "false"), {"-n", "3"}).status, kFailed) << "a failure says more";
  EXPECT_EQ(compare("3%", slower, {"-n", "2"}).status, kPartial) << "there is no interval";
  for (const std::string wrong : {"0.03x", "-3", "3%%", "three", "1001", "", "%", "3e0", "inf"}) {
    finished = compare(wrong, "true", {});
    EXPECT_EQ(finished.status, kUsage) << wrong;
    EXPECT_TRUE(Has(finished.err, "slipstream compare: --fail-if-slower: \"" + wrong + "\" is no percentage from 0 to"))
        << finished.err;
  }
}

TEST(CompareCommandTest, WhetherItIsSlowerMayNotBeTold) {
  NEEDS_PLAIN_BUILD();
  const std::string place = NewDirectory();
  // As long as bare, 4 % longer and 8 % longer.
  const std::string script = Either("echo took 1.0000", "echo x >> " + place + "/runs; case $(wc -l < " + place +
                                                            "/runs) in 1) echo took 1.0000;; 2) echo took "
                                                            "1.0400;; *) echo took 1.0800;; esac");
  const std::vector<std::string> options = {
      "-n", "3", "--warmup", "0", "--metric", "took ([0-9.]+)", "--json", "--lower-is-better", "--fail-if-slower",
      "1%"};
  const Finished finished = CompareScript(options, script);
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  const auto json = nlohmann::json::parse(finished.out);
  EXPECT_EQ(json["fail_if_slower"]["verdict"], "cannot_be_told") << json["speed_ratio"];
  EXPECT_GT(json["fail_if_slower"]["pairs_to_tell"], 3);
}

TEST(CompareCommandTest, WallTimeOfBothSides) {
  NEEDS_PLAIN_BUILD();
  const Finished finished = CompareScript({"-n", "3", "--json"}, "echo loss 1.5; echo done");
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  const auto json = nlohmann::json::parse(finished.out);
  EXPECT_EQ(json["measured"], "wall");
  for (const auto& side : json["sides"]) {
    EXPECT_EQ(side["runs"], 4);
    EXPECT_EQ(side["figures"], side["wall_seconds"]);
    for (const double seconds : side["figures"]) EXPECT_GT(seconds, 0);
  }
  EXPECT_EQ(json["results"]["verdict"], "same");
  EXPECT_EQ(json["results"]["repeating"], 1);
}

TEST(CompareCommandTest, TwoPairsAreTooFew) {
  NEEDS_PLAIN_BUILD();
  const Finished finished = CompareScript({"-n", "2", "--metric", "speed (.*)", "--higher-is-better"},
                                          Either("echo speed 100.0", "echo speed 200.0"));
  EXPECT_EQ(finished.status, kPartial);
  EXPECT_TRUE(Has(finished.out, "NOTHING CAN BE SAID")) << finished.out;
}

// The order, and that the bare side knows nothing of slipstream.
TEST(CompareCommandTest, BareIsBare) {
  NEEDS_PLAIN_BUILD();
  const std::string place = NewDirectory();
  const std::string script = "echo \"$LD_PRELOAD|$SLIPSTREAM_TRACER_NVTX|$SLIPSTREAM_POLICY\" >> " + place + "/seen";
  const Finished finished = CompareScript({"-n", "2", "--seed", "1"}, script,
                                          {{"LD_PRELOAD", SLIPSTREAM_LIBRARY}, {"SLIPSTREAM_TRACER_NVTX", "false"}});
  EXPECT_EQ(finished.status, kPartial) << finished.err;
  const std::string bare = "||\n";
  const std::string under = std::string(SLIPSTREAM_LIBRARY) + "|false|\n";
  // The side that has slipstream in it is looked at for steps first, and has none.
  std::string seen = under + bare;
  for (const auto& pair : compare::RandomOrders(2, 1)) seen += pair[0] == 0 ? bare + under : under + bare;
  EXPECT_EQ(ReadFile(place + "/seen"), seen);
  EXPECT_TRUE(Has(finished.out, "because its steps were not")) << finished.out;
  EXPECT_TRUE(Has(finished.out, "SLIPSTREAM_TRACER_NVTX.")) << "said to be in force\n" << finished.out;
}

// Drawn, said, and repeated if asked for.
TEST(CompareCommandTest, TheOrderOfTheSides) {
  NEEDS_PLAIN_BUILD();
  const auto firsts = [](const std::string& seed) {
    const Finished finished = CompareScript({"-n", "8", "--by", "wall", "--json", "--seed", seed}, "true");
    const auto json = nlohmann::json::parse(finished.out);
    EXPECT_EQ(json["seed"], std::stoul(seed));
    std::vector<std::string> names;
    for (const auto& pair : json["pairs"]) names.push_back(pair["first"]);
    return names;
  };
  for (const uint32_t seed : {5U, 4294967295U}) {
    std::vector<std::string> expected;
    for (const auto& pair : compare::RandomOrders(8, seed)) expected.emplace_back(pair[0] == 0 ? "bare" : "slipstream");
    EXPECT_EQ(firsts(std::to_string(seed)), expected);
  }
  const Finished finished = CompareScript({"-n", "1", "--by", "wall"}, "true");
  EXPECT_TRUE(Has(finished.out, "drawn with --seed ")) << finished.out;
  for (const std::string wrong : {"-1", "4294967296", "x"}) {
    EXPECT_EQ(CompareScript({"--seed", wrong}, "true").status, kUsage) << wrong;
  }
}

// Before each run, warm-ups too, without slipstream.
TEST(CompareCommandTest, WhatIsToBeDoneBeforeEachRun) {
  NEEDS_PLAIN_BUILD();
  const std::string place = NewDirectory();
  const std::string prepare = "echo \"[$LD_PRELOAD]\" >> " + place + "/prepared";
  Finished finished = RunCompare({"-n", "3", "--by", "wall", "--prepare", prepare}, {"true"});
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_EQ(ReadFile(place + "/prepared"), "[]\n[]\n[]\n[]\n[]\n[]\n[]\n[]\n");
  finished = RunCompare({"-n", "3", "--by", "wall", "--prepare", "echo no room; exit 3"}, {"touch", place + "/ran"});
  EXPECT_EQ(finished.status, kCommandFails);
  EXPECT_TRUE(Has(finished.out, "bare, a warm-up: --prepare: exit status 3: no room")) << finished.out;
  EXPECT_NE(access((place + "/ran").c_str(), F_OK), 0);
}

TEST(CompareCommandTest, Markdown) {
  NEEDS_PLAIN_BUILD();
  const Finished finished = CompareScript({"-n", "3", "--markdown", "--metric", "speed ([0-9]+)", "--higher-is-better"},
                                          Either("echo speed 100", "echo speed 120") + "; : a | cat");
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_TRUE(Has(finished.out,
                  "\n|  | bare | slipstream | speed ratio |\n| --- | ---: | ---: | ---: |\n"
                  "| median of 3 pairs | 100 | 120 | 1.200 |\n| max - min | 0.00 % | 0.00 % | 0.00 % |\n"))
      << finished.out;
  EXPECT_TRUE(Has(finished.out, "```text\n  FASTER: slipstream has 1.200 times the speed of bare")) << finished.out;
  EXPECT_TRUE(finished.out.ends_with("```\n")) << finished.out;
  EXPECT_EQ(CompareScript({"--json", "--markdown"}, "true").status, kUsage);
}

TEST(CompareCommandTest, NothingIsRead) {
  NEEDS_PLAIN_BUILD();
  const Finished finished = RunCompare({"-n", "1"}, {"cat"});
  EXPECT_EQ(finished.status, kPartial) << finished.err;
}

TEST(CompareCommandTest, ResultsThatDiffer) {
  NEEDS_PLAIN_BUILD();
  Finished finished = CompareScript({"-n", "3"}, Either("echo loss 1.25", "echo loss 1.26"));
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_TRUE(Has(finished.out, "RESULTS DIFFER: 1 line")) << finished.out;
  EXPECT_TRUE(Has(finished.out, "bare       says \"loss 1.25\"")) << finished.out;
  EXPECT_TRUE(Has(finished.out, "slipstream says \"loss 1.26\"")) << finished.out;
  finished = CompareScript({"-n", "3", "--result", "final (.*)"},
                           Either("echo loss 1.25; echo final 7", "echo loss 1.26; echo final 7"));
  EXPECT_EQ(finished.status, kSuccess) << finished.out;
}

TEST(CompareCommandTest, ARunThatFailsOnOneSide) {
  NEEDS_PLAIN_BUILD();
  Finished finished = CompareScript({"-n", "3"}, Either("echo fine", "echo the last words; exit 7"));
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_TRUE(Has(finished.out, "FAILS ON ONE SIDE ONLY: slipstream failed in 1 of 1 run")) << finished.out;
  EXPECT_TRUE(Has(finished.out, "exit status 7\n    | the last words\n")) << finished.out;
  EXPECT_FALSE(Has(finished.out, "times the speed")) << finished.out;
  finished = CompareScript({"-n", "3", "--json"}, Either("kill -SEGV $$", "true"));
  EXPECT_EQ(finished.status, kFailed);
  const auto json = nlohmann::json::parse(finished.out);
  EXPECT_EQ(json["outcome"], "fails_on_one_side");
  EXPECT_EQ(json["failures"][0]["side"], "bare");
  EXPECT_TRUE(json["failures"][0]["what"].get<std::string>().starts_with("killed by SIGSEGV"));
}

TEST(CompareCommandTest, ARunWithoutItsMetricFails) {
  NEEDS_PLAIN_BUILD();
  const Finished finished =
      CompareScript({"-n", "3", "--metric", "speed (.*)", "--higher-is-better"}, Either("echo speed 1", "echo sped 1"));
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_TRUE(Has(finished.out, "it prints nothing that --metric matches")) << finished.out;
}

TEST(CompareCommandTest, ARunThatFailsOnBothSides) {
  NEEDS_PLAIN_BUILD();
  const std::string place = NewDirectory();
  const Finished finished = CompareScript({"-n", "3"}, "echo x >> " + place + "/runs; exit 7");
  EXPECT_EQ(finished.status, kCommandFails);
  EXPECT_TRUE(Has(finished.out, "FAILS ON BOTH SIDES")) << finished.out;
  EXPECT_EQ(ReadFile(place + "/runs"), "x\nx\n") << "nothing further is run";
}

TEST(CompareCommandTest, ARunThatDoesNotEnd) {
  NEEDS_PLAIN_BUILD();
  const Finished finished = CompareScript({"-n", "3", "--timeout", "3"}, Either("true", "sleep 1000"));
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_TRUE(Has(finished.out, "still ran after 3 s (--timeout)")) << finished.out;
}

TEST(CompareCommandTest, TwoPolicies) {
  NEEDS_PLAIN_BUILD();
  const std::string place = NewDirectory();
  WriteFile(place + "/slow.toml", "version = 1\n[environment]\nSPEED = \"100.0\"\n");
  WriteFile(place + "/fast.toml", "version = 1\n[environment]\nSPEED = \"200.0\"\n");
  const std::vector<std::string> metric = {"-n", "3", "--metric", "speed (.+)", "--higher-is-better"};
  std::vector<std::string> options = metric;
  options.insert(options.end(), {"--policy", place + "/slow.toml", "--policy", place + "/fast.toml"});
  Finished finished = CompareScript(options, "echo speed $SPEED");
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_TRUE(Has(finished.out, "FASTER: B has 2.000 times the speed of A")) << finished.out;
  EXPECT_TRUE(Has(finished.out, "fast.toml")) << finished.out;
  // One policy: bare beside it.
  options = metric;
  options.insert(options.end(), {"--policy", place + "/fast.toml"});
  finished = CompareScript(options, "echo speed ${SPEED:-400}");
  EXPECT_TRUE(Has(finished.out, "SLOWER: slipstream has 0.500 times the speed of bare")) << finished.out;
}

TEST(CompareCommandTest, AnInterruptedComparisonSaysWhatItHas) {
  NEEDS_PLAIN_BUILD();
  const std::string place = NewDirectory();
  // The last run asks slipstream, its parent, to end, and leaves a process behind that does not hear it.
  const std::string script = "echo x >> " + place + "/runs; if [ $(wc -l < " + place +
                             "/runs) = 8 ]; then trap '' TERM; sleep 1000 & echo $! > " + place +
                             "/left; trap - TERM; kill -TERM $PPID; wait; fi; echo speed 7.0";
  const Finished finished =
      CompareScript({"-n", "5", "--warmup", "0", "--metric", "speed (.*)", "--higher-is-better"}, script);
  EXPECT_EQ(finished.status, 128 + SIGTERM);
  EXPECT_TRUE(Has(finished.out, "STOPPED EARLY: it was interrupted, with 3 of 5 pairs measured.")) << finished.out;
  EXPECT_TRUE(Has(finished.out, "NO DIFFERENCE FOUND")) << finished.out;
  EXPECT_NE(kill(std::stoi(ReadFile(place + "/left")), 0), 0) << "a process of the command still runs";
}

TEST(CompareCommandTest, WhatIsDoneBeforeARunIsInterrupted) {
  NEEDS_PLAIN_BUILD();
  const std::string prepare = "kill -TERM $PPID; sleep 1000";
  const Finished finished = RunCompare({"-n", "3", "--by", "wall", "--prepare", prepare}, {"true"});
  EXPECT_EQ(finished.status, 128 + SIGTERM);
  EXPECT_TRUE(Has(finished.out, "STOPPED EARLY: it was interrupted, with 0 of 3 pairs measured.")) << finished.out;
  EXPECT_FALSE(Has(finished.out, "--prepare")) << finished.out;
}

TEST(CompareCommandTest, ARunThatWasStoppedIsMadeAgain) {
  NEEDS_PLAIN_BUILD();
  const std::string place = NewDirectory();
  const std::string script = "echo x >> " + place + "/runs; if [ $(wc -l < " + place +
                             "/runs) = 1 ]; then p=$$; (until grep -q 'State:.T' /proc/$p/status; do :; done; kill "
                             "-CONT $p) & kill -STOP $$; wait; fi";
  const Finished finished = CompareScript({"-n", "3", "--warmup", "0"}, script);
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_TRUE(Has(finished.out, "made again: 1.")) << finished.out;
  EXPECT_EQ(ReadFile(place + "/runs"), "x\nx\nx\nx\nx\nx\nx\n");
}

TEST(CompareCommandTest, ABudget) {
  NEEDS_PLAIN_BUILD();
  const Finished finished = CompareScript({"-n", "3", "--budget", "0.000001"}, "true");
  EXPECT_EQ(finished.status, kPartial);
  EXPECT_TRUE(Has(finished.out, "is used up, with 0 of 3 pairs measured.")) << finished.out;
}

TEST(CompareCommandTest, NothingIsLeftBehind) {
  NEEDS_PLAIN_BUILD();
  const std::string place = NewDirectory();
  EXPECT_EQ(CompareScript({"-n", "3", "-v"}, "echo hello; echo $TMPDIR >&2", {{"TMPDIR", place}}).status, kSuccess);
  EXPECT_EQ(test::NamesIn(place), std::vector<std::string>{});
}

TEST(CompareCommandTest, TheOutputIsShownWhereAskedFor) {
  NEEDS_PLAIN_BUILD();
  const Finished finished = CompareScript({"-n", "1", "--warmup", "0", "-v"}, "echo hello; printf 'x\\033' >&2");
  EXPECT_TRUE(Has(finished.err, "--- pair 1 of 1, bare, standard output:\nhello\n")) << finished.err;
  EXPECT_TRUE(Has(finished.err, "standard error:\nx\\u001b")) << finished.err;
  EXPECT_FALSE(Has(CompareScript({"-n", "1"}, "echo hello").err, "hello"));
}

TEST(CompareCommandTest, WithoutStepsItIsWallTimeAndSaysSo) {
  NEEDS_PLAIN_BUILD();
  const Finished finished = CompareScript({"-n", "3", "--by", "steps"}, "true");
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_TRUE(Has(finished.out, "wall time of the whole command")) << finished.out;
  EXPECT_TRUE(Has(finished.out, "Note: Not by steps, as was asked: ")) << finished.out;
  EXPECT_TRUE(Has(finished.out, "the command itself, with nothing of slipstream in it")) << finished.out;
}

// A training loop in Python on the simulated device.
constexpr char kTrain[] =
    "import ctypes\n"
    "ctypes.CDLL('libcudart.so.13', ctypes.RTLD_GLOBAL)\n"
    "cuda = ctypes.CDLL(None)\n"
    "host = (ctypes.c_char * 4096)()\n"
    "device = ctypes.c_void_p()\n"
    "assert cuda.cudaMalloc(ctypes.byref(device), 4096) == 0\n"
    "for step in range(40):\n"
    "    cuda.cudaMemcpy(device, host, ctypes.c_size_t(4096), 1)\n"
    "    cuda.cudaMemset(device, 0, ctypes.c_size_t(64))\n"
    "    cuda.cudaDeviceSynchronize()\n"
    "print('loss', 1.5)\n";

bool HasCtypes() { return RunProgram({"python3", "-c", "import ctypes"}).status == 0; }

TEST(CompareCommandTest, Steps) {
  NEEDS_PLAIN_BUILD();
  if (!HasCtypes()) GTEST_SKIP() << "no python3 with ctypes";
  const std::string place = NewDirectory();
  WriteFile(place + "/train.py", kTrain);
  const Finished finished = RunCompare({"-n", "3", "--json"}, {"python3", place + "/train.py"},
                                       {{"LD_LIBRARY_PATH", SIMULATED_CUDA}, {"TMPDIR", place}});
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  const auto json = nlohmann::json::parse(finished.out);
  EXPECT_EQ(json["measured"], "steps");
  EXPECT_TRUE(Has(json["step_line"], "train.py:8")) << json["step_line"];
  EXPECT_TRUE(Has(json["sides"][0]["detail"], "every engine off")) << json["sides"][0]["detail"];
  for (const auto& side : json["sides"]) {
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_GT(side["figures"][i], 0);
      EXPECT_LT(side["figures"][i], side["wall_seconds"][i]);
    }
  }
  // Nobody asked for steps; what the whole command took stands beside them.
  EXPECT_EQ(json["why_no_steps"], nullptr);
  EXPECT_GT(json["whole_command"]["value"], 0);
  EXPECT_EQ(json["whole_command"]["confidence"], 0.99);
  EXPECT_GT(json["sides"][1]["cuda_calls"], 100);
  EXPECT_EQ(json["results"]["verdict"], "same");
  EXPECT_EQ(test::NamesIn(place), std::vector<std::string>{"train.py"});
}

// Not where wall time was asked for: then the bare side is bare.
TEST(CompareCommandTest, WallTimeWhereItIsAskedFor) {
  NEEDS_PLAIN_BUILD();
  if (!HasCtypes()) GTEST_SKIP() << "no python3 with ctypes";
  const std::string place = NewDirectory();
  WriteFile(place + "/train.py", kTrain);
  const Finished finished = RunCompare({"-n", "1", "--by", "wall", "--json"}, {"python3", place + "/train.py"},
                                       {{"LD_LIBRARY_PATH", SIMULATED_CUDA}, {"TMPDIR", place}});
  const auto json = nlohmann::json::parse(finished.out);
  EXPECT_EQ(json["measured"], "wall");
  EXPECT_EQ(json["whole_command"], nullptr);
  EXPECT_EQ(json["why_no_steps"], nullptr) << "nobody looked";
  EXPECT_EQ(json["sides"][0]["detail"], kBareDetail);
}

TEST(CompareCommandTest, TwoCommands) {
  NEEDS_PLAIN_BUILD();
  const std::string script = "echo libraries $(echo \"$LD_PRELOAD\" | grep -c libslipstream); echo speed ";
  const Finished finished =
      RunCompare({"-n", "3", "--json", "--commands", "--metric", "speed ([0-9.]+)", "--higher-is-better"},
                 {"sh", "-c", script + "10.00", "--", "sh", "-c", script + "12.50"});
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  const auto json = nlohmann::json::parse(finished.out);
  EXPECT_NEAR(json["speed_ratio"]["value"], 1.25, 1e-9);
  EXPECT_TRUE(Has(json["sides"][0]["detail"], "10.00, under slipstream, policy: ")) << json["sides"][0]["detail"];
  EXPECT_TRUE(Has(json["sides"][1]["detail"], "12.50, under slipstream, policy: ")) << json["sides"][1]["detail"];
  EXPECT_EQ(json["results"]["verdict"], "same") << json["results"];
  EXPECT_EQ(json["results"]["numbers"], 1) << "both have the library: " << json["results"];
  for (const std::vector<std::string>& one : std::vector<std::vector<std::string>>{
           {"sh", "-c", "true"}, {"sh", "-c", "true", "--"}, {"--", "sh", "-c", "true"}}) {
    EXPECT_EQ(RunCompare({"--commands"}, one).status, kUsage);
  }
}

// As many pairs as fit, and that is not too few of anything.
TEST(CompareCommandTest, ATimeInsteadOfANumber) {
  NEEDS_PLAIN_BUILD();
  const Finished finished = CompareScript({"--time", "0.5s", "--by", "wall", "--json"}, "true");
  const auto json = nlohmann::json::parse(finished.out);
  EXPECT_EQ(json["asked_pairs"], nullptr);
  EXPECT_EQ(json["stopped"], nullptr);
  EXPECT_GE(json["pairs"].size(), 1U);
  EXPECT_EQ(CompareScript({"--time", "5x"}, "true").status, kUsage);
  EXPECT_EQ(CompareScript({"--time", "-5"}, "true").status, kUsage);
}

TEST(CompareCommandTest, TheCommandLine) {
  EXPECT_EQ(RunProgram({SLIPSTREAM_COMMAND, "compare"}).status, kUsage);
  EXPECT_EQ(RunProgram({SLIPSTREAM_COMMAND, "compare", "--"}).status, kUsage);
  EXPECT_EQ(RunProgram({SLIPSTREAM_COMMAND, "compare", "true"}).status, kUsage);
  for (const std::vector<std::string>& options :
       std::vector<std::vector<std::string>>{{"--nonsense"},
                                             {"-n", "0"},
                                             {"--by", "feeling"},
                                             {"--higher-is-better"},
                                             {"--metric", "(a)"},
                                             {"--metric", "(a)", "--higher-is-better", "--lower-is-better"},
                                             {"--metric", "a", "--higher-is-better"},
                                             {"--metric", "(a", "--higher-is-better"},
                                             {"--metric", "(a)", "--higher-is-better", "--by", "steps"},
                                             {"--result", "(a)(b)"},
                                             {"--policy", "a", "--policy", "b", "--policy", "c"}}) {
    EXPECT_EQ(RunCompare(options, {"true"}).status, kUsage) << options[0];
  }
  const Finished help = RunProgram({SLIPSTREAM_COMMAND, "compare", "--help"});
  EXPECT_EQ(help.status, kSuccess);
  EXPECT_TRUE(Has(help.out, "Exit status: 0 compared")) << help.out;
}

TEST(CompareCommandTest, WhatCannotBeStarted) {
  EXPECT_EQ(RunCompare({}, {"no-such-command-anywhere"}).status, kNotFound);
  EXPECT_EQ(RunCompare({}, {"/etc"}).status, kNotExecutable);
  EXPECT_EQ(RunCompare({"--policy", "/no/such/policy.toml"}, {"true"}).status, kCannotStart);
  const Finished disabled = RunCompare({}, {"true"}, {{"SLIPSTREAM_DISABLE", "1"}});
  EXPECT_EQ(disabled.status, kCannotStart);
  EXPECT_TRUE(Has(disabled.err, "SLIPSTREAM_DISABLE is set")) << disabled.err;
}

TEST(CompareSidesTest, WhatABareCommandGets) {
  const policy::Environment environment({{"HOME", "/h"},
                                         {"LD_PRELOAD", "/a/libslipstream.so:/b/x.so /c/libslipstream.so"},
                                         {"NVTX_INJECTION64_PATH", "/a/libslipstream.so"},
                                         {"SLIPSTREAM_RUN_DIRECTORY", "/r"},
                                         {"SLIPSTREAM_TRANSFER_H2D", "off"}});
  EXPECT_EQ(BareVariables(environment),
            (std::vector<std::pair<std::string, std::string>>{{"HOME", "/h"}, {"LD_PRELOAD", "/b/x.so"}}));
  EXPECT_TRUE(BareVariables(policy::Environment(Variables{{"LD_PRELOAD", "/a/libslipstream.so"}})).empty());
  const policy::Environment others({{"LD_PRELOAD", "/b/x.so:/b/y.so"}, {"NVTX_INJECTION64_PATH", "/opt/tool.so"}});
  EXPECT_EQ(BareVariables(others), others.variables());
}

// Rules of a policy outrank its keys and their variables, so no file of it may be read.
TEST(CompareSidesTest, EnginesAreOffWhereABareCommandIsRecorded) {
  const policy::Environment environment(
      Variables{{"SLIPSTREAM_TRANSFER_H2D", "on"}, {"SLIPSTREAM_ALLOCATOR_MODE", "segments"}});
  CompareSide side;
  side.bare = true;
  side.prepared.library = "/a/libslipstream.so";
  side.prepared.loaded = policy::LoadText(
      "version = 1\n[tracer]\nstacks = \"none\"\nmax_file = \"1MiB\"\nmax_threads = 7\nwindow = \"steps "
      "2-\"\n[environment]\nFRUIT = "
      "\"apple\"\n[[transfer.rule]]\npromote = true\n",
      "policy.toml", environment);
  ASSERT_TRUE(side.prepared.loaded.ok()) << side.prepared.loaded.problems[0].Format();
  side.prepared.loaded.layers = {{.layer = policy::Layer::kNamed, .path = "/policy.toml", .found = true}};
  ASSERT_EQ(side.prepared.loaded.policy.transfer.rules.size(), 1U);
  const auto has = [](const PreloadEnvironment& variables, const std::string& variable) {
    return std::find(variables.variables.begin(), variables.variables.end(), variable) != variables.variables.end();
  };
  const PreloadEnvironment recorded = VariablesOf(side, environment, true, "/r");
  EXPECT_TRUE(has(recorded, "LD_PRELOAD=/a/libslipstream.so"));
  EXPECT_TRUE(has(recorded, "SLIPSTREAM_RUN_DIRECTORY=/r"));
  EXPECT_FALSE(has(recorded, "FRUIT=apple"));

  // What a process makes of these variables.
  Variables variables;
  for (const std::string& variable : recorded.variables) {
    variables[variable.substr(0, variable.find('='))] = variable.substr(variable.find('=') + 1);
  }
  const policy::Environment read(variables);
  const policy::Loaded loaded = policy::Load({.path = {}, .env = read, .search = policy::Search::kProcess});
  ASSERT_TRUE(loaded.ok()) << loaded.problems[0].Format();
  EXPECT_EQ(loaded.Files(), "defaults");
  EXPECT_EQ(loaded.policy.allocator.mode, policy::AllocatorMode::kOff);
  EXPECT_EQ(loaded.policy.transfer.h2d, policy::TransferMode::kOff);
  EXPECT_EQ(loaded.policy.transfer.d2h, policy::TransferMode::kOff);
  EXPECT_FALSE(loaded.policy.transfer.unmap_in_background);
  EXPECT_TRUE(loaded.policy.transfer.rules.empty());
  EXPECT_EQ(loaded.policy.tracer.record, policy::Record::kOn);
  // Steps need lines, of all of the run, and nothing else.
  EXPECT_EQ(loaded.policy.tracer.stacks, policy::Stacks::kLine);
  EXPECT_EQ(loaded.policy.tracer.device, policy::DeviceWork::kOff);
  EXPECT_EQ(loaded.policy.tracer.window, "");
  EXPECT_EQ(loaded.policy.tracer.max_file, int64_t{1} << 20);
  EXPECT_EQ(loaded.policy.tracer.max_threads, 7);

  EXPECT_TRUE(VariablesOf(side, environment, false, "").variables.empty());
  side.bare = false;
  const PreloadEnvironment under = VariablesOf(side, environment, false, "/r");
  EXPECT_TRUE(has(under, "SLIPSTREAM_TRANSFER_H2D=on"));
  EXPECT_TRUE(has(under, "SLIPSTREAM_POLICY=/policy.toml"));
  EXPECT_TRUE(has(under, "SLIPSTREAM_TRACER_RECORD=off"));
  EXPECT_TRUE(has(under, "FRUIT=apple"));
}

}  // namespace
}  // namespace slipstream::cli
