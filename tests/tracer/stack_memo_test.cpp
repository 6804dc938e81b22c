// What a thread remembers of its last stack never changes what the next one is.

#include "tracer/python/stack_memo.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/tracer/fake_python.h"

namespace slipstream::tracer {
namespace {

class StackMemoTest : public testing::TestWithParam<uint32_t> {
 protected:
  void SetUp() override {
    sites_.reset(CodeSites::Create(python_.layout(), {}));
    ASSERT_NE(sites_, nullptr);
    for (uint32_t i = 0; i < 5; ++i) {
      const std::string file = "f" + std::to_string(i) + ".py";
      codes_.push_back(python_.NewCode({.file = file, .table = std::string(40, '\2'), .version = i + 1}));
    }
  }

  static uint32_t Intern(const std::vector<PythonFrame>& frames, bool cut, CodeSites* sites, StackTree* stacks) {
    std::vector<uint32_t> found(frames.size());
    const uint32_t stack = InternStack(frames, cut, sites, stacks, found.data());
    for (size_t i = 0; i < frames.size(); ++i) EXPECT_EQ(found[i], sites->Intern(frames[i]));
    return stack;
  }
  // The same, of nothing that is remembered.
  uint32_t Expected(const std::vector<PythonFrame>& frames, bool cut, StackTree* stacks) {
    uint32_t stack = cut ? StackTree::kCut : StackTree::kNone;
    for (size_t i = frames.size(); i-- > 0;) stack = stacks->Intern(sites_->Intern(frames[i]), stack);
    return stack;
  }
  uint32_t Intern(const std::vector<PythonFrame>& frames, bool cut, StackTree* stacks) {
    return Intern(frames, cut, sites_.get(), stacks);
  }

  FakePython python_{GetParam()};
  std::unique_ptr<CodeSites> sites_;
  std::vector<uintptr_t> codes_;
};

TEST_P(StackMemoTest, AStackIsWhatItsFramesAreWhateverWasBefore) {
  const std::unique_ptr<StackTree> trees[] = {std::unique_ptr<StackTree>(StackTree::Create({})),
                                              std::unique_ptr<StackTree>(StackTree::Create({}))};
  std::mt19937 random(1);
  const auto pick = [&](size_t below) { return random() % below; };
  std::vector<PythonFrame> frames;
  for (int round = 0; round < 5000; ++round) {
    // As a program goes on: the innermost frames change, and now and then all of them.
    const size_t keep = pick(10) == 0 ? 0 : pick(frames.size() + 1);
    frames.erase(frames.begin(), frames.end() - static_cast<ptrdiff_t>(keep));
    for (size_t more = pick(5); more > 0 && frames.size() < StackMemo::kFrames; --more) {
      frames.insert(frames.begin(), {codes_[pick(codes_.size())], static_cast<int32_t>(pick(3) * 2)});
    }
    if (!frames.empty() && pick(4) == 0) frames[pick(frames.size())].instruction = static_cast<int32_t>(pick(3) * 2);
    const bool cut = pick(8) == 0;
    StackTree* const tree = trees[pick(20) == 0 ? 1 : 0].get();
    if (frames.empty()) {
      ASSERT_EQ(Intern(frames, cut, tree), StackTree::kNone);
    } else {
      ASSERT_EQ(Intern(frames, cut, tree), Expected(frames, cut, tree)) << round;
    }
  }
}

// What exec does in a loop: other code at the same address.
TEST_P(StackMemoTest, CodeThatTookThePlaceOfOther) {
  const std::unique_ptr<StackTree> tree(StackTree::Create({}));
  const uintptr_t address = python_.New(FakePython::kCodeBytes);
  uint32_t version = 100;
  std::map<uint32_t, std::string> files;
  for (int round = 0; round < 3; ++round) {
    for (const char* file : {"a.py", "b.py"}) {
      python_.PutCode(address, {.file = file, .table = std::string(40, '\2'), .version = ++version});
      const uint32_t stack = Intern({{codes_[0], 0}, {address, 4}, {codes_[1], 2}}, false, tree.get());
      EXPECT_EQ(files.try_emplace(stack, file).first->second, file);
    }
  }
  EXPECT_EQ(files.size(), 2U);
}

TEST_P(StackMemoTest, WhatHadNoRoomHasNoStack) {
  const std::unique_ptr<StackTree> tree(StackTree::Create({.stacks = 3}));
  const std::vector<PythonFrame> frames = {{codes_[3], 0}, {codes_[2], 0}, {codes_[1], 0}, {codes_[0], 0}};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Intern(frames, false, tree.get()), StackTree::kNone);
    const std::vector<PythonFrame> outer(frames.begin() + 1, frames.end());
    EXPECT_EQ(Intern(outer, false, tree.get()), Expected(outer, false, tree.get()));
    EXPECT_NE(Intern(outer, false, tree.get()), StackTree::kNone);
    EXPECT_EQ(Intern({{codes_[4], 0}, {codes_[4], 0}}, false, tree.get()), StackTree::kNone);
    // The inner frame alone would be a stack that is there.
    EXPECT_EQ(Intern({{codes_[0], 0}, {codes_[4], 0}}, false, tree.get()), StackTree::kNone);
  }
  EXPECT_EQ(tree->size(), StackTree::kFirst + 3);
}

TEST_P(StackMemoTest, AThreadsMemoryIsItsOwnAndGoesWithIt) {
  const std::unique_ptr<StackTree> tree(StackTree::Create({}));
  const std::vector<PythonFrame> frames = {{codes_[1], 0}, {codes_[0], 0}};
  const uint32_t expected = Intern(frames, false, tree.get());
  StackMemo* const mine = StackMemo::Get();
  for (int i = 0; i < 50; ++i) {
    std::thread([&] {
      errno = 77;
      EXPECT_EQ(Intern({{codes_[2], 0}}, false, tree.get()), Expected({{codes_[2], 0}}, false, tree.get()));
      EXPECT_EQ(Intern(frames, false, tree.get()), expected);
      EXPECT_NE(StackMemo::Get(), mine);
      EXPECT_EQ(errno, 77);
    }).join();
  }
  EXPECT_EQ(StackMemo::Get(), mine);
  EXPECT_EQ(Intern(frames, false, tree.get()), expected);
}

std::string VersionOf(const testing::TestParamInfo<uint32_t>& version) {
  return "Python3_" + std::to_string((version.param >> 16) & 0xff);
}

INSTANTIATE_TEST_SUITE_P(Versions, StackMemoTest, testing::ValuesIn(kPythonVersions), VersionOf);

}  // namespace
}  // namespace slipstream::tracer
