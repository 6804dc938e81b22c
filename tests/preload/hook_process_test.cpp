// What happens to a process that forks, execs, threads, ends: S50-S59 as far as the hooks go.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/preload/counts.h"
#include "tests/support/process.h"
#include "tracer/counters/counter_reader.h"

namespace slipstream::test {
namespace {

Finished Hooked(const std::vector<std::string>& command, const std::string& directory, const Variables& more = {}) {
  Variables variables = CountingPreload(SLIPSTREAM_LIBRARY, directory);
  for (const auto& [name, value] : more) variables[name] = value;
  return RunProgram(command, variables);
}

// Settings are those of the start: counted is what was to be counted, and off stays off.
TEST(HookProcessTest, S76_WhatAProgramDoesToItsVariablesChangesNothing) {
  const std::string counted = NewDirectory();
  const Finished kept = Hooked({PROGRAM, "workload"}, counted);
  EXPECT_EQ(kept.status, 0) << kept.err;
  const std::string policy = NewDirectory() + "/policy.toml";
  std::ofstream(policy) << "version = 1\nenabled = false\n";
  const std::vector<Variables> off = {{{"SLIPSTREAM_DISABLE", "1"}},
                                      {{"SLIPSTREAM_ENABLED", "false"}},
                                      {{"SLIPSTREAM_POLICY", policy}},
                                      {{"SLIPSTREAM_POLICY", std::filesystem::relative(policy)}}};
  for (const char* const how : {"clear", "overwrite", "change"}) {
    const std::string directory = NewDirectory();
    const Finished hooked = Hooked({PROGRAM, "forget", how}, directory);
    EXPECT_EQ(hooked.out, kept.out) << how << hooked.err;
    EXPECT_EQ(CountsIn(directory), CountsIn(counted)) << how;
    for (const Variables& variables : off) {
      const std::string nothing = NewDirectory();
      EXPECT_EQ(Hooked({PROGRAM, "forget", how}, nothing, variables).out, kept.out);
      EXPECT_EQ(CountsIn(nothing), CallCounts()) << how << " " << variables.begin()->first;
    }
  }
}

// The loader's lock is another thread's, which waits for this one (c31): no function may be looked for when it is
// called for the first time, by a process that uses CUDA already.
TEST(HookProcessTest, S78_FirstCallsTakeNoLockOfTheLoaders) {
  const std::vector<Variables> settings = {
      {},
      {{"SLIPSTREAM_DISABLE", "1"}},
      {{"SLIPSTREAM_ENABLED", "false"}},
      {{"SLIPSTREAM_TRANSFER_START", "now"}},
      {{"SLIPSTREAM_INTERCEPT_LEVEL", "driver"}},
      {{"SLIPSTREAM_ALLOCATOR_MODE", "segments"}, {"SLIPSTREAM_ALLOCATOR_KEEP_FREE", "0"}},
      {{"SLIPSTREAM_TRACER_RECORD", "on"}},
      {{"SLIPSTREAM_TRACER_RECORD", "on"}, {"SLIPSTREAM_TRACER_STACKS", "full"}}};
  const std::vector<std::vector<std::string>> commands = {
      {PROGRAM, "wait_in_constructor", WAITING_PLUGIN},
      {PROGRAM, "wait_in_constructor_by_driver", WAITING_DRIVER_PLUGIN}};
  for (const std::vector<std::string>& command : commands) {
    const Finished bare = RunProgram(command);
    EXPECT_EQ(bare.out, "in a constructor: 0 failed\n") << bare.err;
    for (const bool is_counted : {false, true}) {
      for (const Variables& more : settings) {
        Variables variables = Preload(SLIPSTREAM_LIBRARY);
        if (is_counted) variables["SLIPSTREAM_RUN_DIRECTORY"] = NewDirectory();
        for (const auto& [name, value] : more) variables[name] = value;
        const Finished hooked = RunProgram(command, variables);
        const std::string setting = more.empty() ? "default" : more.begin()->first + "=" + more.begin()->second;
        ASSERT_EQ(hooked.status, 0) << setting << ", counted " << is_counted << ": " << hooked.err;
        EXPECT_EQ(hooked.out, bare.out) << setting;
      }
    }
  }
}

// A retain of a primary context that is not active makes it, which costs memory and a moment of the driver's.
TEST(HookProcessTest, S56_AProgramWithAContextOfItsOwnGetsNoOther) {
  const Finished bare = RunProgram({PROGRAM, "own_context"});
  EXPECT_EQ(bare.out, "0 failed, primary context active: 0\n") << bare.err;
  const std::string directory = NewDirectory();
  const auto retains = [&](const char* what) {
    const std::string calls = directory + "/" + what;
    const Finished hooked = Hooked({PROGRAM, what}, directory,
                                   {{"SIMCUDA_OWN_CALLS", calls},
                                    {"SLIPSTREAM_TRANSFER_START", "now"},
                                    {"SLIPSTREAM_ALLOCATOR_MODE", "segments"}});
    EXPECT_EQ(hooked.status, 0) << hooked.err;
    if (std::string(what) == "own_context") {
      EXPECT_EQ(hooked.out, bare.out);
    }
    const std::string text = ReadFile(calls);
    EXPECT_NE(text.find("cuDevicePrimaryCtxGetState"), std::string::npos) << text;
    return text.find("cuDevicePrimaryCtxRetain") != std::string::npos;
  };
  EXPECT_FALSE(retains("own_context"));
  EXPECT_TRUE(retains("workload")) << "there it is active";
}

// Its context stays, and nobody can list it: memory of the primary one is not pooled either.
TEST(HookProcessTest, S30_AContextOfTheProgramsOwnBeforeThePrimaryOne) {
  for (const char* what : {"own_context_first", "workload"}) {
    const std::string directory = NewDirectory();
    const Finished hooked =
        Hooked({PROGRAM, what}, directory,
               {{"SLIPSTREAM_ALLOCATOR_MODE", "segments"}, {"SLIPSTREAM_ALLOCATOR_KEEP_FREE", "0"}});
    EXPECT_EQ(hooked.status, 0) << hooked.err << hooked.out;
    EXPECT_EQ(hooked.out, RunProgram({PROGRAM, what}).out);
    std::vector<std::string> problems;
    std::map<std::string, uint64_t> decided;
    for (const auto& process : tracer::ReadRunDirectory(directory, &problems)) {
      for (const auto& decision : process.decisions) decided[decision.name] += decision.count;
    }
    if (std::string(what) == "workload") {
      EXPECT_GT(decided["allocator.grown"], 0U);
    } else {
      EXPECT_EQ(decided["allocator.grown"], 0U) << "served";
      EXPECT_GE(decided["allocator.passed.context"], 5U)
          << "three of its own context's, the others once both are known";
    }
  }
}

// A driver that does not tell its version counts as an old one, which has no events of a whole context.
TEST(HookProcessTest, AllocationsThatAnOldDriverLeavesAloneAreNamed) {
  const std::string directory = NewDirectory();
  const Finished hooked =
      Hooked({PROGRAM, "workload", "3"}, directory,
             {{"SLIPSTREAM_ALLOCATOR_MODE", "segments"}, {"SIMCUDA_FAIL", "own:cuDriverGetVersion:1@1+"}});
  EXPECT_EQ(hooked.status, 0) << hooked.err << hooked.out;
  std::vector<std::string> problems;
  std::map<std::string, uint64_t> decided;
  for (const auto& process : tracer::ReadRunDirectory(directory, &problems)) {
    for (const auto& decision : process.decisions) decided[decision.name] += decision.count;
  }
  EXPECT_TRUE(problems.empty());
  EXPECT_GE(decided["allocator.passed.driver"], 3U) << "one of each step, and the first one if the driver is there";
  EXPECT_EQ(decided["allocator.grown"] + decided["allocator.parked"], 0U) << "served";
}

// A preload of somebody else's that wraps cudaMalloc, as a memory saver does, sees each call that it sees bare; and
// whoever asks is told why the pool does not serve.
TEST(HookProcessTest, S72_AnotherPreloadSeesEveryCall) {
  const Finished bare = RunProgram({PROGRAM, "workload", "5"}, Preload(INTERPOSER));
  EXPECT_NE(bare.out.find("interposer: 6\n"), std::string::npos) << bare.out;
  const auto wrapped = [](const std::string& library, const Variables& more, std::string* allocator) {
    const std::string directory = NewDirectory();
    Variables variables = more;
    variables["LD_PRELOAD"] = library + ":" + INTERPOSER;
    variables["SLIPSTREAM_ALLOCATOR_MODE"] = "segments";
    const Finished finished = Hooked({PROGRAM, "workload", "5"}, directory, variables);
    EXPECT_EQ(finished.status, 0) << finished.err;
    std::vector<std::string> problems;
    for (const auto& process : tracer::ReadRunDirectory(directory, &problems)) {
      for (const std::string& fact : process.FactsOf("allocator")) *allocator = fact;
    }
    return finished.out;
  };
  std::string allocator;
  EXPECT_EQ(wrapped(SLIPSTREAM_LIBRARY, {}, &allocator), bare.out);
  EXPECT_EQ(allocator, std::string("off: ") + INTERPOSER + " wraps cudaMalloc, and is to see each call of it");
#ifdef MUTANTS_LIBRARY
  EXPECT_EQ(wrapped(MUTANTS_LIBRARY, {{"BROKEN_RULE", ""}}, &allocator), bare.out);
  EXPECT_NE(wrapped(MUTANTS_LIBRARY, {{"BROKEN_RULE", "S72"}}, &allocator), bare.out);
#endif
}

TEST(HookProcessTest, S78_AnExceptionOfAnotherPreloadPassesThroughACall) {
  Variables alone = Preload(INTERPOSER);
  alone["INTERPOSER_THROWS"] = "1";
  const Finished bare = RunProgram({PROGRAM, "catch"}, alone);
  EXPECT_NE(bare.out.find("caught: refused by the interposer\nallocated\n"), std::string::npos) << bare.out << bare.err;
  for (const char* const record : {"off", "on"}) {
    const std::string directory = NewDirectory();
    const Finished hooked = Hooked({PROGRAM, "catch"}, directory,
                                   {{"LD_PRELOAD", std::string(SLIPSTREAM_LIBRARY) + ":" + INTERPOSER},
                                    {"INTERPOSER_THROWS", "1"},
                                    {"SLIPSTREAM_TRACER_RECORD", record}});
    EXPECT_EQ(hooked.out, bare.out);
    EXPECT_EQ(hooked.status, 0) << hooked.err;
    EXPECT_GE(CountsIn(directory).at("cudaMalloc"), 3U) << "those that returned";
    EXPECT_EQ(CountsIn(directory).at("cudaMemcpy"), 3U);
  }
}

TEST(HookProcessTest, S51_ForkedChildrenBehaveAsBareAndAreNotCounted) {
  const Finished bare = RunProgram({PROGRAM, "fork"});
  const std::string directory = NewDirectory();
  const Finished hooked = Hooked({PROGRAM, "fork"}, directory);
  EXPECT_EQ(bare.status, 0) << bare.err;
  EXPECT_NE(bare.out.find("fork: exit 3\n"), std::string::npos) << "the simulator must refuse a forked child";
  EXPECT_EQ(hooked.out, bare.out);
  EXPECT_EQ(hooked.status, bare.status);
  EXPECT_EQ(NamesIn(directory).size(), 1U) << "a forked child left a file of its own";
  const CallCounts counts = CountsIn(directory);
  EXPECT_EQ(counts.at("cudaMalloc"), 2U);  // before and after; not the children's
}

TEST(HookProcessTest, S51_AForkedChildThatIsTheFirstToUseCudaIsCounted) {
  const std::string directory = NewDirectory();
  const Finished hooked = Hooked({PROGRAM, "fork_first"}, directory);
  EXPECT_EQ(hooked.out, "fork: exit 0\nparent: 0\n") << hooked.err;
  EXPECT_EQ(NamesIn(directory).size(), 2U);
  EXPECT_EQ(CountsIn(directory).at("cudaMalloc"), 2U);
}

TEST(HookProcessTest, S51_ForkingWhileThreadsCallCuda) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer does not support threads around fork";
#elif defined(__SANITIZE_ADDRESS__)
  // Unlike the C library's: a child waits for ever for a lock that a thread of its parent's held. GCC 12's does.
  GTEST_SKIP() << "AddressSanitizer's allocator does not support threads around fork";
#endif
  const Finished hooked = Hooked({PROGRAM, "fork_in_storm"}, NewDirectory());
  EXPECT_EQ(hooked.out, "50 of 50 children ended well\n") << hooked.err;
}

// A thread of the parent's that the child does not have holds a lock of the loader's.
TEST(HookProcessTest, S51_ForkingWhileTheLoaderIsBusy) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer does not support threads around fork";
#endif
  for (const char* const when : {"fork_beside_loader", "fork_beside_first_call"}) {
    const Finished hooked = Hooked({PROGRAM, when}, NewDirectory());
    EXPECT_EQ(hooked.out, "child ended with 0\n") << when << hooked.err;
  }
}

