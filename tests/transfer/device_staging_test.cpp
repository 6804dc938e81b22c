// Staging memory of the device goes back to the driver whatever is missing: memory of the host, fences, or both.
#include "transfer/device_staging.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <iterator>
#include <map>
#include <new>
#include <utility>
#include <vector>

#include "cuda/fence.h"
#include "tests/cuda/played_driver.h"

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

using cuda::played::g_passed;

constexpr size_t kTotal = size_t{16} << 30;
size_t g_free = kTotal;  // of the device
int g_segments = 0;      // that the driver has given away
int g_freed = 0;         // of these, by stream-ordered frees that no synchronization followed yet
int g_waiting_frees = 0;
CUresult g_wait = CUDA_SUCCESS;

// As in the engine, never destroyed.
struct Parts {
  cuda::Driver driver{};
  cuda::FencePool fences{driver};
  DeviceStaging staging{driver};
};

class DeviceStagingTest : public testing::Test {
 protected:
  static constexpr size_t kSegment = DeviceStaging::kSegmentBytes;
  static constexpr size_t kLease = size_t{8} << 20;
  static constexpr size_t kLeases = kSegment / kLease;

  DeviceStagingTest() {
    cuda::played::PlayedBy(&driver_);
    g_passed.clear();
    g_segments = 0;
    g_freed = 0;
    g_waiting_frees = 0;
    g_wait = CUDA_SUCCESS;
    g_free = kTotal;
    driver_.cuMemGetInfo = [](size_t* free, size_t* total) {
      *free = g_free;
      *total = kTotal;
      return CUDA_SUCCESS;
    };
    driver_.cuStreamCreate = [](CUstream* stream, unsigned) {
      *stream = reinterpret_cast<CUstream>(0x3000);
      return CUDA_SUCCESS;
    };
    driver_.cuMemAlloc = [](CUdeviceptr* memory, size_t bytes) {
      // Each next to the one before.
      static CUdeviceptr next = CUdeviceptr{1} << 40;
      *memory = next;
      next += bytes;
      ++g_segments;
      return CUDA_SUCCESS;
    };
    driver_.cuMemFreeAsync = [](CUdeviceptr, CUstream) {
      ++g_freed;
      return CUDA_SUCCESS;
    };
    driver_.cuStreamSynchronize = [](CUstream) {
      g_segments -= std::exchange(g_freed, 0);
      return CUDA_SUCCESS;
    };
    driver_.cuMemFree = [](CUdeviceptr) {
      ++g_waiting_frees;
      --g_segments;
      return CUDA_SUCCESS;
    };
    driver_.cuEventSynchronize = [](CUevent) { return g_wait; };
  }
  ~DeviceStagingTest() override { g_no_memory = false; }

  bool Grow(size_t bytes = kSegment) { return staging_.Grow(bytes, bytes); }
  std::vector<CUdeviceptr> TakeAll(size_t bytes = kLease) {
    std::vector<CUdeviceptr> leases;
    while (const CUdeviceptr memory = staging_.Take(bytes)) leases.push_back(memory);
    return leases;
  }
  void Commit(const std::vector<CUdeviceptr>& leases, const cuda::FenceRef& fence) {
    for (const CUdeviceptr lease : leases) staging_.Commit(lease, fence);
  }
  cuda::FenceRef Recorded() { return fences_.Record(cuda::played::Context(), staging_.stream()); }

  static Parts& NewParts() {
    static auto* const all = new std::deque<Parts>;
    return all->emplace_back();
  }

  Parts& parts_ = NewParts();
  cuda::Driver& driver_ = parts_.driver;
  cuda::FencePool& fences_ = parts_.fences;
  DeviceStaging& staging_ = parts_.staging;
};

bool Never() {
  ADD_FAILURE() << "every fence told";
  return false;
}

TEST_F(DeviceStagingTest, S36_GoesBackWithoutMemoryOfTheHost) {
  ASSERT_TRUE(Grow());
  ASSERT_TRUE(Grow());
  const std::vector<CUdeviceptr> leases = TakeAll();
  ASSERT_EQ(leases.size(), 2 * kLeases);
  const cuda::FenceRef fence = Recorded();
  g_no_memory = true;
  Commit(leases, fence);
  const bool any = staging_.GiveBack(Never);
  g_no_memory = false;
  EXPECT_TRUE(any);
  EXPECT_EQ(g_segments, 0);
  EXPECT_EQ(staging_.bytes(), 0U);
}

