// NVTX ranges, read back by an injection library of our own.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/preload/counts.h"
#include "tests/preload/process.h"

namespace slipstream::test {
namespace {

struct Capture {
  std::vector<std::string> lines;
  std::map<std::string, int> pushes;  // by function
  int deepest = 0;
  int open = 0;  // pushes without a pop at the end
};

Capture Read(const std::string& path) {
  Capture capture;
  std::istringstream text(ReadFile(path));
  for (std::string line; std::getline(text, line);) {
    capture.lines.push_back(line);
    std::istringstream words(line);
    std::string kind;
    std::string domain;
    std::string function;
    words >> kind >> domain >> function;
    if (kind == "push") {
      capture.pushes[function] += 1;
      capture.deepest = std::max(capture.deepest, ++capture.open);
    }
    if (kind == "pop") --capture.open;
  }
  return capture;
}

bool Has(const Capture& capture, const std::string& line) {
  return std::find(capture.lines.begin(), capture.lines.end(), line) != capture.lines.end();
}

Finished RunWithTool(const std::string& file, const Variables& more = {}) {
  Variables variables = Preload(SLIPSTREAM_LIBRARY);
  variables["NVTX_INJECTION64_PATH"] = NVTX_CAPTURE;
  variables["NVTX_CAPTURE_FILE"] = file;
  variables.insert(more.begin(), more.end());
  return RunProgram({PROGRAM, "workload", "3"}, variables);
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
  EXPECT_TRUE(Has(capture, "push slipstream cudaMalloc category=1 payload=1048576"));
  EXPECT_TRUE(Has(capture, "push slipstream cudaMemcpyAsync category=2 payload=16384"));
  EXPECT_TRUE(Has(capture, "push slipstream cudaStreamSynchronize category=3 payload=0"));
  EXPECT_TRUE(Has(capture, "push slipstream cudaLaunchKernel category=4 payload=0"));
  EXPECT_EQ(capture.open, 0) << "every range that is pushed is popped";
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

TEST(NvtxTest, AToolThatCallsCudaFromInsideARangeIsPassedOnAndNotCounted) {
  const std::string file = NewDirectory() + "/nvtx";
  const std::string directory = NewDirectory();
  const Finished traced =
      RunWithTool(file, {{"SLIPSTREAM_RUN_DIRECTORY", directory}, {"NVTX_CAPTURE_CALLS_CUDA", "1"}});
  EXPECT_EQ(traced.status, 0) << traced.err;
  EXPECT_EQ(Read(file).pushes.count("cudaPeekAtLastError"), 0U);
  EXPECT_EQ(CountsIn(directory).count("cudaPeekAtLastError"), 0U);
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
