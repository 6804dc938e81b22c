#include "tools/trace/advise/text.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "policy/text.h"
#include "tools/text/text.h"
#include "tools/trace/advise/rules.h"
#include "tools/trace/advise/sums.h"

namespace slipstream::advise {
namespace {

using policy::Escape;

constexpr size_t kColumns = 110;

// Behind `indent` spaces, and behind as many in the lines that it goes on in.
std::string Wrapped(size_t indent, const std::string& text) {
  std::string lines;
  std::string left = text;
  while (left.size() > kColumns - indent) {
    const size_t space = left.rfind(' ', kColumns - indent);
    if (space == std::string::npos || space == 0) break;
    lines += std::string(indent, ' ') + left.substr(0, space) + "\n";
    left = left.substr(space + 1);
  }
  return lines + std::string(indent, ' ') + left + "\n";
}

std::string LabelOf(const Place& place) {
  report::SiteReport site;
  site.known = true;
  site.file = place.file;
  site.line = place.line;
  site.function = place.function;
  return report::SiteLabel(site, kColumns - 12);
}

std::string Snippet(const std::string& snippet) {
  std::string text;
  for (size_t at = 0; at < snippet.size();) {
    const size_t end = std::min(snippet.find('\n', at), snippet.size());
    text += "        " + snippet.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return text;
}

std::string Cost(const Facts& facts, const Advice& advice) {
  const std::string per = facts.process->has_steps ? " per step" : "";
  if (advice.cost) {
    return "up to " + report::Time(*advice.cost) + per + " (" + report::Percent(ShareOfStep(facts, *advice.cost), 1) +
           ")";
  }
  return "gain not known" + (advice.at_stake != 0 ? ", about " + report::Time(advice.at_stake) + per : "");
}

}  // namespace

std::string FormatFindings(const Facts& facts, const Findings& findings) {
  const report::ProcessReport& process = *facts.process;
  std::string text = "slipstream advise: " +
                     report::Cut(Escape(process.command.empty() ? report::NameOf(process) : process.command), 80) +
                     "\n";
  const size_t rules = findings.advice.size() + findings.abstained.size() + findings.nothing.size();
  std::string about = report::Counted(rules, "rule", "rules") + " looked at ";
  about += process.has_steps
               ? report::Counted(process.measured_steps, "step", "steps") + " of " + report::FullName(process) + ", " +
                     report::Time(process.step_time.median) + " in the median"
               : report::FullName(process) + ", in which no steps were found" +
                     (process.why_no_steps.empty() ? "" : " (" + Escape(process.why_no_steps) + ")") +
                     ": times are of all of it";
  text += Wrapped(2, about);
  if (findings.advice.empty()) text += "  Nothing was found that a change would gain.\n";
  size_t number = 0;
  for (const RuleVerdict& found : findings.advice) {
    const Advice& advice = found.verdict.advice;
    text += "\n" + text::PadLeft(std::to_string(++number), 2) + ". " + found.rule->name + ": " + Cost(facts, advice) +
            ", confidence " + NameOf(advice.confidence) + "\n";
    text += Wrapped(4, advice.finding);
    for (const std::string& line : advice.evidence) text += Wrapped(6, Escape(line));
    for (const Place& place : advice.places) text += "      at " + LabelOf(place) + "\n";
    if (!advice.cost) text += Wrapped(6, "not known: " + advice.why_unknown);
    text += Wrapped(4, advice.change) + Snippet(advice.snippet);
  }
  if (!findings.abstained.empty()) text += "\nCANNOT BE TOLD\n";
  // What several lack is said once.
  std::vector<std::pair<std::string, std::string>> by_why;
  for (const RuleVerdict& one : findings.abstained) {
    const auto at =
        std::find_if(by_why.begin(), by_why.end(), [&](const auto& why) { return why.first == one.verdict.why; });
    if (at == by_why.end()) {
      by_why.emplace_back(one.verdict.why, one.rule->name);
    } else {
      at->second += std::string(", ") + one.rule->name;
    }
  }
  for (const auto& [why, names] : by_why) text += Wrapped(2, names + ": " + why);
  std::string nothing;
  for (const Rule* const rule : findings.nothing) nothing += (nothing.empty() ? "" : ", ") + std::string(rule->name);
  if (!nothing.empty()) text += "\n" + Wrapped(0, "Nothing found by: " + nothing);
  return text;
}

std::string FormatRules() {
  std::string text;
  for (const Rule& rule : Rules()) {
    text += text::PadRight(rule.name, 26) + text::PadRight(rule.title, 44) + "needs " + rule.needs + "\n";
  }
  return text;
}

}  // namespace slipstream::advise
