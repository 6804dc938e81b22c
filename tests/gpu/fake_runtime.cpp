// A stand-in for a module that holds a CUDA runtime. Built twice: as libcudart.so.13 and as libfakeblas.so, a library
// with its own static runtime. Hazard: the delivery must not become a tail call, or the frame that names this module is
// gone.

#include <cstdint>

extern "C" int FakeCuptiDeliver(uint32_t id, const char* function_name);

// Reports one call of the runtime function `id`. `name` as the real runtime passes it (a string of this module), or one
// of the caller's when `foreign_name` is given.
extern "C" __attribute__((visibility("default"))) int FakeRuntimeCall(uint32_t id, const char* foreign_name) {
  volatile int delivered = FakeCuptiDeliver(id, foreign_name ? foreign_name : "cudaSomething");
  return delivered;
}
