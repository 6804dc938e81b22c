// `slipstream policy diff` as a user and a script meet it.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tools/cli/policy_diff.h"

namespace slipstream::cli {
namespace {

using nlohmann::json;
using test::Finished;
using test::Folder;
using test::InChild;
using test::WriteFile;

class PolicyDiffTest : public ::testing::Test {
 protected:
  PolicyDiffTest() {
    for (const char* folder : {"etc", "home/.config/slipstream"}) std::filesystem::create_directories(root_ / folder);
  }

  void Write(const std::string& name, const std::string& body) const {
    WriteFile(root_ / name, "version = 1\n" + body);
  }

  // In the home directory, with these variables and no others.
  Finished Diff(const DiffOptions& options, const std::string& variable = "") const {
    return InChild([&] {
      static std::vector<std::string> entries;  // static: environ outlives this function
      static std::vector<char*> pointers;
      entries = {"HOME=" + (root_ / "home"), "SLIPSTREAM_SYSTEM_DIRECTORY=" + (root_ / "etc")};
      if (!variable.empty()) entries.push_back(variable);
      for (std::string& entry : entries) pointers.push_back(entry.data());
      pointers.push_back(nullptr);
      environ = pointers.data();
      if (::chdir((root_ / "home").c_str()) != 0) return 99;
      const int status = PolicyDiff(options);
      ::fflush(nullptr);
      return status;
    });
  }

