// What the engines decided in a run, in words. A counter file has names ("transfer.h2d.declined.full"). Their sentences
// are here; a name that is not known here is shown as it is spelled.
//
// Threading: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tracer/counters/counter_reader.h"

namespace slipstream::text {

// Lines of at most `columns`, without an end: what was promoted, declined, skipped, kept, and waited for. A line goes
// on in the next one behind two spaces. Counts of 0 are left out.
std::vector<std::string> TransferLines(const std::vector<tracer::DecisionCounts>& decisions, size_t columns);

// The same for the allocator: what came from its pool, what it kept, and what went back to the driver.
std::vector<std::string> AllocatorLines(const std::vector<tracer::DecisionCounts>& decisions, size_t columns);

// Whether the name is of a sum of times beside decisions that have a name of their own: tracer::CallShare::kAside.
bool IsSumOfTimes(std::string_view name);

// Both are empty where this build knows no such decision. The phrase behind a count: "while all staging memory was in
// flight".
std::string_view DecisionPhrase(std::string_view name);
// A line for people.
std::string_view DecisionMeaning(std::string_view name);

}  // namespace slipstream::text
