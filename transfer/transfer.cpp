#include "transfer/transfer.h"

namespace slipstream::transfer {

Standing StandingOf(const policy::Transfer& policy) {
  if (policy.h2d == policy::TransferMode::kOff && policy.d2h == policy::TransferMode::kOff) {
    return {false, "transfer.h2d = \"off\", transfer.d2h = \"off\""};
  }
  return {false, "unknown transfer mode"};
}

}  // namespace slipstream::transfer
