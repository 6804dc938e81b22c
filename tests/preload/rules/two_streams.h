// What the tests of both pools of device memory share (rules.h says how they are run).
//
// Threading: one fixture, one main thread.
// Hazard: in the simulator's adversarial mode nothing runs before somebody waits for it. A pool's questions to the
//   driver let a little run: Backlog() puts more in front than that.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "tests/preload/rules/rules.h"

namespace rules {

using simtest::LaunchFill;

inline constexpr size_t kMiB = size_t{1} << 20;
inline constexpr size_t kBlock = 4 * kMiB;

// No CUDA call before SetUp, so that a test can set variables in its constructor.
class TwoStreams : public ::testing::Test {
 protected:
  void SetUp() override {
    simtest::RegisterKernels();
    if (std::getenv("SIMCUDA_SEED") == nullptr) {
      OK(simSetSeed(0));
    }
    OK(cudaSetDevice(0));
    OK(cudaMalloc(reinterpret_cast<void**>(&scratch_), kMiB));
    OK(cudaStreamCreateWithFlags(&a_, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&b_, cudaStreamNonBlocking));
  }

  // Work that lies in front of what follows on the stream.
  void Backlog(cudaStream_t stream, int kernels = 64) {
    for (int i = 0; i < kernels; ++i) {
      OK(LaunchFill(scratch_, 64, i, stream));
    }
  }

  uint8_t* scratch_ = nullptr;  // of Backlog()
  cudaStream_t a_ = nullptr;
  cudaStream_t b_ = nullptr;
};

}  // namespace rules
