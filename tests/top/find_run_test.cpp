// Which run is meant, from a /proc made by hand.

#include "tools/trace/top/find_run.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tests/tracer/spool_testing.h"

namespace slipstream::top {
namespace {

class FindRunTest : public tracer::SpoolTest {
 protected:
  void SetUp() override {
    SpoolTest::SetUp();
    root_ = directory_ + "/proc";
    for (const char* const name : {"run1", "run2", "proc", "proc/sys"}) {
      ASSERT_TRUE(std::filesystem::create_directory(directory_ + "/" + name));
    }
  }
  void Process(int32_t pid, int32_t parent, const std::string& variables, const std::string& name = "python3",
               char state = 'S') {
    const std::string place = root_ + "/" + std::to_string(pid);
    std::filesystem::create_directory(place);
    tracer::Spit(place + "/stat",
                 std::to_string(pid) + " (" + name + ") " + state + " " + std::to_string(parent) + " 1 1 0 -1");
    tracer::Spit(place + "/comm", name + "\n");
    tracer::Spit(place + "/environ", variables);
  }
  std::string Run(int number) const { return directory_ + "/run" + std::to_string(number); }
  std::string Variables(int number) const {
    using namespace std::string_literals;
    return "HOME=/x\0SLIPSTREAM_RUN_DIRECTORY="s + Run(number) + "\0LD_PRELOAD=/lib/libslipstream.so\0"s;
  }
  FoundRun Find(const std::string& name) const { return FindRun(ProcFiles(root_), name); }

  std::string root_;
};

TEST_F(FindRunTest, AProcessOfTheRun) {
  Process(10, 1, "HOME=/x");
  Process(11, 10, Variables(1));
  const FoundRun found = Find("11");
  EXPECT_EQ(found.error, "");
  EXPECT_EQ(found.directories, std::vector<std::string>{Run(1)});
  EXPECT_EQ(found.pid, 11);
}

// `slipstream run` itself does not have the variable, nor has the shell around it; names may look like fields.
TEST_F(FindRunTest, WhatStartedTheRun) {
  Process(10, 1, "", "a) R (b");
  Process(11, 10, "HOME=/x", "slipstream");
  Process(12, 11, Variables(1));
  Process(13, 12, Variables(1));
  Process(99, 1, Variables(2));
  for (const char* const pid : {"10", "11"}) {
    const FoundRun found = Find(pid);
    EXPECT_EQ(found.error, "");
    EXPECT_EQ(found.directories, std::vector<std::string>{Run(1)});
    EXPECT_FALSE(found.pid);
  }
}

TEST_F(FindRunTest, ALauncherThatStartsARunForEachRank) {
  Process(10, 1, "", "torchrun");
  Process(11, 10, Variables(1));
  Process(12, 10, Variables(2));
  EXPECT_EQ(Find("10").directories, (std::vector<std::string>{Run(1), Run(2)}));
}

TEST_F(FindRunTest, WhatIsNotThereIsSaid) {
  Process(10, 1, "HOME=/x");
  Process(11, 1, "LD_PRELOAD=/opt/libslipstream.so");
  Process(12, 1, "SLIPSTREAM_RUN_DIRECTORY=" + directory_ + "/gone");
  EXPECT_TRUE(Find("9").error.starts_with("no process 9 is here\n")) << Find("9").error;
  EXPECT_TRUE(Find("10").error.starts_with("process 10 is not under slipstream")) << Find("10").error;
  EXPECT_TRUE(Find("11").error.starts_with("process 11 is under slipstream and keeps no counters")) << Find("11").error;
  EXPECT_TRUE(Find("12").error.starts_with("process 12: its run has ended")) << Find("12").error;
  EXPECT_NE(Find(directory_ + "/none").error.find("No such file or directory"), std::string::npos);
  EXPECT_NE(Find(root_ + "/10/stat").error.find("is no directory of a run"), std::string::npos);
  EXPECT_EQ(Find(Run(1)).directories, std::vector<std::string>{Run(1)});
}

TEST_F(FindRunTest, AllRunsOfTheMachine) {
  EXPECT_TRUE(FindAll(ProcFiles(root_)).runs.empty());
  Process(11, 1, "HOME=/x", "bash");
  Process(12, 20, Variables(1));  // numbers have begun anew: 20 started it
  Process(13, 12, Variables(1));
  Process(14, 1, Variables(2), "python3", 'Z');
  Process(20, 11, Variables(1), "train");
  Process(21, 1, Variables(2), "other");
  Process(22, 1, "LD_PRELOAD=/opt/libslipstream.so");
  Process(23, 1, "SLIPSTREAM_RUN_DIRECTORY=" + directory_ + "/gone");
  const RunsHere here = FindAll(ProcFiles(root_));
  ASSERT_EQ(here.runs.size(), 2U);
  EXPECT_EQ(here.runs[0].directory, Run(1));
  EXPECT_EQ(here.runs[0].first, 20);
  EXPECT_EQ(here.runs[0].owner, geteuid());
  EXPECT_EQ(here.runs[1].directory, Run(2));
  EXPECT_EQ(here.runs[1].first, 21);
  EXPECT_EQ(here.uncounted, std::vector<int32_t>{22});
}

// A shell, what it runs, and a worker of that.
TEST_F(FindRunTest, WhatStandsForAProcessThatMakesNoCalls) {
  Process(10, 1, Variables(1), "bash");
  Process(11, 10, Variables(1), "python3");
  Process(12, 11, Variables(1), "worker");
  Process(13, 1, Variables(1), "other");
  const ProcFiles processes(root_);
  EXPECT_EQ(ShownFor(processes, 11, {11, 13}), 11);
  EXPECT_EQ(ShownFor(processes, 10, {13, 11}), 11);
  EXPECT_EQ(ShownFor(processes, 12, {13, 11}), 11);
  EXPECT_EQ(ShownFor(processes, 10, {13}), std::nullopt);
}

TEST_F(FindRunTest, WhatAProcessWasStartedWith) {
  using namespace std::string_literals;
  Process(10, 1, "");
  EXPECT_TRUE(ProcFiles(root_).CommandOf(10).empty());
  tracer::Spit(root_ + "/10/cmdline", "python3\0train.py\0\0--lr=1\0"s);
  EXPECT_EQ(ProcFiles(root_).CommandOf(10), (std::vector<std::string>{"python3", "train.py", "", "--lr=1"}));
}

TEST_F(FindRunTest, ARunIsInUseWhileAProcessHasIt) {
  EXPECT_FALSE(IsInUse(ProcFiles(root_), Run(1)));
  Process(12, 11, Variables(1), "bash", 'Z');
  EXPECT_FALSE(IsInUse(ProcFiles(root_), Run(1)));
  Process(13, 11, Variables(1), "bash");
  EXPECT_TRUE(IsInUse(ProcFiles(root_), Run(1)));
  EXPECT_TRUE(IsInUse(ProcFiles(root_), Run(1) + "/../run1"));
  EXPECT_FALSE(IsInUse(ProcFiles(root_), Run(2)));
}

// This process is there, whatever the machine.
TEST_F(FindRunTest, TheSystemsOwn) {
  const ProcFiles processes;
  EXPECT_TRUE(processes.IsAlive(getpid()));
  EXPECT_EQ(processes.ParentOf(getpid()), getppid());
  EXPECT_TRUE(processes.VariablesOf(getpid()).readable);
  EXPECT_FALSE(processes.IsAlive(0x7fffffff));
}

}  // namespace
}  // namespace slipstream::top
