#include "policy/helper_thread.h"

#include <pthread.h>
#include <signal.h>

#include <cstddef>
#include <initializer_list>

namespace slipstream::policy {
namespace {

// The default is the process's limit for stacks, which may be one page more than nothing; the driver and CUPTI are
// called on these threads. Only address space until it is used.
constexpr size_t kLeastStackBytes = size_t{1} << 20;

int Create(pthread_t* thread, void* (*body)(void*), void* argument) {
  pthread_attr_t attributes;
  if (const int error = pthread_attr_init(&attributes); error != 0) return error;
  size_t bytes = 0;
  if (pthread_attr_getstacksize(&attributes, &bytes) == 0 && bytes < kLeastStackBytes) {
    pthread_attr_setstacksize(&attributes, kLeastStackBytes);
  }
  const int error = pthread_create(thread, &attributes, body, argument);
  pthread_attr_destroy(&attributes);
  return error;
}

}  // namespace

bool StartHelperThread(const char* name, void* (*body)(void*), void* argument) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  // Faults stay with the thread that makes them: a handler of the program's reports a bad source address there.
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) sigdelset(&all, fault);
  if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return false;
  pthread_t thread;
  const bool started = Create(&thread, body, argument) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started) return false;
  pthread_setname_np(thread, name);
  pthread_detach(thread);
  return true;
}

}  // namespace slipstream::policy
