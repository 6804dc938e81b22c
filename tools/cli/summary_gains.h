// What a run gained, from its counters alone: without a recording, so only what these are sure of.
//
// Threading: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tracer/counters/counter_reader.h"

namespace slipstream::cli {

// Calls of one sort that the pool served.
struct SparedCalls {
  uint64_t calls = 0;
  // What as many of the driver's fastest ones would have taken, less what the process's calls took beside the driver's
  // part of them. 0: nothing is sure.
  uint64_t time_ns = 0;
};

struct SummaryGains {
  SparedCalls allocations;
  SparedCalls frees;

  bool unknown = false;  // and by copies and memory of the host what counters do not tell

  uint64_t estimated_ns() const { return allocations.time_ns + frees.time_ns; }
};

// Each process for itself: its calls and its driver's times belong together.
SummaryGains GainsOf(const std::vector<tracer::ProcessCounts>& processes);

// The first line of a summary, or two, with its end: what was gained, and how to measure it. Empty: slipstream did
// nothing that gains.
std::string FormatGains(const SummaryGains& gains);

}  // namespace slipstream::cli
