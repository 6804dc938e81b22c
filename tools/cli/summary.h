// The summary of a run, for people and for scripts.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "policy/layers.h"
#include "tools/cli/trace_line.h"
#include "tracer/counters/counter_reader.h"

namespace slipstream::cli {

inline constexpr char kSummarySchema[] = "slipstream-summary-1";

struct RunSummary {
  std::string command;  // base name only: arguments may hold secrets
  // As a shell shows it; nothing if it was not seen: the command was killed, or left without exiting.
  std::optional<int> exit_status{};
  uint64_t wall_ns = 0;                           // 0: not known
  std::vector<tracer::ProcessCounts> processes;   // those that made a hooked call
  std::set<int32_t> still_running{};              // their numbers, of those that the run's end did not end
  std::vector<std::string> problems;              // counter files that could not be read
  bool counters_off = false;                      // the policy asked for none
  std::vector<policy::LayerFile> policy_files{};  // the files that were read
  bool children_chosen = false;                   // the policy keeps the preload out of some programs
  std::optional<TraceSummary> trace{};            // where the policy asked for one
};

// Sums over processes, function by function, direction by direction and decision by decision; functions and decisions
// in the order of the first process that has them.
tracer::ProcessCounts Total(const std::vector<tracer::ProcessCounts>& processes);

// One screen. Every part is shown or summed in a line of its own, so the lines add up to the total.
std::string FormatSummary(const RunSummary& summary);

// One JSON object, schema kSummarySchema. Functions that were not called are left out. kTotals: "processes" is empty.
enum class SummaryHas : uint8_t { kProcesses, kTotals };
std::string SummaryJson(const RunSummary& summary, SummaryHas has = SummaryHas::kProcesses);

// "13000 /path/libcudart.so.13" taken apart.
struct RuntimeFact {
  int version = 0;
  std::string path;
};
RuntimeFact ParseRuntimeFact(const std::string& fact);

}  // namespace slipstream::cli
