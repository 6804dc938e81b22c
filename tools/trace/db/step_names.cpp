#include "tools/trace/db/step_names.h"

#include <algorithm>
#include <numeric>

#include "tracer/ranges/step_text.h"

namespace slipstream::trace_db {
std::optional<StepName> StepNameOf(std::string_view text) {
  const std::optional<tracer::StepText> step = tracer::StepText::Of(text);
  if (!step) return std::nullopt;
  return StepName{.base = std::string(step->base()), .number = step->number()};
}

std::vector<bool> StepsAmong(std::span<const RangeTimes> ranges) {
  constexpr size_t kNone = SIZE_MAX;
  // Each behind those that it lies in. Of two with the same times, the one that ended first lies in the other.
  std::vector<size_t> order(ranges.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (ranges[a].start != ranges[b].start) return ranges[a].start < ranges[b].start;
    return ranges[a].end != ranges[b].end ? ranges[a].end > ranges[b].end : a > b;
  });
  std::vector<size_t> parents(ranges.size(), kNone);  // the innermost one that it lies in
  std::vector<size_t> open;
  for (const size_t at : order) {
    // What lies in one that ends before this one lies in this one, too.
    while (!open.empty() && ranges[open.back()].end < ranges[at].end) open.pop_back();
    if (!open.empty()) parents[at] = open.back();
    open.push_back(at);
  }
  std::vector<size_t> held(ranges.size());
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    if (parents[*at] != kNone) held[parents[*at]] += held[*at] + 1;
  }
  std::vector<bool> steps(ranges.size());
  std::vector<bool> around(ranges.size());
  for (const size_t at : order) {
    const size_t parent = parents[at];
    if (parent != kNone && !around[parent]) continue;
    const size_t others = (parent == kNone ? ranges.size() : held[parent]) - 1;
    around[at] = held[at] >= 2 && held[at] > others / 2;
    steps[at] = !around[at];
  }
  return steps;
}

}  // namespace slipstream::trace_db
