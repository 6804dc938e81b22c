#include "tools/trace/advise/text.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "policy/text.h"
#include "tools/text/text.h"
#include "tools/trace/advise/ranks_text.h"
#include "tools/trace/advise/rules.h"
#include "tools/trace/advise/sums.h"
#include "tools/trace/report/format.h"
#include "tools/trace/report/verdict_text.h"

namespace slipstream::advise {
namespace {

using policy::Escape;
using report::ProcessReport;
using text::Wrapped;

constexpr size_t kTitle = 80;
constexpr double kNothing = 0.0005;  // a share that is printed as 0.0 %

std::string Title(const ProcessReport& process, size_t columns) {
  const std::string name = Escape(process.command.empty() ? report::NameOf(process) : process.command);
  constexpr std::string_view kFront = "slipstream advise: ";
  return std::string(kFront) + text::Cut(name, std::min(kTitle, columns - kFront.size())) + "\n";
}

// Each line by itself: a pager shows some of them.
std::string InColor(std::string_view color, const std::string& lines, const Page& page) {
  if (!page.color) return lines;
  std::string text;
  for (size_t at = 0; at < lines.size();) {
    const size_t end = std::min(lines.find('\n', at), lines.size() - 1);
    text += std::string(color) + lines.substr(at, end - at) + "\x1b[0m\n";
    at = end + 1;
  }
  return text;
}
std::string Bold(const std::string& lines, const Page& page) { return InColor("\x1b[1m", lines, page); }
std::string Code(const std::string& lines, const Page& page) { return InColor("\x1b[36m", lines, page); }

std::string LabelOf(const Place& place, size_t columns) {
  report::SiteReport site;
  site.known = true;
  site.file = place.file;
  site.line = place.line;
  site.function = place.function;
  return report::SiteLabel(site, columns);
}

// Where a line of code has no room, its comment stands above it: one that goes on in the next line would be code.
std::string Snippet(const std::string& snippet, size_t columns) {
  constexpr size_t kIndent = 8;
  std::string text;
  for (size_t at = 0; at < snippet.size();) {
    const size_t end = std::min(snippet.find('\n', at), snippet.size());
    std::string line = snippet.substr(at, end - at);
    at = end + 1;
    const size_t comment = line.find("  # ");
    if (comment != std::string::npos && kIndent + text::Columns(line) > columns) {
      text += Wrapped(line.substr(comment + 2), columns, kIndent, kIndent);
      line.resize(comment);
    }
    text += Wrapped(line, columns, kIndent, kIndent + 4);
  }
  return text;
}

// What a recording of the devices adds to a step, of which `left_out` is in no figure of the findings. By the share of
// a step without it; 0: nothing that is worth a word, or not known.
struct AddedByRecording {
  AddedByRecording(const ProcessReport& process, int64_t left_out) {
    constexpr double kWorthSaying = 0.03;  // of the measured step
    const std::optional<int64_t> median = process.median_before_devices();
    if (!median || *median <= 0) return;
    const auto share = [&](int64_t time) {
      return static_cast<double>(time) < kWorthSaying * static_cast<double>(process.step_time.median)
                 ? 0
                 : static_cast<double>(time) / static_cast<double>(*median);
    };
    all = share(process.step_time.median - *median);
    out = share(left_out);
    rest = share(process.step_time.median - *median - left_out);
  }
  double all = 0;
  double out = 0;
  double rest = 0;
};

// Where any of that is above 0.
std::string BeforeDevices(const ProcessReport& process, int64_t left_out) {
  const AddedByRecording added(process, left_out);
  std::string text = report::Time(*process.median_before_devices()) + " before devices were recorded";
  if (added.out > 0) text += ": " + report::Time(left_out) + " that their recording adds to calls are left out below";
  if (added.rest > 0) {
    text += added.out > 0 ? ", and what is said there of the host's time is still up to "
                          : ", so that what is said below of the host's time is up to ";
    text += report::Percent(added.rest, 1) + " too long";
  }
  return text;
}

// Where there is nothing to compare with, and the device waits for a host that launches much.
std::string RecordingUnknown(const Facts& facts) {
  // By which a launch becomes longer, at least: it was 2.5 us on machines with an H100 and an H200.
  constexpr int64_t kOfALaunch = 2 * kMicrosecond;
  constexpr double kMuch = 0.1;  // of a step
  if (facts.replay == nullptr || facts.process->median_before_devices()) return "";
  uint64_t launches = 0;
  for (const CallGroup& group : facts.calls) launches += IsLaunchCall(group) && group.of_step_thread ? group.calls : 0;
  const auto added = static_cast<int64_t>(facts.CountPerStep(launches)) * kOfALaunch;
  if (ShareOfStep(facts, AtMostIdle(facts, added)) < kMuch) return "";
  return "; recording them made its " + report::Number(facts.CountPerStep(launches)) +
         " launches longer: where tracer.device_after lets the loop begin without it, that is left out";
}

// Where a few long steps make the mean, of which the findings' shares are, another one than the median.
std::string OnAverage(const Facts& facts) {
  constexpr double kAlike = 1.05;
  const double mean = StepOf(facts);
  if (facts.process->ran_ahead) {
    return " on the host, which ran ahead of the devices: the work of a step takes " + report::Time(mean);
  }
  if (mean <= kAlike * static_cast<double>(facts.process->step_time.median)) return "";
  return " and " + report::Time(mean) + " on average";
}

// Of the rank that it holds for most.
std::string RanksBeforeDevices(const report::Report& report, const RanksFindings& findings) {
  const RankRow* most = nullptr;
  const auto all = [&](const RankRow& row) {
    return AddedByRecording(report.processes[row.process], row.recording).all;
  };
  for (const RankRow& row : findings.ranks) {
    if (most == nullptr || all(row) > all(*most)) most = &row;
  }
  if (most == nullptr || all(*most) == 0) return "";
  const ProcessReport& process = report.processes[most->process];
  return "; steps of " + report::ShortName(process) + " take " + report::Time(process.step_time.median) +
         " in the median, " + BeforeDevices(process, most->recording);
}

// `whole`: the time of a step, or of all of it without steps.
std::string Cost(const ProcessReport& process, int64_t whole, const Advice& advice) {
  const std::string per = process.has_steps ? " per step" : "";
  if (!advice.cost) {
    return "gain not known" + (advice.at_stake != 0 ? ", about " + report::Time(advice.at_stake) + per : "");
  }
  // Its evidence says under which others its time is counted.
  if (static_cast<double>(*advice.cost) < kNothing * static_cast<double>(whole)) return "no gain beyond the others";
  return "about " + report::Time(*advice.cost) + per + " (" +
         report::Percent(static_cast<double>(*advice.cost), static_cast<double>(whole)) + ")";
}

// Where a run was long enough for that to be a unit.
std::string OfTheRun(const ProcessReport& process, const Advice& advice, size_t ranks) {
  constexpr double kHourNs = 3600e9;
  constexpr double kLeast = 0.1;
  const std::optional<double> gained = GpuTimeOf(process, advice, ranks);
  if (!gained || *gained < kLeast * kHourNs) return "";
  const std::string hours = report::Number(*gained / kHourNs);
  return ", " + hours + (hours == "1" ? " GPU-hour" : " GPU-hours") + " of this run";
}

// `ranks`: how many it is of. `whose`: a line on them; empty: there is one process.
std::string FindingText(size_t number, const Rule& rule, const Advice& advice, const ProcessReport& process,
                        int64_t whole, size_t ranks, const std::string& whose, const Page& page) {
  constexpr std::string_view kAt = "      at ";
  const size_t columns = page.columns;
  const std::string title = text::PadLeft(std::to_string(number), 2) + ". " + rule.name + ": " +
                            Cost(process, whole, advice) + OfTheRun(process, advice, ranks) + ", confidence " +
                            NameOf(advice.confidence);
  std::string text = "\n" + Bold(Wrapped(title, columns, 0, 4), page);
  if (!whose.empty()) text += Wrapped(whose, columns, 4, 6);
  text += Wrapped(advice.finding, columns, 4, 4);
  for (const std::string& line : advice.evidence) text += Wrapped(Escape(line), columns, 6, 8);
  for (const Place& place : advice.places) {
    text += std::string(kAt) + LabelOf(place, columns - kAt.size()) + "\n";
  }
  if (!advice.cost) text += Wrapped("not known: " + advice.why_unknown, columns, 6, 8);
  return text + Wrapped(advice.change, columns, 4, 4) + Code(Snippet(advice.snippet, columns), page);
}

// What several lack is said once.
class CannotBeTold {
 public:
  void Add(const std::string& name, const std::string& why) {
    const auto at = std::find_if(by_why_.begin(), by_why_.end(), [&](const auto& one) { return one.first == why; });
    if (at == by_why_.end()) {
      by_why_.emplace_back(why, name);
    } else {
      at->second += ", " + name;
    }
  }
  std::string Text(const Page& page) const {
    std::string text = by_why_.empty() ? "" : "\n" + Bold("CANNOT BE TOLD\n", page);
    for (const auto& [why, names] : by_why_) text += Wrapped(names + ": " + Escape(why), page.columns, 2, 4);
    return text;
  }

