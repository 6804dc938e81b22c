#include "policy/run_policy.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "policy/environment.h"
#include "policy/load.h"
#include "tests/support/process.h"

namespace slipstream::policy {
namespace {

using test::Variables;

RunPolicy Some() {
  return {.list = "/p/a.toml:/p/b c.toml",
          .files = {{.file = {.layer = Layer::kSystem, .path = "/etc/slipstream/policy.toml", .found = true},
                     .text = "version = 1\r\n# a \\n that is no line break, and \\\\\n"},
                    {.file = {.layer = Layer::kNamed, .path = "/p/a.toml", .found = true}, .text = ""},
                    {.file = {.layer = Layer::kNamed, .path = "/p/b c.toml", .found = true},
                     .text = "version = 1\n[log]\nlevel = \"info\"  # no line break behind it"}}};
}

TEST(RunPolicy, ComesBackAsItWasMade) {
  const RunPolicy some = Some();
  const auto back = ParseRunPolicy(FormatRunPolicy(some));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->list, some.list);
  ASSERT_EQ(back->files.size(), some.files.size());
  for (size_t i = 0; i < some.files.size(); ++i) {
    EXPECT_EQ(back->files[i].file, some.files[i].file);
    EXPECT_EQ(back->files[i].text, some.files[i].text);
  }
  EXPECT_TRUE(ParseRunPolicy(FormatRunPolicy({})));
  EXPECT_EQ(FormatRunPolicy(some).find_first_of("\r\n"), std::string::npos);
}

TEST(RunPolicy, WhatIsCutOrSomethingElseIsNone) {
  const std::string whole = FormatRunPolicy(Some());
  for (size_t length = 0; length < whole.size(); ++length) {
    const auto cut = ParseRunPolicy(whole.substr(0, length));
    // Between two files it looks whole.
    EXPECT_TRUE(!cut || cut->files.size() < Some().files.size()) << length;
  }
  for (const char* text :
       {"", "x", "slipstream-run-policy-2\n\n", "slipstream-run-policy-1\n\nuser 1 /p\nx\n",
        "slipstream-run-policy-1\n\nnamed 9 /p\nx\n", "slipstream-run-policy-1\n\nnamed -1 /p\nx\n",
        "slipstream-run-policy-1\n\nnamed 99999999999999999999 /p\nx\n", "slipstream-run-policy-1\n\nnamed 1/p\nx\n"}) {
    EXPECT_FALSE(ParseRunPolicy(text)) << text;
  }
}

TEST(RunPolicy, WhatDoesNotFitIsLeftToTheFiles) {
  RunPolicy policy = Some();
  policy.files[1].text.assign(kMostRunPolicy, '#');
  EXPECT_EQ(FormatRunPolicy(policy), "");
  policy = Some();
  policy.files[1].file.path = "/a\nb";
  EXPECT_EQ(FormatRunPolicy(policy), "");
  policy = Some();
  policy.list = "/a\nb";
  EXPECT_EQ(FormatRunPolicy(policy), "");
}

// H13: an edit in the middle of a run, a file that is gone, and a policy that somebody gives to one process.
TEST(RunPolicy, AProcessHasThePolicyThatItsRunBeganWith) {
  const test::Folder folder;
  const std::string path = folder / "p.toml";
  test::WriteFile(path, "version = 1\n[log]\nlevel = \"info\"\n");
  const Variables start = {{kSystemDirectoryVariable, folder / "etc"}};
  const Environment at_start(start);
  const Loaded begun = Load({.path = path, .env = at_start, .search = Search::kCommand});
  ASSERT_TRUE(begun.ok());
  Variables variables = start;
  variables[kPolicyVariable] = PolicyListFor(begun);
  variables[kRunPolicyVariable] = RunPolicyFor(begun);
  const auto level_in = [](const Variables& process) {
    const Environment env(process);
    const Loaded loaded = Load({.path = std::nullopt, .env = env, .search = Search::kProcess});
    EXPECT_TRUE(loaded.ok());
    return loaded.policy.log.level;
  };
  EXPECT_EQ(level_in(variables), LogLevel::kInfo);

  test::WriteFile(path, "version = 1\n[log]\nlevel = \"debug\"\n");
  EXPECT_EQ(level_in(variables), LogLevel::kInfo);
  mkdir((folder / "etc").c_str(), 0755);
  test::WriteFile(folder / "etc/policy.toml", "version = 1\n[log]\nlevel = \"error\"\n");
  EXPECT_EQ(level_in(variables), LogLevel::kInfo);
  unlink(path.c_str());
  EXPECT_EQ(level_in(variables), LogLevel::kInfo);
  {
    const Environment env(variables);
    const Loaded loaded = Load({.path = std::nullopt, .env = env, .search = Search::kProcess});
    EXPECT_EQ(loaded.foreign, std::vector<std::string>());
    EXPECT_EQ(loaded.Files(), path);
    EXPECT_EQ(loaded.path, path);
    EXPECT_EQ(loaded.origins.at("log.level").Format(), path + ":3");
  }

  variables["SLIPSTREAM_LOG_LEVEL"] = "warn";
  EXPECT_EQ(level_in(variables), LogLevel::kWarn);
  variables.erase("SLIPSTREAM_LOG_LEVEL");
  test::WriteFile(folder / "other.toml", "version = 1\n[log]\nlevel = \"debug\"\n");
  variables[kPolicyVariable] = folder / "other.toml";
  EXPECT_EQ(level_in(variables), LogLevel::kDebug);
}

}  // namespace
}  // namespace slipstream::policy
