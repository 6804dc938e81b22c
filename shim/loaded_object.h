// A shared object that the dynamic loader has in the process, found by an address inside it.
//
// Threading: any thread. The loader's own lock is taken, as by any lazy binding; nobody else waits.
// Hazard: a forked child of a process that has used CUDA is told nothing. A thread of the parent's may have been inside
//   the loader, and fork does not make the lock of its list anew (_dl_load_write_lock; glibc 2.36). The child has what
//   its parent knew (S51); CUDA does not work there. In a child that is the first to use CUDA it does, and the runtime
//   itself, which loads the driver, asks for that lock too.
#pragma once

#include <link.h>

#include <cstdint>
#include <string_view>

namespace slipstream::shim {

struct LoadedObject {
  uintptr_t begin = 0;  // of its mapping; end is one past it. Both 0: no object holds the address, or nobody may ask
  uintptr_t end = 0;
  const char* name = "";  // the loader's, valid while the object is loaded; empty for the program itself
  const ElfW(Dyn) * dynamic = nullptr;

  bool Holds(const void* address) const {
    const auto value = reinterpret_cast<uintptr_t>(address);
    return value >= begin && value < end;
  }

  static LoadedObject At(const void* address);
};

// Whether the loader may be asked for its list of objects.
bool MayAskLoader();

// The process's first call: from here on its forked children go by what is known here, and do not ask the loader.
void ProcessUsesCuda();

// What the object that `caller` is in, or one that it needs, has of the name; null: nothing, or it is the program.
void* FoundFrom(const void* caller, const char* name);

// Whether the address is in this library.
bool IsOurs(const void* address);

// Behind the last slash.
std::string_view BaseName(std::string_view path);

}  // namespace slipstream::shim
