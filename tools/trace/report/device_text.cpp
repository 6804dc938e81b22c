#include "tools/trace/report/device_text.h"

#include <cstddef>
#include <cstdint>
#include <optional>

#include "policy/text.h"
#include "tools/text/text.h"
#include "tools/trace/report/format.h"
#include "tools/trace/report/lines_text.h"
#include "tools/trace/report/text.h"

namespace slipstream::report {
namespace {

using policy::Escape;
using text::PadLeft;
using text::PadRight;
using text::WithThousands;

constexpr size_t kKernelsShown = 5;

std::string DeviceRow(const std::string& label, int64_t time, const ProcessReport& process) {
  return PadRight(label, kRowLabel) + Figure(Time(static_cast<double>(time) / process.divisor())) +
         PadLeft(Percent(static_cast<double>(time), static_cast<double>(process.measured_time)), 9) + "\n";
}

// Copies that slipstream made in the place of the program's, or beside them.
std::string OwnCopies(const DeviceReport& device, const ProcessReport& process) {
  uint64_t all = 0;
  uint64_t own = 0;
  int64_t time = 0;
  for (const DeviceCopyReport& copies : device.copies) {
    all += copies.kind >= 0 ? copies.count : 0;
    own += copies.own_count;
    AddTo(&time, copies.own_time);
  }
  if (own == 0) return "";
  return Wrapped("  ", WithThousands(own) + " of " + Counted(all, "copy", "copies") +
                           " were asked for by slipstream, in the place of the program's or beside them: " +
                           Time(static_cast<double>(time) / process.divisor()) + (process.has_steps ? " a step" : "") +
                           ", beside kernels or not");
}

std::string Device(const Report& report, const ProcessReport& process, const DeviceReport& device) {
  const DeviceTimes& times = device.times;
  std::string text = "GPU " + std::to_string(device.device);
  if (!device.name.empty()) text += ", " + Cut(Escape(device.name), 50);
  if (device.sms) text += ", " + Counted(static_cast<uint64_t>(*device.sms), "SM", "SMs");
  text += process.has_steps ? ": mean of a step\n" : ": all of the recorded time\n";
  if (!report.kernels_recorded) {
    text += "  no kernels were recorded: when it was busy is not known, only its copies are\n";
    return text + DeviceRow("  copying or setting memory", times.copies, process);
  }
  text += DeviceRow("  running kernels (utilization)", times.kernels, process);
  if (times.copies > times.copies_alone) {
    text += DeviceRow("    of it, with copies or sets beside", times.copies - times.copies_alone, process);
  }
  if (times.communication != 0) {
    text += DeviceRow("    of it, computing only", times.computing_only(), process);
    text += DeviceRow("    of it, communicating", times.communication, process);
    text += DeviceRow("      and computing beside it", times.communication_overlapped(), process);
    text += DeviceRow("      and computing nothing", times.communication_alone, process);
  }
  if (report.device_copies_recorded) {
    text += DeviceRow("  only copying or setting memory", times.copies_alone, process);
  }
  int64_t idle = 0;
  for (const int64_t time : times.idle) AddTo(&idle, time);
  text += DeviceRow("  idle", idle, process);
  for (size_t host = 0; host < kHostStates; ++host) {
    if (times.idle[host] != 0) {
      text += DeviceRow(std::string("    while the host was ") + HostLabel(host), times.idle[host], process) +
              IdleLinesText(process, device, host);
    }
  }
  text += OwnCopies(device, process);
  const auto of_time = [&](size_t host) {
    return Percent(static_cast<double>(times.idle[host]), static_cast<double>(process.measured_time)) + " of the time";
  };
  text += Wrapped(
      "  ", "launch-bound (idle while the host was launching): " + of_time(static_cast<size_t>(CallKind::kLaunch)) +
                "; host-bound (idle while it was outside CUDA calls: Python, a data loader): " + of_time(kHostOutside));
  const auto share = [](const std::optional<double>& of) {
    return of ? Percent(*of, 1) : std::string("not known (the database does not have the device's limits)");
  };
  text +=
      Wrapped("  ", "est. SM efficiency " + share(device.sm_efficiency) + "; est. achieved occupancy " +
                        share(device.achieved_occupancy) + "; tensor cores, by kernels' names, about " +
                        Percent(static_cast<double>(device.tensor_core_time), static_cast<double>(device.kernel_time)) +
                        " of kernel time");
  if (!report.device_copies_recorded) text += "  no copies of the device were recorded: idle time includes them\n";
  const double divisor = process.divisor();
  for (size_t i = 0; i < device.top.size() && i < kKernelsShown; ++i) {
    const KernelReport& kernel = device.top[i];
    text += "  " + Figure(Time(static_cast<double>(kernel.time) / divisor)) +
            PadLeft(Percent(static_cast<double>(kernel.time), static_cast<double>(device.kernel_time)), 9) +
            PadLeft(Number(static_cast<double>(kernel.launches) / divisor) + " x", 10) + "  " +
            Cut(Escape(kernel.name), kColumns - 33) + "\n";
  }
  if (device.kernel_names > kKernelsShown) {
    text += PadRight("", 33) + Counted(device.kernel_names - kKernelsShown, "more kernel", "more kernels") + "\n";
  }
  return text + KernelLinesText(process, device);
}

}  // namespace

std::string DevicesText(const Report& report, const ProcessReport& process) {
  if (!report.kernels_recorded && !report.device_copies_recorded) {
    return "GPU: no kernels were recorded, so how busy the device was, and why it was not, is not known\n";
  }
  if (process.unwatched_everywhere) {
    return "GPU: another profiler had the devices in every step, so how busy they were is not known\n";
  }
  if (process.devices.empty()) return "GPU: none of its kernels or copies are in this database\n";
  std::string text;
  for (const DeviceReport& device : process.devices) text += Device(report, process, device);
  return text;
}

}  // namespace slipstream::report
