// Several devices, and a device that is reset.
#include "tests/conformance/conformance_test.h"

namespace conformance {
namespace {

template <typename Allocator>
class Devices : public Conformance<Allocator> {
 protected:
  void SetUp() override {
    int count = 0;
    OK(cudaGetDeviceCount(&count));
    if (count < 2) GTEST_SKIP() << "one device only";
    OK(cudaSetDevice(1));
    OK(cudaStreamCreateWithFlags(&there_, cudaStreamNonBlocking));
    Conformance<Allocator>::SetUp();
  }
  void TearDown() override {
    if (there_ == nullptr) return;  // skipped
    EXPECT_OK(cudaSetDevice(1));
    EXPECT_OK(cudaDeviceSynchronize());
    EXPECT_OK(cudaStreamDestroy(there_));
    EXPECT_OK(cudaSetDevice(0));
    Conformance<Allocator>::TearDown();
  }
  void* Allocate(int device, size_t bytes) {
    EXPECT_OK(cudaSetDevice(device));
    void* memory = nullptr;
    EXPECT_OK(Allocator::Allocate(&memory, bytes, device == 0 ? this->home_ : there_));
    EXPECT_OK(cudaStreamSynchronize(device == 0 ? this->home_ : there_));
    return memory;
  }
  // With whatever device is current.
  void Free(int device, void* memory) { EXPECT_OK(Allocator::Free(memory, device == 0 ? this->home_ : there_)); }
  static int DeviceOf(const void* memory) {
    cudaPointerAttributes attributes = {};
    EXPECT_OK(cudaPointerGetAttributes(&attributes, memory));
    return attributes.device;
  }

