// `slipstream record PID on|off`: turns the recording of a running process on and off.
//
// The process was started by `slipstream run` and has a recorder (tracer.record is "on" or "paused"). It is asked
// through its counter file (tracer/base/record_control.h), which only its user can write, and has obeyed when this
// returns.
//
// Threading: call from one thread.
// Errors: the return value is the exit status (exit_codes.h); standard error says why not.
#pragma once

#include <string>

namespace slipstream::cli {

struct RecordOptions {
  std::string pid{};
  std::string what{};         // "on" or "off"
  std::string proc{"/proc"};  // for tests
};

int Record(const RecordOptions& options);

}  // namespace slipstream::cli
