#include "tools/trace/db/device_clock.h"

#include <algorithm>

#include "tracer/spool/device_work.h"

namespace slipstream::trace_db {

void DeviceClock::Add(const tracer::TraceRecord& clock) {
  if (clock.end_ns < clock.start_ns) return;
  const Reading reading = {clock.bytes - clock.stream, clock.start_ns + (clock.end_ns - clock.start_ns) / 2};
  const bool goes_on = readings_.empty() || (reading.recorded_ns > readings_.back().recorded_ns &&
                                             reading.monotonic_ns > readings_.back().monotonic_ns);
  if (goes_on) readings_.push_back(reading);
}

uint64_t DeviceClock::Monotonic(uint64_t recorded_ns) const {
  if (readings_.empty()) return recorded_ns;
  const auto after = std::upper_bound(readings_.begin(), readings_.end(), recorded_ns,
                                      [](uint64_t time, const Reading& reading) { return time < reading.recorded_ns; });
  const bool between = after != readings_.begin() && after != readings_.end();
  const Reading& from = after == readings_.begin() ? *after : *(after - 1);
  if (!between) return recorded_ns - from.recorded_ns + from.monotonic_ns;
  const auto part = static_cast<long double>(recorded_ns - from.recorded_ns) /
                    static_cast<long double>(after->recorded_ns - from.recorded_ns);
  return from.monotonic_ns +
         static_cast<uint64_t>(part * static_cast<long double>(after->monotonic_ns - from.monotonic_ns));
}

void ContextDevices::Add(const tracer::ActivityRecord& work) {
  constexpr size_t kMost = 4096;
  if (work.kind == tracer::ActivityKind::kSynchronization || work.device < 0) return;
  const auto known = devices_.find(work.context);
  if (known != devices_.end()) {
    known->second = std::min(known->second, work.device);
  } else if (devices_.size() < kMost) {
    devices_.emplace(work.context, work.device);
  }
}

int32_t ContextDevices::DeviceOf(uint32_t context) const {
  const auto known = devices_.find(context);
  return known != devices_.end() ? known->second : -1;
}

void DevicePeriods::Add(const tracer::TraceRecord& clock) {
  const auto reading = static_cast<tracer::DeviceReading>(clock.status);
  if (reading == tracer::DeviceReading::kBegins || interrupted_) {
    periods_.push_back({clock.end_ns, clock.end_ns});
    open_ = true;
    interrupted_ = false;
  }
  if (!open_) return;
  sure_until_ns_ = periods_.back().end_ns;
  periods_.back().end_ns = std::max(periods_.back().end_ns, clock.start_ns);
  open_ = reading != tracer::DeviceReading::kEnds;
}

void DevicePeriods::Interrupt() {
  // One that has ended may have work of its end missing as well.
  if (!periods_.empty()) periods_.back().end_ns = sure_until_ns_;
  open_ = false;
  interrupted_ = true;
}

}  // namespace slipstream::trace_db
