// Which files a policy is merged from, and what a later one does to those before it.

#include "policy/layers.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "policy/load.h"
#include "tests/support/process.h"

namespace slipstream::policy {
namespace {

using test::Folder;
using test::InChild;
using test::Variables;
using test::WriteFile;

using Strings = std::vector<std::string>;

// A system directory, a home and a repository in it, all empty.
class LayersTest : public ::testing::Test {
 protected:
  LayersTest() {
    for (const char* folder :
         {"etc/policy.d", "home/.config/slipstream", "home/project/.git", "home/project/deep/er"}) {
      std::filesystem::create_directories(root_ / folder);
    }
  }

  std::string Root(const std::string& name) const { return root_ / name; }

  void Write(const std::string& name, const std::string& body, mode_t mode = 0644) const {
    WriteFile(root_ / name, "version = 1\n" + body, mode);
  }

  Variables Places(Variables more = {}) const {
    more.try_emplace("HOME", root_ / "home");
    more.try_emplace(kSystemDirectoryVariable, root_ / "etc");
    return more;
  }

  Loaded LoadIn(Search search, const Variables& more = {}) const {
    return Load({.path = path_, .env = Environment(Places(more)), .search = search});
  }

  // Calls check(loaded) in a child whose working directory is the folder, and gives its exit code: 0 unless the check
  // says otherwise.
  template <typename Check>
  std::string From(const std::string& folder, Check check, Search search = Search::kCommand,
                   const Variables& more = {}) {
    const test::Finished child = InChild([&] {
      if (::chdir((root_ / folder).c_str()) != 0) return 99;
      const Loaded loaded = LoadIn(search, more);
      std::string said = check(loaded);
      for (const Problem& problem : loaded.problems) said += problem.Format() + "\n";
      return std::fwrite(said.data(), 1, said.size(), stdout) == said.size() && std::fflush(stdout) == 0 ? 0 : 98;
    });
    return child.status == 0 ? WithoutRoot(child.out) : "exit code " + std::to_string(child.status);
  }

  std::string WithoutRoot(std::string text) const {
    for (std::size_t at = 0; (at = text.find(root_.path() + "/", at)) != std::string::npos;) {
      text.erase(at, root_.path().size() + 1);
    }
    return text;
  }

  static std::string Files(const Loaded& loaded) { return loaded.Files(); }

