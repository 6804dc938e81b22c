// The log: what slipstream says about itself inside somebody else's process.
//
// Purpose: one message, one line, with time (UTC), process id and level, to standard error or to a size-limited file.
//   Silent until ConfigureLog() turns it on.
// Threading: everything may be called from any thread. A mutex is held during the write, so never log while holding a
//   lock that a CUDA call may want, and never on a hot path; ask LogEnabled() before building a message.
// Hazard: a forked child says nothing (the mutex may be held by a thread that the child does not have).
//   Not for signal handlers. errno is preserved. The spdlog logger behind it is leaked, on purpose: it
//   outlives every static destructor.
// Errors: nothing throws, nothing aborts, SIGPIPE and SIGXFSZ are kept from the process. If a file cannot be opened, is
//   not a regular file, has another owner or a second hard link, or is reached by a symbolic link, one line on standard
//   error says so and the log is off. Several processes may share a file: lines are appended whole, and the process
//   that finds it full rotates it for all; what the others write at that moment is lost.

#pragma once

#include <string_view>

#include "policy/policy.h"

namespace slipstream::policy {

// Turns the log on (or off) as `log` says. May be called again; messages of other threads go to the old or the new one.
// Opens no file: the first message does.
void ConfigureLog(const Log& log) noexcept;

// Whether a message of this level would be written. One relaxed load. LogEnabled(kOff) is false.
bool LogEnabled(LogLevel level) noexcept;

void LogError(std::string_view message) noexcept;
void LogWarn(std::string_view message) noexcept;
void LogInfo(std::string_view message) noexcept;
void LogDebug(std::string_view message) noexcept;

// "slipstream[pid]: message" on standard error, the first time it is called in a process; later calls do
// nothing. For "the policy is broken, passing through": needs no configuration, no allocation and no lock.
// Messages are cut at 2 KiB.
void LogOnceToStderr(std::string_view message) noexcept;

}  // namespace slipstream::policy
