#include "tools/compare/runs/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

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

constexpr size_t kShown = 10;

// What `Put` makes of the first kShown of them, and a row for the others.
template <typename Change, typename Put>
std::string Table(const std::string& what, const std::vector<Change>& changes, const Put& put) {
  std::string text = Heading(what);
  std::array<double, 2> rest{};
  size_t shown = 0;
  for (const Change& change : changes) {
    const bool differs = std::abs(change.times[1] - change.times[0]) >= 0.5;
    if (differs && shown < kShown) {
      text += put(change);
      ++shown;
      continue;
    }
    for (size_t i = 0; i < rest.size(); ++i) rest[i] += change.times[i];
  }
  if (shown == 0) text += "  none differs\n";
  if (changes.size() > shown) {
    text += Row(Counted(changes.size() - shown, shown == 0 ? "in all" : "more", shown == 0 ? "in all" : "more"),
                rest[0], rest[1]);
  }
  return text;
}

// Of one measure.
struct LineTime {
  const LineChange* line = nullptr;
  std::array<double, 2> times{};
};

std::string Marks(const LineChange& line) {
  if (!line.in_first) return " [new]";
  if (!line.in_second) return " [gone]";
  std::string was;
  if (line.was_line) was = " [was line " + std::to_string(*line.was_line) + "]";
  return line.was_file.empty() || line.was_line ? was : " [moved]";
}

std::string LineLabel(const LineChange& line, size_t columns) {
  report::SiteReport site;
  site.known = line.line.known;
  site.of_step_thread = line.line.of_step_thread;
  site.file = line.line.file;
  site.line = line.line.line;
  site.function = line.line.function;
  const std::string marks = Marks(line);
  return report::SiteLabel(site, columns - std::min(columns / 2, marks.size())) + marks;
}

std::string LineRow(const LineTime& of) { return Row(LineLabel(*of.line, kLabel), of.times[0], of.times[1]); }

std::string LineTable(const RunsComparison& comparison, const std::string& what, LineMeasure measure) {
  std::vector<LineTime> lines;
  for (const LineChange& line : comparison.lines) {
    const LineTime of = {.line = &line, .times = {line.Of(measure, 0), line.Of(measure, 1)}};
    if (of.times[0] != 0 || of.times[1] != 0) lines.push_back(of);
  }
  std::stable_sort(lines.begin(), lines.end(), [](const LineTime& a, const LineTime& b) {
    return std::abs(a.times[1] - a.times[0]) > std::abs(b.times[1] - b.times[0]);
  });
  return Table(what, lines, LineRow);
}

std::string LinesText(const RunsComparison& comparison) {
  std::string text;
  if (comparison.by_device) text += LineTable(comparison, "LINES: GPU idle there or before", LineMeasure::kIdle);
  text += LineTable(comparison, "LINES: host in their CUDA calls", LineMeasure::kInCalls);
  if (!comparison.by_device) text += LineTable(comparison, "LINES: host outside, before them", LineMeasure::kBefore);
  if (comparison.lines_of_kernels) {
    text += LineTable(comparison, "LINES: kernels they launched", LineMeasure::kKernels);
  }
  return text;
}

// "30 x", "30 -> 12 x", "12 x [new]"
std::string Counts(const WorkChange& work) {
  const std::string first = report::Number(work.counts[0]);
  const std::string second = report::Number(work.counts[1]);
  if (work.counts[0] == 0) return second + " x [new]";
  if (work.counts[1] == 0) return first + " x [gone]";
  return first == second ? first + " x" : first + " -> " + second + " x";
}

std::string WorkRow(const WorkChange& work) {
  const std::string behind = "  " + Counts(work);
  const size_t room = kLabel - std::min(kLabel - 8, behind.size());
  return Row(PadRight(Cut(Escape(work.name), room), room) + behind, work.times[0], work.times[1]);
}

std::string Work(const RunsComparison& comparison) {
  if (!comparison.by_device) return "";
  return Table("KERNELS, by name: sum of durations", comparison.kernels, WorkRow) +
         Table("COPIES AND SETS of device memory", comparison.copies, WorkRow);
}

// What changed most the way the step did; null: nothing.
template <typename Change, typename Get>
const Change* MostOf(const std::vector<Change>& changes, double direction, const Get& get) {
  const Change* most = nullptr;
  for (const Change& change : changes) {
    if (direction * get(change) > (most == nullptr ? 0 : direction * get(*most))) most = &change;
  }
  return most;
}

// The part with most of the difference, and what of it.
std::string Mostly(const RunsComparison& comparison) {
  if (!comparison.step || !comparison.step->different) return "";
  const double direction = comparison.step->difference() > 0 ? 1 : -1;
  const PartChange* const part =
      MostOf(comparison.parts, direction, [](const PartChange& of) { return of.difference(); });
  if (part == nullptr) return "";
  std::string text = "Most of it: " + part->label + ", " + Difference(part->difference());
  if (part->name.starts_with("idle_")) {
    const auto idle = [](const LineChange& of) { return of.Difference(LineMeasure::kIdle); };
    const LineChange* const line = MostOf(comparison.lines, direction, idle);
    if (line != nullptr) text += "; of lines " + LineLabel(*line, kWidth - 30) + ", " + Difference(idle(*line));
  } else if (part->name == "computes") {
    const auto time = [](const WorkChange& of) { return of.difference(); };
    const WorkChange* const kernel = MostOf(comparison.kernels, direction, time);
    if (kernel != nullptr)
      text += "; of kernels " + Cut(Escape(kernel->name), kWidth - 30) + ", " + Difference(time(*kernel));
  }
  return Sentence(text);
}

}  // namespace

std::string FormatRunsComparison(const RunsComparison& comparison) {
  std::string text;
  for (const Note& note : comparison.notes) {
    if (note.unsound) text += Sentence("CAUTION: " + Escape(note.text) + ".");
  }
  text += Verdict(comparison) + Mostly(comparison);
  text += Runs(comparison);
  for (const Note& note : comparison.notes) {
    if (!note.unsound) text += Wrapped("  note:   ", "          ", Escape(note.text));
  }
  if (comparison.step) text += Parts(comparison) + LinesText(comparison) + Work(comparison);
  return text;
}

}  // namespace slipstream::compare
