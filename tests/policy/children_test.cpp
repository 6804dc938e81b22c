#include "policy/children.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "policy/environment.h"

namespace slipstream::policy {
namespace {

constexpr const char* kLibrary = "/opt/lib/libslipstream.so";

ChildrenRule RuleOf(const std::string& text) {
  ChildrenRule rule;
  EXPECT_TRUE(ParseChildren(text, &rule)) << text;
  return rule;
}

// `text` must outlive what is returned.
Keeps Ask(const std::string& text, std::string_view path) { return MayKeep(RuleOf(text), path); }

TEST(Children, TheVariableIsEmptyWhereEveryProgramKeepsThePreload) {
  EXPECT_EQ(ChildrenVariable({}, kLibrary), "");
  EXPECT_EQ(ChildrenVariable({.keep = {"git"}}, kLibrary), "");
  EXPECT_NE(ChildrenVariable({.drop = {"git"}}, kLibrary), "");
}

TEST(Children, TheVariableSaysWhatThePolicySays) {
  for (const ChildrenPreload preload : {ChildrenPreload::kAll, ChildrenPreload::kPython, ChildrenPreload::kNone}) {
    const std::string text = ChildrenVariable({.preload = preload, .keep = {"a b", "c"}, .drop = {"*/d"}}, kLibrary);
    const ChildrenRule rule = RuleOf(text);
    EXPECT_EQ(rule.preload, preload);
    EXPECT_EQ(rule.library, kLibrary);
    EXPECT_EQ(rule.patterns, "+a b:+c:-*/d");
  }
  EXPECT_EQ(RuleOf(ChildrenVariable({.preload = ChildrenPreload::kNone}, kLibrary)).patterns, "");
}

TEST(Children, AVariableThatIsNotOursIsLeftAlone) {
  ChildrenRule rule;
  for (const char* text : {"", ":", "none", "none:", "none::-x", "some:/l.so", "NONE:/l.so", ":/l.so"}) {
    EXPECT_FALSE(ParseChildren(text, &rule)) << text;
  }
}

TEST(Children, PatternsWinOverThePreloadKeyAndDropOverKeep) {
  const std::string none = "none:/l.so:+tool:+*/kept/*:-*/kept/git";
  EXPECT_EQ(Ask(none, "/usr/bin/python3"), Keeps::kNo);
  EXPECT_EQ(Ask(none, "/usr/bin/tool"), Keeps::kYes);
  EXPECT_EQ(Ask(none, "/kept/x"), Keeps::kYes);
  EXPECT_EQ(Ask(none, "/kept/git"), Keeps::kNo);
  const std::string all = "all:/l.so:-git:-py*";
  EXPECT_EQ(Ask(all, "/usr/bin/git"), Keeps::kNo);
  EXPECT_EQ(Ask(all, "git"), Keeps::kNo);
  EXPECT_EQ(Ask(all, "/usr/bin/gitk"), Keeps::kYes);
  EXPECT_EQ(Ask(all, "/git/python3"), Keeps::kNo);
  EXPECT_EQ(Ask(all, "/python3/x"), Keeps::kYes) << "without a slash, a pattern is about the name alone";
  const std::string python = "python:/l.so:-python3.9:+ffmpeg:+sh:-sh";
  EXPECT_EQ(Ask(python, "/usr/bin/python3.9"), Keeps::kNo);
  EXPECT_EQ(Ask(python, "/usr/bin/python3.11"), Keeps::kYes);
  EXPECT_EQ(Ask(python, "/usr/bin/ffmpeg"), Keeps::kYes);
  EXPECT_EQ(Ask(python, "/bin/sh"), Keeps::kNo) << "drop stands behind keep, and wins all the same";
  EXPECT_EQ(Ask("none:/l.so:-sh:+sh", "/bin/sh"), Keeps::kNo) << "and in front of it too";
}

TEST(Children, WithPythonNamesSayWhoStartsOthers) {
  const std::string rule = "python:/l.so";
  for (const char* path : {"/usr/bin/python", "python3", "/opt/python3.12", "/x/python3.13t", "/x/pypy3.10", "/bin/sh",
                           "/usr/bin/env", "bash", "/usr/bin/mpirun.openmpi", "/opt/mpiexec.hydra", "srun",
                           "/usr/bin/nohup", "timeout", "numactl", "taskset", "/opt/nsys"}) {
    EXPECT_EQ(Ask(rule, path), Keeps::kYes) << path;
  }
  for (const char* path : {"/usr/bin/gcc", "/usr/lib/gcc/cc1plus", "ptxas", "/usr/local/cuda/bin/nvcc", "git", "ffmpeg",
                           "ld", "as", "/usr/bin/torchrun", "/python/cc1", "", "/"}) {
    EXPECT_EQ(Ask(rule, path), Keeps::kByContent) << path;
  }
}

TEST(Children, EveryStarterIsOne) {
  for (const std::string_view name : Starters()) {
    std::string path = "/usr/bin/" + std::string(name);
    std::replace(path.begin(), path.end(), '*', 'x');
    EXPECT_EQ(Ask("python:/l.so", path), Keeps::kYes) << path;
  }
}

TEST(Children, AScriptIsJudgedByItsFirstLine) {
  for (const char* head :
       {"#!/usr/bin/python3\n", "#!/usr/bin/env python3\nimport x", "#! /opt/venv/bin/python3.12 -u\n",
        "#!/bin/sh\n'''exec' /long/python", "#!/usr/bin/env perl\n", "#!/bin/bash", "#!\n", "#!  ",
        "#!\t/usr/bin/pypy3\r\n", "", "echo hello\n", "\177EL", "#"}) {
    EXPECT_TRUE(KeepsByContent(head)) << head;
  }
  for (const char* head : {"\177ELF\2\1\1", "#!/usr/bin/perl -w\n", "#!/usr/bin/awk -f", "#!node /bin/sh\n",
                           "#!/opt/python/bin/ruby\n#!/usr/bin/python3\n"}) {
    EXPECT_FALSE(KeepsByContent(head)) << head;
  }
}

// An environment to pass on, and what becomes of it.
class PassedOn {
 public:
  explicit PassedOn(std::vector<std::string> texts) : texts_(std::move(texts)) {
    for (std::string& text : texts_) pointers_.push_back(text.data());
    pointers_.push_back(nullptr);
  }

