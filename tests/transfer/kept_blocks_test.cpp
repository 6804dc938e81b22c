// Blocks that PyTorch has freed: handed out for their size alone and to one owner, bounded, given back, never pinned.

#include "transfer/kept_blocks.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "policy/helper_thread.h"

namespace slipstream::transfer {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kBytes = 4 * kMiB;
constexpr size_t kLarge = 48 * kMiB;
constexpr std::chrono::hours kLong{1};

// What the blocks go back to.
struct World {
  std::atomic<int> freed{0};
  std::atomic<int> freed_large{0};  // of kLarge and more, which one test has: a thread of another's may be late
  std::atomic<int> reused{0};
  std::atomic<uint64_t> most{UINT64_MAX};
  std::atomic<bool> threads{true};
  std::atomic<const void*> pinned{nullptr};
};
World g_world;

KeptBlocks::Parts Parts() {
  return {.count = [](Decision, uint64_t, uint64_t) { g_world.reused.fetch_add(1); },
          .start_thread =
              [](const char* name, void* (*body)(void*), void* argument) {
                return g_world.threads.load() && policy::StartHelperThread(name, body, argument);
              },
          .free =
              [](void* block) {
                const bool large = malloc_usable_size(block) >= kLarge;
                std::free(block);
                g_world.freed.fetch_add(1);
                if (large) g_world.freed_large.fetch_add(1);
              },
          .most = [](uint64_t) { return g_world.most.load(); },
          .pinned = [](const void* block, size_t) { return block == g_world.pinned.load(); }};
}

void WaitUntil(const std::atomic<int>& count, int value) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (count.load() < value && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  ASSERT_GE(count.load(), value);
}

class KeptBlocksTest : public ::testing::Test {
 protected:
  KeptBlocksTest() {
    g_world.freed = g_world.freed_large = g_world.reused = 0;
    g_world.most = UINT64_MAX;
    g_world.threads = true;
    g_world.pinned = nullptr;
  }
  // Never destroyed, as in the library: its thread may be inside.
  static KeptBlocks& Make(uint64_t most = 64 * kMiB, std::chrono::nanoseconds idle = kLong) {
    static auto* const all = new std::vector<KeptBlocks*>;  // where a leak checker finds them
    return *all->emplace_back(new KeptBlocks(most, idle, Parts()));
  }
  static void* Allocate(KeptBlocks& kept, size_t bytes = kBytes) {
    if (void* const block = kept.Take(bytes)) return block;
    void* block = nullptr;
    if (posix_memalign(&block, 64, bytes) == 0) kept.Given(block, bytes);
    return block;
  }
  static void Free(KeptBlocks& kept, void* block) {
    if (!kept.Keep(block)) Parts().free(block);
  }
};

TEST_F(KeptBlocksTest, K1_ForItsOwnSizeAndOneOwner) {
  KeptBlocks& kept = Make();
  void* const block = Allocate(kept);
  ASSERT_TRUE(kept.Keep(block));
  EXPECT_FALSE(kept.Keep(block)) << "it is nobody's";
  EXPECT_EQ(kept.Take(kBytes - 1), nullptr);
  EXPECT_EQ(kept.Take(kBytes + 1), nullptr);
  EXPECT_EQ(kept.Take(kBytes), block);
  EXPECT_EQ(kept.Take(kBytes), nullptr) << "it has an owner";
  EXPECT_EQ(g_world.reused, 1);
  ASSERT_TRUE(kept.Keep(block));
  EXPECT_EQ(kept.Take(kBytes), block);
}

TEST_F(KeptBlocksTest, K1_TheLastOneFirst) {
  KeptBlocks& kept = Make();
  void* const first = Allocate(kept);
  void* const second = Allocate(kept);
  ASSERT_TRUE(kept.Keep(first));
  ASSERT_TRUE(kept.Keep(second));
  EXPECT_EQ(kept.Take(kBytes), second);
  EXPECT_EQ(kept.Take(kBytes), first);
}

TEST_F(KeptBlocksTest, K1_WhatItWasNotTold) {
  KeptBlocks& kept = Make();
  void* const block = std::malloc(kBytes);
  EXPECT_FALSE(kept.Keep(block));
  std::free(block);
}

// A block that was freed by other means: the allocator gives its place to something smaller.
TEST_F(KeptBlocksTest, K1_AnotherBlockAtTheSamePlace) {
  KeptBlocks& kept = Make();
  void* const smaller = std::malloc(100);
  kept.Given(smaller, kBytes);
  EXPECT_FALSE(kept.Keep(smaller));
  std::free(smaller);
}

TEST_F(KeptBlocksTest, K2_TheBoundOfThePolicy) {
  KeptBlocks& kept = Make(3 * kBytes);
  std::vector<void*> blocks;
  for (int i = 0; i < 5; ++i) blocks.push_back(Allocate(kept));
  for (void* const block : blocks) EXPECT_TRUE(kept.Keep(block));
  EXPECT_EQ(g_world.freed, 2) << "the oldest";
  EXPECT_EQ(kept.Take(kBytes), blocks[4]);
  EXPECT_EQ(kept.Take(kBytes), blocks[3]);
  EXPECT_EQ(kept.Take(kBytes), blocks[2]);
  EXPECT_EQ(kept.Take(kBytes), nullptr);
  void* const long_one = Allocate(kept, 3 * kBytes + 1);
  EXPECT_FALSE(kept.Keep(long_one));
  std::free(long_one);
}

TEST_F(KeptBlocksTest, K2_TheBoundOfTheMachine) {
  g_world.most = kBytes;
  KeptBlocks& kept = Make();
  void* const first = Allocate(kept);
  void* const second = Allocate(kept);
  EXPECT_TRUE(kept.Keep(first));
  EXPECT_TRUE(kept.Keep(second));
  EXPECT_EQ(g_world.freed, 1);
  g_world.most = 0;
  KeptBlocks& none = Make();
  void* const third = Allocate(none);
  EXPECT_FALSE(none.Keep(third));
  std::free(third);
}

TEST_F(KeptBlocksTest, K2_HowMany) {
  KeptBlocks& kept = Make(UINT64_MAX);
  std::vector<void*> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(Allocate(kept, KeptBlocks::kLeastBytes));
  for (void* const block : blocks) EXPECT_TRUE(kept.Keep(block));
  EXPECT_EQ(g_world.freed, 100 - 64);
}

TEST_F(KeptBlocksTest, K2_GivenBackWhenNobodyWantsIt) {
  KeptBlocks& kept = Make(64 * kMiB, std::chrono::milliseconds(20));
  for (int round = 1; round <= 3; ++round) {  // the thread ends with the last block, and is started again
    void* const first = Allocate(kept);
    void* const second = Allocate(kept, 2 * kBytes);
    ASSERT_TRUE(kept.Keep(first));
    ASSERT_TRUE(kept.Keep(second));
    WaitUntil(g_world.freed, 2 * round);
    EXPECT_EQ(kept.Take(kBytes), nullptr);
  }
}

TEST_F(KeptBlocksTest, K2_WithoutAThreadNothingIsKept) {
  g_world.threads = false;
  KeptBlocks& kept = Make();
  void* const block = Allocate(kept);
  EXPECT_FALSE(kept.Keep(block));
  std::free(block);
}

TEST_F(KeptBlocksTest, K3_PinnedInPlace) {
  KeptBlocks& kept = Make();
  void* const block = Allocate(kept);
  g_world.pinned = block;
  EXPECT_FALSE(kept.Keep(block));
  EXPECT_FALSE(kept.Keep(block)) << "it is the allocator's";
  std::free(block);
}

TEST_F(KeptBlocksTest, ThreadsNeverShareABlock) {
  KeptBlocks& kept = Make(6 * kBytes, std::chrono::milliseconds(1));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (char mine = 1; mine <= 4; ++mine) {
    threads.emplace_back([&kept, &wrong, mine] {
      for (int round = 0; round < 200; ++round) {
        const size_t bytes = KeptBlocks::kLeastBytes * (1 + static_cast<size_t>(round % 3));
        auto* const block = static_cast<char*>(Allocate(kept, bytes));
        for (size_t at = 0; at < bytes; at += 4096) block[at] = mine;
        std::this_thread::yield();
        for (size_t at = 0; at < bytes; at += 4096) wrong += block[at] != mine;
        Free(kept, block);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(g_world.reused, 0);
}

// What a program can do to memory, which ends where the C library unmaps it. `bytes` from `page` on are whole pages.
struct Change {
  const char* what;
  void (*make)(uint8_t* page, size_t bytes);
  bool kept;  // and as if it had not been done
};

TEST_F(KeptBlocksTest, K5_WhatWasSetOfTheMemoryEndsWithIt) {
  constexpr size_t kPageBytes = 4096;
  static const int kFile = memfd_create("kept_blocks_test", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(kFile, kMiB), 0);
  static const auto kMap = [](uint8_t* page, int flags, int fd) {
    ASSERT_EQ(mmap(page, kMiB, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0), page);
  };
  const Change changes[] = {
      {"nothing", [](uint8_t*, size_t) {}, true},
      {"read-only", [](uint8_t* page, size_t bytes) { ASSERT_EQ(mprotect(page, bytes, PROT_READ), 0); }, true},
      {"no access", [](uint8_t* page, size_t) { ASSERT_EQ(mprotect(page + kPageBytes, kPageBytes, PROT_NONE), 0); },
       true},
      {"not for children", [](uint8_t* page, size_t bytes) { ASSERT_EQ(madvise(page, bytes, MADV_DONTFORK), 0); },
       true},
      {"empty in children", [](uint8_t* page, size_t bytes) { ASSERT_EQ(madvise(page, bytes, MADV_WIPEONFORK), 0); },
       true},
      {"not in a core", [](uint8_t* page, size_t bytes) { ASSERT_EQ(madvise(page, bytes, MADV_DONTDUMP), 0); }, true},
      {"locked", [](uint8_t* page, size_t) { ASSERT_EQ(syscall(SYS_mlock, page + kPageBytes, kPageBytes), 0); }, false},
      {"a file", [](uint8_t* page, size_t) { kMap(page, MAP_SHARED, kFile); }, false},
      {"a private file", [](uint8_t* page, size_t) { kMap(page, MAP_PRIVATE, kFile); }, false},
      {"shared", [](uint8_t* page, size_t) { kMap(page, MAP_SHARED | MAP_ANONYMOUS, -1); }, false},
      {"a hole", [](uint8_t* page, size_t) { ASSERT_EQ(munmap(page + kPageBytes, kPageBytes), 0); }, false},
  };
  for (const Change& change : changes) {
    SCOPED_TRACE(change.what);
    KeptBlocks& kept = Make();
    auto* const block = static_cast<uint8_t*>(Allocate(kept, kLarge));
    auto* const page =
        reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(block) + kPageBytes) / kPageBytes * kPageBytes);
    change.make(page, kLarge - kPageBytes);
    errno = E2BIG;
    EXPECT_EQ(kept.Keep(block), change.kept);
    EXPECT_EQ(errno, E2BIG) << "as free() leaves it";
    if (change.kept) {
      ASSERT_EQ(kept.Take(kLarge), block);
      std::memset(block, 7, kLarge);
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) _exit(block[0] + page[0] + page[kPageBytes] + block[kLarge - 1] == 4 * 7 ? 0 : 1);
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    }
    Parts().free(block);
  }
  EXPECT_EQ(close(kFile), 0);
}

// Before a fork all goes back, and until it is over nothing is kept.
TEST_F(KeptBlocksTest, K4_AForkFindsNothingKept) {
  KeptBlocks& kept = Make(1024 * kMiB);
  for (void* const block : {Allocate(kept, kLarge), Allocate(kept, kLarge), Allocate(kept, kLarge + 64)})
    Free(kept, block);
  EXPECT_EQ(g_world.freed_large, 0);
  void* const before = Allocate(kept, 2 * kLarge);
  kept.BeforeFork();
  EXPECT_EQ(g_world.freed_large, 3);
  EXPECT_EQ(kept.Take(kLarge), nullptr);
  Free(kept, before);
  EXPECT_EQ(g_world.freed_large, 4);
  kept.BeforeFork();  // another thread's
  kept.AfterFork();
  Free(kept, Allocate(kept, kLarge));
  EXPECT_EQ(g_world.freed_large, 5);
  kept.AfterFork();
  void* const block = Allocate(kept, kLarge);
  Free(kept, block);
  EXPECT_EQ(kept.Take(kLarge), block);
  Parts().free(block);
}

// A child that came by another way than fork() has what was kept, and its own forks leave that alone: whoever had the
// lock or slept is not in it.
TEST_F(KeptBlocksTest, K4_AChildsOwnForks) {
  KeptBlocks& kept = Make(1024 * kMiB);
  Free(kept, Allocate(kept, kLarge));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    kept.BeforeFork();
    kept.AfterFork();
    _exit(g_world.freed_large == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// Others that take and free meanwhile find their blocks as they were.
TEST_F(KeptBlocksTest, K4_ForksBesideOthers) {
  KeptBlocks& kept = Make();
  std::atomic<bool> ends{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < 3; ++number) {
    threads.emplace_back([&, number] {
      while (!ends) {
        auto* const block = static_cast<uint8_t*>(Allocate(kept));
        std::memset(block, number + 1, kBytes);
        for (size_t at = 0; at < kBytes; at += 4096) wrong += block[at] != number + 1 ? 1 : 0;
        Free(kept, block);
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    kept.BeforeFork();
    kept.AfterFork();
    std::this_thread::yield();
  }
  WaitUntil(g_world.reused, 1);
  ends = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// Of a block with another behind it, so that the C library keeps the memory: how many of its pages are there. None:
// they are not the process's any more.
class PagesOfFreedMemoryTest : public KeptBlocksTest {
 protected:
  static constexpr size_t kPageBytes = 4096;
  static constexpr size_t kPages = kBytes / kPageBytes - 2;

  uint8_t* AllocateAmidOthers(KeptBlocks& kept) {
    (void)mallopt(M_MMAP_THRESHOLD, 32 << 20);
    (void)mallopt(M_TRIM_THRESHOLD, 64 << 20);
    auto* const block = static_cast<uint8_t*>(Allocate(kept));
    behind_.reset(std::malloc(kMiB));
    std::memset(block, 1, kBytes);
    return block;
  }

  static std::optional<size_t> PagesThere(const uint8_t* block) {
    auto* const page =
        reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(block) + kPageBytes) / kPageBytes * kPageBytes);
    std::vector<unsigned char> there(kPages);
    if (mincore(page, kPages * kPageBytes, there.data()) != 0) return std::nullopt;
    return std::count_if(there.begin(), there.end(), [](unsigned char one) { return (one & 1) != 0; });
  }

 private:
  struct FreeMemory {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, FreeMemory> behind_;
};

TEST_F(PagesOfFreedMemoryTest, K2_NoneBehindAFork) {
  KeptBlocks& kept = Make();
  uint8_t* const block = AllocateAmidOthers(kept);
  Free(kept, block);
  kept.BeforeFork();
  kept.AfterFork();
  EXPECT_LE(PagesThere(block).value_or(0), 2U);
}

// What takes the memory next has no pages to make where it would have none without slipstream.
TEST_F(PagesOfFreedMemoryTest, K2_AllThatNobodyWantedAsWithoutSlipstream) {
  KeptBlocks& kept = Make(64 * kMiB, std::chrono::milliseconds(1));
  uint8_t* const block = AllocateAmidOthers(kept);
  Free(kept, block);
  WaitUntil(g_world.freed, 1);
  const std::optional<size_t> there = PagesThere(block);
  if (!there) GTEST_SKIP() << "a sanitizer's allocator keeps nothing";
  EXPECT_GE(*there, kPages / 2);
}

}  // namespace
}  // namespace slipstream::transfer
