// Streams and their synchronization.
#include <algorithm>

#include "tests/sim/driver/use_context.h"

namespace simcuda {

CUresult FindStream(World& world, CUstream handle, StreamPtr* stream) {
  const bool per_thread = handle == CU_STREAM_PER_THREAD || (handle == nullptr && ThisThread().per_thread_default);
  if (per_thread || handle == nullptr || handle == CU_STREAM_LEGACY) {
    Context* context = nullptr;
    SIM_TRY(CurrentContext(world, &context))
    if (!per_thread) {
      *stream = context->legacy;
      return CUDA_SUCCESS;
    }
    StreamPtr& mine = ThisThread().per_thread_streams[{context, context->generation}];
    if (!mine) {
      mine = NewStream(world, context, 0, 0);
      mine->per_thread = true;
    }
    *stream = mine;
    return CUDA_SUCCESS;
  }
  const auto found = world.streams.find(handle);
  if (found == world.streams.end()) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  *stream = found->second;
  return (*stream)->context->sticky;
}

StreamPtr NewStream(World& world, Context* context, unsigned flags, int priority) {
  auto stream = std::make_shared<Stream>();
  stream->context = context;
  stream->context_generation = context->generation;
  stream->id = world.next_id++;
  stream->flags = flags;
  stream->priority = priority;
  context->streams.push_back(stream);
  return stream;
}

}  // namespace simcuda

using namespace simcuda;

// What a wait for the stream waits for. The legacy stream is a barrier among blocking streams, and waiting for it is
// waiting for them. A context-wide wait (cuCtxWaitEvent) holds back later work and is itself no stream's.
static std::vector<OpPtr> WorkOf(const StreamPtr& stream) {
  std::vector<OpPtr> work = {stream->tail};
  if (stream->legacy) {
    StreamDependencies(stream, &work);
    std::erase(work, stream->context->barrier);
  }
  return work;
}

// Handles are addresses of nothing, apart from those of the default streams.
static CUstream NewHandle(World& world) {
  if (world.spare_stream_handles.empty()) {
    constexpr uintptr_t kFirst = 0x5350'0000;
    constexpr uintptr_t kApart = 0x100;
    return reinterpret_cast<CUstream>(kFirst + world.next_stream_handle++ * kApart);
  }
  const CUstream handle = world.spare_stream_handles.back();
  world.spare_stream_handles.pop_back();
  return handle;
}

static CUresult CreateStream(CUstream* handle, unsigned flags, int priority) {
  SIM_USE_CONTEXT()
  if (handle == nullptr || (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const StreamPtr stream = NewStream(world, context, flags, std::clamp(priority, -5, 0));
  *handle = NewHandle(world);
  world.streams[*handle] = stream;
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuStreamCreate, 2000, cuStreamCreate, (CUstream * phStream, unsigned int Flags), (phStream, Flags)) {
  return CreateStream(phStream, Flags, 0);
}

SIM_DRIVER(cuStreamCreateWithPriority, 5050, cuStreamCreateWithPriority,
           (CUstream * phStream, unsigned int flags, int priority), (phStream, flags, priority)) {
  return CreateStream(phStream, flags, priority);
}

SIM_DRIVER(cuStreamDestroy, 4000, cuStreamDestroy_v2, (CUstream hStream), (hStream)) {
  World& world = TheWorld();
  Lock lock(world.mutex);
  const auto found = world.streams.find(hStream);
  if (found == world.streams.end()) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  const StreamPtr stream = found->second;
  // Returns at once; work that is left completes by itself.
  if (stream->capture) {
    CheckNotCapturing(world, stream);
  }
  stream->destroyed = true;
  world.streams.erase(found);
  world.spare_stream_handles.push_back(hStream);
  if (!stream->tail || stream->tail->done()) {
    std::erase(stream->context->streams, stream);
  }
  return CUDA_SUCCESS;
}

SIM_DRIVER_PT(cuStreamSynchronize, 2000, cuStreamSynchronize, _ptsz, (CUstream hStream), (hStream)) {
  const uint64_t start_ns = ObservedNowNs();
  SIM_USE_STREAM(hStream)
  SIM_TRY(CheckNotCapturing(world, stream))
  SIM_TRY(CheckUnsafeCall(world))
  RunUntilDone(world, lock, WorkOf(stream));
  WriteOutPrinted(world);
  ReportWaited(SIM_WAIT_STREAM, start_ns, stream->context, stream.get(), nullptr);
  return stream->context->sticky;
}

SIM_DRIVER_PT(cuStreamQuery, 2000, cuStreamQuery, _ptsz, (CUstream hStream), (hStream)) {
  SIM_USE_STREAM(hStream)
  SIM_TRY(CheckNotCapturing(world, stream))
  SIM_TRY(CheckUnsafeCall(world))
  const std::vector<OpPtr> targets = WorkOf(stream);
  const auto pending = std::find_if(targets.begin(), targets.end(), [](const OpPtr& op) { return op && !op->done(); });
  if (pending == targets.end()) {
    return stream->context->sticky;
  }
  RunSome(world, lock, *pending);
  return CUDA_ERROR_NOT_READY;
}

SIM_DRIVER_PT(cuStreamGetFlags, 5050, cuStreamGetFlags, _ptsz, (CUstream hStream, unsigned int* flags),
              (hStream, flags)) {
  SIM_USE_STREAM(hStream)
  if (flags == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *flags = stream->flags;
  return CUDA_SUCCESS;
}

SIM_DRIVER_PT(cuStreamGetPriority, 5050, cuStreamGetPriority, _ptsz, (CUstream hStream, int* priority),
              (hStream, priority)) {
  SIM_USE_STREAM(hStream)
  if (priority == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *priority = stream->priority;
  return CUDA_SUCCESS;
}

SIM_DRIVER_PT(cuStreamGetId, 12000, cuStreamGetId, _ptsz, (CUstream hStream, unsigned long long* streamId),
              (hStream, streamId)) {
  SIM_USE_STREAM(hStream)
  if (streamId == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *streamId = stream->id;
  return CUDA_SUCCESS;
}

SIM_DRIVER_PT(cuStreamGetDevice, 12080, cuStreamGetDevice, _ptsz, (CUstream hStream, CUdevice* device),
              (hStream, device)) {
  SIM_USE_STREAM(hStream)
  if (device == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *device = stream->context->device->ordinal;
  return CUDA_SUCCESS;
}

SIM_DRIVER_PT(cuStreamGetCtx, 9020, cuStreamGetCtx, _ptsz, (CUstream hStream, CUcontext* pctx), (hStream, pctx)) {
  SIM_USE_STREAM(hStream)
  if (pctx == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *pctx = reinterpret_cast<CUcontext>(stream->context);
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuCtxSynchronize, 2000, cuCtxSynchronize, (void), ()) {
  const uint64_t start_ns = ObservedNowNs();
  SIM_USE_CONTEXT()
  SIM_TRY(CheckContextNotCapturing(world, context))
  std::vector<OpPtr> everything = PendingOf(world, context);
  everything.insert(everything.end(), context->records.begin(), context->records.end());
  RunUntilDone(world, lock, everything);
  WriteOutPrinted(world);
  ReportWaited(SIM_WAIT_CONTEXT, start_ns, context, nullptr, nullptr);
  return context->sticky;
}
