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

// False: they cannot be told.
bool NodesOf(const Driver& driver, CUgraph graph, std::vector<CUgraphNode>* nodes) {
  size_t count = 0;
  if (driver.cuGraphGetNodes(graph, nullptr, &count) != CUDA_SUCCESS) return false;
  nodes->resize(count);
  return count == 0 || driver.cuGraphGetNodes(graph, nodes->data(), &count) == CUDA_SUCCESS;
}

bool Allocates(const Driver& driver, CUgraph graph) {
  std::vector<CUgraphNode> nodes;
  if (!NodesOf(driver, graph, &nodes)) return false;
  return std::any_of(nodes.begin(), nodes.end(), [&](CUgraphNode node) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    if (driver.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS) return false;
    CUgraph child = nullptr;
    return type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
           (type == CU_GRAPH_NODE_TYPE_GRAPH && driver.cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS &&
            Allocates(driver, child));
  });
}

}  // namespace

bool HasNoHostEffects(const Driver& driver, CUgraph graph) {
  std::vector<CUgraphNode> nodes;
  return NodesOf(driver, graph, &nodes) &&
         std::all_of(nodes.begin(), nodes.end(), [&](CUgraphNode node) { return IsHarmlessNode(driver, node); });
}

void GraphWatch::Instantiated(const Driver& driver, CUgraphExec executable, CUgraph graph) {
  const bool harmless = HasNoHostEffects(driver, graph);
  const bool allocates = Allocates(driver, graph);
  const std::lock_guard lock(mutex_);
  if (allocates) {
    with_memory_.insert(executable);
    any_with_memory_.store(true, std::memory_order_release);
  } else {
    with_memory_.erase(executable);
  }
  if (harmless) {
    harmless_.insert(executable);
  } else {
    harmless_.erase(executable);
  }
}

void GraphWatch::Forget(CUgraphExec executable) {
  const std::lock_guard lock(mutex_);
  with_memory_.erase(executable);
  harmless_.erase(executable);
}

bool GraphWatch::IsHarmless(CUgraphExec executable) {
  const std::lock_guard lock(mutex_);
  return harmless_.contains(executable);
}

bool GraphWatch::OwnsMemory(CUgraphExec executable) {
  if (!any_with_memory_.load(std::memory_order_acquire)) return false;
  const std::lock_guard lock(mutex_);
  return with_memory_.contains(executable);
}

}  // namespace slipstream::cuda
