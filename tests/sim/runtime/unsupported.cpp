// What the simulated device does not have: arrays, changes to single nodes of executable graphs, and memory and
// semaphores of other APIs. The names exist, so that a program links and a hook has something to bind to; the answer is
// cudaErrorNotSupported (README.md says so).
#include "tests/sim/runtime/entry.h"

// Setters of nodes of an executable graph (cudaGraphExecMemcpyNodeSetParams1D is in graph.cpp).
SIM_RT(cudaGraphExecMemcpyNodeSetParams,
       (cudaGraphExec_t hGraphExec, cudaGraphNode_t node, const cudaMemcpy3DParms* pNodeParams),
       (hGraphExec, node, pNodeParams)) {
  (void)hGraphExec, (void)node, (void)pNodeParams;
  return cudaErrorNotSupported;
}
SIM_RT(cudaGraphExecMemcpyNodeSetParamsToSymbol,
       (cudaGraphExec_t hGraphExec, cudaGraphNode_t node, const void* symbol, const void* src, size_t count,
        size_t offset, cudaMemcpyKind kind),
       (hGraphExec, node, symbol, src, count, offset, kind)) {
  (void)hGraphExec, (void)node, (void)symbol, (void)src, (void)count, (void)offset, (void)kind;
  return cudaErrorNotSupported;
}
SIM_RT(cudaGraphExecMemcpyNodeSetParamsFromSymbol,
       (cudaGraphExec_t hGraphExec, cudaGraphNode_t node, void* dst, const void* symbol, size_t count, size_t offset,
        cudaMemcpyKind kind),
       (hGraphExec, node, dst, symbol, count, offset, kind)) {
  (void)hGraphExec, (void)node, (void)dst, (void)symbol, (void)count, (void)offset, (void)kind;
  return cudaErrorNotSupported;
}
SIM_RT(cudaGraphExecMemsetNodeSetParams,
       (cudaGraphExec_t hGraphExec, cudaGraphNode_t node, const cudaMemsetParams* pNodeParams),
       (hGraphExec, node, pNodeParams)) {
  (void)hGraphExec, (void)node, (void)pNodeParams;
  return cudaErrorNotSupported;
}
SIM_RT(cudaGraphExecChildGraphNodeSetParams, (cudaGraphExec_t hGraphExec, cudaGraphNode_t node, cudaGraph_t childGraph),
       (hGraphExec, node, childGraph)) {
  (void)hGraphExec, (void)node, (void)childGraph;
  return cudaErrorNotSupported;
}
SIM_RT(cudaGraphExecNodeSetParams, (cudaGraphExec_t graphExec, cudaGraphNode_t node, cudaGraphNodeParams* nodeParams),
       (graphExec, node, nodeParams)) {
  (void)graphExec, (void)node, (void)nodeParams;
  return cudaErrorNotSupported;
}

SIM_RT(cudaGraphDebugDotPrint, (cudaGraph_t graph, const char* path, unsigned int flags), (graph, path, flags)) {
  (void)graph, (void)path, (void)flags;
  return cudaErrorNotSupported;
}