  const Folder root_;
  std::optional<std::string> path_{};
};

std::string OriginOf(const Loaded& loaded, const std::string& key) {
  const auto found = loaded.origins.find(key);
  return found == loaded.origins.end() ? "none" : found->second.Format();
}

TEST_F(LayersTest, ALaterLayerWinsKeyByKey) {
  Write("etc/policy.toml",
        "[log]\nlevel = \"warn\"\nmax_size = \"1MiB\"\n[transfer]\nthreads = 2\n[environment]\nA = \"1\"\nB = \"1\"\n");
  Write("etc/policy.d/10.toml", "[transfer]\nthreads = 3\n[allocator]\ndecay = 9\n");
  Write("home/.config/slipstream/policy.toml", "[log]\nlevel = \"info\"\n[environment]\nB = \"2\"\n");
  Write("home/project/slipstream.toml", "[allocator]\ndecay = 7\n");
  const auto show = [](const Loaded& loaded) {
    std::string out =
        std::to_string(static_cast<int>(loaded.policy.log.level)) + " " + std::to_string(loaded.policy.log.max_size) +
        " " + std::to_string(loaded.policy.transfer.threads) + " " + std::to_string(loaded.policy.allocator.decay) +
        " " + loaded.policy.environment.at("A") + loaded.policy.environment.at("B") + "\n";
    for (const char* key : {"log.level", "log.max_size", "transfer.threads", "allocator.decay", "environment.A",
                            "environment.B", "enabled", "tracer.nvtx"}) {
      out += OriginOf(loaded, key) + "\n";
    }
    return out;
  };
  EXPECT_EQ(From("home/project", show, Search::kCommand, {{"SLIPSTREAM_TRACER_NVTX", "false"}}),
            "3 1048576 3 7 12\n"
            "user home/.config/slipstream/policy.toml:3\n"
            "system etc/policy.toml:4\n"
            "system etc/policy.d/10.toml:3\n"
            "project home/project/slipstream.toml:3\n"
            "system etc/policy.toml:8\n"
            "user home/.config/slipstream/policy.toml:5\n"
            "default\n"
            "SLIPSTREAM_TRACER_NVTX\n");
}

TEST_F(LayersTest, AVariableWinsOverEveryLayer) {
  Write("etc/policy.toml", "enabled = false\n");
  EXPECT_FALSE(LoadIn(Search::kProcess).policy.enabled);
  EXPECT_TRUE(LoadIn(Search::kProcess, {{"SLIPSTREAM_ENABLED", "true"}}).policy.enabled);
}

TEST_F(LayersTest, RulesOfALaterLayerComeFirst) {
  const auto rule = [](const std::string& name, int size) {
    return "[[transfer.rule]]\nname = \"" + name + "\"\nmin_size = " + std::to_string(size) + "\npromote = false\n";
  };
  Write("etc/policy.toml", rule("s1", 9000) + rule("s2", 8000));
  Write("home/.config/slipstream/policy.toml", rule("u1", 7000) + rule("u2", 6000));
  Write("home/project/slipstream.toml", rule("p", 5000));
  const auto show = [](const Loaded& loaded) {
    std::string out;
    const std::vector<TransferRule>& rules = loaded.policy.transfer.rules;
    for (std::size_t i = 0; i < rules.size(); ++i) {
      const std::string name = "transfer.rule[" + std::to_string(i + 1) + "]";
      out += rules[i].name + " " + std::to_string(rules[i].min_size) + " " + OriginOf(loaded, name) + " " +
             OriginOf(loaded, name + ".promote") + "\n";
    }
    return out + OriginOf(loaded, "transfer.rule[6]") + "\n";
  };
  EXPECT_EQ(From("home/project", show),
            "p 5000 project home/project/slipstream.toml:2 project home/project/slipstream.toml:5\n"
            "u1 7000 user home/.config/slipstream/policy.toml:2 user home/.config/slipstream/policy.toml:5\n"
            "u2 6000 user home/.config/slipstream/policy.toml:6 user home/.config/slipstream/policy.toml:9\n"
            "s1 9000 system etc/policy.toml:2 system etc/policy.toml:5\n"
            "s2 8000 system etc/policy.toml:6 system etc/policy.toml:9\n"
            "none\n");
}

TEST_F(LayersTest, ARuleMayHideThoseOfEarlierLayersButNotOfItsOwnFile) {
  const std::string all = "[[transfer.rule]]\npromote = false\n";
  Write("etc/policy.toml", all);
  Write("home/.config/slipstream/policy.toml", all);
  EXPECT_TRUE(LoadIn(Search::kProcess).ok());
  Write("home/.config/slipstream/policy.toml", all + all);
  EXPECT_FALSE(LoadIn(Search::kProcess).ok());
}

TEST_F(LayersTest, RulesOfAllLayersTogetherHaveALimit) {
  const auto rules = [](int count, int from) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      const std::string size = std::to_string(from + i);
      text += "[[transfer.rule]]\nmin_size = " + size + "\nmax_size = " + size + "\npromote = false\n";
    }
    return text;
  };
  Write("etc/policy.toml", rules(40, 1));
  Write("home/.config/slipstream/policy.toml", rules(24, 1));
  EXPECT_EQ(LoadIn(Search::kProcess).policy.transfer.rules.size(), 64U);
  Write("home/.config/slipstream/policy.toml", rules(25, 1));
  const Loaded loaded = LoadIn(Search::kProcess);
  ASSERT_EQ(loaded.problems.size(), 1U);
  EXPECT_EQ(WithoutRoot(loaded.problems[0].Format()),
            "home/.config/slipstream/policy.toml: more than 64 rules, with those of the files before it");
  EXPECT_TRUE(loaded.policy.transfer.rules.empty());
}

