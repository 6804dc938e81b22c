// What a report comes to: where most of the time goes that somebody could get back, and at which line.
//
// Its figures are those of the report's tables. verdict_text.h makes a sentence of it.
//
// Threading: pure functions.
// Times are ns of the measured time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tools/trace/report/report.h"

namespace slipstream::report {

enum class VerdictKind : uint8_t {
  kNothing,               // no time was measured
  kGpuBound,              // a device computes for most of the time, or no single loss is worth a word
  kOutsideCalls,          // these are times in which the device is idle, by what the host is at
  kLaunching,             //
  kSynchronizing,         //
  kInCopy,                //
  kAllocating,            //
  kOtherCalls,            //
  kExposedCopies,         // it only copies or sets memory
  kExposedCommunication,  // it communicates and computes nothing
  kBetweenSteps,          // the pauses between steps are longer than any loss within them
  kDevicesNotKnown,       // nothing is known of devices: what the host did
  // These stand above what the process is held up by, as `kind` alone.
  kNoSteps,   // no steps were found
  kSlowRank,  // other ranks wait for the process, or its steps are longest
};
// As the JSON spells it.
std::string_view NameOf(VerdictKind kind);

struct Verdict {
  size_t process = 0;  // index of Report::processes: the one that is shown
  VerdictKind kind = VerdictKind::kNothing;
  VerdictKind bottleneck = VerdictKind::kNothing;  // of the process by itself
  bool records_missing = false;                    // of the process: the figures are of what is left
  std::optional<size_t> device;  // index of ProcessReport::devices, the busiest; nothing: none is known
  std::optional<Part> part;      // kDevicesNotKnown: the longest one of the host
  int64_t busy = 0;              // in which the device ran a kernel
  int64_t time = 0;              // what the bottleneck is about
  int64_t whole = 0;             // what `time` is a share of: all measured time; kBetweenSteps: the
                                 // time from one step to the next
  double per_step = 0;           // `time`, in a step
  double divisor = 1;            // that makes it of a step: of what devices did, or of the host
  // The line that has most of `time`, or of kernel time if GPU-bound; nothing: none is known.
  std::optional<LineReport> line;
  bool before_line = false;  // before its calls; else in them, or launched by them
  int64_t line_time = 0;     // how much; kBetweenSteps: of all pauses, as the table of the whole time has it
  std::string kernel;        // kGpuBound: the one with most time, of the line if that is there
  int64_t kernel_time = 0;   //
};

// Nothing: there are no processes.
std::optional<Verdict> VerdictOf(const Report& report);

}  // namespace slipstream::report
