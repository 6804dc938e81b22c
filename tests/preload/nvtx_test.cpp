// NVTX ranges and marks, read back by an injection library of our own.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/preload/counts.h"
#include "tests/support/process.h"

namespace slipstream::test {
namespace {

// The file of the tool, in its order.
struct Capture {
  std::vector<std::string> lines;     // without the thread
  std::map<std::string, int> pushes;  // by function
  CallCounts marks;                   // by name
  CallCounts mark_bytes;
  int deepest = 0;
  int threads = 0;        // with ranges
  int open = 0;           // pushes without a pop at the end
  int stray_pops = 0;     // without a push before them, on their thread
  int marks_outside = 0;  // of any range of their thread
};

// The number behind " <key>=".
uint64_t NumberOf(const std::string& line, const std::string& key) {
  const size_t at = line.find(" " + key + "=");
  return at == std::string::npos ? ~uint64_t{0} : std::stoull(line.substr(at + key.size() + 2));
}

Capture Read(const std::string& path) {
  Capture capture;
  std::map<uint64_t, int> depth;  // by thread
  std::istringstream text(ReadFile(path));
  for (std::string line; std::getline(text, line);) {
    const uint64_t thread = NumberOf(line, "thread");
    line.resize(std::min(line.size(), line.rfind(" thread=")));
    capture.lines.push_back(line);
    std::istringstream words(line);
    std::string kind;
    std::string domain;
    std::string name;
    words >> kind >> domain >> name;
    if (kind == "push") {
      capture.pushes[name] += 1;
      capture.deepest = std::max(capture.deepest, ++depth[thread]);
    }
    if (kind == "pop" && --depth[thread] < 0) ++capture.stray_pops;
    if (kind == "mark") {
      ++capture.marks[name];
      capture.mark_bytes[name] += NumberOf(line, "payload");
      if (depth[thread] <= 0) ++capture.marks_outside;
    }
  }
  for (const auto& [thread, open] : depth) capture.open += open;
  capture.threads = static_cast<int>(depth.size());
  return capture;
}

bool Has(const Capture& capture, const std::string& line) {
  return std::find(capture.lines.begin(), capture.lines.end(), line) != capture.lines.end();
}

Finished RunWithTool(const std::string& file, const Variables& more = {},
                     const std::vector<std::string>& command = {PROGRAM, "workload", "3"}) {
  Variables variables = Preload(SLIPSTREAM_LIBRARY);
  variables["NVTX_INJECTION64_PATH"] = NVTX_CAPTURE;
  variables["NVTX_CAPTURE_FILE"] = file;
  variables.insert(more.begin(), more.end());
  return RunProgram(command, variables);
}

// What the counters say of the engines' decisions, by name.
struct Decisions {
  CallCounts calls;
  CallCounts bytes;
};

Decisions DecisionsIn(const std::string& directory) {
  Decisions decisions;
  std::vector<std::string> problems;
  for (const tracer::ProcessCounts& process : tracer::ReadRunDirectory(directory, &problems)) {
    for (const tracer::DecisionCounts& decision : process.decisions) {
      if (decision.count == 0) continue;
      decisions.calls[decision.name] += decision.count;
      decisions.bytes[decision.name] += decision.bytes;
    }
  }
  for (const std::string& problem : problems) ADD_FAILURE() << problem;
  return decisions;
}

TEST(NvtxTest, DomainCategoriesRegisteredStringsAndPayloads) {
  const std::string file = NewDirectory() + "/nvtx";
  const Finished bare = RunProgram({PROGRAM, "workload", "3"});
  const Finished traced = RunWithTool(file);
  EXPECT_EQ(traced.out, bare.out);
  EXPECT_EQ(traced.status, bare.status);
  const Capture capture = Read(file);
  EXPECT_TRUE(Has(capture, "domain slipstream"));
  EXPECT_TRUE(Has(capture, "category 1 alloc"));
  EXPECT_TRUE(Has(capture, "category 2 copy"));
  EXPECT_TRUE(Has(capture, "category 3 sync"));
  EXPECT_TRUE(Has(capture, "category 4 launch"));
  EXPECT_TRUE(Has(capture, "category 6 decision"));
  EXPECT_TRUE(Has(capture, "push slipstream cudaMalloc category=1 payload=1048576"));
  EXPECT_TRUE(Has(capture, "push slipstream cudaMemcpyAsync category=2 payload=16384"));
  EXPECT_TRUE(Has(capture, "push slipstream cudaStreamSynchronize category=3 payload=0"));
  EXPECT_TRUE(Has(capture, "push slipstream cudaLaunchKernel category=4 payload=0"));
  EXPECT_EQ(capture.open, 0) << "every range that is pushed is popped";
  EXPECT_EQ(capture.stray_pops, 0);
  EXPECT_EQ(capture.deepest, 1);
}

TEST(NvtxTest, OneRangeForEveryCountedCall) {
  const std::string file = NewDirectory() + "/nvtx";
  const std::string directory = NewDirectory();
  RunWithTool(file, {{"SLIPSTREAM_RUN_DIRECTORY", directory}});
  const Capture capture = Read(file);
  CallCounts pushes;
  for (const auto& [function, count] : capture.pushes) pushes[function] = static_cast<uint64_t>(count);
  EXPECT_FALSE(pushes.empty());
  EXPECT_EQ(pushes, CountsIn(directory));
}

// What the engines count as decided in a call, by the names that summaries and traces have.
TEST(NvtxTest, ADecisionIsAMarkWithItsNameAndItsBytesInTheRangeOfItsCall) {
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{PROGRAM, "workload", "3"}, {TRACED, "details"}}) {
    const std::string file = NewDirectory() + "/nvtx";
    const std::string directory = NewDirectory();
    RunWithTool(file,
                {{"SLIPSTREAM_RUN_DIRECTORY", directory}, {"SLIPSTREAM_TRANSFER_START", "now"}, {"SIMCUDA_SEED", "0"}},
                command);
    const Capture capture = Read(file);
    const Decisions decided = DecisionsIn(directory);
    EXPECT_EQ(capture.marks, decided.calls);
    EXPECT_EQ(capture.mark_bytes, decided.bytes);
    EXPECT_EQ(capture.marks_outside, 0);
    if (command[0] == PROGRAM) {
      EXPECT_EQ(decided.calls.at("transfer.h2d.promoted.small"), 3U) << "of the three steps";
      EXPECT_TRUE(Has(capture, "mark slipstream transfer.h2d.promoted.small category=6 payload=16384"));
    } else {
      EXPECT_GE(decided.calls.at("transfer.sync.skipped"), 1U);
    }
  }
}

