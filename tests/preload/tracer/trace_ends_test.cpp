// How recordings end: with the process, in any of its ways, or before it.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/preload/tracer/trace_testing.h"
#include "tracer/counters/counter_reader.h"

namespace slipstream::test {
namespace {

using tracer::EndReason;
using tracer::RecordKind;

TEST(TraceEndsTest, CallsOfExitHandlersAndDestructorsAreInTheTrace) {
  const std::string directory = NewDirectory();
  EXPECT_EQ(RunTraced({TRACED, "at_exit"}, directory).status, 0);
  const Trace trace = ReadOnlyTrace(directory);
  ASSERT_NE(trace.reader, nullptr);
  EXPECT_TRUE(trace.end().complete);
  EXPECT_EQ(trace.Calls(), (CallCounts{{"cudaPeekAtLastError", 10}, {"cudaGetLastError", 1}}));
}

// A thread that still calls while the process ends.
TEST(TraceEndsTest, S53_AThreadThatStillCallsDoesNotKeepTheProcess) {
  const std::string directory = NewDirectory();
  const Finished traced = RunTraced({PROGRAM, "at_exit"}, directory);
  EXPECT_EQ(traced.status, 0) << traced.err;
  EXPECT_EQ(traced.out, "before: 0\nat exit: 0\n");
  EXPECT_GE(ReadOnlyTrace(directory).Calls().at("cudaMalloc"), 1U);
}

TEST(TraceEndsTest, S51_AForkedChildRecordsNothingAndItsParentsTraceIsWhole) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer does not support threads around fork";
#endif
  const std::string directory = NewDirectory();
  const Finished traced = RunTraced({TRACED, "fork", "2000"}, directory);
  EXPECT_EQ(traced.out, "child 5\n") << traced.err;
  const Trace trace = ReadOnlyTrace(directory);
  ASSERT_NE(trace.reader, nullptr);
  EXPECT_TRUE(trace.end().complete);
  EXPECT_EQ(trace.end().dropped, 0U);
  EXPECT_EQ(trace.Calls(), (CallCounts{{"cudaPeekAtLastError", 6000}}));
  EXPECT_EQ(trace.Calls(), CountsIn(directory));
}

TEST(TraceEndsTest, S51_AForkedChildThatIsTheFirstToUseCudaHasATraceOfItsOwn) {
  const std::string directory = NewDirectory();
  RunTraced({PROGRAM, "fork_first"}, directory);
  const std::vector<std::string> paths = Spools(directory);
  ASSERT_EQ(paths.size(), 2U);
  int complete = 0;
  for (const std::string& path : paths) complete += ReadTrace(path).end().complete ? 1 : 0;
  EXPECT_EQ(complete, 1) << "the child leaves by _exit";
}

TEST(TraceEndsTest, ExecEndsOneTraceAndBeginsAnother) {
  const std::string directory = NewDirectory();
  EXPECT_EQ(RunTraced({TRACED, "exec", "300"}, directory).status, 0);
  const std::vector<std::string> paths = Spools(directory);
  ASSERT_EQ(paths.size(), 2U);
  std::vector<bool> complete;
  for (const std::string& path : paths) {
    const Trace trace = ReadTrace(path);
    complete.push_back(trace.end().complete);
    if (trace.end().complete) {
      EXPECT_EQ(trace.Calls(), (CallCounts{{"cudaPeekAtLastError", 300}}));
    }
  }
  EXPECT_NE(complete[0], complete[1]);
}

TEST(TraceEndsTest, S58_WhatWasWrittenSurvivesSigkill) {
  for (int round = 0; round < 5; ++round) {
    const std::string directory = NewDirectory();
    int in[2];
    int out[2];
    ASSERT_EQ(pipe2(in, O_CLOEXEC), 0);
    ASSERT_EQ(pipe2(out, O_CLOEXEC), 0);
    const pid_t child = fork();
    if (child == 0) {
      dup2(in[0], STDIN_FILENO);
      dup2(out[1], STDOUT_FILENO);
      for (const auto& [name, value] : TracingPreload(SLIPSTREAM_LIBRARY, directory)) {
        setenv(name.c_str(), value.c_str(), 1);
      }
      execl(TRACED, TRACED, "steps", static_cast<char*>(nullptr));
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    // Until calls are in the file; the program makes 1000 of them each time that it is asked to. All that are made fit
    // the thread's ring (4096), so that none is lost however late the writer comes.
    size_t seen = 0;
    uint64_t made = 0;
    char byte = 0;
    while (seen == 0) {
      if (made < 3000) {
        ASSERT_EQ(write(in[1], "x", 1), 1);
        ASSERT_EQ(read(out[0], &byte, 1), 1);
        made += 1000;
      }
      seen = ReadOnlyTrace(directory).Of(RecordKind::kCall).size();
    }
    // And in the middle of the next ones.
    ASSERT_EQ(write(in[1], "x", 1), 1);
    ASSERT_EQ(kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
    close(in[1]);
    close(out[0]);

    const Trace trace = ReadOnlyTrace(directory);
    ASSERT_NE(trace.reader, nullptr);
    EXPECT_FALSE(trace.end().complete);
    EXPECT_TRUE(trace.end().left_why.empty() || trace.end().left_why == "the last chunk is cut")
        << trace.end().left_why;
    const size_t calls = trace.Of(RecordKind::kCall).size();
    EXPECT_GE(calls, seen);
    const uint64_t counted = CountsIn(directory).at("cudaPeekAtLastError");
    EXPECT_GE(counted, made);
    EXPECT_LE(counted, made + 1000);
    EXPECT_LE(calls, counted);
    EXPECT_EQ(trace.end().dropped, 0U);
  }
}

TEST(TraceEndsTest, ADirectoryThatIsRemovedEndsTheRecordingAndNotTheProgram) {
  const std::string directory = NewDirectory() + "/run";
  ASSERT_EQ(mkdir(directory.c_str(), 0700), 0);
  const Finished traced = RunTraced({TRACED, "remove", directory}, directory);
  EXPECT_EQ(traced.status, 0);
  EXPECT_EQ(traced.out, "done\n");
  EXPECT_EQ(traced.err, "");
  EXPECT_NE(access(directory.c_str(), F_OK), 0) << "it was made again";
}

TEST(TraceEndsTest, AFileSizeLimitEndsTheRecordingAndNotTheProgram) {
  for (const char* ignored : {"1", "0"}) {  // SIGXFSZ, by the program
    const std::string directory = NewDirectory();
    const Finished traced = RunTraced({TRACED, "limited", "150000", ignored, "200000"}, directory);
    EXPECT_EQ(traced.status, 0);
    EXPECT_EQ(traced.out, "done\n");
    EXPECT_EQ(traced.err, "");
    const Trace trace = ReadOnlyTrace(directory);
    ASSERT_NE(trace.reader, nullptr);
    EXPECT_FALSE(trace.Of(RecordKind::kCall).empty());
    EXPECT_TRUE(trace.end().complete);
    EXPECT_EQ(trace.end().reason, EndReason::kError);
    EXPECT_EQ(trace.end().error, EFBIG);
  }
}

TEST(TraceEndsTest, ThePolicysLimitHolds) {
  const std::string directory = NewDirectory();
  const Finished traced = RunTraced({TRACED, "calls", "200000"}, directory, {{"SLIPSTREAM_TRACER_MAX_FILE", "100000"}});
  EXPECT_EQ(traced.status, 0);
  const Trace trace = ReadOnlyTrace(directory);
  ASSERT_NE(trace.reader, nullptr);
  EXPECT_FALSE(trace.Of(RecordKind::kCall).empty());
  EXPECT_EQ(trace.end().reason, EndReason::kLimit);
  EXPECT_GT(trace.end().dropped, 0U);
  // The process went on, and at its end it wrote down how many calls that were.
  EXPECT_TRUE(trace.end().later_calls_known);
  EXPECT_GT(trace.end().later_calls, 0U);
  EXPECT_GE(trace.Of(RecordKind::kCall).size() + trace.end().dropped + trace.end().later_calls, 200'000U);
  struct stat facts {};
  ASSERT_EQ(stat(Spools(directory)[0].c_str(), &facts), 0);
  EXPECT_LE(facts.st_size, 100'000);
}

TEST(TraceEndsTest, OutsideThePolicysWindowCallsAreCountedAndNotRecorded) {
  // Seconds that do not come, and steps, which this program does not name.
  for (const char* const window : {"seconds 80000-", "steps 0-"}) {
    SCOPED_TRACE(window);
    const std::string directory = NewDirectory();
    const Finished traced = RunTraced({TRACED, "calls", "500"}, directory, {{"SLIPSTREAM_TRACER_WINDOW", window}});
    EXPECT_EQ(traced.status, 0);
    const Trace trace = ReadOnlyTrace(directory);
    ASSERT_NE(trace.reader, nullptr);
    EXPECT_TRUE(trace.end().complete);
    EXPECT_EQ(trace.end().reason, EndReason::kFinished);
    EXPECT_EQ(trace.end().dropped + trace.end().later_calls, 0U);
    EXPECT_TRUE(trace.Of(RecordKind::kCall).empty());
    EXPECT_EQ(trace.Of(RecordKind::kSwitch).size(), 1U);
    EXPECT_EQ(trace.reader->facts().at("window"), window);
    std::vector<std::string> problems;
    const auto processes = tracer::ReadRunDirectory(directory, &problems);
    ASSERT_EQ(processes.size(), 1U);
    uint64_t calls = 0;
    for (const tracer::FunctionCounts& function : processes[0].functions) calls += function.calls;
    EXPECT_GE(calls, 500U);
  }
}

TEST(TraceEndsTest, C18_ThePolicyKeepsTheNewest) {
  const std::string directory = NewDirectory();
  const Finished traced = RunTraced({TRACED, "calls", "200000"}, directory,
                                    {{"SLIPSTREAM_TRACER_MAX_FILE", "1MiB"}, {"SLIPSTREAM_TRACER_KEEP", "newest"}});
  EXPECT_EQ(traced.status, 0);
  const Trace trace = ReadOnlyTrace(directory);
  ASSERT_NE(trace.reader, nullptr);
  if (trace.reader->facts().at("keep") != "newest")
    GTEST_SKIP() << "this file system does not give back parts of a file";
  EXPECT_TRUE(trace.end().complete);
  EXPECT_EQ(trace.end().reason, EndReason::kFinished);
  EXPECT_GT(trace.end().given_up_records, 0U);
  EXPECT_EQ(trace.end().missing_records + trace.end().missing_chunks + trace.end().damaged_bytes, 0U);
  EXPECT_FALSE(trace.Of(RecordKind::kCall).empty());
  struct stat facts {};
  ASSERT_EQ(stat(Spools(directory)[0].c_str(), &facts), 0);
  constexpr blkcnt_t kBlocks = ((1 << 20) + (64 << 10)) / 512;
  EXPECT_LE(facts.st_blocks, kBlocks);
}

TEST(TraceEndsTest, S59_ADirectoryThatOthersMayWriteToGetsNoTrace) {
  const std::string directory = NewDirectory();
  ASSERT_EQ(chmod(directory.c_str(), 0770), 0);
  const Finished bare = RunProgram({PROGRAM, "workload"}, {{"SIMCUDA_SEED", "0"}});
  const Finished traced = RunTraced({PROGRAM, "workload"}, directory,
                                    {{"SLIPSTREAM_LOG_LEVEL", "warn"}, {"SLIPSTREAM_TRACER_STACKS", "none"}});
  EXPECT_EQ(traced.out, bare.out);
  EXPECT_EQ(traced.status, bare.status);
  EXPECT_EQ(Spools(directory).size(), 0U);
  EXPECT_NE(traced.err.find("no trace: open_directory"), std::string::npos) << traced.err;
  EXPECT_EQ(std::count(traced.err.begin(), traced.err.end(), '\n'), 1) << traced.err;
  std::vector<std::string> problems;
  const auto processes = tracer::ReadRunDirectory(directory, &problems);
  ASSERT_EQ(processes.size(), 1U);
  EXPECT_EQ(processes[0].FactsOf("trace"), std::vector<std::string>{"off: open_directory"});
}

TEST(TraceEndsTest, WithoutARunThereIsNoTrace) {
  const Finished traced = RunTraced({TRACED, "calls", "10"}, "", {{"SLIPSTREAM_LOG_LEVEL", "warn"}});
  EXPECT_EQ(traced.status, 0);
  EXPECT_NE(traced.err.find("no trace: there is no `slipstream run`"), std::string::npos) << traced.err;
}

TEST(TraceEndsTest, ACommandLineIsRecordedWhereThePolicySaysSo) {
  const std::string directory = NewDirectory();
  RunTraced({TRACED, "calls", "10"}, directory, {{"SLIPSTREAM_TRACER_COMMAND_LINE", "true"}});
  const Trace trace = ReadOnlyTrace(directory);
  ASSERT_NE(trace.reader, nullptr);
  EXPECT_EQ(trace.reader->facts().at("command_line"), std::string(TRACED) + '\0' + "calls" + '\0' + "10" + '\0');
}

// Two launchers, one inside the other: counters and trace name the same process of the job.
TEST(TraceEndsTest, CountersAndTraceAgreeOnTheRank) {
  const std::string directory = NewDirectory();
  RunTraced({TRACED, "calls", "10"}, directory,
            {{"SLURM_PROCID", "9"},
             {"SLURM_LOCALID", "1"},
             {"OMPI_COMM_WORLD_RANK", "2"},
             {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}});
  const Trace trace = ReadOnlyTrace(directory);
  ASSERT_NE(trace.reader, nullptr);
  EXPECT_EQ(trace.reader->facts().at("launcher"), "openmpi");
  EXPECT_EQ(trace.reader->facts().at("rank"), "2");
  EXPECT_EQ(trace.reader->facts().at("local_rank"), "0");
  std::vector<std::string> problems;
  const auto counted = tracer::ReadRunDirectory(directory, &problems);
  ASSERT_EQ(counted.size(), 1U);
  EXPECT_EQ(counted[0].rank, 2);
  EXPECT_EQ(counted[0].local_rank, 0);
}

TEST(TraceEndsTest, S59_TracesArePrivateAndSayWhoseTheyAre) {
  const std::string directory = NewDirectory();
  RunTraced({TRACED, "calls", "10"}, directory, {{"RANK", "3"}, {"WORLD_SIZE", "8"}});
  struct stat facts {};
  ASSERT_EQ(stat(Spools(directory).at(0).c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600U);
  const Trace trace = ReadOnlyTrace(directory);
  ASSERT_NE(trace.reader, nullptr);
  const auto& said = trace.reader->facts();
  EXPECT_EQ(said.at("executable"), TRACED);
  EXPECT_FALSE(said.contains("command_line")) << "nobody asked for it";
  EXPECT_EQ(said.at("rank"), "3");
  EXPECT_EQ(said.at("policy"), "defaults");
  EXPECT_TRUE(said.at("runtime").starts_with("13000 /") && said.at("runtime").ends_with("/libcudart.so.13"));
  EXPECT_TRUE(said.at("transfer").starts_with("serves: ")) << said.at("transfer");
}

}  // namespace
}  // namespace slipstream::test
