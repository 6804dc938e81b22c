#include "allocator/driver.h"

#include <dlfcn.h>

namespace slipstream::allocator {
namespace {

constexpr int kFirstDriverWithContextEvents = 12050;

}  // namespace

bool LoadDriver(Driver* driver) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
  if (library == nullptr) return false;
  bool complete = true;
  // Through a second macro, without '#' on the first: cuda.h renames functions by macros, and the row names what is
  // exported.
#define SLIPSTREAM_TEXT(name) #name
#define SLIPSTREAM_FIND(member, name)                                                                 \
  driver->member = reinterpret_cast<decltype(driver->member)>(dlsym(library, SLIPSTREAM_TEXT(name))); \
  complete = complete && driver->member != nullptr;
  SLIPSTREAM_ALLOCATOR_DRIVER_FUNCTIONS(SLIPSTREAM_FIND)
#undef SLIPSTREAM_FIND
#undef SLIPSTREAM_TEXT
  int version = 0;
  return complete && driver->cuDriverGetVersion(&version) == CUDA_SUCCESS && version >= kFirstDriverWithContextEvents;
}

}  // namespace slipstream::allocator
