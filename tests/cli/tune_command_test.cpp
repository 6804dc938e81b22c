// `slipstream tune` as a user meets it. The commands that are tuned print how fast they are, by the policy that they
// run under, so that nothing here depends on how long anything takes.

#include "tools/cli/tune_command.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "policy/load.h"
#include "tests/support/plain_build.h"
#include "tests/support/process.h"
#include "tools/cli/exit_codes.h"

namespace slipstream::cli {
namespace {

using test::Finished;
using test::NewDirectory;
using test::ReadFile;
using test::RunProgram;
using test::Variables;
using test::WriteFile;

const std::vector<std::string> kMetric = {"--metric", "speed ([0-9]+)", "--higher-is-better"};

// A training loop of `steps` steps on the simulated device.
constexpr char kTrain[] = R"(import ctypes
ctypes.CDLL('libcudart.so.13', ctypes.RTLD_GLOBAL)
cuda = ctypes.CDLL(None)
host = (ctypes.c_char * 4096)()
device = ctypes.c_void_p()
assert cuda.cudaMalloc(ctypes.byref(device), 4096) == 0
for step in range(steps):
    cuda.cudaMemcpy(device, host, ctypes.c_size_t(4096), 1)
    cuda.cudaMemset(device, 0, ctypes.c_size_t(64))
    cuda.cudaDeviceSynchronize()
)";

class TuneCommandTest : public ::testing::Test {
 protected:
  // A script that sets s, from 100, by the policy, and prints it.
  Finished Tune(const std::string& script, std::vector<std::string> options = {}, const Variables& variables = {}) {
    std::vector<std::string> words = {SLIPSTREAM_COMMAND, "tune", "-o", file_, "-n", "3"};
    words.insert(words.end(), kMetric.begin(), kMetric.end());
    words.insert(words.end(), options.begin(), options.end());
    for (const char* const word : {"--", "sh", "-c"}) words.emplace_back(word);
    words.push_back("s=100; " + script + "; echo speed $s");
    return RunProgram(words, variables);
  }
  static std::string With(const std::string& variable, const std::string& value, const std::string& then) {
    return "[ \"$" + variable + "\" = " + value + " ] && " + then;
  }
  policy::Loaded Written() const {
    return policy::LoadText(ReadFile(file_), "tuned.toml", policy::Environment(std::map<std::string, std::string>{}));
  }
  bool HasJournal() const { return access((file_ + ".journal").c_str(), F_OK) == 0; }
  static bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

