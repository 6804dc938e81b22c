// Memory that is filled by several threads before it is registered.
#include "allocator/host_memory.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <vector>

namespace slipstream::allocator {
namespace {

std::atomic<int> g_started{0};

bool StartDetached(const char*, void* (*body)(void*), void* argument) {
  pthread_t thread;
  if (pthread_create(&thread, nullptr, body, argument) != 0) return false;
  pthread_detach(thread);
  ++g_started;
  return true;
}

bool StartNone(const char*, void* (*)(void*), void*) { return false; }

// As a system that gives one thread and no more.
bool StartOne(const char* name, void* (*body)(void*), void* argument) {
  return g_started.load() == 0 && StartDetached(name, body, argument);
}

size_t PagesMissing(char* memory, size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> there((bytes + page - 1) / page);
  EXPECT_EQ(mincore(memory, bytes, there.data()), 0);
  size_t missing = 0;
  for (const unsigned char one : there) missing += (one & 1) == 0 ? 1 : 0;
  return missing;
}

class HostMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override { g_started = 0; }
};

TEST_F(HostMemoryTest, EveryPageIsThereWhoeverFilledIt) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (const size_t bytes : {size_t{1}, page, kHugePageBytes + 1, 5 * kHugePageBytes, 17 * kHugePageBytes - page + 3}) {
    for (auto* const start : {&StartDetached, &StartNone, &StartOne}) {
      g_started = 0;
      char* const memory = MapFilledHost(bytes, 3, start);
      ASSERT_NE(memory, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % kHugePageBytes, 0U);
      EXPECT_EQ(PagesMissing(memory, bytes), 0U);
      for (size_t i = 0; i < bytes; i += page) ASSERT_EQ(memory[i], 0);
      memory[bytes - 1] = 1;
      UnmapHost(memory, bytes);
      EXPECT_NE(msync(memory, page, MS_ASYNC), 0) << "still mapped";
    }
  }
}

TEST_F(HostMemoryTest, NoMoreThreadsThanSaidOrThanThereIsWorkFor) {
  char* const small = MapFilledHost(kHugePageBytes, 8, StartDetached);
  EXPECT_EQ(g_started.load(), 0);
  UnmapHost(small, kHugePageBytes);
  char* const alone = MapFilledHost(16 * kHugePageBytes, 1, StartDetached);
  EXPECT_EQ(g_started.load(), 0);
  UnmapHost(alone, 16 * kHugePageBytes);
  char* const large = MapFilledHost(16 * kHugePageBytes, 3, StartDetached);
  EXPECT_LE(g_started.load(), 2);
  UnmapHost(large, 16 * kHugePageBytes);
}

TEST_F(HostMemoryTest, WhatCannotBeMappedIsNull) {
  EXPECT_EQ(MapFilledHost(SIZE_MAX - 5, 3, StartDetached), nullptr);
  EXPECT_EQ(MapFilledHost(size_t{1} << 60, 3, StartDetached), nullptr);
  EXPECT_EQ(g_started.load(), 0);
}

TEST_F(HostMemoryTest, NumbersOfTheSystemsFiles) {
  const char* const text = "MemTotal:       16000 kB\nMemAvailable:    12345 kB\nCached: 7 kB\n";
  EXPECT_EQ(NumberBehind(text, "MemAvailable:"), 12345U);
  EXPECT_EQ(NumberBehind(text, "Cached:"), 7U);
  EXPECT_EQ(NumberBehind(text, "Available:"), 0U);
  EXPECT_EQ(NumberBehind("", "x"), 0U);
  EXPECT_EQ(NumberBehind("max\n", ""), 0U);
  EXPECT_EQ(NumberBehind("4096\n", ""), 4096U);
  EXPECT_EQ(NumberBehind("inactive_file", "inactive_file "), 0U);
}

TEST_F(HostMemoryTest, SomeMemoryIsAvailableHereAndNotAllThereIs) {
  const uint64_t available = AvailableHostMemory();
  EXPECT_GT(available, uint64_t{1} << 20);
  EXPECT_LT(available, static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
}

}  // namespace
}  // namespace slipstream::allocator
