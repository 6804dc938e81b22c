// What is not recorded is stood for by the fence of whoever asks next (cuda/effect_watch.h).

#include "cuda/effect_watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace slipstream::cuda {
namespace {

constexpr uint64_t kIdleAfter = 3;

TEST(EffectWatchTest, SleepsWhenNobodyAsksAndWakesWhenSomebodyDoes) {
  EffectWatch watch;
  EXPECT_TRUE(watch.Records());
  const uint64_t first = watch.Ticket();
  EXPECT_TRUE(watch.IsValid(first));
  watch.Recorded(kIdleAfter);
  watch.Recorded(kIdleAfter);
  EXPECT_TRUE(watch.IsValid(watch.Ticket()));  // which begins the count again
  for (uint64_t i = 0; i < kIdleAfter; ++i) watch.Recorded(kIdleAfter);
  EXPECT_FALSE(watch.Records());
  EXPECT_FALSE(watch.IsValid(first));
  EXPECT_EQ(watch.Ticket(), 0U);
  EXPECT_FALSE(watch.IsValid(0));

  EXPECT_FALSE(watch.Wake([&] {
    EXPECT_TRUE(watch.Records()) << "before the fence is entered";
    EXPECT_EQ(watch.Ticket(), 0U) << "until it is";
    EXPECT_FALSE(watch.Wake([] { return true; })) << "by one at a time";
    return false;
  }));
  EXPECT_FALSE(watch.Records());
  EXPECT_TRUE(watch.Wake([] { return true; }));
  EXPECT_TRUE(watch.IsValid(watch.Ticket()));
  EXPECT_FALSE(watch.IsValid(first)) << "of before it slept";
  EXPECT_TRUE(watch.Wake([] { return false; })) << "is awake";
}

// Threads submit work one by one, and record it where they are told to; others ask. Whatever was submitted by a call
// that had returned before the question is recorded, or stood for by the fence of the last who began again.
TEST(EffectWatchTest, WhoeverAsksMissesNothing) {
  constexpr size_t kWork = 2000000;
  enum class Work : uint8_t { kNone, kRecorded, kNotRecorded };
  EffectWatch watch;
  std::atomic<size_t> submitted{0};
  std::atomic<size_t> fence{0};  // behind all work before it
  const auto work = std::make_unique<std::atomic<Work>[]>(kWork);
  std::atomic<size_t> slept{0};
  std::atomic<size_t> asked{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      for (;;) {
        const size_t mine = submitted.fetch_add(1, std::memory_order_seq_cst);  // the call itself
        if (mine >= kWork) return;
        const bool records = watch.Records();
        if (!records) slept.fetch_add(1, std::memory_order_relaxed);
        work[mine].store(records ? Work::kRecorded : Work::kNotRecorded, std::memory_order_release);
        if (records) watch.Recorded(kIdleAfter);
      }
    });
  }
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      for (;;) {
        const size_t now = std::min(submitted.load(), kWork);
        if (now == kWork && asked.load() != 0) return;
        constexpr size_t kLooked = 64;
        const size_t from = now > kLooked ? now - kLooked : 0;
        std::vector<size_t> unrecorded;
        for (size_t n = from; n < now; ++n) {
          if (work[n].load(std::memory_order_acquire) == Work::kNotRecorded) unrecorded.push_back(n);
        }
        uint64_t ticket = watch.Ticket();
        if (ticket == 0 && watch.Wake([&] {
              fence.store(submitted.load(std::memory_order_seq_cst), std::memory_order_seq_cst);
              std::this_thread::yield();  // a fence takes its time
              return true;
            })) {
          ticket = watch.Ticket();
        }
        const size_t behind = fence.load(std::memory_order_seq_cst);
        if (!watch.IsValid(ticket)) continue;
        asked.fetch_add(1, std::memory_order_relaxed);
        for (const size_t n : unrecorded) EXPECT_LT(n, behind);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(slept.load(), 0U);
  EXPECT_GT(asked.load(), 0U);
}

}  // namespace
}  // namespace slipstream::cuda
