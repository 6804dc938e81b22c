#include "policy/nearest.h"

#include <algorithm>
#include <vector>

namespace slipstream::policy {
namespace {

// Longer than any name of ours and any slip of a hand; keeps the quadratic cost small for a file made to be slow.
constexpr std::size_t kLongestGuess = 128;

std::string_view LastPart(std::string_view name) { return name.substr(name.rfind('.') + 1); }

}  // namespace

std::size_t EditDistance(std::string_view a, std::string_view b) {
  // Three rows of the usual table (optimal string alignment).
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before.swap(last);
    last.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::string Nearest(std::string_view name, std::span<const std::string> candidates) {
  if (name.empty() || name.size() > kLongestGuess) return {};
  const std::string* nearest = nullptr;
  std::size_t distance = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t here = EditDistance(name, candidate);
    // As many edits as the candidate is long would make anything near a short name.
    if (here < distance && here < candidate.size()) {
      distance = here;
      nearest = &candidate;
    }
  }
  if (nearest != nullptr) return *nearest;
  for (const std::string& candidate : candidates) {
    if (LastPart(candidate) != LastPart(name)) continue;
    if (nearest != nullptr) return {};
    nearest = &candidate;
  }
  return nearest != nullptr ? *nearest : std::string();
}

}  // namespace slipstream::policy
