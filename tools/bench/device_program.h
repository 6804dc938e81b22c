// What the benchmarks share that run on a device: the sizes of memory, and options beside Google Benchmark's.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace bench {

using Clock = std::chrono::steady_clock;

inline constexpr size_t kMiB = size_t{1} << 20;
struct Size {
  size_t bytes;
  const char* name;
};
inline constexpr Size kSizes[] = {
    {2 * kMiB, "2MiB"}, {20 * kMiB, "20MiB"}, {256 * kMiB, "256MiB"}, {1024 * kMiB, "1GiB"}};

// Takes `name` and the number of 1 or more that follows it out of the command line, as often as they are there. False:
// what follows is no such number.
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