 private:
  std::vector<std::pair<std::string, std::string>> by_why_;
};

std::string NothingText(const std::vector<const Rule*>& rules, size_t columns) {
  std::string names;
  for (const Rule* const rule : rules) names += (names.empty() ? "" : ", ") + std::string(rule->name);
  return names.empty() ? "" : "\n" + Wrapped("Nothing found by: " + names, columns, 0, 2);
}

// Where its section of docs/advise.md is to be read, as a line to type.
std::string MoreText(const Rule& first, size_t columns) {
  return "\n" + Wrapped("`slipstream help " + std::string(first.name) +
                            "` says what that rule looks at and where it is wrong, and so of every rule.",
                        columns, 0, 2);
}

// What the report says of the same run, and why another finding stands first. Empty: nothing.
std::string OnTheVerdict(const Facts& facts, const Findings& findings) {
  const std::optional<Answered> answered = AnswerTo(facts, findings);
  if (!answered) return "";
  std::string text = "the report's verdict: " + report::VerdictSentence(*facts.report, answered->verdict);
  const bool is_loss = answered->verdict.bottleneck != report::VerdictKind::kGpuBound;
  if (answered->by == 1 || (answered->by == 0 && !is_loss && findings.advice.empty())) return text;
  if (answered->by == 0) {
    return text + ". No rule has a change for that" +
           (findings.advice.empty() ? "" : ": what comes first here is another part of the step");
  }
  const auto weight = [&](size_t number) { return WeightOf(findings.advice[number - 1].verdict.advice); };
  return text + ". Finding " + std::to_string(answered->by) + " is about that; finding 1 stands first, because it " +
         (weight(1) > weight(answered->by) ? "gains more" : "is surer");
}

std::string Caution(const std::vector<std::string>& missing, const Page& page) {
  std::string text;
  for (const std::string& what : missing) text += Wrapped("incomplete: " + what, page.columns, 2, 4);
  if (text.empty()) return text;
  return Bold(
      text + Wrapped("What follows is of what is there: there may be more to find, and figures may be too small.",
                     page.columns, 2, 4),
      page);
}

void AddMissing(const ProcessReport& process, std::vector<std::string>* missing) {
  const std::string what = report::Missing(process);
  if (!what.empty()) missing->push_back(report::FullName(process) + ": " + what);
}
void AddMissing(const report::Report& report, std::vector<std::string>* missing) {
  for (const std::string& why : report.unreadable) missing->push_back(Escape(why));
}

std::string NothingToChange(size_t rules, size_t untold, size_t columns) {
  std::string text = "Nothing worth changing was found: " + report::Counted(rules, "rule", "rules") + " looked";
  if (untold != 0) text += ", and " + std::to_string(untold) + " of them cannot tell, as is said below";
  return Wrapped(text + ".", columns, 2, 4);
}

}  // namespace

std::optional<double> GpuTimeOf(const ProcessReport& process, const Advice& advice, size_t ranks) {
  if (!advice.cost) return std::nullopt;
  const double steps = process.has_steps ? static_cast<double>(process.steps.size()) : 1;
  const double devices = static_cast<double>(std::max<size_t>(process.devices.size(), 1) * std::max<size_t>(ranks, 1));
  return static_cast<double>(*advice.cost) * steps * devices;
}

std::vector<std::string> MissingOf(const Facts& facts) {
  std::vector<std::string> missing;
  AddMissing(*facts.process, &missing);
  AddMissing(*facts.report, &missing);
  return missing;
}

std::vector<std::string> MissingOf(const report::Report& report, const RanksFindings& findings) {
  std::vector<std::string> missing;
  for (const RankRow& row : findings.ranks) AddMissing(report.processes[row.process], &missing);
  AddMissing(report, &missing);
  return missing;
}

std::string FormatFindings(const Facts& facts, const Findings& findings, const Page& page) {
  const size_t columns = page.columns;
  const ProcessReport& process = *facts.process;
  const size_t rules = findings.advice.size() + findings.abstained.size() + findings.nothing.size();
  std::string about = report::Counted(rules, "rule", "rules") + " looked at ";
  about += process.has_steps
               ? report::Counted(process.measured_steps, "step", "steps") + " of " + report::FullName(process) + ", " +
                     report::Time(process.step_time.median) + " in the median" + OnAverage(facts)
               : report::FullName(process) + ", in which no steps were found" +
                     (process.why_no_steps.empty() ? "" : " (" + Escape(process.why_no_steps) + ")") +
                     ": times are of all of it";
  const AddedByRecording added(process, facts.recording);
  if (process.has_steps && added.all > 0) about += "; " + BeforeDevices(process, facts.recording);
  if (process.has_steps) about += RecordingUnknown(facts);
  std::string text = Title(process, columns) + Caution(MissingOf(facts), page) + Wrapped(about, columns, 2, 4);
  text += Wrapped(OnTheVerdict(facts, findings), columns, 2, 4);
  if (findings.advice.empty()) text += NothingToChange(rules, findings.abstained.size(), columns);
  size_t number = 0;
  for (const RuleVerdict& found : findings.advice) {
    text += FindingText(++number, *found.rule, found.verdict.advice, process, UnrecordedStep(facts), 1, "", page);
  }
  CannotBeTold untold;
  for (const RuleVerdict& one : findings.abstained) untold.Add(one.rule->name, one.verdict.why);
  return text + untold.Text(page) + NothingText(findings.nothing, columns) +
         (findings.advice.empty() ? "" : MoreText(*findings.advice.front().rule, columns));
}

std::string FormatRanks(const report::Report& report, const RanksFindings& findings, const Page& page) {
  const size_t columns = page.columns;
  const size_t rules = Rules().size();
  std::string text =
      Title(report.processes[report.shown], columns) + Caution(MissingOf(report, findings), page) +
      Wrapped(report::Counted(rules, "rule", "rules") + " looked at the steps of " +
                  report::Counted(findings.ranks.size(), "process", "processes") + RanksBeforeDevices(report, findings),
              columns, 2, 4) +
      RanksText(report, findings, columns);
  CannotBeTold untold;
  std::vector<const Rule*> who;
  for (const RankAbstention& one : findings.abstained) {
    const bool all = one.ranks.size() == findings.ranks.size();
    untold.Add(one.rule->name + (all ? "" : " (" + RankNames(report, findings, one.ranks) + ")"), one.why);
    if (who.empty() || who.back() != one.rule) who.push_back(one.rule);
  }
  if (findings.advice.empty()) text += NothingToChange(rules, who.size(), columns);
  size_t number = 0;
  for (const RankFinding& found : findings.advice) {
    const RankRow& row = findings.ranks[found.rank];
    const ProcessReport& most = report.processes[row.process];
    std::string whose = RankNames(report, findings, found.ranks);
    whose += found.ranks.size() == 1 ? " only"
                                     : "; what follows is of " + report::ShortName(most) + ", where it counts most";
    if (IsOfTheRun(*found.rule)) whose.clear();
    text += FindingText(++number, *found.rule, found.advice, most, row.step, found.ranks.size(), whose, page);
  }
  return text + untold.Text(page) + NothingText(findings.nothing, columns) +
         (findings.advice.empty() ? "" : MoreText(*findings.advice.front().rule, columns));
}

std::string FormatRules(size_t columns) {
  size_t names = 0;
  for (const Rule& rule : Rules()) names = std::max(names, text::Columns(rule.name));
  std::string text;
  for (const Rule& rule : Rules()) {
    const std::string name = text::PadRight(rule.name, names + 2);
    text += Wrapped(name + rule.title + "; needs " + rule.needs, columns, 0, name.size());
  }
  return text;
}

}  // namespace slipstream::advise
