// libnvidia-ml.so.1 as far as it is asked what is used of a device's memory: the simulated driver says it, past
// whatever intercepts the calls of the program. FAKE_NVML_USED=no: it has no answer.
#include <cstdlib>

#include "tests/sim/simcuda.h"

#pragma GCC visibility push(default)
extern "C" {
struct FakeMemory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
  static int device_0;
  if (bus_id == nullptr || *bus_id == '\0') return 2;
  *device = &device_0;
  return 0;
}
int nvmlDeviceGetMemoryInfo(void* /*device*/, FakeMemory* memory) {
  if (std::getenv("FAKE_NVML_USED") != nullptr) return 3;
  constexpr unsigned long long kMore = 1ULL << 50;  // what is used is all that matters, and differences of it
  *memory = {kMore, simFreeMemory(0), kMore - simFreeMemory(0)};
  return 0;
}
}