  cudaStream_t there_ = nullptr;  // of device 1
};
TYPED_TEST_SUITE(Devices, Allocators, AllocatorNames);

TYPED_TEST(Devices, FreedWhileTheOtherDeviceIsCurrent) {
  for (const size_t bytes : kSizes) {
    for (int round = 0; round < 3; ++round) {
      for (const int device : {0, 1}) {
        void* const block = this->Allocate(device, bytes);
        OK(cudaSetDevice(1 - device));
        this->Free(device, block);
        for (const int next : {1 - device, device}) {
          void* const other = this->Allocate(next, bytes);
          EXPECT_EQ(this->DeviceOf(other), next);
          const uint32_t salt = NewSalt();
          const cudaStream_t stream = next == 0 ? this->home_ : this->there_;
          EXPECT_TRUE(Fill(other, bytes, salt, stream));
          EXPECT_TRUE(Holds(other, bytes, salt, stream));
          this->Free(next, other);
        }
      }
    }
  }
}

TYPED_TEST(Devices, MemoryIsAccountedToItsDevice) {
  if (TypeParam::kStreamOrdered) GTEST_SKIP() << "what a memory pool holds back is its own affair";
  constexpr size_t kSlack = 4 * kMiB;
  const size_t here_before = this->FreeMemory();
  OK(cudaSetDevice(1));
  const size_t there_before = this->FreeMemory();
  void* const block = this->Allocate(1, 64 * kMiB);
  EXPECT_LE(this->FreeMemory() + 64 * kMiB, there_before + kSlack);
  OK(cudaSetDevice(0));
  EXPECT_GE(this->FreeMemory() + kSlack, here_before);
  this->Free(1, block);
  EXPECT_GE(this->FreeMemory() + kSlack, here_before);
  OK(cudaSetDevice(1));
  EXPECT_GE(this->FreeMemory() + kSlack, there_before);
}

// A free does not wait for a copy between two devices that is on a stream of the other one (measured): it is on a
// stream of this one.
TYPED_TEST(Devices, FreedUnderAPendingPeerCopy) {
  if (TypeParam::kStreamOrdered) GTEST_SKIP() << "a stream of one device cannot free in order with another's here";
  // What the pool promises; the driver's own cudaFree does not wait for this copy, which then fails with 719, and the
  // bare program with it (seen with 580.159).
  if (DriverServes<TypeParam>()) GTEST_SKIP() << "the driver takes the memory from under the copy";
  int can = 0;
  OK(cudaDeviceCanAccessPeer(&can, 1, 0));
  if (can == 0) GTEST_SKIP() << "device 1 cannot reach device 0";
  OK(cudaSetDevice(1));
  OK(cudaDeviceEnablePeerAccess(0, 0));
  for (const size_t bytes : kSizes) {
    void* const source = this->Allocate(1, bytes);
    void* const block = this->Allocate(0, bytes);
    OK(cudaSetDevice(1));
    OK(LaunchDelay(this->there_));
    EXPECT_TRUE(Fill(source, bytes, NewSalt(), this->there_));
    cudaEvent_t filled = nullptr;
    OK(cudaEventCreateWithFlags(&filled, cudaEventDisableTiming));
    OK(cudaEventRecord(filled, this->there_));
    OK(cudaSetDevice(0));
    OK(cudaStreamWaitEvent(this->a_, filled, 0));
    OK(cudaMemcpyPeerAsync(block, 0, source, 1, bytes, this->a_));
    this->Free(0, block);
    OK(cudaEventDestroy(filled));
    // Several: whoever asks often enough gets the block.
    std::vector<std::pair<void*, uint32_t>> owned;
    for (int i = 0; i < 8; ++i) {
      owned.emplace_back(this->Allocate(0, bytes), NewSalt());
      EXPECT_TRUE(Fill(owned.back().first, bytes, owned.back().second, this->b_));
    }
    for (const auto& [memory, salt] : owned) EXPECT_TRUE(Holds(memory, bytes, salt, this->b_));
    OK(cudaSetDevice(1));
    OK(cudaDeviceSynchronize());
    OK(cudaSetDevice(0));
    for (const auto& [memory, salt] : owned) {
      EXPECT_TRUE(Holds(memory, bytes, salt, this->b_));
      this->Free(0, memory);
    }
    this->Free(1, source);
  }
  OK(cudaSetDevice(1));
  OK(cudaDeviceDisablePeerAccess(0));
}

template <typename Allocator>
class DeviceReset : public Conformance<Allocator> {
 protected:
  void Reset() {
    this->DestroyStreams();
    this->live_.clear();
    OK(cudaDeviceReset());
    ForgetKernels();
    this->MakeStreams();
  }
};
TYPED_TEST_SUITE(DeviceReset, Allocators, AllocatorNames);

TYPED_TEST(DeviceReset, MemoryWorksAfterwards) {
  for (int round = 0; round < 3; ++round) {
    for (const size_t bytes : kSizes) {
      (void)this->TakeFor(bytes, this->b_);  // live when the device is reset
      uint8_t* const freed = this->TakeFor(bytes, this->a_);
      this->GiveBehind(freed, this->a_);
    }
    this->Reset();
    for (const size_t bytes : kSizes) {
      uint8_t* const block = this->TakeFor(bytes, this->a_);
      this->GiveBehind(block, this->a_);
      uint8_t* const again = this->Take(bytes);
      const uint32_t salt = NewSalt();
      EXPECT_TRUE(Fill(again, bytes, salt, this->b_));
      OK(cudaDeviceSynchronize());
      EXPECT_TRUE(Holds(again, bytes, salt, this->b_));
    }
  }
}

TYPED_TEST(DeviceReset, MemoryOfBeforeIsGone) {
  if (TypeParam::kStreamOrdered) GTEST_SKIP() << "not documented";
  uint8_t* const live = this->Take(3 * kMiB);
  uint8_t* const freed = this->Take(3 * kMiB);
  this->Give(freed);
  this->Reset();
  for (uint8_t* const block : {live, freed}) {
    EXPECT_EQ(TypeParam::Free(block, this->home_), cudaErrorInvalidValue);
    ExpectLastError(cudaErrorInvalidValue);
  }
}

TYPED_TEST(DeviceReset, MemoryComesBack) {
  if (TypeParam::kStreamOrdered) GTEST_SKIP() << "what a memory pool holds back is its own affair";
  const size_t before = this->FreeMemory();
  ASSERT_NE(this->Take(64 * kMiB), nullptr);
  this->Give(this->Take(32 * kMiB));
  this->Reset();
  EXPECT_GE(this->FreeMemory() + 4 * kMiB, before);
  EXPECT_NE(this->Take(64 * kMiB), nullptr);
}

}  // namespace
}  // namespace conformance
