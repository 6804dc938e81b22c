#include "tools/trace/top/list.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <set>
#include <string>
#include <utility>

#include "policy/text.h"
#include "tools/text/text.h"
#include "tools/trace/top/words.h"

namespace slipstream::top {
namespace {

using policy::Escape;
using text::PadLeft;

constexpr size_t kPidColumns = 8;  // the mark of the one that is selected, and seven digits
constexpr size_t kLeastCommand = 10;
constexpr size_t kLeastUser = 4;  // its heading
constexpr size_t kLongestUser = 12;
// Worth a column of its own; a name and a number of a line are shorter than that.
constexpr size_t kLeastHotLine = 24;
constexpr size_t kMostProblems = 3;
constexpr char kNotKnown[] = "-";

// "9.9%", "87%"
std::string ShortPercent(double share) {
  if (share == kUnknown) return kNotKnown;
  char text[32];
  std::snprintf(text, sizeof(text), "%.*f%%", std::fabs(share) < 0.0995 ? 1 : 0, share * 100);
  return text;
}

const StepsView* StepsOf(const ProcessView& process) {
  return process.trace && process.trace->steps ? &*process.trace->steps : nullptr;
}

std::string StepCell(const ProcessView& process, bool /*utf8*/) {
  const StepsView* const steps = StepsOf(process);
  return steps != nullptr ? text::HumanTime(steps->median_ns) : kNotKnown;
}
std::string TrendCell(const ProcessView& process, bool utf8) {
  const StepsView* const steps = StepsOf(process);
  return steps != nullptr ? Trend(steps->trend_ns, utf8) : "";
}
std::string RateCell(const ProcessView& process, bool /*utf8*/) {
  const StepsView* const steps = StepsOf(process);
  return steps != nullptr ? Three(steps->per_second) : kNotKnown;
}
std::string BusyCell(const ProcessView& process, bool /*utf8*/) { return ShortPercent(BusiestShare(process)); }
// Between hosts and devices; a copy that names no direction may be one of those.
std::string CopyCell(const ProcessView& process, bool /*utf8*/) {
  if (!process.counters) return kNotKnown;
  uint64_t bytes = 0;
  for (const CopyView& copy : process.counters->copies) {
    const bool crosses = copy.direction != "host_to_host" && copy.direction != "device_to_device";
    bytes += crosses ? copy.bytes : 0;
  }
  return Three(static_cast<double>(bytes) / process.counters->seconds / 1e9);
}
std::string AheadCell(const ProcessView& process, bool /*utf8*/) {
  return ShortPercent(process.trace && process.trace->ahead ? process.trace->ahead->share : kUnknown);
}
std::string MemoryCell(const ProcessView& process, bool /*utf8*/) {
  if (process.memory.empty()) return kNotKnown;
  uint64_t bytes = 0;
  for (const tracer::MemoryFigures& memory : process.memory) bytes += memory.live_bytes + memory.idle_bytes;
  return ShortBytes(bytes);
}

struct Column {
  const char* name;
  size_t width;  // with the space before it
  int worth;     // those of the least worth are left out first
  std::string (*cell)(const ProcessView&, bool utf8);
};
constexpr Column kColumns[] = {{"step", 8, 8, StepCell},    {"trend", 7, 1, TrendCell}, {"steps/s", 8, 6, RateCell},
                               {"GPU", 5, 7, BusyCell},     {"GB/s", 6, 4, CopyCell},   {"ran on", 7, 5, AheadCell},
                               {"memory", 7, 3, MemoryCell}};
constexpr size_t kUpColumns = 7;
constexpr int kUpWorth = 2;

class List {
 public:
  List(const View& view, const Picture& picture) : view_(view), picture_(picture), order_(Order(view, picture.sort)) {
    size_t longest = 0;
    std::set<std::string> users;
    for (const ProcessView& process : view.processes) {
      has_ranks_ = has_ranks_ || process.rank >= 0;
      users.insert(process.user);
      longest = std::max(longest, Columns(Escape(process.user)));
    }
    if (users.size() > 1) user_columns_ = std::clamp(longest, kLeastUser, kLongestUser) + 1;
    LayOut();
  }

