#include "tools/trace/report/overview.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "policy/text.h"
#include "tools/text/text.h"
#include "tools/trace/report/busiest.h"
#include "tools/trace/report/device_text.h"
#include "tools/trace/report/format.h"
#include "tools/trace/report/text.h"
#include "tools/trace/report/verdict_text.h"

namespace slipstream::report {
namespace {

using policy::Escape;
using text::HumanBytes;
using text::PadLeft;
using text::PadRight;
using text::WithThousands;

constexpr size_t kTimeRows = 5;
constexpr size_t kTopSites = 3;
constexpr size_t kTopKernels = 2;
constexpr size_t kBetween = 3;  // columns between the two tables

// One row of a table of time.
struct TimeRow {
  std::string label;
  int64_t time = 0;  // of all that was measured
};

// The time of the host and of a device beside each other, each table half as wide as an 80 columns' screen.
class TimeTables {
 public:
  TimeTables(std::string host, std::string device) : host_title_(std::move(host)), device_title_(std::move(device)) {}

  // Of means: what a sum divides by, and what it is a share of.
  void AddHost(const TimeRow& row, double divisor, double whole) { host_.push_back(Cells(row, divisor, whole)); }
  void AddDevice(const TimeRow& row, double divisor, double whole) { device_.push_back(Cells(row, divisor, whole)); }
  size_t device_rows() const { return device_.size(); }

  std::string Text() const {
    std::string text = Line(host_title_, device_title_);
    for (size_t i = 0; i < std::max(host_.size(), device_.size()); ++i) {
      text += Line(i < host_.size() ? host_[i] : "", i < device_.size() ? device_[i] : "");
    }
    return text;
  }

 private:
  static constexpr size_t kLabel = 20;
  static constexpr size_t kTime = 9;
  static constexpr size_t kShare = 8;
  static constexpr size_t kWide = kLabel + kTime + kShare;

  static std::string Cells(const TimeRow& row, double divisor, double whole) {
    const auto time = static_cast<double>(row.time);
    return PadRight(row.label, kLabel) + PadLeft(Time(time / divisor), kTime) + PadLeft(Percent(time, whole), kShare);
  }
  static std::string Line(const std::string& host, const std::string& device) {
    if (device.empty()) return "  " + host + "\n";
    return "  " + PadRight(host, kWide) + std::string(kBetween, ' ') + device + "\n";
  }

  std::string host_title_;
  std::string device_title_;
  std::vector<std::string> host_;
  std::vector<std::string> device_;
};

// Of at most 20 columns with two spaces in front.
const char* ShortHostLabel(size_t host) {
  constexpr std::array<const char*, kHostStates> kLabels = {"  host in a copy",     "  host synchronizing",
                                                            "  host allocating",    "  host launching",
                                                            "  host in other call", "  host outside calls"};
  return kLabels[host];
}

// The longest parts; what does not fit is one row, so that they add up.
void AddHostRows(const ProcessReport& process, TimeTables* tables) {
  std::vector<TimeRow> rows;
  for (size_t i = 0; i < kParts; ++i) {
    const int64_t time = process.parts[i].total;
    if (time != 0) rows.push_back({ShortLabel(static_cast<Part>(i)), time});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const TimeRow& a, const TimeRow& b) { return a.time > b.time; });
  if (rows.size() > kTimeRows) {
    TimeRow rest = {"all else", 0};
    for (size_t i = kTimeRows - 1; i < rows.size(); ++i) AddTo(&rest.time, rows[i].time);
    rows.resize(kTimeRows - 1);
    rows.push_back(rest);
  }
  const int64_t whole = process.has_steps ? process.step_time.total : process.measured_time;
  for (const TimeRow& row : rows) tables->AddHost(row, process.divisor(), static_cast<double>(whole));
}

// What the host did while it was idle, the longest first.
std::vector<size_t> IdleBySize(const DeviceTimes& times) {
  std::vector<size_t> order;
  for (size_t host = 0; host < kHostStates; ++host) {
    if (times.idle[host] != 0) order.push_back(host);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return times.idle[a] > times.idle[b]; });
  return order;
}