TEST(NvtxTest, OnManyThreadsEachRangeEndsOnTheThreadThatBeganItAndHasItsOwnMarks) {
  const std::string file = NewDirectory() + "/nvtx";
  const std::string directory = NewDirectory();
  const Finished finished =
      RunWithTool(file, {{"SLIPSTREAM_RUN_DIRECTORY", directory}}, {PROGRAM, "allocate_on_threads", "8", "300"});
  EXPECT_EQ(finished.out, "0 failures\n") << finished.err;
  const Capture capture = Read(file);
  EXPECT_EQ(capture.threads, 9) << "the eight, and the one that made the first call";
  EXPECT_EQ(capture.deepest, 1);
  EXPECT_EQ(capture.open, 0);
  EXPECT_EQ(capture.stray_pops, 0);
  EXPECT_EQ(capture.marks_outside, 0);
  const Decisions decided = DecisionsIn(directory);
  EXPECT_FALSE(decided.calls.empty()) << "the pool decides about every allocation";
  EXPECT_EQ(capture.marks, decided.calls);
  EXPECT_EQ(capture.mark_bytes, decided.bytes);
}

TEST(NvtxTest, AToolThatCallsCudaFromInsideARangeIsPassedOnAndNotCounted) {
  const std::string file = NewDirectory() + "/nvtx";
  const std::string directory = NewDirectory();
  const Finished traced =
      RunWithTool(file, {{"SLIPSTREAM_RUN_DIRECTORY", directory}, {"NVTX_CAPTURE_CALLS_CUDA", "1"}});
  EXPECT_EQ(traced.status, 0) << traced.err;
  EXPECT_EQ(Read(file).pushes.count("cudaPeekAtLastError"), 0U);
  EXPECT_EQ(CountsIn(directory).count("cudaPeekAtLastError"), 0U);
}

// Static destructors that call CUDA run behind the tool's own exit handler.
TEST(NvtxTest, S53_NoRangeBehindTheToolsEnd) {
  const std::string file = NewDirectory() + "/nvtx";
  const std::string directory = NewDirectory();
  const Finished traced = RunWithTool(file, {{"SLIPSTREAM_RUN_DIRECTORY", directory}}, {TRACED, "at_exit"});
  EXPECT_EQ(traced.status, 0) << traced.err;
  const Capture capture = Read(file);
  EXPECT_TRUE(Has(capture, "end"));
  EXPECT_FALSE(Has(capture, "behind the end"));
  EXPECT_EQ(capture.open, 0);
  int pushed = 0;
  uint64_t counted = 0;
  for (const auto& [function, count] : capture.pushes) pushed += count;
  for (const auto& [function, count] : CountsIn(directory)) counted += count;
  EXPECT_GE(pushed, 4) << "those of main and of an exit handler";
  EXPECT_GE(counted, static_cast<uint64_t>(pushed) + 7) << "with those of a static destructor";
}

TEST(NvtxTest, OffByPolicy) {
  const std::string file = NewDirectory() + "/nvtx";
  RunWithTool(file, {{"SLIPSTREAM_TRACER_NVTX", "false"}});
  EXPECT_TRUE(Read(file).lines.empty());
}

TEST(NvtxTest, AToolThatCannotBeLoadedDoesNotMatter) {
  const Finished bare = RunProgram({PROGRAM, "workload", "3"});
  const Finished traced = RunWithTool(NewDirectory() + "/nvtx", {{"NVTX_INJECTION64_PATH", "/nowhere/libtool.so"}});
  EXPECT_EQ(traced.out, bare.out);
  EXPECT_EQ(traced.status, bare.status);
}

}  // namespace
}  // namespace slipstream::test
