// A run looked at again and again: its processes come, go, and leave damaged files behind.

#include "tools/trace/top/run_watch.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "tests/top/top_testing.h"
#include "tests/trace_db/trace_db_testing.h"
#include "tracer/counters/counter_file.h"

namespace slipstream::top {
namespace {

using tracer::CounterFile;
using tracer::HookId;
using tracer::Index;

class RunWatchTest : public tracer::SpoolTest {
 protected:
  void SetUp() override {
    SpoolTest::SetUp();
    chmod(directory_.c_str(), 0700);
    alive_.insert(getpid());
  }
  // Never destroyed; kept here, so that the leak checker finds them.
  CounterFile* Counters(int32_t rank = -1) {
    static auto* const kept = new std::vector<CounterFile*>;
    std::string error;
    CounterFile* const file = kept->emplace_back(CounterFile::Create(directory_, 2, {.rank = rank}, &error));
    EXPECT_NE(file, nullptr) << error;
    return file;
  }
  static void Call(tracer::ThreadBlock* block, uint64_t calls) {
    tracer::CallCounter& counter = block->hooks[Index(HookId::cudaLaunchKernel)];
    counter.calls.store(counter.calls.load() + calls);
    counter.time_ns.store(counter.time_ns.load() + calls * 1000);
  }
  RunWatch Watch() {
    return RunWatch({.directories = {directory_},
                     .is_alive = [this](int32_t pid) { return alive_.count(pid) != 0; },
                     .is_in_use = [this](const std::string&) { return in_use_; }});
  }
  // A copy of the only counter file, of another process.
  std::string CopyFor(int32_t pid, const std::string& name) {
    std::string bytes;  // of the one that is whole
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      if (entry.is_symlink() || entry.path().extension() != ".counters") continue;
      if (entry.file_size() > bytes.size()) bytes = tracer::Slurp(entry.path());
    }
    std::memcpy(bytes.data() + offsetof(tracer::FileHeader, pid), &pid, sizeof(pid));
    std::string path = directory_ + "/" + name;
    tracer::Spit(path, bytes);
    return path;
  }

