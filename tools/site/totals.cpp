#include "tools/site/totals.h"

#include <algorithm>

namespace slipstream::site {

std::string_view NameOf(By by) {
  constexpr std::array<std::string_view, kAllBy.size()> kNames = {"user", "program", "version"};
  return kNames[static_cast<size_t>(by)];
}

void Totals::AddTo(Figures* sum, const RunRecord& record) {
  ++sum->runs;
  if (record.duration_s) {
    sum->duration_s += *record.duration_s;
  } else {
    ++sum->untimed;
  }
  sum->estimated_gain_s += static_cast<double>(record.estimated_gain_ns) / 1e9;
  if (record.gain_unknown) ++sum->gain_unknown;
  if (!record.exit_status || SignalOf(record)) {
    ++sum->crashed;
  } else if (*record.exit_status != 0) {
    ++sum->failed;
  }
  if (!record.failed_open.empty()) ++sum->failed_open;
  if (!record.stood_aside.empty()) ++sum->stood_aside;
}

Figures& Totals::GroupFor(Groups* groups, const std::string& name) {
  const auto known = groups->find(name);
  if (known != groups->end()) return known->second;
  return (*groups)[groups->size() < kMostGroups ? name : std::string(kOthers)];
}

void Totals::AddReason(Reasons* reasons, const std::string& engine, const std::string& reason, uint64_t count) {
  auto known = reasons->find({engine, reason});
  if (known == reasons->end()) {
    const bool fits = reasons->size() < kMostReasons;
    known =
        reasons->try_emplace(fits ? std::pair(engine, reason) : std::pair(std::string(kOthers), std::string())).first;
  }
  ++known->second.runs;
  known->second.count += count;
}

void Totals::Add(const RunRecord& record) {
  AddTo(&all_, record);
  for (const By by : kAllBy) {
    const std::string& name = by == By::kUser ? record.user : by == By::kProgram ? record.program : record.version;
    AddTo(&GroupFor(&groups_[static_cast<size_t>(by)], name), record);
  }
  for (const StoodAside& one : record.stood_aside) AddReason(&stood_aside_, one.engine, one.reason, one.processes);
  for (const FailedOpen& one : record.failed_open) AddReason(&failed_open_, one.engine, one.reason, one.calls);
  first_unix_ns_ = first_unix_ns_ == 0 ? record.start_unix_ns : std::min(first_unix_ns_, record.start_unix_ns);
  last_unix_ns_ = std::max(last_unix_ns_, EndOf(record));
}

}  // namespace slipstream::site
