// While it lives, new files are accessible to their owner only, whatever the umask was.
//
// mkdtemp(3) and mkostemp(3) take away what the umask says, the owner's own rights too.
// Threading: the umask is the process's, so only where there is one thread.
#pragma once

#include <sys/stat.h>

namespace slipstream::cli {

class PrivateUmask {
 public:
  PrivateUmask() : before_(umask(S_IRWXG | S_IRWXO)) {}
  ~PrivateUmask() { umask(before_); }
  PrivateUmask(const PrivateUmask&) = delete;
  PrivateUmask& operator=(const PrivateUmask&) = delete;

 private:
  const mode_t before_;
};

}  // namespace slipstream::cli
