// The driver level: whoever reaches a function of the driver, by whatever way, is given its hook, and nobody else
// notices.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/preload/counts.h"
#include "tests/support/plain_build.h"
#include "tests/support/process.h"
#include "tracer/base/hook_id.h"

namespace slipstream::test {
namespace {

Variables AtDriver(Variables variables) {
  variables["SLIPSTREAM_INTERCEPT_LEVEL"] = "driver";
  return variables;
}

size_t HooksOfDriver() {
  size_t count = 0;
  for (size_t i = 0; i < tracer::kHookCount; ++i) count += tracer::IsOfDriver(static_cast<tracer::HookId>(i)) ? 1 : 0;
  return count;
}

bool IsHook(const std::string& name) {
  for (size_t i = 0; i < tracer::kHookCount; ++i) {
    if (name == tracer::NameOf(static_cast<tracer::HookId>(i))) return true;
  }
  return false;
}

// The same with every function of the driver's that has a hook in slipstream's hands.
std::string WithHooks(const std::string& bare) {
  std::string text;
  size_t begin = 0;
  while (begin < bare.size()) {
    const size_t end = bare.find('\n', begin) + 1;
    std::string line = bare.substr(begin, end - begin);
    const std::string library = " of libcuda.so.1\n";
    if (line.ends_with(library)) {
      const size_t name = line.rfind(' ', line.size() - library.size() - 1) + 1;
      if (IsHook(line.substr(name, line.size() - library.size() - name))) {
        line.replace(line.size() - library.size(), library.size(), " of libslipstream.so\n");
      }
    }
    text += line;
    begin = end;
  }
  return text;
}

std::string Replaced(std::string text, const std::string& what, const std::string& with) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
  return text;
}

TEST(DriverTest, EveryWrapperPassesItsArgumentsAndResultOn) {
  const Finished bare = RunProgram({ECHO_DRIVER_CALLS});
  EXPECT_EQ(bare.status, 0) << bare.out;
  EXPECT_EQ(bare.out, std::to_string(HooksOfDriver()) + " functions, 0 wrong\n");
  const Finished passing = RunProgram({ECHO_DRIVER_CALLS}, Preload(SLIPSTREAM_LIBRARY));
  EXPECT_EQ(passing.out, bare.out) << passing.err;
  const std::string directory = NewDirectory();
  const Finished hooked = RunProgram({ECHO_DRIVER_CALLS}, AtDriver(CountingPreload(SLIPSTREAM_LIBRARY, directory)));
  EXPECT_EQ(hooked.out, bare.out) << hooked.err;
  CallCounts expected;
  for (size_t i = 0; i < tracer::kHookCount; ++i) {
    const auto id = static_cast<tracer::HookId>(i);
    const bool is_lookup = GroupOf(id) == tracer::HookGroup::kLookup;
    if (IsOfDriver(id) && !is_lookup) expected[tracer::NameOf(id)] = 1;
  }
  EXPECT_EQ(CountsIn(directory), expected);
}

// C4: by name, by version, per-thread or not, by the looked-up look-up: what would have been found, hooked.
TEST(DriverTest, C4_EveryWayLeadsToTheHookOfWhatWouldHaveBeenFound) {
  const Finished bare = RunProgram({DRIVER_PROGRAM, "ways"});
  ASSERT_EQ(bare.status, 0) << bare.err;
  EXPECT_NE(bare.out.find("cuMemcpyAsync_ptsz of libcuda.so.1"), std::string::npos) << bare.out;
  const Finished hooked = RunProgram({DRIVER_PROGRAM, "ways"}, AtDriver(Preload(SLIPSTREAM_LIBRARY)));
  EXPECT_EQ(hooked.status, 0) << hooked.err;
  const std::string expected =
      Replaced(WithHooks(bare.out), "cudaMalloc of libcudart.so.13", "cudaMalloc of libslipstream.so");
  EXPECT_EQ(hooked.out, expected);
  EXPECT_NE(expected, bare.out);
}

// C7: where the policy does not say so and no engine serves, a program finds what it finds without us.
TEST(DriverTest, C7_WithoutAnEngineEveryWayLeadsToTheDriver) {
  const Finished bare = RunProgram({DRIVER_PROGRAM, "ways"});
  const std::string expected = Replaced(bare.out, "cudaMalloc of libcudart.so.13", "cudaMalloc of libslipstream.so");
  for (const char* const variable : {"", "SLIPSTREAM_DISABLE", "SLIPSTREAM_ENABLED"}) {
    Variables variables = Preload(SLIPSTREAM_LIBRARY);
    const std::string name = variable;
    if (!name.empty()) {
      variables = AtDriver(variables);
      variables[name] = name == "SLIPSTREAM_DISABLE" ? "1" : "false";
    } else {
      for (const char* const engine : {"ALLOCATOR_MODE", "TRANSFER_H2D", "TRANSFER_D2H"}) {
        variables[std::string("SLIPSTREAM_") + engine] = "off";
      }
    }
    const Finished passing = RunProgram({DRIVER_PROGRAM, "ways"}, variables);
    EXPECT_EQ(passing.status, 0) << passing.err;
    EXPECT_EQ(passing.out, expected) << name;
  }
}

// While an engine serves, every way leads to the hooks of the functions that could notice, and to no other.
TEST(DriverTest, S70_AtTheRuntimeLevelEveryWayLeadsToWhatIsWatched) {
  const Finished hooked = RunProgram({DRIVER_PROGRAM, "ways"}, AtDriver(Preload(SLIPSTREAM_LIBRARY)));
  const Finished watched = RunProgram({DRIVER_PROGRAM, "ways"}, Preload(SLIPSTREAM_LIBRARY));
  EXPECT_EQ(watched.status, 0) << watched.err;
  std::string expected = hooked.out;
  for (const char* const question : {"cuStreamGetCaptureInfo_v2 of ", "cuStreamGetCaptureInfo_v3_ptsz of "}) {
    EXPECT_NE(expected.find(std::string(question) + "libslipstream.so"), std::string::npos) << expected;
    expected = Replaced(expected, std::string(question) + "libslipstream.so", std::string(question) + "libcuda.so.1");
  }
  EXPECT_EQ(watched.out, expected);
}

// S59: a policy that cannot be used intercepts nothing.
TEST(DriverTest, S59_ABrokenPolicyHandsOutNoHook) {
  const Finished bare = RunProgram({DRIVER_PROGRAM, "ways"});
  Variables variables = Preload(SLIPSTREAM_LIBRARY);
  variables["SLIPSTREAM_INTERCEPT_LEVEL"] = "drivers";
  const Finished passing = RunProgram({DRIVER_PROGRAM, "ways"}, variables);
  EXPECT_EQ(passing.status, 0);
  EXPECT_EQ(passing.out, Replaced(bare.out, "cudaMalloc of libcudart.so.13", "cudaMalloc of libslipstream.so"));
}

TEST(DriverTest, ToolsOfCudaKeepWhatTheyFound) {
  const Variables variables = AtDriver(Preload(SLIPSTREAM_LIBRARY));
  EXPECT_EQ(RunProgram({DRIVER_PROGRAM, "lookup", DRIVER_PLUGIN}, variables).out,
            "cuMemAlloc_v2 by a library: cuMemAlloc_v2 of libslipstream.so\n");
  EXPECT_EQ(RunProgram({DRIVER_PROGRAM, "lookup", DRIVER_TOOL}, variables).out,
            "cuMemAlloc_v2 by a library: cuMemAlloc_v2 of libcuda.so.1\n");
}

// Three ways of ten allocations each, and ten of the runtime's, which reach the driver too and count where they were
// made.
TEST(DriverTest, EveryCallCountsOnce) {
  const Finished bare = RunProgram({DRIVER_PROGRAM, "calls", "10"});
  ASSERT_EQ(bare.status, 0) << bare.out << bare.err;
  const std::string directory = NewDirectory();
  const std::string simulator = NewDirectory() + "/counts.json";
  Variables variables = AtDriver(CountingPreload(SLIPSTREAM_LIBRARY, directory));
  variables["SIMCUDA_COUNTS"] = simulator;
  variables["SLIPSTREAM_TRANSFER_D2H"] = "off";
  variables["SLIPSTREAM_TRANSFER_H2D"] = "off";  // what the engine takes over is its own call
  const Finished hooked = RunProgram({DRIVER_PROGRAM, "calls", "10"}, variables);
  EXPECT_EQ(hooked.status, 0) << hooked.err;
  EXPECT_EQ(hooked.out, bare.out);
  const CallCounts counted = CountsIn(directory);
  EXPECT_EQ(counted.at("cuMemAlloc_v2"), 31U);
  EXPECT_EQ(counted.at("cudaMalloc"), 10U);
  EXPECT_EQ(counted.at("cudaFree"), 10U);
  EXPECT_EQ(counted.at("cuMemFree_v2"), 32U);
  EXPECT_EQ(counted.at("cuMemcpyHtoD_v2"), 1U);
  CallCounts by_simulator = SimulatorCounts(simulator, "libcuda.so.1");
  for (const auto& [function, calls] : SimulatorCounts(simulator, "libcudart.so.13")) by_simulator[function] += calls;
  for (const char* const lookup : {"cuGetProcAddress", "cuGetProcAddress_v2"}) by_simulator.erase(lookup);
  EXPECT_EQ(counted, by_simulator);
}

// With the pools and the copies on, and everything recorded: the same output.
TEST(DriverTest, TheEnginesStandBehindTheDriversFunctionsToo) {
  const Finished bare = RunProgram({DRIVER_PROGRAM, "calls", "10"});
  const std::string directory = NewDirectory();
  Variables variables = AtDriver(CountingPreload(SLIPSTREAM_LIBRARY, directory));
  variables["SLIPSTREAM_ALLOCATOR_MODE"] = "segments";
  variables["SLIPSTREAM_ALLOCATOR_KEEP_FREE"] = "0";
  variables["SLIPSTREAM_TRANSFER_START"] = "now";
  const Finished hooked = RunProgram({DRIVER_PROGRAM, "calls", "10"}, variables);
  EXPECT_EQ(hooked.status, 0) << hooked.err;
  EXPECT_EQ(hooked.out, bare.out);
  std::vector<std::string> problems;
  const auto processes = tracer::ReadRunDirectory(directory, &problems);
  ASSERT_EQ(processes.size(), 1U);
  uint64_t reused = 0;
  for (const tracer::DecisionCounts& decision : processes[0].decisions) {
    if (decision.name.find("reused") != std::string::npos) reused += decision.count;
  }
  EXPECT_GT(reused, 10U) << "more than the runtime's own ten";
}

// S51: what a parent was given works in its forked child as it does bare.
TEST(DriverTest, S51_AForkedChildPassesThrough) {
  const Finished bare = RunProgram({DRIVER_PROGRAM, "fork"});
  const Finished hooked = RunProgram({DRIVER_PROGRAM, "fork"}, AtDriver(Preload(SLIPSTREAM_LIBRARY)));
  EXPECT_EQ(hooked.status, bare.status) << hooked.err;
  EXPECT_EQ(hooked.out, bare.out);
  EXPECT_NE(bare.out.find("child: "), std::string::npos);
}

// At either level, with all engines at work, recorded and not. Gives the directories of their counters.
std::map<std::string, std::vector<std::string>> ExpectTheSameAtEitherLevel(const std::vector<std::string>& command,
                                                                           const std::string& bare) {
  std::map<std::string, std::vector<std::string>> directories;
  for (const char* const level : {"runtime", "driver"}) {
    for (const bool recorded : {false, true}) {
      directories[level].push_back(NewDirectory());
      Variables variables = CountingPreload(SLIPSTREAM_LIBRARY, directories[level].back());
      variables["SLIPSTREAM_INTERCEPT_LEVEL"] = level;
      variables["SLIPSTREAM_ALLOCATOR_MODE"] = "segments";
      variables["SLIPSTREAM_ALLOCATOR_KEEP_FREE"] = "0";
      variables["SLIPSTREAM_TRANSFER_START"] = "now";
      if (recorded) variables["SLIPSTREAM_TRACER_RECORD"] = "on";
      const Finished hooked = RunProgram(command, variables);
      EXPECT_EQ(hooked.status, 0) << hooked.err;
      EXPECT_EQ(hooked.out, bare) << level << (recorded ? ", recorded" : "");
    }
  }
  return directories;
}

// Whatever is called before there is a context answers as bare.
TEST(DriverTest, S56_C6_BeforeThereIsAContext) {
  const Finished bare = RunProgram({DRIVER_PROGRAM, "early"});
  ASSERT_EQ(bare.status, 0) << bare.out << bare.err;
  for (const char* const each : {"before cuInit, cuMemAlloc: 3\n", "without a context, cuMemAlloc: 201\n",
                                 "beside another thread's context, a context: no\n", "bytes: equal\n"}) {
    EXPECT_NE(bare.out.find(each), std::string::npos) << each << bare.out;
  }
  (void)ExpectTheSameAtEitherLevel({DRIVER_PROGRAM, "early"}, bare.out);
}

// The first one to use CUDA in the process is a library with a runtime of its own, as NCCL. Only the driver's hooks see
// it.
TEST(DriverTest, S56_C6_ALibraryWithARuntimeOfItsOwnComesFirst) {
  const std::vector<std::string> command = {DRIVER_PROGRAM, "behind", EARLY_NCCL};
  const Finished bare = RunProgram(command);
  ASSERT_EQ(bare.status, 0) << bare.out << bare.err;
  for (const char* const each : {"nccl, look-up of cuMemCreate: 0, 0\n", "nccl, a context: no\n",
                                 "nccl, cuDeviceGet: 3\n", "nccl, cuDeviceGet: 0\n", "nccl, cudaHostAlloc: 0\n",
                                 "nccl, cudaFree, again: 1\n", "nccl, bytes: equal\n", "\nbytes: equal\n"}) {
    EXPECT_NE(bare.out.find(each), std::string::npos) << each << bare.out;
  }
  for (const auto& [level, directories] : ExpectTheSameAtEitherLevel(command, bare.out)) {
    for (const std::string& directory : directories) {
      const CallCounts counts = CountsIn(directory);
      EXPECT_EQ(counts.at("cudaMemcpyAsync"), 3U) << level << ": the program's own";
      // Twice on each of the two devices, and nobody else allocates so.
      EXPECT_EQ(counts.count("cuMemHostAlloc") != 0 ? counts.at("cuMemHostAlloc") : 0U, level == "driver" ? 4U : 0U);
    }
  }
}

// C5: the C library's dlsym looks at who called it.
TEST(DriverTest, C5_RtldNextIsBehindTheCaller) {
  const Finished bare = RunProgram({NEXT_PROGRAM});
  EXPECT_EQ(bare.out,
            "next: second\nnext of the driver's name: second\ndefault: the first\nmissing: (nil)\nerror: said\n"
            "missing of the driver's: (nil)\nerror: said\n");
  for (const Variables& variables : {Preload(SLIPSTREAM_LIBRARY), AtDriver(Preload(SLIPSTREAM_LIBRARY))}) {
    const Finished hooked = RunProgram({NEXT_PROGRAM}, variables);
    EXPECT_EQ(hooked.status, 0) << hooked.err;
    EXPECT_EQ(hooked.out, bare.out);
  }
}

// C5: a look-up in the first allocation of a process, before this library is set up and from inside its own look-ups.
TEST(DriverTest, C5_AnAllocatorThatLooksItselfUp) {
  NEEDS_NO_SANITIZER("a sanitizer has the memory allocator to itself");
  const std::string ours = SLIPSTREAM_LIBRARY;
  const std::string theirs = EARLY_MALLOC;
  const Finished bare = RunProgram({DRIVER_PROGRAM, "calls", "2"}, {{"LD_PRELOAD", theirs}});
  EXPECT_NE(bare.out.find("early malloc: at work"), std::string::npos) << bare.out << bare.err;
  for (const std::string& order : {ours + ":" + theirs, theirs + ":" + ours}) {
    const Finished hooked = RunProgram({DRIVER_PROGRAM, "calls", "2"}, AtDriver({{"LD_PRELOAD", order}}));
    EXPECT_EQ(hooked.status, 0) << hooked.err;
    EXPECT_EQ(hooked.out, bare.out) << order;
  }
}

// Whoever is preloaded beside us keeps its calls, and the count is right in either order, whichever way it comes to
// what it hands its calls on to.
TEST(DriverTest, AnotherPreloadIsCalledToo) {
  const std::string ours = SLIPSTREAM_LIBRARY;
  const std::string theirs = DRIVER_INTERPOSER;
  for (const std::string& order : {ours + ":" + theirs, theirs + ":" + ours}) {
    for (const Variables& asks : {Variables{}, Variables{{"INTERPOSER_ASKS", "libcuda.so.1"}}}) {
      const std::string directory = NewDirectory();
      Variables variables = AtDriver(CountingPreload(SLIPSTREAM_LIBRARY, directory));
      variables.insert(asks.begin(), asks.end());
      variables["LD_PRELOAD"] = order;
      const Finished hooked = RunProgram({DRIVER_PROGRAM, "calls", "5"}, variables);
      EXPECT_EQ(hooked.status, 0) << hooked.err;
      Variables bare = asks;
      bare.merge(Preload(theirs));
      const Finished alone = RunProgram({DRIVER_PROGRAM, "calls", "5"}, bare);
      EXPECT_EQ(alone.status, 0) << alone.err;
      EXPECT_EQ(hooked.out.substr(0, hooked.out.find("interposer")), alone.out.substr(0, alone.out.find("interposer")));
      EXPECT_NE(hooked.out.find("interposer: "), std::string::npos);
      EXPECT_EQ(hooked.out.find("interposer: 0"), std::string::npos) << order;
      EXPECT_EQ(CountsIn(directory).at("cuMemAlloc_v2"), 16U) << order;
    }
  }
}

// A program that alone sees libcuda reaches it past the other preload, which could not hand the call on.
TEST(DriverTest, AnotherPreloadIsPassedByWhoeverHasTheDriverToItself) {
  const std::vector<std::string> command = {LOADER, "driver_by_name", SIM_DRIVER};
  const Finished bare = RunProgram(command, Preload(DRIVER_INTERPOSER));
  EXPECT_EQ(bare.status, 0) << bare.err;
  EXPECT_NE(bare.out.find("0 0 0 0 0 0, an error of the loader: 0\n"), std::string::npos) << bare.out;
  Variables both = Preload(SLIPSTREAM_LIBRARY);
  both["LD_PRELOAD"] += std::string(":") + DRIVER_INTERPOSER;
  Variables off = both;
  off["SLIPSTREAM_DISABLE"] = "1";
  for (const Variables& variables : {both, AtDriver(both), off}) {
    const Finished hooked = RunProgram(command, variables);
    EXPECT_EQ(hooked.status, 0) << hooked.err;
    EXPECT_EQ(hooked.out, bare.out);
  }
}

}  // namespace
}  // namespace slipstream::test
