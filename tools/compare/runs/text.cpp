#include "tools/compare/runs/text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "policy/text.h"
#include "tools/compare/blocks.h"
#include "tools/compare/ratio.h"
#include "tools/compare/text.h"
#include "tools/text/text.h"
#include "tools/trace/report/format.h"

namespace slipstream::compare {
namespace {

using policy::Escape;
using report::Counted;
using report::Cut;
using text::PadLeft;
using text::PadRight;

constexpr size_t kWidth = 80;
constexpr size_t kColumn = 12;
constexpr size_t kLabel = kWidth - 2 - 3 * kColumn;

// Words in lines of kWidth; the first begins with `head`, the others with `indent`.
std::string Wrapped(const std::string& head, const std::string& indent, const std::string& words) {
  std::string result;
  std::string line = head;
  bool has_words = false;
  for (size_t at = 0; at < words.size();) {
    const size_t end = std::min(words.find(' ', at), words.size());
    const std::string word = words.substr(at, end - at);
    at = end + 1;
    if (has_words && line.size() + 1 + word.size() > kWidth) {
      result += line + "\n";
      line = indent;
      has_words = false;
    }
    line += (has_words ? " " : "") + word;
    has_words = true;
  }
  return result + line + "\n";
}

std::string Sentence(const std::string& words) { return Wrapped("", "  ", words); }

// Less than half a nanosecond is none: a difference of sums that are whole ones.
std::string Time(double ns) { return std::abs(ns) < 0.5 ? "0" : FormatSeconds(std::abs(ns) / 1e9); }
std::string Difference(double ns) { return (std::abs(ns) < 0.5 ? "" : ns < 0 ? "-" : "+") + Time(ns); }

std::string Percent(double part, double whole) {
  if (!(whole > 0)) return "-";
  char buffer[64];
  std::snprintf(buffer, sizeof(buffer), "%+.*f %%", std::abs(part / whole) < 0.1 ? 2 : 1, 100 * part / whole);
  return buffer;
}

std::string Row(const std::string& label, double first, double second) {
  return "  " + PadRight(Cut(label, kLabel), kLabel) + PadLeft(Time(first), kColumn) + PadLeft(Time(second), kColumn) +
         PadLeft(Difference(second - first), kColumn) + "\n";
}

std::string Heading(const std::string& what) {
  return "\n" + PadRight(what, kLabel + 2) + PadLeft("first", kColumn) + PadLeft("second", kColumn) +
         PadLeft("difference", kColumn) + "\n";
}

std::string WhyNoSteps(const RecordedRun& run, const char* which) {
  if (run.HasSteps()) return "";
  const std::string& why = run.of().why_no_steps;
  return std::string(" No steps were found in the ") + which + " run" + (why.empty() ? "" : ": " + Escape(why)) + ".";
}

std::string Verdict(const RunsComparison& comparison) {
  if (!comparison.step) {
    return Sentence("NOTHING CAN BE SAID: a step of each run is compared." + WhyNoSteps(*comparison.first, "first") +
                    WhyNoSteps(*comparison.second, "second"));
  }
  const StepDifference& step = *comparison.step;
  const std::string figures = "a step " + FormatSeconds(step.first / 1e9) + " -> " + FormatSeconds(step.second / 1e9) +
                              ", " + Difference(step.difference()) + ", " + Percent(step.difference(), step.first);
  if (!step.has_interval) {
    return Sentence("NOTHING IS CLAIMED: " + figures + "; but " +
                    Counted(comparison.first->of().measured_steps, "measured step", "measured steps") + " and " +
                    std::to_string(comparison.second->of().measured_steps) + " make no interval: " +
                    std::to_string(kLeastBlocks * kLeastInBlock) + " of each run are the least.");
  }
  const std::string interval = " (99 % interval " + Difference(step.low) + " to " + Difference(step.high) + ")";
  const std::string claim = !step.different ? "NO DIFFERENCE FOUND: " : step.difference() > 0 ? "SLOWER: " : "FASTER: ";
  return Sentence(claim + figures + interval) +
         Sentence(
             "One run of each: how much two runs of the same program differ is not in this interval. `slipstream "
             "compare -- COMMAND` measures that.");
}

std::string Runs(const RunsComparison& comparison) {
  std::string text = "\nslipstream compare: two recorded runs\n";
  for (const RecordedRun* const run : {comparison.first, comparison.second}) {
    const report::DeviceReport* const device = run->Device();
    std::string detail = Escape(run->name) + ": " + Escape(report::NameOf(run->of()));
    if (run->HasSteps()) {
      detail += ", " + Counted(run->of().measured_steps, "measured step", "measured steps");
      if (!run->of().step_site.empty()) detail += ", each from " + Escape(run->of().step_site);
    }
    if (device != nullptr) {
      detail += ", GPU " + std::to_string(device->device);
      if (!device->name.empty()) detail += " (" + Escape(device->name) + ")";
    }
    text += Wrapped(run == comparison.first ? "  first:  " : "  second: ", "          ", detail);
  }
  return text;
}

std::string Parts(const RunsComparison& comparison) {
  std::string text = Heading(comparison.by_device ? "WHERE: the GPU, in a step" : "WHERE: the host, in a step");
  for (const PartChange& part : comparison.parts) text += Row(part.label, part.first, part.second);
  return text + Row("a step, mean", comparison.step->first, comparison.step->second);
}

}  // namespace

std::string FormatRunsComparison(const RunsComparison& comparison) {
  std::string text;
  for (const Note& note : comparison.notes) {
    if (note.unsound) text += Sentence("CAUTION: " + Escape(note.text) + ".");
  }
  text += Verdict(comparison);
  text += Runs(comparison);
  for (const Note& note : comparison.notes) {
    if (!note.unsound) text += Wrapped("  note:   ", "          ", Escape(note.text));
  }
  if (comparison.step) text += Parts(comparison);
  return text;
}

}  // namespace slipstream::compare
