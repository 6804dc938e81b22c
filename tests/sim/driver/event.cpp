// Events, on streams and on whole contexts.
#include "tests/sim/driver/event.h"

#include <algorithm>

#include "tests/sim/driver/use_context.h"

namespace simcuda {

Event* FindEvent(World& world, CUevent handle) {
  const auto found = world.events.find(handle);
  return found == world.events.end() ? nullptr : found->second.get();
}

}  // namespace simcuda

using namespace simcuda;

SIM_DRIVER(cuEventCreate, 2000, cuEventCreate, (CUevent * phEvent, unsigned int Flags), (phEvent, Flags)) {
  SIM_USE_CONTEXT()
  const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  if (phEvent == nullptr || (Flags & ~known) != 0 ||
      ((Flags & CU_EVENT_INTERPROCESS) != 0 && (Flags & CU_EVENT_DISABLE_TIMING) == 0)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto event = std::make_unique<Event>();
  event->context = context;
  event->flags = Flags;
  *phEvent = reinterpret_cast<CUevent>(event.get());
  world.events[*phEvent] = std::move(event);
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuEventDestroy, 4000, cuEventDestroy_v2, (CUevent hEvent), (hEvent)) {
  World& world = TheWorld();
  Lock lock(world.mutex);
  // Work that waits for it holds the recorded operation itself.
  return world.events.erase(hEvent) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult Record(CUevent hEvent, CUstream hStream, unsigned flags) {
  SIM_USE_STREAM(hStream)
  Event* event = FindEvent(world, hEvent);
  if (event == nullptr || event->context != stream->context) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if ((flags & ~static_cast<unsigned>(CU_EVENT_RECORD_EXTERNAL)) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return RecordEvent(world, stream, event, hEvent, flags);
}

SIM_DRIVER_PT(cuEventRecord, 2000, cuEventRecord, _ptsz, (CUevent hEvent, CUstream hStream), (hEvent, hStream)) {
  return Record(hEvent, hStream, 0);
}

SIM_DRIVER_PT(cuEventRecordWithFlags, 11010, cuEventRecordWithFlags, _ptsz,
              (CUevent hEvent, CUstream hStream, unsigned int flags), (hEvent, hStream, flags)) {
  return Record(hEvent, hStream, flags);
}

SIM_DRIVER_PT(cuStreamWaitEvent, 3020, cuStreamWaitEvent, _ptsz, (CUstream hStream, CUevent hEvent, unsigned int Flags),
              (hStream, hEvent, Flags)) {
  const uint64_t start_ns = ObservedNowNs();
  SIM_USE_STREAM(hStream)
  Event* event = FindEvent(world, hEvent);
  if (event == nullptr) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if ((Flags & ~static_cast<unsigned>(CU_EVENT_WAIT_EXTERNAL)) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUresult result = WaitEvent(world, stream, event, hEvent, Flags);
  if (result == CUDA_SUCCESS && !stream->capture) {
    ReportWaited(SIM_WAIT_STREAM_FOR_EVENT, start_ns, stream->context, stream.get(), event);
  }
  return result;
}

SIM_DRIVER(cuEventQuery, 2000, cuEventQuery, (CUevent hEvent), (hEvent)) {
  SIM_USE_CONTEXT()
  Event* event = FindEvent(world, hEvent);
  if (event == nullptr) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  SIM_TRY(CheckEventNotCaptured(world, event))
  SIM_TRY(CheckUnsafeCall(world))
  if (event->shared != nullptr) {
    if (SharedComplete(event)) {
      return event->context->sticky;
    }
    DemandShared(event);
    RunSome(world, lock, event->recorded);
    return CUDA_ERROR_NOT_READY;
  }
  const OpPtr recorded = event->recorded;
  if (!recorded || recorded->done()) {
    return event->context->sticky;
  }
  RunSome(world, lock, recorded);
  return CUDA_ERROR_NOT_READY;
}

SIM_DRIVER(cuEventSynchronize, 2000, cuEventSynchronize, (CUevent hEvent), (hEvent)) {
  const uint64_t start_ns = ObservedNowNs();
  SIM_USE_CONTEXT()
  Event* event = FindEvent(world, hEvent);
  if (event == nullptr) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  SIM_TRY(CheckEventNotCaptured(world, event))
  SIM_TRY(CheckUnsafeCall(world))
  Context* owner = event->context;
  if (event->shared != nullptr) {
    // The last record may be another process's: wait for it as a stream would.
    Work work;
    work.kind = Work::Kind::kEventWait;
    std::vector<OpPtr> dependencies;
    if (PrepareWait(event, &work, &dependencies)) {
      RunUntilDone(world, lock, {SubmitAfter(world, context, nullptr, std::move(work), dependencies, false)});
    }
    return owner->sticky;
  }
  RunUntilDone(world, lock, {event->recorded});
  WriteOutPrinted(world);
  ReportWaited(SIM_WAIT_EVENT, start_ns, owner, nullptr, event);
  return owner->sticky;
}

static CUresult Elapsed(float* ms, CUevent hStart, CUevent hEnd) {
  SIM_USE_CONTEXT()
  const Event* start = FindEvent(world, hStart);
  const Event* end = FindEvent(world, hEnd);
  if (ms == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (start != nullptr && end != nullptr && (start->capture || end->capture)) {
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  if (start == nullptr || end == nullptr || ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0 ||
      !start->recorded || !end->recorded) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (!start->recorded->done() || !end->recorded->done()) {
    RunSome(world, lock, end->recorded);
    return CUDA_ERROR_NOT_READY;
  }
  const auto from = static_cast<double>(start->recorded->end_ns);
  const auto to = static_cast<double>(end->recorded->end_ns);
  *ms = static_cast<float>((to - from) * 1e-6);
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuEventElapsedTime, 2000, cuEventElapsedTime, (float* pMilliseconds, CUevent hStart, CUevent hEnd),
           (pMilliseconds, hStart, hEnd)) {
  return Elapsed(pMilliseconds, hStart, hEnd);
}
SIM_DRIVER(cuEventElapsedTime, 12080, cuEventElapsedTime_v2, (float* pMilliseconds, CUevent hStart, CUevent hEnd),
           (pMilliseconds, hStart, hEnd)) {
  return Elapsed(pMilliseconds, hStart, hEnd);
}

// Captures all work submitted to the context so far, from every thread and every library (cuda.h).
SIM_DRIVER(cuCtxRecordEvent, 12050, cuCtxRecordEvent, (CUcontext hCtx, CUevent hEvent), (hCtx, hEvent)) {
  World& world = TheWorld();
  Lock lock(world.mutex);
  auto* context = reinterpret_cast<Context*>(hCtx);
  if (!IsContext(world, context)) {  // NULL is not the current one (measured)
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  Event* event = FindEvent(world, hEvent);
  if (event == nullptr || event->context != context) {  // another context's event (cuda.h)
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (context->sticky != CUDA_SUCCESS) {
    return context->sticky;
  }
  SIM_TRY(CheckContextNotCapturing(world, context))
  std::vector<OpPtr> everything = PendingOf(world, context);
  if (context->barrier) {
    everything.push_back(context->barrier);
  }
  Work work;
  work.kind = Work::Kind::kEventRecord;
  event->capture = nullptr;
  AttachShared(event, &work);
  event->recorded = SubmitAfter(world, context, nullptr, std::move(work), everything, false);
  std::erase_if(context->records, [](const OpPtr& op) { return op->done(); });
  context->records.push_back(event->recorded);
  NoteSharedRecord(event);
  return CUDA_SUCCESS;
}

// All work submitted to the context from now on, on existing and future streams, waits for the event (cuda.h).
SIM_DRIVER(cuCtxWaitEvent, 12050, cuCtxWaitEvent, (CUcontext hCtx, CUevent hEvent), (hCtx, hEvent)) {
  World& world = TheWorld();
  Lock lock(world.mutex);
  auto* context = reinterpret_cast<Context*>(hCtx);
  if (!IsContext(world, context)) {  // NULL is not the current one (measured)
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  Event* event = FindEvent(world, hEvent);
  if (event == nullptr) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (context->sticky != CUDA_SUCCESS) {
    return context->sticky;
  }
  SIM_TRY(CheckContextNotCapturing(world, context))
  if (!event->recorded || event->recorded->done()) {
    return CUDA_SUCCESS;
  }
  Work work;
  work.kind = Work::Kind::kEventWait;
  context->barrier = SubmitAfter(world, context, nullptr, std::move(work), {event->recorded, context->barrier}, false);
  return CUDA_SUCCESS;
}
