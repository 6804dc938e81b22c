#include "allocator/allocator.h"

namespace slipstream::allocator {

EngineStatus StatusOf(const policy::Allocator& policy) {
  switch (policy.mode) {
    case policy::AllocatorMode::kOff:
      return {.serves = false, .why = "allocator.mode = \"off\""};
    case policy::AllocatorMode::kSegments:
      return {.serves = true, .why = "whole driver allocations, kept when they are freed"};
    case policy::AllocatorMode::kExpandable:
      return {.serves = true,
              .why = "whole driver allocations, kept when they are freed, beside PyTorch's expandable segments"};
  }
  return {};
}

}  // namespace slipstream::allocator
