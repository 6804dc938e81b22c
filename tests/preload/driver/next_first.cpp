// Asks for what stands behind it in the global scope. A look-up that did not leave its own return address on the stack
// would find this library's functions again, and never come back.

#include <dlfcn.h>

namespace {
const char* Next(const char* name) {
  auto* const next = reinterpret_cast<const char* (*)()>(dlsym(RTLD_NEXT, name));
  return next != nullptr ? next() : "none";
}
}  // namespace

extern "C" [[gnu::visibility("default")]] const char* Which() { return Next("Which"); }
extern "C" [[gnu::visibility("default")]] const char* cuWhich() { return Next("cuWhich"); }
