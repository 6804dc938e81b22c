// What of a device's time belongs to which line of the program: its idle time by what the host was at, and its kernels
// by the line that launched them.
//
// Threading: plain data.
// Times are ns of the measured time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace slipstream::report {

// A line of the program, as calls are put down to it.
struct LineReport {
  bool known = false;          // else nobody knows which
  bool of_step_thread = true;  // else calls of other threads
  std::string file;
  std::optional<int64_t> line;
  std::string function;
};

// Of the idle time of a device. All with one `host` add up to DeviceTimes::idle[host].
struct IdleLineReport {
  size_t host = 0;           // of kHostStates; kHostOutside: what lay before a call of the line
  bool before_call = false;  // it is such
  bool no_call = false;      // behind the last call of all: of no line
  LineReport line;
  int64_t time = 0;
};

// Of the time of kernels that began in the measured time. All of a device add up to DeviceReport::kernel_time.
struct KernelLineReport {
  bool call_known = false;  // else the call that launched them is not in the trace
  LineReport line;
  uint64_t launches = 0;
  int64_t time = 0;        // their durations, summed up
  std::string top_kernel;  // the short name with most of it
  int64_t top_time = 0;    // how much
};

}  // namespace slipstream::report
