// Memory pools of the simulated driver (pool.cpp).
#ifndef TESTS_SIM_DRIVER_POOL_H_
#define TESTS_SIM_DRIVER_POOL_H_

#include "tests/sim/driver/world.h"

namespace simcuda {

struct Pool {
  int device = 0;
  bool is_default = false;
  CUmemAllocationHandleType handle_types = CU_MEM_HANDLE_TYPE_NONE;
  uint64_t release_threshold = 0;
  uint64_t used = 0;
  uint64_t used_high = 0;
  std::map<int, int> reuse_attributes;
  CUmemAccess_flags access[kDeviceCount] = {};  // of devices other than its own
};

}  // namespace simcuda

#endif  // TESTS_SIM_DRIVER_POOL_H_
