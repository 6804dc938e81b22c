// Graphs: captured and built by hand, launched, updated.
#include <functional>

#include "tests/sim/sim_test.h"

namespace simtest {
namespace {

class GraphTest : public Sim {
 protected:
  cudaGraphExec_t Capture(const std::function<void()>& work) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    EXPECT_EQ(cudaStreamBeginCapture(a_, cudaStreamCaptureModeGlobal), cudaSuccess);
    work();
    EXPECT_EQ(cudaStreamEndCapture(a_, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);  // the executable does not need it
    return exec;
  }
};

TEST_F(GraphTest, ALaunchRunsTheNodesInTheStreamsOrder) {
  const cudaGraphExec_t exec = Capture([this] {
    EXPECT_EQ(LaunchFill(device_, kBytes, 7, a_), cudaSuccess);
    EXPECT_EQ(LaunchMove(other_, device_, kBytes, a_), cudaSuccess);
  });
  OK(cudaMemsetAsync(other_, 1, kBytes, b_));
  OK(cudaGraphLaunch(exec, b_));
  EXPECT_EQ(Byte(other_), 7);
  OK(cudaMemsetAsync(other_, 1, kBytes, b_));
  EXPECT_EQ(Byte(other_), 1);
  OK(cudaGraphLaunch(exec, b_));
  EXPECT_EQ(Byte(other_), 7);
  OK(cudaGraphExecDestroy(exec));
}

TEST_F(GraphTest, PageableMemoryIsReadWhenTheGraphRuns) {
  const cudaGraphExec_t exec = Capture(
      [this] { EXPECT_EQ(cudaMemcpyAsync(device_, pageable_.data(), 16, cudaMemcpyHostToDevice, a_), cudaSuccess); });
  pageable_[0] = 9;
  OK(cudaGraphLaunch(exec, b_));
  pageable_[0] = 10;
  EXPECT_EQ(Byte(device_), 10);
}

TEST_F(GraphTest, BranchesHaveNoOrder) {
  Log log;
  cudaEvent_t fork = nullptr;
  cudaEvent_t join = nullptr;
  OK(cudaEventCreate(&fork));
  OK(cudaEventCreate(&join));
  const cudaGraphExec_t exec = Capture([&] {
    EXPECT_EQ(cudaEventRecord(fork, a_), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(b_, fork, 0), cudaSuccess);
    EXPECT_EQ(LaunchAppend(&log, 1, a_), cudaSuccess);
    EXPECT_EQ(LaunchAppend(&log, 2, b_), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(join, b_), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(a_, join, 0), cudaSuccess);
    EXPECT_EQ(LaunchAppend(&log, 3, a_), cudaSuccess);
  });
  bool first_one = false;
  bool first_two = false;
  for (uint64_t seed = 0; seed < 16; ++seed) {
    OK(simSetSeed(seed));
    log.entries.clear();
    OK(cudaGraphLaunch(exec, a_));
    OK(cudaStreamSynchronize(a_));
    ASSERT_EQ(log.entries.size(), 3u);
    EXPECT_EQ(log.entries[2], 3);
    (log.entries[0] == 1 ? first_one : first_two) = true;
  }
  EXPECT_TRUE(first_one);
  EXPECT_TRUE(first_two);
}

// An executable does not run beside itself, on whatever streams it is launched.
TEST_F(GraphTest, TwoLaunchesOfOneExecutableAreSerialised) {
  Log log;
  const cudaGraphExec_t exec = Capture([&] {
    EXPECT_EQ(LaunchAppend(&log, 1, a_), cudaSuccess);
    EXPECT_EQ(LaunchAppend(&log, 2, a_), cudaSuccess);
  });
  for (uint64_t seed = 0; seed < 8; ++seed) {
    OK(simSetSeed(seed));
    log.entries.clear();
    OK(cudaGraphLaunch(exec, a_));
    OK(cudaGraphLaunch(exec, b_));
    OK(cudaStreamSynchronize(b_));
    EXPECT_EQ(log.entries, (std::vector<int>{1, 2, 1, 2})) << seed;
  }
}

TEST_F(GraphTest, BuiltByHandFromEveryNodeType) {
  cudaGraph_t graph = nullptr;
  OK(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t set = nullptr;
  cudaMemsetParams fill = {};
  fill.dst = device_;
  fill.elementSize = 1;
  fill.value = 3;
  fill.width = kBytes;
  fill.height = 1;
  OK(cudaGraphAddMemsetNode(&set, graph, nullptr, 0, &fill));
  cudaGraphNode_t kernel = nullptr;
  void* dst = other_;
  void* src = device_;
  size_t n = kBytes;
  void* args[] = {&dst, &src, &n};
  cudaKernelNodeParams launch = {};
  launch.func = const_cast<void*>(Address(&Move));
  launch.gridDim = launch.blockDim = dim3(1);
  launch.kernelParams = args;
  OK(cudaGraphAddKernelNode(&kernel, graph, &set, 1, &launch));
  cudaGraphNode_t copy = nullptr;
  OK(cudaGraphAddMemcpyNode1D(&copy, graph, &kernel, 1, pinned_, other_, 16, cudaMemcpyDeviceToHost));
  cudaGraphNode_t host = nullptr;
  bool called = false;
  cudaHostNodeParams call = {[](void* flag) { *static_cast<bool*>(flag) = true; }, &called};
  OK(cudaGraphAddHostNode(&host, graph, &copy, 1, &call));
  size_t count = 0;
  OK(cudaGraphGetNodes(graph, nullptr, &count));
  EXPECT_EQ(count, 4u);
  cudaMemcpy3DParms described = {};
  OK(cudaGraphMemcpyNodeGetParams(copy, &described));
  EXPECT_EQ(described.dstPtr.ptr, pinned_);
  EXPECT_EQ(described.extent.width, 16u);
  cudaGraphExec_t exec = nullptr;
  OK(cudaGraphInstantiate(&exec, graph, 0));
  OK(cudaGraphLaunch(exec, a_));
  EXPECT_FALSE(called);
  OK(cudaStreamSynchronize(a_));
  EXPECT_TRUE(called);
  EXPECT_EQ(pinned_[15], 3);
}

TEST_F(GraphTest, UpdateTakesNewParametersAndRefusesAnotherShape) {
  const cudaGraphExec_t exec = Capture([this] { EXPECT_EQ(LaunchFill(device_, kBytes, 7, a_), cudaSuccess); });
  cudaGraph_t graph = nullptr;
  OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeGlobal));
  OK(LaunchFill(device_, kBytes, 8, a_));
  OK(cudaStreamEndCapture(a_, &graph));
  cudaGraphExecUpdateResultInfo info = {};
  OK(cudaGraphExecUpdate(exec, graph, &info));
  OK(cudaGraphLaunch(exec, a_));
  EXPECT_EQ(Byte(device_), 8);
  OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeGlobal));
  OK(cudaMemsetAsync(device_, 9, kBytes, a_));
  OK(cudaStreamEndCapture(a_, &graph));
  RETURNS(cudaErrorGraphExecUpdateFailure, cudaGraphExecUpdate(exec, graph, &info));
  EXPECT_EQ(info.result, cudaGraphExecUpdateErrorNodeTypeChanged);
}

