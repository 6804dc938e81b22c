#include "tools/trace/report/lines_text.h"

#include <algorithm>
#include <cstdint>

#include "policy/text.h"
#include "tools/text/text.h"
#include "tools/trace/report/format.h"

namespace slipstream::report {
namespace {

using policy::Escape;
using text::PadLeft;
using text::PadRight;

constexpr size_t kIdleLinesShown = 3;
constexpr size_t kKernelLinesShown = 6;
constexpr size_t kRangesShown = 8;
// A line with less than one part in so many of the time has no row of idle time of its own.
constexpr int64_t kIdleSeen = 100;
// Of a row of a kernel line: what stands before the line, and what the first kernel has behind it.
constexpr size_t kBeforeWhere = 33;
constexpr size_t kKernelColumns = 31;

std::string IdleLabel(const IdleLineReport& idle, size_t label) {
  constexpr size_t kIndent = 6;
  const std::string before = idle.before_call ? "before " : "";
  LineReport line = idle.line;
  line.of_step_thread = true;  // that it is not is said behind the figures, where there is room
  return std::string(kIndent, ' ') + before + LineLabel(line, label - kIndent - before.size() - 1);
}

}  // namespace

std::string LineLabel(const LineReport& line, size_t columns) {
  SiteReport site;
  site.known = line.known;
  site.of_step_thread = line.of_step_thread;
  site.file = line.file;
  site.line = line.line;
  site.function = line.function;
  return SiteLabel(site, columns);
}

std::string IdleLinesText(const ProcessReport& process, const DeviceReport& device, size_t host, size_t columns) {
  const size_t width = RowLabel(columns);
  std::string text;
  const auto row = [&](const std::string& label, int64_t time, bool of_step_thread = true) {
    text += PadRight(label, width) + Figure(Time(static_cast<double>(time) / process.device_divisor())) +
            PadLeft(Percent(static_cast<double>(time), static_cast<double>(process.measured_time)), 9) +
            (of_step_thread ? "\n" : "  [other threads]\n");
  };
  int64_t rest = device.times.idle[host];
  size_t shown = 0;
  for (const IdleLineReport& idle : device.idle_lines) {
    if (shown == kIdleLinesShown || idle.time < process.measured_time / kIdleSeen) break;
    if (idle.host != host || idle.no_call || !idle.line.known) continue;
    row(IdleLabel(idle, width), idle.time, idle.line.of_step_thread);
    rest -= idle.time;
    ++shown;
  }
  if (shown != 0 && rest > 0) {
    row(host == kHostOutside ? "      before other calls, or none" : "      in other calls", rest);
  }
  return text;
}

std::string KernelLinesText(const ProcessReport& process, const DeviceReport& device, size_t columns) {
  if (device.kernel_lines.empty()) return "";
  const size_t room = columns - kBeforeWhere;
  const size_t wide = std::clamp<size_t>(room - kKernelColumns, 28, 70);
  std::string text = "  kernels by the line that launched them, and the first of each\n";
  const auto row = [&](int64_t time, uint64_t launches, const std::string& where) {
    text += "  " + Figure(Time(static_cast<double>(time) / process.device_divisor())) +
            PadLeft(Percent(static_cast<double>(time), static_cast<double>(device.kernel_time)), 9) +
            PadLeft(Number(static_cast<double>(launches) / process.device_divisor()) + " x", 10) + "  " + where + "\n";
  };
  const size_t shown =
      device.kernel_lines.size() <= kKernelLinesShown ? device.kernel_lines.size() : kKernelLinesShown - 1;
  int64_t rest = 0;
  uint64_t launches = 0;
  for (size_t i = 0; i < device.kernel_lines.size(); ++i) {
    const KernelLineReport& line = device.kernel_lines[i];
    if (i >= shown) {
      AddTo(&rest, line.time);
      launches += line.launches;
      continue;
    }
    const std::string where = line.call_known ? LineLabel(line.line, wide) : "(their calls are not in the trace)";
    const std::string padded = PadRight(where, wide) + " ";
    row(line.time, line.launches, padded + text::CutMiddle(Escape(line.top_kernel), room - text::Columns(padded)));
  }
  if (launches != 0) {
    row(rest, launches, Counted(device.kernel_lines.size() - shown, "more line", "more lines") + " (--json has all)");
  }
  return text;
}

std::string RangesText(const ProcessReport& process, size_t columns) {
  const RangesReport& ranges = process.ranges;
  if (ranges.names.empty()) return "";
  const bool devices = ranges.kernels_known;
  const double divisor = process.divisor();
  std::string text = std::string("NVTX RANGES of the program") + (process.has_steps ? ", a step" : "") +
                     (devices ? "; kernels: of what was launched within them\n" : "\n");
  text +=
      Figure("time") + PadLeft("share", 9) + PadLeft("ranges", 9) + (devices ? Figure("kernels") : "") + "   name\n";
  for (size_t i = 0; i < ranges.names.size() && i < kRangesShown; ++i) {
    const RangeReport& range = ranges.names[i];
    const std::string domain = range.domain.empty() ? "" : " [" + range.domain + "]";
    text += Figure(Time(static_cast<double>(range.time) / divisor)) +
            PadLeft(Percent(static_cast<double>(range.time), static_cast<double>(process.measured_time)), 9) +
            PadLeft(Number(static_cast<double>(range.count) / divisor), 9) +
            (devices ? Figure(Time(static_cast<double>(range.kernel_time) / divisor)) : "") + "   " +
            text::CutMiddle(Escape(range.name + domain), columns - 41) + "\n";
  }
  if (ranges.names.size() > kRangesShown) {
    text += "  and " + Counted(ranges.names.size() - kRangesShown, "more name", "more names") + " (--json has all)\n";
  }
  if (ranges.left_out != 0) {
    text += Wrapped(columns, "  " + Counted(ranges.left_out, "range", "ranges") + " of further names are not counted");
  }
  return text;
}

}  // namespace slipstream::report
