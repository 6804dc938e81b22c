#include "policy/text.h"

#include <algorithm>
#include <string>

#include "tools/text/text.h"
#include "tools/trace/check/check.h"

namespace slipstream::trace_check {
namespace {

using policy::Escape;
using text::WithThousands;

constexpr size_t kColumns = 80;

// Behind `first`; the lines that it goes on in are as far in.
std::string Wrapped(const std::string& first, const std::string& text) {
  std::string lines = first;
  std::string left = text;
  const size_t room = kColumns - first.size();
  while (left.size() > room) {
    size_t space = left.rfind(' ', room);
    if (space == std::string::npos || space == 0) space = room;  // a name that is longer than a line
    lines += left.substr(0, space) + "\n" + std::string(first.size(), ' ');
    left = left.substr(left[space] == ' ' ? space + 1 : space);
  }
  return lines + left + "\n";
}

std::string List(const char* title, const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text += Wrapped(text.empty() ? std::string("  ") + text::PadRight(title, 12) + "- " : std::string(14, ' ') + "- ",
                    Escape(finding.text));
  }
  return text;
}

std::string Amounts(const ProcessCheck& process) {
  std::string text;
  for (const Amount& amount : process.there) {
    if (amount.count == 0) continue;
    text += (text.empty() ? "" : ", ") + WithThousands(amount.count) + " " + amount.name;
  }
  return Wrapped("  " + text::PadRight("has", 12), text.empty() ? "nothing" : text);
}

std::string Verdict(const ProcessCheck& process) {
  if (!process.contradicts.empty()) return "it contradicts itself";
  if (!process.lacks.empty()) return "something is missing";
  if (process.counted) {
    return "nothing is missing: all of the " + WithThousands(*process.counted) + " calls that it counted are there";
  }
  return "nothing is known to be missing; its counters are not there to hold it against";
}

}  // namespace

std::string FormatCheck(const Check& check) {
  std::string text;
  for (const ProcessCheck& process : check.processes) {
    text += Wrapped("", Escape(process.name) + ", " + Escape(process.spool));
    text += Amounts(process) + List("lacks", process.lacks) + List("contradicts", process.contradicts) +
            List("note", process.notes) + Wrapped("  " + text::PadRight("verdict", 12), Verdict(process));
  }
  for (const std::string& why : check.unreadable) text += Wrapped("cannot be read: ", Escape(why));
  const auto whole = static_cast<size_t>(std::count_if(check.processes.begin(), check.processes.end(),
                                                       [](const ProcessCheck& process) { return process.whole(); }));
  text += WithThousands(whole) + " of " + WithThousands(check.processes.size() + check.unreadable.size()) +
          (check.processes.size() + check.unreadable.size() == 1 ? " file" : " files") +
          ": nothing missing that is known, and no contradiction\n";
  return text;
}

}  // namespace slipstream::trace_check
