#include "tools/trace/db/time_base.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "tracer/spool/process_facts.h"

namespace slipstream::trace_db {
namespace {

// Without a sign, because a file may hold any numbers.
uint64_t Above(int64_t later, int64_t earlier) {
  return later > earlier ? static_cast<uint64_t>(later) - static_cast<uint64_t>(earlier) : 0;
}

}  // namespace

TimeBase::TimeBase(const std::vector<SpoolSurvey>& spools) {
  FindHosts(spools);
  std::optional<int64_t> zero;
  for (size_t i = 0; i < spools.size(); ++i) {
    if (!spools[i].first_ns.has_value()) continue;
    const auto first =
        static_cast<int64_t>(*spools[i].first_ns + static_cast<uint64_t>(hosts_[host_of_[i]].clocks.difference));
    zero = std::min(zero.value_or(first), first);
  }
  zero_unix_ns_ = static_cast<uint64_t>(zero.value_or(0));
}

void TimeBase::FindHosts(const std::vector<SpoolSurvey>& spools) {
  host_of_.resize(spools.size());
  std::map<std::string, std::vector<size_t>> by_name;
  std::map<std::string, std::vector<size_t>> by_boot;
  for (size_t i = 0; i < spools.size(); ++i) {
    const std::string boot = spools[i].Text(tracer::kFactBootId);
    if (boot.empty()) {
      by_name[spools[i].Text(tracer::kFactHost)].push_back(i);
    } else {
      by_boot[boot + " " + spools[i].Text(tracer::kFactTimeNamespace)].push_back(i);
    }
  }
  for (const auto& [name, members] : by_name) AddHosts(spools, members, name, false);
  for (const auto& [boot, members] : by_boot) {
    std::set<std::string> names;
    for (const size_t i : members) names.insert(spools[i].Text(tracer::kFactHost));
    std::string name;
    for (const std::string& one : names) name += (name.empty() ? "" : ", ") + one;
    AddHosts(spools, members, name, true);
  }
}

void TimeBase::AddHosts(const std::vector<SpoolSurvey>& spools, std::vector<size_t> members, const std::string& name,
                        bool one_machine) {
  // From the earliest boot to the latest; those that have no reading are behind the others.
  std::stable_sort(members.begin(), members.end(), [&](size_t a, size_t b) {
    const ClockReadings& one = spools[a].clocks;
    const ClockReadings& other = spools[b].clocks;
    return one.count != 0 && (other.count == 0 || one.lowest < other.lowest);
  });
  const size_t first_host = hosts_.size();
  for (const size_t i : members) {
    const ClockReadings& clocks = spools[i].clocks;
    const bool is_first = hosts_.size() == first_host;
    if (clocks.count == 0) {
      // Its processes stamp with the same clock. Which machine it is cannot be told where there are two.
      host_of_[i] = first_host;
      if (!is_first) continue;
      const uint64_t began = spools[i].start_unix_ns - spools[i].first_ns.value_or(spools[i].start_unix_ns);
      hosts_.push_back({.name = name, .clocks = {.difference = static_cast<int64_t>(began)}});
      continue;
    }
    if (is_first || (!one_machine && Above(clocks.lowest, hosts_.back().clocks.highest) > kOneMachineNs)) {
      hosts_.push_back({.name = name, .clocks = {}});
    }
    hosts_.back().clocks.Add(clocks);
    host_of_[i] = hosts_.size() - 1;
  }
}

}  // namespace slipstream::trace_db
