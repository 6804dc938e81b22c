#include "transfer/delivery.h"

#include "transfer/mutant.h"

namespace slipstream::transfer {

Delivery::~Delivery() {
  if (!blocks_.empty()) staging_->Commit(blocks_, {});
}

bool Delivery::Went(CUresult result) {
  if (result != CUDA_SUCCESS && !Broken(Mutant::kS17)) failed_ = true;
  return !failed_;
}

bool Delivery::Add(size_t offset, const char* staged, size_t bytes) {
  if (ahead_ && offset % DeviceStaging::kBlockBytes == 0) {
    blocks_.reserve(to_.bytes / DeviceStaging::kBlockBytes + 1);  // before a block is taken, which would be lost
    block_ = staging_->Take();
    block_offset_ = offset;
    if (block_ != 0) {
      blocks_.push_back(block_);
    } else {
      ahead_ = false;  // the rest waits for its turn
    }
  }
  if (block_ == 0) {
    direct_ = true;
    CUstream stream = to_.stream;
    if (Broken(Mutant::kS07)) {
      static CUstream own = nullptr;
      if (own == nullptr) driver_.cuStreamCreate(&own, CU_STREAM_NON_BLOCKING);
      stream = own;
    }
    return Went(driver_.cuMemcpyHtoDAsync(to_.destination + offset, staged, bytes, stream));
  }
  filled_ = offset - block_offset_ + bytes;
  if (!Went(driver_.cuMemcpyHtoDAsync(block_ + offset - block_offset_, staged, bytes, staging_->stream())))
    return false;
  ahead_bytes_ += bytes;
  if (filled_ == DeviceStaging::kBlockBytes || offset + bytes == to_.bytes) PassOn();
  return !failed_;
}

// What the block holds goes on in the caller's stream, as soon as it is there and its turn has come.
void Delivery::PassOn() {
  const FenceRef arrived = fences_.Record(to_.context, staging_->stream());
  if (!arrived) failed_ = true;
  if (!failed_ && !Broken(Mutant::kS07Arrived)) {
    Went(driver_.cuStreamWaitEvent(to_.stream, arrived.event(), CU_EVENT_WAIT_DEFAULT));
  }
  CUstream stream = Broken(Mutant::kS07Ahead) ? staging_->stream() : to_.stream;
  if (!failed_) Went(driver_.cuMemcpyDtoDAsync(to_.destination + block_offset_, block_, filled_, stream));
  block_ = 0;
}

FenceRef Delivery::Read() {
  return fences_.Record(to_.context, block_ != 0 || !direct_ ? staging_->stream() : to_.stream);
}

Delivery::Ends Delivery::End() {
  if (block_ != 0 && !failed_) PassOn();
  Ends ends;
  if (!blocks_.empty()) {
    // Whatever failed: behind this, in the caller's stream, nothing is read any more.
    ends.read = fences_.Record(to_.context, staging_->stream());
    const bool joined = ends.read && (!failed_ || driver_.cuStreamWaitEvent(to_.stream, ends.read.event(),
                                                                            CU_EVENT_WAIT_DEFAULT) == CUDA_SUCCESS);
    if (!joined) failed_ = true;
    if (joined) ends.delivered = fences_.Record(to_.context, to_.stream);
    staging_->Commit(blocks_, ends.delivered);
    blocks_.clear();
    if (direct_ || failed_) ends.read = ends.delivered;
  } else {
    ends.delivered = ends.read = fences_.Record(to_.context, to_.stream);
  }
  if (!ends.delivered) failed_ = true;
  return ends;
}

}  // namespace slipstream::transfer
