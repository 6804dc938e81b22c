// Processes with little of everything: the program keeps its result where it has it bare.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "tests/preload/tracer/trace_testing.h"
#include "tests/support/memory_cgroup.h"
#include "tests/support/plain_build.h"

namespace slipstream::test {
namespace {

#define NEEDS_ROOM() NEEDS_NO_SANITIZER("a sanitizer needs more than these limits leave")

// `prlimit` starts the command with the limit, which is for it and what it starts.
Finished RunLimited(const std::string& limit, const std::vector<std::string>& command, const Variables& variables) {
  std::vector<std::string> words = {"prlimit", limit};
  // Not for prlimit itself, which is a program of the system.
  words.emplace_back("env");
  for (const auto& [name, value] : variables) words.push_back(name + "=" + value);
  words.insert(words.end(), command.begin(), command.end());
  return RunProgram(words, {{"LD_PRELOAD", ""}});
}

// One arena: how many 64 MiB pieces of address space malloc takes would depend on how threads meet.
Variables BareVariables() { return {{"SIMCUDA_SEED", "0"}, {"SIMCUDA_MEMORY", "200MiB"}, {"MALLOC_ARENA_MAX", "1"}}; }

// With everything on, and with what is on by default. Nothing is said, and what there is of a trace can be read.
void SameUnder(const std::string& limit, const std::vector<std::string>& command) {
  SCOPED_TRACE(limit);
  const Finished bare = RunLimited(limit, command, BareVariables());
  ASSERT_EQ(bare.status, 0) << bare.out << bare.err << ": this limit is too tight for the program itself";
  for (const bool all : {false, true}) {
    const std::string directory = NewDirectory();
    Variables variables = BareVariables();
    variables["LD_PRELOAD"] = SLIPSTREAM_LIBRARY;
    if (all) {
      variables.merge(TracingPreload(SLIPSTREAM_LIBRARY, directory));
      variables.merge(Variables{{"SLIPSTREAM_TRACER_STACKS", "full"},
                                {"SLIPSTREAM_TRACER_DEVICE", "cupti"},
                                {"SLIPSTREAM_TRANSFER_THREADS", "4"}});
    }
    const Finished limited = RunLimited(limit, command, variables);
    EXPECT_EQ(limited.status, bare.status) << (all ? "everything on" : "defaults");
    EXPECT_EQ(limited.out, bare.out);
    EXPECT_EQ(limited.err, bare.err);
    for (const std::string& path : Spools(directory)) {
      const Trace trace = ReadTrace(path);
      EXPECT_NE(trace.reader, nullptr) << trace.error;
    }
  }
}

TEST(LimitsTest, LockedMemory) {
  NEEDS_ROOM();
  for (const char* const limit : {"--memlock=0", "--memlock=65536"}) SameUnder(limit, {TYPICAL, "all"});
}

TEST(LimitsTest, OpenFiles) {
  NEEDS_ROOM();
  // The first that is enough for the program is enough for it under the library, which keeps none open.
  const std::vector<std::string> command = {TYPICAL, "steps", "graphs", "devices"};
  int least = 4;
  while (RunLimited("--nofile=" + std::to_string(least), command, BareVariables()).status != 0) {
    ASSERT_LT(++least, 20);
  }
  for (const int files : {least, least + 1, least + 3}) SameUnder("--nofile=" + std::to_string(files), command);
}

// The program sets the limit itself, before its first call: the simulated device is a file too.
TEST(LimitsTest, FileSizes) {
  NEEDS_ROOM();
  for (const char* const bytes : {"0", "1", "100", "4096", "30000", "300000"}) {
    for (const char* const ignored : {"0", "1"}) {  // SIGXFSZ, by the program
      SCOPED_TRACE(bytes);
      const std::string directory = NewDirectory();
      const Finished limited = RunTraced({TRACED, "limited", bytes, ignored, "20000"}, directory,
                                         {{"SLIPSTREAM_LOG_FILE", directory + "/log.txt"},
                                          {"SLIPSTREAM_LOG_LEVEL", "debug"},
                                          {"SLIPSTREAM_TRACER_DEVICE", "cupti"},
                                          {"SLIPSTREAM_TRACER_STACKS", "full"}});
      EXPECT_EQ(limited.status, 0);
      EXPECT_EQ(limited.out, "done\n");
      for (const std::string& path : Spools(directory)) {
        const Trace trace = ReadTrace(path);
        EXPECT_NE(trace.reader, nullptr) << trace.error;
      }
    }
  }
}

TEST(LimitsTest, Stacks) {
  NEEDS_ROOM();
  for (const char* const bytes : {"49152", "65536", "131072", "unlimited"}) {
    SameUnder(std::string("--stack=") + bytes, {TYPICAL, "threads", "copies", "memory"});
  }
}

TEST(LimitsTest, AFirstUseOnAThreadWithASmallStack) {
  NEEDS_ROOM();
  const std::string policy = NewDirectory() + "/policy.toml";
  WriteFile(policy, "version = 1\n[[transfer.rule]]\nname = \"x\"\nmin_size = \"1MiB\"\npromote = true\n");
  const Finished bare = RunProgram({ENDS, "stack", "65536"}, BareVariables());
  ASSERT_EQ(bare.status, 0);
  const Finished traced = RunTraced(
      {ENDS, "stack", "65536"}, NewDirectory(),
      {{"SLIPSTREAM_POLICY", policy}, {"SLIPSTREAM_TRACER_STACKS", "full"}, {"SLIPSTREAM_TRACER_DEVICE", "cupti"}});
  EXPECT_EQ(traced.status, 0);
  EXPECT_EQ(traced.out, bare.out);
}

// Every thread that the library wants for itself, the first, and all but the first.
TEST(LimitsTest, ThreadsThatCannotStart) {
  NEEDS_ROOM();
  const std::vector<std::string> command = {TYPICAL, "steps", "threads", "pinned"};
  const Finished bare = RunProgram(command, BareVariables());
  for (const char* const start : {"now", "background"}) {
    for (const char* const failing :
         {"pthread_create@1+", "pthread_create@1", "pthread_create@2+", "pthread_create@3"}) {
      SCOPED_TRACE(std::string(failing) + " " + start);
      const std::string directory = NewDirectory();
      const std::string calls = directory + "/calls.txt";
      const Finished traced = RunTraced(command, directory,
                                        {{"LD_PRELOAD", std::string(FAILING_LIBC) + ":" + SLIPSTREAM_LIBRARY},
                                         {"FAIL_LIBC", failing},
                                         {"FAIL_LIBC_CALLS", calls},
                                         {"SLIPSTREAM_TRANSFER_START", start},
                                         {"SLIPSTREAM_TRANSFER_THREADS", "4"},
                                         {"SLIPSTREAM_TRACER_DEVICE", "cupti"},
                                         {"SIMCUDA_MEMORY", "200MiB"}});
      EXPECT_EQ(traced.status, bare.status);
      EXPECT_EQ(traced.out, bare.out);
      EXPECT_EQ(traced.err, bare.err);
      EXPECT_NE(ReadFile(calls).find("pthread_create "), std::string::npos);
    }
  }
}

// Of the address space, with some 160 MiB that the library takes: stacks and heaps of its threads, staging memory,
// rings.
TEST(LimitsTest, AddressSpace) {
  NEEDS_ROOM();
  constexpr uint64_t kMiB = 1 << 20;
  const auto limit = [](uint64_t mib) { return "--as=" + std::to_string(mib * kMiB); };
  const auto is_enough = [&](uint64_t mib) {
    return RunLimited(limit(mib), {TYPICAL, "steps", "threads"}, BareVariables()).status == 0;
  };
  uint64_t least = 1024;
  for (; !is_enough(least); least *= 2) ASSERT_LT(least, 1U << 24);
  for (uint64_t step = least / 4; step >= 16; step /= 2) {
    if (is_enough(least - step)) least -= step;
  }
  for (const uint64_t more : {256U, 384U, 512U}) {
    SameUnder(limit(least + more), {TYPICAL, "steps", "threads"});
  }
}

// Memory of a cgroup that is just enough for the program is enough under slipstream: staging memory, counters and the
// end of the run take next to nothing of it, or do without.
TEST(LimitsTest, S67_SmallMemoryCgroups) {
  NEEDS_ROOM();
  constexpr size_t kMiB = size_t{1} << 20;
  for (const size_t mib : {20, 40}) {
    SCOPED_TRACE(mib);
    const MemoryCgroup cgroup(mib * kMiB);
    if (!cgroup.made()) GTEST_SKIP() << "no memory cgroup can be made here";
    const auto run = [&cgroup](std::vector<std::string> words, const Variables& variables) {
      const std::vector<std::string> inside = {"sh", "-c", "echo $$ > $0 && exec \"$@\"", cgroup.processes()};
      words.insert(words.begin(), inside.begin(), inside.end());
      return RunProgram(words, variables);
    };
    const std::vector<std::string> command = {TYPICAL, "steps"};
    const Finished bare = run(command, BareVariables());
    ASSERT_EQ(bare.status, 0) << bare.err << ": this limit is too tight for the program itself";
    for (const char* const start : {"now", "background"}) {
      Variables variables = BareVariables();
      variables["SLIPSTREAM_TRANSFER_START"] = start;
      variables["SLIPSTREAM_RUN_WATCHER"] = "off";  // it would be in the cgroup when that goes
      const std::string summary = NewDirectory() + "/summary.json";
      std::vector<std::string> words = {SLIPSTREAM_COMMAND, "run", "--summary", summary, "--"};
      words.insert(words.end(), command.begin(), command.end());
      const Finished limited = run(words, variables);
      EXPECT_EQ(limited.status, bare.status) << start << limited.err;
      EXPECT_EQ(limited.out, bare.out);
      EXPECT_NE(limited.err.find(" CUDA calls, "), std::string::npos) << limited.err;
      EXPECT_NE(ReadFile(summary), "");
    }
  }
}

// `slipstream run --record` where there is no home, and nowhere to put anything: the program runs, and it is said what
// there is no trace of.
TEST(DisksTest, NoHomeAndNoTemporaryDirectory) {
  const Finished bare = RunProgram({TYPICAL, "steps"}, BareVariables());
  for (const char* const temporary : {"", "/no/such/place", "/proc"}) {
    SCOPED_TRACE(temporary);
    const std::string place = NewDirectory();
    Variables variables = BareVariables();
    variables["TMPDIR"] = temporary;
    variables["HOME"] = "";
    const Finished traced = RunIn(place, {"--record"}, {TYPICAL, "steps"}, variables);
    EXPECT_EQ(traced.status, bare.status) << traced.err;
    EXPECT_EQ(traced.out, bare.out);
    // The trace is in the working directory, which can be written.
    EXPECT_NE(traced.err.find("slipstream: trace: "), std::string::npos) << traced.err;
    EXPECT_EQ(NamesIn(place).size(), 1U);
  }
}

TEST(DisksTest, AWorkingDirectoryThatCannotBeWritten) {
  const Finished bare = RunProgram({TYPICAL, "steps"}, BareVariables());
  for (const char* const temporary : {"/proc", "/no/such/place"}) {
    SCOPED_TRACE(temporary);
    Variables variables = BareVariables();
    variables["TMPDIR"] = temporary;
    const Finished traced = RunIn("/proc", {"--record"}, {TYPICAL, "steps"}, variables);
    EXPECT_EQ(traced.status, bare.status) << traced.err;
    EXPECT_EQ(traced.out, bare.out);
    // It is in /tmp then, and said so.
    std::smatch found;
    const std::regex at("to read it: slipstream report (/tmp/slipstream-trace-[^/\\s]+)\n");
    ASSERT_TRUE(std::regex_search(traced.err, found, at)) << traced.err;
    EXPECT_EQ(Spools(found[1]).size(), 1U);
    std::filesystem::remove_all(found[1].str());
  }
}

// The folder of the run is taken away, cannot be written any more, or is a file: by whom it may be.
TEST(DisksTest, ARunDirectoryThatIsNotWhatItWas) {
  const Finished bare = RunProgram({TYPICAL, "steps"}, BareVariables());
  const std::string place = NewDirectory();
  WriteFile(place + "/file", "");
  for (const std::string& directory : {place + "/none/at/all", place + "/file", std::string("/proc/self")}) {
    SCOPED_TRACE(directory);
    const Finished traced = RunTraced({TYPICAL, "steps"}, directory, BareVariables());
    EXPECT_EQ(traced.status, bare.status);
    EXPECT_EQ(traced.out, bare.out);
    EXPECT_EQ(traced.err, bare.err);
  }
}

// H6: a process that cannot write down what it counts is not taken for one that called nothing.
TEST(LimitsTest, S69_WhatCouldNotBeCountedIsSaid) {
  NEEDS_ROOM();
  const std::string place = NewDirectory();
  const std::string summary = place + "/summary.json";
  const Finished finished =
      RunProgram({SLIPSTREAM_COMMAND, "run", "--summary", summary, "--", TRACED, "limited", "0", "0", "100"});
  EXPECT_EQ(finished.status, 0) << finished.err;
  const std::regex said(
      "slipstream: process [0-9]+ \\(preload_traced\\): its calls could not be counted: RLIMIT_FSIZE allows no");
  EXPECT_TRUE(std::regex_search(test::Unwrapped(finished.err), said)) << finished.err;
  EXPECT_NE(finished.err.find("slipstream: what preload_traced called is not known\n"), std::string::npos)
      << finished.err;
  EXPECT_EQ(finished.err.find("no CUDA call"), std::string::npos) << finished.err;
  // The limit holds for what writes the summary as well.
  EXPECT_NE(finished.err.find("slipstream: cannot write the summary to " + summary), std::string::npos) << finished.err;
}

}  // namespace
}  // namespace slipstream::test
