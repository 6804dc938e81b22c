#include "transfer/transfer.h"

#include "cuda/mutant.h"
#include "policy/transfer_plan.h"

namespace slipstream::transfer {

EngineStatus StatusOf(const policy::Transfer& policy, std::string_view launch_blocking) {
  if (const char* const why = OffByPolicy(policy)) return {false, why};
  if (!launch_blocking.empty() && launch_blocking != "0" && !Broken(Mutant::kS14)) {
    return {false, "CUDA_LAUNCH_BLOCKING is set"};
  }
  if (!Considers(policy, policy::Direction::kHostToDevice)) return {true, "copies from the device to pageable memory"};
  return {true, Considers(policy, policy::Direction::kDeviceToHost) ? "copies between pageable memory and the device"
                                                                    : "host to device copies from pageable memory"};
}

}  // namespace slipstream::transfer
