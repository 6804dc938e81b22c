#include "tools/site/engines.h"

#include <algorithm>
#include <iterator>

#include "tools/text/decisions.h"

namespace slipstream::site {
namespace {

// Something of slipstream's own failed, or what the engine needs could not be had. What a rule, the policy or the
// program's own work decides is none of these.
constexpr std::string_view kFailedOpen[] = {"transfer.h2d.declined.no_memory", "transfer.h2d.declined.verify",
                                            "transfer.h2d.declined.error",     "transfer.d2h.declined.error",
                                            "transfer.sync.kept.error",        "allocator.freed.thread"};

constexpr std::string_view kOff = "off";

}  // namespace

bool MeansFailedOpen(std::string_view decision) {
  return std::find(std::begin(kFailedOpen), std::end(kFailedOpen), decision) != std::end(kFailedOpen);
}

std::string WhyAside(const tracer::ProcessCounts& process, const char* engine) {
  const std::vector<std::string> facts = process.FactsOf(engine);
  // It may have served until a library was loaded.
  if (facts.empty() || !std::string_view(facts.back()).starts_with(kOff)) return "";
  std::string why = facts.back().substr(kOff.size());
  why.erase(0, why.find_first_not_of(": "));
  return why.empty() ? std::string(kOff) : why;
}

std::vector<StoodAside> WhoStoodAside(const std::vector<tracer::ProcessCounts>& processes) {
  std::vector<StoodAside> all;
  for (const tracer::ProcessCounts& process : processes) {
    for (const char* const engine : kEngines) {
      const std::string why = WhyAside(process, engine);
      if (why.empty()) continue;
      const auto known = std::find_if(all.begin(), all.end(),
                                      [&](const StoodAside& one) { return one.engine == engine && one.reason == why; });
      if (known != all.end()) {
        ++known->processes;
      } else {
        all.push_back({.engine = engine, .reason = why, .processes = 1});
      }
    }
  }
  return all;
}

std::vector<FailedOpen> WhatFailedOpen(const std::vector<tracer::ProcessCounts>& processes) {
  std::vector<FailedOpen> all;
  for (const tracer::ProcessCounts& process : processes) {
    for (const tracer::DecisionCounts& decision : process.decisions) {
      if (decision.count == 0 || !MeansFailedOpen(decision.name)) continue;
      const std::string engine = decision.name.substr(0, decision.name.find('.'));
      const std::string reason(text::DecisionMeaning(decision.name));
      const auto known = std::find_if(
          all.begin(), all.end(), [&](const FailedOpen& one) { return one.engine == engine && one.reason == reason; });
      if (known != all.end()) {
        known->calls += decision.count;
      } else {
        all.push_back({.engine = engine, .reason = reason, .calls = decision.count});
      }
    }
  }
  return all;
}

}  // namespace slipstream::site
