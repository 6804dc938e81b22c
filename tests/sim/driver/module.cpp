// Modules, libraries, textures and surfaces as handles that begin and end. They have no code: kernels are registered
// (simRegisterKernel). Ending one waits for nothing.
#include <cstdint>

#include "tests/sim/driver/use_context.h"

using namespace simcuda;

namespace {

template <typename Handle>
CUresult LoadCode(Handle* loaded, const void* image) {
  SIM_USE_CONTEXT()
  if (loaded == nullptr || image == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  WriteOutPrinted(world);
  *loaded = reinterpret_cast<Handle>(static_cast<uintptr_t>(world.next_id++ << 4));
  return CUDA_SUCCESS;
}

template <typename Handle>
CUresult End(Handle handle) {
  SIM_USE_CONTEXT()
  return handle == Handle{} ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // namespace

SIM_DRIVER(cuModuleLoadData, 2000, cuModuleLoadData, (CUmodule * module, const void* image), (module, image)) {
  return LoadCode(module, image);
}
SIM_DRIVER(cuModuleLoadDataEx, 2010, cuModuleLoadDataEx,
           (CUmodule * module, const void* image, unsigned int numOptions, CUjit_option* options, void** optionValues),
           (module, image, numOptions, options, optionValues)) {
  (void)numOptions, (void)options, (void)optionValues;
  return LoadCode(module, image);
}
SIM_DRIVER(cuModuleLoadFatBinary, 2000, cuModuleLoadFatBinary, (CUmodule * module, const void* fatCubin),
           (module, fatCubin)) {
  return LoadCode(module, fatCubin);
}
SIM_DRIVER(cuModuleUnload, 2000, cuModuleUnload, (CUmodule hmod), (hmod)) { return End(hmod); }
SIM_DRIVER(cuLibraryLoadData, 12000, cuLibraryLoadData,
           (CUlibrary * library, const void* code, CUjit_option* jitOptions, void** jitOptionsValues,
            unsigned int numJitOptions, CUlibraryOption* libraryOptions, void** libraryOptionValues,
            unsigned int numLibraryOptions),
           (library, code, jitOptions, jitOptionsValues, numJitOptions, libraryOptions, libraryOptionValues,
            numLibraryOptions)) {
  (void)jitOptions, (void)jitOptionsValues, (void)numJitOptions;
  (void)libraryOptions, (void)libraryOptionValues, (void)numLibraryOptions;
  return LoadCode(library, code);
}
SIM_DRIVER(cuLibraryUnload, 12000, cuLibraryUnload, (CUlibrary library), (library)) { return End(library); }
SIM_DRIVER(cuTexObjectDestroy, 5000, cuTexObjectDestroy, (CUtexObject texObject), (texObject)) {
  return End(texObject);
}
SIM_DRIVER(cuSurfObjectDestroy, 5000, cuSurfObjectDestroy, (CUsurfObject surfObject), (surfObject)) {
  return End(surfObject);
}