  const std::string directory_ = NewDirectory();
  std::string file_ = directory_ + "/tuned.toml";
};

TEST_F(TuneCommandTest, FindsWhatIsFaster) {
  NEEDS_PLAIN_BUILD();
  const Finished finished =
      Tune(With("SLIPSTREAM_TRANSFER_THREADS", "1", "s=120") + "; " + With("SLIPSTREAM_TRANSFER_D2H", "off", "s=80"));
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_TRUE(Has(finished.out, "FASTER: 1.200 times as fast (99 %: 1.189 to 1.211, 3 pairs)")) << finished.out;
  EXPECT_TRUE(Has(finished.out, "transfer.d2h = \"off\"                  slower         0.800\n")) << finished.out;
  EXPECT_TRUE(Has(finished.err, "transfer.threads = 1: kept, ")) << finished.err;
  const policy::Loaded written = Written();
  ASSERT_TRUE(written.ok()) << ReadFile(file_);
  policy::Policy wanted;
  wanted.transfer.threads = 1;
  EXPECT_EQ(written.policy, wanted);
  EXPECT_FALSE(HasJournal());
}

// As `compare` judges: by steps where the first run shows some, by the wall time where it does not, or where that is
// asked for.
TEST_F(TuneCommandTest, MeasuresStepsWhereThereAreAny) {
  NEEDS_PLAIN_BUILD();
  if (RunProgram({"python3", "-c", "import ctypes"}).status != 0) GTEST_SKIP() << "no python3 with ctypes";
  WriteFile(directory_ + "/train.py", std::string("steps = 40\n") + kTrain);
  const auto measured = [&](std::vector<std::string> options, std::vector<std::string> command) {
    std::vector<std::string> words = {SLIPSTREAM_COMMAND, "tune",  "--force", "-o", file_,
                                      "--budget",         "0.001", "--json"};
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back("--");
    words.insert(words.end(), command.begin(), command.end());
    const Finished finished = RunProgram(words, {{"LD_LIBRARY_PATH", SIMULATED_CUDA}, {"TMPDIR", directory_}});
    EXPECT_EQ(finished.status, kSuccess) << finished.err;
    return nlohmann::json::parse(finished.out)["compared"].get<std::string>();
  };
  const std::vector<std::string> train = {"python3", directory_ + "/train.py"};
  EXPECT_EQ(measured({}, train), "the mean time of a step, with every call recorded");
  EXPECT_EQ(measured({"--by", "wall"}, train), "the wall time of the command");
  EXPECT_EQ(measured({}, {"true"}), "the wall time of the command");
}

// A run whose steps are not found says nothing of its policy, nor that the command fails.
TEST_F(TuneCommandTest, ARunWithoutStepsIsMadeAgain) {
  NEEDS_PLAIN_BUILD();
  if (RunProgram({"python3", "-c", "import ctypes"}).status != 0) GTEST_SKIP() << "no python3 with ctypes";
  // The second and the fifth run make one step only.
  WriteFile(directory_ + "/train.py",
            "import os\nruns = os.path.dirname(__file__) + '/runs'\n"
            "open(runs, 'a').write('x')\n"
            "steps = 1 if os.path.getsize(runs) in (2, 5) else 40\n" +
                std::string(kTrain));
  Variables variables = {{"LD_LIBRARY_PATH", SIMULATED_CUDA}, {"TMPDIR", directory_}};
  // What is set outside is not tried: one key is left.
  for (const char* const set : {"TRANSFER_H2D=on", "TRANSFER_D2H=on", "TRANSFER_MAX_PINNED=512MiB",
                                "TRANSFER_DEVICE_STAGING=1GiB", "TRANSFER_UNMAP_IN_BACKGROUND=true",
                                "ALLOCATOR_MODE=segments", "ALLOCATOR_DECAY=10", "ALLOCATOR_PRE_RESERVE=0"}) {
    const std::string setting = set;
    const size_t equals = setting.find('=');
    variables["SLIPSTREAM_" + setting.substr(0, equals)] = setting.substr(equals + 1);
  }
  const Finished finished = RunProgram(
      {SLIPSTREAM_COMMAND, "tune", "-o", file_, "-n", "3", "--json", "--", "python3", directory_ + "/train.py"},
      variables);
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  const auto json = nlohmann::json::parse(finished.out);
  EXPECT_FALSE(json["tried"].empty()) << json;
  EXPECT_EQ(json.dump().find("its steps"), std::string::npos) << json;
  EXPECT_EQ(json.dump().find("refused"), std::string::npos) << json;
}

TEST_F(TuneCommandTest, NothingIsFaster) {
  NEEDS_PLAIN_BUILD();
  const Finished finished = Tune("true", {"--json"});
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  const auto json = nlohmann::json::parse(finished.out);
  EXPECT_EQ(json["schema"], "slipstream-tune-1");
  EXPECT_EQ(json["settings"], nlohmann::json::object());
  EXPECT_EQ(json["speed_ratio"], nullptr);
  EXPECT_GE(json["tried"].size(), 8U);
  for (const auto& tried : json["tried"]) EXPECT_EQ(tried["outcome"], "no_difference") << tried;
  EXPECT_EQ(Written().policy, policy::Policy{});
}

// Faster, and wrong.
TEST_F(TuneCommandTest, OtherResultsAreRefused) {
  NEEDS_PLAIN_BUILD();
  const Finished finished =
      Tune("l=0.125; " + With("SLIPSTREAM_TRANSFER_THREADS", "1", "{ s=200; l=0.126; }") + "; echo loss $l");
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_TRUE(Has(finished.out, "other results with it: \"loss 0.126\" instead of \"loss 0.125\"")) << finished.out;
  EXPECT_EQ(Written().policy, policy::Policy{});
}

TEST_F(TuneCommandTest, AFailureIsRefused) {
  NEEDS_PLAIN_BUILD();
  const Finished finished = Tune(With("SLIPSTREAM_TRANSFER_THREADS", "1", "kill -SEGV $$"));
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_TRUE(Has(finished.out, "the command fails with it: killed by SIGSEGV")) << finished.out;
  EXPECT_EQ(Written().policy, policy::Policy{});
}

TEST_F(TuneCommandTest, ACommandThatFailsIsNotTuned) {
  NEEDS_PLAIN_BUILD();
  const Finished finished = Tune("echo no such file >&2; exit 3");
  EXPECT_EQ(finished.status, kCommandFails);
  EXPECT_TRUE(Has(finished.err, "the command fails: exit status 3")) << finished.err;
  EXPECT_TRUE(Has(finished.err, "no such file")) << finished.err;
  EXPECT_NE(access(file_.c_str(), F_OK), 0);
  EXPECT_FALSE(HasJournal());
}

// What changes numbers is tried where it is named, and its results are not held against it.
TEST_F(TuneCommandTest, VariablesThatAreNamed) {
  NEEDS_PLAIN_BUILD();
  const std::string script = "l=1.5; " + With("TF", "1", "{ s=150; l=1.6; }") + "; echo loss $l";
  EXPECT_EQ(Tune(script).status, kSuccess);
  EXPECT_TRUE(Written().policy.environment.empty());
  const Finished finished = Tune(script, {"--force", "--try", "TF=1"});
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_EQ(Written().policy.environment, (std::map<std::string, std::string>{{"TF", "1"}}));
  EXPECT_TRUE(Has(ReadFile(file_), "# It may change what the program computes.\nTF = \"1\"\n")) << ReadFile(file_);
}

TEST_F(TuneCommandTest, BeginsWithThePolicyThatIsNamed) {
  NEEDS_PLAIN_BUILD();
  const std::string base = directory_ + "/base.toml";
  WriteFile(base, "version = 1\n[transfer]\nthreads = 1\nverify = true\n");
  const Finished finished = Tune(With("SLIPSTREAM_TRANSFER_THREADS", "2", "s=130"), {"--policy", base});
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_FALSE(Has(finished.out, "transfer.threads = 1 ")) << "which holds already: " << finished.out;
  EXPECT_TRUE(Written().policy.transfer.verify);
}

TEST_F(TuneCommandTest, WhatTheEnvironmentSetsIsNotTried) {
  NEEDS_PLAIN_BUILD();
  const Finished finished = Tune("true", {}, {{"SLIPSTREAM_TRANSFER_THREADS", "1"}});
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_TRUE(Has(finished.out, "SLIPSTREAM_TRANSFER_THREADS is set in the environment")) << finished.out;
  EXPECT_FALSE(Has(finished.out, "transfer.threads = ")) << finished.out;
}

// What is named, and of that what the program gives a reason for.
TEST_F(TuneCommandTest, OnlyWhatIsNamedIsTried) {
  NEEDS_PLAIN_BUILD();
  const std::string script = With("SLIPSTREAM_TRANSFER_THREADS", "1", "s=150") + "; " +
                             With("SLIPSTREAM_ALLOCATOR_DECAY", "30", "s=120") + "; " +
                             With("FAST", "1", "s=$((s + 50))");
  const Finished finished =
      Tune(script, {"--only", "allocator", "--only", "transfer.d2h", "--try", "FAST=1", "--json"});
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  const auto json = nlohmann::json::parse(finished.out);
  std::vector<std::string> keys;
  for (const auto& tried : json["tried"]) {
    if (const std::string key = tried["key"]; keys.empty() || keys.back() != key) keys.push_back(key);
  }
  ASSERT_FALSE(keys.empty()) << finished.out;
  EXPECT_EQ(keys.front(), "transfer.d2h");
  EXPECT_EQ(keys.back(), "environment.FAST");
  for (size_t i = 1; i + 1 < keys.size(); ++i) EXPECT_TRUE(keys[i].starts_with("allocator.")) << keys[i];
  EXPECT_EQ(std::count(keys.begin(), keys.end(), "allocator.mode"), 1);
  policy::Policy wanted;
  wanted.allocator.decay = 30;
  wanted.environment = {{"FAST", "1"}};
  EXPECT_EQ(Written().policy, wanted) << ReadFile(file_);

  const Finished mistake = Tune("true", {"--only", "transfer.thread", "--force"});
  EXPECT_EQ(mistake.status, kUsage);
  EXPECT_TRUE(Has(mistake.err, "nothing of that name is tried; what is: transfer.h2d, ")) << mistake.err;
}

// The run with that number ends slipstream; what was measured before is not measured again.
TEST_F(TuneCommandTest, GoesOnWhereItWasInterrupted) {
  NEEDS_PLAIN_BUILD();
  const std::string count = directory_ + "/count";
  const std::string script = With("SLIPSTREAM_TRANSFER_THREADS", "1", "s=120") + "; echo >> " + count +
                             "; if [ $(wc -l < " + count + ") = 30 ]; then kill -TERM $PPID; sleep 60; fi";
  Finished finished = Tune(script);
  EXPECT_EQ(finished.status, 128 + SIGTERM) << finished.err;
  EXPECT_TRUE(Has(finished.err, "interrupted; --resume")) << finished.err;
  EXPECT_TRUE(HasJournal());
  EXPECT_NE(access(file_.c_str(), F_OK), 0);

  finished = Tune(script);
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_TRUE(Has(finished.err, "of a search that is not over")) << finished.err;
  finished = Tune(script + "; true", {"--resume"});
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_TRUE(Has(finished.err, "of another command, policy or way to measure")) << finished.err;

  const size_t before = ReadFile(count).size();
  finished = Tune(script, {"--resume"});
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_TRUE(Has(finished.err, "goes on behind 14 measurements")) << finished.err;
  EXPECT_EQ(Written().policy.transfer.threads, 1);
  EXPECT_FALSE(HasJournal());
  const size_t resumed = ReadFile(count).size() - before;
  const Finished whole = Tune(script, {"--force"});
  const size_t all = ReadFile(count).size() - before - resumed;
  EXPECT_EQ(whole.status, kSuccess);
  EXPECT_EQ(resumed + 28, all) << "14 pairs less";
}

TEST_F(TuneCommandTest, NeverOverWhatIsThere) {
  NEEDS_PLAIN_BUILD();
  WriteFile(file_, "mine\n");
  Finished finished = Tune("true");
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_TRUE(Has(finished.err, "exists\n  --force replaces it")) << finished.err;
  EXPECT_EQ(ReadFile(file_), "mine\n");
  finished = Tune("true", {"--resume"});
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_TRUE(Has(finished.err, "there is no search to go on with")) << finished.err;
}

// Before the command runs; and where it shows only then, what was found is not lost.
TEST_F(TuneCommandTest, WhereNothingCanBeWritten) {
  NEEDS_PLAIN_BUILD();
  const std::string ran = directory_ + "/ran";
  file_ = directory_ + "/missing/tuned.toml";
  Finished finished = Tune("touch " + ran);
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_TRUE(Has(finished.err, "/missing/tuned.toml: No such file or directory\n  -o FILE writes another one."))
      << finished.err;
  EXPECT_NE(access(ran.c_str(), F_OK), 0);
  const std::string folder = directory_ + "/goes";
  std::filesystem::create_directory(folder);
  file_ = folder + "/tuned.toml";
  // Once there is a journal in it.
  finished = Tune("[ -e " + ran + " ] && rm -rf " + folder + "; touch " + ran + "; " +
                  With("SLIPSTREAM_TRANSFER_THREADS", "1", "s=120"));
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_TRUE(Has(finished.err, "What it would hold is printed instead.")) << finished.err;
  EXPECT_TRUE(Has(finished.out, "version = 1\n")) << finished.out;
  EXPECT_TRUE(Has(finished.out, "threads = 1")) << finished.out;
}

TEST_F(TuneCommandTest, EndsInTime) {
  NEEDS_PLAIN_BUILD();
  const Finished finished = Tune("true", {"--budget", "0.001"});
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_TRUE(Has(finished.out, "too little is left to try one more and to confirm it; all would take"))
      << finished.out;
  EXPECT_EQ(Written().policy, policy::Policy{});
}

// A file is there, and what there was no time for is tried when there is.
TEST_F(TuneCommandTest, TriesTheRestWhenThereIsTime) {
  NEEDS_PLAIN_BUILD();
  const std::string script = With("SLIPSTREAM_TRANSFER_THREADS", "1", "s=120");
  Finished finished = Tune(script, {"--budget", "0.001", "--json"});
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  const auto json = nlohmann::json::parse(finished.out);
  EXPECT_EQ(json["stopped_early"], true);
  EXPECT_EQ(json["journal"], file_ + ".journal");
  EXPECT_TRUE(json["tried"].empty());
  EXPECT_TRUE(HasJournal());

  finished = Tune(script);
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_TRUE(Has(finished.err, "--resume tries what there was no time for.")) << finished.err;

  finished = Tune(script, {"--resume"});
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_TRUE(Has(finished.err, "goes on behind 0 measurements, with what there was no time for")) << finished.err;
  EXPECT_EQ(Written().policy.transfer.threads, 1);
  EXPECT_FALSE(HasJournal());
}

TEST_F(TuneCommandTest, DoesNotGoOnFromMeasurementsOfAnotherMachine) {
  NEEDS_PLAIN_BUILD();
  ASSERT_EQ(Tune("true", {"--budget", "0.001"}).status, kSuccess);
  std::string journal = ReadFile(file_ + ".journal");
  const size_t host = journal.find("\"host\":\"");
  ASSERT_NE(host, std::string::npos);
  journal.insert(host + 8, "not-");
  WriteFile(file_ + ".journal", journal);
  const Finished finished = Tune("true", {"--resume"});
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_TRUE(Has(finished.err, "measured on the machine not-")) << finished.err;
  EXPECT_TRUE(Has(finished.err, "--force begins anew.")) << finished.err;
  EXPECT_EQ(ReadFile(file_ + ".journal"), journal);
}

TEST_F(TuneCommandTest, MistakesOfTheCommandLine) {
  NEEDS_PLAIN_BUILD();
  EXPECT_EQ(RunProgram({SLIPSTREAM_COMMAND, "tune"}).status, kUsage);
  for (const std::vector<std::string>& options :
       std::vector<std::vector<std::string>>{{"--try", "A"},
                                             {"--try", "1A=1"},
                                             {"--try", "LD_PRELOAD=x"},
                                             {"--try", "SLIPSTREAM_DISABLE=1"},
                                             {"--lower-is-better"},
                                             {"--by", "steps"},
                                             {"-n", "2"}}) {
    EXPECT_EQ(Tune("true", options).status, kUsage) << options[0] << " " << options.back();
  }
}

}  // namespace
}  // namespace slipstream::cli
