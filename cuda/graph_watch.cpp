#include "cuda/graph_watch.h"

#include <algorithm>
#include <vector>

#include "cuda/memory_kind.h"

namespace slipstream::cuda {
namespace {

bool IsOnDevice(const Driver& driver, CUmemorytype type, CUdeviceptr address) {
  switch (type) {
    case CU_MEMORYTYPE_ARRAY:
      return true;
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED:
      return IsDeviceMemory(driver, address);
    default:
      return false;
  }
}

bool IsHarmlessCopy(const Driver& driver, CUgraphNode node) {
  CUDA_MEMCPY3D copy = {};
  return driver.cuGraphMemcpyNodeGetParams(node, &copy) == CUDA_SUCCESS &&
         IsOnDevice(driver, copy.dstMemoryType, copy.dstDevice) &&
         IsOnDevice(driver, copy.srcMemoryType, copy.srcDevice);
}

bool IsHarmlessSet(const Driver& driver, CUgraphNode node) {
  CUDA_MEMSET_NODE_PARAMS set = {};
  return driver.cuGraphMemsetNodeGetParams(node, &set) == CUDA_SUCCESS && IsDeviceMemory(driver, set.dst);
}

bool IsHarmlessNode(const Driver& driver, CUgraphNode node) {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_HOST;
  if (driver.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS) return false;
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return true;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return IsHarmlessCopy(driver, node);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return IsHarmlessSet(driver, node);
    case CU_GRAPH_NODE_TYPE_GRAPH: {
      CUgraph child = nullptr;
      return driver.cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS && HasNoHostEffects(driver, child);
    }
    default:
      return false;
  }
}

}  // namespace

bool HasNoHostEffects(const Driver& driver, CUgraph graph) {
  size_t count = 0;
  if (driver.cuGraphGetNodes(graph, nullptr, &count) != CUDA_SUCCESS) return false;
  std::vector<CUgraphNode> nodes(count);
  if (count != 0 && driver.cuGraphGetNodes(graph, nodes.data(), &count) != CUDA_SUCCESS) return false;
  return std::all_of(nodes.begin(), nodes.end(), [&](CUgraphNode node) { return IsHarmlessNode(driver, node); });
}

void GraphWatch::Instantiated(const Driver& driver, CUgraphExec executable, CUgraph graph) {
  const bool harmless = HasNoHostEffects(driver, graph);
  const std::lock_guard lock(mutex_);
  if (harmless) {
    harmless_.insert(executable);
  } else {
    harmless_.erase(executable);
  }
}

void GraphWatch::Forget(CUgraphExec executable) {
  const std::lock_guard lock(mutex_);
  harmless_.erase(executable);
}

bool GraphWatch::IsHarmless(CUgraphExec executable) {
  const std::lock_guard lock(mutex_);
  return harmless_.contains(executable);
}

}  // namespace slipstream::cuda
