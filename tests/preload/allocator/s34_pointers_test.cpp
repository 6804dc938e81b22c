// S34: frees of what is no live allocation answer as the driver does.
#include "tests/preload/allocator/pool_test.h"

namespace rules {
namespace {

class Pointers : public Pool {
 protected:
  // The call fails, and the program can ask for the error once.
  static void Refused(void* memory) {
    RETURNS(cudaErrorInvalidValue, cudaFree(memory));
    RETURNS(cudaErrorInvalidValue, cudaPeekAtLastError());
    RETURNS(cudaErrorInvalidValue, cudaGetLastError());
    RETURNS(cudaSuccess, cudaGetLastError());
  }
};

TEST_F(Pointers, S34_Null) { OK(cudaFree(nullptr)); }

TEST_F(Pointers, S34_C8_FreedTwice) {
  uint8_t* const memory = Malloc(kBlock);
  const Tally tally("allocator");
  OK(cudaFree(memory));
  Refused(memory);
  PARKED(tally, 1);
}

TEST_F(Pointers, S34_C8_FreedTwiceIsNotHandedOutTwice) {
  uint8_t* const memory = Malloc(kBlock);
  OK(cudaFree(memory));
  (void)cudaFree(memory);
  (void)cudaGetLastError();
  OK(simQuiesce());
  EXPECT_NE(Malloc(kBlock), Malloc(kBlock));
}

TEST_F(Pointers, S34_C8_InsideABlock) {
  uint8_t* const memory = Malloc(kBlock);
  Refused(memory + 512);
  OK(cudaMemset(memory, 0, kBlock));
  OK(cudaFree(memory));
}

TEST_F(Pointers, S34_C8_NobodysMemory) {
  int on_stack = 0;
  Refused(&on_stack);
}

TEST_F(Pointers, S34_NoBytes) {
  void* memory = scratch_;
  OK(cudaMalloc(&memory, 0));
  EXPECT_EQ(memory, nullptr);
}

TEST_F(Pointers, S34_NoPlaceForTheAddress) {
  RETURNS(cudaErrorInvalidValue, cudaMalloc(static_cast<void**>(nullptr), 4096));
  RETURNS(cudaErrorInvalidValue, cudaGetLastError());
}

// Memory that comes another way goes its own way back.
TEST_F(Pointers, S34_C8_MemoryOfOtherCalls) {
  void* pitched = nullptr;
  size_t pitch = 0;
  OK(cudaMallocPitch(&pitched, &pitch, 1000, 10));
  OK(cudaFree(pitched));
  void* ordered = nullptr;
  OK(cudaMallocAsync(&ordered, kBlock, a_));
  OK(cudaStreamSynchronize(a_));
  OK(cudaFree(ordered));
  CUdeviceptr drivers = 0;
  OK(cuMemAlloc(&drivers, kBlock));
  OK(cudaFree(reinterpret_cast<void*>(drivers)));
  Refused(pitched);
}

// The runtime's memory may be freed by the driver's call, behind the hooks' back.
TEST_F(Pointers, S34_C8_FreedByTheDriversCall) {
  uint8_t* const first = Malloc(kBlock);
  OK(cuMemFree(reinterpret_cast<CUdeviceptr>(first)));
  uint8_t* const second = Malloc(kBlock);
  OK(cudaMemset(second, 0x21, kBlock));
  FreeWhenIdle(second);
  uint8_t* const third = Malloc(kBlock);
  OK(cudaMemset(third, 0x22, kBlock));
  OK(cudaDeviceSynchronize());
  EXPECT_TRUE(HoldsOnly(third, 0x22, kBlock));
  OK(cudaFree(third));
}

// An idle block that the driver's call has freed is not handed out: it is no memory any more.
TEST_F(Pointers, S34_C8_AnIdleBlockFreedByTheDriversCall) {
  uint8_t* const memory = Malloc(kBlock);
  FreeWhenIdle(memory);
  (void)cuMemFree(reinterpret_cast<CUdeviceptr>(memory));  // a program's mistake, which bare is refused
  uint8_t* const fresh = Malloc(kBlock);
  OK(cudaMemset(fresh, 0x23, kBlock));
  OK(cudaDeviceSynchronize());
  EXPECT_TRUE(HoldsOnly(fresh, 0x23, kBlock));
}

// A broken context answers from the pool's calls too.
TEST_F(Pointers, S34_AfterAFault) {
  uint8_t* const memory = Malloc(kBlock);
  uint8_t* const other = Malloc(kBlock);
  OK(cudaFree(memory));
  OK(cudaLaunchKernel(simtest::Address(&simtest::Crash), dim3(1), dim3(1), nullptr, 0, a_));
  RETURNS(cudaErrorIllegalAddress, cudaDeviceSynchronize());
  void* fresh = nullptr;
  RETURNS(cudaErrorIllegalAddress, cudaMalloc(&fresh, kBlock));
  RETURNS(cudaErrorIllegalAddress, cudaFree(other));
}

}  // namespace
}  // namespace rules
