// Linux's futex between threads of this process: sleep until a word of memory changes, and wake the sleepers.
//
// Threading: any thread. Wake is one system call and takes no lock of ours.
// Errors: none; both may return early, so that callers look again. errno stays as it was: the program under us may be
//   about to read it.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>

namespace slipstream::tracer {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) && std::atomic<uint32_t>::is_always_lock_free);

// Sleeps while the word has this value, and no longer than the given time.
inline void FutexWait(std::atomic<uint32_t>& word, uint32_t value, uint64_t timeout_ns) {
  const int kept = errno;
  const timespec timeout = {.tv_sec = static_cast<time_t>(timeout_ns / 1'000'000'000u),
                            .tv_nsec = static_cast<long>(timeout_ns % 1'000'000'000u)};
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, &timeout, nullptr, 0);
  errno = kept;
}

inline void FutexWake(std::atomic<uint32_t>& word) {
  const int kept = errno;
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  errno = kept;
}

}  // namespace slipstream::tracer