TEST_F(DeviceStagingTest, S73_WaitsForTheDeviceOnlyWhereTheDriverHasNoOtherFree) {
  ASSERT_TRUE(Grow());
  EXPECT_TRUE(staging_.GiveBackIdle());
  EXPECT_EQ(g_segments, 0);
  EXPECT_EQ(g_waiting_frees, 0);

  Parts& parts = NewParts();
  parts.driver = driver_;
  parts.driver.cuMemFreeAsync = [](CUdeviceptr, CUstream) { return CUDA_ERROR_NOT_SUPPORTED; };
  DeviceStaging& old = parts.staging;
  ASSERT_TRUE(old.Grow(kSegment, kSegment));
  EXPECT_TRUE(old.GiveBackIdle());
  EXPECT_EQ(g_segments, 0);
  EXPECT_EQ(g_waiting_frees, 1);
}

// As a synchronization does that finds an error of earlier work.
TEST_F(DeviceStagingTest, S36_GoesBackBehindASynchronizationThatFails) {
  static bool failed;
  failed = false;
  driver_.cuStreamSynchronize = [](CUstream) {
    if (!std::exchange(failed, true)) return CUDA_ERROR_UNKNOWN;
    g_segments -= std::exchange(g_freed, 0);
    return CUDA_SUCCESS;
  };
  ASSERT_TRUE(Grow());
  EXPECT_TRUE(staging_.GiveBackIdle());
  EXPECT_EQ(g_segments, 0);
}

// Nothing else is waited for then: the context's synchronization is not ours to ask for.
TEST_F(DeviceStagingTest, S36_GoesBackWhereEverySynchronizationFails) {
  driver_.cuStreamSynchronize = [](CUstream) { return CUDA_ERROR_UNKNOWN; };
  driver_.cuCtxSynchronize = []() {
    ADD_FAILURE() << "waits for other streams";
    return CUDA_SUCCESS;
  };
  ASSERT_TRUE(Grow());
  static CUevent recorded;
  recorded = nullptr;
  driver_.cuEventCreate = [](CUevent* event, unsigned) {
    *event = reinterpret_cast<CUevent>(uintptr_t{0x77});
    return CUDA_SUCCESS;
  };
  driver_.cuEventRecord = [](CUevent event, CUstream stream) {
    EXPECT_NE(stream, nullptr);
    recorded = event;
    return CUDA_SUCCESS;
  };
  driver_.cuEventSynchronize = [](CUevent event) {
    EXPECT_EQ(event, recorded);
    g_segments -= std::exchange(g_freed, 0);
    return CUDA_SUCCESS;
  };
  driver_.cuEventDestroy = [](CUevent event) {
    EXPECT_EQ(event, std::exchange(recorded, nullptr));
    return CUDA_SUCCESS;
  };
  EXPECT_TRUE(staging_.GiveBackIdle());
  EXPECT_EQ(g_segments, 0);
  EXPECT_EQ(recorded, nullptr) << "an event is left";
}