  char* const* get() const { return pointers_.data(); }
  // With the null at the end.
  std::size_t count() const { return pointers_.size(); }
  // Of what can be edited, with its NULs.
  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const std::string& text : texts_) sum += text.starts_with("LD_PRELOAD=") ? text.size() + 1 : 0;
    return sum;
  }

  // Without the library; nothing where the call says that it did not.
  std::vector<std::string> Without(std::string_view library = kLibrary) {
    // Exactly as much as is there: a byte more would be found by a sanitizer.
    std::vector<char*> entries(count());
    std::vector<char> text(bytes());
    const std::vector<std::string> before = texts_;
    std::vector<std::string> out;
    if (WithoutPreload(get(), library, entries, text)) {
      for (char** entry = entries.data(); *entry != nullptr; ++entry) out.emplace_back(*entry);
    }
    EXPECT_EQ(texts_, before) << "the caller's variables are not to be written";
    return out;
  }

 private:
  std::vector<std::string> texts_;
  std::vector<char*> pointers_;
};

std::string Ours(const std::string& pattern) {
  std::string out = pattern;
  for (std::size_t at = out.find("OURS"); at != std::string::npos; at = out.find("OURS")) out.replace(at, 4, kLibrary);
  return out;
}

TEST(Children, OnlyOurEntryGoesOutOfThePreloadList) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"OURS:/a.so", "/a.so"},
      {"OURS /a.so", "/a.so"},
      {"/a.so:OURS", "/a.so"},
      {"/a.so:OURS:/b.so", "/a.so:/b.so"},
      {"/a.so OURS /b.so:/c.so", "/a.so /b.so:/c.so"},
      {"OURS:OURS:/a.so:OURS", "/a.so"},
      {"OURS:/opt/lib/libslipstream.so.1", "/opt/lib/libslipstream.so.1"},
      {"OURS:/x/opt/lib/libslipstream.so", "/x/opt/lib/libslipstream.so"},
      {":OURS::/a.so", "/a.so"},
  };
  for (const auto& [before, after] : cases) {
    PassedOn variables({"A=1", Ours("LD_PRELOAD=" + before), "B="});
    EXPECT_EQ(variables.Without(), (std::vector<std::string>{"A=1", "LD_PRELOAD=" + after, "B="})) << before;
  }
}

