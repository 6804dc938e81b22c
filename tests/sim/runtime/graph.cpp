// Graphs: what is needed to build, instantiate, update and launch them.
#include "tests/sim/runtime/entry.h"

using simrt::StreamOf;

SIM_RT(cudaGraphCreate, (cudaGraph_t * pGraph, unsigned int flags), (pGraph, flags)) {
  return CU(cuGraphCreate, 10000, pGraph, flags);
}
SIM_RT(cudaGraphDestroy, (cudaGraph_t graph), (graph)) { return CU(cuGraphDestroy, 10000, graph); }
SIM_RT(cudaGraphClone, (cudaGraph_t * pGraphClone, cudaGraph_t originalGraph), (pGraphClone, originalGraph)) {
  return CU(cuGraphClone, 10000, pGraphClone, originalGraph);
}
SIM_RT(cudaGraphDestroyNode, (cudaGraphNode_t node), (node)) { return CU(cuGraphDestroyNode, 10000, node); }
SIM_RT(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* numNodes), (graph, nodes, numNodes)) {
  return CU(cuGraphGetNodes, 10000, graph, nodes, numNodes);
}
SIM_RT(cudaGraphGetRootNodes, (cudaGraph_t graph, cudaGraphNode_t* pRootNodes, size_t* pNumRootNodes),
       (graph, pRootNodes, pNumRootNodes)) {
  return CU(cuGraphGetRootNodes, 10000, graph, pRootNodes, pNumRootNodes);
}
SIM_RT(cudaGraphNodeGetType, (cudaGraphNode_t node, cudaGraphNodeType* pType), (node, pType)) {
  return CU(cuGraphNodeGetType, 10000, node, reinterpret_cast<CUgraphNodeType*>(pType));
}

#if SIM_CUDART == 12
SIM_RT_AS(cudaGraphGetEdges, (cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, size_t* numEdges),
          (graph, from, to, numEdges)) {
  return CU(cuGraphGetEdges, 10000, graph, from, to, numEdges);
}
SIM_RT_AS(cudaGraphNodeGetDependencies,
          (cudaGraphNode_t node, cudaGraphNode_t* pDependencies, size_t* pNumDependencies),
          (node, pDependencies, pNumDependencies)) {
  return CU(cuGraphNodeGetDependencies, 10000, node, pDependencies, pNumDependencies);
}
SIM_RT_AS(cudaGraphAddDependencies,
          (cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to, size_t numDependencies),
          (graph, from, to, numDependencies)) {
  return CU(cuGraphAddDependencies, 10000, graph, from, to, numDependencies);
}
#else
SIM_RT(cudaGraphGetEdges,
       (cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, cudaGraphEdgeData* edgeData, size_t* numEdges),
       (graph, from, to, edgeData, numEdges)) {
  return CU(cuGraphGetEdges, 12030, graph, from, to, reinterpret_cast<CUgraphEdgeData*>(edgeData), numEdges);
}
SIM_RT(cudaGraphNodeGetDependencies,
       (cudaGraphNode_t node, cudaGraphNode_t* pDependencies, cudaGraphEdgeData* edgeData, size_t* pNumDependencies),
       (node, pDependencies, edgeData, pNumDependencies)) {
  return CU(cuGraphNodeGetDependencies, 12030, node, pDependencies, reinterpret_cast<CUgraphEdgeData*>(edgeData),
            pNumDependencies);
}
SIM_RT(cudaGraphAddDependencies,
       (cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to, const cudaGraphEdgeData* edgeData,
        size_t numDependencies),
       (graph, from, to, edgeData, numDependencies)) {
  return CU(cuGraphAddDependencies, 12030, graph, from, to, reinterpret_cast<const CUgraphEdgeData*>(edgeData),
            numDependencies);
}
#endif

SIM_RT(cudaGraphAddEmptyNode,
       (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t* pDependencies, size_t numDependencies),
       (pGraphNode, graph, pDependencies, numDependencies)) {
  return CU(cuGraphAddEmptyNode, 10000, pGraphNode, graph, pDependencies, numDependencies);
}