TEST_F(DeviceStagingTest, S36_GrowsByNothingWithoutMemoryOfTheHost) {
  g_no_memory = true;
  bool thrown = false;
  try {
    (void)Grow();
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  g_no_memory = false;
  EXPECT_TRUE(thrown);
  EXPECT_EQ(g_segments, 0);
}

TEST_F(DeviceStagingTest, S36_WaitsForAllWorkWhereFencesAreMissing) {
  ASSERT_TRUE(Grow());
  Commit(TakeAll(), {});
  EXPECT_EQ(staging_.Take(kLease), 0U);
  EXPECT_FALSE(staging_.GiveBack([] { return false; }));
  EXPECT_EQ(g_segments, 1);
  EXPECT_TRUE(staging_.GiveBack([] { return true; }));
  EXPECT_EQ(g_segments, 0);
}

TEST_F(DeviceStagingTest, S36_AnswerIsForWhatWasCommittedBeforeTheQuestion) {
  ASSERT_TRUE(Grow());
  std::vector<CUdeviceptr> leases = TakeAll();
  const std::vector<CUdeviceptr> late = {leases.back()};
  leases.pop_back();
  Commit(leases, {});
  EXPECT_FALSE(staging_.GiveBack([&] {
    Commit(late, {});
    return true;
  }));
  EXPECT_EQ(g_segments, 1);
}

TEST_F(DeviceStagingTest, S36_FenceThatCannotBeWaitedForIsNone) {
  ASSERT_TRUE(Grow());
  Commit(TakeAll(), Recorded());
  g_wait = CUDA_ERROR_UNKNOWN;
  EXPECT_FALSE(staging_.GiveBack([] { return false; }));
  EXPECT_EQ(g_segments, 1);
  EXPECT_TRUE(staging_.GiveBack([] { return true; }));
  EXPECT_EQ(g_segments, 0);
}

TEST_F(DeviceStagingTest, S36_WhatACopyHoldsStays) {
  ASSERT_TRUE(Grow());
  ASSERT_TRUE(Grow());
  const CUdeviceptr held = staging_.Take(kLease);
  ASSERT_NE(held, 0U);
  EXPECT_TRUE(staging_.GiveBack(Never));
  EXPECT_EQ(g_segments, 1);
  staging_.Commit(held, {});
  EXPECT_TRUE(staging_.GiveBack([] { return true; }));
  EXPECT_EQ(g_segments, 0);
}

// Leases of one time are apart; what was given back serves again, whole, whatever sizes it was cut into.
TEST_F(DeviceStagingTest, LeasesAreApartAndComeBackWhole) {
  ASSERT_TRUE(Grow());
  ASSERT_TRUE(Grow(2 * kSegment));
  uint32_t drawn = 1;
  for (int round = 0; round < 200; ++round) {
    std::map<CUdeviceptr, size_t> leases;
    for (;;) {
      drawn = drawn * 1664525 + 1013904223;
      const size_t bytes = (drawn >> 8) % (round % 2 == 0 ? kSegment : 4 * DeviceStaging::kGranuleBytes) + 1;
      const CUdeviceptr memory = staging_.Take(bytes);
      if (memory == 0) break;
      const auto [lease, is_new] = leases.emplace(memory, bytes);
      ASSERT_TRUE(is_new);
      if (lease != leases.begin()) {
        ASSERT_LE(std::prev(lease)->first + std::prev(lease)->second, memory);
      }
      if (std::next(lease) != leases.end()) {
        ASSERT_LE(memory + bytes, std::next(lease)->first);
      }
    }
    const cuda::FenceRef fence = Recorded();
    for (const auto& [memory, bytes] : leases) {
      if (memory % 3 == 0) {
        staging_.Cancel(memory);
      } else {
        staging_.Commit(memory, fence);
      }
    }
    g_passed.insert(fence.event());
    const std::vector<CUdeviceptr> whole = TakeAll(kSegment);
    ASSERT_EQ(whole.size(), 3U) << round;
    Commit(whole, fence);
  }
  EXPECT_TRUE(staging_.GiveBack(Never));
  EXPECT_EQ(g_segments, 0);
}

// Segments are never one, though their memory lies side by side: they go back one by one.
TEST_F(DeviceStagingTest, NoLeaseSpansTwoSegments) {
  ASSERT_TRUE(Grow());
  ASSERT_TRUE(Grow());
  EXPECT_EQ(staging_.largest(), kSegment);
  EXPECT_EQ(staging_.Take(kSegment + 1), 0U);
}

TEST_F(DeviceStagingTest, WhatIsInFlightIsNotGivenAgain) {
  ASSERT_TRUE(Grow());
  const CUdeviceptr first = staging_.Take(kSegment);
  const cuda::FenceRef fence = Recorded();
  staging_.Commit(first, fence);
  EXPECT_EQ(staging_.Take(1), 0U);
  g_passed.insert(fence.event());
  EXPECT_EQ(staging_.Take(kSegment), first);
}

TEST_F(DeviceStagingTest, S36_TakesWhatIsFreeAndNoMore) {
  g_free = kTotal / 16 + 3 * kSegment;
  EXPECT_FALSE(staging_.Grow(4 * kSegment, 8 * kSegment));
  EXPECT_TRUE(staging_.TooLong(4 * kSegment));
  EXPECT_FALSE(staging_.TooLong(3 * kSegment));
  EXPECT_FALSE(staging_.closed());
  EXPECT_TRUE(staging_.Grow(2 * kSegment, 8 * kSegment));
  EXPECT_EQ(staging_.bytes(), 3 * kSegment);
  g_free = kTotal / 16 + kSegment - 1;
  EXPECT_FALSE(staging_.Grow(kSegment, kSegment));
  EXPECT_TRUE(staging_.closed());
}

}  // namespace
}  // namespace slipstream::transfer