TEST_F(LayersTest, FilesOfTheSystemsFolderAreReadByName) {
  for (const char* name : {"b.toml", "10.toml", "9.toml", "a.toml~", ".hidden.toml", "README", "B.toml"}) {
    Write(std::string("etc/policy.d/") + name, "");
  }
  EXPECT_EQ(WithoutRoot(LoadIn(Search::kProcess).Files()),
            "system etc/policy.d/10.toml, system etc/policy.d/9.toml, system etc/policy.d/B.toml, system "
            "etc/policy.d/b.toml");
  for (int i = 0; i < 61; ++i) Write("etc/policy.d/x" + std::to_string(i) + ".toml", "");
  const Loaded loaded = LoadIn(Search::kProcess);
  ASSERT_EQ(loaded.problems.size(), 1U);
  EXPECT_EQ(WithoutRoot(loaded.problems[0].Format()), "etc/policy.d: holds more than 64 policies");
}

TEST_F(LayersTest, TheUsersFileIsWhereXdgSays) {
  Write("home/.config/slipstream/policy.toml", "");
  std::filesystem::create_directories(root_ / "xdg/slipstream");
  Write("xdg/slipstream/policy.toml", "");
  EXPECT_EQ(WithoutRoot(LoadIn(Search::kProcess).Files()), "user home/.config/slipstream/policy.toml");
  EXPECT_EQ(WithoutRoot(LoadIn(Search::kProcess, {{"XDG_CONFIG_HOME", root_ / "xdg"}}).Files()),
            "user xdg/slipstream/policy.toml");
  // A relative one is none (XDG Base Directory Specification).
  EXPECT_EQ(WithoutRoot(LoadIn(Search::kProcess, {{"XDG_CONFIG_HOME", "xdg"}}).Files()),
            "user home/.config/slipstream/policy.toml");
  for (const char* home : {"", "home", "."}) {
    EXPECT_EQ(LoadIn(Search::kProcess, {{"HOME", home}}).Files(), "defaults") << home;
  }
}

TEST_F(LayersTest, AFileThatIsNamedTakesThePlaceOfTheUsersAndTheProjectsNotOfTheSystems) {
  Write("etc/policy.toml", "enabled = false\n");
  Write("home/.config/slipstream/policy.toml", "[log]\nlevel = \"warn\"\n");
  Write("home/project/slipstream.toml", "");
  Write("home/named.toml", "[transfer]\nthreads = 5\n");
  path_ = root_ / "home/named.toml";
  const auto show = [](const Loaded& loaded) {
    return loaded.Files() + (loaded.policy.enabled ? " on" : " off") + " " + OriginOf(loaded, "log.level");
  };
  EXPECT_EQ(From("home/project", show), "system etc/policy.toml, home/named.toml off default");
  path_.reset();
  EXPECT_EQ(From("home/project", show, Search::kCommand, {{kPolicyVariable, root_ / "home/named.toml"}}),
            "system etc/policy.toml, home/named.toml off default");
  EXPECT_EQ(From("home/project", show, Search::kCommand, {{kPolicyVariable, ""}}),
            "system etc/policy.toml off default");
}

TEST_F(LayersTest, OneFileForItselfIsReadWithoutLayers) {
  Write("etc/policy.toml", "enabled = false\n");
  Write("home/named.toml", "");
  path_ = root_ / "home/named.toml";
  EXPECT_EQ(WithoutRoot(LoadIn(Search::kNamedOnly).Files()), "home/named.toml");
  EXPECT_TRUE(LoadIn(Search::kNamedOnly).policy.enabled);
}

TEST_F(LayersTest, AProjectsFileIsOfTheWorkingDirectoryOrTheNearestFolderAboveInTheRepository) {
  EXPECT_EQ(From("home/project/deep/er", Files), "defaults");
  Write("home/slipstream.toml", "");  // above the repository
  EXPECT_EQ(From("home/project/deep/er", Files), "defaults");
  Write("home/project/slipstream.toml", "");
  EXPECT_EQ(From("home/project/deep/er", Files), "project home/project/slipstream.toml");
  EXPECT_EQ(From("home/project", Files), "project home/project/slipstream.toml");
  Write("home/project/deep/slipstream.toml", "");
  EXPECT_EQ(From("home/project/deep/er", Files), "project home/project/deep/slipstream.toml")
      << "the nearest one alone";
  EXPECT_EQ(From("home", Files), "project home/slipstream.toml");
}

