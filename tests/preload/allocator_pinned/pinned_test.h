// What the tests of the pinned pool's rules share (rules/rules.h says how they are run).
//
// Threading: one fixture, one main thread.
// Hazard: in the simulator's adversarial mode nothing runs before somebody
// waits for it; work that the library cannot see is enqueued through the driver (DownUnseen, UpUnseen), for it waits
// for what it sees.
#pragma once

#include <cstdint>
#include <string>

#include "tests/preload/rules/rules.h"

namespace pinned {

using rules::Tally;
using simtest::LaunchFill;

inline constexpr size_t kAllocated = size_t{1} << 20;  // the driver allocates it
inline constexpr size_t kMade = size_t{12} << 20;      // filled and registered by the library

::testing::AssertionResult HoldsOnly(const uint8_t* host, uint8_t value, size_t count);
// What CUDA says of the address.
cudaMemoryType TypeOf(const void* address);

// Device memory, a stream, and the device used once; no CUDA call before SetUp, so that a test can set variables in its
// constructor.
class Pinned : public ::testing::Test {
 protected:
  void SetUp() override;

  // Fresh pinned memory that holds `value`.
  static uint8_t* Allocate(size_t bytes, uint8_t value, unsigned flags = cudaHostAllocDefault);

  // Copies that no hook sees, behind enough work that a few queries do not get through it.
  void DownUnseen(uint8_t* host, size_t bytes, cudaStream_t stream);
  void UpUnseen(const uint8_t* host, size_t bytes, cudaStream_t stream);
  void Backlog(cudaStream_t stream);
  // All work has run, and whoever asks is told so at once.
  static void Settle();

  static constexpr uint8_t kOnDevice = 0x77;
  uint8_t* device_ = nullptr;   // kMade bytes of kOnDevice
  uint8_t* scratch_ = nullptr;  // of Backlog()
  cudaStream_t a_ = nullptr;
};

// The same with memory of either kind.
class PinnedOfSize : public Pinned, public ::testing::WithParamInterface<size_t> {};
inline std::string SizeName(const ::testing::TestParamInfo<size_t>& size) {
  return size.param == kMade ? "Made" : "Allocated";
}

}  // namespace pinned
