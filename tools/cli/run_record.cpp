#include "tools/cli/run_record.h"

#include <unistd.h>

#include "tools/cli/bounded_task.h"
#include "tools/cli/summary_gains.h"
#include "tools/site/engines.h"
#include "tools/site/record_file.h"
#include "tools/text/user_name.h"
#include "tracer/spool/process_facts.h"

namespace slipstream::cli {
namespace {

constexpr int kRecordPatienceMs = 2000;
// A longer summary goes without each process: readers take no more than kMostRecordBytes of a file.
constexpr size_t kMostSummaryBytes = size_t{1} << 20;

std::string SummaryFor(const RunSummary& summary) {
  std::string text = SummaryJson(summary);
  return text.size() <= kMostSummaryBytes ? text : SummaryJson(summary, SummaryHas::kTotals);
}

}  // namespace

site::RunRecord RecordOf(const RunState& state, const RunSummary& summary) {
  site::RunRecord record;
  record.host = tracer::HostName();
  record.user = text::UserName(geteuid());
  record.program = state.command;
  record.version = state.version;
  record.pid = state.root;
  record.start_unix_ns = state.start_unix_ns;
  if (summary.wall_ns != 0) record.duration_s = static_cast<double>(summary.wall_ns) / 1e9;
  record.exit_status = summary.exit_status;
  record.processes = summary.processes.size();
  const SummaryGains gains = GainsOf(summary.processes);
  record.estimated_gain_ns = gains.estimated_ns();
  record.gain_unknown = gains.unknown;
  if (!state.enabled) {
    record.stood_aside.push_back({.engine = "all", .reason = "enabled = false in the policy"});
  } else {
    record.stood_aside = site::WhoStoodAside(summary.processes);
  }
  if (!summary.problems.empty()) {
    record.stood_aside.push_back({.engine = "counters",
                                  .reason = "the calls of a process could not be counted",
                                  .processes = summary.problems.size()});
  }
  record.failed_open = site::WhatFailedOpen(summary.processes);
  return record;
}

std::string WriteRunRecord(const RunState& state, const RunSummary& summary) {
  if (state.site_directory.empty()) return "";
  return DoWithin(kRecordPatienceMs, "no answer within 2 s; it may still come", [&] {
    const site::RunRecord record = RecordOf(state, summary);
    return site::WriteRecordFile(state.site_directory, state.site_for_group, record,
                                 site::RecordJson(record, SummaryFor(summary)));
  });
}

}  // namespace slipstream::cli
