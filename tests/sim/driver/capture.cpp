#include "tests/sim/driver/capture.h"

#include "tests/sim/driver/event.h"
#include "tests/sim/driver/pool.h"

namespace simcuda {

CUresult Enqueue(World& world, const StreamPtr& stream, Work work, OpPtr* op) {
  OpPtr submitted = Submit(world, stream, std::move(work));
  if (op != nullptr) {
    *op = std::move(submitted);
  }
  return CUDA_SUCCESS;
}

CUresult CheckNotCapturing(World&, const StreamPtr&) { return CUDA_SUCCESS; }
CUresult CheckUnsafeCall(World&) { return CUDA_SUCCESS; }
CUresult CheckContextNotCapturing(World&, Context*) { return CUDA_SUCCESS; }
CUresult CheckEventNotCaptured(World&, const Event*) { return CUDA_SUCCESS; }

CUresult RecordEvent(World& world, const StreamPtr& stream, Event* event, CUevent, unsigned) {
  Work work;
  work.kind = Work::Kind::kEventRecord;
  event->recorded = Submit(world, stream, std::move(work));
  return CUDA_SUCCESS;
}

CUresult WaitEvent(World& world, const StreamPtr& stream, Event* event, CUevent, unsigned) {
  if (!event->recorded || event->recorded->done()) {
    return CUDA_SUCCESS;
  }
  std::vector<OpPtr> dependencies = {event->recorded};
  StreamDependencies(stream, &dependencies);
  Work work;
  work.kind = Work::Kind::kEventWait;
  SubmitAfter(world, stream->context, stream, std::move(work), dependencies, true);
  return CUDA_SUCCESS;
}

void FreeNow(World& world, uintptr_t base) { ReleaseAllocation(world, base); }

bool SharedIsDone(SharedEvent*) { return true; }
uint64_t SharedTicket(SharedEvent*) { return 0; }
void WaitShared(SharedEvent*, uint64_t) {}

}  // namespace simcuda