  std::set<int32_t> alive_;
  bool in_use_ = false;
};

TEST_F(RunWatchTest, WhatHappenedBetweenTwoReadings) {
  CounterFile* const file = Counters(5);
  tracer::ThreadBlock* const block = file->Claim(1);
  Call(block, 100);
  RunWatch watch = Watch();
  watch.Read(10 * kSecond);
  View view = watch.Look(10 * kSecond);
  ASSERT_EQ(view.processes.size(), 1U);
  EXPECT_EQ(view.processes[0].pid, getpid());
  EXPECT_EQ(view.processes[0].rank, 5);
  EXPECT_TRUE(view.processes[0].alive);
  EXPECT_FALSE(view.processes[0].counters);
  EXPECT_FALSE(view.processes[0].trace);
  EXPECT_FALSE(view.ended);

  // The thread ends and another one takes its block: sums only grow.
  Call(block, 30);
  file->Release(block);
  tracer::ThreadBlock* const next = file->Claim(2);
  Call(next, 12);
  file->RecordMemory({.device = 0, .live_bytes = 77});
  watch.Read(12 * kSecond);
  view = watch.Look(12 * kSecond);
  ASSERT_TRUE(view.processes[0].counters);
  EXPECT_EQ(view.processes[0].counters->seconds, 2);
  EXPECT_EQ(view.processes[0].counters->all.calls, 42U);
  EXPECT_EQ(view.processes[0].counters->total_calls, 142U);
  ASSERT_EQ(view.processes[0].memory.size(), 1U);
  EXPECT_EQ(view.processes[0].memory[0].live_bytes, 77U);
  EXPECT_TRUE(view.problems.empty());
}

// The last figures are those up to the end, and stay.
TEST_F(RunWatchTest, AProcessThatEnds) {
  tracer::ThreadBlock* const block = Counters()->Claim(1);
  RunWatch watch = Watch();
  watch.Read(10 * kSecond);
  Call(block, 3);
  alive_.clear();
  in_use_ = true;
  for (const uint64_t at : {11, 12, 13}) {
    watch.Read(at * kSecond);
    const View view = watch.Look(at * kSecond);
    ASSERT_EQ(view.processes.size(), 1U);
    EXPECT_FALSE(view.processes[0].alive);
    ASSERT_TRUE(view.processes[0].counters);
    EXPECT_EQ(view.processes[0].counters->all.calls, 3U);
    EXPECT_FALSE(view.ended) << "the command goes on";
  }
  // The run's directory is removed.
  in_use_ = false;
  std::filesystem::remove_all(directory_);
  watch.Read(14 * kSecond);
  const View view = watch.Look(14 * kSecond);
  EXPECT_TRUE(view.ended);
  EXPECT_TRUE(view.problems.empty()) << view.problems[0];
  ASSERT_TRUE(view.processes[0].counters);
  EXPECT_EQ(view.processes[0].counters->all.calls, 3U);
}

// At the end of a run its directory goes; what its processes did at last is seen all the same.
TEST_F(RunWatchTest, FilesThatVanishAreReadToTheEnd) {
  tracer::ThreadBlock* const block = Counters()->Claim(1);
  RunWatch watch = Watch();
  watch.Read(10 * kSecond);
  std::filesystem::remove_all(directory_);
  Call(block, 9);
  watch.Read(11 * kSecond);
  View view = watch.Look(11 * kSecond);
  ASSERT_EQ(view.processes.size(), 1U);
  EXPECT_TRUE(view.processes[0].alive);
  ASSERT_TRUE(view.processes[0].counters);
  EXPECT_EQ(view.processes[0].counters->all.calls, 9U);
  Call(block, 1);
  alive_.clear();
  watch.Read(12 * kSecond);
  view = watch.Look(12 * kSecond);
  EXPECT_TRUE(view.ended);
  EXPECT_EQ(view.processes[0].counters->all.calls, 1U);
}

// A process that executes another program has a second file under its number.
TEST_F(RunWatchTest, WhoWasReplacedByAnotherProgramHasEnded) {
  Counters();
  CopyFor(getpid(), "replaced.counters");
  std::string bytes = tracer::Slurp(directory_ + "/replaced.counters");
  uint64_t later = 0;
  std::memcpy(&later, bytes.data() + offsetof(tracer::FileHeader, start_unix_ns), sizeof(later));
  ++later;
  std::memcpy(bytes.data() + offsetof(tracer::FileHeader, start_unix_ns), &later, sizeof(later));
  tracer::Spit(directory_ + "/replaced.counters", bytes);
  RunWatch watch = Watch();
  watch.Read(10 * kSecond);
  const View view = watch.Look(10 * kSecond);
  ASSERT_EQ(view.processes.size(), 2U);
  EXPECT_TRUE(view.processes[0].alive);
  EXPECT_EQ(view.processes[0].start_unix_ns, later);
  EXPECT_FALSE(view.processes[1].alive);
}

// As long as nothing is left that says so, nothing is said: never a number that is wrong.
TEST_F(RunWatchTest, CountersThatGoBackwardsAreUnknown) {
  tracer::ThreadBlock* const block = Counters()->Claim(1);
  Call(block, 10);
  RunWatch watch = Watch();
  watch.Read(10 * kSecond);
  block->hooks[Index(HookId::cudaLaunchKernel)].calls.store(4);
  watch.Read(11 * kSecond);
  const View backwards = watch.Look(11 * kSecond);
  EXPECT_FALSE(backwards.processes[0].counters);
  EXPECT_NE(backwards.processes[0].no_counters.find("do not go on"), std::string::npos);
  watch.Read(12 * kSecond);
  EXPECT_TRUE(watch.Look(12 * kSecond).processes[0].counters);
}

TEST_F(RunWatchTest, DamagedFilesAndOthersFilesAreSaidAndLeftOut) {
  Counters();
  const std::string cut = CopyFor(getpid(), "cut.counters");
  std::filesystem::resize_file(cut, 1000);
  tracer::Spit(directory_ + "/x.spool", "no spool");
  ASSERT_EQ(symlink("/etc/passwd", (directory_ + "/link.counters").c_str()), 0);
  ASSERT_EQ(mkfifo((directory_ + "/pipe.spool").c_str(), 0600), 0);
  size_t problems = 4;
  if (geteuid() == 0) {
    const std::string foreign = CopyFor(getpid(), "foreign.counters");
    ASSERT_EQ(chown(foreign.c_str(), 12345, 12345), 0);
    ++problems;
  }
  RunWatch watch = Watch();
  watch.Read(10 * kSecond);
  watch.Read(11 * kSecond);
  const View view = watch.Look(11 * kSecond);
  EXPECT_EQ(view.processes.size(), 1U);
  EXPECT_EQ(view.problems.size(), problems);
  for (const std::string& problem : view.problems) EXPECT_TRUE(problem.starts_with(directory_)) << problem;
}

TEST_F(RunWatchTest, AnotherUsersRunIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to give a directory away";
  Counters();
  ASSERT_EQ(chown(directory_.c_str(), 12345, 12345), 0);
  RunWatch watch = Watch();
  watch.Read(10 * kSecond);
  const View view = watch.Look(10 * kSecond);
  EXPECT_TRUE(view.processes.empty());
  ASSERT_EQ(view.problems.size(), 1U);
  EXPECT_NE(view.problems[0].find("belongs to another user"), std::string::npos);
}

// Root looks at a run of somebody else's: what is in it is that user's, or root's.
TEST_F(RunWatchTest, TheOwnersFilesAreRead) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to give a directory away";
  Counters();
  const std::string foreign = CopyFor(getpid(), "foreign.counters");
  ASSERT_EQ(chown(foreign.c_str(), 12346, 12346), 0);
  ASSERT_EQ(chown(directory_.c_str(), 12345, 12345), 0);
  RunWatch watch({.directories = {directory_},
                  .owner = 12345,
                  .is_alive = [](int32_t) { return true; },
                  .is_in_use = [](const std::string&) { return true; }});
  watch.Read(10 * kSecond);
  const View view = watch.Look(10 * kSecond);
  ASSERT_EQ(view.processes.size(), 1U);
  EXPECT_EQ(view.processes[0].directory, directory_);
  ASSERT_EQ(view.problems.size(), 1U);
  EXPECT_TRUE(view.problems[0].starts_with(foreign)) << view.problems[0];
}

