// The thread's errno, as it was.
#pragma once

#include <cerrno>

namespace slipstream::transfer {

// What we ask of the system in a call of the program's must not be seen in its errno.
class KeptErrno {
 public:
  KeptErrno() : value_(errno) {}
  ~KeptErrno() { errno = value_; }
  KeptErrno(const KeptErrno&) = delete;
  KeptErrno& operator=(const KeptErrno&) = delete;

 private:
  const int value_;
};

}  // namespace slipstream::transfer
