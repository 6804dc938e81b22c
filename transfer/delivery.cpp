#include "transfer/delivery.h"

#include "cuda/mutant.h"
#include "cuda/own_work.h"

namespace slipstream::transfer {

bool Delivery::Went(CUresult result) {
  if (result != CUDA_SUCCESS && !Broken(Mutant::kS17)) failed_ = true;
  return !failed_;
}

bool Delivery::Add(size_t offset, const char* staged, size_t bytes) {
  if (lease_.memory() == 0) {
    CUstream stream = to_.stream;
    if (Broken(Mutant::kS07)) {
      static CUstream own = nullptr;
      if (own == nullptr) driver_.cuStreamCreate(&own, CU_STREAM_NON_BLOCKING);
      stream = own;
    }
    return Went(cuda::CopyHtoD(driver_, to_.destination + offset, staged, bytes, stream));
  }
  if (!Went(cuda::CopyHtoD(driver_, lease_.memory() + offset, staged, bytes, stream_))) return false;
  if (Broken(Mutant::kS62)) PassOn(Read(), offset, bytes);
  return !failed_;
}

void Delivery::PassOn(const cuda::FenceRef& arrived, size_t offset, size_t bytes) {
  if (!arrived) failed_ = true;
  if (failed_) return;
  const cuda::OwnWork own;
  const bool waits = !Broken(Mutant::kS07Arrived);
  if (waits && !Went(driver_.cuStreamWaitEvent(to_.stream, arrived.event(), CU_EVENT_WAIT_DEFAULT))) return;
  joined_ = true;
  CUstream stream = Broken(Mutant::kS07Ahead) ? stream_ : to_.stream;
  Went(cuda::CopyDtoD(driver_, to_.destination + offset, lease_.memory() + offset, bytes, stream));
}

Delivery::Ends Delivery::End(bool whole) {
  Ends ends;
  if (lease_.memory() == 0) {
    ends.delivered = ends.read = fences_.Record(to_.context, to_.stream);
  } else {
    ends.read = Read();
    if (whole && !Broken(Mutant::kS62)) PassOn(ends.read, 0, to_.bytes);
    // Behind this nobody uses the lease: a call that failed has enqueued nothing.
    if (joined_) ends.delivered = fences_.Record(to_.context, to_.stream);
    lease_.End(joined_ ? ends.delivered : ends.read);
  }
  if (whole && !ends.delivered) failed_ = true;
  return ends;
}

}  // namespace slipstream::transfer
