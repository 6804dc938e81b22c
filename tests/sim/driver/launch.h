// Work of kernels and host functions, and what a graph node must know to give their parameters back.
#ifndef TESTS_SIM_DRIVER_LAUNCH_H_
#define TESTS_SIM_DRIVER_LAUNCH_H_

#include "tests/sim/driver/world.h"

namespace simcuda {

struct KernelArguments {
  std::vector<std::byte> bytes;
  std::vector<size_t> offsets;
};

// By driver handle (CUfunction, CUkernel) or by host function. CUDA_ERROR_NO_BINARY_FOR_GPU: it is in a fat binary and
// has no body, and such a kernel shall not pass for an empty one (simSetEmptyKernels).
CUresult UseKernel(World& world, const void* handle_or_host_function, Kernel** kernel);
CUresult MakeKernelWork(Context* context, Kernel* kernel, const simLaunch& shape, void** args, void** extra,
                        Work* work);
Work MakeHostWork(CUhostFn function, void* user_data);

}  // namespace simcuda

#endif  // TESTS_SIM_DRIVER_LAUNCH_H_
