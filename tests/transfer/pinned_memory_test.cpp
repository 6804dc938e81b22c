// S67: staging memory for which the system has no page left is not there; nothing is written to make one.
#include "transfer/pinned_memory.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "transfer/driver.h"

namespace {

int g_populate_fails_with = 0;

}  // namespace

// The program's own comes before the C library's.
extern "C" int madvise(void* memory, size_t bytes, int advice) noexcept {
  constexpr int kPopulateWrite = 23;
  if (advice == kPopulateWrite && g_populate_fails_with != 0) {
    errno = g_populate_fails_with;
    return -1;
  }
  static const auto real = reinterpret_cast<int (*)(void*, size_t, int)>(dlsym(RTLD_NEXT, "madvise"));
  return real(memory, bytes, advice);
}

namespace slipstream::transfer {
namespace {

constexpr size_t kBytes = size_t{4} << 20;

int g_registered = 0;
size_t g_resident = 0;  // pages that were there when the driver was called

size_t Resident(void* memory, size_t bytes) {
  std::vector<unsigned char> pages(bytes / 4096);
  if (mincore(memory, bytes, pages.data()) != 0) return SIZE_MAX;
  return static_cast<size_t>(std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return page & 1; }));
}

class PinnedMemoryTest : public testing::Test {
 protected:
  PinnedMemoryTest() {
    g_registered = 0;
    g_resident = 0;
    driver_.cuMemHostRegister = [](void* memory, size_t bytes, unsigned) {
      ++g_registered;
      g_resident = Resident(memory, bytes);
      return CUDA_SUCCESS;
    };
    driver_.cuMemHostUnregister = [](void*) {
      --g_registered;
      return CUDA_SUCCESS;
    };
  }
  ~PinnedMemoryTest() override { g_populate_fails_with = 0; }

  Driver driver_{};
};

TEST_F(PinnedMemoryTest, S67_PagesAreThereBeforeTheDriverIsAsked) {
  char* const memory = PinSegment(driver_, kBytes);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(g_resident, kBytes / 4096);
  EXPECT_TRUE(UnpinSegment(driver_, memory, kBytes));
  EXPECT_EQ(g_registered, 0);
}

TEST_F(PinnedMemoryTest, S67_WhereThereAreNoPagesThereIsNoSegment) {
  for (const int error : {ENOMEM, EFAULT, EHWPOISON}) {
    g_populate_fails_with = error;
    EXPECT_EQ(PinSegment(driver_, kBytes), nullptr) << error;
    EXPECT_EQ(g_registered, 0);
  }
}

// The driver's own call makes them then, and fails where there are none.
TEST_F(PinnedMemoryTest, S67_ASystemThatCannotBeAskedIsNotWrittenTo) {
  g_populate_fails_with = EINVAL;
  char* const memory = PinSegment(driver_, kBytes);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(g_registered, 1);
  EXPECT_EQ(g_resident, 0U);
  EXPECT_TRUE(UnpinSegment(driver_, memory, kBytes));
}

}  // namespace
}  // namespace slipstream::transfer
