#include "tools/trace/report/busiest.h"

#include <utility>

namespace slipstream::report {

std::optional<size_t> Busiest(const ProcessReport& process) {
  std::optional<size_t> busiest;
  const auto work = [&](size_t i) {
    const DeviceReport& device = process.devices[i];
    return std::pair(device.times.kernels, device.kernel_time);
  };
  for (size_t i = 0; i < process.devices.size(); ++i) {
    if (!busiest || work(i) > work(*busiest)) busiest = i;
  }
  return busiest;
}

}  // namespace slipstream::report