TEST(Children, APreloadListWithNothingElseIsLeftOut) {
  for (const char* list : {"OURS", "OURS:", " OURS ", "OURS:OURS"}) {
    PassedOn variables({"A=1", Ours(std::string("LD_PRELOAD=") + list), "B=2"});
    EXPECT_EQ(variables.Without(), (std::vector<std::string>{"A=1", "B=2"})) << list;
  }
}

TEST(Children, EveryPreloadVariableIsEdited) {
  PassedOn variables({Ours("LD_PRELOAD=OURS:/a.so"), "A=1", Ours("LD_PRELOAD=/b.so:OURS"), Ours("LD_PRELOAD=OURS")});
  EXPECT_EQ(variables.Without(), (std::vector<std::string>{"LD_PRELOAD=/a.so", "A=1", "LD_PRELOAD=/b.so"}));
}

TEST(Children, TheToolOfNvtxGoesWhereItIsOurs) {
  PassedOn ours({Ours("LD_PRELOAD=OURS"), Ours("NVTX_INJECTION64_PATH=OURS"), "A=1"});
  EXPECT_EQ(ours.Without(), std::vector<std::string>{"A=1"});
  PassedOn others({Ours("LD_PRELOAD=OURS"), "NVTX_INJECTION64_PATH=/opt/tool.so"});
  EXPECT_EQ(others.Without(), std::vector<std::string>{"NVTX_INJECTION64_PATH=/opt/tool.so"});
  PassedOn alone({"A=1", Ours("NVTX_INJECTION64_PATH=OURS")});
  EXPECT_EQ(alone.Without(), std::vector<std::string>{"A=1"});
}

TEST(Children, NothingElseChanges) {
  PassedOn variables({"LD_PRELOAD_=x", Ours("XLD_PRELOAD=OURS"), "=odd", "odd", "A=1", "A=2", "SLIPSTREAM_CHILDREN=x",
                      Ours("LD_PRELOAD=OURS"), Ours("PATH=OURS")});
  EXPECT_EQ(variables.Without(), (std::vector<std::string>{"LD_PRELOAD_=x", Ours("XLD_PRELOAD=OURS"), "=odd", "odd",
                                                           "A=1", "A=2", "SLIPSTREAM_CHILDREN=x", Ours("PATH=OURS")}));
}

TEST(Children, WithoutOurEntryThereIsNothingToEdit) {
  EXPECT_TRUE(PassedOn({}).Without().empty());
  EXPECT_TRUE(PassedOn({"A=1"}).Without().empty());
  EXPECT_TRUE(PassedOn({"LD_PRELOAD="}).Without().empty());
  EXPECT_TRUE(PassedOn({"LD_PRELOAD=/a.so:/b.so"}).Without().empty());
  std::vector<char*> entries(4);
  EXPECT_FALSE(WithoutPreload(nullptr, kLibrary, entries, {}));
}

TEST(Children, WhatDoesNotFitIsNotUsed) {
  PassedOn variables({"A=1", Ours("LD_PRELOAD=OURS:/a.so"), "B=2"});
  for (std::size_t entries = 0; entries <= variables.count(); ++entries) {
    for (std::size_t text = 0; text <= variables.bytes(); ++text) {
      std::vector<char*> pointers(entries);
      std::vector<char> bytes(text);
      EXPECT_EQ(WithoutPreload(variables.get(), kLibrary, pointers, bytes),
                entries == variables.count() && text == variables.bytes())
          << entries << " entries and " << text << " bytes";
    }
  }
}

TEST(Children, AListOfVariablesIsReadAsGetenvDoes) {
  PassedOn variables({"AB=0", "A=1", "A=2", "C"});
  EXPECT_STREQ(ValueIn(variables.get(), "A"), "1");
  EXPECT_STREQ(ValueIn(variables.get(), "AB"), "0");
  EXPECT_EQ(ValueIn(variables.get(), "C"), nullptr);
  EXPECT_EQ(ValueIn(nullptr, "A"), nullptr);
  EXPECT_TRUE(DisabledIn(PassedOn({"SLIPSTREAM_DISABLE=1"}).get()));
  EXPECT_FALSE(DisabledIn(PassedOn({"SLIPSTREAM_DISABLE=0"}).get()));
  EXPECT_FALSE(DisabledIn(PassedOn({"SLIPSTREAM_DISABLE="}).get()));
}

}  // namespace
}  // namespace slipstream::policy
