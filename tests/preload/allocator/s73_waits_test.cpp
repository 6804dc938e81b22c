// S73: nothing of the pool's waits for the device where a program without it would not. The device has work here that
// only the host lets go on: whoever waits for all of the device waits for ever.
#include <cstdint>
#include <future>

#include "tests/preload/allocator/pool_test.h"

namespace rules {
namespace {

class Unending : public Pool {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(Pool::SetUp());
    void* pinned = nullptr;
    OK(cudaMallocHost(&pinned, sizeof *flag_));
    flag_ = static_cast<volatile uint32_t*>(pinned);
    *flag_ = 0;
  }
  void TearDown() override {
    *flag_ = 1;
    OK(cudaDeviceSynchronize());
  }

  // Work on b_ that waits for the flag.
  void Hang() {
    OK(cuStreamWaitValue32(b_, reinterpret_cast<CUdeviceptr>(const_cast<uint32_t*>(flag_)), 1,
                           CU_STREAM_WAIT_VALUE_EQ));
  }

  // Whether the call comes back while that work waits.
  template <typename Call>
  void ComesBack(const Call& call) {
    auto made = std::async(std::launch::async, call);
    EXPECT_EQ(made.wait_for(Patience()), std::future_status::ready) << "it waits for the device";
    EXPECT_NE(Pending(b_), 0);
    *flag_ = 1;
    EXPECT_EQ(made.get(), cudaSuccess);
  }

  volatile uint32_t* flag_ = nullptr;
};

TEST_F(Unending, S73_AnAllocationForWhichIdleMemoryGoesBack) {
  IdleAndLittleElse();
  OK(simQuiesce());
  Hang();
  const Tally tally("allocator");
  ComesBack([] {
    void* memory = nullptr;
    return cudaMalloc(&memory, 240 * kMiB);
  });
  DECIDED_AT_LEAST(tally, "reclaimed", 1);
}
TEST_F(Unending, S73_MemoryOfAnotherKind) {
  IdleAndLittleElse();
  OK(simQuiesce());
  Hang();
  ComesBack([] {
    void* memory = nullptr;
    size_t pitch = 0;
    return cudaMallocPitch(&memory, &pitch, kMiB, 150);
  });
}
// What was on the memory when the program freed it is waited for, as the free itself would have: nothing later is.
TEST_F(Unending, S73_ABlockWithWorkOnIt) {
  uint8_t* const block = Malloc(200 * kMiB);
  LeaveFree(50 * kMiB);
  Backlog(a_);
  OK(LaunchFill(block, kMiB, 7, a_));
  OK(cudaFree(block));
  Hang();
  ComesBack([] {
    void* memory = nullptr;
    return cudaMalloc(&memory, 240 * kMiB);
  });
}

class DecayingBesideWork : public Unending {
 protected:
  DecayingBesideWork() { StartWith("SLIPSTREAM_ALLOCATOR_DECAY", "1"); }
};

TEST_F(DecayingBesideWork, S73_WhatNobodyWantedGoesBack) {
  uint8_t* const block = Malloc(200 * kMiB);
  const size_t before = DriverFree();
  OK(cudaFree(block));
  OK(simQuiesce());
  Hang();
  // Another thread launches meanwhile, as the program's would.
  const Tally tally("allocator");
  EXPECT_TRUE(DriverHasSoon(before + 200 * kMiB));
  EXPECT_NE(Pending(b_), 0);
  DECIDED_AT_LEAST(tally, "trimmed", 1);
}

}  // namespace
}  // namespace rules