TEST(HookProcessTest, S53_CallsAtExit) {
  const Finished hooked = Hooked({PROGRAM, "at_exit"}, NewDirectory());
  EXPECT_EQ(hooked.status, 0) << hooked.err;
  EXPECT_EQ(hooked.out, "before: 0\nat exit: 0\n");
}

// Nothing is copied and nothing freed: no engine has begun to follow anything, and the end has its figures all the
// same.
TEST(HookProcessTest, S75_TheLastFiguresOfAProcessThatOnlyAllocates) {
  const std::string directory = NewDirectory();
  const Finished hooked = Hooked({PROGRAM, "allocate"}, directory, {{"SLIPSTREAM_ALLOCATOR_MODE", "segments"}});
  EXPECT_EQ(hooked.status, 0) << hooked.err;
  std::vector<std::string> problems;
  const auto processes = tracer::ReadRunDirectory(directory, &problems);
  ASSERT_EQ(processes.size(), 1U);
  const auto last = processes[0].LastMemory();
  ASSERT_EQ(last.size(), 1U);
  EXPECT_EQ(last[0].figures.live_bytes, uint64_t{32} << 20);
}

TEST(HookProcessTest, S58_CountsSurviveEveryEnd) {
  for (const auto& [command, status] :
       std::vector<std::pair<std::vector<std::string>, int>>{{{PROGRAM, "exit_now", "7"}, 7},
                                                             {{PROGRAM, "die", "9"}, 137},
                                                             {{PROGRAM, "die", "15"}, 143},
                                                             {{PROGRAM, "die", "6"}, 134}}) {
    const std::string directory = NewDirectory();
    const Finished hooked = Hooked(command, directory);
    EXPECT_EQ(hooked.status, status);
    EXPECT_EQ(CountsIn(directory).at("cudaMalloc"), 1U) << command[1] << " " << command[2];
  }
}

