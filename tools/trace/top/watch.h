// Whatever can be looked at again and again: a run (run_watch.h), or all runs of the machine (machine_watch.h).
//
// Threading: an object belongs to one thread.
#pragma once

#include <cstdint>

#include "tools/trace/top/view.h"

namespace slipstream::top {

class Watch {
 public:
  Watch() = default;
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  virtual ~Watch() = default;

  // A reading of all files at `now_ns` of CLOCK_MONOTONIC; of traces as much as ReadOn takes in one go.
  virtual void Read(uint64_t now_ns) = 0;
  // Reads on in traces. True: up to the end of all of them.
  virtual bool ReadOn() = 0;
  // What happened between the last two readings, and in the last seconds of the traces.
  virtual View Look(uint64_t now_ns) = 0;
};

}  // namespace slipstream::top
