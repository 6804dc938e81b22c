// Times and sizes that tests of advice are written in.
//
// Threading: none of its own.
#pragma once

#include <cstdint>

namespace slipstream::advise {

inline constexpr int64_t kUs = 1000;
inline constexpr int64_t kMs = 1'000'000;
inline constexpr int64_t kMiB = int64_t{1} << 20;
inline constexpr int64_t kGiB = int64_t{1} << 30;

}  // namespace slipstream::advise
