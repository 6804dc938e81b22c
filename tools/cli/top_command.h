// `slipstream top`: shows what programs do while they run: all under slipstream on this machine, or those of one run.
//
// On a terminal it redraws a view; otherwise, or with `once` or `json`, it prints text. It writes only to standard
// output and standard error, and the observed program does not notice.
//
// Threading: call from one thread.
// Hazard: on a terminal a signal that would end the process (SIGINT, SIGTERM, SIGHUP) ends it after the terminal is as
// it was before.
// Errors: the return value is the exit status (exit_codes.h).
#pragma once

#include <string>

namespace slipstream::cli {

struct TopOptions {
  std::string run{};           // a process's number, or a run's directory; empty: all that this user may look at
  bool once = false;           // one look, and the end
  bool json = false;           // one object a line
  double interval_s = 1;       // between two looks
  std::string proc = "/proc";  // what the system says about processes
};

int Top(const TopOptions& options);

}  // namespace slipstream::cli
