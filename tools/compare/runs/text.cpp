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

// "+1.25", of a share and without the sign of percent.
std::string Signed(double share, int decimals) {
  char buffer[64];
  std::snprintf(buffer, sizeof(buffer), "%+.*f", decimals, 100 * share);
  return buffer;
}

// "2.9": not rounded up, so that what is less than the least does not read like it.
std::string Blocks(double count) {
  char buffer[64];
  std::snprintf(buffer, sizeof(buffer), "%.1f", std::floor(10 * count) / 10);
  return buffer;
}

// What is shown, with its interval: "SLOWER by 16.9 % (99 % interval 14.3 to 19.5 %)".
std::string Claim(const StepDifference& step) {
  // So many digits that an end that is not 0 is not printed as 0.
  const double nearest = std::min(std::abs(step.low_share), std::abs(step.high_share));
  const int decimals = nearest < 0.00005 ? 4 : nearest < 0.0005 ? 3 : nearest < 0.005 ? 2 : 1;
  std::string between = Signed(step.low_share, decimals) + " to " + Signed(step.high_share, decimals);
  std::string by = Signed(step.share(), decimals);
  if (step.different) {
    // Both ends have the sign of the word.
    if (step.difference() < 0) between = Signed(step.high_share, decimals) + " to " + Signed(step.low_share, decimals);
    std::erase_if(between, [](char c) { return c == '+' || c == '-'; });
    by.erase(0, 1);
  }
  const std::string floor = PercentOf(step.floor);
  const std::string interval =
      " (99 % interval " + between + " %" +
      (step.floor > 0 ? ", in which " + floor + " is what two runs of one program may differ by)" : ")");
  if (step.different) return (step.difference() > 0 ? "SLOWER by " : "FASTER by ") + by + " %" + interval;
  return "NO DIFFERENCE FOUND" +
         (step.floor > 0 ? " beyond what two runs of one program differ by (" + floor + ")" : std::string()) + ": " +
         by + " %" + interval;
}

std::string AboutTheFloor(const StepDifference& step) {
  return "One run of each cannot tell how much two runs of one program differ: " +
         (step.floor > 0 ? "the " + PercentOf(step.floor) + " is an assumption (--floor)"
                         : std::string("nothing of it is in this interval (--floor 0)")) +
         ". `slipstream compare -- COMMAND` measures it.";
}

std::string Verdict(const RunsComparison& comparison) {
  if (!comparison.step) {
    return Sentence("NOTHING CAN BE SAID: a step of each run is compared." + WhyNoSteps(*comparison.first, "first") +
                    WhyNoSteps(*comparison.second, "second"));
  }
  const StepDifference& step = *comparison.step;
  const std::string figures = "a step " + FormatSeconds(step.first / 1e9) + " -> " + FormatSeconds(step.second / 1e9) +
                              ", " + Difference(step.difference());
  if (!step.has_interval) {
    return Sentence("NOTHING IS CLAIMED: " + figures + ", " + Signed(step.share(), 1) + " %; but the " +
                    Counted(comparison.first->of().measured_steps, "measured step", "measured steps") + " and " +
                    std::to_string(comparison.second->of().measured_steps) +
                    " are so few, or depend on each other so much, that they are worth " +
                    Blocks(step.first_effective) + " and " + Blocks(step.second_effective) +
                    " independent blocks of steps. An interval takes 3 of each run: record longer runs.");
  }
  return Sentence(Claim(step) + ": " + figures) + Sentence(AboutTheFloor(step));
}

// Against what was asked for.
std::string LimitText(const RunsComparison& comparison) {
  if (!comparison.fail_if_slower) return "";
  const double limit = *comparison.fail_if_slower;
  const StepDifference step = comparison.step.value_or(StepDifference());
  std::string how = ".";
  if (const std::optional<double> longer = LengthToTell(step, limit)) {
    how = "; runs of " + report::Number(*longer) + " times as many steps would tell, if they go on as these.";
  } else if (step.has_interval) {
    how = ", nor by longer runs: pairs of runs tell (`slipstream compare -- COMMAND`).";
  }
  return Sentence(SlowerText("it", WhetherSlower(step, limit), limit, how));
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
  text += Verdict(comparison) + LimitText(comparison) + Mostly(comparison);
  text += Runs(comparison);
  for (const Note& note : comparison.notes) {
    if (!note.unsound) text += Wrapped("  note:   ", "          ", Escape(note.text));
  }
  if (comparison.step) text += Parts(comparison) + LinesText(comparison) + Work(comparison);
  return text;
}

}  // namespace slipstream::compare
