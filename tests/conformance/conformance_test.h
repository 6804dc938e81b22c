// What the tests share. Each is an ordinary CUDA program that looks only at what CUDA lets a program look at, so it
// holds without any library underneath; where CUDA's documents leave a choice, an H200 (driver 580, CUDA 13.0) decided.
//
// Threading: one fixture, one main thread; tests make the threads they need.
// Ownership: what Take() gave and nobody gave back goes back at the end of the test.
// Errors: a CUDA call that fails fails the test.
// Hazard: device memory is not initialized, and on the simulated device filled with garbage whenever that is allowed.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "tests/conformance/allocators.h"
#include "tests/conformance/device.h"

#define OK(call) ASSERT_EQ((call), cudaSuccess) << #call
#define EXPECT_OK(call) EXPECT_EQ((call), cudaSuccess) << #call

namespace conformance {

inline constexpr size_t kKiB = 1024;
inline constexpr size_t kMiB = size_t{1} << 20;

// A small block and a large one.
inline constexpr size_t kSizes[] = {4 * kKiB, 3 * kMiB};

// What is looked at of a block: all of a short one, else its ends. Two blocks that overlap share an end of one of them.
inline constexpr size_t kEnd = 32 * kKiB;

struct Window {
  size_t offset;
  size_t bytes;
};
std::vector<Window> WindowsOf(size_t bytes);

// Writes the pattern into the windows, in the stream.
::testing::AssertionResult Fill(void* memory, size_t bytes, uint32_t salt, cudaStream_t stream);
// Whether they hold it, read in the stream, which is waited for.
::testing::AssertionResult Holds(const void* memory, size_t bytes, uint32_t salt, cudaStream_t stream);

// A salt that no test of this process had before.
uint32_t NewSalt();

// Everything that a program without errors leaves behind.
void ExpectNoLastError();
// The code is the last error, and goes when it is asked for.
void ExpectLastError(cudaError_t code);

void OnAnotherThread(const std::function<void()>& work);

// Whether run_conformance has put the library and its pool underneath.
bool OverThePool();

// The driver's own memory: what it does not survive bare cannot be asked of it.
template <typename Allocator>
bool DriverServes() {
  return !(std::is_same_v<Allocator, CudaMalloc> && OverThePool());
}

struct NamedStream {
  const char* name;
  cudaStream_t stream;
};

// What does not depend on the allocator.
class Device : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  void MakeStreams();
  void DestroyStreams();
  // Every kind of stream that there is, for old work and for new.
  std::vector<NamedStream> AllStreams() const;
  // Makes `behind` wait for what `before` has now.
  static void Order(cudaStream_t before, cudaStream_t behind);

  size_t FreeMemory();

  cudaStream_t a_ = nullptr;         // non-blocking
  cudaStream_t b_ = nullptr;         // non-blocking
  cudaStream_t home_ = nullptr;      // non-blocking; of stream-ordered allocations and frees
  cudaStream_t blocking_ = nullptr;  // ordered with the legacy default stream
  std::mt19937_64 random_{4711};
};

template <typename Allocator>
class Conformance : public Device {
 protected:
  static constexpr bool kStreamOrdered = Allocator::kStreamOrdered;

  void TearDown() override {
    for (void* const block : std::set<void*>(live_)) Give(block);
    Device::TearDown();
  }

  // Memory that every stream may use.
  uint8_t* Take(size_t bytes) {
    void* memory = nullptr;
    EXPECT_OK(Allocator::Allocate(&memory, bytes, home_)) << bytes << " bytes";
    if (memory == nullptr) return nullptr;
    if (kStreamOrdered) {
      EXPECT_OK(cudaStreamSynchronize(home_));
    }
    live_.insert(memory);
    return static_cast<uint8_t*>(memory);
  }

  // The same for one stream.
  uint8_t* TakeFor(size_t bytes, cudaStream_t stream) {
    uint8_t* const memory = Take(bytes);
    if (memory == nullptr) return nullptr;
    EXPECT_TRUE(Fill(memory, bytes, NewSalt(), stream));
    return memory;
  }

  // No work on it is pending.
  void Give(void* memory) {
    live_.erase(memory);
    EXPECT_OK(Allocator::Free(memory, home_));
  }

  // Work on it may be pending in the stream: a stream-ordered free is put behind it.
  void GiveBehind(void* memory, cudaStream_t stream) {
    if (kStreamOrdered) Order(stream, home_);
    Give(memory);
  }

  std::set<void*> live_;
};

}  // namespace conformance
