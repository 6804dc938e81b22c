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
TEST_F(GraphTest, TwoLaunchesOfOneExecutableAreSerialized) {
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

TEST_F(GraphTest, AChildGraphRunsBetweenWhatItsNodeStandsBetween) {
  Log log;
  cudaGraph_t graph = nullptr;
  cudaGraph_t child = nullptr;
  OK(cudaGraphCreate(&graph, 0));
  OK(cudaGraphCreate(&child, 0));
  const auto append = [&log](cudaGraph_t to, int what, const std::vector<cudaGraphNode_t>& behind) {
    Log* pointer = &log;
    void* args[] = {&pointer, &what};
    cudaKernelNodeParams kernel = {};
    kernel.func = const_cast<void*>(Address(&Append));
    kernel.gridDim = kernel.blockDim = dim3(1);
    kernel.kernelParams = args;
    cudaGraphNode_t node = nullptr;
    EXPECT_EQ(cudaGraphAddKernelNode(&node, to, behind.data(), behind.size(), &kernel), cudaSuccess);
    return node;
  };
  append(child, 2, {append(child, 1, {})});
  cudaGraphNode_t embedded = nullptr;
  const cudaGraphNode_t first = append(graph, 0, {});
  OK(cudaGraphAddChildGraphNode(&embedded, graph, &first, 1, child));
  append(graph, 3, {embedded});
  append(child, 9, {});  // the node has a clone
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  OK(cudaGraphNodeGetType(embedded, &type));
  EXPECT_EQ(type, cudaGraphNodeTypeGraph);
  cudaGraph_t inner = nullptr;
  OK(cudaGraphChildGraphNodeGetGraph(embedded, &inner));
  EXPECT_NE(inner, child);
  size_t count = 0;
  OK(cudaGraphGetNodes(inner, nullptr, &count));
  EXPECT_EQ(count, 2u);
  RETURNS(cudaErrorInvalidValue, cudaGraphDestroy(inner));
  RETURNS(cudaErrorInvalidValue, cudaGraphChildGraphNodeGetGraph(first, &inner));
  OK(cudaGraphDestroy(child));
  cudaGraphExec_t exec = nullptr;
  OK(cudaGraphInstantiate(&exec, graph, 0));
  OK(cudaGraphDestroy(graph));
  RETURNS(cudaErrorInvalidValue, cudaGraphGetNodes(inner, nullptr, &count));  // went with its node
  OK(cudaGraphLaunch(exec, a_));
  OK(cudaStreamSynchronize(a_));
  EXPECT_EQ(log.entries, (std::vector<int>{0, 1, 2, 3}));
}

TEST_F(GraphTest, AClonedChildGraphIsAnother) {
  cudaGraph_t graph = nullptr;
  cudaGraph_t child = nullptr;
  cudaGraph_t clone = nullptr;
  OK(cudaGraphCreate(&graph, 0));
  OK(cudaGraphCreate(&child, 0));
  cudaGraphNode_t node = nullptr;
  OK(cudaGraphAddEmptyNode(&node, child, nullptr, 0));
  OK(cudaGraphAddChildGraphNode(&node, graph, nullptr, 0, child));
  cudaGraph_t inner = nullptr;
  OK(cudaGraphChildGraphNodeGetGraph(node, &inner));
  OK(cudaGraphClone(&clone, graph));
  OK(cudaGraphDestroy(graph));
  size_t count = 1;
  OK(cudaGraphGetNodes(clone, &node, &count));
  cudaGraph_t inner_clone = nullptr;
  OK(cudaGraphChildGraphNodeGetGraph(node, &inner_clone));
  EXPECT_NE(inner_clone, inner);
  OK(cudaGraphGetNodes(inner_clone, nullptr, &count));
  EXPECT_EQ(count, 1u);
}

// A copy node answers in the words of the call that made it; so what reads it must look at the type first.
TEST_F(GraphTest, CopyNodesSayOfWhatKindTheirSidesAre) {
  OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeGlobal));
  OK(cudaMemcpyAsync(pageable_.data(), device_, 16, cudaMemcpyDeviceToHost, a_));
  cudaGraph_t graph = nullptr;
  OK(cudaStreamEndCapture(a_, &graph));
  CUgraphNode node = nullptr;
  size_t count = 1;
  OK(cuGraphGetNodes(graph, &node, &count));
  CUDA_MEMCPY3D copy = {};
  OK(cuGraphMemcpyNodeGetParams(node, &copy));
  EXPECT_EQ(copy.dstMemoryType, CU_MEMORYTYPE_HOST);
  EXPECT_EQ(copy.dstHost, pageable_.data());
  EXPECT_EQ(copy.dstDevice, 0u);
  EXPECT_EQ(copy.srcMemoryType, CU_MEMORYTYPE_DEVICE);
  EXPECT_EQ(copy.srcDevice, reinterpret_cast<CUdeviceptr>(device_));
  cudaMemcpy3DParms runtime = {};
  OK(cudaGraphMemcpyNodeGetParams(node, &runtime));
  EXPECT_EQ(runtime.dstPtr.ptr, pageable_.data());
  EXPECT_EQ(runtime.srcPtr.ptr, device_);
}

TEST_F(GraphTest, ACopyNodeOfAnExecutableGetsOtherPointers) {
  OK(cudaMemsetAsync(device_, 5, kBytes, a_));
  OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeGlobal));
  OK(cudaMemcpyAsync(pageable_.data(), device_, 16, cudaMemcpyDeviceToHost, a_));
  cudaGraph_t graph = nullptr;
  OK(cudaStreamEndCapture(a_, &graph));
  cudaGraphNode_t node = nullptr;
  size_t count = 1;
  OK(cudaGraphGetNodes(graph, &node, &count));
  cudaGraphExec_t exec = nullptr;
  OK(cudaGraphInstantiate(&exec, graph, 0));
  OK(cudaGraphExecMemcpyNodeSetParams1D(exec, node, pinned_ + 8, device_, 8, cudaMemcpyDeviceToHost));
  std::memset(pinned_, 0, 32);
  OK(cudaGraphLaunch(exec, a_));
  EXPECT_EQ(pinned_[8], 0);
  OK(cudaStreamSynchronize(a_));
  EXPECT_EQ(pageable_[0], 0x11);
  EXPECT_EQ(pinned_[7], 0);
  EXPECT_EQ(pinned_[8], 5);
  EXPECT_EQ(pinned_[15], 5);
  EXPECT_EQ(pinned_[16], 0);
}

}  // namespace
}  // namespace simtest
