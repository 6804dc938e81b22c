#include "policy/helper_thread.h"

#include <pthread.h>
#include <signal.h>

#include <initializer_list>

namespace slipstream::policy {

bool StartHelperThread(const char* name, void* (*body)(void*), void* argument) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  // Faults stay with the thread that makes them: a handler of the program's reports a bad source address there.
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) sigdelset(&all, fault);
  if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return false;
  pthread_t thread;
  const bool started = pthread_create(&thread, nullptr, body, argument) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started) return false;
  pthread_setname_np(thread, name);
  pthread_detach(thread);
  return true;
}

}  // namespace slipstream::policy
