#include "allocator/allocator.h"

namespace slipstream::allocator {

Standing StandingOf(const policy::Allocator& policy) {
  Standing standing;
  standing.device = policy.mode == policy::AllocatorMode::kSegments;
  standing.pinned = policy.pinned == policy::PinnedMode::kPool;
  standing.serves = standing.device || standing.pinned;
  if (standing.device) standing.why = "whole driver allocations, kept when they are freed";
  if (standing.pinned) standing.why += standing.device ? "; pinned memory too" : "pinned memory, kept when it is freed";
  if (!standing.serves) standing.why = "allocator.mode = \"off\", allocator.pinned = \"off\"";
  return standing;
}

}  // namespace slipstream::allocator
