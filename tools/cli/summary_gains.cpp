#include "tools/cli/summary_gains.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <string_view>

#include "tools/text/columns.h"
#include "tools/text/text.h"

namespace slipstream::cli {
namespace {

uint64_t Less(uint64_t time_ns, uint64_t other_ns) { return time_ns - std::min(time_ns, other_ns); }

tracer::DecisionCounts DecisionOf(const tracer::ProcessCounts& process, std::string_view name) {
  const auto found = std::find_if(process.decisions.begin(), process.decisions.end(),
                                  [name](const tracer::DecisionCounts& decision) { return decision.name == name; });
  return found == process.decisions.end() ? tracer::DecisionCounts() : *found;
}

// Of a driver function that is intercepted as well, a call may lie within one of the runtime's, and counts twice: too
// much is taken off then, and never too little.
uint64_t TimeIn(const tracer::ProcessCounts& process, std::initializer_list<std::string_view> names) {
  uint64_t time_ns = 0;
  for (const tracer::FunctionCounts& function : process.functions) {
    if (std::find(names.begin(), names.end(), function.name) != names.end()) time_ns += function.time_ns;
  }
  return time_ns;
}

void Add(SparedCalls* sum, const tracer::DecisionCounts& spared, uint64_t own_ns) {
  if (spared.time_ns <= own_ns) return;
  sum->calls += spared.count;
  sum->time_ns += spared.time_ns - own_ns;
}

// What became of a copy or its synchronization, of memory of the host: the counters do not say what it would have
// taken.
bool GainsWhatIsNotKnown(const tracer::DecisionCounts& decision) {
  constexpr std::string_view kSuch[] = {"transfer.h2d.promoted", "transfer.h2d.mirrored", "transfer.d2h.promoted",
                                        "transfer.sync.skipped", "transfer.host.reused"};
  return decision.count != 0 && std::any_of(std::begin(kSuch), std::end(kSuch),
                                            [&](std::string_view such) { return decision.name.starts_with(such); });
}

std::string Counted(const SparedCalls& spared, const char* one, const char* many) {
  return text::WithThousands(spared.calls) + " " + (spared.calls == 1 ? one : many);
}

}  // namespace

SummaryGains GainsOf(const std::vector<tracer::ProcessCounts>& processes) {
  SummaryGains gains;
  for (const tracer::ProcessCounts& process : processes) {
    gains.unknown =
        gains.unknown || std::any_of(process.decisions.begin(), process.decisions.end(), GainsWhatIsNotKnown);
    const uint64_t allocating = TimeIn(process, {"cudaMalloc", "cuMemAlloc_v2"});
    const uint64_t at_driver = DecisionOf(process, "allocator.driver.allocated").time_ns;
    Add(&gains.allocations, DecisionOf(process, "allocator.spared.allocation"), Less(allocating, at_driver));
    // Which of the driver's frees lie within these calls is not known.
    Add(&gains.frees, DecisionOf(process, "allocator.spared.free"), TimeIn(process, {"cudaFree", "cuMemFree_v2"}));
  }
  return gains;
}

std::string FormatGains(const SummaryGains& gains) {
  std::string served;
  if (gains.allocations.calls != 0) served += Counted(gains.allocations, "allocation", "allocations");
  if (gains.frees.calls != 0) served += (served.empty() ? "" : " and ") + Counted(gains.frees, "free", "frees");
  std::string text;
  if (!served.empty()) text = "about " + text::HumanTime(gains.estimated_ns()) + " in " + served + " (estimated)";
  if (gains.unknown) text += text.empty() ? "not known" : ", and in copies what is not known";
  if (text.empty()) return "";
  constexpr size_t kColumns = 80;
  constexpr size_t kTextColumn = std::string_view("slipstream: ").size();
  text = "slipstream: gained: " + text + ";";
  constexpr std::string_view kHow = "to measure it: slipstream compare -- COMMAND";
  if (text.size() + 1 + kHow.size() <= kColumns) return text + " " + std::string(kHow) + "\n";
  return text::Wrapped(text, kColumns, 0, kTextColumn) + text::Wrapped(kHow, kColumns, kTextColumn, kTextColumn);
}

}  // namespace slipstream::cli
