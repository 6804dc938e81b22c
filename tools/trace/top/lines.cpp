#include "tools/trace/top/lines.h"

#include <algorithm>
#include <string_view>

#include "policy/text.h"
#include "tools/text/decisions.h"
#include "tools/text/text.h"
#include "tools/trace/top/list.h"
#include "tools/trace/top/spool_tail.h"
#include "tools/trace/top/words.h"

namespace slipstream::top {
namespace {

using policy::Escape;
using text::HumanBytes;
using text::HumanTime;
using text::PadLeft;
using text::WithThousands;

constexpr size_t kLabel = 9;
constexpr size_t kFigure = 13;
// Without a terminal to fill.
constexpr size_t kRowsShown = 10;

std::string InWords(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

// What a name begins with, in words; what is decided behind it says DecisionPhrase. The longer ones first.
struct DecisionWords {
  std::string_view beginning;
  std::string_view words;
};
constexpr DecisionWords kDecisionWords[] = {
    {"transfer.h2d.promoted.", "copy promoted:"},
    {"transfer.h2d.ahead", "copy sent"},
    {"transfer.h2d.declined.", "copy declined"},
    {"transfer.d2h.promoted", "copy to the host"},
    {"transfer.d2h.declined.", "copy to the host declined"},
    {"transfer.sync.skipped.", "wait shortened,"},
    {"transfer.sync.skipped", "wait"},
    {"transfer.sync.kept.", "wait kept,"},
    {"transfer.sync.settled.", "wait settled"},
    {"transfer.verified", "copy"},
    {"allocator.reused", "allocation"},
    {"allocator.grown", "allocation"},
    {"allocator.passed.", "allocation left alone"},
    {"allocator.parked", "free"},
    {"allocator.freed.", "free left alone"},
};

// "allocation from the pool"; what this build knows nothing about is shown as it is spelled.
std::string DecisionLabel(const std::string& name) {
  const std::string_view phrase = text::DecisionPhrase(name);
  if (phrase.empty()) return Escape(name);
  for (const DecisionWords& known : kDecisionWords) {
    if (name.starts_with(known.beginning)) return std::string(known.words) + " " + std::string(phrase);
  }
  return name + " (" + std::string(phrase) + ")";
}

Line Labeled(const std::string& label, Line rest) {
  Line line = {{"  " + text::PadRight(label, kLabel), Style::kDim}};
  line.insert(line.end(), rest.begin(), rest.end());
  return line;
}

// Programs without Python have none.
bool HasLines(const TraceView& trace) {
  return std::any_of(trace.lines.begin(), trace.lines.end(), [](const LineView& line) { return !line.file.empty(); });
}

// Whether it is recorded: it has made no CUDA call.
bool IsNotKnownYet(const ProcessView& process) { return !process.recording && !process.counters; }

Line Unknown(const std::string& label, const std::string& why) { return Labeled(label, {{why, Style::kDim}}); }

// A heading and its rows; what does not fit is left out from the end.
struct Section {
  size_t least = 3;  // rows that are worth a heading, with it
  std::vector<Line> rows{};
};

class Drawing {
 public:
  Drawing(const View& view, const Picture& picture) : view_(view), picture_(picture) {}

  std::vector<Line> Draw() {
    if (picture_.help) {
      Help();
      return Finish();
    }
    const std::vector<size_t> order = Order(view_, picture_.sort);
    const size_t at = order.empty() ? 0 : std::min(picture_.selected, order.size() - 1);
    const ProcessView* const selected = order.empty() ? nullptr : &view_.processes[order[at]];
    Title(selected, order.size());
    for (const std::string& problem : view_.problems) Add({{"  " + Escape(problem), Style::kWarning}});
    if (selected == nullptr) {
      Add({{view_.ended ? "  no process of it made a CUDA call" : "  no CUDA call yet: waiting for the first",
            Style::kDim}});
      return Finish();
    }
    if (order.size() > 1 && !picture_.only_selected) {
      Table(order, at);
      Add({});
      Add({{NameOf(*selected), Style::kHeading}});
    }
    Summary(*selected);
    Sections(*selected);
    return Finish();
  }

 private:
  void Add(Line line) { lines_.push_back(std::move(line)); }
  // Rows that are left above the last line.
  size_t Left() const {
    if (picture_.rows == 0) return static_cast<size_t>(-1);
    const size_t last = picture_.keys ? 1 : 0;
    const size_t used = lines_.size() + last;
    return used >= picture_.rows ? 0 : picture_.rows - used;
  }

  void Title(const ProcessView* selected, size_t processes);
  void Table(const std::vector<size_t>& order, size_t at);
  Line TableRow(const ProcessView& process, bool is_selected) const;
  void Summary(const ProcessView& process);
  void Steps(const ProcessView& process);
  void Devices(const ProcessView& process);
  void Calls(const ProcessView& process);
  void RanOn(const ProcessView& process);
  void Memory(const ProcessView& process);
  void Sections(const ProcessView& process);
  Section CopyRows(const CounterView& counters) const;
  Section HotLines(const TraceView& trace) const;
  Section Functions(const CounterView& counters) const;
  Section Decisions(const CounterView& counters) const;
  void Help();
  std::vector<Line> Finish();
  // A row of a section: a label and figures at the right.
  Line Row(const std::string& label, const std::vector<std::string>& figures, Style style) const;
  size_t LabelColumns(size_t figures) const {
    // All sections end in the same column.
    const size_t width = std::min(picture_.columns, 90 + 3 * kFigure);
    return width > figures * kFigure + 12 ? width - figures * kFigure : 12;
  }

  const View& view_;
  const Picture& picture_;
  std::vector<Line> lines_;
};

void Drawing::Title(const ProcessView* selected, size_t processes) {
  Line title = {{"slipstream top", Style::kHeading}};
  std::string what;
  if (selected != nullptr && (processes == 1 || picture_.only_selected)) what = NameOf(*selected);
  if (processes > 1 && !picture_.only_selected) what = std::to_string(processes) + " processes";
  if (!what.empty()) title.push_back({"  " + what});
  if (selected != nullptr && selected->alive && view_.unix_ns > selected->start_unix_ns) {
    title.push_back({"  up " + Duration(view_.unix_ns - selected->start_unix_ns), Style::kDim});
  }
  const std::string clock = ClockTime(view_.unix_ns);
  if (!clock.empty()) title.push_back({"  " + clock, Style::kDim});
  if (picture_.paused) title.push_back({"  PAUSED", Style::kWarning});
  if (view_.ended) {
    title.push_back({"  THE RUN HAS ENDED", Style::kWarning});
  } else if (selected != nullptr && !selected->alive) {
    title.push_back({"  ENDED", Style::kWarning});
  }
  Add(std::move(title));
}

Line Drawing::TableRow(const ProcessView& process, bool is_selected) const {
  const auto cell = [](const std::string& text, size_t columns) { return PadLeft(text, columns); };
  std::string row = is_selected && picture_.keys ? "> " : "  ";
  row += cell(process.rank < 0 ? "-" : std::to_string(process.rank), 4) + cell(std::to_string(process.pid), 9);
  const bool has_steps = process.trace && process.trace->steps;
  row += cell(has_steps ? HumanTime(process.trace->steps->median_ns) : "-", 10);
  const double busy = BusiestShare(process);
  row += cell(busy < 0 ? "-" : Percent(busy), 8);
  if (const auto& counters = process.counters) {
    uint64_t to_device = 0;
    for (const CopyView& copy : counters->copies) to_device += copy.direction == "host_to_device" ? copy.bytes : 0;
    row += cell(Percent(Share(counters->all.time_ns, counters->seconds)), 9) +
           cell(Percent(Share(counters->waiting.time_ns, counters->seconds)), 9) +
           cell(BytesPerSecond(to_device, counters->seconds), 13) +
           cell(PerSecond(counters->all.calls, counters->seconds), 8);
  } else {
    row += cell("-", 9) + cell("-", 9) + cell("-", 13) + cell("-", 8);
  }
  Line line = {{row, is_selected && picture_.keys ? Style::kSelected : process.alive ? Style::kPlain : Style::kDim}};
  if (process.slowest) line.push_back({" slowest", Style::kWarning});
  if (!process.alive) line.push_back({" ended", Style::kDim});
  return line;
}

void Drawing::Table(const std::vector<size_t>& order, size_t at) {
  Add({{"    rank     pid      step     GPU in calls  waiting  to device/s calls/s", Style::kHeading}});
  // The rest is for the one that is selected.
  const size_t room = picture_.rows == 0 ? order.size() : std::max<size_t>(3, picture_.rows / 3);
  const size_t shown = std::min(order.size(), room);
  const size_t first = at < shown ? 0 : at - shown + 1;
  for (size_t i = first; i < first + shown; ++i) {
    Add(TableRow(view_.processes[order[i]], i == at));
  }
  if (shown < order.size()) {
    Add({{"    " + std::to_string(order.size() - shown) + " more", Style::kDim}});
  }
}

void Drawing::Summary(const ProcessView& process) {
  if (process.trace && process.trace->read) {
    Add(Labeled("trace", {{"reading what was recorded so far: " + Percent(*process.trace->read), Style::kWarning}}));
  }
  Steps(process);
  Devices(process);
  Calls(process);
  RanOn(process);
  Memory(process);
  if (!process.trace) return;
  if (!process.trace->trouble.empty()) {
    Add(Labeled("trace", {{"ends here: " + Escape(process.trace->trouble), Style::kWarning}}));
  }
  if (process.trace->dropped != 0) {
    Add(Labeled("trace",
                {{WithThousands(process.trace->dropped) + " records were dropped so far: lines and steps lack them",
                  Style::kWarning}}));
  }
  if (process.trace->damaged) {
    Add(Labeled("trace", {{"a part of it is damaged: lines and steps lack it", Style::kWarning}}));
  }
}

void Drawing::Steps(const ProcessView& process) {
  const std::string turn_on = "slipstream record " + std::to_string(process.pid) + " on";
  const bool is_off = process.alive && process.recording == tracer::RecordState::kTurnedOff;
  if (!process.trace && IsNotKnownYet(process)) {
    Add(Unknown("steps", "not known yet"));
    return;
  }
  if (!process.trace) {
    Add(Unknown("steps", is_off ? "its recording is off; turn it on with: " + turn_on
                                : "not recorded; start with: slipstream run --record -- COMMAND"));
    return;
  }
  if (is_off) Add(Labeled("trace", {{"its recording is off; on with: " + turn_on, Style::kWarning}}));
  const auto& steps = process.trace->steps;
  if (!steps) {
    if (!process.trace->no_lines.empty()) {
      Add(Unknown("steps", "none found; Python lines: " + Escape(process.trace->no_lines)));
      return;
    }
    const bool blind = !process.trace->lines.empty() && !HasLines(*process.trace);
    Add(Unknown("steps", blind ? "none found: calls come from no line of Python that is known"
                               : "none found yet: no line of the program comes again and again"));
    return;
  }
  Line line = {{HumanTime(steps->median_ns), Style::kFigure},
               {" median  "},
               {HumanTime(steps->p95_ns) + " p95  " + HumanTime(steps->last_ns) + " last  "},
               {Three(steps->per_second) + "/s", Style::kFigure}};
  line.push_back({"  (last " + std::to_string(steps->of) + ")", Style::kDim});
  Add(Labeled("steps", std::move(line)));
  // As `top` cannot tell a step that takes long from a program that stands still, it says since when.
  const bool is_late = process.alive && !process.trace->ended && steps->since_last_ns &&
                       *steps->since_last_ns > 1'000'000'000 && *steps->since_last_ns > 4 * steps->p95_ns;
  Line how;
  if (is_late) how.push_back({"the last one ended " + Duration(*steps->since_last_ns) + " ago  ", Style::kWarning});
  how.push_back({Escape(steps->how), Style::kDim});
  Add(Labeled("", std::move(how)));
}

void Drawing::Devices(const ProcessView& process) {
  if (!process.trace && IsNotKnownYet(process)) {
    Add(Unknown("GPU busy", "not known yet"));
    return;
  }
  if (!process.trace || !process.trace->has_device_work) {
    Add(Unknown("GPU busy", process.trace ? "not recorded: tracer.device is off, or CUPTI was not there"
                                          : "not recorded; --record does that"));
    return;
  }
  Line line;
  for (const DeviceView& device : process.trace->devices) {
    line.push_back({line.empty() ? "" : "   "});
    line.push_back({Percent(device.busy), Style::kFigure});
    line.push_back({" device " + std::to_string(device.device)});
  }
  if (line.empty()) line.push_back({"no kernel in the last " + std::to_string(kWindowSeconds) + " s", Style::kWarning});
  Add(Labeled("GPU busy", std::move(line)));
}

void Drawing::Calls(const ProcessView& process) {
  if (!process.counters) {
    Add(Unknown("CUDA", process.no_counters));
    return;
  }
  const CounterView& counters = *process.counters;
  const double waiting = Share(counters.waiting.time_ns, counters.seconds);
  Line line = {{Percent(Share(counters.all.time_ns, counters.seconds)), Style::kFigure}, {" of the time in calls   "},
               {Percent(waiting), waiting >= 0.5 ? Style::kWarning : Style::kFigure},    {" waiting   "},
               {PerSecond(counters.all.calls, counters.seconds), Style::kFigure},        {" calls/s"}};
  Add(Labeled("CUDA", std::move(line)));
  if (counters.all.errors != 0) {
    Add(Labeled("",
                {{PerSecond(counters.all.errors, counters.seconds) + " of them a second failed", Style::kWarning}}));
  }
}

void Drawing::RanOn(const ProcessView& process) {
  Line line;
  if (process.trace && process.trace->ahead) {
    const AheadView& ahead = *process.trace->ahead;
    line.push_back({Percent(ahead.share), ahead.share >= 0 ? Style::kGood : Style::kWarning});
    line.push_back({" of the time  "});
  }
  if (process.counters) {
    uint64_t skipped = 0;
    uint64_t paid = 0;
    uint64_t paid_ns = 0;
    for (const DecisionView& decision : process.counters->decisions) {
      if (decision.name.starts_with("transfer.sync.skipped")) skipped += decision.count;
      if (!decision.name.starts_with("transfer.sync.settled.")) continue;
      paid += decision.count;
      paid_ns += decision.time_ns;
    }
    const double seconds = process.counters->seconds;
    line.push_back({PerSecond(skipped, seconds), skipped != 0 ? Style::kGood : Style::kPlain});
    line.push_back({" waits skipped/s"});
    if (paid != 0) {
      line.push_back({"  " + PerSecond(paid, seconds) + " settled/s (" + Percent(Share(paid_ns, seconds)) + ")"});
    }
  }
  if (!process.trace || !process.trace->ahead) {
    line.push_back({line.empty() ? "not known" : "  (time: no GPU records)", Style::kDim});
  }
  Add(Labeled("ran on", std::move(line)));
}

void Drawing::Memory(const ProcessView& process) {
  if (process.memory.empty()) {
    Add(Unknown("memory", "no pool of slipstream's has said anything yet"));
    return;
  }
  bool first = true;
  for (const tracer::MemoryFigures& memory : process.memory) {
    Line line = {{HumanBytes(memory.live_bytes), Style::kFigure},
                 {" live   "},
                 {HumanBytes(memory.idle_bytes), Style::kFigure},
                 {" idle"}};
    if (memory.parked_bytes != 0) line.push_back({"   " + HumanBytes(memory.parked_bytes) + " parked"});
    if (memory.retries != 0) line.push_back({"   " + WithThousands(memory.retries) + " retries", Style::kWarning});
    line.push_back({"   device " + std::to_string(memory.device), Style::kDim});
    Add(Labeled(first ? "memory" : "", std::move(line)));
    first = false;
  }
}

Line Drawing::Row(const std::string& label, const std::vector<std::string>& figures, Style style) const {
  const size_t columns = LabelColumns(figures.size());
  std::string text = PadTo(CutTo(label, columns - 1), columns);
  for (const std::string& figure : figures) text += PadLeft(figure, kFigure);
  return {{text, style}};
}

Section Drawing::CopyRows(const CounterView& counters) const {
  Section section;
  section.rows.push_back(Row("COPIES", {"bytes/s", "copies/s"}, Style::kHeading));
  for (const CopyView& copy : counters.copies) {
    section.rows.push_back(Row("  " + Escape(InWords(copy.direction)),
                               {BytesPerSecond(copy.bytes, counters.seconds), PerSecond(copy.calls, counters.seconds)},
                               Style::kPlain));
  }
  if (counters.copies.empty()) section.rows.push_back({{"  none", Style::kDim}});
  return section;
}

Section Drawing::HotLines(const TraceView& trace) const {
  Section section = {.least = 5};
  const bool per_step = trace.steps_in_window && *trace.steps_in_window >= 0.5;
  const std::string window = "HOT LINES, " + Three(trace.seconds) + " s";
  section.rows.push_back(Row(window, {per_step ? "a step" : "per second", "of the time", "calls/s"}, Style::kHeading));
  for (const LineView& line : trace.lines) {
    const double part = per_step ? static_cast<double>(line.time_ns) / *trace.steps_in_window
                                 : static_cast<double>(line.time_ns) / trace.seconds;
    section.rows.push_back(Row("  " + LineLabel(line, LabelColumns(3) - 3),
                               {HumanTime(static_cast<uint64_t>(part)), Percent(Share(line.time_ns, trace.seconds)),
                                PerSecond(line.calls, trace.seconds)},
                               Style::kPlain));
  }
  return section;
}

Section Drawing::Functions(const CounterView& counters) const {
  Section section = {.least = 4};
  section.rows.push_back(Row("FUNCTIONS", {"a call", "of the time", "calls/s"}, Style::kHeading));
  for (const FunctionView& function : counters.functions) {
    const std::string per_call = function.sum.calls == 0 ? "-" : HumanTime(function.sum.time_ns / function.sum.calls);
    section.rows.push_back(Row("  " + Escape(function.name),
                               {per_call, Percent(Share(function.sum.time_ns, counters.seconds)),
                                PerSecond(function.sum.calls, counters.seconds)},
                               function.waits ? Style::kFigure : Style::kPlain));
  }
  if (counters.functions.empty()) section.rows.push_back({{"  no call returned in the last interval", Style::kDim}});
  return section;
}

Section Drawing::Decisions(const CounterView& counters) const {
  Section section;
  std::vector<DecisionView> decisions = counters.decisions;
  std::erase_if(decisions, [](const DecisionView& decision) { return text::IsSumOfTimes(decision.name); });
  std::stable_sort(decisions.begin(), decisions.end(),
                   [](const DecisionView& a, const DecisionView& b) { return a.count > b.count; });
  if (decisions.empty()) return section;
  section.rows.push_back(Row("DECISIONS", {"bytes/s", "times/s"}, Style::kHeading));
  for (const DecisionView& decision : decisions) {
    section.rows.push_back(Row("  " + DecisionLabel(decision.name),
                               {decision.bytes == 0 ? "-" : BytesPerSecond(decision.bytes, counters.seconds),
                                PerSecond(decision.count, counters.seconds)},
                               Style::kPlain));
  }
  return section;
}

// Copies whole, where there is room; of the others each its heading and a share of the rows.
void Drawing::Sections(const ProcessView& process) {
  std::vector<Section> sections;
  if (process.counters) sections.push_back(CopyRows(*process.counters));
  if (process.trace && process.trace->seconds > 0 && HasLines(*process.trace))
    sections.push_back(HotLines(*process.trace));
  if (process.counters) {
    sections.push_back(Functions(*process.counters));
    sections.push_back(Decisions(*process.counters));
  }
  std::erase_if(sections, [](const Section& section) { return section.rows.empty(); });
  for (Section& section : sections) {
    if (picture_.rows == 0 && section.rows.size() > kRowsShown + 1) section.rows.resize(kRowsShown + 1);
  }
  // The least for each, the first sections first; then a row more to each in turn. An empty line stands before a
  // section.
  size_t left = Left();
  std::vector<size_t> shown(sections.size(), 0);
  for (size_t i = 0; i < sections.size(); ++i) {
    const size_t least = std::min(sections[i].least, sections[i].rows.size());
    if (left < least + 1) break;
    shown[i] = least;
    left -= least + 1;
  }
  for (bool more = true; more && left > 0;) {
    more = false;
    for (size_t i = 0; i < sections.size() && left > 0; ++i) {
      if (shown[i] == 0 || shown[i] == sections[i].rows.size()) continue;
      ++shown[i];
      --left;
      more = true;
    }
  }
  for (size_t i = 0; i < sections.size(); ++i) {
    if (shown[i] == 0) continue;
    Add({});
    for (size_t row = 0; row < shown[i]; ++row) Add(sections[i].rows[row]);
  }
}

void Drawing::Help() {
  Add({{"slipstream top: keys", Style::kHeading}});
  Add({});
  for (const auto& [key, what] : std::initializer_list<std::pair<const char*, const char*>>{
           {"q", "quit (Ctrl-C too)"},
           {"p, space", "pause: the figures stand still, the program goes on"},
           {"j k, arrows", "select another process"},
           {"enter", "only the selected process"},
           {"esc", "back to all of them"},
           {"s", "sort by rank, step time, waiting or calls"},
           {"h, ?", "this, and back"}}) {
    Add({{"  " + PadTo(key, 14), Style::kFigure}, {what}});
  }
  Add({});
  for (const char* const text : {"Figures of calls, copies and decisions are of the last interval, from the",
                                 "process's counters; a call counts when it returns. Steps, lines and the GPU",
                                 "are of the last seconds, from its trace: slipstream run --record.",
                                 "\"of the time\" adds up the threads of the process: it may be above 100 %.",
                                 "`slipstream help top` says what each figure is."}) {
    Add({{std::string("  ") + text, Style::kDim}});
  }
}

std::vector<Line> Drawing::Finish() {
  if (picture_.rows != 0) {
    const size_t last = picture_.keys ? 1 : 0;
    lines_.resize(picture_.rows > last ? picture_.rows - last : 0);
    if (picture_.keys) {
      Line keys = {
          {" q", Style::kFigure}, {" quit  "}, {"p", Style::kFigure}, {picture_.paused ? " go on  " : " pause  "}};
      if (!picture_.help && (view_.processes.size() > 1 || picture_.has_list)) {
        keys.insert(keys.end(), {{"j k", Style::kFigure},
                                 {" select  "},
                                 {picture_.has_list ? "esc" : "enter", Style::kFigure},
                                 {picture_.only_selected ? " all  " : " one  "},
                                 {"s", Style::kFigure},
                                 {std::string(" sorted by ") + SortName(picture_.sort) + "  "}});
      }
      keys.push_back({"h", Style::kFigure});
      keys.push_back({picture_.help ? " back" : " help"});
      lines_.push_back(std::move(keys));
    }
  }
  FitTo(&lines_, picture_.columns);
  return std::move(lines_);
}

}  // namespace

const char* SortName(SortBy sort) {
  constexpr const char* kNames[kSorts] = {"rank", "step", "waiting", "calls"};
  return kNames[static_cast<size_t>(sort)];
}

std::vector<size_t> Order(const View& view, SortBy sort) {
  std::vector<size_t> order(view.processes.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto key = [&](size_t i) -> double {
    const ProcessView& process = view.processes[i];
    switch (sort) {
      case SortBy::kRank:
        break;
      case SortBy::kStep:
        return process.trace && process.trace->steps ? static_cast<double>(process.trace->steps->median_ns) : -1;
      case SortBy::kWaiting:
        return process.counters ? Share(process.counters->waiting.time_ns, process.counters->seconds) : -1;
      case SortBy::kCalls:
        return process.counters ? static_cast<double>(process.counters->all.calls) / process.counters->seconds : -1;
    }
    return 0;
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) > key(b); });
  return order;
}

std::vector<Line> Draw(const View& view, const Picture& picture) {
  if (picture.list && !picture.help) return DrawList(view, picture);
  return Drawing(view, picture).Draw();
}

std::string PlainText(const std::vector<Line>& lines) {
  std::string text;
  for (const Line& line : lines) {
    std::string row;
    for (const Span& span : line) row += span.text;
    while (!row.empty() && row.back() == ' ') row.pop_back();
    text += row + "\n";
  }
  return text;
}

}  // namespace slipstream::top