void AddDeviceRows(const Report& report, const ProcessReport& process, const DeviceReport& device, TimeTables* tables) {
  const DeviceTimes& times = device.times;
  const auto whole = static_cast<double>(process.measured_time);
  const auto add = [&](const char* label, int64_t time) {
    tables->AddDevice({label, time}, process.device_divisor(), whole);
  };
  if (!report.kernels_recorded) return add("copying or setting", times.copies);
  add("running kernels", times.kernels);
  if (times.communication_alone != 0) add("  communicating only", times.communication_alone);
  if (report.device_copies_recorded) add("only copying", times.copies_alone);
  int64_t idle = 0;
  for (const int64_t time : times.idle) AddTo(&idle, time);
  add(report.device_copies_recorded ? "idle" : "idle or copying", idle);
  for (const size_t host : IdleBySize(times)) {
    if (tables->device_rows() < kTimeRows) add(ShortHostLabel(host), times.idle[host]);
  }
}

std::string DeviceTitle(const ProcessReport& process, const DeviceReport& device) {
  std::string title = "GPU " + std::to_string(device.device);
  if (process.devices.size() > 1) title += ", the busiest of " + std::to_string(process.devices.size());
  return title;
}

// But for warm-up; the full report says why.
size_t LeftOut(const ProcessReport& process) {
  return process.dropped_steps + process.unfinished_steps + process.paused_steps + process.unwatched_steps +
         process.ahead_steps;
}

// What a step takes, and how much that varies.
std::string StepTitle(const ProcessReport& process) {
  if (!process.has_steps) {
    return "ALL OF " + Time(process.measured_time) + " of " + FullName(process) + ", without steps";
  }
  const Distribution& step = process.step_time;
  std::string text = "A STEP of " + Time(step.mean());
  if (process.ran_ahead) {
    text += " on the host, which ran ahead (the work of one takes " + Time(process.work_time.mean()) + ")";
  }
  text += ": mean of " + WithThousands(process.measured_steps) + " (median " + Time(step.median) + ", p90 " +
          Time(step.p90) + ", longest " + Time(step.max) + ")";
  if (const size_t left_out = LeftOut(process); left_out != 0) text += "; " + WithThousands(left_out) + " left out";
  if (process.pause_time.total != 0) text += "; between two steps " + Time(process.pause_time.mean());
  if (process.drops_everywhere) text += "; RECORDS WERE DROPPED, so calls are missing";
  return text;
}

std::string StepText(const Report& report, const ProcessReport& process, size_t columns) {
  const std::optional<size_t> busiest = process.unwatched_everywhere ? std::nullopt : Busiest(process);
  const DeviceReport* const device = busiest ? &process.devices[*busiest] : nullptr;
  TimeTables tables("host", device == nullptr ? "" : DeviceTitle(process, *device));
  AddHostRows(process, &tables);
  if (device != nullptr) AddDeviceRows(report, process, *device, &tables);
  std::string text = Wrapped(columns, StepTitle(process)) + tables.Text();
  if (device == nullptr) text += DevicesText(report, process, columns);
  return text;
}

// The verdict says already which one is the slowest, if any.
std::string ProcessesText(const Report& report, size_t columns) {
  if (report.processes.size() < 2) return "";
  std::string text = "PROCESSES: " + WithThousands(report.processes.size());
  if (report.spread) {
    const auto median = [&](size_t process) {
      return Time(report.processes[process].step_time.median) + " (" + ShortName(report.processes[process]) + ")";
    };
    text += ", steps of " + median(report.spread->shortest) + " to " + median(report.spread->longest);
  }
  return Wrapped(columns, text + "; below: " + ShortName(report.processes[report.shown]));
}

std::string ShareCells(double time, int64_t part, double whole) {
  return Figure(Time(time)) + PadLeft(Percent(static_cast<double>(part), whole), 9);
}

// "CALL SITES, the 3 of 12"
std::string ListTitle(const std::string& what, size_t shown, size_t all) {
  return what + (shown < all ? ", the " + std::to_string(shown) + " of " + WithThousands(all) : "");
}