TEST_F(LayersTest, WithoutARepositoryTheSearchGoesUpToTheHomeAndNoFurther) {
  std::filesystem::remove_all(root_ / "home/project/.git");
  Write("slipstream.toml", "");  // above the home
  EXPECT_EQ(From("home/project/deep", Files), "defaults");
  Write("home/slipstream.toml", "");
  EXPECT_EQ(From("home/project/deep", Files), "project home/slipstream.toml");
}

TEST_F(LayersTest, OutsideOfBothOnlyTheWorkingDirectoryIsLookedInto) {
  std::filesystem::create_directories(root_ / "scratch/job");
  Write("scratch/slipstream.toml", "");
  EXPECT_EQ(From("scratch/job", Files), "defaults");
  EXPECT_EQ(From("scratch", Files), "project scratch/slipstream.toml");
  // A home of "/", as daemons have it, is no bound either.
  EXPECT_EQ(From("scratch/job", Files, Search::kCommand, {{"HOME", "/"}}), "defaults");
}

TEST_F(LayersTest, S59_AFolderThatStrangersMayWriteEndsTheSearchForAProject) {
  Write("home/project/slipstream.toml", "");
  ASSERT_EQ(::chmod((root_ / "home/project").c_str(), 01777), 0);  // as /tmp is
  EXPECT_EQ(From("home/project/deep/er", Files), "defaults");
  ASSERT_EQ(::chmod((root_ / "home/project").c_str(), 0755), 0);
  EXPECT_EQ(From("home/project/deep/er", Files), "project home/project/slipstream.toml");
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a folder of somebody else's";
  ASSERT_EQ(::chown((root_ / "home/project").c_str(), 4242, 4242), 0);
  EXPECT_EQ(From("home/project/deep/er", Files), "defaults");
}

TEST_F(LayersTest, S59_APreloadedProcessNeverLooksForAProject) {
  Write("home/project/slipstream.toml", "enabled = false\n");
  EXPECT_EQ(From("home/project", Files, Search::kProcess), "defaults");
}

TEST_F(LayersTest, S59_AProjectsFileSetsNoVariablesAndNoFileUnlessItIsNamed) {
  Write("home/project/slipstream.toml", "[log]\nfile = \"\"\n[environment]\n");
  EXPECT_EQ(From("home/project", Files), "project home/project/slipstream.toml") << "what sets nothing is harmless";
  Write("home/project/slipstream.toml",
        "[log]\nfile = \"/data/x\"\n[environment]\nPYTHONPATH = \"here\"\n[run]\nsummaries = \"/data/y\"\n");
  const std::string file = "home/project/slipstream.toml";
  const std::string why = "\" may not stand in a project's file that nobody named, expected --policy " + file +
                          " on the command line, if you trust it\n";
  EXPECT_EQ(From("home/project", [](const Loaded&) { return ""; }), file + ":3:1: \"log.file" + why + file +
                                                                        ":5:1: \"environment.PYTHONPATH" + why + file +
                                                                        ":7:1: \"run.summaries" + why);
  path_ = root_ / file;
  const auto show = [](const Loaded& loaded) { return loaded.policy.environment.at("PYTHONPATH"); };
  EXPECT_EQ(From("home/project", show), "here");
}

TEST_F(LayersTest, S59_WhatIsWrongInAnyLayerIsAProblemWithItsPlace) {
  Write("etc/policy.toml", "enabled = 1\n");
  Write("home/.config/slipstream/policy.toml", "[log]\nlevel = \"loud\"\n");
  const Loaded loaded = LoadIn(Search::kProcess);
  ASSERT_EQ(loaded.problems.size(), 2U);
  EXPECT_EQ(WithoutRoot(loaded.problems[0].Format()),
            "etc/policy.toml:2:11: \"enabled\": found 1, expected true or false");
  EXPECT_TRUE(
      WithoutRoot(loaded.problems[1].Format()).starts_with("home/.config/slipstream/policy.toml:3:9: \"log.level\""));
  EXPECT_FALSE(loaded.policy.enabled);
}

