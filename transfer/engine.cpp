#include "transfer/engine.h"

#include <chrono>
#include <thread>

#include "transfer/confidential.h"

namespace slipstream::transfer {
namespace {

constinit thread_local ThreadState t_state;

constexpr std::chrono::seconds kLongestCallAtExit{5};

}  // namespace

Engine::Engine(const policy::Transfer& policy, int threads, int ranks_here, CountDecision count, const CallSites& sites,
               cuda::Ledger& ledger)
    : policy_(policy),
      considers_to_device_(Considers(policy, policy::Direction::kHostToDevice)),
      considers_to_host_(Considers(policy, policy::Direction::kDeviceToHost)),
      policy_has_more_to_say_(!policy.rules.empty() || !policy.small_copies || !policy.large_copies ||
                              policy.d2h == policy::TransferMode::kOff || policy.device_staging == 0),
      threads_(threads < 1 ? 1 : threads),
      ranks_here_(ranks_here),
      count_(count),
      sites_(sites),
      site_rules_(policy_, sites),
      ledger_(ledger),
      confidential_(policy.start == policy::TransferStart::kNow && ConfidentialComputing()),
      mirrors_(policy.max_mirrored) {}

ThreadState& Engine::State() { return t_state; }

policy::TransferPlan Engine::PlanFor(policy::Direction direction, const Request& request) {
  policy::TransferPlan plan = PlanOf(policy_, direction, request.bytes, request.in.device,
                                     Broken(Mutant::kR3) ? ~policy::RulesAt{0} : site_rules_.Here());
  if (Broken(Mutant::kR1)) plan.promote = PlanByKeys(policy_, direction, request.bytes).promote;
  if (Broken(Mutant::kR2)) plan.skip_synchronize = PlanByKeys(policy_, direction, request.bytes).skip_synchronize;
  return plan;
}

void Engine::TurnOff(Decision reason) {
  off_.store(reason, std::memory_order_release);
  // What was thrown may have been on its way through the ledger.
  if (reason == Decision::kH2dDeclinedError) ledger_.TurnOff(cuda::Off::kError);
}

Decision Engine::WhyOff() const {
  if (Off()) return off_.load(std::memory_order_acquire);
  switch (ledger_.off()) {
    case cuda::Off::kNot:
      break;
    case cuda::Off::kError:
      return Decision::kH2dDeclinedError;
    case cuda::Off::kContext:
      return Decision::kH2dDeclinedContext;
    case cuda::Off::kDriver:
      return Decision::kH2dDeclinedDriver;
    case cuda::Off::kSystemMemory:
      return Decision::kH2dDeclinedSystemMemory;
    case cuda::Off::kNoPinning:
      return Decision::kH2dDeclinedOff;
  }
  return ledger_.CaptureLive() ? Decision::kH2dDeclinedCapture : Decision::kH2dDeclinedStarting;
}

void Engine::Stop() {
  // The thread that pins memory should be out of the driver before the driver's own exit handlers run. A call takes
  // milliseconds; one that takes so much longer will not come back, and the process is to end all the same.
  const auto end = std::chrono::steady_clock::now() + kLongestCallAtExit;
  while (growing_.load(std::memory_order_seq_cst) != 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // an atomic's wait has no end
  }
}

}  // namespace slipstream::transfer
