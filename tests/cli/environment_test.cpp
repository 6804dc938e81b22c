// The variables that a command gets.

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "tools/cli/run.h"

namespace slipstream::cli {
namespace {

bool Has(const PreloadEnvironment& environment, const std::string& variable) {
  return std::find(environment.variables.begin(), environment.variables.end(), variable) != environment.variables.end();
}

size_t CountOf(const PreloadEnvironment& environment, const std::string& name) {
  return static_cast<size_t>(
      std::count_if(environment.variables.begin(), environment.variables.end(),
                    [&](const std::string& variable) { return variable.rfind(name + "=", 0) == 0; }));
}

TEST(PreloadEnvironmentTest, TheLibraryStandsInFront) {
  EXPECT_TRUE(Has(MakePreloadEnvironment({.library = "/a/l.so"}), "LD_PRELOAD=/a/l.so"));
  EXPECT_TRUE(Has(MakePreloadEnvironment({.inherited = {{"LD_PRELOAD", "x.so y.so"}}, .library = "/a/l.so"}),
                  "LD_PRELOAD=/a/l.so:x.so y.so"));
}

TEST(PreloadEnvironmentTest, ARunInsideARunPreloadsOnce) {
  const PreloadEnvironment nested =
      MakePreloadEnvironment({.inherited = {{"LD_PRELOAD", "/a/l.so:x.so"}, {"SLIPSTREAM_RUN_DIRECTORY", "/outer"}},
                              .library = "/a/l.so",
                              .run_directory = "/inner"});
  EXPECT_TRUE(Has(nested, "LD_PRELOAD=/a/l.so:x.so"));
  EXPECT_TRUE(Has(nested, "SLIPSTREAM_RUN_DIRECTORY=/inner"));
  EXPECT_EQ(CountOf(nested, "SLIPSTREAM_RUN_DIRECTORY"), 1U);
}

TEST(PreloadEnvironmentTest, AnOuterRunsDirectoryIsNotHandedOn) {
  const PreloadEnvironment quiet =
      MakePreloadEnvironment({.inherited = {{"SLIPSTREAM_RUN_DIRECTORY", "/outer"}}, .library = "/a/l.so"});
  EXPECT_EQ(CountOf(quiet, "SLIPSTREAM_RUN_DIRECTORY"), 0U);
}

TEST(PreloadEnvironmentTest, ThePolicyFilesAreHandedOnEvenWhereThereAreNone) {
  const auto with = [](std::optional<std::string> list) {
    return MakePreloadEnvironment(
        {.inherited = {{"SLIPSTREAM_POLICY", "relative.toml"}}, .library = "/a/l.so", .policy_list = std::move(list)});
  };
  EXPECT_TRUE(Has(with("/a.toml:/b.toml"), "SLIPSTREAM_POLICY=/a.toml:/b.toml"));
  EXPECT_TRUE(Has(with(""), "SLIPSTREAM_POLICY=")) << "or a process would look for the user's";
  EXPECT_TRUE(Has(with(std::nullopt), "SLIPSTREAM_POLICY=relative.toml"));
}

TEST(PreloadEnvironmentTest, PolicyVariablesYieldToTheUsersEvenWhenEmpty) {
  const PreloadEnvironment environment =
      MakePreloadEnvironment({.inherited = {{"SET", "mine"}, {"EMPTY", ""}},
                              .additions = {{"SET", "p"}, {"EMPTY", "p"}, {"NEW", "p"}},
                              .library = "/a/l.so"});
  EXPECT_TRUE(Has(environment, "SET=mine"));
  EXPECT_TRUE(Has(environment, "EMPTY="));
  EXPECT_TRUE(Has(environment, "NEW=p"));
}

// The command's own NVTX ranges are recorded by the library, unless another tool has them.
TEST(PreloadEnvironmentTest, TheToolOfNvtx) {
  const std::string variable = "NVTX_INJECTION64_PATH";
  EXPECT_EQ(CountOf(MakePreloadEnvironment({.library = "/a/l.so"}), variable), 0U);
  EXPECT_TRUE(Has(MakePreloadEnvironment({.library = "/a/l.so", .tool_of_nvtx = true}), variable + "=/a/l.so"));
  const PreloadEnvironment others =
      MakePreloadEnvironment({.inherited = {{variable, "/opt/tool.so"}}, .library = "/a/l.so", .tool_of_nvtx = true});
  EXPECT_TRUE(Has(others, variable + "=/opt/tool.so"));
  EXPECT_EQ(CountOf(others, variable), 1U);
  // Of a run around this one, which recorded.
  EXPECT_EQ(CountOf(MakePreloadEnvironment({.inherited = {{variable, "/a/l.so"}}, .library = "/a/l.so"}), variable),
            0U);
}

// Of a run inside a run it is the inner one's policy that holds for what its command starts.
TEST(PreloadEnvironmentTest, WhatChildrenGetIsThisRunsPolicy) {
  const std::string variable = "SLIPSTREAM_CHILDREN";
  const auto outer = std::pair<std::string, std::string>(variable, "none:/a/l.so");
  EXPECT_EQ(CountOf(MakePreloadEnvironment({.inherited = {outer}, .library = "/a/l.so"}), variable), 0U);
  const PreloadEnvironment inner = MakePreloadEnvironment(
      {.inherited = {outer},
       .library = "/b/l.so",
       .children = {.preload = policy::ChildrenPreload::kPython, .keep = {"tool"}, .drop = {"*/git", "cc"}}});
  EXPECT_TRUE(Has(inner, variable + "=python:/b/l.so:+tool:-*/git:-cc"));
  EXPECT_EQ(CountOf(inner, variable), 1U);
}

TEST(PreloadEnvironmentTest, APathThatThePreloadListCannotHoldIsRefused) {
  for (const char* path : {"/a b/l.so", "/a:b/l.so"}) {
    const PreloadEnvironment environment = MakePreloadEnvironment({.library = path});
    EXPECT_TRUE(environment.variables.empty());
    EXPECT_NE(environment.error.find(path), std::string::npos);
  }
}

TEST(AsBeforeTest, TheOrderAndWhatIsNoVariable) {
  using Entries = std::vector<std::string>;
  EXPECT_EQ(AsBefore({"Z=1", "A=2"}, {"A=2", "LD_PRELOAD=l.so", "Z=1"}), (Entries{"Z=1", "A=2", "LD_PRELOAD=l.so"}));
  EXPECT_EQ(AsBefore({"Z=1", "LD_PRELOAD=x.so", "A=2"}, {"A=2", "LD_PRELOAD=l.so:x.so", "Z=1"}),
            (Entries{"Z=1", "LD_PRELOAD=l.so:x.so", "A=2"}));
  // Twice, without a value, without a name: the command's business.
  EXPECT_EQ(AsBefore({"A=1", "A=2", "nothing", "=odd=", "A=1", "B="}, {"A=1", "B="}),
            (Entries{"A=1", "A=2", "nothing", "=odd=", "A=1", "B="}));
  // What is changed is there once, and what is taken out is not.
  EXPECT_EQ(AsBefore({"A=1", "OUT=1", "A=2", "OUT=2"}, {"A=3"}), (Entries{"A=3"}));
  EXPECT_EQ(AsBefore({}, {"A=3"}), (Entries{"A=3"}));
}

}  // namespace
}  // namespace slipstream::cli
