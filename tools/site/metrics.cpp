#include "tools/site/metrics.h"

#include <cstdio>
#include <map>
#include <string_view>
#include <utility>

#include "policy/text.h"

namespace slipstream::site {
namespace {

constexpr size_t kLongestLabel = 128;
constexpr std::array<const char*, 2> kPromotedDirections = {"host_to_device", "device_to_host"};
constexpr std::array<const char*, 2> kPoolStates = {"live", "idle"};

enum class Kind : uint8_t { kCounter, kGauge, kInfo };

// What has been escaped for people may hold a quote or a backslash. Bytes of a character stay together.
std::string LabelValue(std::string_view text) {
  std::string value;
  size_t taken = 0;
  const std::string visible = policy::Escape(text);
  for (std::string_view left = visible; !left.empty() && taken < kLongestLabel; ++taken) {
    const size_t length = policy::Utf8CharacterLength(left);
    if (left.front() == '\\' || left.front() == '"') value.push_back('\\');
    value.append(left.substr(0, length == 0 ? 1 : length));
    left.remove_prefix(length == 0 ? 1 : length);
  }
  return value;
}

std::string Label(const char* name, std::string_view text) {
  return std::string(name) + "=\"" + LabelValue(text) + "\"";
}

std::string LabelsOf(const RunMetrics& run) {
  return Label("user", run.user) + "," + Label("program", run.program) + "," + Label("run", run.run);
}

std::string Seconds(uint64_t ns) {
  char number[40];
  std::snprintf(number, sizeof(number), "%llu.%09llu", static_cast<unsigned long long>(ns / 1'000'000'000),
                static_cast<unsigned long long>(ns % 1'000'000'000));
  return number;
}

std::string UnixSeconds(double seconds) {
  char number[40];
  std::snprintf(number, sizeof(number), "%.3f", seconds);
  return number;
}

// The samples of one family, as they are added.
class Samples {
 public:
  explicit Samples(std::string name) : name_(std::move(name)) {}

  void Add(const std::string& labels, const std::string& value) {
    text_ += name_ + (labels.empty() ? "" : "{" + labels + "}") + " " + value + "\n";
  }
  void Add(const std::string& labels, uint64_t value) { Add(labels, std::to_string(value)); }
  void Add(const RunMetrics& run, const std::string& more, const std::string& value) {
    Add(LabelsOf(run) + (more.empty() ? "" : "," + more), value);
  }
  void Add(const RunMetrics& run, const std::string& more, uint64_t value) { Add(run, more, std::to_string(value)); }

  const std::string& text() const { return text_; }

 private:
  const std::string name_;
  std::string text_;
};

struct Family {
  const char* name;  // without the slipstream_ in front and what a counter's samples have behind
  Kind kind;
  const char* help;
  void (*add)(const NodeMetrics& node, Samples* samples);
};

template <typename Figure>
void ForEachRun(const NodeMetrics& node, Samples* samples, Figure figure) {
  for (const RunMetrics& run : node.runs) samples->Add(run, "", figure(run));
}

template <typename Values>
void ForEachDirection(const NodeMetrics& node, Samples* samples, Values values, const char* const* names) {
  for (const RunMetrics& run : node.runs) {
    for (size_t i = 0; i < (run.*values).size(); ++i) {
      samples->Add(run, Label("direction", names[i]), (run.*values)[i]);
    }
  }
}

void AddRuns(const NodeMetrics& node, Samples* samples) {
  std::map<std::pair<std::string, std::string>, uint64_t> counts;
  for (const RunMetrics& run : node.runs) ++counts[{LabelValue(run.user), LabelValue(run.program)}];
  for (const auto& [whose, count] : counts) {
    samples->Add("user=\"" + whose.first + "\",program=\"" + whose.second + "\"", count);
  }
}

void AddPoolBytes(const NodeMetrics& node, Samples* samples) {
  for (const RunMetrics& run : node.runs) {
    for (const auto& [device, bytes] : run.pool_bytes) {
      for (size_t i = 0; i < bytes.size(); ++i) {
        samples->Add(run, Label("device", std::to_string(device)) + "," + Label("state", kPoolStates[i]), bytes[i]);
      }
    }
  }
}

void AddAside(const NodeMetrics& node, Samples* samples) {
  for (const RunMetrics& run : node.runs) {
    for (size_t i = 0; i < kEngines.size(); ++i) samples->Add(run, Label("engine", kEngines[i]), run.aside[i]);
  }
}

void AddStarts(const NodeMetrics& node, Samples* samples) {
  for (const RunMetrics& run : node.runs) {
    if (run.start_unix_s) samples->Add(run, "", UnixSeconds(*run.start_unix_s));
  }
}

using Node = const NodeMetrics&;

constexpr Family kFamilies[] = {
    {"build", Kind::kInfo, "The slipstream that writes these metrics.",
     [](Node node, Samples* samples) { samples->Add(Label("version", node.version), uint64_t{1}); }},
    {"runs", Kind::kGauge, "Runs under slipstream run that go on.", AddRuns},
    {"runs_left_out", Kind::kGauge, "Runs that go on and have no series of their own, because there are too many.",
     [](Node node, Samples* samples) { samples->Add("", node.runs_left_out); }},
    {"unreadable_runs", Kind::kGauge, "Runs whose directory could not be read.",
     [](Node node, Samples* samples) { samples->Add("", node.left.unreadable_runs); }},
    {"unreadable_files", Kind::kGauge, "Counter files of runs that could not be read.",
     [](Node node, Samples* samples) { samples->Add("", node.left.unreadable_files); }},
    {"uncounted_processes", Kind::kGauge, "Processes with the library that keep no counters.",
     [](Node node, Samples* samples) { samples->Add("", node.left.uncounted); }},
    {"run_start_time_seconds", Kind::kGauge, "Start of the run since the Unix epoch.", AddStarts},
    {"processes", Kind::kGauge, "Processes of the run that live and have used CUDA.",
     [](Node node, Samples* samples) {
       ForEachRun(node, samples, [](const RunMetrics& run) { return run.processes; });
     }},
    {"calls", Kind::kCounter, "Intercepted CUDA calls.",
     [](Node node, Samples* samples) { ForEachRun(node, samples, [](const RunMetrics& run) { return run.calls; }); }},
    {"call_errors", Kind::kCounter, "Intercepted CUDA calls that returned an error.",
     [](Node node, Samples* samples) { ForEachRun(node, samples, [](const RunMetrics& run) { return run.errors; }); }},
    {"call_seconds", Kind::kCounter, "Host time inside intercepted CUDA calls, of all threads.",
     [](Node node, Samples* samples) {
       ForEachRun(node, samples, [](const RunMetrics& run) { return Seconds(run.call_ns); });
     }},
    {"copies", Kind::kCounter, "Copies, by direction.",
     [](Node node, Samples* samples) { ForEachDirection(node, samples, &RunMetrics::copies, tracer::kCopyKindNames); }},
    {"copied_bytes", Kind::kCounter, "Bytes of copies, by direction.",
     [](Node node, Samples* samples) {
       ForEachDirection(node, samples, &RunMetrics::copied_bytes, tracer::kCopyKindNames);
     }},
    {"promoted_copies", Kind::kCounter, "Copies that slipstream made asynchronous through pinned memory.",
     [](Node node, Samples* samples) {
       ForEachDirection(node, samples, &RunMetrics::promoted, kPromotedDirections.data());
     }},
    {"promoted_bytes", Kind::kCounter, "Bytes of promoted copies.",
     [](Node node, Samples* samples) {
       ForEachDirection(node, samples, &RunMetrics::promoted_bytes, kPromotedDirections.data());
     }},
    {"skipped_synchronizations", Kind::kCounter, "Synchronizations that the program did not have to wait for.",
     [](Node node, Samples* samples) {
       ForEachRun(node, samples, [](const RunMetrics& run) { return run.skipped_waits; });
     }},
    {"pool_allocations", Kind::kCounter, "Allocations of device memory that the pool served.",
     [](Node node, Samples* samples) {
       ForEachRun(node, samples, [](const RunMetrics& run) { return run.pool_allocations; });
     }},
    {"failed_open_calls", Kind::kCounter, "Calls that were made as they are because something of slipstream failed.",
     [](Node node, Samples* samples) {
       ForEachRun(node, samples, [](const RunMetrics& run) { return run.failed_open; });
     }},
    {"pool_bytes", Kind::kGauge, "Device memory of the pool: in use by the program (live), or kept (idle).",
     AddPoolBytes},
    {"standing_aside_processes", Kind::kGauge, "Processes in which the engine does nothing.", AddAside},
    {"estimated_gain_seconds", Kind::kGauge,
     "Host time that the pool has gained so far, estimated: what copies gained is not in it.",
     [](Node node, Samples* samples) {
       ForEachRun(node, samples, [](const RunMetrics& run) { return Seconds(run.estimated_gain_ns); });
     }},
    {"gain_unknown", Kind::kGauge, "1: the run has gained what counters do not tell, too.",
     [](Node node, Samples* samples) {
       ForEachRun(node, samples, [](const RunMetrics& run) { return uint64_t{run.gain_unknown}; });
     }},
};

// OpenMetrics names a family without what its samples have behind, and knows infos.
std::string HeadOf(const Family& family, const std::string& sample, Format format) {
  const bool open_metrics = format == Format::kOpenMetrics;
  const std::string name = open_metrics ? std::string("slipstream_") + family.name : sample;
  const char* const gauge = family.kind == Kind::kInfo && open_metrics ? "info" : "gauge";
  return "# HELP " + name + " " + family.help + "\n# TYPE " + name + " " +
         (family.kind == Kind::kCounter ? "counter" : gauge) + "\n";
}

size_t DirectionOf(std::string_view decision) { return decision.starts_with("transfer.h2d.promoted") ? 0 : 1; }

void AddDecision(const tracer::DecisionCounts& decision, RunMetrics* metrics) {
  const std::string_view name = decision.name;
  if (name.starts_with("transfer.h2d.promoted") || name.starts_with("transfer.d2h.promoted")) {
    metrics->promoted[DirectionOf(name)] += decision.count;
    metrics->promoted_bytes[DirectionOf(name)] += decision.bytes;
  } else if (name.starts_with("transfer.sync.skipped")) {
    metrics->skipped_waits += decision.count;
  } else if (name.starts_with("allocator.reused")) {
    metrics->pool_allocations += decision.count;
  } else if (MeansFailedOpen(name)) {
    metrics->failed_open += decision.count;
  }
}

void AddLiving(const tracer::ProcessCounts& process, RunMetrics* metrics) {
  ++metrics->processes;
  for (const tracer::MemoryCounts& sample : process.LastMemory()) {
    std::array<uint64_t, 2>& bytes = metrics->pool_bytes[sample.figures.device];
    bytes[0] += sample.figures.live_bytes;
    bytes[1] += sample.figures.idle_bytes;
  }
  for (size_t i = 0; i < kEngines.size(); ++i) metrics->aside[i] += WhyAside(process, kEngines[i]).empty() ? 0 : 1;
}

}  // namespace

RunMetrics MetricsOf(const NodeRun& run) {
  RunMetrics metrics;
  for (const NodeProcess& process : run.processes) {
    for (const tracer::FunctionCounts& function : process.counts.functions) {
      metrics.calls += function.calls;
      metrics.errors += function.errors;
      metrics.call_ns += function.time_ns;
    }
    for (size_t i = 0; i < process.counts.copies.size() && i < tracer::kCopyKinds; ++i) {
      metrics.copies[i] += process.counts.copies[i].calls;
      metrics.copied_bytes[i] += process.counts.copies[i].bytes;
    }
    for (const tracer::DecisionCounts& decision : process.counts.decisions) AddDecision(decision, &metrics);
    if (process.alive) AddLiving(process.counts, &metrics);
  }
  return metrics;
}

std::string MetricsText(const NodeMetrics& node, Format format) {
  std::string text;
  for (const Family& family : kFamilies) {
    const char* const behind = family.kind == Kind::kCounter ? "_total" : family.kind == Kind::kInfo ? "_info" : "";
    const std::string sample = std::string("slipstream_") + family.name + behind;
    Samples samples(sample);
    family.add(node, &samples);
    text += HeadOf(family, sample, format) + samples.text();
  }
  return format == Format::kOpenMetrics ? text + "# EOF\n" : text;
}

}  // namespace slipstream::site
