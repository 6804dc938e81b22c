// Which policy a command gets, and that every process of it gets the same one.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/preload/counts.h"
#include "tests/support/plain_build.h"
#include "tests/support/process.h"

namespace slipstream::test {
namespace {

// A system directory, a home and a repository in it.
class PolicyLayersTest : public ::testing::Test {
 protected:
  PolicyLayersTest() : root_(NewDirectory()) {
    for (const char* folder : {"etc", "house/.config/slipstream", "house/project/.git", "house/project/src"}) {
      std::filesystem::create_directories(root_ + "/" + folder);
    }
  }

  void Write(const std::string& name, const std::string& body) const {
    WriteFile(root_ + "/" + name, "version = 1\n" + body);
  }

  Variables Places(Variables more = {}) const {
    more.try_emplace("HOME", root_ + "/house");
    more.try_emplace("XDG_CONFIG_HOME", "");
    more.try_emplace("SLIPSTREAM_SYSTEM_DIRECTORY", root_ + "/etc");
    return more;
  }

  // Commands of a shell in the project's folder.
  Finished Shell(const std::string& script, const Variables& more = {}) const {
    return RunProgram({"sh", "-c", "cd " + root_ + "/house/project/src && " + script}, Places(more));
  }

  const std::string root_;
  const std::string run_ = std::string("exec ") + SLIPSTREAM_COMMAND + " run ";
};

TEST_F(PolicyLayersTest, ProcessesOfACommandAgreeWithItWhereverTheyAre) {
  NEEDS_PLAIN_BUILD();
  Write("etc/policy.toml", "[transfer]\nthreads = 1\n");
  Write("house/.config/slipstream/policy.toml", "[transfer]\nmax_pinned = \"64MiB\"\n");
  Write("house/project/slipstream.toml", "[tracer]\ncounters = \"calls\"\n");
  const std::string summary = root_ + "/summary.json";
  const Finished finished =
      Shell(run_ + "--summary " + summary + " -- env -C / HOME=/nonexistent XDG_CONFIG_HOME=/nonexistent " + PROGRAM +
            " workload");
  ASSERT_EQ(finished.status, 0) << finished.err;
  const auto json = nlohmann::json::parse(ReadFile(summary));
  ASSERT_EQ(json["processes"].size(), 1U);
  EXPECT_EQ(json["processes"][0]["facts"]["policy"], "system " + root_ + "/etc/policy.toml, " + root_ +
                                                         "/house/.config/slipstream/policy.toml, " + root_ +
                                                         "/house/project/slipstream.toml");
  for (const auto& function : json["totals"]["functions"])
    EXPECT_EQ(function["time_ns"], 0) << "the project's counters";
  EXPECT_EQ(json["policy"],
            (nlohmann::json::array({{{"layer", "system"}, {"file", root_ + "/etc/policy.toml"}},
                                    {{"layer", "user"}, {"file", root_ + "/house/.config/slipstream/policy.toml"}},
                                    {{"layer", "project"}, {"file", root_ + "/house/project/slipstream.toml"}}})));
  EXPECT_NE(test::Unwrapped(finished.err)
                .find("slipstream: policy of the project: " + root_ + "/house/project/slipstream.toml\n"),
            std::string::npos)
      << finished.err;
}

TEST_F(PolicyLayersTest, WithoutAFileAProcessLooksForNoneElsewhere) {
  NEEDS_PLAIN_BUILD();
  std::filesystem::create_directories(root_ + "/other/.config/slipstream");
  Write("other/.config/slipstream/policy.toml", "[tracer]\ncounters = \"calls\"\n");
  const std::string summary = root_ + "/summary.json";
  const Finished finished =
      Shell(run_ + "--quiet --summary " + summary + " -- env HOME=" + root_ + "/other " + PROGRAM + " workload");
  ASSERT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ(nlohmann::json::parse(ReadFile(summary))["processes"][0]["facts"]["policy"], "defaults");
}

TEST_F(PolicyLayersTest, TheLogNamesEveryFileThatWasRead) {
  NEEDS_PLAIN_BUILD();
  Write("house/project/slipstream.toml", "[log]\nlevel = \"info\"\n");
  const Finished finished = Shell(run_ + "--quiet -- true");
  EXPECT_NE(finished.err.find("info: policy of the layer project: " + root_ + "/house/project/slipstream.toml\n"),
            std::string::npos)
      << finished.err;
}

TEST_F(PolicyLayersTest, TheSystemsLimitsHoldUnderANamedPolicyAndAVariableWins) {
  NEEDS_PLAIN_BUILD();
  Write("etc/policy.toml", "enabled = false\n");
  Write("named.toml", "[log]\nlevel = \"off\"\n");
  const auto calls = [&](const std::string& options, const Variables& more = {}) {
    const std::string summary = root_ + "/summary.json";
    const Finished finished =
        Shell(run_ + "--quiet " + options + " --summary " + summary + " -- " + PROGRAM + " workload", more);
    EXPECT_EQ(finished.status, 0) << finished.err;
    return nlohmann::json::parse(ReadFile(summary))["totals"]["functions"].size();
  };
  EXPECT_EQ(calls("--policy " + root_ + "/named.toml"), 0U);
  EXPECT_EQ(calls("", {{"SLIPSTREAM_POLICY", root_ + "/named.toml"}}), 0U);
  EXPECT_GT(calls("", {{"SLIPSTREAM_ENABLED", "true"}}), 0U);
}

TEST_F(PolicyLayersTest, S59_RunRefusesABrokenLayerWithItsPlace) {
  NEEDS_PLAIN_BUILD();
  Write("house/project/slipstream.toml", "[transfer]\nthraeds = 1\n");
  const Finished refused = Shell(run_ + "-- touch " + root_ + "/ran");
  EXPECT_EQ(refused.status, 125);
  EXPECT_NE(
      refused.err.find(root_ + "/house/project/slipstream.toml:3:1: unknown key \"transfer.thraeds\"; did you mean "
                               "\"transfer.threads\"?\n"),
      std::string::npos)
      << refused.err;
  EXPECT_FALSE(std::filesystem::exists(root_ + "/ran"));
  Write("house/project/slipstream.toml", "");
  chmod((root_ + "/house/project/slipstream.toml").c_str(), 0666);
  const Finished open = Shell(run_ + "-- touch " + root_ + "/ran");
  EXPECT_EQ(open.status, 125);
  EXPECT_NE(open.err.find("everybody may write it"), std::string::npos) << open.err;
  EXPECT_FALSE(std::filesystem::exists(root_ + "/ran"));
}

TEST_F(PolicyLayersTest, S59_AnotherUsersPolicyIsRefusedAndABarePreloadPassesThrough) {
  NEEDS_PLAIN_BUILD();
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a file of somebody else's";
  Write("house/.config/slipstream/policy.toml", "");
  const std::string file = root_ + "/house/.config/slipstream/policy.toml";
  ASSERT_EQ(chown(file.c_str(), 4242, 4242), 0);
  const Finished refused = Shell(run_ + "-- touch " + root_ + "/ran");
  EXPECT_EQ(refused.status, 125);
  EXPECT_NE(refused.err.find(file + ": belongs to user 4242"), std::string::npos) << refused.err;
  EXPECT_FALSE(std::filesystem::exists(root_ + "/ran"));
  Variables preload = Preload(SLIPSTREAM_LIBRARY);
  preload.merge(Places());
  const Finished bare = RunProgram({PROGRAM, "workload"}, preload);
  EXPECT_EQ(bare.status, 0);
  const std::size_t said = bare.err.find("the policy cannot be used, so every CUDA call passes through: " + file);
  EXPECT_NE(said, std::string::npos) << bare.err;
  EXPECT_EQ(bare.err.find("the policy cannot be used", said + 1), std::string::npos) << "once";
}

// A library that is only preloaded may be in any process, with any working directory.
TEST_F(PolicyLayersTest, S59_ABarePreloadObeysTheUsersPolicyAndNoProjects) {
  Write("house/.config/slipstream/policy.toml", "[tracer]\ncounters = \"calls\"\n");
  Write("house/project/slipstream.toml", "enabled = nonsense\n");
  const std::string counters = root_ + "/counters";
  std::filesystem::create_directory(counters);
  chmod(counters.c_str(), 0700);
  Variables preload = Preload(SLIPSTREAM_LIBRARY);
  preload.merge(Places({{"SLIPSTREAM_RUN_DIRECTORY", counters}, {"PWD", root_ + "/house/project"}}));
  const std::string before = std::filesystem::current_path();
  std::filesystem::current_path(root_ + "/house/project");
  const Finished bare = RunProgram({PROGRAM, "workload"}, preload);
  std::filesystem::current_path(before);
  EXPECT_EQ(bare.status, 0);
  EXPECT_EQ(bare.err, "");
  std::vector<std::string> problems;
  const auto processes = tracer::ReadRunDirectory(counters, &problems);
  ASSERT_EQ(processes.size(), 1U);
  EXPECT_EQ(processes[0].FactsOf("policy"),
            std::vector<std::string>{"user " + root_ + "/house/.config/slipstream/policy.toml"});
}

TEST_F(PolicyLayersTest, PolicyCommandsFindTheSameFiles) {
  Write("etc/policy.toml", "[transfer]\nh2d = \"off\"\n");
  Write("house/project/slipstream.toml", "[log]\nlevel = \"warn\"\n");
  const std::string policy = std::string(SLIPSTREAM_COMMAND) + " policy ";
  EXPECT_NE(Shell(policy + "show").out.find("project " + root_ + "/house/project/slipstream.toml:3\n"),
            std::string::npos);
  EXPECT_NE(Shell(policy + "explain --size 1MiB --direction h2d")
                .out.find("no: transfer.h2d = \"off\" (system " + root_ + "/etc/policy.toml:3)\n"),
            std::string::npos);
  EXPECT_EQ(Shell(policy + "check").status, 0);
  const Finished diff = Shell(policy + "diff default");
  EXPECT_EQ(diff.status, 1);
  EXPECT_NE(diff.out.find("transfer.h2d"), std::string::npos) << diff.out;
  EXPECT_EQ(Shell(policy + "diff effective effective").status, 0);
  EXPECT_EQ(Shell(policy + "diff user").status, 2);
  EXPECT_EQ(Shell(policy + "diff").status, 2);
}

}  // namespace
}  // namespace slipstream::test
