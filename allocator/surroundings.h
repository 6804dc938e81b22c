// What the allocator must know of the rest of the process and cannot see from here: the shim answers.
//
// Threading: the functions may be called from any thread. None is null.
#pragma once

#include <cuda.h>

#include "cuda/mutant.h"

namespace slipstream::allocator {

struct Surroundings {
  // Calls work(argument) while no stream capture can begin; false, without calling it, while one is live. A
  // context-wide event or wait would fail and break the capture (measured). `work` neither waits for the device nor
  // takes a lock that is held around a driver call.
  bool (*without_capture)(void (*work)(void* argument), void* argument);
  template <typename Work>
  bool WithoutCapture(const Work& work) const {
    if (Broken(Mutant::kS37)) {
      work();
      return true;
    }
    return without_capture([](void* argument) { (*static_cast<const Work*>(argument))(); }, const_cast<Work*>(&work));
  }

  // Whether a stream capture may be live.
  bool (*capture_live)();

  // Returns when all work of the context has run whose results the host could look at without asking, as a free that
  // waits for the context would (S30b); null: of every context. False: that cannot be said, so the free must be the
  // real one.
  bool (*wait_for_host_effects)(CUcontext context);

  // Whether something else than work of a device may reach the program's device memory: a transport that does so by
  // itself is loaded (S22).
  bool (*reached_from_outside)();

  // Whether a thread beside the calling one has work of its own, which a wait of the whole device would hold (S65).
  bool (*others_have_work)();

  // Starts a thread of slipstream's own, detached, with the program's signals blocked. `name` has at most 15
  // characters.
  bool (*start_thread)(const char* name, void* (*body)(void*), void* argument);
};

}  // namespace slipstream::allocator
