#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <string_view>
#include <vector>

#include "policy/text.h"
#include "tools/site/totals.h"
#include "tools/text/columns.h"
#include "tools/text/text.h"

namespace slipstream::site {
namespace {

using text::PadLeft;
using text::PadRight;
using text::WithThousands;

constexpr size_t kSiteColumns = text::kLeastColumns;
constexpr size_t kNameColumns = 19;
constexpr size_t kRowsShown = 20;
constexpr size_t kReasonsShown = 10;

std::string Counted(uint64_t count, const char* one, const char* many) {
  return WithThousands(count) + " " + (count == 1 ? one : many);
}

// "12,345", "1.23M": six columns at the most, below 10^18.
std::string Short(uint64_t count) {
  if (count < 100'000) return WithThousands(count);
  constexpr std::string_view kUnits = "KMGTPE";
  auto value = static_cast<double>(count);
  size_t unit = 0;
  for (value /= 1000; value >= 999.5 && unit + 1 < kUnits.size(); value /= 1000) ++unit;
  char number[32];
  std::snprintf(number, sizeof(number), "%.3g%c", value, kUnits[unit]);
  return number;
}

std::string Hours(double seconds) {
  const double hours = seconds / 3600;
  if (hours >= 100) return Short(static_cast<uint64_t>(std::llround(hours)));
  char number[32];
  std::snprintf(number, sizeof(number), "%.2f", hours);
  return number;
}

// "12.3 ms", "45 min", "4 h 5 min", "1,234 h"
std::string Gained(double seconds) {
  constexpr double kInHours = 100.0 * 3600;
  if (seconds <= 0) return "-";
  if (seconds < 60) return text::HumanTime(static_cast<uint64_t>(std::llround(seconds * 1e9)));
  return seconds < kInHours ? text::AboutTime(seconds) : Hours(seconds) + " h";
}

std::string OrDash(uint64_t count) { return count == 0 ? "-" : Short(count); }

std::string Date(int64_t unix_ns) {
  const auto seconds = static_cast<std::time_t>(unix_ns / 1'000'000'000);
  std::tm parts{};
  char day[32] = {};
  if (localtime_r(&seconds, &parts) == nullptr) return "?";
  return std::strftime(day, sizeof(day), "%Y-%m-%d", &parts) == 0 ? "?" : day;
}

std::string Row(const std::string& name, const std::vector<std::string>& figures) {
  constexpr size_t kWidths[] = {8, 10, 11, 8, 9, 7, 7};
  std::string row = PadRight(text::CutMiddle(name, kNameColumns), kNameColumns);
  for (size_t i = 0; i < figures.size(); ++i) row += PadLeft(figures[i], kWidths[i]);
  return row + "\n";
}

std::string Row(const std::string& name, const Figures& figures) {
  return Row(name,
             {Short(figures.runs), Hours(figures.duration_s), Gained(figures.estimated_gain_s), OrDash(figures.failed),
              OrDash(figures.crashed), OrDash(figures.failed_open), OrDash(figures.stood_aside)});
}

// Those with the most hours first.
std::string Table(const Totals& totals, By by) {
  std::vector<const Totals::Groups::value_type*> groups;
  for (const auto& group : totals.Of(by)) groups.push_back(&group);
  std::stable_sort(groups.begin(), groups.end(), [](const auto* a, const auto* b) {
    return a->second.duration_s != b->second.duration_s ? a->second.duration_s > b->second.duration_s
                                                        : a->second.runs > b->second.runs;
  });
  std::string text =
      "\n" + Row(std::string(NameOf(by)), {"runs", "hours", "gained", "failed", "crashed", "open", "aside"});
  const size_t shown = std::min(groups.size(), kRowsShown);
  for (size_t i = 0; i < shown; ++i) text += Row(policy::Escape(groups[i]->first), groups[i]->second);
  if (shown < groups.size()) text += "and " + WithThousands(groups.size() - shown) + " more: --json has all\n";
  return text;
}

// "  12 runs, 34 calls  transfer: after a failed driver call"
std::string ReasonTable(const Totals::Reasons& reasons, const char* head, const char* one, const char* many) {
  if (reasons.empty()) return "";
  std::vector<const Totals::Reasons::value_type*> sorted;
  for (const auto& reason : reasons) sorted.push_back(&reason);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto* a, const auto* b) { return a->second.runs > b->second.runs; });
  std::string text = std::string("\n") + head + "\n";
  const size_t shown = std::min(sorted.size(), kReasonsShown);
  for (size_t i = 0; i < shown; ++i) {
    const auto& [what, counts] = *sorted[i];
    std::string line =
        what.first + (what.second.empty() ? "" : ": " + what.second) + " (" + Counted(counts.runs, "run", "runs");
    if (counts.count != 0) line += ", " + Counted(counts.count, one, many);
    text += text::Wrapped(policy::Escape(line + ")"), kSiteColumns, 2, 4);
  }
  if (shown < sorted.size()) text += "  and " + WithThousands(sorted.size() - shown) + " more: --json has all\n";
  return text;
}

std::string SkippedLine(const Skipped& skipped) {
  if (skipped.all() == 0) return "";
  std::string text;
  const auto add = [&text](uint64_t count, const char* what) {
    if (count != 0) text += (text.empty() ? "" : ", ") + WithThousands(count) + " " + what;
  };
  add(skipped.foreign, "of something else");
  add(skipped.damaged, "truncated or damaged");
  add(skipped.newer, "of a newer slipstream");
  add(skipped.large, "too large");
  add(skipped.irregular, "links, pipes or folders");
  add(skipped.unreadable, "not readable");
  return text::Wrapped("skipped " + Counted(skipped.all(), "file", "files") + ": " + text, kSiteColumns, 0, 2);
}

std::string Nothing(const SiteView& view) {
  const std::string directory = policy::Escape(view.directory);
  if (!view.since.empty()) return "no run of the last " + view.since + " has left a summary in " + directory + "\n";
  // As the policy takes it.
  const std::string place = std::filesystem::absolute(view.directory).lexically_normal().string();
  return "no run has left a summary in " + directory +
         "\n  To fill it, set in the policy of each machine, /etc/slipstream/policy.toml:\n"
         "    version = 1\n    [run]\n    summaries = " +
         policy::Quote(place, place.size()) +
         "\n  It must be writable by everybody who runs programs (`slipstream help site`).\n";
}

std::string Sums(const Totals& totals) {
  const Figures& all = totals.all();
  std::string gained = "gained: " + (all.estimated_gain_s > 0 ? "about " + Gained(all.estimated_gain_s) + " (estimated)"
                                                              : std::string("nothing that can be estimated"));
  if (all.gain_unknown != 0)
    gained += ", and in " + Counted(all.gain_unknown, "run", "runs") + " by copies what is not known";
  std::string ended = "failed: " + Counted(all.failed, "run", "runs") +
                      " with an exit status other than 0; crashed: " + WithThousands(all.crashed) +
                      " by a signal, or without an end that was seen; open: " + WithThousands(all.failed_open) +
                      " with calls that failed open; aside: " + WithThousands(all.stood_aside) +
                      " in which an engine stood aside";
  return text::Wrapped(gained, kSiteColumns, 0, 2) + text::Wrapped(ended, kSiteColumns, 0, 2);
}

}  // namespace

std::string SiteText(const SiteView& view, const By* only) {
  const Totals& totals = view.totals;
  const Figures& all = totals.all();
  if (all.runs == 0) return Nothing(view) + SkippedLine(view.skipped);
  std::string head = Counted(all.runs, "run", "runs") + " of " + Counted(totals.Of(By::kUser).size(), "user", "users") +
                     ", " + Hours(all.duration_s) + " hours, from " + Date(totals.first_unix_ns()) + " to " +
                     Date(totals.last_unix_ns());
  if (all.untimed != 0) head += " (" + WithThousands(all.untimed) + " of unknown duration)";
  std::string text = text::Wrapped(head, kSiteColumns, 0, 2) + Sums(totals);
  for (const By by : kAllBy) {
    if (only == nullptr || *only == by) text += Table(totals, by);
  }
  text += ReasonTable(totals.stood_aside(), "stood aside", "process", "processes");
  text += ReasonTable(totals.failed_open(), "failed open", "call", "calls");
  const std::string skipped = SkippedLine(view.skipped);
  return text + (skipped.empty() ? "" : "\n" + skipped);
}

}  // namespace slipstream::site
