#include "allocator/allocator.h"

namespace slipstream::allocator {

Standing StandingOf(const policy::Allocator& policy) {
  Standing standing;
  standing.device = policy.mode == policy::AllocatorMode::kSegments;
  standing.pinned = policy.pinned == policy::PinnedMode::kPool;
  standing.stream_ordered = policy.mode == policy::AllocatorMode::kStreamOrdered;
  standing.serves = standing.device || standing.stream_ordered || standing.pinned;
  if (standing.device) standing.why = "whole driver allocations, kept when they are freed";
  if (standing.stream_ordered) standing.why = "cudaMallocAsync, from heaps of its own (policy explain allocator.mode)";
  if (standing.pinned) {
    standing.why += standing.why.empty() ? "pinned memory, kept when it is freed" : "; pinned memory too";
  }
  if (!standing.serves) standing.why = "allocator.mode = \"off\", allocator.pinned = \"off\"";
  return standing;
}

}  // namespace slipstream::allocator
