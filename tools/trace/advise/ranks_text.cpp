#include "tools/trace/advise/ranks_text.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>

#include "policy/text.h"
#include "tools/text/columns.h"
#include "tools/text/text.h"
#include "tools/trace/report/format.h"
#include "tools/trace/report/verdict_text.h"

namespace slipstream::advise {
namespace {

using policy::Escape;
using report::ProcessReport;
using report::ShortName;
using text::PadLeft;
using text::PadRight;
using text::Wrapped;

constexpr size_t kRanksShown = 16;
constexpr size_t kNamesShown = 3;
constexpr size_t kSteps = 8;
constexpr size_t kTime = 10;
constexpr size_t kWait = 12;
constexpr size_t kMostLabel = 20;
constexpr size_t kLeastHost = 8;
constexpr std::string_view kFirstFinding = "first finding";

// How wide what is not a figure may be.
struct Widths {
  size_t label = 0;
  size_t host = 0;  // 0: all are on one
  size_t first = 0;
};

std::string LabelOf(const ProcessReport& process) { return text::CutMiddle(ShortName(process), kMostLabel); }

// The first ones, the slowest among them.
std::vector<size_t> ShownOf(const report::Report& report, const RanksFindings& findings) {
  std::vector<size_t> shown;
  for (size_t i = 0; i < findings.ranks.size(); ++i) {
    if (shown.size() < kRanksShown) {
      shown.push_back(i);
    } else if (findings.ranks[i].process == report.shown) {
      shown.back() = i;
    }
  }
  return shown;
}

Widths WidthsOf(const report::Report& report, const RanksFindings& findings, const std::vector<size_t>& shown,
                size_t columns) {
  Widths widths;
  std::set<std::string> hosts;
  size_t longest_host = std::string_view("host").size();
  size_t longest_first = kFirstFinding.size();
  for (const size_t i : shown) {
    const RankRow& row = findings.ranks[i];
    const ProcessReport& process = report.processes[row.process];
    widths.label = std::max(widths.label, 2 + text::Columns(LabelOf(process)));
    hosts.insert(process.host);
    longest_host = std::max(longest_host, text::Columns(Escape(process.host)));
    if (row.first != nullptr) longest_first = std::max(longest_first, text::Columns(row.first->name));
  }
  const size_t room = columns - widths.label - kSteps - 2 * kTime - kWait - 2;
  if (hosts.size() > 1) {
    const size_t behind = 2 + longest_first;
    widths.host = std::min(longest_host, std::max(kLeastHost, room - std::min(room, behind)));
  }
  widths.first = room - (widths.host == 0 ? 0 : widths.host + 2);
  return widths;
}

std::string TimeOr(const std::optional<int64_t>& time) { return time ? report::Time(*time) : "-"; }

std::string RowText(const ProcessReport& process, const RankRow& row, const Widths& widths) {
  std::string text = PadRight("  " + LabelOf(process), widths.label) +
                     PadLeft(text::WithThousands(process.measured_steps), kSteps) +
                     PadLeft(report::Time(process.pace_of_work().median), kTime) + PadLeft(TimeOr(row.idle), kTime) +
                     PadLeft(TimeOr(row.communication_wait), kWait) + "  ";
  if (widths.host != 0) text += PadRight(text::CutMiddle(Escape(process.host), widths.host), widths.host) + "  ";
  return text + text::Cut(row.first == nullptr ? "none" : row.first->name, widths.first) + "\n";
}

std::string WaitText(const report::Report& report) {
  if (!report.kernels_recorded) return "communication wait: not known, as what the devices did was not recorded";
  if (!report.communication) return "communication wait: none, as fewer than two of them communicate";
  return "communication wait: " + ShortName(report.processes[report.communication->waits_most]) + " waits most, for " +
         report::Time(report.communication->wait) + " of a step, and " +
         ShortName(report.processes[report.communication->waited_for]) + " least";
}

}  // namespace

std::string RankNames(const report::Report& report, const RanksFindings& findings, const std::vector<size_t>& ranks) {
  std::set<int64_t> numbers;
  std::string names;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const ProcessReport& process = report.processes[findings.ranks[ranks[i]].process];
    if (process.rank) numbers.insert(*process.rank);
    if (i < kNamesShown) names += (i == 0 ? "" : ", ") + ShortName(process);
  }
  if (numbers.size() < ranks.size()) {
    return names + (ranks.size() > kNamesShown ? " and " + std::to_string(ranks.size() - kNamesShown) + " more" : "");
  }
  std::string text;
  for (auto at = numbers.begin(); at != numbers.end();) {
    const int64_t first = *at;
    int64_t last = first;
    while (++at != numbers.end() && *at == last + 1) last = *at;
    text += (text.empty() ? "" : ", ") + std::to_string(first) + (last == first ? "" : "-" + std::to_string(last));
  }
  return (numbers.size() == 1 ? "rank " : "ranks ") + text;
}

std::string RanksText(const report::Report& report, const RanksFindings& findings, size_t columns) {
  const std::vector<size_t> shown = ShownOf(report, findings);
  const Widths widths = WidthsOf(report, findings, shown, columns);
  const std::string host =
      widths.host == 0 && report.hosts.size() == 1 ? " on " + text::CutMiddle(Escape(report.hosts.front()), 40) : "";
  std::string text =
      "\n" +
      Wrapped("RANKS" + host + ": the median step; idle time and wait in communication, of a step", columns, 0, 6);
  text += std::string(widths.label, ' ') + PadLeft("steps", kSteps) + PadLeft("step", kTime) + PadLeft("idle", kTime) +
          PadLeft("comm. wait", kWait) + "  ";
  if (widths.host != 0) text += PadRight("host", widths.host) + "  ";
  text += text::Cut(kFirstFinding, widths.first) + "\n";
  for (const size_t i : shown) {
    text += RowText(report.processes[findings.ranks[i].process], findings.ranks[i], widths);
  }
  const auto say = [&](const std::string& line) { text += Wrapped(line, columns, 2, 6); };
  if (shown.size() < findings.ranks.size()) {
    say("and " + report::Counted(findings.ranks.size() - shown.size(), "more", "more") + " (--json has all)");
  }
  if (const size_t others = report.processes.size() - findings.ranks.size(); others != 0) {
    say("and " + report::Counted(others, "process", "processes") + " without steps, left out");
  }
  say(report::SlowestSentence(report));
  say("imbalance " + report::Number(findings.imbalance()) + ": without its wait in communication the longest step is " +
      report::Time(findings.work_max) + " (" + ShortName(report.processes[findings.ranks[findings.most_work].process]) +
      "), and the median of the ranks " + report::Time(findings.work_median));
  say(WaitText(report));
  say("Ranks that train together are as fast as the slowest: what another one gains alone, the job need not gain.");
  return text;
}

}  // namespace slipstream::advise
