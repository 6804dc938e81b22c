#include "tools/trace/db/step_names.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <numeric>

namespace slipstream::trace_db {
namespace {

constexpr std::array<std::string_view, 11> kBases = {
    "profilerstep", "step",          "train step", "training step",   "global step",        "iteration",
    "iter",         "training iter", "train iter", "train iteration", "training iteration",
};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

char Simple(char c) {
  if (c >= 'A' && c <= 'Z') return static_cast<char>(c - 'A' + 'a');
  return c == '_' || c == '-' ? ' ' : c;
}

}  // namespace

std::optional<StepName> StepNameOf(std::string_view text) {
  constexpr size_t kLongest = 64;
  if (text.size() > kLongest) return std::nullopt;
  size_t end = text.size();
  while (end > 0 && IsDigit(text[end - 1])) --end;
  StepName name;
  uint64_t number = 0;
  const auto [last, problem] = std::from_chars(text.data() + end, text.data() + text.size(), number);
  if (end != text.size()) {
    if (problem != std::errc()) return std::nullopt;  // no number of a step has so many digits
    name.number = number;
  }
  std::string_view base = text.substr(0, end);
  while (!base.empty() && std::string_view(" #:_-=").find(base.back()) != std::string_view::npos) base.remove_suffix(1);
  std::transform(base.begin(), base.end(), std::back_inserter(name.base), Simple);
  if (std::find(kBases.begin(), kBases.end(), name.base) == kBases.end()) return std::nullopt;
  return name;
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
