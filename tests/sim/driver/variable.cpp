// Device variables: one piece of device memory per context, made at the first use there.
#include "tests/sim/driver/entry.h"
#include "tests/sim/driver/use_context.h"
#include "tests/sim/driver/world.h"

using namespace simcuda;

SIM_EXPORT int simRegisterVariable(const void* symbol, const char* name, size_t bytes) {
  if (symbol == nullptr || bytes == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  World& world = TheWorld();
  Lock lock(world.mutex);
  auto variable = std::make_unique<Variable>();
  variable->name = name != nullptr ? name : "unnamed";
  variable->bytes = bytes;
  world.variables[symbol] = std::move(variable);
  return CUDA_SUCCESS;
}

// For the simulated libcudart.
SIM_EXPORT int simFindVariable(const void* symbol, CUdeviceptr* address, size_t* bytes) {
  SIM_USE_CONTEXT()
  const auto found = world.variables.find(symbol);
  if (found == world.variables.end()) {
    return CUDA_ERROR_NOT_FOUND;
  }
  Variable& variable = *found->second;
  uintptr_t& instance = variable.instances[context];
  if (instance == 0) {
    const Allocation* allocation = AllocateDevice(world, context, variable.bytes, Allocation::Kind::kDevice);
    if (allocation == nullptr) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    instance = allocation->base;
  }
  *address = instance;
  *bytes = variable.bytes;
  return CUDA_SUCCESS;
}