  const Folder root_;
};

TEST_F(PolicyDiffTest, SaysKeyByKeyWhatDiffersAndWhereItComesFrom) {
  Write("home/a.toml",
        "[log]\nlevel = \"warn\"\n[transfer]\nthreads = 4\n[environment]\nA = \"1\"\nB = \"1\"\nC = \"1\"\n");
  Write("home/b.toml", "[transfer]\nthreads = 4\nh2d = \"off\"\n[environment]\nC = \"1\"\nB = \"2\"\n");
  const Finished diff = Diff({.a = "a.toml", .b = "b.toml"});
  EXPECT_EQ(diff.status, 1) << diff.err;
  EXPECT_EQ(diff.out,
            "a  a.toml\n"
            "b  b.toml\n"
            "\n"
            "key            a       b      from\n"
            "log.level      \"warn\"  \"off\"  a.toml:3 -> default\n"
            "transfer.h2d   \"on\"    \"off\"  default -> b.toml:4\n"
            "environment.A  \"1\"     -      a.toml:7 -> nowhere\n"
            "environment.B  \"1\"     \"2\"    a.toml:8 -> b.toml:7\n");
  EXPECT_EQ(diff.err, "");
}

TEST_F(PolicyDiffTest, WhatIsTheSameIsZeroWhereverItStands) {
  Write("home/a.toml",
        "[log]\nlevel = \"off\"\n[transfer]\nmax_pinned = \"1GiB\"\n[[transfer.rule]]\npromote = false\n");
  Write("home/b.toml", "transfer.max_pinned = 1073741824\n[[transfer.rule]]\npromote = false\n");
  const Finished diff = Diff({.a = "a.toml", .b = "b.toml"});
  EXPECT_EQ(diff.status, 0);
  EXPECT_EQ(diff.out, "a  a.toml\nb  b.toml\nthe same\n");
  const json object = json::parse(Diff({.a = "a.toml", .b = "b.toml", .json = true}).out);
  EXPECT_EQ(object["same"], true);
  EXPECT_TRUE(object["keys"].empty());
  EXPECT_TRUE(object["rules"].empty());
}

TEST_F(PolicyDiffTest, ComparesRulesAsAList) {
  const auto rule = [](const char* name, int size) {
    return std::string("[[transfer.rule]]\nname = \"") + name + "\"\nmin_size = " + std::to_string(size) +
           "\npromote = false\n";
  };
  Write("home/a.toml", rule("one", 9001) + rule("two", 8001) + rule("three", 7001));
  Write("home/b.toml", rule("two", 8001) + rule("new", 7500) + rule("three", 7001));
  const Finished diff = Diff({.a = "a.toml", .b = "b.toml"});
  EXPECT_EQ(diff.status, 1);
  EXPECT_EQ(diff.out,
            "a  a.toml\n"
            "b  b.toml\n"
            "\n"
            "rules, in the order in which they are asked (-: only in a, +: only in b)\n"
            "- name = \"one\", min_size = \"9001B\", promote = false    a.toml:2\n"
            "  name = \"two\", min_size = \"8001B\", promote = false    a.toml:6\n"
            "+ name = \"new\", min_size = \"7500B\", promote = false    b.toml:6\n"
            "  name = \"three\", min_size = \"7001B\", promote = false  a.toml:10\n");
  const json rules = json::parse(Diff({.a = "a.toml", .b = "b.toml", .json = true}).out)["rules"];
  ASSERT_EQ(rules.size(), 4U);
  EXPECT_EQ(rules[0]["change"], "removed");
  EXPECT_EQ(rules[0]["a"], 1);
  EXPECT_TRUE(rules[0]["b"].is_null());
  EXPECT_EQ(rules[1]["change"], "same");
  EXPECT_EQ(rules[1]["a"], 2);
  EXPECT_EQ(rules[1]["b"], 1);
  EXPECT_EQ(rules[2],
            (json{{"change", "added"},
                  {"a", nullptr},
                  {"b", 2},
                  {"rule", {{"name", "new"}, {"min_size", 7500}, {"promote", false}}},
                  {"origin", {{"kind", "file"}, {"layer", "named"}, {"file", "b.toml"}, {"line", 6}, {"column", 1}}}}));
}

TEST_F(PolicyDiffTest, AnotherOrderOfTheSameRulesIsADifference) {
  const std::string one = "[[transfer.rule]]\nmin_size = 9001\npromote = false\n";
  const std::string two = "[[transfer.rule]]\ndirection = \"d2h\"\nskip_synchronize = false\n";
  Write("home/a.toml", one + two);
  Write("home/b.toml", two + one);
  EXPECT_EQ(Diff({.a = "a.toml", .b = "b.toml"}).status, 1);
}

TEST_F(PolicyDiffTest, WordsStandForLayers) {
  Write("etc/policy.toml", "[allocator]\nmax_idle = \"1GiB\"\n");
  Write("home/.config/slipstream/policy.toml", "[log]\nlevel = \"warn\"\n");
  Write("home/slipstream.toml", "[transfer]\nthreads = 3\n");
  const auto keys = [&](const std::string& a, const std::string& b, const std::string& variable = "") {
    std::string out;
    const json object = json::parse(Diff({.a = a, .b = b, .json = true}, variable).out);
    for (const json& key : object["keys"]) {
      out += key["key"].get<std::string>() + " ";
    }
    return out;
  };
  EXPECT_EQ(keys("default", "system"), "allocator.max_idle ");
  EXPECT_EQ(keys("default", "user"), "log.level ");
  EXPECT_EQ(keys("default", "project"), "transfer.threads ");
  EXPECT_EQ(keys("default", "effective", "SLIPSTREAM_ENABLED=false"),
            "enabled log.level allocator.max_idle transfer.threads ");
  EXPECT_EQ(keys("user", "default", "SLIPSTREAM_ENABLED=false"), "log.level ") << "a layer is without the variables";
  EXPECT_EQ(keys("default", "user", "SLIPSTREAM_POLICY="), "log.level ") << "also where another takes its place";
  const json object = json::parse(Diff({.a = "system", .json = true}).out);
  EXPECT_EQ(object["b"]["name"], "effective");
  EXPECT_EQ(object["b"]["files"].size(), 3U);
  EXPECT_EQ(object["a"]["files"], (json::array({{{"layer", "system"}, {"file", root_ / "etc/policy.toml"}}})));
  const std::string out = Diff({.a = "default", .b = "user"}).out;
  const std::string file = root_ / "home/.config/slipstream/policy.toml";
  EXPECT_TRUE(out.starts_with("a  default\nb  user\n   user " + file + "\n\nkey")) << out;
}

TEST_F(PolicyDiffTest, TroubleIsTwoAndSaysAllOfIt) {
  Write("home/a.toml", "enabled = 1\n");
  const Finished broken = Diff({.a = "a.toml", .b = "missing.toml"});
  EXPECT_EQ(broken.status, 2);
  EXPECT_EQ(broken.out, "");
  EXPECT_EQ(broken.err,
            "a.toml:2:11: \"enabled\": found 1, expected true or false\n"
            "missing.toml: cannot be opened: No such file or directory\n");
  const Finished none = Diff({.a = "user", .b = "default"});
  EXPECT_EQ(none.status, 2);
  EXPECT_EQ(none.err, "slipstream policy diff: there is no policy of the layer \"user\"; looked for:\n  " +
                          (root_ / "home/.config/slipstream/policy.toml") + "\n");
  EXPECT_EQ(Diff({.a = "default"}, "SLIPSTREAM_ENABLED=perhaps").status, 2);
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  const Finished full = InChild([] {
    ::dup2(::open("/dev/full", O_WRONLY), STDOUT_FILENO);
    return PolicyDiff({.a = "default", .b = "default"});
  });
  EXPECT_EQ(full.status, 2);
}

TEST_F(PolicyDiffTest, HostileTextStaysText) {
  Write("home/a.toml", "[log]\nfile = \"\\u001b[2Jx\"\n");
  const Finished diff = Diff({.a = "default", .b = "a.toml"});
  EXPECT_EQ(diff.out.find('\033'), std::string::npos);
  EXPECT_NE(diff.out.find("\"\\u001b[2Jx\""), std::string::npos) << diff.out;
}

}  // namespace
}  // namespace slipstream::cli
