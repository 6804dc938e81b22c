#include "allocator/allocator.h"

namespace slipstream::allocator {

EngineStatus StatusOf(const policy::Allocator& policy) {
  EngineStatus standing;
  standing.device = policy.mode == policy::AllocatorMode::kSegments;
  standing.stream_ordered = policy.mode == policy::AllocatorMode::kStreamOrdered;
  standing.serves = standing.device || standing.stream_ordered;
  if (standing.device) standing.why = "whole driver allocations, kept when they are freed";
  if (standing.stream_ordered) standing.why = "cudaMallocAsync, from heaps of its own (policy explain allocator.mode)";
  if (!standing.serves) standing.why = "allocator.mode = \"off\"";
  return standing;
}

}  // namespace slipstream::allocator
