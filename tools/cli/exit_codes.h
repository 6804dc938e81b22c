// The exit statuses of the slipstream command. When it runs a command, it returns that command's own status; the values
// below are then its own failures, with the numbers that env(1), timeout(1) and nohup(1) use.
#pragma once

namespace slipstream::cli {

inline constexpr int kSuccess = 0;
inline constexpr int kFailed = 1;   // a check found problems; what was asked for could not be made; policies or results
                                    // differ, or a command fails on one side only
inline constexpr int kUsage = 2;    // the command line is wrong; policies cannot be compared
inline constexpr int kPartial = 3;  // what was asked for is there, and lacks what could not be read or measured
inline constexpr int kCommandFails = 4;     // `compare`: the command fails, whatever it is run under
inline constexpr int kSlower = 5;           // `compare --fail-if-slower`: shown to be slower by more than that
inline constexpr int kCannotStart = 125;    // slipstream itself: policy refused, library missing
inline constexpr int kNotExecutable = 126;  // the command was found and cannot be executed
inline constexpr int kNotFound = 127;       // there is no such command

}  // namespace slipstream::cli
