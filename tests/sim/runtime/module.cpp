// Libraries of code, textures and surfaces (tests/sim/driver/module.cpp).
#include "tests/sim/runtime/entry.h"

SIM_RT(cudaLibraryLoadData,
       (cudaLibrary_t * library, const void* code, cudaJitOption* jitOptions, void** jitOptionsValues,
        unsigned int numJitOptions, cudaLibraryOption* libraryOptions, void** libraryOptionValues,
        unsigned int numLibraryOptions),
       (library, code, jitOptions, jitOptionsValues, numJitOptions, libraryOptions, libraryOptionValues,
        numLibraryOptions)) {
  (void)jitOptions, (void)jitOptionsValues, (void)libraryOptions, (void)libraryOptionValues;
  if (numJitOptions != 0 || numLibraryOptions != 0) return cudaErrorNotSupported;
  CUlibrary loaded = nullptr;
  const cudaError_t result = CU(cuLibraryLoadData, 12000, &loaded, code, nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (library != nullptr) *library = reinterpret_cast<cudaLibrary_t>(loaded);
  return result;
}
SIM_RT(cudaLibraryUnload, (cudaLibrary_t library), (library)) {
  return CU(cuLibraryUnload, 12000, reinterpret_cast<CUlibrary>(library));
}
SIM_RT(cudaDestroyTextureObject, (cudaTextureObject_t texObject), (texObject)) {
  return CU(cuTexObjectDestroy, 5000, texObject);
}
SIM_RT(cudaDestroySurfaceObject, (cudaSurfaceObject_t surfObject), (surfObject)) {
  return CU(cuSurfObjectDestroy, 5000, surfObject);
}
