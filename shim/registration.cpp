// __cudaRegisterFatBinary: every library that carries kernels calls it when it is loaded, `import torch` a dozen
// times. It says that a library came in which may be linked to a libcudart that we have not seen. It is not a use
// of CUDA: nothing is built.

#include "shim/runtime.h"

extern "C" [[gnu::visibility("default")]] void** __cudaRegisterFatBinary(void* fat_binary);

extern "C" void** __cudaRegisterFatBinary(void* fat_binary) {
  using Function = void**(void*);
  auto* const real =
      reinterpret_cast<Function*>(slipstream::shim::Runtime::EnterRegistration(__builtin_return_address(0)));
  return real != nullptr ? real(fat_binary) : nullptr;
}
