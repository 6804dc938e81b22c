#include "tools/trace/report/html.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "policy/text.h"
#include "tools/text/text.h"
#include "tools/trace/report/figure.h"
#include "tools/trace/report/format.h"
#include "tools/trace/report/page_text.h"
#include "tools/trace/report/plotly.h"
#include "tools/trace/report/text.h"
#include "tools/trace/report/verdict.h"
#include "tools/trace/report/verdict_text.h"
#include "tools/trace/report/wall_text.h"

namespace slipstream::report {
namespace {

using text::HumanBytes;
using text::WithThousands;

// They stand out from a light page and from a dark one.
constexpr const char* kLeftOutColor = "#8f96a0";
constexpr const char* kPartColors[kParts] = {"#2f6db5", "#d1495b", "#8b5fbf", "#3a9d5d",
                                             "#7a7f87", "#e0a030", "#b4bac3"};
// Steps that are left out are gray, as in the plot of steps.
constexpr const char* kWallColors[kWallParts] = {"#8b5fbf",     "#b4bac3", "#2f6db5",    kLeftOutColor, kLeftOutColor,
                                                 kLeftOutColor, "#e0a030", "#3a9d5d",    "#d1495b",     "#a0522d",
                                                 "#1b9e9e",     "#7a7f87", kLeftOutColor};
constexpr const char* kKernelColor = "#1b9e9e";
constexpr const char* kCopyColor = "#2f6db5";
constexpr const char* kLiveColor = "#2f6db5";
constexpr const char* kIdleColor = "#e0c48a";
// Of processes, and of sorts of copies.
constexpr const char* kSeries[] = {"#2f6db5", "#d1495b", "#3a9d5d", "#e0a030",
                                   "#8b5fbf", "#1b9e9e", "#7a7f87", "#a0522d"};
constexpr size_t kSeriesCount = std::size(kSeries);
constexpr size_t kMostDots = 800;  // of a process's steps
constexpr size_t kMostBars = 240;

const char* SeriesColor(size_t i) { return kSeries[i % kSeriesCount]; }

std::string Section(const std::string& title, const std::string& about, const std::string& plot) {
  return "<h2>" + HtmlText(title) + "</h2>\n<p>" + HtmlText(about) + "</p>\n" + plot;
}

double Number64(int64_t number) { return static_cast<double>(number); }

PlotlyJson TimeAxis(const Unit& unit, const std::string& title = "") {
  return {{"title", {{"text", title}}}, {"ticksuffix", unit.suffix}, {"rangemode", "tozero"}};
}

// Steps one after the other, put together where there are more than `most`.
std::vector<std::span<const Step>> Groups(std::span<const Step> steps, size_t most) {
  std::vector<std::span<const Step>> groups;
  const size_t size = (steps.size() + most - 1) / std::max<size_t>(1, most);
  for (size_t i = 0; i < steps.size(); i += size) groups.push_back(steps.subspan(i, std::min(size, steps.size() - i)));
  return groups;
}

std::string StepName(std::span<const Step> group) {
  std::string name = "step " + std::to_string(group.front().number);
  if (group.size() > 1) name += " to " + std::to_string(group.back().number);
  return name;
}

PlotlyJson LineOfSteps(const ProcessReport& process, const char* color, const Unit& x, const Unit& y) {
  PlotlyJson trace = {{"type", "scatter"},
                      {"mode", "lines+markers"},
                      {"name", PlotText(ShortName(process))},
                      {"hoverinfo", "text"},
                      {"line", {{"color", color}, {"width", 0.8}}}};
  trace["marker"]["size"] = process.steps.size() > 100 ? 4 : 6;
  for (const auto& group : Groups(process.steps, kMostDots)) {
    std::vector<int64_t> times;
    bool measured = false;
    for (const Step& step : group) {
      times.push_back(step.time());
      measured = measured || step.use == StepUse::kMeasured;
    }
    const Distribution of = DistributionOf(std::move(times));
    std::string title = ShortName(process) + ", " + StepName(group) + ": " + Time(of.median);
    if (group.size() > 1) title += " in the median, up to " + Time(of.max);
    if (!measured) title += " (left out of the figures)";
    trace["x"].push_back(x.Of(group.front().start));
    trace["y"].push_back(y.Of(of.median));
    trace["hovertext"].push_back(PlotText(title));
    trace["marker"]["color"].push_back(measured ? color : kLeftOutColor);
  }
  return trace;
}

std::string StepTimes(const Report& report) {
  int64_t most = 0;
  for (const ProcessReport& process : report.processes) {
    if (process.has_steps) most = std::max(most, process.step_time.max);
  }
  const Unit x = UnitOfTime(report.last);
  const Unit y = UnitOfTime(most);
  PlotlyJson traces = PlotlyJson::array();
  for (const ProcessReport& process : report.processes) {
    if (process.has_steps) traces.push_back(LineOfSteps(process, SeriesColor(traces.size()), x, y));
  }
  if (traces.empty()) return "";
  PlotlyJson layout = {{"xaxis", TimeAxis(x, "since the recording began")}, {"yaxis", TimeAxis(y)}};
  layout["xaxis"]["rangemode"] = "normal";
  layout["yaxis"]["range"] = {0, y.Of(most) * 1.08};
  layout["showlegend"] = traces.size() > 1;
  return Section("Step times",
                 "Each step at the time when it began. Gray: warm-up, with dropped records or without an end, and left "
                 "out of the figures; a double click shows what is higher than the picture.",
                 Figure("step times", traces, layout));
}

// One bar: the parts on it one behind the other.
std::string WholeTime(const ProcessReport& process) {
  const WallReport& wall = process.wall;
  if (!process.has_steps || wall.end <= wall.begin) return "";
  const Unit unit = UnitOfTime(wall.end - wall.begin);
  PlotlyJson traces = PlotlyJson::array();
  for (const WallPartReport& part : wall.parts) {
    const std::string label = Label(part.part, part.count);
    traces.push_back(Bars(label, kWallColors[static_cast<size_t>(part.part)]));
    traces.back()["orientation"] = "h";
    AddBar(&traces.back(), unit.Of(part.time), "",
           label + ": " + Time(part.time) + (part.most ? ", most of it " + PlaceLabel(*part.most, 80) : ""));
  }
  PlotlyJson layout = {{"barmode", "stack"}, {"height", 190}, {"xaxis", TimeAxis(unit)}};
  layout["xaxis"]["range"] = {0, unit.Of(wall.end - wall.begin)};
  return Section("Where the whole time went",
                 "From the " + std::string(wall.from_process_start ? "start" : "first record") + " of " +
                     NameOf(process) + " to its last record; parts are put together and add up to it.",
                 Figure("whole time", traces, layout));
}

std::string PartsOfSteps(const ProcessReport& process) {
  if (!process.has_steps) return "";
  std::vector<Step> measured;
  std::copy_if(process.steps.begin(), process.steps.end(), std::back_inserter(measured),
               [](const Step& step) { return step.use == StepUse::kMeasured; });
  const auto groups = Groups(measured, kMostBars);
  const Unit unit = UnitOfTime(process.step_time.max);
  PlotlyJson traces = PlotlyJson::array();
  for (size_t part = 0; part < kParts; ++part) {
    PlotlyJson trace = Bars(Label(static_cast<Part>(part)), kPartColors[part]);
    for (const auto& group : groups) {
      int64_t time = 0;
      for (const Step& step : group) AddTo(&time, step.parts[part]);
      const double mean = Number64(time) / static_cast<double>(group.size());
      AddBar(&trace, group.front().number, mean / unit.ns,
             StepName(group) + ", " + Label(static_cast<Part>(part)) + ": " + Time(mean));
    }
    traces.push_back(std::move(trace));
  }
  std::string about = "The thread that makes the steps of " + NameOf(process) + "; parts of a step add up to it.";
  if (!groups.empty() && groups.front().size() > 1) {
    about += " Each bar is the mean of " + std::to_string(groups.front().size()) + " steps.";
  }
  return Section("Where the time of each step went", about,
                 Figure("parts of each step", traces,
                        {{"barmode", "stack"}, {"xaxis", {{"title", {{"text", "step"}}}}}, {"yaxis", TimeAxis(unit)}}));
}

// What is read holds until the next reading.
PlotlyJson Layer(const std::string& name, const char* color) {
  return {{"type", "scatter"},       {"mode", "lines"},          {"name", PlotText(name)},
          {"stackgroup", "one"},     {"fillcolor", color},       {"line", {{"width", 0}, {"shape", "hv"}}},
          {"hoverinfo", "x+y+name"}, {"x", PlotlyJson::array()}, {"y", PlotlyJson::array()}};
}

void AddPoint(PlotlyJson* trace, double x, double y) {
  (*trace)["x"].push_back(x);
  (*trace)["y"].push_back(y);
}

PlotlyJson MemoryLayout(const Report& report, const Unit& unit, int64_t peak, int64_t peak_time,
                        const std::string& place) {
  const Unit x = UnitOfTime(report.last);
  PlotlyJson layout = {{"xaxis", TimeAxis(x, "since the recording began")},
                       {"yaxis", {{"ticksuffix", unit.suffix}, {"rangemode", "tozero"}}}};
  layout["yaxis"]["range"] = {0, unit.Of(peak) * 1.15};
  const bool to_the_right = peak_time - report.first < (report.last - report.first) / 2;
  layout["annotations"].push_back({{"x", x.Of(peak_time)},
                                   {"y", unit.Of(peak)},
                                   {"text", PlotText("peak: " + HumanBytes(static_cast<uint64_t>(peak)) + " " + place)},
                                   {"showarrow", true},
                                   {"ax", 0},
                                   {"ay", -14},
                                   {"xanchor", to_the_right ? "left" : "right"}});
  return layout;
}

std::string MemoryOverTime(const Report& report, const ProcessReport& process) {
  const Unit x = UnitOfTime(report.last);
  std::string text;
  for (const MemoryReport& pool : process.memory) {
    const Unit unit = UnitOfBytes(pool.peak);
    PlotlyJson live = Layer("live: in the program's hands", kLiveColor);
    PlotlyJson idle = Layer("idle: freed and kept", kIdleColor);
    const auto add = [&](int64_t at, const MemoryPoint& point) {
      AddPoint(&live, x.Of(at), unit.Of(point.live));
      AddPoint(&idle, x.Of(at), unit.Of(point.idle));
    };
    for (const MemoryPoint& point : pool.points) add(point.time, point);
    if (!pool.points.empty()) add(report.last, pool.points.back());
    text += Section(
        "Memory of device " + std::to_string(pool.device),
        "What its pool held, of " + NameOf(process) + ", as it was read " + Counted(pool.readings, "time", "times") +
            "; of many readings the highest ones.",
        Figure("memory over time", {live, idle},
               MemoryLayout(report, unit, pool.peak, pool.peak_point.time, PlaceOf(process, pool.peak_point.time))));
  }
  return text;
}

// The holders of the peak on top of each other, and what others had above them.
std::string HeldOverTime(const Report& report, const ProcessReport& process) {
  const Unit x = UnitOfTime(report.last);
  std::string text;
  for (const HeldReport& held : process.held) {
    if (held.points.empty()) continue;
    const Unit unit = UnitOfBytes(held.peak);
    const size_t drawn = std::min(held.holders.size(), kHoldersDrawn);
    PlotlyJson layers = PlotlyJson::array();
    for (size_t i = 0; i < drawn; ++i) layers.push_back(Layer(HolderLabel(held.holders[i], 60), SeriesColor(i)));
    layers.push_back(Layer("all others", kLeftOutColor));
    const auto add = [&](int64_t at, const HeldPoint& point) {
      int64_t others = point.bytes;
      for (size_t i = 0; i < drawn; ++i) {
        const int64_t bytes = i < point.of.size() ? point.of[i] : 0;
        AddPoint(&layers[i], x.Of(at), unit.Of(bytes));
        others -= bytes;
      }
      AddPoint(&layers[drawn], x.Of(at), unit.Of(others));
    };
    for (const HeldPoint& point : held.points) add(point.time, point);
    add(report.last, held.points.back());
    const std::string device = held.device >= 0 ? "device " + std::to_string(held.device) : "an unknown device";
    text += Section("Who had memory of " + device,
                    "What calls of " + NameOf(process) +
                        " got and did not give back, by the line that asked for it; "
                        "those with a color of their own had most at the peak. Of each moment drawn, the highest.",
                    Figure("memory over time, by line", layers,
                           MemoryLayout(report, unit, held.peak, held.peak_time, PlaceOf(process, held.peak_time))));
  }
  return text;
}

PlotlyJson TimelineTrace(int kind) {
  PlotlyJson trace = kind == kTimelineKernel ? Bars("kernels", kKernelColor)
                     : kind == kTimelineCopy
                         ? Bars("copies on a device", kCopyColor)
                         : Bars(Label(static_cast<Part>(kind)), kPartColors[static_cast<size_t>(kind)]);
  trace["orientation"] = "h";
  // Of a row, however many rows a kind has.
  trace["width"] = 0.8;
  return trace;
}

std::string OneStep(const Report& report) {
  if (!report.timeline) return "";
  const Timeline& timeline = *report.timeline;
  const Unit unit = UnitOfTime(timeline.end - timeline.start);
  std::map<int, PlotlyJson> traces;
  PlotlyJson lanes = PlotlyJson::array();
  PlotlyJson names = PlotlyJson::array();
  for (const TimelineLane& lane : timeline.lanes) {
    for (const TimelineItem& item : lane.items) {
      PlotlyJson& trace = traces.try_emplace(item.kind, TimelineTrace(item.kind)).first->second;
      trace["base"].push_back(unit.Of(item.start - timeline.start));
      AddBar(&trace, unit.Of(item.end - item.start), lanes.size(),
             Cut(item.name, 120) + (item.count > 1 ? " and " + std::to_string(item.count - 1) + " more" : "") + ": " +
                 Time(item.end - item.start));
    }
    lanes.push_back(lanes.size());
    names.push_back(PlotText(Cut(lane.name, 26)));
  }
  std::string about = "Step " + std::to_string(timeline.number) + " of " + NameOf(report.processes[timeline.process]) +
                      ", the one of median time.";
  if (timeline.merged != 0) {
    about += " " + Counted(timeline.merged, "thing", "things") +
             " in it are too short to be seen, and are merged into " + WithThousands(timeline.merged_into) +
             ", each as long as they are together.";
  }
  if (timeline.left_out != 0) {
    about += " " + Counted(timeline.left_out, "thing", "things") + " of more threads and streams are left out.";
  }
  PlotlyJson layout = {{"barmode", "overlay"},
                       {"bargap", 0.2},
                       {"height", 110 + 26 * std::max<size_t>(1, timeline.lanes.size())},
                       {"xaxis", TimeAxis(unit)},
                       {"yaxis",
                        {{"tickvals", lanes},
                         {"ticktext", names},
                         {"autorange", "reversed"},
                         {"fixedrange", true},
                         {"automargin", true}}}};
  layout["xaxis"]["range"] = {0, unit.Of(timeline.end - timeline.start)};
  PlotlyJson data = PlotlyJson::array();
  for (auto& [kind, trace] : traces) data.push_back(std::move(trace));
  return Section("One step", about, Figure("timeline of one step", data, layout));
}

std::string CopyName(const ProcessReport& process, int64_t kind) {
  for (const DeviceReport& device : process.devices) {
    for (const DeviceCopyReport& copies : device.copies) {
      if (copies.kind == kind) return copies.name;
    }
  }
  return "kind " + std::to_string(kind);
}

// Bytes a second of each size, on two logarithmic axes.
PlotlyJson Bandwidth(const CopySizes& sizes, const char* color, const std::string& name) {
  PlotlyJson trace = {{"type", "scatter"},
                      {"mode", "lines+markers"},
                      {"name", PlotText(name)},
                      {"hoverinfo", "text"},
                      {"line", {{"color", color}, {"width", 1}}},
                      {"x", PlotlyJson::array()},
                      {"y", PlotlyJson::array()}};
  for (const auto& [exponent, size] : sizes) {
    if (size.time <= 0 || size.bytes <= 0 || exponent < 0) continue;
    const double rate = Number64(size.bytes) / Number64(size.time);  // bytes a ns are GB/s
    AddPoint(&trace, std::exp2(exponent), rate);
    trace["hovertext"].push_back(
        PlotText(name + ", from " + HumanBytes(uint64_t{1} << exponent) + ": " + Counted(size.calls, "copy", "copies") +
                 ", " + HumanBytes(static_cast<uint64_t>(size.bytes)) + ", " + Number(rate) + " GB/s"));
  }
  return trace;
}

std::string Bandwidths(const ProcessReport& process) {
  PlotlyJson traces = PlotlyJson::array();
  const auto add = [&](const CopySizes& sizes, const std::string& name) {
    PlotlyJson trace = Bandwidth(sizes, SeriesColor(traces.size()), name);
    if (!trace["x"].empty()) traces.push_back(std::move(trace));
  };
  add(process.copy_sizes, "copy calls, time on the host");
  for (const auto& [kind, sizes] : process.device_copies) add(sizes, CopyName(process, kind) + ", time on the device");
  if (traces.empty()) return "";
  PlotlyJson sizes = PlotlyJson::array();
  PlotlyJson names = PlotlyJson::array();
  for (int exponent = 0; exponent < 50; exponent += 4) {
    sizes.push_back(std::exp2(exponent));
    names.push_back(HumanBytes(uint64_t{1} << exponent));
  }
  return Section(
      "Copies by size",
      "Bytes by the time that they took, of sizes from one power of two to the next, in the measured time. "
      "An asynchronous call returns before its bytes have moved: on the host its figure is no bandwidth of "
      "the bus.",
      Figure(
          "copy bandwidth by size", traces,
          {{"xaxis",
            {{"type", "log"}, {"tickvals", sizes}, {"ticktext", names}, {"title", {{"text", "size of a copy, from"}}}}},
           {"yaxis", {{"type", "log"}, {"ticksuffix", " GB/s"}, {"dtick", 1}}}}));
}

// The frames themselves; kScript makes a plot of them, with a search and an order.
std::string FlamePlot(const std::string& name, const FlameGraph& graph, const char* what) {
  PlotlyJson figure = {{"what", what}, {"depth", graph.depth}};
  for (const FlameFrame& frame : graph.frames) {
    figure["names"].push_back(policy::Escape(frame.label));
    figure["details"].push_back(policy::Escape(frame.detail));
    figure["parents"].push_back(frame.parent);
    figure["kinds"].push_back(static_cast<int>(frame.kind));
    figure["times"].push_back(frame.time);
    figure["counts"].push_back(frame.count);
  }
  return FlameFigure(name, figure);
}

std::string AboutFlame(const FlameGraph& graph) {
  const int64_t all = graph.frames.front().time;
  std::string about =
      "A click on a frame makes it as wide as the page, one on the bar above it goes back. Frames of less than " +
      Time(graph.least) + " (" + Percent(Number64(graph.least), Number64(all)) +
      ") are put together as \"(smaller)\", so that frames add up to what they are on.";
  if (!graph.has_stacks) {
    about +=
        " Of each call the trace has one line: with tracer.stacks = \"python\" in the policy, or \"full\", it has the "
        "whole stack.";
  }
  return about;
}

std::string HostFlame(const ProcessReport& process, const std::optional<FlameGraph>& graph) {
  if (!graph) return "";
  return Section("Host time in CUDA, by stack",
                 Time(graph->frames.front().time) + " that " + NameOf(process) +
                     " spent in CUDA calls in the measured time, by who made them; calls of several threads at once "
                     "count each. " +
                     AboutFlame(*graph),
                 FlamePlot("host time by stack", *graph, "calls"));
}

std::string DeviceFlame(const ProcessReport& process, const std::optional<FlameGraph>& graph) {
  if (!graph) return "";
  return Section("Device time, by stack",
                 Time(graph->frames.front().time) + " of kernels, copies and sets of " + NameOf(process) +
                     " that began in the measured time, by who asked for them; those that ran at once count each. " +
                     AboutFlame(*graph),
                 FlamePlot("device time by stack", *graph, "pieces of work"));
}

// Its lines stay lines.
std::string Preformatted(const std::string& text) {
  std::string html = "<pre>";
  size_t from = 0;
  while (from < text.size()) {
    const size_t end = std::min(text.find('\n', from), text.size());
    html += HtmlText(text.substr(from, end - from)) + "\n";
    from = end + 1;
  }
  return html + "</pre>\n";
}

std::string Paragraph(const std::string& text, const char* kind = "") {
  return text.empty() ? "" : "<p" + std::string(kind) + ">" + HtmlText(text) + "</p>\n";
}

std::string FindingHtml(const PageFinding& finding) {
  std::string html = "<section class=\"finding\">\n<h3>" + HtmlText(finding.head) + "</h3>\n" +
                     Paragraph(finding.whose) + Paragraph(finding.found);
  std::string lines;
  for (const std::string& line : finding.evidence) lines += "<li>" + HtmlText(line) + "</li>\n";
  for (const std::string& place : finding.places) lines += "<li>at <code>" + HtmlText(place) + "</code></li>\n";
  if (!lines.empty()) html += "<ul>\n" + lines + "</ul>\n";
  html += Paragraph(finding.change);
  if (!finding.snippet.empty()) html += Preformatted(finding.snippet);
  return html + "<p>More: <code>slipstream help " + HtmlText(finding.rule) + "</code></p>\n</section>\n";
}

std::string FindingsHtml(const std::vector<PageFinding>& findings) {
  if (findings.empty()) return "";
  std::string html =
      "<h2>What to change</h2>\n" + Paragraph("As `slipstream advise` says it of the same run, what gains most first.");
  for (const PageFinding& finding : findings) html += FindingHtml(finding);
  return html;
}

// What to act on, which run that is of, and what of it is missing.
std::string Head(const Report& report, const std::string& title) {
  const std::optional<Verdict> verdict = VerdictOf(report);
  std::string html = "<h1>" + HtmlText(verdict ? VerdictSentence(report, *verdict) : title) + "</h1>\n";
  const std::string run = RunText(report, kPageColumns);
  for (size_t at = 0; at < run.size();) {
    size_t end = run.find('\n', at);
    // A line that goes on in the next one is one here.
    while (end + 1 < run.size() && run.compare(end + 1, 6, "      ") == 0) end = run.find('\n', end + 1);
    html += Paragraph(run.substr(at, end - at), " class=\"run\"");
    at = end + 1;
  }
  return html;
}

std::string Folded(const std::string& title, const std::string& text) {
  return "<details>\n<summary>" + HtmlText(title) + "</summary>\n" + Preformatted(text) + "</details>\n";
}

}  // namespace

std::string ReportHtml(const Report& report, const std::string& library, const std::vector<PageFinding>& findings) {
  std::string title = "slipstream report";
  std::string plots;
  if (!report.processes.empty()) {
    const ProcessReport& shown = report.processes[report.shown];
    title += ": " + (shown.command.empty() ? NameOf(shown) : shown.command);
    // One function for each section.
    plots = WholeTime(shown) + StepTimes(report) + PartsOfSteps(shown) + OneStep(report) +
            HostFlame(shown, report.flames.host) + DeviceFlame(shown, report.flames.devices) +
            MemoryOverTime(report, shown) + HeldOverTime(report, shown) + Bandwidths(shown);
  }
  std::string scripts;
  if (library.empty()) {
    plots = Paragraph(std::string("This page has no plots, because slipstream was built without the library that draws "
                                  "them: to have them, ") +
                      kHowToHavePlots);
  } else {
    scripts = "<script>" + library + "</script>\n<script>" + kPageScript + "</script>\n";
  }
  return kPageHead + HtmlText(Cut(title, 160)) + kPageStyle + Head(report, title) + plots + FindingsHtml(findings) +
         Folded("All figures, as text", FormatReport(report)) + scripts + "</body></html>\n";
}

}  // namespace slipstream::report
