// Every row of the hook table against its wrapper, and the counting of one process against the simulator's own.

#include <gtest/gtest.h>

#include "tests/preload/counts.h"
#include "tests/support/process.h"
#include "tracer/base/hook_id.h"

namespace slipstream::test {
namespace {

std::vector<tracer::HookId> HooksOfTheRuntime() {
  std::vector<tracer::HookId> hooks;
  for (size_t i = 0; i < tracer::kHookCount; ++i) {
    const auto id = static_cast<tracer::HookId>(i);
    if (!IsOfDriver(id)) hooks.push_back(id);
  }
  return hooks;
}

TEST(HookTest, TheEchoProgramPassesBare) {
  const Finished bare = RunProgram({ECHO_CALLS});
  EXPECT_EQ(bare.status, 0) << bare.out << bare.err;
}

TEST(HookTest, EveryWrapperPassesItsArgumentsAndResultOn) {
  const Finished hooked = RunProgram({ECHO_CALLS}, Preload(SLIPSTREAM_LIBRARY));
  EXPECT_EQ(hooked.status, 0) << hooked.err;
  EXPECT_EQ(hooked.out, std::to_string(HooksOfTheRuntime().size()) + " functions, 0 wrong\n");
}

TEST(HookTest, EveryWrapperCountsUnderItsOwnName) {
  const std::string directory = NewDirectory();
  const Finished hooked = RunProgram({ECHO_CALLS}, CountingPreload(SLIPSTREAM_LIBRARY, directory));
  EXPECT_EQ(hooked.status, 0) << hooked.out << hooked.err;
  CallCounts expected;
  for (const tracer::HookId id : HooksOfTheRuntime()) {
    if (GroupOf(id) != tracer::HookGroup::kLookup) expected[tracer::NameOf(id)] = 1;
  }
  expected.erase("__cudaRegisterFatBinary");
  expected.erase("__cudaRegisterManagedVar");
  EXPECT_EQ(CountsIn(directory), expected);
}

TEST(HookTest, AFailedCallCountsAnErrorAndNoBytes) {
  const std::string directory = NewDirectory();
  RunProgram({ECHO_CALLS}, CountingPreload(SLIPSTREAM_LIBRARY, directory));
  std::vector<std::string> problems;
  const auto processes = tracer::ReadRunDirectory(directory, &problems);
  ASSERT_EQ(processes.size(), 1U);
  for (const tracer::FunctionCounts& function : processes[0].functions) {
    EXPECT_EQ(function.bytes, 0U) << function.name;
    // The echo runtime fails every call; what asks for an error gets one as its answer.
    if (function.calls == 0) continue;  // the driver's, and look-ups
    const bool answers = function.group == "error" || function.group == "register";
    EXPECT_EQ(function.errors, answers ? 0U : 1U) << function.name;
  }
}

// The mistake that the version script guards against, made on purpose: with a named version node the references
// cudaMalloc@libcudart.so.13 are not satisfied by the preload.
TEST(HookTest, ANamedVersionNodeWouldBeNoticed) {
  const std::string directory = NewDirectory();
  const Finished broken = RunProgram({PROGRAM, "workload"}, CountingPreload(SLIPSTREAM_NAMED_NODE, directory));
  EXPECT_EQ(broken.status, 0) << broken.err;
  EXPECT_TRUE(CountsIn(directory).empty());

  const Finished good = RunProgram({PROGRAM, "workload"}, CountingPreload(SLIPSTREAM_LIBRARY, directory));
  EXPECT_EQ(good.status, 0) << good.err;
  EXPECT_FALSE(CountsIn(directory).empty());
}

TEST(HookTest, CountsEqualTheSimulators) {
  const std::string directory = NewDirectory();
  const std::string simulator = NewDirectory() + "/counts.json";
  Variables variables = CountingPreload(SLIPSTREAM_LIBRARY, directory);
  variables["SIMCUDA_COUNTS"] = simulator;
  variables["SLIPSTREAM_TRANSFER_D2H"] = "off";
  variables["SLIPSTREAM_TRANSFER_H2D"] = "off";  // what the engine takes over reaches the driver, not the runtime
  const Finished hooked = RunProgram({PROGRAM, "workload", "25"}, variables);
  EXPECT_EQ(hooked.status, 0) << hooked.err;
  const CallCounts counted = CountsIn(directory);
  EXPECT_EQ(counted, SimulatorCounts(simulator, "libcudart.so.13"));
  EXPECT_EQ(counted.at("cudaLaunchKernel"), 25U);
  EXPECT_EQ(counted.at("cudaMemcpyAsync"), 50U);
}

TEST(HookTest, BytesAndDirectionsAreThoseOfTheCalls) {
  const std::string directory = NewDirectory();
  RunProgram({PROGRAM, "workload", "4"}, CountingPreload(SLIPSTREAM_LIBRARY, directory));
  std::vector<std::string> problems;
  const auto processes = tracer::ReadRunDirectory(directory, &problems);
  ASSERT_EQ(processes.size(), 1U);
  const uint64_t batch = 4096 * sizeof(float);
  for (const tracer::FunctionCounts& function : processes[0].functions) {
    const bool copy = function.name == "cudaMemcpyAsync";
    const bool allocation = function.name == "cudaMalloc";
    EXPECT_EQ(function.bytes, copy         ? 4 * (batch + sizeof(float))
                              : allocation ? batch + 4 * (uint64_t{1} << 20)
                                           : 0U)
        << function.name;
    EXPECT_EQ(function.errors, function.name == "cudaFree" ? 1U : 0U) << function.name;  // the program's bad free
    EXPECT_EQ(function.time_ns != 0, function.calls != 0) << function.name;
  }
  for (const tracer::CopyCounts& copy : processes[0].copies) {
    const bool in = copy.kind == "host_to_device";
    const bool out = copy.kind == "device_to_host";
    EXPECT_EQ(copy.calls, in || out ? 4U : 0U) << copy.kind;
    EXPECT_EQ(copy.bytes, in ? 4 * batch : out ? 4 * sizeof(float) : 0U) << copy.kind;
  }
}

TEST(HookTest, ResultsAndErrorsAreThoseOfTheBareProgram) {
  for (const char* what : {"workload", "failing_malloc"}) {
    const Finished bare = RunProgram({PROGRAM, what});
    Variables uncounted = Preload(SLIPSTREAM_LIBRARY);
    uncounted["SLIPSTREAM_ALLOCATOR_MODE"] = "off";  // a pool would not make the call that is to fail
    const Finished hooked = RunProgram({PROGRAM, what}, uncounted);
    const Finished counted = RunProgram({PROGRAM, what}, CountingPreload(SLIPSTREAM_LIBRARY, NewDirectory()));
    EXPECT_EQ(bare.status, 0) << bare.err;
    EXPECT_NE(bare.out, "");
    EXPECT_EQ(hooked.out, bare.out);
    EXPECT_EQ(counted.out, bare.out);
    EXPECT_EQ(hooked.err, bare.err);
    EXPECT_EQ(counted.err, bare.err);
    EXPECT_EQ(counted.status, bare.status);
  }
}

// In either order, and whichever way it comes to what it hands its calls on to.
TEST(HookTest, AnotherPreloadIsCalledToo) {
  const std::string ours = SLIPSTREAM_LIBRARY;
  const std::string theirs = INTERPOSER;
  for (const std::string& order : {ours + ":" + theirs, theirs + ":" + ours}) {
    for (const Variables& asks : {Variables{}, Variables{{"INTERPOSER_ASKS", "libcudart.so.13"}}}) {
      const std::string directory = NewDirectory();
      Variables variables = CountingPreload(SLIPSTREAM_LIBRARY, directory);
      variables.insert(asks.begin(), asks.end());
      variables["LD_PRELOAD"] = order;
      const Finished hooked = RunProgram({PROGRAM, "workload", "5"}, variables);
      EXPECT_EQ(hooked.status, 0) << hooked.err;
      EXPECT_NE(hooked.out.find("interposer: 6\n"), std::string::npos) << order << "\n" << hooked.out;
      EXPECT_EQ(CountsIn(directory).at("cudaMalloc"), 6U) << order;
    }
  }
}

}  // namespace
}  // namespace slipstream::test
