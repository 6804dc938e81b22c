// Short steps for replays, whose every moment is known.
//
// Threading: one thread.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/advise/units_testing.h"
#include "tools/trace/advise/replay.h"

namespace slipstream::advise {

// Groups of calls.
inline constexpr uint32_t kLaunch = 0;
inline constexpr uint32_t kWait = 1;
inline constexpr uint32_t kOtherWait = 2;

// A step as its events are added, in us since its start. Groups are small numbers.
class StepEvents {
 public:
  explicit StepEvents(int64_t time) { events_.time = {0, time * kUs}; }

  // In the order of their starts. Its number.
  uint32_t Call(int64_t start, int64_t end, uint32_t group, Replay::Waits waits = Replay::Waits::kNever,
                uint32_t stream = Replay::kNone) {
    events_.calls.push_back({.start = start * kUs,
                             .end = end * kUs,
                             .group = group,
                             .of_step_thread = true,
                             .waits = waits,
                             .stream = stream});
    return static_cast<uint32_t>(events_.calls.size() - 1);
  }
  uint32_t CallElsewhere(int64_t start, int64_t end, uint32_t group, Replay::Waits waits = Replay::Waits::kNever) {
    const uint32_t number = Call(start, end, group, waits);
    events_.calls.back().of_step_thread = false;
    return number;
  }
  // Of its time, so much is there only because devices are recorded.
  void Adds(uint32_t call, int64_t time) { events_.calls[call].recording = time * kUs; }
  void Work(int64_t start, int64_t end, uint32_t group, uint32_t call, uint32_t stream = 0, uint32_t engine = 0) {
    events_.work.push_back(
        {.start = start * kUs, .end = end * kUs, .group = group, .stream = stream, .call = call, .engine = engine});
  }
  // Another step begins.
  void Step(int64_t start) { events_.steps.push_back(start * kUs); }
  Replay::Events Take() { return std::move(events_); }
  Replay Made(int64_t steps = 1) {
    std::vector<Replay::Events> stretches;
    stretches.push_back(Take());
    return Replay(std::move(stretches), steps);
  }

 private:
  Replay::Events events_;
};

}  // namespace slipstream::advise
