#include "allocator/allocator.h"

namespace slipstream::allocator {

Standing StandingOf(const policy::Allocator& policy) {
  switch (policy.mode) {
    case policy::AllocatorMode::kOff:
      return {false, "allocator.mode = \"off\""};
  }
  return {false, "unknown allocator.mode"};
}

}  // namespace slipstream::allocator
