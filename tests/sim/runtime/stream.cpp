// Streams, events, synchronization, capture.
#include <vector>

#include "tests/sim/runtime/entry.h"

using simrt::StreamOf;

SIM_RT(cudaStreamCreate, (cudaStream_t * pStream), (pStream)) { return CU(cuStreamCreate, 2000, pStream, 0u); }
SIM_RT(cudaStreamCreateWithFlags, (cudaStream_t * pStream, unsigned int flags), (pStream, flags)) {
  return CU(cuStreamCreate, 2000, pStream, flags);
}
SIM_RT(cudaStreamCreateWithPriority, (cudaStream_t * pStream, unsigned int flags, int priority),
       (pStream, flags, priority)) {
  return CU(cuStreamCreateWithPriority, 5050, pStream, flags, priority);
}
SIM_RT(cudaStreamDestroy, (cudaStream_t stream), (stream)) { return CU(cuStreamDestroy, 4000, stream); }
SIM_RT_PT(cudaStreamSynchronize, _ptsz, (cudaStream_t stream), (stream)) {
  return CU(cuStreamSynchronize, 2000, StreamOf(stream));
}
SIM_RT_PT(cudaStreamQuery, _ptsz, (cudaStream_t stream), (stream)) { return CU(cuStreamQuery, 2000, StreamOf(stream)); }
SIM_RT_PT(cudaStreamWaitEvent, _ptsz, (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
          (stream, event, flags)) {
  return CU(cuStreamWaitEvent, 3020, StreamOf(stream), event, flags);
}
SIM_RT_PT(cudaStreamGetFlags, _ptsz, (cudaStream_t hStream, unsigned int* flags), (hStream, flags)) {
  return CU(cuStreamGetFlags, 5050, StreamOf(hStream), flags);
}
SIM_RT_PT(cudaStreamGetPriority, _ptsz, (cudaStream_t hStream, int* priority), (hStream, priority)) {
  return CU(cuStreamGetPriority, 5050, StreamOf(hStream), priority);
}
SIM_RT_PT(cudaStreamGetId, _ptsz, (cudaStream_t hStream, unsigned long long* streamId), (hStream, streamId)) {
  return CU(cuStreamGetId, 12000, StreamOf(hStream), streamId);
}
SIM_RT_PT(cudaStreamGetDevice, _ptsz, (cudaStream_t hStream, int* device), (hStream, device)) {
  return CU(cuStreamGetDevice, 12080, StreamOf(hStream), device);
}

SIM_RT(cudaEventCreate, (cudaEvent_t * event), (event)) { return CU(cuEventCreate, 2000, event, 0u); }
SIM_RT(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned int flags), (event, flags)) {
  return CU(cuEventCreate, 2000, event, flags);
}
SIM_RT(cudaEventDestroy, (cudaEvent_t event), (event)) { return CU(cuEventDestroy, 4000, event); }
SIM_RT_PT(cudaEventRecord, _ptsz, (cudaEvent_t event, cudaStream_t stream), (event, stream)) {
  return CU(cuEventRecord, 2000, event, StreamOf(stream));
}
SIM_RT_PT(cudaEventRecordWithFlags, _ptsz, (cudaEvent_t event, cudaStream_t stream, unsigned int flags),
          (event, stream, flags)) {
  return CU(cuEventRecordWithFlags, 11010, event, StreamOf(stream), flags);
}
SIM_RT(cudaEventQuery, (cudaEvent_t event), (event)) { return CU(cuEventQuery, 2000, event); }
SIM_RT(cudaEventSynchronize, (cudaEvent_t event), (event)) { return CU(cuEventSynchronize, 2000, event); }
#if SIM_CUDART == 12
SIM_RT(cudaEventElapsedTime, (float* ms, cudaEvent_t start, cudaEvent_t end), (ms, start, end)) {
  return CU(cuEventElapsedTime, 2000, ms, start, end);
}
SIM_RT_AS(cudaEventElapsedTime_v2, (float* ms, cudaEvent_t start, cudaEvent_t end), (ms, start, end)) {
  return CU(cuEventElapsedTime, 12080, ms, start, end);
}
SIM_RT_AS(cudaThreadSynchronize, (), ()) { return CU(cuCtxSynchronize, 2000); }
SIM_RT_AS(cudaThreadExit, (), ()) {
  CUdevice device = 0;
  SIM_RT_TRY(CU(cuCtxGetDevice, 2000, &device))
  return CU(cuDevicePrimaryCtxReset, 11000, device);
}
#else
SIM_RT(cudaEventElapsedTime, (float* ms, cudaEvent_t start, cudaEvent_t end), (ms, start, end)) {
  return CU(cuEventElapsedTime, 12080, ms, start, end);
}
#endif

