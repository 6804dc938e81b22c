// What was counted of a function, or of a decision: a process's totals up to some moment.
//
// Threading: plain data.
#pragma once

#include <cstdint>
#include <vector>

namespace slipstream::tracer {

struct Counted {
  uint64_t calls = 0;   // or how often it was decided
  uint64_t errors = 0;  // 0 for a decision
  uint64_t bytes = 0;
  uint64_t time_ns = 0;  // 0: it is not measured

  bool operator==(const Counted&) const = default;
};

// Of counters that only grow.
inline Counted Since(const Counted& before, const Counted& now) {
  return {.calls = now.calls - before.calls,
          .errors = now.errors - before.errors,
          .bytes = now.bytes - before.bytes,
          .time_ns = now.time_ns - before.time_ns};
}

struct CounterTotals {
  std::vector<Counted> hooks;      // by HookId
  std::vector<Counted> decisions;  // by their index
};

}  // namespace slipstream::tracer
