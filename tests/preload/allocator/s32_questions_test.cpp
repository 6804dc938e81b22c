// S32, S33, S35: what the program can ask about memory, and memory of several devices and processes.
#include "tests/preload/allocator/pool_test.h"

namespace rules {
namespace {

class Questions : public Pool {};

TEST_F(Questions, S32_FreedMemoryIsFree) {
  const size_t before = Free();
  uint8_t* const memory = Malloc(64 * kMiB);
  const size_t between = Free();
  EXPECT_LE(between, before - 64 * kMiB);
  const Tally tally("allocator");
  OK(cudaFree(memory));
  EXPECT_GE(Free(), between + 64 * kMiB);
  EXPECT_LE(Free(), before);
  PARKED(tally, 1);
}

TEST_F(Questions, S32_C12_NeverMoreThanThereIs) {
  for (int i = 0; i < 4; ++i) {
    OK(cudaFree(Malloc(60 * kMiB)));
    size_t free = 0;
    size_t total = 0;
    OK(cudaMemGetInfo(&free, &total));
    EXPECT_LE(free, total);
  }
}

TEST_F(Questions, S32_C12_NullArguments) {
  OK(cudaFree(Malloc(8 * kMiB)));
  size_t total = 0;
  size_t free = 0;
  OK(cudaMemGetInfo(&free, nullptr));
  EXPECT_GT(free, 0U);
  OK(cudaMemGetInfo(nullptr, &total));
  EXPECT_EQ(total, size_t{1} << 30);
  OK(cudaMemGetInfo(nullptr, nullptr));
}

// The importer's bytes stay those of the exporter's block, so nothing else may ever live there.
TEST_F(Questions, S33_C10_AnExportedBlockIsNotUsedAgain) {
  uint8_t* const memory = Malloc(kBlock);
  const unsigned long long id = IdOf(memory);
  cudaIpcMemHandle_t handle;
  OK(cudaIpcGetMemHandle(&handle, memory));
  FreeWhenIdle(memory);
  EXPECT_NE(IdOf(Malloc(kBlock)), id);
}

TEST_F(Questions, S33_C10_NorOneThatWasExportedByAnAddressInside) {
  uint8_t* const memory = Malloc(kBlock);
  const unsigned long long id = IdOf(memory);
  cudaIpcMemHandle_t handle;
  OK(cudaIpcGetMemHandle(&handle, memory + 4096));
  FreeWhenIdle(memory);
  EXPECT_NE(IdOf(Malloc(kBlock)), id);
}

// What a library has registered by its address must stay behind that address. The pool remaps nothing.
TEST_F(Questions, S33_C11_AReusedBlockIsTheMemoryThatItWas) {
  uint8_t* const before = Malloc(kBlock);
  const unsigned long long id = IdOf(before);
  FreeWhenIdle(before);
  uint8_t* const memory = Malloc(kBlock);
  if (Engine()) {
    EXPECT_EQ(memory, before);
    EXPECT_EQ(IdOf(memory), id);
  }
  cudaPointerAttributes attributes = {};
  OK(cudaPointerGetAttributes(&attributes, memory + 100));
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.device, 0);
}

// Freed while another device is current.
TEST_F(Questions, S35_C9_MemoryStaysOnItsDevice) {
  uint8_t* const memory = Malloc(kBlock);
  OK(cudaSetDevice(1));
  const size_t before = Free();
  FreeWhenIdle(memory);
  EXPECT_LE(Free(), before);
  uint8_t* const theirs = Malloc(kBlock);
  cudaPointerAttributes attributes = {};
  OK(cudaPointerGetAttributes(&attributes, theirs));
  EXPECT_EQ(attributes.device, 1);
  OK(cudaSetDevice(0));
  OK(cudaPointerGetAttributes(&attributes, Malloc(kBlock)));
  EXPECT_EQ(attributes.device, 0);
}

TEST_F(Questions, S35_C9_EachDeviceCountsItsOwn) {
  uint8_t* const memory = Malloc(64 * kMiB);
  const size_t before = Free();
  OK(cudaSetDevice(1));
  OK(cudaFree(memory));
  OK(cudaSetDevice(0));
  EXPECT_GE(Free(), before + 64 * kMiB);
}

TEST_F(Questions, S35_AResetDeviceStartsAgain) {
  OK(cudaFree(Malloc(64 * kMiB)));
  const uint8_t* const kept = Malloc(32 * kMiB);
  OK(cudaDeviceReset());
  EXPECT_EQ(Free(), size_t{1} << 30);
  cudaPointerAttributes attributes = {};
  OK(cudaPointerGetAttributes(&attributes, kept));
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  uint8_t* const memory = Malloc(64 * kMiB);
  OK(cudaMemset(memory, 0x12, 64 * kMiB));
  OK(cudaDeviceSynchronize());
  EXPECT_TRUE(HoldsOnly(memory, 0x12, kMiB));
  OK(cudaFree(memory));
}

}  // namespace
}  // namespace rules
