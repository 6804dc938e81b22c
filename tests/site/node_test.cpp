// The runs of a node, from a /proc made by hand, and a directory of a run in which others have left something.

#include "tools/site/node.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tracer/counters/counter_file.h"

namespace slipstream::site {
namespace {

using namespace std::string_literals;
using test::WriteFile;

// Of a process that has made no call yet.
std::string CounterBytes(int32_t pid, uint64_t start_unix_ns) {
  static const std::string bytes = [] {
    const test::Folder folder;
    std::string error;
    // Never destroyed; kept here, so that the leak checker finds it.
    static const tracer::CounterFile* const kept = tracer::CounterFile::Create(folder.path(), 2, {.rank = -1}, &error);
    EXPECT_NE(kept, nullptr) << error;
    return test::ReadFile(folder / test::NamesIn(folder.path()).at(0));
  }();
  std::string own = bytes;
  std::memcpy(own.data() + offsetof(tracer::FileHeader, pid), &pid, sizeof(pid));
  std::memcpy(own.data() + offsetof(tracer::FileHeader, start_unix_ns), &start_unix_ns, sizeof(start_unix_ns));
  return own;
}

class NodeTest : public testing::Test {
 protected:
  void SetUp() override {
    mkdir((folder_ / "proc").c_str(), 0700);
    AddRun("run1");
  }
  void AddRun(const std::string& name) const { mkdir((folder_ / name).c_str(), 0700); }
  void AddProcess(int32_t pid, int32_t parent, const std::string& run) const {
    const std::string place = folder_ / "proc/" + std::to_string(pid);
    mkdir(place.c_str(), 0700);
    WriteFile(place + "/stat", std::to_string(pid) + " (sh) S " + std::to_string(parent) + " 1 1 0 -1");
    WriteFile(place + "/comm", "torchrun\n");
    WriteFile(place + "/environ",
              run.empty() ? "LD_PRELOAD=/x/libslipstream.so\0"s : "SLIPSTREAM_RUN_DIRECTORY="s + folder_ / run + "\0"s);
  }
  std::vector<NodeRun> Read() {
    std::vector<NodeRun> runs;
    left_ = ReadNode(top::ProcFiles(folder_ / "proc"), geteuid() == 0, "run.json",
                     [&runs](const NodeRun& run) { runs.push_back(run); });
    return runs;
  }

  const test::Folder folder_;
  NodeLeft left_;
};

TEST_F(NodeTest, ProcessesThatEndedStayInTheCountersOfTheirRun) {
  AddProcess(100, 1, "run1");
  AddProcess(101, 100, "run1");
  WriteFile(folder_ / "run1/run.json", "state");
  WriteFile(folder_ / "run1/101-1.counters", CounterBytes(101, 1));
  WriteFile(folder_ / "run1/101-2.counters", CounterBytes(101, 2));  // it has executed another program
  WriteFile(folder_ / "run1/102-1.counters", CounterBytes(102, 1));
  const std::vector<NodeRun> runs = Read();
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].facts.first, 100);
  EXPECT_EQ(runs[0].program, "torchrun");
  EXPECT_EQ(runs[0].state, "state");
  ASSERT_EQ(runs[0].processes.size(), 3U);
  for (const NodeProcess& process : runs[0].processes) {
    EXPECT_EQ(process.alive, process.counts.pid == 101 && process.counts.start_unix_ns == 2);
  }
  EXPECT_EQ(left_.uncounted + left_.unreadable_files + left_.unreadable_runs, 0U);
}

TEST_F(NodeTest, WhatCannotBeReadIsCounted) {
  AddRun("run2");
  AddProcess(100, 1, "run1");
  AddProcess(200, 1, "run2");
  AddProcess(300, 1, "");
  WriteFile(folder_ / "run1/1-1.counters", "none");
  WriteFile(folder_ / "elsewhere", CounterBytes(5, 1));
  ASSERT_EQ(symlink((folder_ / "elsewhere").c_str(), (folder_ / "run1/2-1.counters").c_str()), 0);
  ASSERT_EQ(mkfifo((folder_ / "run1/3-1.counters").c_str(), 0600), 0);
  ASSERT_EQ(mkfifo((folder_ / "run1/run.json").c_str(), 0600), 0);
  WriteFile(folder_ / "run2/run.json", "state");
  std::vector<NodeRun> runs = Read();
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].processes.size(), 0U);
  EXPECT_EQ(runs[0].state, "");
  EXPECT_EQ(left_.unreadable_files, 3U);
  EXPECT_EQ(left_.uncounted, 1U);
  EXPECT_EQ(left_.unreadable_runs, 0U);
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  ASSERT_EQ(chown((folder_ / "run2").c_str(), 4242, 4242), 0);
  runs = Read();
  EXPECT_EQ(runs.size(), 1U) << "the process says that another user's folder is its run's";
  EXPECT_EQ(left_.unreadable_runs, 1U);
}

}  // namespace
}  // namespace slipstream::site
