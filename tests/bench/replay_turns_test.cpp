// Replays on the simulated device, through allocators that are right and through some that are not.
#include "tools/dev/bench/replay_turns.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "tools/dev/bench/device_program.h"

namespace bench {
namespace {

AllocationTrace TraceOf(const std::string& lines) {
  std::istringstream in("slipstream-allocations 1\n" + lines);
  AllocationTrace trace;
  std::string error;
  EXPECT_TRUE(ReadAllocationTrace(in, "trace", &trace, &error)) << error;
  return trace;
}

// What the calls of the allocators below were, in their order, and how they shall fail.
std::mutex g_mutex;
std::vector<std::string> g_calls;
std::map<void*, size_t> g_live;
char* g_shared = nullptr;
size_t g_fail_at = SIZE_MAX;
size_t g_allocations = 0;

cudaError_t Allocate(int, void** memory, size_t bytes, cudaStream_t stream) {
  const std::scoped_lock lock(g_mutex);
  if (g_allocations++ == g_fail_at) return cudaErrorMemoryAllocation;
  const cudaError_t result = cudaMallocAsync(memory, bytes, stream);
  g_calls.push_back("m" + std::to_string(bytes));
  if (result == cudaSuccess) g_live[*memory] = bytes;
  return result;
}

cudaError_t Free(int, void* memory, size_t bytes, cudaStream_t stream) {
  const std::scoped_lock lock(g_mutex);
  EXPECT_EQ(g_live[memory], bytes) << "freed what is not live";
  g_live.erase(memory);
  g_calls.push_back("f" + std::to_string(bytes));
  return cudaFreeAsync(memory, stream);
}

// Every block lies in the same memory, half a MiB behind the one before.
cudaError_t AllocateOverlapping(int, void** memory, size_t, cudaStream_t) {
  *memory = g_shared + g_allocations++ % 2 * (kMiB / 2);
  return cudaSuccess;
}
cudaError_t KeepIt(int, void*, size_t, cudaStream_t) { return cudaSuccess; }

constexpr ReplayCalls kRight = {.name = "right",
                                .allocate = Allocate,
                                .free = Free,
                                .prepare = [](int) { return true; },
                                .reserved = [](int) { return std::optional<uint64_t>(12345); }};
constexpr ReplayCalls kOverlapping = {.name = "overlapping",
                                      .allocate = AllocateOverlapping,
                                      .free = KeepIt,
                                      .prepare = [](int) { return true; },
                                      .reserved = [](int) { return std::optional<uint64_t>(); }};

class ReplayTurns : public testing::Test {
 protected:
  void SetUp() override {
    g_calls.clear();
    g_live.clear();
    g_fail_at = SIZE_MAX;
    g_allocations = 0;
  }
};

TEST_F(ReplayTurns, EveryCallIsMadeInTheOrderOfTheFileAndTimed) {
  const AllocationTrace trace =
      TraceOf("m 0 0 1 1 100\nm 1 0 2 2 200\ns 0 0 1\nf 0 0 2 1\nm 0 0 0 3 300\nd 0 0\nf 0 0 0 3\n");
  const ReplayResult result = Replay(trace, kRight, {.touch = true, .warm_up = 1, .turns = 2});
  EXPECT_FALSE(result.failure) << result.failure->what;
  // A turn to warm up, two that are timed, and one in which the driver is asked. Block 2 is never freed by the trace.
  const std::vector<std::string> turn = {"m100", "m200", "f100", "m300", "f300", "f200"};
  ASSERT_EQ(g_calls.size(), 4 * turn.size());
  for (size_t i = 0; i < g_calls.size(); ++i) EXPECT_EQ(g_calls[i], turn[i % turn.size()]) << i;
  EXPECT_EQ(result.turn_seconds.size(), 2);
  EXPECT_EQ(result.allocate_ns.size(), 6);
  EXPECT_EQ(result.free_ns.size(), 4);
  ASSERT_EQ(result.devices.size(), 1);
  EXPECT_EQ(result.devices[0].peak_live, 500);
  EXPECT_EQ(result.devices[0].reserved, 12345);
  EXPECT_TRUE(g_live.empty());
}

TEST_F(ReplayTurns, BlockOfNoBytesIsNoCall) {
  const ReplayResult result =
      Replay(TraceOf("m 0 0 1 1 0\nm 0 0 1 2 8\nf 0 0 1 1\nf 0 0 1 2\n"), kRight, {.check = true});
  EXPECT_FALSE(result.failure);
  EXPECT_EQ(g_calls[0], "m8");
  EXPECT_EQ(g_calls[1], "f8");
  EXPECT_EQ(result.allocate_ns.size(), 3);
}

TEST_F(ReplayTurns, MemoryThatEndsIsSaidAndAllIsGivenBack) {
  g_fail_at = 1;
  const ReplayResult result = Replay(TraceOf("m 0 0 1 1 100\nm 0 0 1 22 200\nf 0 0 1 1\n"), kRight, {.check = true});
  ASSERT_TRUE(result.failure);
  EXPECT_TRUE(result.failure->out_of_memory);
  EXPECT_EQ(result.failure->what, "allocation of block 22, 200 bytes: CUDA error 2");
  EXPECT_TRUE(result.turn_seconds.empty());
  EXPECT_TRUE(g_live.empty());
}

TEST_F(ReplayTurns, DeviceThatIsNotHereIsSaid) {
  const ReplayResult result = Replay(TraceOf("m 0 77 1 1 100\n"), kRight, {});
  ASSERT_TRUE(result.failure);
  EXPECT_FALSE(result.failure->out_of_memory);
  EXPECT_EQ(result.failure->what.rfind("device 77 is not here; --device N", 0), 0) << result.failure->what;
  EXPECT_TRUE(g_calls.empty());
}

TEST_F(ReplayTurns, TraceOfOneDeviceIsPlayedOnAnother) {
  const ReplayResult result = Replay(TraceOf("m 0 77 1 1 100\nf 0 77 1 1\n"), kRight, {.check = true, .device = 1});
  EXPECT_FALSE(result.failure) << result.failure->what;
  EXPECT_EQ(result.devices[0].ordinal, 1);
}

TEST_F(ReplayTurns, TwoDevicesHaveAPeakEach) {
  const ReplayResult result =
      Replay(TraceOf("m 0 0 1 1 100\nm 0 1 1 2 50\nf 0 1 1 2\nm 0 1 1 3 20\nf 0 0 1 1\nm 0 0 1 4 10\n"), kRight,
             {.check = true});
  EXPECT_FALSE(result.failure) << result.failure->what;
  ASSERT_EQ(result.devices.size(), 2);
  EXPECT_EQ(result.devices[0].peak_live, 100);
  EXPECT_EQ(result.devices[1].peak_live, 50);
  EXPECT_EQ(result.check.wrong + result.check.overlapping, 0);
}

// Many blocks, each freed by the thread that did not allocate it, from both sides.
TEST_F(ReplayTurns, ThreadsFreeWhatOthersAllocate) {
  std::string lines;
  for (int i = 1; i <= 200; i += 2) {
    const std::string a = std::to_string(i);
    const std::string b = std::to_string(i + 1);
    lines += "m 0 0 1 " + a + " 4096\nm 1 0 2 " + b + " 8192\nf 1 0 1 " + a + "\nf 0 0 2 " + b + "\n";
    if (i % 20 == 1) lines += "s 0 0 1\nd 1 0\n";
  }
  const ReplayResult result = Replay(TraceOf(lines), kRight, {.check = true, .threads = true, .turns = 2});
  EXPECT_FALSE(result.failure) << result.failure->what;
  EXPECT_EQ(result.allocate_ns.size(), 400);
  EXPECT_EQ(result.free_ns.size(), 400);
  EXPECT_EQ(result.check.blocks, 800);
  EXPECT_EQ(result.check.wrong + result.check.overlapping, 0) << result.check.first;
  EXPECT_TRUE(g_live.empty());
  EXPECT_GE(result.devices[0].peak_live, 4096);
  EXPECT_LE(result.devices[0].peak_live, 100 * (4096 + 8192));
}

TEST_F(ReplayTurns, NoThreadWaitsForABlockThatNeverComes) {
  g_fail_at = 0;
  const ReplayResult result =
      Replay(TraceOf("m 0 0 1 1 100\nm 1 0 1 2 100\nf 1 0 1 1\nf 0 0 1 2\n"), kRight, {.threads = true, .warm_up = 0});
  ASSERT_TRUE(result.failure);
  EXPECT_TRUE(result.failure->out_of_memory);
  EXPECT_TRUE(g_live.empty());
}

TEST_F(ReplayTurns, CheckFindsBlocksThatOverlap) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 2 * kMiB), cudaSuccess);
  g_shared = static_cast<char*>(memory);
  const AllocationTrace trace = TraceOf("m 0 0 1 1 1048576\nm 0 0 1 2 1048576\nf 0 0 1 1\nf 0 0 1 2\n");
  EXPECT_FALSE(Replay(trace, kOverlapping, {.touch = true}).failure);
  g_allocations = 0;
  const ReplayResult result = Replay(trace, kOverlapping, {.check = true, .warm_up = 0, .turns = 1});
  EXPECT_FALSE(result.failure);
  EXPECT_EQ(result.check.overlapping, 2);  // one in each turn
  EXPECT_EQ(result.check.wrong, 2);
  EXPECT_EQ(result.check.first, "block 2 lies over block 1, which is live, in turn 0");
  cudaFree(memory);
}

