// S67: what the machine and the container leave a process, read from files as Linux writes them.
#include "policy/memory_left.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "tests/support/process.h"

namespace slipstream::policy {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

class MemoryLeftTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    test::WriteFile(file, text);
  }
  void Machine(uint64_t available) {
    Write("proc/meminfo", "MemTotal:       24683520 kB\nMemFree:        1 kB\nMemAvailable:   " +
                              std::to_string(available >> 10) + " kB\nBuffers: 1 kB\n");
  }
  uint64_t Left() const { return MemoryLeft(root_.path()); }

  test::Folder root_;
};

TEST_F(MemoryLeftTest, S67_WhereNothingIsKnownNothingIsLimited) { EXPECT_EQ(Left(), UINT64_MAX); }

TEST_F(MemoryLeftTest, S67_OfTheMachine) {
  Machine(300 * kMiB);
  EXPECT_EQ(Left(), 300 * kMiB);
  Write("proc/self/cgroup", "0::/user.slice\n");
  Write("sys/fs/cgroup/user.slice/memory.max", "max\n");
  Write("sys/fs/cgroup/user.slice/memory.current", "1048576\n");
  EXPECT_EQ(Left(), 300 * kMiB);
}

TEST_F(MemoryLeftTest, S67_OfTheCgroupAndThoseAboveIt) {
  Machine(9000 * kMiB);
  Write("proc/self/cgroup", "0::/job/rank\n");
  Write("sys/fs/cgroup/job/rank/memory.max", std::to_string(800 * kMiB));
  Write("sys/fs/cgroup/job/rank/memory.current", std::to_string(500 * kMiB));
  EXPECT_EQ(Left(), 300 * kMiB);
  // What the kernel takes back first is left as well.
  Write("sys/fs/cgroup/job/rank/memory.stat",
        "anon 1\nfile 300\ninactive_anon 7\ninactive_file " + std::to_string(100 * kMiB) + "\n");
  EXPECT_EQ(Left(), 400 * kMiB);
  Write("sys/fs/cgroup/job/memory.max", std::to_string(1000 * kMiB));
  Write("sys/fs/cgroup/job/memory.current", std::to_string(990 * kMiB));
  EXPECT_EQ(Left(), 10 * kMiB);
  Write("sys/fs/cgroup/job/memory.current", std::to_string(1001 * kMiB));
  EXPECT_EQ(Left(), 0U);
}

// The container's own files lie at the mount; the path is the host's.
TEST_F(MemoryLeftTest, S67_InAContainer) {
  Machine(9000 * kMiB);
  Write("proc/self/cgroup", "0::/kubepods/pod7/0123\n");
  Write("sys/fs/cgroup/memory.max", std::to_string(64 * kMiB));
  Write("sys/fs/cgroup/memory.current", std::to_string(60 * kMiB));
  EXPECT_EQ(Left(), 4 * kMiB);
}

TEST_F(MemoryLeftTest, S67_OfVersion1) {
  Machine(9000 * kMiB);
  Write("proc/self/cgroup", "5:cpu,cpuacct:/\n4:memory:/docker/ab\n0::/\n");
  Write("sys/fs/cgroup/memory/docker/ab/memory.limit_in_bytes", "9223372036854771712\n");
  Write("sys/fs/cgroup/memory/docker/ab/memory.usage_in_bytes", "4096\n");
  EXPECT_EQ(Left(), 9000 * kMiB);
  Write("sys/fs/cgroup/memory/docker/ab/memory.limit_in_bytes", std::to_string(100 * kMiB));
  Write("sys/fs/cgroup/memory/docker/ab/memory.usage_in_bytes", std::to_string(90 * kMiB));
  Write("sys/fs/cgroup/memory/docker/ab/memory.stat",
        "inactive_file 1\ntotal_inactive_file " + std::to_string(20 * kMiB) + "\n");
  EXPECT_EQ(Left(), 30 * kMiB);
}

TEST_F(MemoryLeftTest, S67_DamagedFilesLimitNothing) {
  Write("proc/meminfo", "MemAvailable:\n");
  Write("proc/self/cgroup", "\n:\n0:\n0::\n0::x\n0::xyz\n4:memory:a/b\nnonsense");
  Write("sys/fs/cgroup/memory.max", "-");
  EXPECT_EQ(Left(), UINT64_MAX);
}

TEST(MostPinnedTest, S67_AnEighthOfAllDividedByTheRanks) {
  EXPECT_EQ(MostPinned(800 * kMiB, 0, 0), 100 * kMiB);
  EXPECT_EQ(MostPinned(700 * kMiB, 100 * kMiB, 1), 100 * kMiB);
  EXPECT_EQ(MostPinned(800 * kMiB, 0, 8), 100 * kMiB / 8);
  EXPECT_EQ(MostPinned(UINT64_MAX, kMiB, 1), UINT64_MAX / 8);
  EXPECT_EQ(MostPinned(0, 0, -3), 0U);
}

TEST_F(MemoryLeftTest, WhereMappingsAreLimited) {
  if (MappingsAreLimited(root_.path())) GTEST_SKIP() << "these tests run under a limit (ulimit -v, -d)";
  for (const char* const mode : {"0\n", "1\n"}) {
    Write("proc/sys/vm/overcommit_memory", mode);
    EXPECT_FALSE(MappingsAreLimited(root_.path())) << mode;
  }
  Write("proc/sys/vm/overcommit_memory", "2\n");
  EXPECT_TRUE(MappingsAreLimited(root_.path()));
  Write("proc/sys/vm/overcommit_memory", "0\n");
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit before = {};
    ASSERT_EQ(getrlimit(resource, &before), 0);
    // Far more than there is: only that there is a limit counts.
    const rlimit limited = {rlim_t{1} << 60, before.rlim_max};
    ASSERT_EQ(setrlimit(resource, &limited), 0);
    EXPECT_TRUE(MappingsAreLimited(root_.path()));
    ASSERT_EQ(setrlimit(resource, &before), 0);
  }
  EXPECT_FALSE(MappingsAreLimited(root_.path()));
}

}  // namespace
}  // namespace slipstream::policy
