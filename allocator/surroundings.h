// What the allocator must know of the rest of the process and cannot see from here: the shim answers.
//
// Threading: the functions may be called from any thread. None is null.
#pragma once

#include "allocator/mutant.h"

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

  // Returns when all work has run whose results the host could look at without asking, as a free that waits for the
  // device would (S30b). False: that cannot be said, so the free must be the real one.
  bool (*wait_for_host_effects)();

  // Starts a thread of slipstream's own, detached, with the program's signals blocked. `name` has at most 15
  // characters.
  bool (*start_thread)(const char* name, void* (*body)(void*), void* argument);
};

}  // namespace slipstream::allocator