TEST(HookProcessTest, S56_FirstCallsFromManyThreadsAtOnce) {
  for (int round = 0; round < 10; ++round) {
    const std::string directory = NewDirectory();
    const Finished hooked = Hooked({PROGRAM, "first_call_race", "8", "200"}, directory);
    EXPECT_EQ(hooked.out, "0 failures\n") << hooked.err;
    // A thread that comes while another one builds goes straight to the real function, uncounted;
    // nothing is counted twice.
    const uint64_t counted = CountsIn(directory).at("cudaMalloc");
    EXPECT_LE(counted, 1600U);
    EXPECT_GE(counted, 200U);
  }
}

TEST(HookProcessTest, ThreadsShareAndReuseSlotsWithoutLosingACall) {
  for (const char* slots : {"1", "4", "64"}) {
    const std::string directory = NewDirectory();
    const Finished hooked =
        Hooked({PROGRAM, "many_threads", "64", "16"}, directory, {{"SLIPSTREAM_TRACER_MAX_THREADS", slots}});
    EXPECT_EQ(hooked.out, "done\n") << hooked.err;
    EXPECT_EQ(CountsIn(directory).at("cudaPeekAtLastError"), 64U * 5000U) << slots << " slots";
  }
}

TEST(HookProcessTest, C7_DisableIsATrueOffSwitch) {
  const std::string directory = NewDirectory();
  const Finished bare = RunProgram({PROGRAM, "workload"});
  const Finished hooked = Hooked({PROGRAM, "workload"}, directory, {{"SLIPSTREAM_DISABLE", "1"}});
  EXPECT_EQ(hooked.out, bare.out);
  EXPECT_EQ(hooked.err, bare.err);
  EXPECT_TRUE(NamesIn(directory).empty());
}

