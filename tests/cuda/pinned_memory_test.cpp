// S60: staging memory is on the node that is asked for. S67: staging memory for which the system has no page left is
// not there; nothing is written to make one.
#include "cuda/pinned_memory.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "cuda/driver.h"

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

namespace slipstream::cuda {
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
  char* const memory = PinSegment(driver_, kBytes, -1);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(g_resident, kBytes / 4096);
  EXPECT_TRUE(UnpinSegment(driver_, memory, kBytes));
  EXPECT_EQ(g_registered, 0);
}

TEST_F(PinnedMemoryTest, S67_WhereThereAreNoPagesThereIsNoSegment) {
  for (const int error : {ENOMEM, EFAULT, EHWPOISON}) {
    g_populate_fails_with = error;
    EXPECT_EQ(PinSegment(driver_, kBytes, -1), nullptr) << error;
    EXPECT_EQ(g_registered, 0);
  }
}

// The driver's own call makes them then, and fails where there are none.
TEST_F(PinnedMemoryTest, S67_ASystemThatCannotBeAskedIsNotWrittenTo) {
  g_populate_fails_with = EINVAL;
  char* const memory = PinSegment(driver_, kBytes, -1);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(g_registered, 1);
  EXPECT_EQ(g_resident, 0U);
  EXPECT_TRUE(UnpinSegment(driver_, memory, kBytes));
}

// How the system was told to place the page.
int PolicyOf(const char* memory, unsigned long* nodes) {
  int policy = -1;
  EXPECT_EQ(syscall(SYS_get_mempolicy, &policy, nodes, 1025UL, memory, static_cast<unsigned long>(MPOL_F_ADDR)), 0);
  return policy;
}

TEST_F(PinnedMemoryTest, S60_PagesAreOnTheNodeThatIsAskedFor) {
  unsigned long nodes[17] = {};
  char* const there = PinSegment(driver_, kBytes, 0);
  ASSERT_NE(there, nullptr);
  const int policy = PolicyOf(there + kBytes - 1, nodes);
  EXPECT_TRUE(UnpinSegment(driver_, there, kBytes));
  if (policy == MPOL_DEFAULT) GTEST_SKIP() << "this system lets nobody place pages";
  EXPECT_EQ(policy, MPOL_PREFERRED);
  EXPECT_EQ(nodes[0], 1UL);
}

TEST_F(PinnedMemoryTest, S60_ANodeThatThereIsNotIsNoReasonToHaveNoMemory) {
  for (const int node : {-1, 900, 1 << 20}) {
    unsigned long nodes[17] = {};
    char* const memory = PinSegment(driver_, kBytes, node);
    ASSERT_NE(memory, nullptr) << node;
    EXPECT_EQ(PolicyOf(memory, nodes), MPOL_DEFAULT) << node;
    EXPECT_EQ(g_resident, kBytes / 4096);
    EXPECT_TRUE(UnpinSegment(driver_, memory, kBytes));
  }
}

TEST_F(PinnedMemoryTest, S60_TheNodeIsTheDriversWord) {
  driver_.cuDeviceGetAttribute = [](int* value, CUdevice_attribute attribute, CUdevice device) {
    *value = attribute == CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID ? 3 + device : 0;
    return device == 9 ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
  };
  EXPECT_EQ(NumaNodeOf(driver_, 2), 5);
  EXPECT_EQ(NumaNodeOf(driver_, 9), -1);
}

}  // namespace
}  // namespace slipstream::cuda
