// What a process did between two readings of its counter file.
//
// Counters only grow: the sums are over all threads, and the counts of a thread that has ended stay where they are
// (tracer/counters/counter_layout.h). Whatever goes backwards, or has another name than before, is no two readings of
// one process, and nothing is said then.
//
// Threading: pure functions.
#pragma once

#include <cstdint>
#include <optional>

#include "tools/top/view.h"
#include "tracer/counters/counter_reader.h"

namespace slipstream::top {

// `elapsed_ns` between the readings. Nothing: they are not of one process, or no time has passed.
std::optional<CounterView> RatesBetween(const tracer::ProcessCounts& before, const tracer::ProcessCounts& after,
                                        uint64_t elapsed_ns);

}  // namespace slipstream::top
