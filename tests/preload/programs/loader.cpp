// A program that knows nothing of CUDA (it links no libcudart) and dlopens libraries that do, as python does.

#include <dlfcn.h>

#include <cstdio>
#include <string>

// loader FUNCTION LIBRARY...: calls FUNCTION of each, twice over. "nothing" as FUNCTION only loads them.
int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "nothing";
  for (int round = 0; round < 2; ++round) {
    for (int i = 2; i < argc; ++i) {
      void* const handle = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
      if (handle == nullptr) {
        std::printf("%s\n", dlerror());
        return 1;
      }
      if (name == "nothing") continue;
      auto* const function = reinterpret_cast<int (*)()>(dlsym(handle, name.c_str()));
      std::printf("%s %d\n", name.c_str(), function());
    }
  }
  return 0;
}
