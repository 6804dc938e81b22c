// How one process asks another one to pause its recording or to go on: three words in a file that both have mapped.
//
// Whoever asks writes an order that was not there yet, and waits until the answer is that order. The process looks at
// it every round of the thread that writes its trace; the program's own threads never do, and no signal is sent.
//
// Threading: any thread of any process; whoever asks writes `order`, the process that records writes the rest.
// Hazard: zeros mean that nothing is recorded. Part of counter_layout.h.
#pragma once

#include <atomic>
#include <cstdint>

namespace slipstream::tracer {

struct RecordControl {
  std::atomic<uint32_t> order;   // RecordOrder; 0: there was none
  std::atomic<uint32_t> answer;  // the last order that was obeyed
  std::atomic<uint32_t> state;   // RecordState, written before the answer
};

enum class RecordState : uint32_t {
  kNone = 0,  // nothing is recorded, and nothing will be
  kOn = 1,
  kTurnedOff = 2,
  kOutsideWindow = 3,  // tracer.window; else it would be on
  kEnded = 4           // at the file's limit, by an error, or because the process ends
};

// `number` is another one each time.
constexpr uint32_t RecordOrder(uint32_t number, bool on) { return number << 1 | (on ? 1U : 0U); }
constexpr bool IsOrderOn(uint32_t order) { return (order & 1U) != 0; }
constexpr uint32_t NumberOfOrder(uint32_t order) { return order >> 1; }

}  // namespace slipstream::tracer
