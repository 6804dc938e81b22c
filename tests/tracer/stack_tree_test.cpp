// Stacks as numbers: the same one has one number, which leads back to its frames, and what does not fit is said to be
// none.

#include "tracer/python/stack_tree.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace slipstream::tracer {
namespace {

using Tree = std::unique_ptr<StackTree>;

uint32_t InternAll(StackTree* tree, const std::vector<uint32_t>& outermost_first, uint32_t from = StackTree::kNone) {
  for (const uint32_t site : outermost_first) from = tree->Intern(site, from);
  return from;
}

// Its sites, outermost first, and behind them what its outermost frame was called from.
std::vector<uint32_t> FramesOf(const StackTree& tree, uint32_t number) {
  std::vector<uint32_t> frames;
  for (StackTree::Stack stack; tree.Describe(number, &stack); number = stack.parent) {
    EXPECT_LT(stack.parent, number);
    frames.insert(frames.begin(), stack.site);
  }
  frames.push_back(number);
  return frames;
}

TEST(StackTreeTest, AStackHasOneNumberAndItsFrames) {
  const Tree tree(StackTree::Create({}));
  ASSERT_NE(tree, nullptr);
  const std::vector<std::vector<uint32_t>> stacks = {{1}, {1, 2}, {2, 1}, {1, 2, 3}, {1, 2, 0}, {5, 5, 5}, {0}};
  std::vector<uint32_t> numbers;
  for (const auto& stack : stacks) numbers.push_back(InternAll(tree.get(), stack));
  EXPECT_EQ(std::set<uint32_t>(numbers.begin(), numbers.end()).size(), stacks.size());
  for (size_t i = 0; i < stacks.size(); ++i) {
    EXPECT_GE(numbers[i], StackTree::kFirst);
    EXPECT_EQ(InternAll(tree.get(), stacks[i]), numbers[i]);
    std::vector<uint32_t> expected = stacks[i];
    expected.push_back(StackTree::kNone);
    EXPECT_EQ(FramesOf(*tree, numbers[i]), expected);
  }
  // 1, 12, 123, 120, 2, 21, 5, 55, 555, 0
  EXPECT_EQ(tree->size(), StackTree::kFirst + 10);
  EXPECT_EQ(tree->refused(), 0U);
}

TEST(StackTreeTest, WhatIsCutOffIsAnotherStack) {
  const Tree tree(StackTree::Create({}));
  const uint32_t whole = InternAll(tree.get(), {4, 5});
  const uint32_t cut = InternAll(tree.get(), {4, 5}, StackTree::kCut);
  EXPECT_NE(whole, cut);
  EXPECT_EQ(FramesOf(*tree, cut), (std::vector<uint32_t>{4, 5, StackTree::kCut}));
}

TEST(StackTreeTest, SitesOfAnySize) {
  const Tree tree(StackTree::Create({}));
  const uint32_t stack = InternAll(tree.get(), {0xffffffff, 0});
  EXPECT_EQ(FramesOf(*tree, stack), (std::vector<uint32_t>{0xffffffff, 0, StackTree::kNone}));
}

TEST(StackTreeTest, WhatDoesNotFitHasNoNumberAndWhatIsThereStays) {
  const Tree tree(StackTree::Create({.stacks = 3}));
  const uint32_t stack = InternAll(tree.get(), {1, 2, 3});
  EXPECT_NE(stack, StackTree::kNone);
  EXPECT_EQ(tree->Intern(4, stack), StackTree::kNone);
  EXPECT_EQ(tree->Intern(4, StackTree::kNone), StackTree::kNone);
  EXPECT_EQ(tree->refused(), 2U);
  EXPECT_EQ(InternAll(tree.get(), {1, 2, 3}), stack);
  EXPECT_EQ(tree->size(), StackTree::kFirst + 3);
}

TEST(StackTreeTest, NumbersThatWereNeverGivenHaveNoDescription) {
  const Tree tree(StackTree::Create({.stacks = 3}));
  StackTree::Stack stack;
  for (const uint32_t number : {0U, 1U, 2U, 4U, 5U, 100U, ~0U}) EXPECT_FALSE(tree->Describe(number, &stack)) << number;
}

TEST(StackTreeTest, LimitsThatMakeNoSenseAreRefused) {
  EXPECT_EQ(StackTree::Create({.stacks = 0}), nullptr);
  EXPECT_EQ(StackTree::Create({.stacks = 0xffffffff}), nullptr);
}

// Many threads see the same stacks first, and one reads what is there meanwhile: whatever has a description has the
// right one, with a parent that has one too.
TEST(StackTreeTest, ThreadsAgree) {
  constexpr size_t kThreads = 4;
  constexpr uint32_t kStacks = 2000;
  const Tree tree(StackTree::Create({}));
  std::vector<std::vector<uint32_t>> found(kThreads);
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0};
  std::thread reader([&] {
    while (!done.load()) {
      const uint32_t end = tree->size();
      StackTree::Stack stack;
      for (uint32_t number = StackTree::kFirst; number < end; ++number) {
        if (!tree->Describe(number, &stack)) continue;
        StackTree::Stack above;
        if (stack.parent >= number || (stack.parent != StackTree::kNone && !tree->Describe(stack.parent, &above))) {
          wrong.fetch_add(1);
        }
      }
    }
  });
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint32_t i = 0; i < kStacks; ++i) {
        const uint32_t number = (i + static_cast<uint32_t>(t) * 3) % kStacks;
        found[t].resize(kStacks);
        found[t][number] = InternAll(tree.get(), {1, number % 7, number % 101, number});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  done.store(true);
  reader.join();
  EXPECT_EQ(wrong.load(), 0);
  for (size_t t = 0; t < kThreads; ++t) EXPECT_EQ(found[t], found[0]);
  for (uint32_t i = 0; i < kStacks; ++i) {
    ASSERT_EQ(FramesOf(*tree, found[0][i]), (std::vector<uint32_t>{1, i % 7, i % 101, i, StackTree::kNone}));
  }
}

}  // namespace
}  // namespace slipstream::tracer
