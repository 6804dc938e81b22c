#include "policy/transfer_plan.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "policy/system_file.h"

namespace slipstream::policy {
namespace {

constexpr int kMostThreads = 8;          // more do not make the bus faster
constexpr int kProcessorsPerThread = 2;  // the rest belongs to the program and its data loaders

bool IsAbout(const TransferRule& rule, Direction direction) {
  switch (rule.direction) {
    case RuleDirection::kBoth:
      return true;
    case RuleDirection::kHostToDevice:
      return direction == Direction::kHostToDevice;
    case RuleDirection::kDeviceToHost:
      return direction == Direction::kDeviceToHost;
  }
  return false;
}

int Processors() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return 1;
  const int count = CPU_COUNT(&allowed);
  // "quota period" in microseconds, or "max period" (cgroup v2).
  std::istringstream limit(ReadSystemFile("/sys/fs/cgroup/cpu.max"));
  double quota = 0;
  double period = 0;
  if (!(limit >> quota >> period) || period <= 0) return count;
  return std::clamp(static_cast<int>(std::floor(quota / period)), 1, count);
}

}  // namespace

bool RulesHaveSites(const Transfer& policy) noexcept {
  return std::any_of(policy.rules.begin(), policy.rules.end(),
                     [](const TransferRule& rule) { return !rule.site.empty(); });
}

RulesAt RulesAtSite(const Transfer& policy, const Site* at) noexcept {
  RulesAt rules = 0;
  for (std::size_t i = 0; i < policy.rules.size(); ++i) {
    const std::string& site = policy.rules[i].site;
    const auto wanted = site.empty() ? std::nullopt : ParseSite(site);
    if (site.empty() || (at != nullptr && wanted && Matches(*wanted, *at))) rules |= RulesAt{1} << i;
  }
  return rules;
}

TransferPlan PlanByRules(const Transfer& policy, Direction direction, std::uint64_t bytes, int device,
                         RulesAt rules) noexcept {
  TransferPlan plan = PlanByKeys(policy, direction, bytes);
  const auto matches = [&](const TransferRule& r) {
    return IsAbout(r, direction) && r.min_size <= bytes && bytes <= r.max_size &&
           (r.device == TransferRule::kAnyDevice || r.device == device) &&
           (rules >> (&r - policy.rules.data()) & 1) != 0;
  };
  const auto rule = std::find_if(policy.rules.begin(), policy.rules.end(), matches);
  if (rule == policy.rules.end()) return plan;
  plan.rule = static_cast<std::int16_t>(rule - policy.rules.begin());
  // What the engine cannot do no rule makes it do.
  if (rule->promote != RuleSwitch::kUnsaid && plan.promote_by != Decider::kEngine) {
    plan.promote = rule->promote == RuleSwitch::kTrue;
    plan.promote_by = Decider::kRule;
  }
  if (rule->skip_synchronize != RuleSwitch::kUnsaid && plan.skip_by != Decider::kEngine) {
    plan.skip_synchronize = rule->skip_synchronize == RuleSwitch::kTrue;
    plan.skip_by = Decider::kRule;
  }
  return plan;
}

bool RulePromotes(const Transfer& policy, Direction direction) noexcept {
  return std::any_of(policy.rules.begin(), policy.rules.end(), [direction](const TransferRule& rule) {
    return rule.promote == RuleSwitch::kTrue && IsAbout(rule, direction);
  });
}

const char* OffByPolicy(const Transfer& policy) noexcept {
  const bool to_device = Considers(policy, Direction::kHostToDevice);
  const bool to_host = Considers(policy, Direction::kDeviceToHost);
  if (!to_device && !to_host) return "transfer.h2d = \"off\", transfer.d2h = \"off\"";
  const bool some = policy.small_copies || policy.large_copies || RulePromotes(policy, Direction::kHostToDevice);
  if (!some && !to_host) return "transfer.small_copies = false, transfer.large_copies = false";
  return nullptr;
}

int CopyThreads(const Transfer& policy, int ranks_here) {
  if (policy.threads > 0) return policy.threads;
  return std::clamp(Processors() / std::max(ranks_here, 1) / kProcessorsPerThread, 1, kMostThreads);
}

}  // namespace slipstream::policy
