// `slipstream top`: what a running program does, while it runs.
//
// On a terminal a view that is drawn again and again; else, or with `once` or `json`, text. Nothing is written anywhere
// but to standard output and standard error, and the program that is looked at does not know.
//
// Threading: call from one thread.
// Hazard: on a terminal a signal that would end the process (SIGINT, SIGTERM, SIGHUP) ends it after the terminal is as
// it was before.
// Errors: the return value is the exit status (exit_codes.h).
#pragma once

#include <string>

namespace slipstream::cli {

struct TopOptions {
  std::string run{};      // a process's number, or a run's directory; empty: the only run of this user
  bool once = false;      // one look, and the end
  bool json = false;      // one object a line
  double interval_s = 1;  // between two looks
};

int Top(const TopOptions& options);

}  // namespace slipstream::cli
