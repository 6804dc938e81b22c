// Pauses and resumes the recording where a step of the program's begins, for a policy that wants some steps only.
//
// Steps are the NVTX ranges that are named as steps and that the first thread which has any pushes: by the numbers in
// their names, or counted from 0 where they have none. What comes behind a step, up to the next one, goes with it. A
// range around the whole loop that is named as a step takes the place of its steps. Where a program names none, its
// lines tell (calls/line_steps.h).
//
// Threading: Begins from any thread, lock-free.
// Hazard: runs inside the program's calls of NVTX.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "tracer/spool/recorder.h"

namespace slipstream::tracer {

class StepWindow {
 public:
  // A range of this name begins on the calling thread, and not within a step. True: it is a step.
  bool Begins(std::string_view name, Recorder* recorder);
  // Whether there was any. Any thread.
  bool any() const { return thread_.load(std::memory_order_relaxed) != 0; }

 private:
  std::atomic<uint32_t> thread_{0};  // the system's number of it
  uint64_t next_ = 0;                // that thread's
};

}  // namespace slipstream::tracer