TEST_F(LayersTest, S59_FilesThatOthersMayWriteAreRefusedInEveryLayer) {
  for (const char* name : {"etc/policy.toml", "etc/policy.d/1.toml", "home/.config/slipstream/policy.toml",
                           "home/project/slipstream.toml"}) {
    Write(name, "", 0666);
    EXPECT_EQ(From("home/project", [](const Loaded&) { return ""; }),
              std::string(name) + ": everybody may write it; refused until \"chmod o-w\" is done\n");
    ::chmod((root_ / name).c_str(), 0644);
    const std::string folder = std::filesystem::path(root_ / name).parent_path();
    ASSERT_EQ(::chmod(folder.c_str(), 0777), 0);
    EXPECT_TRUE(From("home/project", [](const Loaded&) { return ""; })
                    .starts_with(std::string(name) + ": everybody may replace it"))
        << name;
    ASSERT_EQ(::chmod(folder.c_str(), 0755), 0);
    EXPECT_EQ(From("home/project", [](const Loaded&) { return ""; }), "");
    ::unlink((root_ / name).c_str());
  }
}

TEST_F(LayersTest, S59_WhatCannotBeLookedAtIsAProblemInTheSystemsLayerOnly) {
  Write("etc/policy.toml", "");
  Write("home/.config/slipstream/policy.toml", "");
  const auto as_nobody = [&](const char* closed) {
    const test::Finished child = InChild([&] {
      ::chmod((root_ / closed).c_str(), 0);
      if (!test::BecomeNobody()) return 2;
      const Loaded loaded = LoadIn(Search::kProcess);
      for (const Problem& problem : loaded.problems) std::printf("%s\n", problem.Format().c_str());
      return std::fflush(stdout);
    });
    ::chmod((root_ / closed).c_str(), 0755);
    return child.status == 0 ? WithoutRoot(child.out) : "exit code " + std::to_string(child.status);
  };
  // Nobody's own files, so that only what may be entered is asked.
  if (::geteuid() == 0) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root_.path())) {
      if (!entry.is_regular_file()) continue;
      ASSERT_EQ(::chown(entry.path().c_str(), 65534, 65534), 0);
    }
  }
  EXPECT_EQ(as_nobody("home/.config"), "");
  EXPECT_EQ(as_nobody("etc"),
            "etc/policy.toml: cannot be looked at: Permission denied\n"
            "etc/policy.d: cannot be listed: Permission denied\n");
  // One that is there and cannot be read was meant to be obeyed, whosever it is.
  EXPECT_EQ(as_nobody("home/.config/slipstream/policy.toml"),
            "home/.config/slipstream/policy.toml: cannot be opened: Permission denied\n");
}

TEST_F(LayersTest, TheSystemsDirectoryMayBeAnotherOneOrNone) {
  Write("etc/policy.toml", "enabled = false\n");
  EXPECT_FALSE(LoadIn(Search::kProcess).policy.enabled);
  EXPECT_TRUE(LoadIn(Search::kProcess, {{kSystemDirectoryVariable, ""}}).policy.enabled);
  const Loaded relative = LoadIn(Search::kProcess, {{kSystemDirectoryVariable, "etc"}});
  ASSERT_EQ(relative.problems.size(), 1U);
  EXPECT_EQ(relative.problems[0].Format(),
            "environment variable SLIPSTREAM_SYSTEM_DIRECTORY: is not an absolute path, expected a directory");
  std::vector<Problem> problems;
  const auto files =
      FindLayers({.search = Search::kProcess}, Environment(Variables{{"HOME", root_ / "home"}}), problems);
  ASSERT_FALSE(files.empty());
  EXPECT_EQ(files[0].path, "/etc/slipstream/policy.toml");
}

