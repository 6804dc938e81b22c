#include "tools/trace/report/device_text.h"

#include <cstddef>
#include <cstdint>
#include <optional>

#include "policy/text.h"
#include "tools/text/text.h"
#include "tools/trace/report/format.h"
#include "tools/trace/report/lines_text.h"

namespace slipstream::report {
namespace {

using policy::Escape;
using text::PadLeft;
using text::PadRight;
using text::WithThousands;

constexpr size_t kKernelsShown = 5;

// Rows of time, of what a process and a screen are.
class TimeRows {
 public:
  TimeRows(const ProcessReport& process, size_t columns) : process_(process), columns_(columns) {}
  std::string Of(const std::string& label, int64_t time) const {
    return Labeled(label, RowLabel(columns_)) + Figure(Time(static_cast<double>(time) / process_.device_divisor())) +
           PadLeft(Percent(static_cast<double>(time), static_cast<double>(process_.measured_time)), 9) + "\n";
  }

 private:
  const ProcessReport& process_;
  size_t columns_;
};

// Copies that slipstream made in the place of the program's, or beside them.
std::string OwnCopies(const DeviceReport& device, const ProcessReport& process, size_t columns) {
  uint64_t all = 0;
  uint64_t own = 0;
  int64_t time = 0;
  for (const DeviceCopyReport& copies : device.copies) {
    all += copies.kind >= 0 ? copies.count : 0;
    own += copies.own_count;
    AddTo(&time, copies.own_time);
  }
  if (own == 0) return "";
  return Wrapped(columns, "  " + WithThousands(own) + " of " + Counted(all, "copy", "copies") +
                              " were asked for by slipstream, in the place of the program's or beside them: " +
                              Time(static_cast<double>(time) / process.device_divisor()) +
                              (process.has_steps ? " a step" : "") + ", beside kernels or not");
}

std::string Device(const Report& report, const ProcessReport& process, const DeviceReport& device, size_t columns) {
  const TimeRows rows(process, columns);
  const DeviceTimes& times = device.times;
  std::string text = "GPU " + std::to_string(device.device);
  if (!device.name.empty()) text += ", " + Cut(Escape(device.name), 50);
  if (device.sms) text += ", " + Counted(static_cast<uint64_t>(*device.sms), "SM", "SMs");
  text = Wrapped(columns, text + (process.has_steps ? ": mean of a step" : ": all of the recorded time"));
  if (!report.kernels_recorded) {
    text += Wrapped(columns, "  no kernels were recorded: when it was busy is not known, only its copies are");
    return text + rows.Of("  copying or setting memory", times.copies);
  }
  text += rows.Of("  running kernels (utilization)", times.kernels);
  if (times.copies > times.copies_alone) {
    text += rows.Of("    of it, with copies or sets beside", times.copies - times.copies_alone);
  }
  if (times.communication != 0) {
    text += rows.Of("    of it, computing only", times.computing_only());
    text += rows.Of("    of it, communicating", times.communication);
    text += rows.Of("      and computing beside it", times.communication_overlapped());
    text += rows.Of("      and computing nothing", times.communication_alone);
  }
  if (report.device_copies_recorded) {
    text += rows.Of("  only copying or setting memory", times.copies_alone);
  }
  int64_t idle = 0;
  for (const int64_t time : times.idle) AddTo(&idle, time);
  text += rows.Of("  idle", idle);
  for (size_t host = 0; host < kHostStates; ++host) {
    if (times.idle[host] != 0) {
      text += rows.Of(std::string("    while the host was ") + HostLabel(host), times.idle[host]) +
              IdleLinesText(process, device, host, columns);
    }
  }
  text += OwnCopies(device, process, columns);
  const auto of_time = [&](size_t host) {
    return Percent(static_cast<double>(times.idle[host]), static_cast<double>(process.measured_time)) + " of the time";
  };
  text += Wrapped(
      columns,
      "  launch-bound (idle while the host was launching): " + of_time(static_cast<size_t>(CallKind::kLaunch)) +
          "; host-bound (idle while it was outside CUDA calls: Python, a data loader): " + of_time(kHostOutside));
  const auto share = [](const std::optional<double>& of) {
    return of ? Percent(*of, 1) : std::string("not known (the database does not have the device's limits)");
  };
  const std::optional<double> while_busy = device.sms_while_busy(process.measured_time);
  text += Wrapped(columns,
                  "  est. SM efficiency " + share(device.sm_efficiency) +
                      (while_busy ? " (" + Percent(*while_busy, 1) + " while kernels run)" : "") +
                      "; est. achieved occupancy " + share(device.achieved_occupancy) +
                      "; tensor cores, by kernels' names, about " +
                      Percent(static_cast<double>(device.tensor_core_time), static_cast<double>(device.kernel_time)) +
                      " of kernel time");
  if (!report.device_copies_recorded) {
    text += Wrapped(columns, "  no copies of the device were recorded: idle time includes them");
  }
  const double divisor = process.device_divisor();
  for (size_t i = 0; i < device.top.size() && i < kKernelsShown; ++i) {
    const KernelReport& kernel = device.top[i];
    text += "  " + Figure(Time(static_cast<double>(kernel.time) / divisor)) +
            PadLeft(Percent(static_cast<double>(kernel.time), static_cast<double>(device.kernel_time)), 9) +
            PadLeft(Number(static_cast<double>(kernel.launches) / divisor) + " x", 10) + "  " +
            text::CutMiddle(Escape(kernel.name), columns - 33) + "\n";
  }
  if (device.kernel_names > kKernelsShown) {
    text += PadRight("", 33) + Counted(device.kernel_names - kKernelsShown, "more kernel", "more kernels") + "\n";
  }
  return text + KernelLinesText(process, device, columns);
}

}  // namespace

std::string DevicesText(const Report& report, const ProcessReport& process, size_t columns) {
  if (!report.kernels_recorded && !report.device_copies_recorded) {
    return Wrapped(columns,
                   "GPU: no kernels were recorded, so how busy the device was, and why it was not, is not known");
  }
  if (process.unwatched_everywhere) {
    return Wrapped(columns, "GPU: devices were recorded in no step to its end, so how busy they were is not known");
  }
  if (process.devices.empty()) return "GPU: none of its kernels or copies are in this database\n";
  std::string text;
  for (const DeviceReport& device : process.devices) text += Device(report, process, device, columns);
  return text;
}

}  // namespace slipstream::report
