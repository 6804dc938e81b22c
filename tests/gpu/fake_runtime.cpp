// A stand-in for a module that holds a CUDA runtime, or that stands between. Built three times: as libcudart.so.13, as
// libfakeblas.so, a library with its own static runtime, and as libslipstream_fake.so, whose FakeHook and
// FakeDriverCall are hooks.
// Hazard: the delivery must not become a tail call, or the frame that names this module is gone.

#include <cstdint>

extern "C" int FakeCuptiDeliver(uint32_t id, const char* function_name, void (*work)(void*), void* context);
extern "C" int FakeCuptiDriverCall(uint32_t id);

#define EXPORT extern "C" __attribute__((visibility("default")))

using DriverCall = int (*)(uint32_t id);
using RuntimeWork = int (*)(uint32_t id, DriverCall driver, uint32_t driver_id);

// Reports one call of the runtime function `id`. `name` as the real runtime passes it (a string of this module), or one
// of the caller's when `foreign_name` is given.
EXPORT int FakeRuntimeCall(uint32_t id, const char* foreign_name) {
  volatile int delivered = FakeCuptiDeliver(id, foreign_name ? foreign_name : "cudaSomething", nullptr, nullptr);
  return delivered;
}

// One call of the driver by this module.
EXPORT int FakeDriverCall(uint32_t id) {
  volatile int delivered = FakeCuptiDriverCall(id);
  return delivered;
}

namespace {
struct Work {
  DriverCall driver;
  uint32_t id;
  volatile int delivered;
};
}  // namespace

// One call of the runtime function `id`, inside which this module calls the driver.
EXPORT int FakeRuntimeWork(uint32_t id, DriverCall driver, uint32_t driver_id) {
  Work work{driver, driver_id, 0};
  volatile int delivered = FakeCuptiDeliver(
      id, "cudaSomething",
      [](void* context) {
        auto* inside = static_cast<Work*>(context);
        inside->delivered = inside->driver(inside->id);
      },
      &work);
  return delivered + work.delivered;
}

// Calls a runtime, as a hook does.
EXPORT int FakeHook(RuntimeWork runtime, uint32_t id, DriverCall driver, uint32_t driver_id) {
  volatile int delivered = runtime(id, driver, driver_id);
  return delivered;
}