// ---- capture
SIM_RT_PT(cudaStreamBeginCapture, _ptsz, (cudaStream_t stream, cudaStreamCaptureMode mode), (stream, mode)) {
  return CU(cuStreamBeginCapture, 10010, StreamOf(stream), static_cast<CUstreamCaptureMode>(mode));
}
SIM_RT_PT(cudaStreamBeginCaptureToGraph, _ptsz,
          (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
           const cudaGraphEdgeData* dependencyData, size_t numDependencies, cudaStreamCaptureMode mode),
          (stream, graph, dependencies, dependencyData, numDependencies, mode)) {
  return CU(cuStreamBeginCaptureToGraph, 12030, StreamOf(stream), graph, dependencies,
            reinterpret_cast<const CUgraphEdgeData*>(dependencyData), numDependencies,
            static_cast<CUstreamCaptureMode>(mode));
}
#if SIM_CUDART == 13
// Of CUDA 13.3. Here the graph loses its nodes, and the capture makes them anew: the callbacks are not made.
SIM_RT_AS_PT(cudaStreamBeginRecaptureToGraph, _ptsz,
             (cudaStream_t stream, cudaStreamCaptureMode mode, cudaGraph_t graph, void* callbackData),
             (stream, mode, graph, callbackData)) {
  if (callbackData != nullptr) return cudaErrorNotSupported;
  size_t count = 0;
  SIM_RT_TRY(CU(cuGraphGetNodes, 10000, graph, nullptr, &count))
  std::vector<CUgraphNode> nodes(count);
  SIM_RT_TRY(CU(cuGraphGetNodes, 10000, graph, nodes.data(), &count))
  for (CUgraphNode node : nodes) SIM_RT_TRY(CU(cuGraphDestroyNode, 10000, node))
  return CU(cuStreamBeginCaptureToGraph, 12030, StreamOf(stream), graph, nullptr, nullptr, size_t{0},
            static_cast<CUstreamCaptureMode>(mode));
}

// ---- execution contexts, of CUDA 13.1. A green one has all of the device's processors here: it is the primary
// context.
namespace {

cudaError_t PrimaryContext(void** ctx, int device) {
  CUcontext context = nullptr;
  SIM_RT_TRY(CU(cuDevicePrimaryCtxRetain, 7000, &context, device))
  *ctx = context;
  return CU(cuDevicePrimaryCtxRelease, 11000, device);
}

}  // namespace

SIM_RT(cudaDeviceGetExecutionCtx, (void** ctx, int device), (ctx, device)) { return PrimaryContext(ctx, device); }
SIM_RT(cudaExecutionCtxStreamCreate, (cudaStream_t * stream, void* ctx, unsigned int flags, int priority),
       (stream, ctx, flags, priority)) {
  CUcontext before = nullptr;
  SIM_RT_TRY(CU(cuCtxGetCurrent, 4000, &before))
  SIM_RT_TRY(CU(cuCtxSetCurrent, 4000, static_cast<CUcontext>(ctx)))
  const cudaError_t result = CU(cuStreamCreateWithPriority, 5050, stream, flags, priority);
  SIM_RT_TRY(CU(cuCtxSetCurrent, 4000, before))
  return result;
}
SIM_RT(cudaExecutionCtxSynchronize, (void* ctx), (ctx)) {
  CUcontext before = nullptr;
  SIM_RT_TRY(CU(cuCtxGetCurrent, 4000, &before))
  SIM_RT_TRY(CU(cuCtxSetCurrent, 4000, static_cast<CUcontext>(ctx)))
  const cudaError_t result = CU(cuCtxSynchronize, 2000);
  SIM_RT_TRY(CU(cuCtxSetCurrent, 4000, before))
  return result;
}
SIM_RT(cudaExecutionCtxRecordEvent, (void* ctx, cudaEvent_t event), (ctx, event)) {
  return CU(cuCtxRecordEvent, 12050, static_cast<CUcontext>(ctx), event);
}
SIM_RT(cudaExecutionCtxWaitEvent, (void* ctx, cudaEvent_t event), (ctx, event)) {
  return CU(cuCtxWaitEvent, 12050, static_cast<CUcontext>(ctx), event);
}
SIM_RT(cudaGreenCtxCreate, (void** ctx, void* description, int device, unsigned int flags),
       (ctx, description, device, flags)) {
  (void)description;
  return flags == 0 ? PrimaryContext(ctx, device) : cudaErrorInvalidValue;
}
SIM_RT(cudaExecutionCtxDestroy, (void* ctx), (ctx)) { return ctx != nullptr ? cudaSuccess : cudaErrorInvalidValue; }
#endif

