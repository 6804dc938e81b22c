// The fences of one block: an event for each context that could have used it, behind all that was submitted to that
// context before the block was freed (S30).
//
// An event belongs to the context that is current when it is made, and only that context's work can be captured in it
// (cuda.h, cuCtxRecordEvent); any context can wait for it (cuCtxWaitEvent). So a device that comes into use later adds
// an event, and one that is reset takes its events along: nothing is pending there any more.
// Threading: one thread at a time, whoever has the block.
// Ownership: events are kept for the next block, never destroyed.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/contexts.h"

namespace slipstream::allocator {

class Fences {
 public:
  enum class State : uint8_t {
    kPassed,
    kPending,
    kBroken,  // the driver answers with an error
  };

  // Behind all work of the contexts so far, in place of what it stood behind before. False: a context cannot be fenced.
  // No capture may be live.
  bool Record(cuda::Contexts& contexts, const cuda::Contexts::Set& set);

  // Whether all of that has run.
  State Ask(const cuda::Contexts& contexts) const;

  // Makes all later work of the context wait for it. False: the driver refuses. No capture may be live.
  bool HoldBehind(const cuda::Contexts& contexts, CUcontext context) const;

  // Waits for it on the host. False: the driver answers with an error.
  bool Wait(const cuda::Contexts& contexts) const;

  // Whether there are events to be used again.
  bool empty() const { return events_.empty(); }

 private:
  struct Event {
    CUdevice device;
    uint32_t life;  // cuda::Contexts::Life of the device when it was made
    CUevent event;
  };

  bool MakeAt(size_t place, const cuda::Contexts& contexts, const cuda::Contexts::Set::Entry& entry);
  // Its context is gone, and all work with it.
  static bool Gone(const cuda::Contexts& contexts, const Event& event) {
    const uint32_t life = contexts.Life(event.device);
    return life != event.life && life % 2 == 0;
  }
  // Its context is going: the event must not be touched, and its work may still run.
  static bool Going(const cuda::Contexts& contexts, const Event& event) { return contexts.Life(event.device) % 2 != 0; }

  std::vector<Event> events_;
  size_t recorded_ = 0;  // the first ones; the others are spare
};

}  // namespace slipstream::allocator