TEST_F(RunWatchTest, WhetherAProcessRecordsIsSaid) {
  CounterFile* const file = Counters();
  RunWatch watch = Watch();
  watch.Read(10 * kSecond);
  EXPECT_EQ(watch.Look(10 * kSecond).processes[0].recording, tracer::RecordState::kNone);
  file->record_control()->state.store(static_cast<uint32_t>(tracer::RecordState::kTurnedOff));
  watch.Read(11 * kSecond);
  EXPECT_EQ(watch.Look(11 * kSecond).processes[0].recording, tracer::RecordState::kTurnedOff);
}

// The trace and the counters of a process are found together; steps mark the slowest rank.
TEST_F(RunWatchTest, TracesStandBesideTheCounters) {
  Counters();
  for (int32_t rank = 0; rank < 3; ++rank) {
    const int32_t pid = rank == 0 ? getpid() : 100'000'000 + rank;
    if (rank != 0) CopyFor(pid, std::to_string(rank) + ".counters");
    alive_.insert(pid);
    trace_db::HandSpool spool(directory_, std::to_string(rank) + ".spool");
    spool.Facts({{"pid", std::to_string(pid)}, {"rank", std::to_string(rank)}, {"executable", "/usr/bin/python3"}});
    spool.Thread(1, 100, "main");
    const uint64_t step = rank == 1 ? 2000 : 1000;
    std::vector<tracer::TraceRecord> steps;
    for (uint64_t i = 0; i < 9; ++i) steps.push_back(tracer::StepRecord(i * step, (i + 1) * step, i));
    spool.Records(1, steps);
    spool.End();
  }
  RunWatch watch = Watch();
  watch.Read(10 * kSecond);
  const View view = watch.Look(10 * kSecond);
  ASSERT_EQ(view.processes.size(), 3U);
  for (const ProcessView& process : view.processes) {
    EXPECT_EQ(process.no_counters, "not known yet: one reading so far");
    ASSERT_TRUE(process.trace && process.trace->steps);
    EXPECT_EQ(process.trace->steps->seen, 9U);
  }
  for (const ProcessView& process : view.processes)
    EXPECT_EQ(process.slowest, process.pid == 100'000'001) << process.pid;
}

}  // namespace
}  // namespace slipstream::top
