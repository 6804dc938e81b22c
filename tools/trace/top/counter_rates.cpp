#include "tools/trace/top/counter_rates.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace slipstream::top {
namespace {

using tracer::CopyCounts;
using tracer::DecisionCounts;
using tracer::FunctionCounts;
using tracer::ProcessCounts;

// False: it went backwards.
bool Difference(uint64_t before, uint64_t after, uint64_t* difference) {
  *difference = after - before;
  return after >= before;
}

void AddTo(CallSum* sum, const CallSum& part) {
  sum->calls += part.calls;
  sum->bytes += part.bytes;
  sum->time_ns += part.time_ns;
  sum->errors += part.errors;
}

bool AddFunctions(const ProcessCounts& before, const ProcessCounts& after, CounterView* view) {
  if (before.functions.size() != after.functions.size()) return false;
  for (size_t i = 0; i < after.functions.size(); ++i) {
    const FunctionCounts& old = before.functions[i];
    const FunctionCounts& now = after.functions[i];
    CallSum sum;
    if (old.name != now.name || !Difference(old.calls, now.calls, &sum.calls) ||
        !Difference(old.bytes, now.bytes, &sum.bytes) || !Difference(old.time_ns, now.time_ns, &sum.time_ns) ||
        !Difference(old.errors, now.errors, &sum.errors)) {
      return false;
    }
    view->total_calls += now.calls;
    // A reading between two stores of one call has its count without its time: the next interval has the rest.
    if (sum.calls == 0 && sum.time_ns == 0) continue;
    FunctionView function = {
        .name = now.name, .kind = report::KindOf(now.name), .waits = report::Waits(now.name), .sum = sum};
    AddTo(&view->all, sum);
    if (function.waits) AddTo(&view->waiting, sum);
    AddTo(&view->kinds[static_cast<size_t>(function.kind)], sum);
    view->functions.push_back(std::move(function));
  }
  std::stable_sort(view->functions.begin(), view->functions.end(), [](const FunctionView& a, const FunctionView& b) {
    return a.sum.time_ns != b.sum.time_ns ? a.sum.time_ns > b.sum.time_ns : a.sum.calls > b.sum.calls;
  });
  return true;
}

bool AddCopies(const ProcessCounts& before, const ProcessCounts& after, CounterView* view) {
  if (before.copies.size() != after.copies.size()) return false;
  for (size_t i = 0; i < after.copies.size(); ++i) {
    const CopyCounts& old = before.copies[i];
    const CopyCounts& now = after.copies[i];
    CopyView copy = {.direction = now.kind};
    if (!Difference(old.calls, now.calls, &copy.calls) || !Difference(old.bytes, now.bytes, &copy.bytes)) return false;
    if (copy.calls != 0) view->copies.push_back(std::move(copy));
  }
  return true;
}

// Named once, before the first is counted; the first reading may have been before that.
bool AddDecisions(const ProcessCounts& before, const ProcessCounts& after, CounterView* view) {
  if (before.decisions.size() > after.decisions.size()) return false;
  for (size_t i = 0; i < after.decisions.size(); ++i) {
    const DecisionCounts& now = after.decisions[i];
    const DecisionCounts old = i < before.decisions.size() ? before.decisions[i] : DecisionCounts{.name = now.name};
    DecisionView decision = {.name = now.name};
    if (old.name != now.name || !Difference(old.count, now.count, &decision.count) ||
        !Difference(old.bytes, now.bytes, &decision.bytes) ||
        !Difference(old.time_ns, now.time_ns, &decision.time_ns)) {
      return false;
    }
    if (decision.count != 0) view->decisions.push_back(std::move(decision));
  }
  return true;
}

}  // namespace

std::optional<CounterView> RatesBetween(const ProcessCounts& before, const ProcessCounts& after, uint64_t elapsed_ns) {
  if (elapsed_ns == 0 || before.pid != after.pid || before.start_unix_ns != after.start_unix_ns) return std::nullopt;
  CounterView view;
  view.seconds = static_cast<double>(elapsed_ns) / 1e9;
  if (!AddFunctions(before, after, &view) || !AddCopies(before, after, &view) || !AddDecisions(before, after, &view)) {
    return std::nullopt;
  }
  return view;
}

}  // namespace slipstream::top
