#include "tools/cli/summary.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string_view>

#include "policy/text.h"
#include "tools/cli/summary_gains.h"
#include "tools/text/columns.h"
#include "tools/text/decisions.h"
#include "tools/text/text.h"

namespace slipstream::cli {
namespace {

using text::AllocatorLines;
using text::HumanBytes;
using text::HumanTime;
using text::PadLeft;
using text::PadRight;
using text::TransferLines;
using text::WithThousands;
using tracer::CopyCounts;
using tracer::DecisionCounts;
using tracer::FunctionCounts;
using tracer::ProcessCounts;

constexpr size_t kFunctionsShown = 12;
constexpr size_t kSummaryColumns = text::kLeastColumns;
constexpr size_t kHanging = 13;
constexpr size_t kNameColumns = 29;

void AddInto(DecisionCounts& sum, const DecisionCounts& part) {
  sum.count += part.count;
  sum.bytes += part.bytes;
  sum.time_ns += part.time_ns;
}

void AddInto(FunctionCounts& sum, const FunctionCounts& part) {
  sum.calls += part.calls;
  sum.errors += part.errors;
  sum.bytes += part.bytes;
  sum.time_ns += part.time_ns;
  sum.bound = sum.bound || part.bound;
}

// Adds `part` to the element of its name, or as a new one. `index`: where each name is.
template <typename Counts>
void AddByName(std::vector<Counts>& sums, std::map<std::string, size_t>& index, const Counts& part) {
  const auto [at, added] = index.try_emplace(part.name, sums.size());
  if (added) {
    sums.push_back(part);
  } else {
    AddInto(sums[at->second], part);
  }
}

FunctionCounts SumOf(const std::vector<FunctionCounts>& functions) {
  FunctionCounts sum;
  for (const FunctionCounts& function : functions) AddInto(sum, function);
  return sum;
}

std::string NumberOf(size_t count, const char* one, const char* many) {
  return WithThousands(count) + " " + (count == 1 ? one : many);
}

std::string Row(const std::string& name, const std::string& calls, const std::string& time, const std::string& per_call,
                const std::string& bytes, const std::string& errors) {
  // A long name has a line of its own.
  const bool is_long = name.size() >= kNameColumns;
  return "  " + (is_long ? name + "\n  " + std::string(kNameColumns, ' ') : PadRight(name, kNameColumns)) +
         PadLeft(calls, 12) + PadLeft(time, 9) + PadLeft(per_call, 10) + PadLeft(bytes, 10) + PadLeft(errors, 8) + "\n";
}

std::string Row(const std::string& name, const FunctionCounts& counts) {
  return Row(name, WithThousands(counts.calls), HumanTime(counts.time_ns),
             counts.calls == 0 ? "-" : HumanTime(counts.time_ns / counts.calls),
             counts.bytes == 0 ? "-" : HumanBytes(counts.bytes),
             counts.errors == 0 ? "-" : WithThousands(counts.errors));
}

std::string NameOfProcess(const ProcessCounts& process) {
  std::string name = policy::Escape(process.executable) + " (pid " + std::to_string(process.pid);
  if (process.rank >= 0) name += ", rank " + std::to_string(process.rank);
  return name + ")";
}

std::string FormatTable(const ProcessCounts& total) {
  std::vector<FunctionCounts> called;
  for (const FunctionCounts& function : total.functions) {
    if (function.calls != 0) called.push_back(function);
  }
  std::stable_sort(called.begin(), called.end(), [](const FunctionCounts& a, const FunctionCounts& b) {
    return a.time_ns != b.time_ns ? a.time_ns > b.time_ns : a.calls > b.calls;
  });
  std::string text = Row("function", "calls", "time", "per call", "bytes", "errors");
  const size_t shown = called.size() <= kFunctionsShown + 1 ? called.size() : kFunctionsShown;
  for (size_t i = 0; i < shown; ++i) text += Row(called[i].name, called[i]);
  if (shown < called.size()) {
    const std::vector<FunctionCounts> rest(called.begin() + static_cast<std::ptrdiff_t>(shown), called.end());
    text += Row(std::to_string(rest.size()) + " more functions", SumOf(rest));
  }
  text += Row("all", SumOf(called));
  return text;
}

std::string FormatCopies(const ProcessCounts& total) {
  std::string text;
  for (const CopyCounts& copy : total.copies) {
    if (copy.calls == 0) continue;
    std::string kind = copy.kind;
    std::replace(kind.begin(), kind.end(), '_', ' ');
    text += (text.empty() ? "" : ", ") + kind + " " + HumanBytes(copy.bytes) + " in " + WithThousands(copy.calls);
  }
  return text.empty() ? "" : "  copies: " + text + "\n";
}

// What an engine did, behind its name and below what it said of itself (`shown`).
std::string FormatEngine(const std::string& engine, const std::vector<std::string>& lines, bool shown) {
  const std::string name = "  " + engine + ": ";
  std::string text;
  for (const std::string& line : lines) {
    text += (shown ? std::string(name.size(), ' ') : name) + line + "\n";
    shown = true;
  }
  return text;
}

// What each device's pool held in the end, below the engine's other lines.
std::string FormatMemory(const std::vector<ProcessCounts>& processes) {
  std::string text;
  for (const ProcessCounts& process : processes) {
    for (const tracer::MemoryCounts& sample : process.LastMemory()) {
      const tracer::MemoryFigures& memory = sample.figures;
      text += std::string(std::string_view("  allocator: ").size(), ' ');
      if (processes.size() > 1) text += NameOfProcess(process) + ", ";
      text += "device " + std::to_string(memory.device) + ": " + HumanBytes(memory.live_bytes) + " live, " +
              HumanBytes(memory.idle_bytes) + " idle at the end, " + HumanBytes(memory.peak_idle_bytes) + " at most\n";
    }
  }
  return text;
}

// The same line for every process is shown once.
std::string FormatFacts(const std::vector<ProcessCounts>& processes, const ProcessCounts& total) {
  std::string text;
  for (const char* key : {"runtime", "allocator", "transfer", "transport", "policy"}) {
    std::vector<std::string> values;
    for (const ProcessCounts& process : processes) {
      for (const std::string& value : process.FactsOf(key)) {
        if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
      }
    }
    for (const std::string& value : values) {
      if (std::string_view(key) == "runtime") {
        const RuntimeFact runtime = ParseRuntimeFact(value);
        text += "  CUDA runtime " + std::to_string(runtime.version / 1000) + "." +
                std::to_string(runtime.version % 1000 / 10) + ": " + policy::Escape(runtime.path) + "\n";
      } else {
        text += std::string("  ") + key + ": " + value + "\n";
      }
    }
    constexpr size_t kTransferColumns = kSummaryColumns - std::string_view("  transfer: ").size();
    constexpr size_t kAllocatorColumns = kSummaryColumns - std::string_view("  allocator: ").size();
    if (std::string_view(key) == "transfer") {
      text += FormatEngine(key, TransferLines(total.decisions, kTransferColumns), !values.empty());
    } else if (std::string_view(key) == "allocator") {
      text += FormatEngine(key, AllocatorLines(total.decisions, kAllocatorColumns), !values.empty());
      text += FormatMemory(processes);
    }
  }
  return text;
}

}  // namespace

RuntimeFact ParseRuntimeFact(const std::string& fact) {
  RuntimeFact runtime;
  const size_t space = fact.find(' ');
  runtime.version = std::atoi(fact.c_str());
  // As the loader names it: often through ".." from the library that needs it.
  if (space != std::string::npos) runtime.path = std::filesystem::path(fact.substr(space + 1)).lexically_normal();
  return runtime;
}

ProcessCounts Total(const std::vector<ProcessCounts>& processes) {
  ProcessCounts total;
  std::map<std::string, size_t> functions;
  std::map<std::string, size_t> decisions;
  for (const ProcessCounts& process : processes) {
    for (const FunctionCounts& function : process.functions) AddByName(total.functions, functions, function);
    for (const DecisionCounts& decision : process.decisions) AddByName(total.decisions, decisions, decision);
    total.copies.resize(std::max(total.copies.size(), process.copies.size()));
    for (size_t i = 0; i < process.copies.size(); ++i) {
      total.copies[i].kind = process.copies[i].kind;
      total.copies[i].calls += process.copies[i].calls;
      total.copies[i].bytes += process.copies[i].bytes;
    }
  }
  return total;
}

namespace {

std::string UnwrappedSummary(const RunSummary& summary) {
  std::string text;
  for (const std::string& problem : summary.problems) text += "slipstream: " + policy::Escape(problem) + "\n";
  // Nobody named it: whoever did not know that it is there has to be told.
  for (const policy::LayerFile& file : summary.policy_files) {
    if (file.layer == policy::Layer::kProject) {
      text += "slipstream: policy of the project: " + policy::Escape(file.path) + "\n";
    }
  }
  if (summary.counters_off) return text;
  if (!summary.exit_status) {
    text += "slipstream: " + policy::Escape(summary.command) +
            " was killed, or left without exiting; what it counted until then:\n";
  }
  if (summary.processes.empty()) {
    const std::string name = policy::Escape(summary.command);
    if (!summary.problems.empty()) return text + "slipstream: what " + name + " called is not known\n";
    // Intercepting nothing must never look like "nothing to see" (a program may link the runtime statically), nor like
    // "nothing was there" (a process of another user cannot write down what it counts).
    return text + "slipstream: " + name +
           " left no counts: it made no CUDA call that slipstream sees, or it could not write them down (as another "
           "user, or where the run's directory is not to be seen). `slipstream doctor -- COMMAND` tells why." +
           (summary.children_chosen ? " Programs that it started had the library only as far as the policy's "
                                      "[children] says."
                                    : "") +
           "\n";
  }
  const ProcessCounts total = Total(summary.processes);
  const FunctionCounts all = SumOf(total.functions);
  text += FormatGains(GainsOf(summary.processes));
  const std::string head = "slipstream: " + NumberOf(all.calls, "CUDA call", "CUDA calls") + ", " +
                           HumanTime(all.time_ns) + " in them, " +
                           (summary.wall_ns == 0 ? "" : HumanTime(summary.wall_ns) + " wall; ");
  const std::string whose = summary.processes.size() == 1 ? NameOfProcess(summary.processes[0])
                                                          : NumberOf(summary.processes.size(), "process", "processes");
  // A name and its number stay together.
  const bool fits = text::Columns(head) + text::Columns(whose) <= kSummaryColumns;
  text += head + (fits ? "" : "\n" + std::string(std::string_view("slipstream: ").size(), ' ')) + whose;
  text += "\n" + FormatTable(total) + FormatCopies(total);
  if (summary.processes.size() > 1) {
    for (const ProcessCounts& process : summary.processes) {
      const FunctionCounts sum = SumOf(process.functions);
      text += "  " + NameOfProcess(process) + ": " + NumberOf(sum.calls, "call", "calls") + ", " +
              HumanTime(sum.time_ns) + "\n";
    }
  }
  for (const ProcessCounts& process : summary.processes) {
    if (summary.still_running.count(process.pid) == 0) continue;
    text += "  " + NameOfProcess(process) + " runs still: counted is what it has called until now\n";
  }
  return text + FormatFacts(summary.processes, total);
}

}  // namespace

std::string FormatSummary(const RunSummary& summary) {
  return text::WrappedAtSpaces(UnwrappedSummary(summary), kSummaryColumns, kHanging);
}

}  // namespace slipstream::cli
