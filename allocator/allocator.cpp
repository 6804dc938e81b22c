#include "allocator/allocator.h"

namespace slipstream::allocator {

EngineStatus StatusOf(const policy::Allocator& policy) {
  EngineStatus status;
  status.device = policy.mode == policy::AllocatorMode::kSegments;
  status.stream_ordered = policy.mode == policy::AllocatorMode::kStreamOrdered;
  status.serves = status.device || status.stream_ordered;
  if (status.device) status.why = "whole driver allocations, kept when they are freed";
  if (status.stream_ordered) status.why = "cudaMallocAsync, from heaps of its own (policy explain allocator.mode)";
  if (!status.serves) status.why = "allocator.mode = \"off\"";
  return status;
}

}  // namespace slipstream::allocator
