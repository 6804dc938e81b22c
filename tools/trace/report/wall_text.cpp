#include "tools/trace/report/wall_text.h"

#include <algorithm>

#include "tools/text/columns.h"
#include "tools/text/text.h"
#include "tools/trace/report/format.h"

namespace slipstream::report {
namespace {

using text::PadLeft;
using text::PadRight;

constexpr size_t kMostWallLabel = 36;
constexpr size_t kShare = 9;
constexpr size_t kGap = 3;
// Where a line has room for less than this much more, a row is as narrow as it can be.
constexpr size_t kPlace = 50;
// Of a step, what is less between two of them is not worth a word.
constexpr int64_t kPauseSeen = 20;
// Where the part of a slow step stands, and its line below.
constexpr size_t kPartColumn = 33;

size_t LabelColumns(const WallReport& wall, size_t columns) {
  if (columns >= kMostWallLabel + kFigure + kShare + kGap + kPlace) return kMostWallLabel;
  size_t most = 0;
  for (const WallPartReport& part : wall.parts) most = std::max(most, 2 + text::Columns(Label(part.part, part.count)));
  return std::min(most, kMostWallLabel);
}

std::string Times(const char* what, uint64_t count) {
  return std::string(what) + ", " + Counted(count, "time", "times");
}

}  // namespace

std::string Label(WallPart part, uint64_t count) {
  switch (part) {
    case WallPart::kStartUp:
      return "start-up";
    case WallPart::kWarmUp:
      return Counted(count, "step", "steps") + " of warm-up";
    case WallPart::kMeasured:
      return Counted(count, "step", "steps") + ", measured";
    case WallPart::kDropped:
      return Counted(count, "step", "steps") + " with dropped records";
    case WallPart::kUnwatched:
      return Counted(count, "step", "steps") + ", devices not recorded";
    case WallPart::kUnfinished:
      return Counted(count, "step", "steps") + " up to an unknown end";
    case WallPart::kAhead:
      return Counted(count, "step", "steps") + ", host running ahead";
    case WallPart::kBetween:
      return Times("between two steps", count);
    case WallPart::kEvaluation:
      return Times("other work (evaluation?)", count);
    case WallPart::kCheckpoint:
      return Times("copying out (checkpoint?)", count);
    case WallPart::kOther:
      return Times("other phases", count);
    case WallPart::kAfter:
      return "after the last step";
    case WallPart::kNoSteps:
      return "recorded, no steps were found";
    case WallPart::kPaused:
      return Times("recording paused", count);
  }
  return "";
}

std::string WallText(const ProcessReport& process, size_t columns) {
  const WallReport& wall = process.wall;
  if (wall.parts.empty() || (!process.has_steps && wall.parts.size() == 1)) return "";
  const int64_t whole = wall.end - wall.begin;
  std::string text =
      Wrapped(columns, "WALL TIME: " + Time(whole) + " from the " +
                           (wall.from_process_start ? "start of the process" : "first record") + " to the last record");
  const size_t label = LabelColumns(wall, columns);
  const size_t place = columns - label - kFigure - kShare - kGap;
  text += PadRight("", label) + Figure("time") + PadLeft("share", kShare) + "   most of it\n";
  for (const WallPartReport& part : wall.parts) {
    text += Labeled("  " + Label(part.part, part.count), label) + Figure(Time(part.time)) +
            PadLeft(Percent(static_cast<double>(part.time), static_cast<double>(whole)), kShare);
    if (part.most) text += "   " + PlaceLabel(*part.most, place);
    text += "\n";
  }
  return text;
}

std::string PauseText(const ProcessReport& process) {
  if (process.pause_time.count == 0 || process.pause_time.total == 0) return "";
  if (process.pause_time.mean() * static_cast<double>(kPauseSeen) < process.step_time.mean()) return "";
  return "; " + Time(process.step_time.mean()) + " a step, and " + Time(process.pause_time.mean()) +
         " between two of them: one every " + Time(process.pace.mean());
}

std::string SlowStepsText(const ProcessReport& process, size_t columns) {
  if (process.slow_steps.empty()) return "";
  const bool all = process.slow_step_count == process.slow_steps.size();
  std::string text = Wrapped(
      columns, "  " + Counted(process.slow_step_count, "step", "steps") + " took more than 1.5 times the median" +
                   (all ? "" : "; the longest " + std::to_string(process.slow_steps.size())) +
                   ", and what was longer than usual in " + (process.slow_step_count == 1 ? "it:" : "them:"));
  for (const SlowStep& step : process.slow_steps) {
    text += PadRight("    step " + std::to_string(step.number), 20) + Figure(Time(step.time));
    if (step.part) text += "   " + std::string(Label(*step.part)) + " +" + Time(step.grew);
    if (step.place) {
      const std::string grew = " +" + Time(step.place->time);
      text += "\n" + PadRight("", kPartColumn) + PlaceLabel(*step.place, columns - kPartColumn - grew.size()) + grew;
    }
    text += "\n";
  }
  return text;
}

}  // namespace slipstream::report
