#include "allocator/allocator.h"

namespace slipstream::allocator {

Standing StandingOf(const policy::Allocator& policy) {
  switch (policy.mode) {
    case policy::AllocatorMode::kOff:
      return {false, "allocator.mode = \"off\""};
    case policy::AllocatorMode::kSegments:
      return {true, "whole driver allocations, kept when they are freed"};
  }
  return {false, "unknown allocator.mode"};
}

}  // namespace slipstream::allocator