TEST_F(ReplayTurns, CheckFindsBytesThatAnotherBlockHasWritten) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 2 * kMiB), cudaSuccess);
  g_shared = static_cast<char*>(memory);
  // One at a time, and yet: the second is written before the first one's stream has had its turn.
  const AllocationTrace trace =
      TraceOf("m 0 0 1 1 1048576\nf 0 0 1 1\nm 0 0 2 2 1048576\ns 0 0 2\ns 0 0 1\nf 0 0 2 2\n");
  const ReplayResult result = Replay(trace, kOverlapping, {.check = true, .warm_up = 0, .turns = 1});
  EXPECT_EQ(result.check.overlapping, 0);
  EXPECT_GE(result.check.wrong, 1);
  EXPECT_NE(result.check.first.find(" and not "), std::string::npos) << result.check.first;
  cudaFree(memory);
}

TEST_F(ReplayTurns, BlockLargerThanWhatIsSetAsideIsComparedInParts) {
  const std::string bytes = std::to_string(BlockCheck::kAside * 2 + 5);
  const ReplayResult result = Replay(TraceOf("m 0 0 1 1 " + bytes + "\nm 0 0 2 2 77\nf 0 0 2 2\nf 0 0 1 1\n"), kRight,
                                     {.check = true, .turns = 1});
  EXPECT_FALSE(result.failure);
  EXPECT_EQ(result.check.blocks, 6);
  EXPECT_EQ(result.check.bytes, 3 * (BlockCheck::kAside * 2 + 5 + 77));
  EXPECT_EQ(result.check.wrong, 0) << result.check.first;
}

