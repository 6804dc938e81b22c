// How long a piece of work will still take, by how it went so far.
//
// Threading: an object belongs to one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace slipstream::cli {

// Nothing: less than a second or a hundredth of it is behind, which tells little.
std::optional<double> SecondsLeft(uint64_t done, uint64_t all, uint64_t elapsed_ns);

// Of one piece of work behind another.
class TimeLeft {
 public:
  // ", about 12 s left"; empty: not known. So much is done at `now_ns`, of a clock that does not go back. Where less is
  // done than before, or more or less is to be done in all, another piece has begun.
  std::string At(uint64_t done, uint64_t all, uint64_t now_ns);

 private:
  bool begun_ = false;
  uint64_t all_ = 0;
  uint64_t last_ = 0;
  uint64_t first_ = 0;  // what was done when it was seen first, and when
  uint64_t first_ns_ = 0;
};

}  // namespace slipstream::cli
