#include "transfer/call_sites.h"

#include <new>

namespace slipstream::transfer {

std::string CallSites::TextOf(uint32_t site) const {
  Place place;
  if (site == 0 || describe == nullptr || !describe(site, &place)) return "an unknown line";
  std::string text(place.at.file);
  if (place.at.line != policy::Site::kAnyLine) text.append(":").append(std::to_string(place.at.line));
  if (!place.function.empty()) text.append(" (").append(place.function).append(")");
  return text;
}

SiteRules::SiteRules(const policy::Transfer& policy, const CallSites& sites) : policy_(policy), sites_(sites) {
  if (policy::RulesHaveSites(policy)) kept_ = std::make_unique<std::atomic<policy::RulesAt>[]>(kKept);
}

policy::RulesAt SiteRules::Here() {
  if (kept_ == nullptr) return ~policy::RulesAt{0};
  const uint32_t site = sites_.Current();
  if (site < kKept) {
    if (const policy::RulesAt kept = kept_[site].load(std::memory_order_relaxed); kept != 0) return ~kept;
  }
  CallSites::Place place;
  const bool known = site != 0 && sites_.describe(site, &place);
  const policy::RulesAt rules = RulesAtSite(policy_, known ? &place.at : nullptr);
  if (site < kKept && (known || site == 0)) kept_[site].store(~rules, std::memory_order_relaxed);
  return rules;
}

}  // namespace slipstream::transfer
