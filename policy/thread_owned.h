// What a thread has of its own, where that is more than a few words.
//
// It lies on pages that the thread maps when it first needs them. The static TLS block is no place for it: the loader
// takes the block of a preloaded library out of the stack of every thread (pthread_attr_setstacksize: the smallest is
// 16 KiB), also of a thread that never calls CUDA, and of one in a program that does not know of us.
//
//   Get    makes it: all zeros, then T's own beginning
//   Find   what Get has made; null where it has not
//
// Threading: a thread has its own.
// Hazard: a thread's first Get makes a system call, nothing else: it may be made between vfork and exec, where it is for
//   the thread that called vfork. A signal handler that interrupts it, and is the first to ask for another type, leaks
//   that.
// Ownership: ends with the thread, in the last round of its destructors of thread-specific data: those of before still
//   find it. A thread that has its first in one of them leaks it. T's destructor is not run, and need not be.
// Errors: Get is null where there is no memory or no key (pthread_key_create) left; it may be asked again.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>

namespace slipstream::policy {

class ThreadPages {
 public:
  // At least so many bytes of zeros for the calling thread; null: there are none. *where, a place in its TLS block, is
  // set to null when it has ended, before they are taken away.
  static void* Take(size_t bytes, void** where);
  // While the library is loaded: early, so that Take never allocates.
  static void Prepare() noexcept;
};

template <typename T>
class ThreadOwned {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  static T* Find() { return static_cast<T*>(t_block); }
  static T* Get() {
    T* const block = Find();
    return block != nullptr ? block : Make();
  }

 private:
  [[gnu::noinline, gnu::cold]] static T* Make() {
    void* const memory = ThreadPages::Take(sizeof(T), &t_block);
    if (memory == nullptr) return nullptr;
    T* const made = new (memory) T();
    t_block = made;
    return made;
  }

  [[gnu::visibility("hidden")]] inline static constinit thread_local void* t_block = nullptr;
};

}  // namespace slipstream::policy
