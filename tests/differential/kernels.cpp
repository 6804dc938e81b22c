#include "tests/differential/kernels.h"

#include "tests/differential/pattern.h"
#include "tests/sim/simcuda.h"

namespace differential {
namespace {

// Host sides: only their addresses matter, so they must not be one function to the linker.
volatile int kept_apart;
void Fill() { kept_apart = 1; }
void Mix() { kept_apart = 2; }
void Move() { kept_apart = 3; }
void Unknown() { kept_apart = 4; }

constexpr void (*kFunctions[])() = {&Fill, &Mix, &Move};

struct Arguments {
  void* dst;
  const void* src;
  size_t bytes;
  uint64_t value;
};

Arguments Of(void** args) {
  return {*static_cast<void**>(args[0]), *static_cast<const void**>(args[1]), *static_cast<size_t*>(args[2]),
          *static_cast<uint64_t*>(args[3])};
}

void FillBody(const simLaunch*, void** args) {
  const Arguments arguments = Of(args);
  if (void* dst = simDevicePointer(arguments.dst, arguments.bytes)) FillPattern(dst, arguments.bytes, arguments.value);
}

void MixBody(const simLaunch*, void** args) {
  const Arguments arguments = Of(args);
  void* dst = simDevicePointer(arguments.dst, arguments.bytes);
  const void* src = simDevicePointer(arguments.src, arguments.bytes);
  if (dst != nullptr && src != nullptr) MixInto(dst, src, arguments.bytes, arguments.value);
}

void MoveBody(const simLaunch*, void** args) {
  const Arguments arguments = Of(args);
  void* dst = simDevicePointer(arguments.dst, arguments.bytes);
  const void* src = simDevicePointer(arguments.src, arguments.bytes);
  if (dst != nullptr && src != nullptr) std::memcpy(dst, src, arguments.bytes);
}

const void* Address(void (*function)()) { return reinterpret_cast<const void*>(function); }

}  // namespace

void RegisterKernels() {
  static const size_t kSizes[] = {sizeof(void*), sizeof(void*), sizeof(size_t), sizeof(uint64_t)};
  simRegisterKernel(Address(&Fill), "fill", &FillBody, kSizes, 4, 5000);
  simRegisterKernel(Address(&Mix), "mix", &MixBody, kSizes, 4, 5000);
  simRegisterKernel(Address(&Move), "move", &MoveBody, kSizes, 4, 5000);
}

const void* KernelOf(int flavor) { return Address(kFunctions[flavor]); }

cudaError_t LaunchKernel(int flavor, bool unseen, void* dst, const void* src, size_t bytes, uint64_t value,
                         cudaStream_t stream) {
  void* args[] = {&dst, &src, &bytes, &value};
  const void* function = KernelOf(flavor);
  if (unseen) return static_cast<cudaError_t>(simLaunchUnseen(function, 1, 32, args, stream));
  return cudaLaunchKernel(function, dim3(1), dim3(32), args, 0, stream);
}

cudaError_t LaunchBadly(bool unknown, cudaStream_t stream) {
  void* dst = nullptr;
  const void* src = nullptr;
  size_t bytes = 0;
  uint64_t value = 0;
  void* args[] = {&dst, &src, &bytes, &value};
  return unknown ? cudaLaunchKernel(Address(&Unknown), dim3(1), dim3(32), args, 0, stream)
                 : cudaLaunchKernel(Address(&Fill), dim3(1), dim3(0), args, 0, stream);
}

}  // namespace differential
