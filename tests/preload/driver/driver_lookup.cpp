// A library that looks a function of the driver up, as plug-ins and tools do.

#include <dlfcn.h>

extern "C" [[gnu::visibility("default")]] void* LookUp(const char* name) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  void* volatile found = driver != nullptr ? dlsym(driver, name) : nullptr;  // not the last thing: this library asks
  return found;
}
