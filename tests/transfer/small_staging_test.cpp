// Pages of small staging memory: used again only when all that was copied from them has been read.

#include "transfer/small_staging.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "tests/cuda/played_driver.h"

namespace slipstream::transfer {
namespace {

using cuda::played::Context;
using cuda::played::g_passed;
using cuda::played::g_questions;

// As in the engine, none of it is ever destroyed.
struct Staging {
  cuda::Driver driver;
  cuda::FencePool fences{driver};
  std::vector<char> memory = std::vector<char>(SmallStaging::kBytes);
  SmallStaging small;
};

class SmallStagingTest : public ::testing::Test {
 protected:
  static Staging& NewStaging() {
    static auto* const all = new std::deque<Staging>;
    Staging& staging = all->emplace_back();
    cuda::played::PlayedBy(&staging.driver);
    staging.small.Provide(staging.memory.data());
    return staging;
  }

  // What a thread of that number takes.
  SmallStaging::Place Take(const cuda::StreamKey& stream, uint64_t thread, size_t bytes,
                           CUcontext context = Context()) {
    return staging_.Take(context, stream, thread, recent_[thread], bytes);
  }

  // A copy that is enqueued; its fence.
  cuda::FenceRef Copy(CUstream stream, uint64_t thread, char** place, size_t bytes = 64) {
    const SmallStaging::Place taken = Take({stream, 0}, thread, bytes);
    *place = taken.memory;
    cuda::FenceRef fence = fences_.Record(Context(), stream);
    staging_.Commit(taken, fence);
    return fence;
  }
  static void Pass(const cuda::FenceRef& fence) { g_passed.insert(fence.event()); }

  Staging& all_ = NewStaging();
  SmallStaging& staging_ = all_.small;
  cuda::FencePool& fences_ = all_.fences;
  std::map<uint64_t, uint32_t> recent_;  // of each thread
  const CUstream stream_ = reinterpret_cast<CUstream>(0x1000);
};

TEST_F(SmallStagingTest, CopiesOfOneThreadToOneStreamShareAPage) {
  char* first = nullptr;
  char* second = nullptr;
  Copy(stream_, 1, &first);
  Copy(stream_, 1, &second);
  EXPECT_EQ(second, first + 64);
}

TEST_F(SmallStagingTest, OtherThreadsAndStreamsHavePagesOfTheirOwn) {
  char* first = nullptr;
  char* thread = nullptr;
  char* stream = nullptr;
  Copy(stream_, 1, &first);
  Copy(stream_, 2, &thread);
  Copy(reinterpret_cast<CUstream>(0x2000), 1, &stream);
  EXPECT_GE(static_cast<size_t>(std::abs(thread - first)), SmallStaging::kPageBytes);
  EXPECT_GE(static_cast<size_t>(std::abs(stream - first)), SmallStaging::kPageBytes);
}

// Default streams of two devices.
TEST_F(SmallStagingTest, AStreamOfTheSameNameInAnotherContextHasPagesOfItsOwn) {
  const SmallStaging::Place first = Take({CU_STREAM_LEGACY, 0}, 1, 64);
  const SmallStaging::Place second = Take({CU_STREAM_LEGACY, 0}, 1, 64, reinterpret_cast<CUcontext>(0x2008));
  EXPECT_NE(first.page, second.page);
}

// A destroyed stream works off what it has; a new one may get its handle, and be done earlier.
TEST_F(SmallStagingTest, AHandleThatComesBackIsAnotherStream) {
  char* old_place = nullptr;
  const cuda::FenceRef old_fence = Copy(stream_, 1, &old_place);
  staging_.Retire(stream_);
  char* new_place = nullptr;
  const cuda::FenceRef new_fence = Copy(stream_, 1, &new_place);
  Pass(new_fence);
  std::set<char*> pages;
  for (;;) {
    const SmallStaging::Place taken = Take({reinterpret_cast<CUstream>(0x3000), 0}, 3, SmallStaging::kPageBytes);
    if (taken.memory == nullptr) break;
    pages.insert(taken.memory);
  }
  EXPECT_FALSE(pages.contains(old_place));
  EXPECT_TRUE(pages.contains(new_place));
}

constexpr size_t kPages = SmallStaging::kBytes / SmallStaging::kPageBytes;

TEST_F(SmallStagingTest, AStreamThatIsBehindIsAskedOfOnceForEachCopy) {
  std::deque<cuda::FenceRef> fences;
  char* oldest = nullptr;
  char* place = nullptr;
  // Half of the pages lie behind a stream, and the others were used long ago.
  for (size_t page = 0; page < kPages; ++page) {
    fences.push_back(Copy(stream_, 1, page == 0 ? &oldest : &place, SmallStaging::kPageBytes));
  }
  for (size_t page = 0; page < kPages / 2; ++page) Pass(fences[page]);
  g_questions = 0;
  fences.push_back(Copy(stream_, 1, &place, SmallStaging::kPageBytes));
  EXPECT_EQ(place, oldest);
  EXPECT_LE(g_questions, 2);  // the youngest, which may still be in the cache, and the oldest
}

// Behind the younger copy of another thread, whose page was opened before.
TEST_F(SmallStagingTest, APageThatIsFreeIsFoundWhateverItsStreamHas) {
  std::deque<cuda::FenceRef> fences;
  char* place = nullptr;
  Copy(stream_, 2, &place);
  for (size_t page = 1; page < kPages; ++page) {
    fences.push_back(Copy(stream_, 1, &place, SmallStaging::kPageBytes));
    ASSERT_NE(place, nullptr);
  }
  fences.push_back(Copy(stream_, 2, &place));
  EXPECT_EQ(Take({stream_, 0}, 1, SmallStaging::kPageBytes).memory, nullptr);
  Pass(fences[0]);
  EXPECT_NE(Take({stream_, 0}, 1, SmallStaging::kPageBytes).memory, nullptr);
}

TEST_F(SmallStagingTest, WhenEveryPageIsInFlightThereIsNone) {
  size_t pages = 0;
  while (Take({stream_, 0}, 1, SmallStaging::kPageBytes).memory != nullptr) ++pages;
  EXPECT_EQ(pages, kPages);
}

}  // namespace
}  // namespace slipstream::transfer
