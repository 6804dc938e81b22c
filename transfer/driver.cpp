#include "transfer/driver.h"

#include <dlfcn.h>

namespace slipstream::transfer {
namespace {

// cuda.h renames some functions by macros (cuMemHostRegister is cuMemHostRegister_v2): the table names what is
// exported.
#define SLIPSTREAM_TEXT(name) #name

template <typename Function>
bool Find(void* library, const char* name, Function** function) {
  *function = reinterpret_cast<Function*>(dlsym(library, name));
  return *function != nullptr;
}

}  // namespace

bool LoadDriver(Driver* driver) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
  if (library == nullptr) return false;
  bool complete = true;
#define SLIPSTREAM_REQUIRED(member, name) complete &= Find(library, SLIPSTREAM_TEXT(name), &driver->member);
#define SLIPSTREAM_OPTIONAL(member, name) (void)Find(library, SLIPSTREAM_TEXT(name), &driver->member);
  SLIPSTREAM_DRIVER_FUNCTIONS(SLIPSTREAM_REQUIRED, SLIPSTREAM_OPTIONAL)
#undef SLIPSTREAM_REQUIRED
#undef SLIPSTREAM_OPTIONAL
  return complete;
}

}  // namespace slipstream::transfer
