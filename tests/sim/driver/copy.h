// Copies and memsets: one description for 1D, 2D, 3D, peer and batch.
//
// Source of the rules: CUDA driver API, "API synchronization behavior". Where it leaves a choice, the one that forgives
// a program least is taken: pinned memory is read and written when the operation runs, pageable sources when it is
// submitted (what is longer than 2 MiB in two parts: copy.cpp).
#ifndef TESTS_SIM_DRIVER_COPY_H_
#define TESTS_SIM_DRIVER_COPY_H_

#include "tests/sim/driver/world.h"

namespace simcuda {

struct CopyRequest {
  uintptr_t dst = 0;
  uintptr_t src = 0;
  size_t width = 0;  // bytes
  size_t height = 1;
  size_t depth = 1;
  size_t dst_pitch = 0;  // bytes from row to row
  size_t src_pitch = 0;
  size_t dst_slice = 0;  // bytes from slice to slice
  size_t src_slice = 0;
  // What the call says of each side; kUnified: look the pointer up.
  enum class Side { kUnified, kHost, kDevice };
  Side dst_side = Side::kUnified;
  Side src_side = Side::kUnified;
  bool snapshot_at_call = false;  // CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL
  size_t DstSpan() const { return Span(dst_pitch, dst_slice); }
  size_t SrcSpan() const { return Span(src_pitch, src_slice); }
  size_t Span(size_t pitch, size_t slice) const {
    return width == 0 || height == 0 || depth == 0 ? 0 : (depth - 1) * slice + (height - 1) * pitch + width;
  }
};

struct SetRequest {
  uintptr_t dst = 0;
  uint32_t value = 0;
  size_t element = 1;  // bytes: 1, 2, 4
  size_t width = 0;    // elements
  size_t height = 1;
  size_t pitch = 0;  // bytes
};

CopyRequest Linear(uintptr_t dst, uintptr_t src, size_t bytes, CopyRequest::Side dst_side, CopyRequest::Side src_side);
CUresult RequestFrom3D(const CUDA_MEMCPY3D* copy, CopyRequest* request);
// `blocking`: the call has no "Async" in its name.
CUresult Copy(World& world, Lock& lock, const StreamPtr& stream, const CopyRequest& request, bool blocking);
// One of a batch: never waits, and reads even a pageable source in stream order unless the request says otherwise.
CUresult MakeBatchedCopyWork(World& world, Lock& lock, CopyRequest request, Work* work);
CUresult CheckCopy(World& world, const CopyRequest& request);
CUresult MakeCopyWork(World& world, const CopyRequest& request, Work* work);
// Of the context's pending work, a copy between two devices that reads or writes the allocation; null: none.
OpPtr PendingCopyBetweenDevices(World& world, Context* context, const Allocation& allocation);
CUresult Set(World& world, Lock& lock, const StreamPtr& stream, const SetRequest& request, bool blocking);
CUresult MakeSetWork(World& world, const SetRequest& request, Work* work);

}  // namespace simcuda

#endif  // TESTS_SIM_DRIVER_COPY_H_
