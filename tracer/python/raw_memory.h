// Reads memory whose layout is known only as offsets, such as another program's structures.
//
// Threading: any thread.
// Hazard: Load trusts its caller; if the address itself is in doubt, ask IsReadable first.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace slipstream::tracer {

// A value at an address, aligned or not. memcpy, because no object of type T was ever made there.
template <typename T>
T Load(uintptr_t address) {
  T value;
  std::memcpy(&value, reinterpret_cast<const void*>(address), sizeof(T));
  return value;
}

// Whether the aligned eight bytes at `address` are mapped and readable: false for an unaligned one. It is a system
// call, without a file or a signal handler, and changes nothing: the kernel copies the mask before it looks at `how`,
// which has no valid value. (Linux, rt_sigprocmask: EFAULT for the copy, else EINVAL.)
inline bool IsReadable(uintptr_t address) {
  constexpr int kNoSuchHow = -1;
  constexpr size_t kMaskBytes = 8;
  if (address == 0 || address % kMaskBytes != 0) return false;
  const int kept = errno;  // the program under us may be about to read it
  const bool readable = syscall(SYS_rt_sigprocmask, kNoSuchHow, address, nullptr, kMaskBytes) == 0 || errno != EFAULT;
  errno = kept;
  return readable;
}

}  // namespace slipstream::tracer
