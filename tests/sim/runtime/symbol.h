// Device variables by the address of their host shadow.
#ifndef TESTS_SIM_RUNTIME_SYMBOL_H_
#define TESTS_SIM_RUNTIME_SYMBOL_H_

#include "tests/sim/runtime/entry.h"

namespace simrt {

inline cudaError_t FindSymbol(const void* symbol, CUdeviceptr* address, size_t* bytes) {
  const cudaError_t result = static_cast<cudaError_t>(TheDriver().find_variable(symbol, address, bytes));
  return result == cudaErrorSymbolNotFound ? cudaErrorInvalidSymbol : result;
}

// [offset, offset + count) of the variable in the current context.
inline cudaError_t SymbolRange(const void* symbol, size_t offset, size_t count, char** address) {
  CUdeviceptr base = 0;
  size_t bytes = 0;
  SIM_RT_TRY(FindSymbol(symbol, &base, &bytes))
  if (offset > bytes || count > bytes - offset) {
    return cudaErrorInvalidValue;
  }
  *address = reinterpret_cast<char*>(base) + offset;
  return cudaSuccess;
}

inline cudaError_t SymbolSize(const void* symbol, size_t* size) {
  CUdeviceptr base = 0;
  return FindSymbol(symbol, &base, size);
}

}  // namespace simrt

#endif  // TESTS_SIM_RUNTIME_SYMBOL_H_