TEST_F(GraphTest, MemoryAllocatedInACaptureLivesInTheGraph) {
  void* block = nullptr;
  const cudaGraphExec_t exec = Capture([&] {
    EXPECT_EQ(cudaMallocAsync(&block, 256, a_), cudaSuccess);
    EXPECT_EQ(LaunchFill(block, 256, 7, a_), cudaSuccess);
    EXPECT_EQ(LaunchMove(device_, block, 256, a_), cudaSuccess);
    EXPECT_EQ(cudaFreeAsync(block, a_), cudaSuccess);
  });
  for (int i = 0; i < 2; ++i) {
    OK(cudaMemset(device_, 0, kBytes));
    OK(cudaStreamSynchronize(nullptr));
    OK(cudaGraphLaunch(exec, a_));
    EXPECT_EQ(Byte(device_), 7);
  }
  OK(cudaGraphExecDestroy(exec));
  RETURNS(cudaErrorInvalidValue, cudaMemcpy(pageable_.data(), block, 1, cudaMemcpyDeviceToHost));
}

TEST_F(GraphTest, LaunchInsideACaptureBecomesPartOfIt) {
  const cudaGraphExec_t inner = Capture([this] { EXPECT_EQ(LaunchFill(device_, kBytes, 7, a_), cudaSuccess); });
  const cudaGraphExec_t outer = Capture([&] {
    EXPECT_EQ(cudaGraphLaunch(inner, a_), cudaSuccess);
    EXPECT_EQ(LaunchMove(other_, device_, kBytes, a_), cudaSuccess);
  });
  OK(cudaGraphLaunch(outer, b_));
  EXPECT_EQ(Byte(other_), 7);
}

TEST_F(GraphTest, EventNodesRecordAtLaunch) {
  cudaEvent_t event = nullptr;
  OK(cudaEventCreate(&event));
  const cudaGraphExec_t exec = Capture([&] {
    EXPECT_EQ(LaunchFill(device_, kBytes, 7, a_), cudaSuccess);
    EXPECT_EQ(cudaEventRecordWithFlags(event, a_, cudaEventRecordExternal), cudaSuccess);
  });
  RETURNS(cudaSuccess, cudaEventQuery(event));  // not recorded yet
  OK(cudaGraphLaunch(exec, b_));
  RETURNS(cudaErrorNotReady, cudaEventQuery(event));
  OK(cudaEventSynchronize(event));
  EXPECT_EQ(Byte(device_), 7);
}

}  // namespace
}  // namespace simtest
