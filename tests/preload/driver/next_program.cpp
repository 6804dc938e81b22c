// C5: RTLD_NEXT means "behind the caller" under a library that stands in front of dlsym.

#include <dlfcn.h>

#include <cstdio>
#include <cstring>

extern "C" const char* Which();

int main() {
  std::printf("next: %s\n", Which());
  auto* const of_driver =
      reinterpret_cast<const char* (*)()>(dlsym(dlopen("libpreload_next_first.so", RTLD_NOLOAD | RTLD_NOW), "cuWhich"));
  std::printf("next of the driver's name: %s\n", of_driver != nullptr ? of_driver() : "none");
  std::printf("default: %s\n",
              dlsym(RTLD_DEFAULT, "Which") == reinterpret_cast<void*>(&Which) ? "the first" : "another");
  // What is not there stays so, with the loader's own words.
  std::printf("missing: %p\n", dlsym(RTLD_DEFAULT, "NoSuchFunctionAnywhere"));
  const char* const error = dlerror();
  std::printf("error: %s\n",
              error != nullptr && std::strstr(error, "NoSuchFunctionAnywhere") != nullptr ? "said" : "none");
  std::printf("missing of the driver's: %p\n", dlsym(RTLD_DEFAULT, "cuNoSuchFunctionAnywhere"));
  std::printf("error: %s\n", dlerror() != nullptr ? "said" : "none");
  return 0;
}