TEST_F(ReplayTurns, DriversMemoryIsAskedForAtThePeak) {
  const AllocationTrace trace = TraceOf("m 0 0 1 1 20971520\nf 0 0 1 1\ns 0 0 1\nm 0 0 1 2 1048576\nf 0 0 1 2\n");
  const ReplayResult result = Replay(trace, kRight, {});
  ASSERT_TRUE(result.devices[0].driver_used_before);
  ASSERT_TRUE(result.devices[0].driver_used_at_peak);
  const uint64_t more = *result.devices[0].driver_used_at_peak - *result.devices[0].driver_used_before;
  EXPECT_GE(more, 20 * kMiB);
  EXPECT_LE(more, 24 * kMiB);
  EXPECT_EQ(result.devices[0].live_at_peak, 20 * kMiB);
  const ReplayResult together = Replay(trace, kRight, {.threads = true});
  EXPECT_EQ(together.devices[0].live_at_peak, 20 * kMiB);
  EXPECT_EQ(together.devices[0].peak_live, 20 * kMiB);
  ASSERT_EQ(setenv("FAKE_NVML_USED", "no", 1), 0);
  EXPECT_FALSE(Replay(trace, kRight, {}).devices[0].driver_used_at_peak);
  unsetenv("FAKE_NVML_USED");
}

TEST(LiveRanges, FindsWhatLiesOverAnother) {
  LiveRanges ranges;
  char* const base = reinterpret_cast<char*>(uintptr_t{1} << 30);
  EXPECT_EQ(ranges.Add(base, 100, 1), 0);
  EXPECT_EQ(ranges.Add(base + 100, 50, 2), 0);  // side by side
  EXPECT_EQ(ranges.Add(base, 100, 3), 1);       // the same
  EXPECT_EQ(ranges.Add(base - 10, 11, 3), 1);   // from the left
  EXPECT_EQ(ranges.Add(base + 149, 9, 3), 2);   // from the right
  EXPECT_EQ(ranges.Add(base + 10, 5, 3), 1);    // inside
  EXPECT_EQ(ranges.Add(base - 10, 500, 3), 1);  // around
  EXPECT_EQ(ranges.Add(base - 10, 10, 3), 0);
  ranges.Remove(base);
  EXPECT_EQ(ranges.Add(base + 20, 80, 4), 0);
}

}  // namespace
}  // namespace bench
