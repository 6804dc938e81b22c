#include "tools/trace/report/html.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>

#include "tools/text/text.h"
#include "tools/trace/report/format.h"
#include "tools/trace/report/svg.h"
#include "tools/trace/report/text.h"
#include "tools/trace/report/wall_text.h"

namespace slipstream::report {
namespace {

using text::HumanBytes;
using text::WithThousands;

constexpr const char* kPartColors[kParts] = {"#2f6db5", "#d1495b", "#8b5fbf",       "#3a9d5d",
                                             "#7a7f87", "#e0a030", "var(--outside)"};
// Steps that are left out are gray, as in the plot of steps.
constexpr const char* kWallColors[kWallParts] = {
    "#8b5fbf", "var(--tick)", "#2f6db5", "var(--left-out)", "var(--left-out)", "var(--left-out)", "#e0a030",
    "#3a9d5d", "#d1495b",     "#a0522d", "#1b9e9e",         "#7a7f87",         "var(--left-out)"};
constexpr const char* kKernelColor = "#1b9e9e";
constexpr const char* kCopyColor = "#2f6db5";
constexpr const char* kLeftOutColor = "var(--left-out)";
constexpr const char* kLiveColor = "#2f6db5";
constexpr const char* kIdleColor = "#e0c48a";
constexpr const char* kLaneColor = "var(--lane)";
// Of processes, and of sorts of copies.
constexpr const char* kSeries[] = {"#2f6db5", "#d1495b", "#3a9d5d", "#e0a030",
                                   "#8b5fbf", "#1b9e9e", "#7a7f87", "#a0522d"};
constexpr size_t kSeriesCount = std::size(kSeries);
constexpr size_t kMostDots = 800;  // of a process's steps
constexpr size_t kMostBars = 240;

constexpr char kHead[] = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"/>
<meta name="viewport" content="width=device-width"/>
<title>)";
constexpr char kStyle[] = R"(</title>
<style>
:root { color-scheme: light dark; --back: #fff; --text: #1d2126; --quiet: #4a5058; --pane: #f5f6f8; --grid: #e4e7eb;
  --tick: #9aa0a8; --lane: #f0f1f4; --outside: #d8dbe0; --left-out: #b5b9c0; }
@media (prefers-color-scheme: dark) { :root { --back: #16191d; --text: #e3e6ea; --quiet: #b3bac3; --pane: #20242a;
  --grid: #333940; --tick: #7d858f; --lane: #262b32; --outside: #4a515b; --left-out: #6b727c; } }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--text); background: var(--back); max-width: 1000px; margin: 24px auto; padding: 0 16px; }
h1 { font-size: 21px; } h2 { font-size: 17px; margin: 30px 0 4px; }
p { margin: 4px 0 8px; color: var(--quiet); }
pre { font: 12px/1.4 ui-monospace, monospace; background: var(--pane); padding: 12px; overflow-x: auto; }
svg { width: 100%; height: auto; display: block; }
svg text { font: 11px system-ui, sans-serif; fill: var(--quiet); }
svg text.mark { font-weight: 600; fill: var(--text); }
circle.mark { fill: var(--text); stroke: var(--back); stroke-width: 1.5; }
.grid { stroke: var(--grid); } .tick { stroke: var(--tick); }
.key { display: inline-block; margin-right: 14px; white-space: nowrap; }
.key i { display: inline-block; width: 11px; height: 11px; margin-right: 5px; border-radius: 2px; }
</style></head><body>
)";

std::string Key(const std::string& color, const std::string& text) {
  return "<span class=\"key\"><i style=\"background:" + color + "\"></i>" + HtmlText(text) + "</span>\n";
}

std::string Section(const std::string& title, const std::string& about, const std::string& keys,
                    const std::string& plot) {
  return "<h2>" + HtmlText(title) + "</h2>\n<p>" + HtmlText(about) + "</p>\n" +
         (keys.empty() ? "" : "<div>" + keys + "</div>\n") + plot;
}

std::string AsTime(double ns) { return Time(ns); }
std::string AsSeconds(double ns) { return Number(std::round(ns / 1e6) / 1e3) + " s"; }
double Number64(int64_t number) { return static_cast<double>(number); }

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

void DrawSteps(const ProcessReport& process, const std::string& color, Plot* plot) {
  std::vector<std::pair<double, double>> line;
  for (const auto& group : Groups(process.steps, kMostDots)) {
    std::vector<int64_t> times;
    bool measured = false;
    for (const Step& step : group) {
      times.push_back(step.time());
      measured = measured || step.use == StepUse::kMeasured;
    }
    const Distribution of = DistributionOf(std::move(times));
    const double x = Number64(group.front().start);
    line.emplace_back(x, Number64(of.median));
    std::string title = ShortName(process) + ", " + StepName(group) + ": " + Time(of.median);
    if (group.size() > 1) title += " in the median, up to " + Time(of.max);
    if (!measured) title += " (left out of the figures)";
    plot->Dot(x, Number64(of.median), process.steps.size() > 100 ? 2 : 3, measured ? color : kLeftOutColor, title);
  }
  plot->Line(line, color, 0.7);
}

std::string StepTimes(const Report& report) {
  double most = 0;
  std::string keys;
  size_t with_steps = 0;
  for (const ProcessReport& process : report.processes) {
    if (!process.has_steps) continue;
    most = std::max(most, Number64(process.step_time.max));
    if (with_steps < kSeriesCount) keys += Key(kSeries[with_steps], ShortName(process));
    ++with_steps;
  }
  if (with_steps == 0) return "";
  Plot plot({}, Number64(report.first), Number64(report.last), 0, most * 1.08);
  plot.YAxis(Ticks(0, most * 1.08, 5), AsTime);
  plot.XAxis(Ticks(Number64(report.first), Number64(report.last), 8), AsSeconds);
  plot.XTitle("since the recording began");
  size_t series = 0;
  for (const ProcessReport& process : report.processes) {
    if (process.has_steps) DrawSteps(process, kSeries[series++ % kSeriesCount], &plot);
  }
  return Section(
      "Step times",
      "Each step at the time when it began. Gray: warm-up, with dropped records or without an end, and left out of the "
      "figures; what is higher than the picture stands at its edge.",
      (with_steps > 1 ? keys : "") + Key(kLeftOutColor, "left out"), plot.Finish("step times"));
}

// One bar: the parts on it one behind the other.
std::string WholeTime(const ProcessReport& process) {
  const WallReport& wall = process.wall;
  const int64_t whole = wall.end - wall.begin;
  if (!process.has_steps || whole <= 0) return "";
  Plot::Frame frame;
  frame.height = 80;
  Plot plot(frame, 0, Number64(whole), 0, 1);
  plot.XAxis(Ticks(0, Number64(whole), 8), AsTime);
  std::string keys;
  int64_t at = 0;
  for (const WallPartReport& part : wall.parts) {
    const char* const color = kWallColors[static_cast<size_t>(part.part)];
    const std::string label = Label(part.part, part.count);
    plot.Box(Number64(at), 0.1, Number64(at + part.time), 0.9, color,
             label + ": " + Time(part.time) + (part.most ? ", most of it " + PlaceLabel(*part.most, 80) : ""));
    keys += Key(color, label);
    at += part.time;
  }
  return Section("Where the whole time went",
                 "From the " + std::string(wall.from_process_start ? "start" : "first record") + " of " +
                     NameOf(process) + " to its last record; parts are put together and add up to it.",
                 keys, plot.Finish("whole time"));
}

std::string PartsOfSteps(const ProcessReport& process) {
  if (!process.has_steps) return "";
  std::vector<Step> measured;
  for (const Step& step : process.steps) {
    if (step.use == StepUse::kMeasured) measured.push_back(step);
  }
  const auto groups = Groups(measured, kMostBars);
  double most = 0;
  for (const auto& group : groups) {
    double time = 0;
    for (const Step& step : group) time += Number64(step.time());
    most = std::max(most, time / static_cast<double>(group.size()));
  }
  const auto count = static_cast<double>(groups.size());
  Plot plot({}, 0, count, 0, most * 1.05);
  plot.YAxis(Ticks(0, most * 1.05, 5), AsTime);
  for (size_t i = 0; i < groups.size(); ++i) {
    double from = 0;
    for (size_t part = 0; part < kParts; ++part) {
      double time = 0;
      for (const Step& step : groups[i]) time += Number64(step.parts[part]);
      time /= static_cast<double>(groups[i].size());
      const auto x = static_cast<double>(i);
      if (time > 0) {
        plot.Box(x + 0.08, from, x + 0.92, from + time, kPartColors[part],
                 StepName(groups[i]) + ", " + Label(static_cast<Part>(part)) + ": " + Time(time));
      }
      from += time;
    }
  }
  const std::vector<double> ticks = Ticks(0, count, 10);
  std::vector<double> places;
  for (const double tick : ticks) {
    if (tick == std::floor(tick) && tick < count) places.push_back(tick);
  }
  for (double& place : places) place += 0.5;  // the middle of its bar
  plot.XAxis(places, [&](double at) { return std::to_string(groups[static_cast<size_t>(at)].front().number); });
  plot.XTitle("step");
  std::string keys;
  for (size_t part = 0; part < kParts; ++part) keys += Key(kPartColors[part], Label(static_cast<Part>(part)));
  std::string about = "The thread that makes the steps of " + NameOf(process) + "; parts of a step add up to it.";
  if (!groups.empty() && groups.front().size() > 1) {
    about += " Each bar is the mean of " + std::to_string(groups.front().size()) + " steps.";
  }
  return Section("Where the time of each step went", about, keys, plot.Finish("parts of each step"));
}

std::string MemoryOverTime(const Report& report, const ProcessReport& process) {
  std::string text;
  for (const MemoryReport& pool : process.memory) {
    Plot::Frame frame;
    frame.top = 18;  // the mark's text
    if (process.memory.size() > 2) frame.height = 170;
    const double most = std::max(1.0, Number64(pool.peak) * 1.08);
    Plot plot(frame, Number64(report.first), Number64(report.last), 0, most);
    std::vector<std::pair<double, double>> live;
    std::vector<std::pair<double, double>> both;
    // As steps: what is read holds until the next reading.
    const auto add = [&](double at, double of_live, double of_both) {
      if (!live.empty()) {
        live.emplace_back(at, live.back().second);
        both.emplace_back(at, both.back().second);
      }
      live.emplace_back(at, of_live);
      both.emplace_back(at, of_both);
    };
    for (const MemoryPoint& point : pool.points) {
      add(Number64(point.time), Number64(point.live), Number64(point.live) + Number64(point.idle));
    }
    if (!live.empty()) add(Number64(report.last), live.back().second, both.back().second);
    plot.Area(both, kIdleColor);
    plot.Area(live, kLiveColor);
    plot.YAxis(Ticks(0, most, frame.height > 200 ? 5 : 4, true),
               [](double bytes) { return HumanBytes(static_cast<uint64_t>(bytes)); });
    plot.XAxis(Ticks(Number64(report.first), Number64(report.last), 8), AsSeconds);
    plot.XTitle("since the recording began");
    plot.Mark(Number64(pool.peak_point.time), Number64(pool.peak),
              "peak: " + HumanBytes(static_cast<uint64_t>(pool.peak)) + " " + PlaceOf(process, pool.peak_point.time));
    text += Section("Memory of device " + std::to_string(pool.device),
                    "What its pool held, of " + NameOf(process) + ", as it was read " +
                        Counted(pool.readings, "time", "times") + "; of many readings the highest ones.",
                    Key(kLiveColor, "live: in the program's hands") + Key(kIdleColor, "idle: freed and kept"),
                    plot.Finish("memory over time"));
  }
  return text;
}

// The holders of the peak on top of each other, and what others had above them.
std::string HeldOverTime(const Report& report, const ProcessReport& process) {
  std::string text;
  for (const HeldReport& held : process.held) {
    if (held.points.empty()) continue;
    Plot::Frame frame;
    frame.top = 18;
    const double most = std::max(1.0, Number64(held.peak) * 1.08);
    Plot plot(frame, Number64(report.first), Number64(report.last), 0, most);
    // The sum of all first, and each smaller sum over it.
    const size_t drawn = std::min(held.holders.size(), kHoldersDrawn);
    const auto layer = [&](size_t count) {
      std::vector<std::pair<double, double>> line;
      const auto add = [&](double at, double bytes) {
        if (!line.empty()) line.emplace_back(at, line.back().second);
        line.emplace_back(at, bytes);
      };
      for (const HeldPoint& point : held.points) {
        int64_t bytes = count == drawn + 1 ? point.bytes : 0;
        for (size_t i = 0; i < std::min(count, point.of.size()) && count <= drawn; ++i) AddTo(&bytes, point.of[i]);
        add(Number64(point.time), Number64(bytes));
      }
      add(Number64(report.last), line.back().second);
      return line;
    };
    plot.Area(layer(drawn + 1), kLeftOutColor);
    for (size_t count = drawn; count > 0; --count) plot.Area(layer(count), kSeries[(count - 1) % kSeriesCount]);
    plot.YAxis(Ticks(0, most, 5, true), [](double bytes) { return HumanBytes(static_cast<uint64_t>(bytes)); });
    plot.XAxis(Ticks(Number64(report.first), Number64(report.last), 8), AsSeconds);
    plot.XTitle("since the recording began");
    plot.Mark(Number64(held.peak_time), Number64(held.peak),
              "peak: " + HumanBytes(static_cast<uint64_t>(held.peak)) + " " + PlaceOf(process, held.peak_time));
    std::string keys;
    for (size_t i = 0; i < drawn; ++i) keys += Key(kSeries[i % kSeriesCount], HolderLabel(held.holders[i], 60));
    keys += Key(kLeftOutColor, "all others");
    const std::string device = held.device >= 0 ? "device " + std::to_string(held.device) : "an unknown device";
    text += Section("Who had memory of " + device,
                    "What calls of " + NameOf(process) +
                        " got and did not give back, by the line that asked for it; "
                        "those with a color of their own had most at the peak. Of each moment drawn, the highest.",
                    keys, plot.Finish("memory over time, by line"));
  }
  return text;
}

std::string TimelineColor(int kind) {
  if (kind == kTimelineKernel) return kKernelColor;
  if (kind == kTimelineCopy) return kCopyColor;
  return kPartColors[static_cast<size_t>(kind)];
}

std::string OneStep(const Report& report) {
  if (!report.timeline) return "";
  const Timeline& timeline = *report.timeline;
  constexpr double kLane = 24;
  constexpr double kName = 170;
  Plot::Frame frame;
  frame.left = kName;
  frame.height = frame.top + frame.bottom + kLane * static_cast<double>(std::max<size_t>(1, timeline.lanes.size()));
  const auto lanes = static_cast<double>(timeline.lanes.size());
  Plot plot(frame, 0, Number64(timeline.end - timeline.start), 0, lanes);
  for (size_t i = 0; i < timeline.lanes.size(); ++i) {
    const double base = lanes - static_cast<double>(i) - 1;
    plot.Box(0, base + 0.1, Number64(timeline.end - timeline.start), base + 0.9, kLaneColor, "");
    plot.Label(4, plot.Y(base + 0.5) + 4, Cut(timeline.lanes[i].name, 26));
    for (const TimelineItem& item : timeline.lanes[i].items) {
      plot.Box(Number64(item.start - timeline.start), base + 0.1, Number64(item.end - timeline.start), base + 0.9,
               TimelineColor(item.kind),
               Cut(item.name, 120) + (item.count > 1 ? " and " + std::to_string(item.count - 1) + " more" : "") + ": " +
                   Time(item.end - item.start));
    }
  }
  plot.XAxis(Ticks(0, Number64(timeline.end - timeline.start), 8), AsTime);
  std::string keys;
  for (size_t part = 0; part < kCallKinds; ++part) keys += Key(kPartColors[part], Label(static_cast<Part>(part)));
  if (report.kernels_recorded) keys += Key(kKernelColor, "kernels");
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
  return Section("One step", about, keys, plot.Finish("timeline of one step"));
}

// Bytes a second of each size, on two logarithmic axes.
void DrawBandwidth(const CopySizes& sizes, const std::string& color, const std::string& name, Plot* plot) {
  std::vector<std::pair<double, double>> line;
  for (const auto& [exponent, size] : sizes) {
    if (size.time <= 0 || size.bytes <= 0) continue;
    const double rate = Number64(size.bytes) / Number64(size.time);  // bytes a ns are GB/s
    line.emplace_back(exponent, std::log10(rate));
    plot->Dot(exponent, std::log10(rate), 3.5, color,
              name + ", from " + HumanBytes(uint64_t{1} << exponent) + ": " + Counted(size.calls, "copy", "copies") +
                  ", " + HumanBytes(static_cast<uint64_t>(size.bytes)) + ", " + Number(rate) + " GB/s");
  }
  plot->Line(line, color, 1);
}

std::string CopyName(const ProcessReport& process, int64_t kind) {
  for (const DeviceReport& device : process.devices) {
    for (const DeviceCopyReport& copies : device.copies) {
      if (copies.kind == kind) return copies.name;
    }
  }
  return "kind " + std::to_string(kind);
}

std::string Bandwidths(const ProcessReport& process) {
  std::vector<std::pair<std::string, const CopySizes*>> series;
  if (!process.copy_sizes.empty()) series.emplace_back("copy calls, time on the host", &process.copy_sizes);
  for (const auto& [kind, sizes] : process.device_copies) {
    series.emplace_back(CopyName(process, kind) + ", time on the device", &sizes);
  }
  double least = 0;
  double most = 0;
  int largest = 0;
  bool any = false;
  for (const auto& [name, sizes] : series) {
    for (const auto& [exponent, size] : *sizes) {
      if (size.time <= 0 || size.bytes <= 0) continue;
      const double rate = std::log10(Number64(size.bytes) / Number64(size.time));
      least = any ? std::min(least, rate) : rate;
      most = any ? std::max(most, rate) : rate;
      largest = std::max(largest, exponent);
      any = true;
    }
  }
  if (!any) return "";
  Plot plot({}, -0.5, largest + 0.5, std::floor(least), std::max(std::ceil(most), std::floor(least) + 1));
  std::vector<double> decades;
  const int lowest = static_cast<int>(std::floor(least));
  const int highest = std::max(static_cast<int>(std::ceil(most)), lowest + 1);
  for (int decade = lowest; decade <= highest; ++decade) decades.push_back(decade);
  plot.YAxis(decades, [](double decade) {
    char label[32];
    std::snprintf(label, sizeof(label), "%g GB/s", std::pow(10, decade));
    return std::string(label);
  });
  std::vector<double> sizes;
  for (int exponent = 0; exponent <= largest; exponent += largest > 20 ? 4 : 2) sizes.push_back(exponent);
  plot.XAxis(sizes, [](double exponent) { return HumanBytes(uint64_t{1} << static_cast<int>(exponent)); });
  plot.XTitle("size of a copy, from");
  std::string keys;
  for (size_t i = 0; i < series.size(); ++i) {
    keys += Key(kSeries[i % kSeriesCount], series[i].first);
    DrawBandwidth(*series[i].second, kSeries[i % kSeriesCount], series[i].first, &plot);
  }
  return Section("Copies by size",
                 "Bytes by the time that they took, of sizes from one power of two to the next, in the measured time. "
                 "An asynchronous call returns before its bytes have moved: on the host its figure is no bandwidth of "
                 "the bus.",
                 keys, plot.Finish("copy bandwidth by size"));
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

}  // namespace

std::string ReportHtml(const Report& report) {
  std::string title = "slipstream report";
  std::string plots;
  if (!report.processes.empty()) {
    const ProcessReport& shown = report.processes[report.shown];
    title += ": " + (shown.command.empty() ? NameOf(shown) : shown.command);
    plots = WholeTime(shown) + StepTimes(report) + PartsOfSteps(shown) + OneStep(report) +
            MemoryOverTime(report, shown) + HeldOverTime(report, shown) + Bandwidths(shown);
  }
  return kHead + HtmlText(Cut(title, 160)) + kStyle + "<h1>" + HtmlText(Cut(title, 160)) + "</h1>\n" +
         Preformatted(FormatReport(report)) + plots + "</body></html>\n";
}

}  // namespace slipstream::report
