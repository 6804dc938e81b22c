// Pages that are made before they are written: what they hold stays, and what may not be written is told.

#include "transfer/host_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <vector>

namespace slipstream::transfer {
namespace {

class HostPages : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!CanMakeWritable()) GTEST_SKIP() << "the kernel cannot (before Linux 5.14)";
    memory_ = static_cast<char*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(memory_, MAP_FAILED);
  }
  void TearDown() override {
    if (memory_ != nullptr) munmap(memory_, kBytes);
  }
  size_t Present() const {
    std::vector<unsigned char> present(kBytes / page_);
    EXPECT_EQ(mincore(memory_, kBytes, present.data()), 0);
    size_t count = 0;
    for (const unsigned char one : present) count += one & 1U;
    return count;
  }

  const size_t page_ = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  static constexpr size_t kBytes = size_t{16} << 20;
  char* memory_ = nullptr;
};

TEST_F(HostPages, AreThereAndHoldWhatTheyHeld) {
  std::memset(memory_ + 100, 0x5A, page_);
  EXPECT_TRUE(MakeWritable(memory_ + 100, 3 * page_));
  EXPECT_GE(Present(), 4U);
  for (size_t i = 0; i < page_; ++i) ASSERT_EQ(memory_[100 + i], 0x5A);
  EXPECT_EQ(memory_[99], 0);
  EXPECT_EQ(memory_[100 + page_], 0);
}

TEST_F(HostPages, WhatMayNotBeWrittenIsTold) {
  ASSERT_EQ(mprotect(memory_ + 4 * page_, page_, PROT_READ), 0);
  EXPECT_TRUE(MakeWritable(memory_, 4 * page_));
  EXPECT_FALSE(MakeWritable(memory_ + 3 * page_, 3 * page_));
  EXPECT_FALSE(MakeWritable(memory_ + 4 * page_ + 17, 1));
  ASSERT_EQ(munmap(memory_ + 8 * page_, page_), 0);
  EXPECT_FALSE(MakeWritable(memory_ + 7 * page_, 3 * page_));
  EXPECT_FALSE(MakeWritable(nullptr, page_));
}

TEST_F(HostPages, WhatMayBeWrittenIsKnownBeforehandIfTheKernelSays) {
  if (!IsWritableMemory(memory_ + 5, kBytes - 5)) GTEST_SKIP() << "the kernel does not say (before Linux 6.11)";
  EXPECT_EQ(Present(), 0U);  // a question makes no pages
  ASSERT_EQ(mprotect(memory_ + 4 * page_, page_, PROT_READ), 0);
  EXPECT_TRUE(IsWritableMemory(memory_, 4 * page_));
  EXPECT_FALSE(IsWritableMemory(memory_, 4 * page_ + 1));
  EXPECT_FALSE(IsWritableMemory(memory_ + 4 * page_, 1));
  EXPECT_TRUE(IsWritableMemory(memory_ + 5 * page_, 3 * page_));
  ASSERT_EQ(munmap(memory_ + 8 * page_, page_), 0);
  EXPECT_FALSE(IsWritableMemory(memory_ + 7 * page_, 3 * page_));
  EXPECT_FALSE(IsWritableMemory(nullptr, page_));
  const int file = memfd_create("shared", 0);
  ASSERT_GE(file, 0);
  ASSERT_EQ(ftruncate(file, static_cast<off_t>(page_)), 0);
  for (const int flags : {MAP_SHARED, MAP_PRIVATE}) {
    void* const mapped = mmap(nullptr, 4 * page_, PROT_READ | PROT_WRITE, flags, file, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    EXPECT_FALSE(IsWritableMemory(static_cast<char*>(mapped), page_)) << flags;
    munmap(mapped, 4 * page_);
  }
  close(file);
}

TEST_F(HostPages, HugeOnesChangeNothingThatIsThere) {
  std::memset(memory_, 0x33, kBytes);
  AskForHugePages(memory_ + 1, kBytes - 2);
  for (size_t i = 0; i < kBytes; i += page_) ASSERT_EQ(memory_[i], 0x33);
}

TEST_F(HostPages, HugeOnesOfFreshMemory) {
  AskForHugePages(memory_ + 1, kBytes - 2);
  EXPECT_EQ(Present(), 0U) << "nothing is made by asking";
  EXPECT_TRUE(MakeWritable(memory_, kBytes));
  EXPECT_EQ(Present(), kBytes / page_);
  for (size_t i = 0; i < kBytes; i += page_) ASSERT_EQ(memory_[i], 0);
}

}  // namespace
}  // namespace slipstream::transfer