  std::vector<Line> Draw() {
    Title();
    const std::vector<Line> below = Below();
    const size_t keys = picture_.keys ? 1 : 0;
    size_t room = order_.size();
    if (picture_.rows != 0) {
      const size_t taken = lines_.size() + 1 + below.size() + keys + 1;  // its heading, and how many more there are
      room = picture_.rows > taken ? picture_.rows - taken : 1;
    }
    Table(room);
    lines_.insert(lines_.end(), below.begin(), below.end());
    if (picture_.rows != 0) lines_.resize(picture_.rows > keys ? picture_.rows - keys : 0);
    if (picture_.keys) Keys();
    FitTo(&lines_, picture_.columns);
    return std::move(lines_);
  }

 private:
  void LayOut();
  void Title();
  void Table(size_t room);
  Line Row(const ProcessView& process, bool is_selected) const;
  std::string HotLine(const ProcessView& process) const;
  std::vector<Line> Below() const;
  void Keys();

  const View& view_;
  const Picture& picture_;
  const std::vector<size_t> order_;
  bool has_ranks_ = false;
  size_t user_columns_ = 0;  // 0: all are of one
  std::vector<Column> columns_{};
  bool has_up_ = true;
  size_t command_columns_ = 0;
  size_t hot_columns_ = 0;
  std::vector<Line> lines_{};
};

void List::LayOut() {
  columns_.assign(std::begin(kColumns), std::end(kColumns));
  size_t used = kPidColumns + 1 + user_columns_ + (has_ranks_ ? 5 : 0) + kUpColumns;
  for (const Column& column : columns_) used += column.width;
  while (used + kLeastCommand > picture_.columns && (has_up_ || !columns_.empty())) {
    const auto least = std::min_element(columns_.begin(), columns_.end(),
                                        [](const Column& a, const Column& b) { return a.worth < b.worth; });
    if (has_up_ && (least == columns_.end() || least->worth > kUpWorth)) {
      has_up_ = false;
      used -= kUpColumns;
    } else {
      used -= least->width;
      columns_.erase(least);
    }
  }
  const size_t left = picture_.columns > used ? picture_.columns - used : 0;
  command_columns_ = left;
  const size_t command = std::max<size_t>(16, left * 2 / 5);
  if (left >= command + 2 + kLeastHotLine) {
    command_columns_ = command;
    hot_columns_ = left - command;
  }
}

void List::Title() {
  const auto alive = std::count_if(view_.processes.begin(), view_.processes.end(),
                                   [](const ProcessView& process) { return process.alive; });
  std::set<std::string> runs;
  for (const ProcessView& process : view_.processes) runs.insert(process.directory);
  Line title = {{"slipstream top", Style::kHeading},
                {"  " + std::to_string(alive) + (alive == 1 ? " process" : " processes")}};
  if (runs.size() > 1) title.push_back({", " + std::to_string(runs.size()) + " runs"});
  const std::string clock = ClockTime(view_.unix_ns);
  if (!clock.empty()) title.push_back({"  " + clock, Style::kDim});
  if (picture_.paused) title.push_back({"  PAUSED", Style::kWarning});
  lines_.push_back(std::move(title));
}

std::string List::HotLine(const ProcessView& process) const {
  if (!process.trace || !(process.trace->seconds > 0)) return "";
  for (const LineView& line : process.trace->lines) {
    if (line.file.empty()) continue;
    const std::string share = " " + ShortPercent(Share(line.time_ns, process.trace->seconds));
    const size_t room = hot_columns_ - 2;
    return LineLabel(line, room > share.size() ? room - share.size() : 0) + share;
  }
  return "";
}

Line List::Row(const ProcessView& process, bool is_selected) const {
  const bool is_marked = is_selected && picture_.keys;
  std::string row = (is_marked ? ">" : " ") + PadLeft(std::to_string(process.pid), kPidColumns - 1);
  if (user_columns_ != 0) row += " " + PadTo(CutTo(Escape(process.user), user_columns_ - 1), user_columns_ - 1);
  if (has_ranks_) row += PadLeft(process.rank < 0 ? kNotKnown : std::to_string(process.rank), 5);
  const std::string& command = process.command.empty() ? process.executable : process.command;
  row += " " + PadTo(CutTo(Escape(command), command_columns_), command_columns_);
  for (const Column& column : columns_) {
    const std::string cell = column.cell(process, picture_.utf8);
    row += std::string(column.width - std::min(column.width, Columns(cell)), ' ') + cell;
  }
  if (has_up_) {
    const bool begun = process.start_unix_ns != 0 && view_.unix_ns > process.start_unix_ns;
    const std::string up = begun ? ShortDuration(view_.unix_ns - process.start_unix_ns) : kNotKnown;
    row += PadLeft(process.alive ? up : "ended", kUpColumns);
  }
  if (hot_columns_ != 0) row += "  " + HotLine(process);
  const Style style = is_marked ? Style::kSelected : process.alive ? Style::kPlain : Style::kDim;
  Line line = {{std::move(row), style}};
  if (!process.alive && !has_up_) line.push_back({" ended", Style::kDim});
  return line;
}

void List::Table(size_t room) {
  std::string heading = PadLeft("pid", kPidColumns);
  if (user_columns_ != 0) heading += " " + PadTo("user", user_columns_ - 1);
  if (has_ranks_) heading += PadLeft("rank", 5);
  heading += " " + PadTo("command", command_columns_);
  for (const Column& column : columns_) heading += PadLeft(column.name, column.width);
  if (has_up_) heading += PadLeft("up", kUpColumns);
  if (hot_columns_ != 0) heading += "  hottest line";
  lines_.push_back({{std::move(heading), Style::kHeading}});
  const size_t at = order_.empty() ? 0 : std::min(picture_.selected, order_.size() - 1);
  const size_t shown = std::min(order_.size(), room);
  const size_t first = at < shown ? 0 : at - shown + 1;
  for (size_t i = first; i < first + shown; ++i) lines_.push_back(Row(view_.processes[order_[i]], i == at));
  if (order_.empty()) lines_.push_back({{"  none is left; new ones appear here", Style::kDim}});
  if (shown < order_.size()) {
    lines_.push_back({{"  " + std::to_string(order_.size() - shown) + " more", Style::kDim}});
  }
}

// What is not shown, and how to get it.
std::vector<Line> List::Below() const {
  std::vector<Line> below;
  const auto count = [&](auto&& is_one) {
    return static_cast<size_t>(std::count_if(view_.processes.begin(), view_.processes.end(), is_one));
  };
  const size_t unrecorded = count([](const ProcessView& process) {
    return process.alive && !process.trace && process.recording == tracer::RecordState::kNone;
  });
  if (unrecorded != 0) {
    below.push_back({{"  " + std::to_string(unrecorded) + " not recorded: ", Style::kDim},
                     {"slipstream run --record", Style::kPlain},
                     {" adds steps, GPU and lines", Style::kDim}});
  }
  const auto off = std::find_if(view_.processes.begin(), view_.processes.end(), [](const ProcessView& process) {
    return process.alive && process.recording == tracer::RecordState::kTurnedOff;
  });
  if (off != view_.processes.end()) {
    const size_t all = count([](const ProcessView& process) {
      return process.alive && process.recording == tracer::RecordState::kTurnedOff;
    });
    below.push_back({{"  " + std::to_string(all) + " with recording off: ", Style::kDim},
                     {"slipstream record " + std::to_string(off->pid) + " on", Style::kPlain},
                     {" adds steps, GPU and lines", Style::kDim}});
  }
  if (!view_.uncounted.empty()) {
    below.push_back(
        {{"  " + std::to_string(view_.uncounted.size()) + " under slipstream without counters (`slipstream help top`)",
          Style::kDim}});
  }
  for (size_t i = 0; i < std::min(view_.problems.size(), kMostProblems); ++i) {
    below.push_back({{"  " + Escape(view_.problems[i]), Style::kWarning}});
  }
  if (!below.empty()) below.insert(below.begin(), Line{});
  return below;
}

void List::Keys() {
  lines_.push_back({{" q", Style::kFigure},
                    {" quit  "},
                    {"j k", Style::kFigure},
                    {" select  "},
                    {"enter", Style::kFigure},
                    {" detail  "},
                    {"s", Style::kFigure},
                    {std::string(" sorted by ") + SortName(picture_.sort) + "  "},
                    {"p", Style::kFigure},
                    {picture_.paused ? " go on  " : " pause  "},
                    {"h", Style::kFigure},
                    {" help"}});
}

}  // namespace

std::vector<Line> DrawList(const View& view, const Picture& picture) { return List(view, picture).Draw(); }

}  // namespace slipstream::top
