#include "tools/compare/schedule.h"

#include <algorithm>
#include <random>
#include <utility>

namespace slipstream::compare {

std::array<size_t, 2> OrderOf(size_t pair) {
  return pair % 2 == 0 ? std::array<size_t, 2>{0, 1} : std::array<size_t, 2>{1, 0};
}

std::vector<std::array<size_t, 2>> RandomOrders(size_t pairs, uint32_t seed) {
  // The standard says what the engine draws, but not what a distribution or std::shuffle() makes of it.
  std::mt19937 random(seed);
  std::vector<std::array<size_t, 2>> orders(pairs);
  for (size_t from = 0; from < pairs; from += kBlockOfPairs) {
    const size_t count = std::min(kBlockOfPairs, pairs - from);
    const size_t begins_with = random() % 2;
    for (size_t i = 0; i < count; ++i) orders[from + i] = OrderOf(i + begins_with);
    for (size_t i = count; i > 1; --i) std::swap(orders[from + i - 1], orders[from + random() % i]);
  }
  return orders;
}

double SecondsLeft(size_t done_runs, double done_seconds, size_t all_runs, double current_seconds) {
  if (done_runs == 0 || done_runs >= all_runs) return 0;
  const double mean = done_seconds / static_cast<double>(done_runs);
  const double after_this = mean * static_cast<double>(all_runs - done_runs - 1);
  return after_this + std::max(0.0, mean - current_seconds);
}

bool FitsBudget(double budget, double elapsed, size_t runs, double run_seconds) {
  if (budget <= 0) return true;
  const double mean = runs == 0 ? 0 : run_seconds / static_cast<double>(runs);
  return elapsed + 2 * mean <= budget;
}

}  // namespace slipstream::compare
