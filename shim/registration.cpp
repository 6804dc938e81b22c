// What a library that carries device code calls when it is loaded; `import torch` does a dozen times. It is not a use
// of CUDA: nothing is built (S50).
//
// __cudaRegisterFatBinary says that a library came in which may be linked to a libcudart that we have not seen.
// __cudaRegisterManagedVar says that it has __managed__ variables, which the host reads without asking CUDA (S11).
// CUDA's headers declare it with eight arguments, each of which fits a register, and no result.

#include <cstdint>

#include "shim/runtime.h"

using slipstream::shim::Runtime;
using slipstream::tracer::HookId;

extern "C" [[gnu::visibility("default")]] void** __cudaRegisterFatBinary(void* fat_binary);
extern "C" [[gnu::visibility("default")]] void** __cudaRegisterManagedVar(void** fat_binary, void** host_variable,
                                                                          char* device_address, const char* name,
                                                                          uintptr_t external, size_t bytes,
                                                                          uintptr_t constant, uintptr_t global);

extern "C" void** __cudaRegisterFatBinary(void* fat_binary) {
  using Function = void**(void*);
  auto* const real =
      reinterpret_cast<Function*>(Runtime::EnterUnseen(HookId::__cudaRegisterFatBinary, __builtin_return_address(0)));
  return real != nullptr ? real(fat_binary) : nullptr;
}

extern "C" void** __cudaRegisterManagedVar(void** fat_binary, void** host_variable, char* device_address,
                                           const char* name, uintptr_t external, size_t bytes, uintptr_t constant,
                                           uintptr_t global) {
  const void* const caller = __builtin_return_address(0);
  Runtime::HasManagedVariables(caller);
  auto* const real = reinterpret_cast<decltype(&__cudaRegisterManagedVar)>(
      Runtime::EnterUnseen(HookId::__cudaRegisterManagedVar, caller));
  return real != nullptr ? real(fat_binary, host_variable, device_address, name, external, bytes, constant, global)
                         : nullptr;
}
