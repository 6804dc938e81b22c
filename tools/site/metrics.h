// The runs of a node as metrics, in the text formats of Prometheus and OpenMetrics.
//
// Every name, and what it means, is a row of kFamilies in metrics.cpp. Samples of a run have the labels user, program
// and run: the number of its first process, so that a node has no more series than runs. A run that has ended has none.
//
// Threading: plain data and pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/site/engines.h"
#include "tools/site/node.h"
#include "tracer/counters/counter_layout.h"

namespace slipstream::site {

// Runs that are told apart; those that come after them are only counted.
inline constexpr size_t kMostRunsShown = 500;

struct RunMetrics {
  std::string user{};
  std::string program{};
  std::string run{};
  std::optional<double> start_unix_s{};
  uint64_t processes = 0;  // that live
  uint64_t calls = 0;
  uint64_t errors = 0;
  uint64_t call_ns = 0;
  std::array<uint64_t, tracer::kCopyKinds> copies{};
  std::array<uint64_t, tracer::kCopyKinds> copied_bytes{};
  std::array<uint64_t, 2> promoted{};  // to the device, to the host
  std::array<uint64_t, 2> promoted_bytes{};
  uint64_t skipped_waits = 0;
  uint64_t pool_allocations = 0;
  uint64_t failed_open = 0;
  std::map<int32_t, std::array<uint64_t, 2>> pool_bytes{};  // by device: live, idle; of processes that live
  std::array<uint64_t, kEngines.size()> aside{};            // of processes that live
  uint64_t estimated_gain_ns = 0;
  bool gain_unknown = false;
};

// All but user, program, run, its start and what it gained.
RunMetrics MetricsOf(const NodeRun& run);

struct NodeMetrics {
  std::string version{};  // of slipstream
  std::vector<RunMetrics> runs{};
  uint64_t runs_left_out = 0;
  NodeLeft left{};
};

enum class Format : uint8_t { kPrometheus, kOpenMetrics };
std::string MetricsText(const NodeMetrics& node, Format format);

}  // namespace slipstream::site
