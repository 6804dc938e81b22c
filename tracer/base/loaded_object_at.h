// Which loaded file an address is in, without the dynamic linker's lock.
//
// Threading: any thread, lock-free, no allocation; also inside a constructor of a library that is being loaded.
// Errors: false for an address in no file, and for every one where the C library is older than glibc 2.35: all that it
//   has to ask with takes the lock, which another thread may hold for as long as a library's constructors run.
#pragma once

#include <dlfcn.h>

// Weak: a glibc without it still loads what is linked to it.
// NOLINTNEXTLINE(readability-redundant-declaration): that is what makes it weak.
extern "C" [[gnu::weak]] int _dl_find_object(void* address, dl_find_object* result) noexcept;

namespace slipstream::tracer {

inline bool CanFindLoadedObjects() { return _dl_find_object != nullptr; }

inline bool LoadedObjectAt(void* address, dl_find_object* result) {
  return CanFindLoadedObjects() && _dl_find_object(address, result) == 0;
}

}  // namespace slipstream::tracer
