// Staging memory of the device goes back to the driver whatever is missing: memory of the host, fences, or both.
#include "transfer/device_staging.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <new>
#include <vector>

#include "tests/transfer/played_driver.h"
#include "transfer/fence.h"

namespace {

bool g_no_memory = false;  // of the host

}  // namespace

void* operator new(size_t bytes) {
  void* const memory = g_no_memory ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace slipstream::transfer {
namespace {

using played::g_passed;

int g_segments = 0;  // that the driver has given away
CUresult g_wait = CUDA_SUCCESS;

// As in the engine, never destroyed.
struct Parts {
  Driver driver{};
  FencePool fences{driver};
  DeviceStaging staging{driver};
};

class DeviceStagingTest : public testing::Test {
 protected:
  static constexpr size_t kBlocks = DeviceStaging::kSegmentBytes / DeviceStaging::kBlockBytes;

  DeviceStagingTest() {
    played::PlayedBy(&driver_);
    g_passed.clear();
    g_segments = 0;
    g_wait = CUDA_SUCCESS;
    driver_.cuMemGetInfo = [](size_t* free, size_t* total) {
      *free = *total = size_t{16} << 30;
      return CUDA_SUCCESS;
    };
    driver_.cuStreamCreate = [](CUstream* stream, unsigned) {
      *stream = reinterpret_cast<CUstream>(0x3000);
      return CUDA_SUCCESS;
    };
    driver_.cuMemAlloc = [](CUdeviceptr* memory, size_t bytes) {
      *memory = CUdeviceptr{1} << 40 | static_cast<CUdeviceptr>(++g_segments) * bytes;
      return CUDA_SUCCESS;
    };
    driver_.cuMemFree = [](CUdeviceptr) {
      --g_segments;
      return CUDA_SUCCESS;
    };
    driver_.cuEventSynchronize = [](CUevent) { return g_wait; };
  }
  ~DeviceStagingTest() override { g_no_memory = false; }

  std::vector<CUdeviceptr> TakeAll() {
    std::vector<CUdeviceptr> blocks;
    while (const CUdeviceptr memory = staging_.Take()) blocks.push_back(memory);
    return blocks;
  }
  FenceRef Recorded() { return fences_.Record(played::Context(), staging_.stream()); }

  static Parts& NewParts() {
    static auto* const all = new std::deque<Parts>;
    return all->emplace_back();
  }

  Parts& parts_ = NewParts();
  Driver& driver_ = parts_.driver;
  FencePool& fences_ = parts_.fences;
  DeviceStaging& staging_ = parts_.staging;
};

bool Never() {
  ADD_FAILURE() << "every fence told";
  return false;
}

TEST_F(DeviceStagingTest, S36_GoesBackWithoutMemoryOfTheHost) {
  ASSERT_TRUE(staging_.Grow());
  ASSERT_TRUE(staging_.Grow());
  const std::vector<CUdeviceptr> blocks = TakeAll();
  ASSERT_EQ(blocks.size(), 2 * kBlocks);
  const FenceRef fence = Recorded();
  g_no_memory = true;
  staging_.Commit(blocks, fence);
  const bool any = staging_.GiveBack(Never);
  g_no_memory = false;
  EXPECT_TRUE(any);
  EXPECT_EQ(g_segments, 0);
  EXPECT_EQ(staging_.bytes(), 0U);
}

TEST_F(DeviceStagingTest, S36_GrowsByNothingWithoutMemoryOfTheHost) {
  g_no_memory = true;
  bool thrown = false;
  try {
    (void)staging_.Grow();
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  g_no_memory = false;
  EXPECT_TRUE(thrown);
  EXPECT_EQ(g_segments, 0);
}

TEST_F(DeviceStagingTest, S36_WaitsForAllWorkWhereFencesAreMissing) {
  ASSERT_TRUE(staging_.Grow());
  staging_.Commit(TakeAll(), {});
  EXPECT_EQ(staging_.Take(), 0U);
  EXPECT_FALSE(staging_.GiveBack([] { return false; }));
  EXPECT_EQ(g_segments, 1);
  EXPECT_TRUE(staging_.GiveBack([] { return true; }));
  EXPECT_EQ(g_segments, 0);
}

TEST_F(DeviceStagingTest, S36_AnswerIsForWhatWasCommittedBeforeTheQuestion) {
  ASSERT_TRUE(staging_.Grow());
  std::vector<CUdeviceptr> blocks = TakeAll();
  const std::vector<CUdeviceptr> late = {blocks.back()};
  blocks.pop_back();
  staging_.Commit(blocks, {});
  EXPECT_FALSE(staging_.GiveBack([&] {
    staging_.Commit(late, {});
    return true;
  }));
  EXPECT_EQ(g_segments, 1);
}

TEST_F(DeviceStagingTest, S36_FenceThatCannotBeWaitedForIsNone) {
  ASSERT_TRUE(staging_.Grow());
  staging_.Commit(TakeAll(), Recorded());
  g_wait = CUDA_ERROR_UNKNOWN;
  EXPECT_FALSE(staging_.GiveBack([] { return false; }));
  EXPECT_EQ(g_segments, 1);
  EXPECT_TRUE(staging_.GiveBack([] { return true; }));
  EXPECT_EQ(g_segments, 0);
}

TEST_F(DeviceStagingTest, S36_WhatACopyHoldsStays) {
  ASSERT_TRUE(staging_.Grow());
  ASSERT_TRUE(staging_.Grow());
  const CUdeviceptr held = staging_.Take();
  ASSERT_NE(held, 0U);
  EXPECT_TRUE(staging_.GiveBack(Never));
  EXPECT_EQ(g_segments, 1);
  staging_.Commit({held}, {});
  EXPECT_TRUE(staging_.GiveBack([] { return true; }));
  EXPECT_EQ(g_segments, 0);
}

}  // namespace
}  // namespace slipstream::transfer
