// What the counters of a run's processes say of the engines: which stood aside, and which calls failed open.
//
// Threading: pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/site/run_record.h"
#include "tracer/counters/counter_reader.h"

namespace slipstream::site {

// By the names of their facts.
inline constexpr std::array<const char*, 3> kEngines = {"allocator", "transfer", "trace"};

// Why the engine does nothing in the process, in its own words; empty: it serves, or was not asked for.
std::string WhyAside(const tracer::ProcessCounts& process, const char* engine);

// By engine and reason, in the order in which they are found.
std::vector<StoodAside> WhoStoodAside(const std::vector<tracer::ProcessCounts>& processes);
std::vector<FailedOpen> WhatFailedOpen(const std::vector<tracer::ProcessCounts>& processes);

// Decisions that say so of calls.
bool MeansFailedOpen(std::string_view decision);

}  // namespace slipstream::site
