// S31: alignment and size are what the program asked for, or what a driver allocation of about that size has.
#include "tests/preload/allocator/pool_test.h"

namespace rules {
namespace {

class Sizes : public Pool {
 protected:
  static size_t RangeOf(const void* memory) {
    CUdeviceptr begin = 0;
    size_t bytes = 0;
    EXPECT_EQ(cuMemGetAddressRange(&begin, &bytes, reinterpret_cast<CUdeviceptr>(memory)), CUDA_SUCCESS);
    EXPECT_EQ(begin, reinterpret_cast<CUdeviceptr>(memory));
    return bytes;
  }
};

TEST_F(Sizes, S31_Alignment) {
  for (const size_t bytes : {size_t{1}, size_t{512}, size_t{513}, size_t{5000}, kMiB + 1, 3 * kMiB + 7}) {
    for (int round = 0; round < 3; ++round) {
      uint8_t* const memory = Malloc(bytes);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 512, 0U) << bytes;
      EXPECT_GE(RangeOf(memory), bytes);
      OK(cudaFree(memory));
    }
  }
}

TEST_F(Sizes, S31_ALargeBlockDoesNotServeASmallRequest) {
  FreeWhenIdle(Malloc(64 * kMiB));
  uint8_t* const memory = Malloc(8 * kMiB);
  EXPECT_LE(RangeOf(memory), 9 * kMiB);
}

TEST_F(Sizes, S31_ASmallerBlockDoesNotServeALargerRequest) {
  FreeWhenIdle(Malloc(8 * kMiB));
  EXPECT_GE(RangeOf(Malloc(8 * kMiB + 1)), 8 * kMiB + 1);
}

TEST_F(Sizes, S31_ABlockOfNearlyTheSizeDoes) {
  uint8_t* const memory = Malloc(17 * kMiB);
  const Tally tally("allocator");
  FreeWhenIdle(memory);
  EXPECT_GE(RangeOf(Malloc(16 * kMiB)), 16 * kMiB);
  DECIDED(tally, "reused", 1);
}

// Three times of the driver's are known then.
TEST_F(Sizes, S31_ABlockThatIsUsedAgainSparesTheDriverACall) {
  const Tally before("allocator");
  uint8_t* const memory = Malloc(17 * kMiB);
  (void)Malloc(33 * kMiB);
  (void)Malloc(65 * kMiB);
  DECIDED(before, "driver.allocated", 3);
  DECIDED(before, "spared.allocation", 0);
  FreeWhenIdle(memory);
  (void)Malloc(17 * kMiB);
  DECIDED(before, "reused", 1);
  DECIDED(before, "spared.allocation", 1);
  DECIDED(before, "spared.free", 0);  // no free of the driver's was seen
}

// An access behind the end of a small allocation is the error that it was.
TEST_F(Sizes, S31_TheEndOfASmallAllocation) {
  FreeWhenIdle(Malloc(15446));
  uint8_t* const memory = Malloc(14846);
  RETURNS(cudaErrorInvalidValue, cudaMemset(memory, 0, 14847));
  (void)cudaGetLastError();
}

}  // namespace
}  // namespace rules