TEST_F(LayersTest, EveryPlaceIsListedFoundOrNot) {
  Write("home/project/slipstream.toml", "");
  const auto list = [](const Loaded& loaded) {
    std::string out;
    for (const LayerFile& file : loaded.layers) {
      out += std::string(NameOf(file.layer)) + " " + file.path + (file.found ? " found" : "") +
             (file.note.empty() ? "" : " (" + file.note + ")") + "\n";
    }
    return out;
  };
  EXPECT_EQ(From("home/project/deep", list),
            "system etc/policy.toml\n"
            "system etc/policy.d/*.toml\n"
            "user home/.config/slipstream/policy.toml\n"
            "project home/project/slipstream.toml found\n");
  ::unlink((root_ / "home/project/slipstream.toml").c_str());
  EXPECT_EQ(
      From("home/project/deep", list, Search::kCommand, {{"HOME", ""}, {kSystemDirectoryVariable, ""}}),
      "system /etc/slipstream (not looked for: SLIPSTREAM_SYSTEM_DIRECTORY is empty)\n"
      "user ~/.config/slipstream/policy.toml (not looked for: neither XDG_CONFIG_HOME nor HOME names a directory)\n"
      "project home/project/deep/slipstream.toml (nor in a folder above, up to home/project)\n");
}

TEST_F(LayersTest, AListOfFilesIsReadInItsOrder) {
  Write("home/a.toml", "[log]\nlevel = \"warn\"\n[transfer]\nthreads = 1\n");
  Write("home/b.toml", "[transfer]\nthreads = 2\n");
  const auto load = [&](const std::string& list) { return LoadIn(Search::kProcess, {{kPolicyVariable, list}}); };
  const Loaded both = load(root_ / "home/a.toml" + "::" + (root_ / "home/b.toml"));
  EXPECT_EQ(WithoutRoot(both.Files()), "home/a.toml, home/b.toml");
  EXPECT_EQ(both.policy.transfer.threads, 2);
  EXPECT_EQ(both.policy.log.level, LogLevel::kWarn);
  EXPECT_FALSE(both.path);
  EXPECT_EQ(load(root_ / "home/b.toml" + ":" + (root_ / "home/a.toml")).policy.transfer.threads, 1);
  EXPECT_EQ(load(root_ / "home/a.toml" + ":" + (root_ / "missing.toml")).problems.size(), 1U);
  EXPECT_EQ(load(":").Files(), "defaults");
}

TEST_F(LayersTest, NamesWithColonsAndBackslashesSurviveTheList) {
  for (const Strings& names :
       {Strings{"/a"}, Strings{"/a", "/b"}, Strings{"/a:b\\", "/c\\:d"}, Strings{"/a\\\\b:"}, Strings{}}) {
    EXPECT_EQ(SplitPolicyList(JoinPolicyList(names)), names) << JoinPolicyList(names);
  }
  EXPECT_EQ(SplitPolicyList("/a\\b:/c"), (Strings{"/a\\b", "/c"})) << "a backslash before anything else is itself";
  // As before there were lists.
  Write("home/a:b.toml", "[log]\nlevel = \"warn\"\n");
  EXPECT_EQ(SplitPolicyList(root_ / "home/a:b.toml"), Strings{root_ / "home/a:b.toml"});
}

TEST_F(LayersTest, WhatIsHandedOnReadsTheSameFromAnywhere) {
  Write("etc/policy.toml", "[transfer]\nthreads = 1\n");
  Write("home/.config/slipstream/policy.toml", "[log]\nlevel = \"warn\"\n");
  Write("home/project/slipstream.toml", "[allocator]\ndecay = 7\n");
  const auto from_elsewhere = [&](const Loaded& here) {
    const std::string list = PolicyListFor(here);
    const Environment env(
        Variables{{kPolicyVariable, list}, {"HOME", "/nonexistent"}, {kSystemDirectoryVariable, Root("etc")}});
    if (::chdir("/") != 0) return std::string("no /");
    const Loaded there = Load({.path = std::nullopt, .env = env, .search = Search::kProcess});
    return std::string(there.ok() && there.policy == here.policy ? "same " : "other ") + list;
  };
  EXPECT_EQ(From("home/project", from_elsewhere),
            "same home/.config/slipstream/policy.toml:home/project/slipstream.toml");
  path_ = "slipstream.toml";
  EXPECT_EQ(From("home/project", from_elsewhere), "same home/project/slipstream.toml");
  path_.reset();
  ::unlink((root_ / "home/.config/slipstream/policy.toml").c_str());
  EXPECT_EQ(From("home", from_elsewhere), "same ");
}

}  // namespace
}  // namespace slipstream::policy
