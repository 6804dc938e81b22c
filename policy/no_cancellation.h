// While it lives, pthread_cancel does nothing to the calling thread: for code that waits, or calls the driver or the C
// library, with something in its hands that unwinding would lose, or below a function that lets nothing through (a
// noexcept, a catch of everything: the C library ends a process in which a cancellation is caught and not thrown on).
//
// It stands outside of that, as a cancellation of asynchronous type that came meanwhile acts at its end.
//
// Threading: of the calling thread. Two exchanges of a word, no system call.
// Hazard: what unwinds a cancelled thread is the C library's. Frames that it comes through may have nothing to destroy
//   (shim/entry.h).
#pragma once

#include <pthread.h>

namespace slipstream::policy {

class NoCancellation {
 public:
  NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() noexcept(false) { pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace slipstream::policy
