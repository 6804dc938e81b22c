// Shared by the benchmarks that run on a device: sizes of memory, options beside Google Benchmark's, and times.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace bench {

using Clock = std::chrono::steady_clock;

inline constexpr size_t kMiB = size_t{1} << 20;
struct Size {
  size_t bytes;
  const char* name;
};
inline constexpr Size kSizes[] = {
    {2 * kMiB, "2MiB"}, {20 * kMiB, "20MiB"}, {256 * kMiB, "256MiB"}, {1024 * kMiB, "1GiB"}};

inline double Nanoseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::nano>(duration).count();
}

// The smallest value that the given share of them does not exceed; they are sorted.
inline double Percentile(std::vector<double>& values, double share) {
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<size_t>(share * static_cast<double>(values.size()) + 0.999999);
  return values[std::clamp<size_t>(rank, 1, values.size()) - 1];
}

// What two clock readings cost, in ns: half of such pairs cost less.
inline double ClockCost() {
  std::vector<double> values;
  for (int i = 0; i < 1001; ++i) {
    const auto start = Clock::now();
    values.push_back(Nanoseconds(Clock::now() - start));
  }
  return Percentile(values, 0.5);
}

// Takes every `name`, and the number of 1 or more behind it, out of the command line. False: what follows is no such
// number.
inline bool TakeNumber(int* count, char** arguments, const char* name, size_t* number) {
  int kept = 1;
  for (int i = 1; i < *count; ++i) {
    if (std::strcmp(arguments[i], name) != 0) {
      arguments[kept++] = arguments[i];
      continue;
    }
    char* end = nullptr;
    *number = i + 1 < *count ? std::strtoull(arguments[++i], &end, 10) : 0;
    if (end == nullptr || *end != '\0' || *number == 0) return false;
  }
  *count = kept;
  return true;
}

}  // namespace bench
