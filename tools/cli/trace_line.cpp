#include "tools/cli/trace_line.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <string_view>

#include "policy/text.h"
#include "tools/cli/still_running.h"
#include "tools/text/shell.h"
#include "tools/text/text.h"
#include "tracer/base/python_lines.h"
#include "tracer/spool/spool_reader.h"

namespace slipstream::cli {
namespace {

using text::HumanBytes;
using text::WithThousands;
using tracer::EndReason;
using tracer::SpoolOutcome;

constexpr std::string_view kNotStarted = "off: ";  // of the fact "trace" of a process

// " (1 of 2 files)"; empty where there is only one.
std::string Share(size_t count, size_t all, const char* what) {
  return all < 2 ? "" : " (" + std::to_string(count) + " of " + std::to_string(all) + " " + what + ")";
}

// What is missing of one file; empty: nothing.
std::string TroubleOf(const SpoolOutcome& file, int64_t ending) {
  if (!file.problem.empty()) return "cannot be read: " + file.problem;
  if (!file.left_why.empty()) return "cannot be read to its end: " + file.left_why;
  if (file.damaged) return "damaged: a part of it cannot be read";
  if (!file.complete && file.pid != ending && StillRuns(file)) {
    return "not at its end: the process runs still (pid " + std::to_string(file.pid) + ")";
  }
  if (!file.complete && !file.has_calls) {
    return "empty: the process was killed, or left by _exit or exec, before its first calls were written";
  }
  if (!file.complete)
    return "incomplete, without the last moments of a process that was killed or left by _exit or exec";
  // How many calls came after that is said of all files together, where it is known.
  const char* const killed = file.later_calls_known ? "" : ", in a process that was killed later";
  if (file.reason == EndReason::kLimit) return std::string("cut short at tracer.max_file") + killed;
  if (file.reason == EndReason::kError) return std::string("cut short: ") + std::strerror(file.error) + killed;
  if (!file.has_calls)
    return "empty: not one call was recorded: there was none, or not in the part that tracer.window names (--steps, "
           "--delay)";
  return "";
}

}  // namespace

TraceSummary SumUpTrace(const std::string& directory, const std::vector<tracer::ProcessCounts>& processes, bool counted,
                        int64_t ending) {
  TraceSummary trace = {.directory = directory, .files = {}, .troubles = {}};
  std::string error;
  if (!directory.empty()) {
    for (const std::string& path : tracer::ListSpools(directory, &error))
      trace.files.push_back(tracer::OutcomeOf(path));
  }
  if (!error.empty()) trace.troubles.push_back(error);

  std::map<std::string, size_t> troubles;
  for (const SpoolOutcome& file : trace.files) {
    if (const std::string trouble = TroubleOf(file, ending); !trouble.empty()) ++troubles[trouble];
  }
  for (const auto& [trouble, count] : troubles) {
    trace.troubles.push_back(trouble + Share(count, trace.files.size(), "files"));
  }
  uint64_t later = 0;
  for (const SpoolOutcome& file : trace.files) later += file.later_calls;
  if (later != 0) {
    trace.troubles.push_back(WithThousands(later) + (later == 1 ? " later call is" : " later calls are") +
                             " not in it");
  }

  size_t begun = 0;
  std::map<std::string, size_t> refused;
  std::map<std::string, size_t> without_lines;
  std::map<std::string, size_t> not_kept;
  for (const tracer::ProcessCounts& process : processes) {
    for (const std::string& fact : process.FactsOf("trace_keep")) ++not_kept[fact];
    for (const std::string& fact : process.FactsOf("trace")) {
      if (fact == "on") {
        ++begun;
        // The last one counts.
        const std::vector<std::string> lines = process.FactsOf(tracer::kFactPythonLines);
        if (!lines.empty() && lines.back().starts_with(tracer::kLinesUnsupported)) ++without_lines[lines.back()];
      }
      if (fact.starts_with(kNotStarted)) ++refused[fact.substr(kNotStarted.size())];
    }
  }
  for (const auto& [why, count] : refused) {
    trace.troubles.push_back("not begun: " + why + Share(count, processes.size(), "processes"));
  }
  for (const auto& [fact, count] : without_lines) {
    trace.troubles.push_back("Python lines: " + text::PythonLinesText(fact) +
                             Share(count, processes.size(), "processes"));
  }
  for (const auto& [why, count] : not_kept) {
    trace.troubles.push_back(why + Share(count, processes.size(), "processes"));
  }
  if (begun > trace.files.size()) trace.troubles.emplace_back("a file of it is gone");
  if (trace.files.empty() && trace.troubles.empty()) {
    trace.troubles.emplace_back(counted ? "no CUDA call was seen"
                                        : "no CUDA call was seen, or it could not be recorded: "
                                          "SLIPSTREAM_LOG_LEVEL=warn tells which");
  }
  return trace;
}

std::string FormatTrace(const TraceSummary& trace) {
  std::string text = "slipstream: ";
  if (trace.files.empty()) {
    text += "no trace";
  } else {
    uint64_t records = 0;
    uint64_t dropped = 0;
    uint64_t bytes = 0;
    uint64_t given_up = 0;
    for (const SpoolOutcome& file : trace.files) {
      records += file.records;
      dropped += file.dropped;
      bytes += file.bytes;
      given_up += file.given_up_records;
    }
    text += "trace: " + WithThousands(records) + " records, " + (dropped == 0 ? "none" : WithThousands(dropped)) +
            " dropped, " + (given_up == 0 ? "" : WithThousands(given_up) + " older ones given up, ") +
            HumanBytes(bytes) + " in " + policy::Escape(trace.directory);
    if (trace.files.size() > 1) text += " (" + std::to_string(trace.files.size()) + " files)";
  }
  const char* separator = trace.files.empty() ? ": " : "; ";
  for (const std::string& trouble : trace.troubles) {
    text += separator + trouble;
    separator = "; ";
  }
  return text + "\n";
}

bool HasCalls(const TraceSummary& trace) {
  return std::any_of(trace.files.begin(), trace.files.end(), [](const SpoolOutcome& file) { return file.has_calls; });
}

std::string FormatHint(const TraceSummary& trace) {
  if (!HasCalls(trace)) return "";
  return "slipstream: to read it: slipstream report " + text::InShell(trace.directory) + "\n";
}

}  // namespace slipstream::cli
