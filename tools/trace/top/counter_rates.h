// The difference between two readings of a process's counter file.
//
// Counters only grow: the sums are over all threads, and the counts of a thread that has ended stay where they are
// (tracer/counters/counter_layout.h). If a count goes backwards, or has another name than before, the two readings are
// not of one process, and there is no result.
//
// Threading: pure functions.
#pragma once

#include <cstdint>
#include <optional>

#include "tools/trace/top/view.h"
#include "tracer/counters/counter_reader.h"

namespace slipstream::top {

// `elapsed_ns` between the readings. Nothing: they are not of one process, or no time has passed.
std::optional<CounterView> RatesBetween(const tracer::ProcessCounts& before, const tracer::ProcessCounts& after,
                                        uint64_t elapsed_ns);

}  // namespace slipstream::top