SIM_RT_PT(cudaStreamEndCapture, _ptsz, (cudaStream_t stream, cudaGraph_t* pGraph), (stream, pGraph)) {
  return CU(cuStreamEndCapture, 10000, StreamOf(stream), pGraph);
}
SIM_RT_PT(cudaStreamIsCapturing, _ptsz, (cudaStream_t stream, cudaStreamCaptureStatus* pCaptureStatus),
          (stream, pCaptureStatus)) {
  return CU(cuStreamIsCapturing, 10000, StreamOf(stream), reinterpret_cast<CUstreamCaptureStatus*>(pCaptureStatus));
}
SIM_RT(cudaThreadExchangeStreamCaptureMode, (cudaStreamCaptureMode * mode), (mode)) {
  return CU(cuThreadExchangeStreamCaptureMode, 10010, reinterpret_cast<CUstreamCaptureMode*>(mode));
}

namespace {

cudaError_t CaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                        cudaGraph_t* graph, const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges,
                        size_t* count) {
  cuuint64_t driver_id = 0;
  const cudaError_t result =
      CU(cuStreamGetCaptureInfo, 12030, StreamOf(stream), reinterpret_cast<CUstreamCaptureStatus*>(status), &driver_id,
         graph, dependencies, reinterpret_cast<const CUgraphEdgeData**>(edges), count);
  if (id != nullptr) {
    *id = driver_id;
  }
  return result;
}

cudaError_t UpdateDependencies(cudaStream_t stream, cudaGraphNode_t* dependencies, const cudaGraphEdgeData* edges,
                               size_t count, unsigned flags) {
  return CU(cuStreamUpdateCaptureDependencies, 12030, StreamOf(stream), dependencies,
            reinterpret_cast<const CUgraphEdgeData*>(edges), count, flags);
}

}  // namespace

#if SIM_CUDART == 12
SIM_RT_AS_PT(cudaStreamGetCaptureInfo, _ptsz,
             (cudaStream_t stream, cudaStreamCaptureStatus* captureStatus_out, unsigned long long* id_out),
             (stream, captureStatus_out, id_out)) {
  return CaptureInfo(stream, captureStatus_out, id_out, nullptr, nullptr, nullptr, nullptr);
}
SIM_RT_AS_PT(cudaStreamGetCaptureInfo_v2, _ptsz,
             (cudaStream_t stream, cudaStreamCaptureStatus* captureStatus_out, unsigned long long* id_out,
              cudaGraph_t* graph_out, const cudaGraphNode_t** dependencies_out, size_t* numDependencies_out),
             (stream, captureStatus_out, id_out, graph_out, dependencies_out, numDependencies_out)) {
  return CaptureInfo(stream, captureStatus_out, id_out, graph_out, dependencies_out, nullptr, numDependencies_out);
}
SIM_RT_AS_PT(cudaStreamGetCaptureInfo_v3, _ptsz,
             (cudaStream_t stream, cudaStreamCaptureStatus* captureStatus_out, unsigned long long* id_out,
              cudaGraph_t* graph_out, const cudaGraphNode_t** dependencies_out, const cudaGraphEdgeData** edgeData_out,
              size_t* numDependencies_out),
             (stream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out, numDependencies_out)) {
  return CaptureInfo(stream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out, numDependencies_out);
}
SIM_RT_AS_PT(cudaStreamUpdateCaptureDependencies, _ptsz,
             (cudaStream_t stream, cudaGraphNode_t* dependencies, size_t numDependencies, unsigned int flags),
             (stream, dependencies, numDependencies, flags)) {
  return UpdateDependencies(stream, dependencies, nullptr, numDependencies, flags);
}
SIM_RT_AS_PT(cudaStreamUpdateCaptureDependencies_v2, _ptsz,
             (cudaStream_t stream, cudaGraphNode_t* dependencies, const cudaGraphEdgeData* dependencyData,
              size_t numDependencies, unsigned int flags),
             (stream, dependencies, dependencyData, numDependencies, flags)) {
  return UpdateDependencies(stream, dependencies, dependencyData, numDependencies, flags);
}
#else
SIM_RT_PT(cudaStreamGetCaptureInfo, _ptsz,
          (cudaStream_t stream, cudaStreamCaptureStatus* captureStatus_out, unsigned long long* id_out,
           cudaGraph_t* graph_out, const cudaGraphNode_t** dependencies_out, const cudaGraphEdgeData** edgeData_out,
           size_t* numDependencies_out),
          (stream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out, numDependencies_out)) {
  return CaptureInfo(stream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out, numDependencies_out);
}
SIM_RT_PT(cudaStreamUpdateCaptureDependencies, _ptsz,
          (cudaStream_t stream, cudaGraphNode_t* dependencies, const cudaGraphEdgeData* dependencyData,
           size_t numDependencies, unsigned int flags),
          (stream, dependencies, dependencyData, numDependencies, flags)) {
  return UpdateDependencies(stream, dependencies, dependencyData, numDependencies, flags);
}
#endif