TEST(HookProcessTest, EnabledFalseStandsAside) {
  const std::string directory = NewDirectory();
  const Finished hooked = Hooked({PROGRAM, "workload"}, directory, {{"SLIPSTREAM_ENABLED", "false"}});
  EXPECT_EQ(hooked.out, RunProgram({PROGRAM, "workload"}).out);
  EXPECT_TRUE(NamesIn(directory).empty());
}

TEST(HookProcessTest, CountersOffAndCallsOnly) {
  const std::string off = NewDirectory();
  Hooked({PROGRAM, "workload"}, off, {{"SLIPSTREAM_TRACER_COUNTERS", "off"}});
  EXPECT_TRUE(NamesIn(off).empty());

  const std::string calls = NewDirectory();
  Hooked({PROGRAM, "workload"}, calls, {{"SLIPSTREAM_TRACER_COUNTERS", "calls"}});
  std::vector<std::string> problems;
  for (const tracer::ProcessCounts& process : tracer::ReadRunDirectory(calls, &problems)) {
    for (const tracer::FunctionCounts& function : process.functions) EXPECT_EQ(function.time_ns, 0U) << function.name;
  }
  EXPECT_EQ(CountsIn(calls).at("cudaLaunchKernel"), 3U);
}

TEST(HookProcessTest, S59_ABrokenPolicyPassesThroughAndSaysSoOnce) {
  const std::string place = NewDirectory();
  const std::string directory = NewDirectory();
  WriteFile(place + "/broken.toml", "version = 1\n[tracer]\ncounters = \"loud\"\n");
  WriteFile(place + "/open.toml", "version = 1\n");
  chmod((place + "/open.toml").c_str(), 0666);
  const Finished bare = RunProgram({PROGRAM, "workload"});
  for (const auto& [policy, expected] :
       std::vector<std::pair<std::string, std::string>>{{place + "/broken.toml", "broken.toml:3:12"},
                                                        {place + "/open.toml", "open.toml"},
                                                        {place + "/missing.toml", "missing.toml"}}) {
    const Finished hooked = Hooked({PROGRAM, "workload"}, directory, {{"SLIPSTREAM_POLICY", policy}});
    EXPECT_EQ(hooked.status, 0);
    EXPECT_EQ(hooked.out, bare.out);
    EXPECT_NE(hooked.err.find(expected), std::string::npos) << hooked.err;
    EXPECT_EQ(std::count(hooked.err.begin(), hooked.err.end(), '\n'), 1) << hooked.err;
    EXPECT_TRUE(NamesIn(directory).empty());
  }
}

TEST(HookProcessTest, S59_CounterFilesArePrivateAndNeverThroughALink) {
  const std::string directory = NewDirectory();
  Hooked({PROGRAM, "workload"}, directory);
  const auto names = NamesIn(directory);
  ASSERT_EQ(names.size(), 1U);
  struct stat status {};
  ASSERT_EQ(stat((directory + "/" + names[0]).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST(HookProcessTest, ARunDirectoryThatIsGoneOrReadOnlyDoesNotMatter) {
  const Finished bare = RunProgram({PROGRAM, "workload"});
  const Finished hooked = Hooked({PROGRAM, "workload"}, NewDirectory() + "/gone");
  EXPECT_EQ(hooked.out, bare.out);
  EXPECT_EQ(hooked.err, bare.err);
  const Finished logged = Hooked({PROGRAM, "workload"}, "/proc/slipstream", {{"SLIPSTREAM_LOG_LEVEL", "warn"}});
  EXPECT_EQ(logged.out, bare.out);
  EXPECT_NE(logged.err.find("no counters"), std::string::npos) << logged.err;
}

}  // namespace
}  // namespace slipstream::test