SIM_RT(cudaMallocArray,
       (cudaArray_t * array, const cudaChannelFormatDesc* desc, size_t width, size_t height, unsigned int flags),
       (array, desc, width, height, flags)) {
  (void)array, (void)desc, (void)width, (void)height, (void)flags;
  return cudaErrorNotSupported;
}
SIM_RT(cudaMalloc3DArray,
       (cudaArray_t * array, const cudaChannelFormatDesc* desc, cudaExtent extent, unsigned int flags),
       (array, desc, extent, flags)) {
  (void)array, (void)desc, (void)extent, (void)flags;
  return cudaErrorNotSupported;
}
SIM_RT(cudaMallocMipmappedArray,
       (cudaMipmappedArray_t * mipmappedArray, const cudaChannelFormatDesc* desc, cudaExtent extent,
        unsigned int numLevels, unsigned int flags),
       (mipmappedArray, desc, extent, numLevels, flags)) {
  (void)mipmappedArray, (void)desc, (void)extent, (void)numLevels, (void)flags;
  return cudaErrorNotSupported;
}
SIM_RT(cudaFreeArray, (cudaArray_t array), (array)) {
  (void)array;
  return cudaErrorNotSupported;
}
SIM_RT(cudaFreeMipmappedArray, (cudaMipmappedArray_t mipmappedArray), (mipmappedArray)) {
  (void)mipmappedArray;
  return cudaErrorNotSupported;
}
SIM_RT_PT(cudaMemcpyToArray, _ptds,
          (cudaArray_t dst, size_t wOffset, size_t hOffset, const void* src, size_t count, cudaMemcpyKind kind),
          (dst, wOffset, hOffset, src, count, kind)) {
  (void)dst, (void)wOffset, (void)hOffset, (void)src, (void)count, (void)kind;
  return cudaErrorNotSupported;
}
SIM_RT_PT(cudaMemcpyFromArray, _ptds,
          (void* dst, cudaArray_const_t src, size_t wOffset, size_t hOffset, size_t count, cudaMemcpyKind kind),
          (dst, src, wOffset, hOffset, count, kind)) {
  (void)dst, (void)src, (void)wOffset, (void)hOffset, (void)count, (void)kind;
  return cudaErrorNotSupported;
}
SIM_RT_PT(cudaMemcpyArrayToArray, _ptds,
          (cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst, cudaArray_const_t src, size_t wOffsetSrc,
           size_t hOffsetSrc, size_t count, cudaMemcpyKind kind),
          (dst, wOffsetDst, hOffsetDst, src, wOffsetSrc, hOffsetSrc, count, kind)) {
  (void)dst, (void)wOffsetDst, (void)hOffsetDst, (void)src, (void)wOffsetSrc, (void)hOffsetSrc, (void)count, (void)kind;
  return cudaErrorNotSupported;
}
SIM_RT_PT(cudaMemcpyToArrayAsync, _ptsz,
          (cudaArray_t dst, size_t wOffset, size_t hOffset, const void* src, size_t count, cudaMemcpyKind kind,
           cudaStream_t stream),
          (dst, wOffset, hOffset, src, count, kind, stream)) {
  (void)dst, (void)wOffset, (void)hOffset, (void)src, (void)count, (void)kind, (void)stream;
  return cudaErrorNotSupported;
}
SIM_RT_PT(cudaMemcpyFromArrayAsync, _ptsz,
          (void* dst, cudaArray_const_t src, size_t wOffset, size_t hOffset, size_t count, cudaMemcpyKind kind,
           cudaStream_t stream),
          (dst, src, wOffset, hOffset, count, kind, stream)) {
  (void)dst, (void)src, (void)wOffset, (void)hOffset, (void)count, (void)kind, (void)stream;
  return cudaErrorNotSupported;
}
SIM_RT_PT(cudaMemcpy2DToArray, _ptds,
          (cudaArray_t dst, size_t wOffset, size_t hOffset, const void* src, size_t spitch, size_t width, size_t height,
           cudaMemcpyKind kind),
          (dst, wOffset, hOffset, src, spitch, width, height, kind)) {
  (void)dst, (void)wOffset, (void)hOffset, (void)src, (void)spitch, (void)width, (void)height, (void)kind;
  return cudaErrorNotSupported;
}
SIM_RT_PT(cudaMemcpy2DFromArray, _ptds,
          (void* dst, size_t dpitch, cudaArray_const_t src, size_t wOffset, size_t hOffset, size_t width, size_t height,
           cudaMemcpyKind kind),
          (dst, dpitch, src, wOffset, hOffset, width, height, kind)) {
  (void)dst, (void)dpitch, (void)src, (void)wOffset, (void)hOffset, (void)width, (void)height, (void)kind;
  return cudaErrorNotSupported;
}
SIM_RT_PT(cudaMemcpy2DArrayToArray, _ptds,
          (cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst, cudaArray_const_t src, size_t wOffsetSrc,
           size_t hOffsetSrc, size_t width, size_t height, cudaMemcpyKind kind),
          (dst, wOffsetDst, hOffsetDst, src, wOffsetSrc, hOffsetSrc, width, height, kind)) {
  (void)dst, (void)wOffsetDst, (void)hOffsetDst, (void)src, (void)wOffsetSrc, (void)hOffsetSrc, (void)width,
      (void)height, (void)kind;
  return cudaErrorNotSupported;
}
SIM_RT_PT(cudaMemcpy2DToArrayAsync, _ptsz,
          (cudaArray_t dst, size_t wOffset, size_t hOffset, const void* src, size_t spitch, size_t width, size_t height,
           cudaMemcpyKind kind, cudaStream_t stream),
          (dst, wOffset, hOffset, src, spitch, width, height, kind, stream)) {
  (void)dst, (void)wOffset, (void)hOffset, (void)src, (void)spitch, (void)width, (void)height, (void)kind, (void)stream;
  return cudaErrorNotSupported;
}
SIM_RT_PT(cudaMemcpy2DFromArrayAsync, _ptsz,
          (void* dst, size_t dpitch, cudaArray_const_t src, size_t wOffset, size_t hOffset, size_t width, size_t height,
           cudaMemcpyKind kind, cudaStream_t stream),
          (dst, dpitch, src, wOffset, hOffset, width, height, kind, stream)) {
  (void)dst, (void)dpitch, (void)src, (void)wOffset, (void)hOffset, (void)width, (void)height, (void)kind, (void)stream;
  return cudaErrorNotSupported;
}
SIM_RT(cudaImportExternalMemory, (cudaExternalMemory_t * extMem_out, const cudaExternalMemoryHandleDesc* memHandleDesc),
       (extMem_out, memHandleDesc)) {
  (void)extMem_out, (void)memHandleDesc;
  return cudaErrorNotSupported;
}
SIM_RT(cudaExternalMemoryGetMappedBuffer,
       (void** devPtr, cudaExternalMemory_t extMem, const cudaExternalMemoryBufferDesc* bufferDesc),
       (devPtr, extMem, bufferDesc)) {
  (void)devPtr, (void)extMem, (void)bufferDesc;
  return cudaErrorNotSupported;
}
SIM_RT(cudaDestroyExternalMemory, (cudaExternalMemory_t extMem), (extMem)) {
  (void)extMem;
  return cudaErrorNotSupported;
}
SIM_RT(cudaImportExternalSemaphore,
       (cudaExternalSemaphore_t * extSem_out, const cudaExternalSemaphoreHandleDesc* semHandleDesc),
       (extSem_out, semHandleDesc)) {
  (void)extSem_out, (void)semHandleDesc;
  return cudaErrorNotSupported;
}
SIM_RT(cudaDestroyExternalSemaphore, (cudaExternalSemaphore_t extSem), (extSem)) {
  (void)extSem;
  return cudaErrorNotSupported;
}