std::string SitesText(const ProcessReport& process, size_t columns) {
  constexpr size_t kFront = 24;
  if (process.sites.empty()) return "";
  std::string text = Wrapped(columns, ListTitle("CALL SITES", kTopSites, process.sites.size()) +
                                          " with most time in CUDA calls (*: they wait)");
  for (size_t i = 0; i < process.sites.size() && i < kTopSites; ++i) {
    const SiteReport& site = process.sites[i];
    std::string where = SiteLabel(site, columns - kFront);
    const size_t used = kFront + text::Columns(where) + 2;
    if (columns >= used + kFront) where += "  " + FunctionsLabel(site, columns - used);
    text += "  " +
            ShareCells(static_cast<double>(site.time) / process.divisor(), site.time,
                       static_cast<double>(process.measured_time)) +
            (site.waiting != 0 ? " * " : "   ") + where + "\n";
  }
  return text;
}

std::string KernelsText(const ProcessReport& process, size_t columns) {
  constexpr size_t kFront = 24;
  const std::optional<size_t> busiest = process.unwatched_everywhere ? std::nullopt : Busiest(process);
  if (!busiest || process.devices[*busiest].top.empty()) return "";
  const DeviceReport& device = process.devices[*busiest];
  std::string title = ListTitle("KERNELS", kTopKernels, device.kernel_names) + " with most kernel time";
  if (const auto used = device.sms_while_busy(process.measured_time); used) {
    title += " (they use est. " + Percent(*used, 1) + " of the SMs)";
  }
  std::string text = Wrapped(columns, title);
  for (size_t i = 0; i < device.top.size() && i < kTopKernels; ++i) {
    const KernelReport& kernel = device.top[i];
    text += "  " +
            ShareCells(static_cast<double>(kernel.time) / process.device_divisor(), kernel.time,
                       static_cast<double>(device.kernel_time)) +
            "   " + text::CutMiddle(Escape(kernel.name), columns - kFront) + "\n";
  }
  return text;
}

std::string GainedText(const ProcessReport& process, size_t columns) {
  const GainsReport& gains = process.gains;
  if (std::all_of(gains.rows.begin(), gains.rows.end(), [](const GainRow& row) { return row.calls == 0; })) return "";
  const auto of = [&](const std::optional<int64_t>& time, const char* how) {
    return time ? Time(static_cast<double>(*time) / process.divisor()) + how : std::string();
  };
  const std::string measured = of(gains.measured, " measured");
  const std::string estimated = of(gains.estimated, " estimated");
  std::string gained = measured + (measured.empty() || estimated.empty() ? "" : ", ") + estimated;
  if (gained.empty()) gained = "not known";
  return Wrapped(columns,
                 "SLIPSTREAM gained host time" + std::string(process.has_steps ? ", a step: " : ": ") + gained);
}

std::string FileName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string MemoryText(const ProcessReport& process, size_t columns) {
  const HeldReport* most = nullptr;
  for (const HeldReport& held : process.held) {
    if (most == nullptr || held.peak > most->peak) most = &held;
  }
  if (most == nullptr || most->peak == 0) return "";
  const auto bytes = [](int64_t size) { return HumanBytes(static_cast<uint64_t>(size)); };
  std::string text = "MEMORY of " +
                     (most->device >= 0 ? "device " + std::to_string(most->device) : "an unknown device") + ": " +
                     bytes(most->peak) + " " + PlaceOf(process, most->peak_time);
  if (!most->holders.empty()) {
    constexpr size_t kLeastPlace = 22;
    const HolderReport& holder = most->holders.front();
    text += "; " + bytes(holder.sum.bytes) + " of it ";
    const size_t room = std::max(kLeastPlace, columns - std::min(columns, text::Columns(text)));
    // Where no line is known the file says most.
    const bool by_file = !holder.known && !holder.library.empty();
    text += by_file ? Cut(Escape(FileName(holder.library)), room) : HolderLabel(holder, room);
  }
  return Wrapped(columns, text);
}

}  // namespace

std::string FormatOverview(const Report& report, const text::Page& page) {
  const size_t columns = page.columns;
  std::string text = VerdictText(report, columns) + RunText(report, columns);
  if (report.processes.empty()) return text + "  there are no processes in it\n";
  const ProcessReport& shown = report.processes[report.shown];
  text += ProcessesText(report, columns) + StepText(report, shown, columns) + SitesText(shown, columns) +
          KernelsText(shown, columns) + GainedText(shown, columns) + MemoryText(shown, columns);
  return text::BoldHeadings(text, page);
}

}  // namespace slipstream::report
