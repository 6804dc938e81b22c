// The variable that tells a process that it is the root of a run: the one that `slipstream run` became.
//
// "PID:STARTED:COMMAND": its number, when it started (field 22 of /proc/PID/stat, in clock ticks since boot; 0: not
// known), and the path of the slipstream command, which ends the run. An exec keeps both numbers. A process that has
// the number by chance, in another PID namespace or after the root is gone, started at another time.
//
// Threading: pure functions. Parsing is async-signal-safe: no allocation, no lock.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace slipstream::policy {

struct RunRoot {
  std::int64_t pid = 0;
  std::uint64_t started = 0;
  std::string_view command{};  // a view into the text
};

std::string FormatRunRoot(const RunRoot& root);

// False where the text is not what FormatRunRoot() makes.
bool ParseRunRoot(std::string_view text, RunRoot* root) noexcept;

// Field 22 of the text of /proc/PID/stat; 0 where it is not there. The name of the program, in parentheses, may hold
// anything.
std::uint64_t StartedOf(std::string_view stat) noexcept;

}  // namespace slipstream::policy
