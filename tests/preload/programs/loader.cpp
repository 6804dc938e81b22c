// A program that knows nothing of CUDA (it links no libcudart) and dlopens libraries that do, as python does.

#include <dlfcn.h>

#include <cstddef>
#include <cstdio>
#include <string>

namespace {

template <typename... Arguments>
int Call(void* library, const char* name, Arguments... arguments) {
  auto* const function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name));
  return function != nullptr ? function(arguments...) : -1;
}

// What CuPy and JAX do: the functions of a libcudart by their names.
void UseByName(void* library) {
  void* memory = nullptr;
  int version = 0;
  const int allocated = Call(library, "cudaMalloc", &memory, size_t{4096});
  const int freed = Call(library, "cudaFree", memory);
  const int asked = Call(library, "cudaRuntimeGetVersion", &version);
  std::printf("by name: %d %d %d, version %d\n", allocated, freed, asked, version);
  const bool leaves_an_error = dlerror() != nullptr;
  const bool has_none_of_that_name = dlsym(library, "cudaNoSuchFunction") == nullptr && dlerror() != nullptr;
  std::printf("an error of the loader: %d, where there is none of the name: %d\n", leaves_an_error,
              has_none_of_that_name);
}

// The same of libcuda's.
void UseDriverByName(void* library) {
  void* context = nullptr;
  unsigned long long memory = 0;
  std::printf("%d", Call(library, "cuInit", 0U));
  std::printf(" %d", Call(library, "cuDevicePrimaryCtxRetain", &context, 0));
  const bool leaves_an_error = dlerror() != nullptr;
  std::printf(" %d", Call(library, "cuCtxSetCurrent", context));
  void* found = nullptr;
  std::printf(" %d", Call(library, "cuGetProcAddress_v2", "cuDeviceGetCount", &found, 13000, 0ULL, nullptr));
  const bool answer_leaves_an_error = dlerror() != nullptr;
  std::printf(" %d", Call(library, "cuMemAlloc_v2", &memory, size_t{4096}));
  std::printf(" %d", Call(library, "cuMemFree_v2", memory));
  std::printf(", an error of the loader: %d\n", leaves_an_error || answer_leaves_an_error);
}

// As CuPy does when it is imported.
void LookUpOften(void* library) {
  int found = 0;
  for (int i = 0; i < 200; ++i) found += dlsym(library, "cudaMalloc") != nullptr ? 1 : 0;
  std::printf("found %d times\n", found);
}

}  // namespace

// loader FUNCTION LIBRARY...: calls FUNCTION of each, twice over. "nothing" as FUNCTION only loads them; with "by_name"
// and "look_up_often" they are libcudarts, with "driver_by_name" libcudas.
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
      if (name == "by_name") {
        UseByName(handle);
        continue;
      }
      if (name == "driver_by_name") {
        UseDriverByName(handle);
        continue;
      }
      if (name == "look_up_often") {
        LookUpOften(handle);
        continue;
      }
      auto* const function = reinterpret_cast<int (*)()>(dlsym(handle, name.c_str()));
      std::printf("%s %d\n", name.c_str(), function());
    }
  }
  return 0;
}
