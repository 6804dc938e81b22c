// What a thread has of its own: as it begins, as long as it lives, and when it ends.

#include "policy/thread_owned.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <thread>
#include <vector>

namespace slipstream::policy {
namespace {

struct Figures {
  int first = 3;
  uint64_t rest[900];
};
struct Other {
  char text[10000];  // more than a page
};

bool IsMapped(const void* address) {
  const auto page = reinterpret_cast<uintptr_t>(address) & ~uintptr_t{4095};
  unsigned char there = 0;
  return mincore(reinterpret_cast<void*>(page), 1, &there) == 0;
}

TEST(ThreadOwned, BeginsAsItsTypeDoesAndStays) {
  std::thread([] {
    EXPECT_EQ(ThreadOwned<Figures>::Find(), nullptr);
    Figures* const figures = ThreadOwned<Figures>::Get();
    ASSERT_NE(figures, nullptr);
    EXPECT_EQ(figures->first, 3);
    EXPECT_TRUE(std::all_of(std::begin(figures->rest), std::end(figures->rest), [](uint64_t one) { return one == 0; }));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(figures) % alignof(std::max_align_t), 0U);
    figures->rest[899] = 7;
    Other* const other = ThreadOwned<Other>::Get();
    ASSERT_NE(other, nullptr);
    other->text[9999] = 1;
    EXPECT_EQ(ThreadOwned<Figures>::Get(), figures);
    EXPECT_EQ(ThreadOwned<Figures>::Find(), figures);
    EXPECT_EQ(ThreadOwned<Other>::Find(), other);
    EXPECT_EQ(figures->rest[899], 7U);
  }).join();
}

TEST(ThreadOwned, EveryThreadHasItsOwn) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([i] {
      for (int turn = 0; turn < 1000; ++turn) {
        Figures* const mine = ThreadOwned<Figures>::Get();
        ASSERT_NE(mine, nullptr);
        ASSERT_EQ(mine->rest[0], turn == 0 ? 0U : static_cast<uint64_t>(i) * 1000 + turn - 1);
        mine->rest[0] = static_cast<uint64_t>(i) * 1000 + turn;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Destructors of thread-specific data that use it: one that was made before, in every round but the last, which may end
// it on either side of that.
struct Rounds {
  pthread_key_t key;
  int runs = 0;
  int found = 0;
};
void InDestructor(void* value) {
  auto* const rounds = static_cast<Rounds*>(value);
  Figures* const figures = ThreadOwned<Figures>::Find();
  if (figures != nullptr && figures->rest[5] == 42) ++rounds->found;
  if (++rounds->runs < PTHREAD_DESTRUCTOR_ITERATIONS - 1) pthread_setspecific(rounds->key, rounds);
}

TEST(ThreadOwned, IsThereInDestructorsAndThenGivenBack) {
  Rounds rounds;
  ASSERT_EQ(pthread_key_create(&rounds.key, InDestructor), 0);
  const void* where = nullptr;
  const void* other = nullptr;
  std::thread([&] {
    Figures* const figures = ThreadOwned<Figures>::Get();
    ASSERT_NE(figures, nullptr);
    figures->rest[5] = 42;
    where = figures;
    other = ThreadOwned<Other>::Get();
    ASSERT_EQ(pthread_setspecific(rounds.key, &rounds), 0);
    EXPECT_TRUE(IsMapped(where));
  }).join();
  EXPECT_EQ(rounds.runs, PTHREAD_DESTRUCTOR_ITERATIONS - 1);
  EXPECT_EQ(rounds.found, rounds.runs);
  EXPECT_FALSE(IsMapped(where));
  EXPECT_FALSE(IsMapped(other));
  pthread_key_delete(rounds.key);
}

// In a process of its own, which has no more address space to give.
TEST(ThreadOwned, WithoutMemoryThereIsNone) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit none = {.rlim_cur = 0, .rlim_max = RLIM_INFINITY};
    if (setrlimit(RLIMIT_AS, &none) != 0) _exit(2);
    errno = 0;
    if (ThreadOwned<Other>::Get() != nullptr || ThreadOwned<Other>::Find() != nullptr) _exit(3);
    if (errno != 0) _exit(6);
    const rlimit any = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    if (setrlimit(RLIMIT_AS, &any) != 0) _exit(4);
    _exit(ThreadOwned<Other>::Get() != nullptr ? 0 : 5);  // it may be asked again
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace slipstream::policy
