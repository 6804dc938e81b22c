// The parts of a process that the summary and the doctor's report both show as JSON. Included by the two
// files that make JSON.
#pragma once

#include <string>
#include <utility>

#include "tools/cli/summary.h"
#include "tools/text/json_text.h"
#include "tracer/counters/counter_reader.h"

namespace slipstream::cli {

using text::Json;
using text::JsonText;

// [{"path": ..., "version": 13000}, ...]
inline Json RuntimesJson(const tracer::ProcessCounts& process) {
  Json runtimes = Json::array();
  for (const std::string& fact : process.FactsOf("runtime")) {
    RuntimeFact runtime = ParseRuntimeFact(fact);
    runtimes.push_back({{"path", std::move(runtime.path)}, {"version", runtime.version}});
  }
  return runtimes;
}

// Every other fact: {"allocator": "off: ...", ...}
inline Json FactsJson(const tracer::ProcessCounts& process) {
  Json facts = Json::object();
  for (const tracer::Fact& fact : process.facts) {
    if (fact.key != "runtime") facts[fact.key] = fact.value;
  }
  return facts;
}

// {"transfer.h2d.promoted.small": {"count": ..., "bytes": ..., "time_ns": ...}, ...}; decisions never taken are left
// out.
inline Json DecisionsJson(const tracer::ProcessCounts& process) {
  Json decisions = Json::object();
  for (const tracer::DecisionCounts& decision : process.decisions) {
    if (decision.count == 0) continue;
    decisions[decision.name] = {{"count", decision.count}, {"bytes", decision.bytes}, {"time_ns", decision.time_ns}};
  }
  return decisions;
}

// What each device's pool held, in the order of time: [{"time_ns": ..., "device": 0, "live_bytes": ..., ...}, ...]
inline Json MemoryJson(const tracer::ProcessCounts& process) {
  Json samples = Json::array();
  for (const tracer::MemoryCounts& sample : process.memory) {
    samples.push_back({{"time_ns", sample.time_ns},
                       {"device", sample.figures.device},
                       {"live_bytes", sample.figures.live_bytes},
                       {"idle_bytes", sample.figures.idle_bytes},
                       {"parked_bytes", sample.figures.parked_bytes},
                       {"peak_idle_bytes", sample.figures.peak_idle_bytes},
                       {"trims", sample.figures.trims},
                       {"retries", sample.figures.retries}});
  }
  return samples;
}

}  // namespace slipstream::cli
