// The line of the thread that waits in backward(): known while that is sure, and not a moment longer.

#include "tracer/python/backward_lines.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <barrier>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

namespace slipstream::tracer {
namespace {

TEST(BackwardLinesTest, AnAutogradThreadIsKnownByItsName) {
  for (const char* name : {"pt_autograd_0", "pt_autograd_7", "pt_autograd_12"}) EXPECT_TRUE(IsAutogradThread(name));
  for (const char* name : {"", "python", "pt_autograd_", "pt_autograd_x", "pt_autograd_1x", "xpt_autograd_0"}) {
    EXPECT_FALSE(IsAutogradThread(name)) << name;
  }
  bool named = false;
  bool not_named = true;
  std::thread([&] {
    pthread_setname_np(pthread_self(), "pt_autograd_0");
    named = IsAutogradThread();
  }).join();
  std::thread([&] {
    pthread_setname_np(pthread_self(), "worker");
    not_named = IsAutogradThread();
  }).join();
  EXPECT_TRUE(named);
  EXPECT_FALSE(not_named);
}

TEST(BackwardLinesTest, TheLineIsThereUntilTheThreadDoesSomethingElse) {
  const std::unique_ptr<BackwardLines> lines(BackwardLines::Create());
  ASSERT_NE(lines, nullptr);
  EXPECT_EQ(lines->Get(), 0U);
  lines->Set(0);
  EXPECT_EQ(lines->Get(), 0U);
  lines->Set(7);
  std::thread([&] { EXPECT_EQ(lines->Get(), 7U); }).join();
  lines->Set(7);
  EXPECT_EQ(lines->Get(), 7U);
  lines->Set(9);
  EXPECT_EQ(lines->Get(), 9U);
  lines->Set(0);
  EXPECT_EQ(lines->Get(), 0U);
}

TEST(BackwardLinesTest, TwoThreadsAtTwoLinesAreNone) {
  const std::unique_ptr<BackwardLines> lines(BackwardLines::Create());
  ASSERT_NE(lines, nullptr);
  std::barrier step(2);
  lines->Set(7);
  std::thread other([&] {
    lines->Set(8);
    step.arrive_and_wait();
    step.arrive_and_wait();
    lines->Set(7);  // a thread a device, all at one line
    step.arrive_and_wait();
    step.arrive_and_wait();
    lines->Set(8);
  });
  step.arrive_and_wait();
  EXPECT_EQ(lines->Get(), 0U);
  step.arrive_and_wait();
  step.arrive_and_wait();
  EXPECT_EQ(lines->Get(), 7U);
  step.arrive_and_wait();
  other.join();
  // It ended at another line, and is at none now.
  EXPECT_EQ(lines->Get(), 7U);
  lines->Set(0);
  EXPECT_EQ(lines->Get(), 0U);
}

TEST(BackwardLinesTest, PlacesAreGivenBack) {
  const std::unique_ptr<BackwardLines> lines(BackwardLines::Create());
  ASSERT_NE(lines, nullptr);
  for (uint32_t i = 1; i <= 3 * BackwardLines::kThreads; ++i) {
    std::thread([&] {
      lines->Set(i);
      EXPECT_EQ(lines->Get(), i);
    }).join();
    ASSERT_EQ(lines->Get(), 0U);
  }
}

TEST(BackwardLinesTest, WithMoreThreadsThanPlacesNoLineIsSure) {
  const std::unique_ptr<BackwardLines> lines(BackwardLines::Create());
  ASSERT_NE(lines, nullptr);
  std::latch all_there(BackwardLines::kThreads);
  std::latch seen(1);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < BackwardLines::kThreads; ++i) {
    threads.emplace_back([&] {
      lines->Set(7);
      all_there.count_down();
      seen.wait();
    });
  }
  all_there.wait();
  EXPECT_EQ(lines->Get(), 7U);
  lines->Set(8);  // the one that has no place
  EXPECT_EQ(lines->Get(), 0U);
  seen.count_down();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lines->Get(), 0U);
}

TEST(BackwardLinesTest, OneObjectsPlaceIsNotAnothers) {
  std::unique_ptr<BackwardLines> first(BackwardLines::Create());
  ASSERT_NE(first, nullptr);
  first->Set(7);
  first.reset();
  const std::unique_ptr<BackwardLines> second(BackwardLines::Create());
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->Get(), 0U);
  second->Set(7);
  EXPECT_EQ(second->Get(), 7U);
}

// Threads that come, change and go while others ask: an answer is a line that somebody set, or none.
TEST(BackwardLinesTest, ManyThreads) {
  const std::unique_ptr<BackwardLines> lines(BackwardLines::Create());
  ASSERT_NE(lines, nullptr);
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0};
  std::thread asks([&] {
    while (!done.load()) {
      const uint32_t line = lines->Get();
      if (line != 0 && line != 5 && line != 6) wrong.fetch_add(1);
    }
  });
  for (int round = 0; round < 20; ++round) {
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 200; ++i) lines->Set(i % 3 == 0 ? 0 : 5 + t % 2);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  done.store(true);
  asks.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(lines->Get(), 0U);
}

}  // namespace
}  // namespace slipstream::tracer
