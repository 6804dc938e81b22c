#include "tracer/base/call_clock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace slipstream::tracer {

constinit CallClock g_call_clock;

bool TimeStampCounterIsAClock() {
#if defined(__x86_64__)
  constexpr unsigned kPowerManagement = 0x80000007;
  constexpr unsigned kInvariantCounter = 1u << 8;  // Intel SDM 3, "Invariant TSC"
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid(kPowerManagement, &a, &b, &c, &d) == 0 || (d & kInvariantCounter) == 0) return false;
  const int error = errno;
  const int file = open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
  char text[32] = {};
  const ssize_t bytes = file >= 0 ? read(file, text, sizeof(text) - 1) : -1;
  if (file >= 0) close(file);
  errno = error;
  return bytes > 0 && std::string_view(text) == "tsc\n";
#else
  return false;
#endif
}

void CallClock::Start(bool has_counter) {
  if (!has_counter) return;
  first_ = Read();
  measuring_.store(true, std::memory_order_release);
}

// Whoever is interrupted between the two readings makes one look late: the closest of a few.
CallClock::Pair CallClock::Read() {
  constexpr int kTries = 5;
  Pair closest;
  uint64_t narrowest = UINT64_MAX;
  for (int i = 0; i < kTries; ++i) {
    const uint64_t before = TimeStampCounter();
    const uint64_t ns = NowNs();
    const uint64_t after = TimeStampCounter();
    if (after - before >= narrowest) continue;
    narrowest = after - before;
    closest = {.counter = before + narrowest / 2, .ns = ns};
  }
  return closest;
}

uint64_t CallClock::SlowNsSince(const Moment& begin) {
  const uint64_t now = NowNs();
  if (measuring_.load(std::memory_order_acquire) && now - first_.ns >= kMeasuredNs &&
      measuring_.exchange(false, std::memory_order_acq_rel)) {
    const Pair last = Read();
    const uint64_t counts = last.counter - first_.counter;
    const uint64_t ns = last.ns - first_.ns;
    // A counter that stands still, or a rate that no processor has, is no clock.
    if (last.counter > first_.counter && counts / ns < 64) {
      scale_.store(static_cast<uint64_t>((static_cast<Wide>(ns) << 32) / counts), std::memory_order_relaxed);
    }
  }
  return now - begin.at;
}

}  // namespace slipstream::tracer