namespace {

cudaError_t KernelParameters(const cudaKernelNodeParams* from, CUDA_KERNEL_NODE_PARAMS* to) {
  void* function = nullptr;
  if (from == nullptr || simrt::TheDriver().find_function(from->func, &function) != 0) {
    return cudaErrorInvalidDeviceFunction;
  }
  *to = {};
  to->func = static_cast<CUfunction>(function);
  to->gridDimX = from->gridDim.x;
  to->gridDimY = from->gridDim.y;
  to->gridDimZ = from->gridDim.z;
  to->blockDimX = from->blockDim.x;
  to->blockDimY = from->blockDim.y;
  to->blockDimZ = from->blockDim.z;
  to->sharedMemBytes = from->sharedMemBytes;
  to->kernelParams = from->kernelParams;
  to->extra = from->extra;
  return cudaSuccess;
}

CUDA_MEMCPY3D Linear(void* dst, const void* src, size_t count, cudaMemcpyKind kind) {
  CUDA_MEMCPY3D copy = {};
  const bool unified = kind == cudaMemcpyDefault;
  const bool src_host = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost;
  const bool dst_host = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost;
  copy.srcMemoryType = unified ? CU_MEMORYTYPE_UNIFIED : (src_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
  copy.dstMemoryType = unified ? CU_MEMORYTYPE_UNIFIED : (dst_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
  copy.srcHost = src;
  copy.srcDevice = reinterpret_cast<CUdeviceptr>(src);
  copy.dstHost = dst;
  copy.dstDevice = reinterpret_cast<CUdeviceptr>(dst);
  copy.WidthInBytes = count;
  copy.Height = copy.Depth = 1;
  return copy;
}

cudaError_t CurrentContext(CUcontext* context) { return CU(cuCtxGetCurrent, 4000, context); }

}  // namespace

SIM_RT(cudaGraphAddKernelNode,
       (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t* pDependencies, size_t numDependencies,
        const cudaKernelNodeParams* pNodeParams),
       (pGraphNode, graph, pDependencies, numDependencies, pNodeParams)) {
  CUDA_KERNEL_NODE_PARAMS parameters;
  SIM_RT_TRY(KernelParameters(pNodeParams, &parameters))
  return CU(cuGraphAddKernelNode, 12000, pGraphNode, graph, pDependencies, numDependencies, &parameters);
}
SIM_RT(cudaGraphExecKernelNodeSetParams,
       (cudaGraphExec_t hGraphExec, cudaGraphNode_t node, const cudaKernelNodeParams* pNodeParams),
       (hGraphExec, node, pNodeParams)) {
  CUDA_KERNEL_NODE_PARAMS parameters;
  SIM_RT_TRY(KernelParameters(pNodeParams, &parameters))
  return CU(cuGraphExecKernelNodeSetParams, 12000, hGraphExec, node, &parameters);
}
SIM_RT(cudaGraphAddMemcpyNode1D,
       (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t* pDependencies, size_t numDependencies,
        void* dst, const void* src, size_t count, cudaMemcpyKind kind),
       (pGraphNode, graph, pDependencies, numDependencies, dst, src, count, kind)) {
  CUcontext context = nullptr;
  SIM_RT_TRY(CurrentContext(&context))
  const CUDA_MEMCPY3D copy = Linear(dst, src, count, kind);
  return CU(cuGraphAddMemcpyNode, 10000, pGraphNode, graph, pDependencies, numDependencies, &copy, context);
}
SIM_RT(cudaGraphExecMemcpyNodeSetParams1D,
       (cudaGraphExec_t hGraphExec, cudaGraphNode_t node, void* dst, const void* src, size_t count,
        cudaMemcpyKind kind),
       (hGraphExec, node, dst, src, count, kind)) {
  CUcontext context = nullptr;
  SIM_RT_TRY(CurrentContext(&context))
  const CUDA_MEMCPY3D copy = Linear(dst, src, count, kind);
  return CU(cuGraphExecMemcpyNodeSetParams, 10020, hGraphExec, node, &copy, context);
}
SIM_RT(cudaGraphAddMemsetNode,
       (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t* pDependencies, size_t numDependencies,
        const cudaMemsetParams* pMemsetParams),
       (pGraphNode, graph, pDependencies, numDependencies, pMemsetParams)) {
  CUcontext context = nullptr;
  SIM_RT_TRY(CurrentContext(&context))
  CUDA_MEMSET_NODE_PARAMS parameters = {};
  parameters.dst = reinterpret_cast<CUdeviceptr>(pMemsetParams->dst);
  parameters.pitch = pMemsetParams->pitch;
  parameters.value = pMemsetParams->value;
  parameters.elementSize = pMemsetParams->elementSize;
  parameters.width = pMemsetParams->width;
  parameters.height = pMemsetParams->height;
  return CU(cuGraphAddMemsetNode, 10000, pGraphNode, graph, pDependencies, numDependencies, &parameters, context);
}
SIM_RT(cudaGraphAddHostNode,
       (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t* pDependencies, size_t numDependencies,
        const cudaHostNodeParams* pNodeParams),
       (pGraphNode, graph, pDependencies, numDependencies, pNodeParams)) {
  static_assert(sizeof(cudaHostNodeParams) == sizeof(CUDA_HOST_NODE_PARAMS));
  return CU(cuGraphAddHostNode, 10000, pGraphNode, graph, pDependencies, numDependencies,
            reinterpret_cast<const CUDA_HOST_NODE_PARAMS*>(pNodeParams));
}
SIM_RT(cudaGraphAddEventRecordNode,
       (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t* pDependencies, size_t numDependencies,
        cudaEvent_t event),
       (pGraphNode, graph, pDependencies, numDependencies, event)) {
  return CU(cuGraphAddEventRecordNode, 11010, pGraphNode, graph, pDependencies, numDependencies, event);
}
SIM_RT(cudaGraphAddEventWaitNode,
       (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t* pDependencies, size_t numDependencies,
        cudaEvent_t event),
       (pGraphNode, graph, pDependencies, numDependencies, event)) {
  return CU(cuGraphAddEventWaitNode, 11010, pGraphNode, graph, pDependencies, numDependencies, event);
}
SIM_RT(cudaGraphAddMemAllocNode,
       (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t* pDependencies, size_t numDependencies,
        cudaMemAllocNodeParams* nodeParams),
       (pGraphNode, graph, pDependencies, numDependencies, nodeParams)) {
  static_assert(sizeof(cudaMemAllocNodeParams) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS));
  return CU(cuGraphAddMemAllocNode, 11040, pGraphNode, graph, pDependencies, numDependencies,
            reinterpret_cast<CUDA_MEM_ALLOC_NODE_PARAMS*>(nodeParams));
}
SIM_RT(cudaGraphAddMemFreeNode,
       (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t* pDependencies, size_t numDependencies,
        void* dptr),
       (pGraphNode, graph, pDependencies, numDependencies, dptr)) {
  return CU(cuGraphAddMemFreeNode, 11040, pGraphNode, graph, pDependencies, numDependencies,
            reinterpret_cast<CUdeviceptr>(dptr));
}

SIM_RT(cudaGraphAddChildGraphNode,
       (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t* pDependencies, size_t numDependencies,
        cudaGraph_t childGraph),
       (pGraphNode, graph, pDependencies, numDependencies, childGraph)) {
  return CU(cuGraphAddChildGraphNode, 10000, pGraphNode, graph, pDependencies, numDependencies, childGraph);
}
SIM_RT(cudaGraphChildGraphNodeGetGraph, (cudaGraphNode_t node, cudaGraph_t* pGraph), (node, pGraph)) {
  return CU(cuGraphChildGraphNodeGetGraph, 10000, node, pGraph);
}

// What is wanted of a node: a tool that inspects graphs asks these.
SIM_RT(cudaGraphMemcpyNodeGetParams, (cudaGraphNode_t node, cudaMemcpy3DParms* pNodeParams), (node, pNodeParams)) {
  if (pNodeParams == nullptr) {
    return cudaErrorInvalidValue;
  }
  CUDA_MEMCPY3D driver = {};
  SIM_RT_TRY(CU(cuGraphMemcpyNodeGetParams, 10000, node, &driver))
  *pNodeParams = {};
  void* src = driver.srcMemoryType == CU_MEMORYTYPE_HOST ? const_cast<void*>(driver.srcHost)
                                                         : reinterpret_cast<void*>(driver.srcDevice);
  void* dst = driver.dstMemoryType == CU_MEMORYTYPE_HOST ? driver.dstHost : reinterpret_cast<void*>(driver.dstDevice);
  pNodeParams->srcPtr = {src, driver.srcPitch, driver.WidthInBytes, driver.srcHeight};
  pNodeParams->dstPtr = {dst, driver.dstPitch, driver.WidthInBytes, driver.dstHeight};
  pNodeParams->extent = {driver.WidthInBytes, driver.Height, driver.Depth};
  pNodeParams->kind = cudaMemcpyDefault;
  return cudaSuccess;
}
SIM_RT(cudaGraphMemsetNodeGetParams, (cudaGraphNode_t node, cudaMemsetParams* pNodeParams), (node, pNodeParams)) {
  if (pNodeParams == nullptr) {
    return cudaErrorInvalidValue;
  }
  CUDA_MEMSET_NODE_PARAMS driver = {};
  SIM_RT_TRY(CU(cuGraphMemsetNodeGetParams, 10000, node, &driver))
  *pNodeParams = {};
  pNodeParams->dst = reinterpret_cast<void*>(driver.dst);
  pNodeParams->pitch = driver.pitch;
  pNodeParams->value = driver.value;
  pNodeParams->elementSize = driver.elementSize;
  pNodeParams->width = driver.width;
  pNodeParams->height = driver.height;
  return cudaSuccess;
}
SIM_RT(cudaGraphHostNodeGetParams, (cudaGraphNode_t node, cudaHostNodeParams* pNodeParams), (node, pNodeParams)) {
  return CU(cuGraphHostNodeGetParams, 10000, node, reinterpret_cast<CUDA_HOST_NODE_PARAMS*>(pNodeParams));
}

SIM_RT(cudaGraphInstantiate, (cudaGraphExec_t * pGraphExec, cudaGraph_t graph, unsigned long long flags),
       (pGraphExec, graph, flags)) {
  return CU(cuGraphInstantiateWithFlags, 11040, pGraphExec, graph, flags);
}
SIM_RT(cudaGraphInstantiateWithFlags, (cudaGraphExec_t * pGraphExec, cudaGraph_t graph, unsigned long long flags),
       (pGraphExec, graph, flags)) {
  return CU(cuGraphInstantiateWithFlags, 11040, pGraphExec, graph, flags);
}
SIM_RT_PT(cudaGraphInstantiateWithParams, _ptsz,
          (cudaGraphExec_t * pGraphExec, cudaGraph_t graph, cudaGraphInstantiateParams* instantiateParams),
          (pGraphExec, graph, instantiateParams)) {
  if (instantiateParams == nullptr) {
    return cudaErrorInvalidValue;
  }
  CUDA_GRAPH_INSTANTIATE_PARAMS driver = {};
  driver.flags = instantiateParams->flags;
  driver.hUploadStream = StreamOf(instantiateParams->uploadStream);
  const cudaError_t result = CU(cuGraphInstantiateWithParams, 12000, pGraphExec, graph, &driver);
  instantiateParams->errNode_out = driver.hErrNode_out;
  instantiateParams->result_out = static_cast<cudaGraphInstantiateResult>(driver.result_out);
  return result;
}
SIM_RT_PT(cudaGraphUpload, _ptsz, (cudaGraphExec_t graphExec, cudaStream_t stream), (graphExec, stream)) {
  return CU(cuGraphUpload, 11010, graphExec, StreamOf(stream));
}
SIM_RT_PT(cudaGraphLaunch, _ptsz, (cudaGraphExec_t graphExec, cudaStream_t stream), (graphExec, stream)) {
  return CU(cuGraphLaunch, 10000, graphExec, StreamOf(stream));
}
SIM_RT(cudaGraphExecUpdate, (cudaGraphExec_t hGraphExec, cudaGraph_t hGraph, cudaGraphExecUpdateResultInfo* resultInfo),
       (hGraphExec, hGraph, resultInfo)) {
  CUgraphExecUpdateResultInfo driver = {};
  const cudaError_t result = CU(cuGraphExecUpdate, 12000, hGraphExec, hGraph, &driver);
  if (resultInfo != nullptr) {
    resultInfo->result = static_cast<cudaGraphExecUpdateResult>(driver.result);
    resultInfo->errorNode = driver.errorNode;
    resultInfo->errorFromNode = driver.errorFromNode;
  }
  return result;
}
SIM_RT(cudaGraphExecDestroy, (cudaGraphExec_t graphExec), (graphExec)) {
  return CU(cuGraphExecDestroy, 10000, graphExec);
}
