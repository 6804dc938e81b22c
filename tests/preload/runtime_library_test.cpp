// Which libcudart a call reaches: one or two in the process, loaded in any way (S57, C4).

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "shim/runtime_exports.h"
#include "tests/preload/counts.h"
#include "tests/support/plain_build.h"
#include "tests/support/process.h"

namespace slipstream::test {
namespace {

struct Outcome {
  Finished bare;
  Finished hooked;
  CallCounts counted;
  CallCounts in12;
  CallCounts in13;
};

// Bare and under the preload, with what each runtime got under the preload.
Outcome Compare(const std::vector<std::string>& command) {
  Outcome outcome;
  outcome.bare = RunProgram(command);
  const std::string directory = NewDirectory();
  const std::string simulator = NewDirectory() + "/counts.json";
  Variables variables = CountingPreload(SLIPSTREAM_LIBRARY, directory);
  variables["SIMCUDA_COUNTS"] = simulator;
  outcome.hooked = RunProgram(command, variables);
  outcome.counted = CountsIn(directory);
  outcome.in12 = SimulatorCounts(simulator, "libcudart.so.12");
  outcome.in13 = SimulatorCounts(simulator, "libcudart.so.13");
  EXPECT_EQ(outcome.bare.status, 0) << outcome.bare.out << outcome.bare.err;
  EXPECT_NE(outcome.bare.out, "");
  EXPECT_EQ(outcome.hooked.out, outcome.bare.out);
  EXPECT_EQ(outcome.hooked.err, outcome.bare.err);
  EXPECT_EQ(outcome.hooked.status, outcome.bare.status);
  return outcome;
}

CallCounts Sum(CallCounts a, const CallCounts& b) {
  for (const auto& [name, calls] : b) a[name] += calls;
  return a;
}

TEST(RuntimeLibraryTest, S57_FoundWhenLoadedLocally) {
  const Outcome outcome = Compare({LOADER, "UseCuda", USER13});
  EXPECT_EQ(outcome.counted, outcome.in13);
  EXPECT_EQ(outcome.counted.at("cudaMalloc"), 2U);
}

TEST(RuntimeLibraryTest, S57_Runtime12FoundWhenLoadedLocally) {
  const Outcome outcome = Compare({LOADER, "UseCuda", USER12});
  EXPECT_EQ(outcome.counted, outcome.in12);
  EXPECT_EQ(outcome.counted.at("cudaMalloc"), 2U);
}

TEST(RuntimeLibraryTest, S57_FunctionsThatAreLookedUpByName) {
  const Outcome outcome = Compare({LOADER, "by_name", SIM_FOLDER "/libcudart.so.13"});
  EXPECT_EQ(outcome.counted, outcome.in13);
  EXPECT_EQ(outcome.counted.at("cudaMalloc"), 2U);
}

// Of several runtimes each pointer is of the one that was asked, seen or not.
TEST(RuntimeLibraryTest, S57_FunctionsOfTwoRuntimesThatAreLookedUpByName) {
  const std::string of12 = SIM_FOLDER "/libcudart.so.12";
  const std::string of13 = SIM_FOLDER "/libcudart.so.13";
  for (const auto& [first, second] : {std::pair(of12, of13), std::pair(of13, of12)}) {
    const Outcome outcome = Compare({LOADER, "by_name", first, second});
    EXPECT_EQ(outcome.in12.at("cudaMalloc"), 2U);
    EXPECT_EQ(outcome.in13.at("cudaMalloc"), 2U);
    EXPECT_EQ(outcome.counted, first == of12 ? outcome.in12 : outcome.in13);
  }
}

// Its own scope is the global one, and then what it is linked to.
TEST(RuntimeLibraryTest, S57_ALibraryFindsWhatIsInItsScope) {
  for (const char* const user : {USER13, USER12}) {
    EXPECT_EQ(Compare({LOADER, "LookUpInItsScope", user}).hooked.out, "LookUpInItsScope 3\nLookUpInItsScope 3\n");
  }
}

TEST(RuntimeLibraryTest, S57_NothingIsSeenByNameWhereThePolicyIsOff) {
  const std::string directory = NewDirectory();
  Variables variables = CountingPreload(SLIPSTREAM_LIBRARY, directory);
  variables["SLIPSTREAM_DISABLE"] = "1";
  const std::vector<std::string> command = {LOADER, "by_name", SIM_FOLDER "/libcudart.so.13"};
  EXPECT_EQ(RunProgram(command, variables).out, RunProgram(command).out);
  EXPECT_TRUE(CountsIn(directory).empty());
}

TEST(RuntimeLibraryTest, S57_TwoRuntimesEachGetTheirOwnCallersFunctions) {
  for (const auto& order : {std::vector<std::string>{USER12, USER13}, std::vector<std::string>{USER13, USER12}}) {
    const Outcome outcome = Compare({LOADER, "UsePrefetch", order[0], order[1]});
    EXPECT_EQ(outcome.counted, Sum(outcome.in12, outcome.in13));
    EXPECT_EQ(outcome.in12.at("cudaMemPrefetchAsync"), 2U);
    EXPECT_EQ(outcome.in13.at("cudaMemPrefetchAsync"), 2U);
  }
}

TEST(RuntimeLibraryTest, S57_ASecondRuntimeThatComesLater) {
  // The main program is linked to 13 and has used it before 12 comes in.
  const Outcome outcome = Compare({PROGRAM, "use", USER13, USER12});
  EXPECT_EQ(outcome.counted, Sum(outcome.in12, outcome.in13));
  EXPECT_EQ(outcome.in12.at("cudaStreamGetCaptureInfo_v2"), 2U);  // a function that only 12 has
}

TEST(RuntimeLibraryTest, S57_ASecondRuntimeThatComesInAForkedChild) {
  // CUDA works in the child, which is the first to use it.
  const Outcome outcome = Compare({PROGRAM, "use_in_child", USER13, USER12});
  EXPECT_NE(outcome.bare.out.find("uses runtime 12"), std::string::npos) << outcome.bare.out;
}

// How often the library under test asks the dynamic linker in a run of the command; -1 when it cannot be told.
int LoaderQuestions(const std::vector<std::string>& command) {
  Variables variables = Preload(SLIPSTREAM_LIBRARY);
  variables["LD_PRELOAD"] += std::string(":") + LOADER_CALLS;
  const Finished counted = RunProgram(command, variables);
  EXPECT_EQ(counted.status, 0) << counted.out << counted.err;
  const std::string mark = "loader questions: ";
  const size_t at = counted.err.find(mark);
  EXPECT_NE(at, std::string::npos) << counted.err;
  const int questions = at == std::string::npos ? -1 : std::stoi(counted.err.substr(at + mark.size()));
  EXPECT_GT(questions, 0) << "the count itself must work";
  return questions;
}

// torchvision brings a libcudart of its own, and parts of PyTorch name none: two runtimes are the rule, and a call must
// not ask the dynamic linker every time.
TEST(RuntimeLibraryTest, S57_ACallerWithoutARuntimeOfItsOwnIsLookedUpOnce) {
  NEEDS_NO_SANITIZER("the sanitizers ask the dynamic linker themselves");
  const std::vector<std::string> command = {PROGRAM, "use_often", USER12, UNLINKED_USER};
  const Outcome outcome = Compare(command);
  EXPECT_EQ(outcome.hooked.out, "200 of 200 answered by the program's own runtime\n");
  EXPECT_EQ(outcome.counted, Sum(outcome.in12, outcome.in13));

  // 200 rounds of four hooked calls.
  EXPECT_LT(LoaderQuestions(command), 100);
}

TEST(RuntimeLibraryTest, S57_ThousandsOfCallingPlacesAreLookedUpOnce) {
  NEEDS_NO_SANITIZER("the sanitizers ask the dynamic linker themselves");
  // 3000 places in one library, 201 rounds.
  EXPECT_LT(LoaderQuestions({PROGRAM, "use_often", USER12, MANY_SITES}), 100);
}

TEST(RuntimeLibraryTest, S57_ALibraryThatLooksUpFunctionsByNameIsLookedUpOnce) {
  NEEDS_NO_SANITIZER("the sanitizers ask the dynamic linker themselves");
  EXPECT_LT(LoaderQuestions({LOADER, "look_up_often", SIM_FOLDER "/libcudart.so.13"}), 100);
}

TEST(RuntimeLibraryTest, S57_DeepBindReachesTheRuntimePastUs) {
  NEEDS_NO_SANITIZER("the sanitizers refuse RTLD_DEEPBIND");
  // Not seen, and not disturbed.
  const Outcome outcome = Compare({PROGRAM, "use_deepbind", USER13});
  EXPECT_EQ(outcome.counted.count("cudaMalloc"), 0U);
  EXPECT_EQ(outcome.in13.at("cudaMalloc"), 2U);
}

TEST(RuntimeLibraryTest, UnloadingTheUserOfARuntimeIsHarmless) { Compare({LOADER, "UseCuda", USER13, USER13}); }

TEST(RuntimeLibraryTest, ALibraryThatIsLoadedAgainWorksAgain) { Compare({PROGRAM, "reload", USER12}); }

// The simulated runtime of a later release copies by a function that no hook sees, and asks by another one.
TEST(RuntimeLibraryTest, S66_ARuntimeThatIsNewerThanSlipstreamIsNotServed) {
  const Finished bare = RunProgram({PROGRAM, "workload", "3"});
  const std::string directory = NewDirectory();
  Variables variables = CountingPreload(SLIPSTREAM_LIBRARY, directory);
  variables["SLIPSTREAM_ALLOCATOR_MODE"] = "segments";
  variables["SLIPSTREAM_LOG_LEVEL"] = "warn";
  for (const bool newer : {false, true}) {
    SCOPED_TRACE(newer ? "newer" : "known");
    if (newer) variables["LD_LIBRARY_PATH"] = SIM_NEWER_FOLDER;
    const Finished hooked = RunProgram({PROGRAM, "workload", "3"}, variables);
    EXPECT_EQ(hooked.out, bare.out);
    EXPECT_EQ(hooked.status, bare.status);
    std::vector<std::string> problems;
    std::vector<tracer::ProcessCounts> processes = tracer::ReadRunDirectory(directory, &problems);
    ASSERT_EQ(processes.size(), newer ? 2U : 1U);
    if (newer && processes.front().FactsOf("runtime").front().find("/newer/") == std::string::npos) {
      std::swap(processes.front(), processes.back());
    }
    const tracer::ProcessCounts& process = processes.front();
    for (const char* engine : {"transfer", "allocator"}) {
      EXPECT_EQ(process.FactsOf(engine).front().starts_with(newer ? "off: " : "serves: "), true);
    }
    uint64_t decided = 0;
    for (const tracer::DecisionCounts& decision : process.decisions) decided += decision.count;
    EXPECT_EQ(decided == 0, newer);
    const std::string why =
        "libcudart.so.13 is newer than slipstream, which does not know 1 of its functions (cudaMemcpyTeleportAsync)";
    if (!newer) continue;
    EXPECT_EQ(process.FactsOf("transfer").front(), "off: " + why);
    EXPECT_NE(hooked.err.find(why), std::string::npos) << hooked.err;
  }
}

// The same, where another runtime was there first.
TEST(RuntimeLibraryTest, S66_ANewerRuntimeThatComesLaterEndsTheService) {
  const std::string directory = NewDirectory();
  Variables variables = CountingPreload(SLIPSTREAM_LIBRARY, directory);
  variables["SLIPSTREAM_ALLOCATOR_MODE"] = "segments";
  variables["LD_LIBRARY_PATH"] = SIM_NEWER_FOLDER;
  const std::vector<std::string> command = {LOADER, "UsePrefetch", USER12, USER13};
  const Finished bare = RunProgram(command);
  const Finished hooked = RunProgram(command, variables);
  EXPECT_EQ(hooked.out, bare.out);
  EXPECT_EQ(hooked.status, bare.status);
  std::vector<std::string> problems;
  const std::vector<tracer::ProcessCounts> processes = tracer::ReadRunDirectory(directory, &problems);
  ASSERT_EQ(processes.size(), 1U);
  for (const char* engine : {"transfer", "allocator"}) {
    const std::vector<std::string> facts = processes[0].FactsOf(engine);
    ASSERT_EQ(facts.size(), 2U) << engine;
    EXPECT_TRUE(facts[0].starts_with("serves: ")) << facts[0];
    EXPECT_EQ(facts[1],
              "off since a library was loaded: libcudart.so.13 is newer than slipstream, which does not know 1 of its "
              "functions (cudaMemcpyTeleportAsync)");
  }
}

// Which library it is for whose sake every synchronization is made (S22).
TEST(RuntimeLibraryTest, S22_ATransportInUseIsNamed) {
  const std::string directory = NewDirectory();
  Variables variables = CountingPreload(SLIPSTREAM_LIBRARY, directory);
  variables["SLIPSTREAM_TRANSFER_START"] = "now";
  variables["LD_PRELOAD"] += std::string(":") + FAKE_UCX_MODULE;
  const Finished hooked = RunProgram({TRACED, "details"}, variables);
  EXPECT_EQ(hooked.status, 0) << hooked.err;
  std::vector<std::string> problems;
  const std::vector<tracer::ProcessCounts> processes = tracer::ReadRunDirectory(directory, &problems);
  ASSERT_EQ(processes.size(), 1U);
  EXPECT_EQ(processes[0].FactsOf("transport"),
            std::vector<std::string>{"libuct_cuda.so.0 may let others read device memory, so every wait is made"});
}

// A function that only asks, going by its name, is no reason; all others are.
TEST(RuntimeLibraryTest, S66_NamesThatAskAndNamesThatDoMore) {
  for (const char* name : {"cudaTeleportGetVersion", "cudaGraphNodeGetLocalName", "cudaOccupancyMaxThings"}) {
    EXPECT_TRUE(shim::OnlyAsks(name)) << name;
  }
  for (const char* name : {"cudaMemcpyTeleportAsync", "cudaStreamTeleport", "cudaTeleportGetMappedPointer",
                           "cudaGetTeleportEntryPoint", "cudaIpcGetTeleportHandle", "cudaLibraryGetManagedThing"}) {
    EXPECT_FALSE(shim::OnlyAsks(name)) << name;
    EXPECT_FALSE(shim::IsKnownFunction(name)) << name;
  }
  for (const char* name : {"cudaMalloc", "cudaMemcpyAsync_ptsz", "cudaGetDevice", "cudaLaunchHostFunc_v2"}) {
    EXPECT_TRUE(shim::IsKnownFunction(name)) << name;
  }
}

shim::UnknownFunctions UnknownFunctionsIn(const std::string& path) {
  void* const handle = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  EXPECT_NE(handle, nullptr) << dlerror();
  link_map* map = nullptr;
  EXPECT_EQ(dlinfo(handle, RTLD_DI_LINKMAP, &map), 0);
  const shim::UnknownFunctions unknown = shim::UnknownFunctionsOf(map->l_ld, map->l_addr);
  dlclose(handle);
  return unknown;
}

// NVIDIA's own libraries, of the oldest and the newest release that are fetched here, and the one between.
TEST(RuntimeLibraryTest, S66_EveryFunctionOfTheRuntimesThatThereAreIsKnown) {
  int looked_at = 0;
  for (const char* path :
       {"build/cuda12-headers/nvidia/cuda_runtime/lib/libcudart.so.12",
        "build/cuda-headers/nvidia/cu13/lib/libcudart.so.13", "build/cuda13-latest/nvidia/cu13/lib/libcudart.so.13"}) {
    const std::string file = std::string(SOURCE_FOLDER "/") + path;
    if (access(file.c_str(), R_OK) != 0) continue;
    ++looked_at;
    const shim::UnknownFunctions unknown = UnknownFunctionsIn(file);
    EXPECT_EQ(unknown.count, 0U) << file << ": " << unknown.names;
  }
  EXPECT_EQ(UnknownFunctionsIn(SIM_NEWER_FOLDER "/libcudart.so.13").count, 1U);
  if (looked_at == 0) GTEST_SKIP() << "NVIDIA's runtimes are not here; tools/setup brings them";
}

// Whoever asks the loader is told what it is told bare.
TEST(RuntimeLibraryTest, AFunctionThatTheRuntimeLacksIsNotFound) {
  const Outcome outcome = Compare({PROGRAM, "probe", "cudaThreadExit"});
  EXPECT_EQ(outcome.hooked.out, "cudaThreadExit is absent\n");
  EXPECT_EQ(Compare({PROGRAM, "probe", "cudaGetDriverEntryPointByVersion"}).hooked.out,
            "cudaGetDriverEntryPointByVersion answers 1\n");
}

TEST(RuntimeLibraryTest, NoFunctionIsFoundWhereThereIsNoRuntime) {
  NEEDS_NO_SANITIZER("the system's python3 is not built with the sanitizer");
  const std::vector<std::string> command = {
      "python3", "-c",
      "import ctypes; print(hasattr(ctypes.CDLL(None), 'cudaMalloc'), ctypes.CDLL(None).getpid() > 1)"};
  const Finished bare = RunProgram(command);
  EXPECT_EQ(bare.out, "False True\n");
  EXPECT_EQ(RunProgram(command, Preload(SLIPSTREAM_LIBRARY)).out, bare.out);
}

}  // namespace
}  // namespace slipstream::test