// Two sets of names in CUDA 12 (plain and _v2), one in 13. The parameters are not looked at.
#if SIM_CUDART == 12
SIM_RT_AS_PT(cudaSignalExternalSemaphoresAsync, _ptsz,
             (const cudaExternalSemaphore_t* semaphores, const void* parameters, unsigned int count,
              cudaStream_t stream),
             (semaphores, parameters, count, stream)) {
  (void)semaphores, (void)parameters, (void)count, (void)stream;
  return cudaErrorNotSupported;
}
SIM_RT_AS_PT(cudaWaitExternalSemaphoresAsync, _ptsz,
             (const cudaExternalSemaphore_t* semaphores, const void* parameters, unsigned int count,
              cudaStream_t stream),
             (semaphores, parameters, count, stream)) {
  (void)semaphores, (void)parameters, (void)count, (void)stream;
  return cudaErrorNotSupported;
}
SIM_RT_AS_PT(cudaSignalExternalSemaphoresAsync_v2, _ptsz,
             (const cudaExternalSemaphore_t* semaphores, const void* parameters, unsigned int count,
              cudaStream_t stream),
             (semaphores, parameters, count, stream)) {
  (void)semaphores, (void)parameters, (void)count, (void)stream;
  return cudaErrorNotSupported;
}
SIM_RT_AS_PT(cudaWaitExternalSemaphoresAsync_v2, _ptsz,
             (const cudaExternalSemaphore_t* semaphores, const void* parameters, unsigned int count,
              cudaStream_t stream),
             (semaphores, parameters, count, stream)) {
  (void)semaphores, (void)parameters, (void)count, (void)stream;
  return cudaErrorNotSupported;
}
#else
SIM_RT_PT(cudaSignalExternalSemaphoresAsync, _ptsz,
          (const cudaExternalSemaphore_t* extSemArray, const cudaExternalSemaphoreSignalParams* paramsArray,
           unsigned int numExtSems, cudaStream_t stream),
          (extSemArray, paramsArray, numExtSems, stream)) {
  (void)extSemArray, (void)paramsArray, (void)numExtSems, (void)stream;
  return cudaErrorNotSupported;
}
SIM_RT_PT(cudaWaitExternalSemaphoresAsync, _ptsz,
          (const cudaExternalSemaphore_t* extSemArray, const cudaExternalSemaphoreWaitParams* paramsArray,
           unsigned int numExtSems, cudaStream_t stream),
          (extSemArray, paramsArray, numExtSems, stream)) {
  (void)extSemArray, (void)paramsArray, (void)numExtSems, (void)stream;
  return cudaErrorNotSupported;
}
#endif
