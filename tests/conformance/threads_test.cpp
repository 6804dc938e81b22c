// Many threads that allocate, use and free, on their own and for each other.
#include <array>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "tests/conformance/conformance_test.h"

namespace conformance {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kRounds = 40;
#else
constexpr int kRounds = 150;
#endif
constexpr int kThreads = 8;
// A few sizes, so that what one thread frees fits another.
constexpr size_t kFewSizes[] = {1, 600, 4 * kKiB, 100 * kKiB, 3 * kMiB, 3 * kMiB + 9};

template <typename Allocator>
class Threads : public Conformance<Allocator> {
 protected:
  static void RunAll(const std::function<void(int)>& work) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
    for (std::thread& thread : threads) thread.join();
  }
};
TYPED_TEST_SUITE(Threads, Allocators, AllocatorNames);

// The threads set no device: device 0 is theirs. Some frees come under the thread's pending work.
TYPED_TEST(Threads, EachOnItsOwn) {
  this->RunAll([](int index) {
    std::mt19937 random(static_cast<unsigned>(index));
    cudaStream_t own = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking), cudaSuccess);
    const cudaStream_t streams[] = {own, cudaStreamPerThread};
    for (int round = 0; round < kRounds; ++round) {
      const cudaStream_t stream = streams[random() % 2];
      const size_t bytes = kFewSizes[random() % std::size(kFewSizes)];
      void* memory = nullptr;
      ASSERT_EQ(TypeParam::Allocate(&memory, bytes, stream), cudaSuccess);
      const uint32_t salt = NewSalt();
      EXPECT_TRUE(Fill(memory, bytes, salt, stream));
      ASSERT_TRUE(Holds(memory, bytes, salt, stream)) << "thread " << index << ", round " << round;
      if (random() % 2 == 0) {
        EXPECT_OK(LaunchDelay(stream));
        EXPECT_TRUE(Fill(memory, bytes, NewSalt(), stream));
      }
      EXPECT_OK(TypeParam::Free(memory, stream));
    }
    EXPECT_OK(cudaStreamDestroy(own));
    // The driver may hang where a thread ends before the work of its per-thread stream, and others use stream-ordered
    // memory (seen on an H200 without any library, in one run of four).
    if (TypeParam::kStreamOrdered && !Simulated()) {
      EXPECT_OK(cudaStreamSynchronize(cudaStreamPerThread));
    }
    ExpectNoLastError();
  });
}

// Blocks go round: one thread allocates and writes, another reads and frees.
TYPED_TEST(Threads, FreedByOthersThanAllocated) {
  struct Handed {
    void* memory;
    size_t bytes;
    uint32_t salt;
    cudaEvent_t ready;
  };
  std::mutex mutex;
  std::deque<Handed> handed;
  this->RunAll([&](int index) {
    std::mt19937 random(static_cast<unsigned>(index));
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    for (int round = 0; round < kRounds; ++round) {
      Handed mine = {nullptr, kFewSizes[random() % std::size(kFewSizes)], NewSalt(), nullptr};
      ASSERT_EQ(TypeParam::Allocate(&mine.memory, mine.bytes, stream), cudaSuccess);
      EXPECT_OK(LaunchDelay(stream));
      EXPECT_TRUE(Fill(mine.memory, mine.bytes, mine.salt, stream));
      EXPECT_OK(cudaEventCreateWithFlags(&mine.ready, cudaEventDisableTiming));
      EXPECT_OK(cudaEventRecord(mine.ready, stream));
      Handed theirs = {};
      {
        const std::lock_guard lock(mutex);
        handed.push_back(mine);
        const size_t chosen = random() % handed.size();
        std::swap(handed[chosen], handed.back());
        theirs = handed.back();
        handed.pop_back();
        if (handed.size() < kThreads) {  // not yet: most come back later
          handed.push_back(theirs);
          theirs.memory = nullptr;
        }
      }
      if (theirs.memory == nullptr) continue;
      EXPECT_OK(cudaStreamWaitEvent(stream, theirs.ready, 0));
      ASSERT_TRUE(Holds(theirs.memory, theirs.bytes, theirs.salt, stream)) << "thread " << index;
      EXPECT_OK(TypeParam::Free(theirs.memory, stream));
      EXPECT_OK(cudaEventDestroy(theirs.ready));
    }
    EXPECT_OK(cudaStreamSynchronize(stream));
    EXPECT_OK(cudaStreamDestroy(stream));
    ExpectNoLastError();
  });
  for (const Handed& left : handed) {
    EXPECT_TRUE(Holds(left.memory, left.bytes, left.salt, this->a_));
    EXPECT_OK(TypeParam::Free(left.memory, this->a_));
    EXPECT_OK(cudaEventDestroy(left.ready));
  }
}

// Threads that come and go with memory on their own default streams.
TYPED_TEST(Threads, ComeAndGo) {
  for (int round = 0; round < 10; ++round) {
    this->RunAll([](int index) {
      const size_t bytes = kFewSizes[static_cast<size_t>(index) % std::size(kFewSizes)];
      void* memory = nullptr;
      ASSERT_EQ(TypeParam::Allocate(&memory, bytes, cudaStreamPerThread), cudaSuccess);
      const uint32_t salt = NewSalt();
      EXPECT_TRUE(Fill(memory, bytes, salt, cudaStreamPerThread));
      EXPECT_TRUE(Holds(memory, bytes, salt, cudaStreamPerThread));
      EXPECT_TRUE(Fill(memory, bytes, NewSalt(), cudaStreamPerThread));
      EXPECT_OK(TypeParam::Free(memory, cudaStreamPerThread));
    });
  }
}

// Together they want more than there is: whoever is refused clears the error and goes on.
TYPED_TEST(Threads, MoreThanThereIs) {
  const size_t bytes = this->FreeMemory() / (3 * kThreads);
  this->RunAll([bytes](int index) {
    std::mt19937 random(static_cast<unsigned>(index));
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    std::vector<std::pair<void*, uint32_t>> owned;
    const auto free_last = [&] {
      EXPECT_TRUE(Holds(owned.back().first, bytes, owned.back().second, stream)) << "thread " << index;
      EXPECT_OK(TypeParam::Free(owned.back().first, stream));
      owned.pop_back();
    };
    for (int round = 0; round < kRounds / 3; ++round) {
      void* memory = nullptr;
      const cudaError_t result = TypeParam::Allocate(&memory, bytes, stream);
      if (result == cudaSuccess) {
        owned.emplace_back(memory, NewSalt());
        EXPECT_TRUE(Fill(memory, bytes, owned.back().second, stream));
      } else {
        ASSERT_EQ(result, cudaErrorMemoryAllocation);
        ExpectLastError(cudaErrorMemoryAllocation);
      }
      if (!owned.empty() && (result != cudaSuccess || random() % 4 == 0)) free_last();
    }
    while (!owned.empty()) free_last();
    EXPECT_OK(cudaStreamSynchronize(stream));
    EXPECT_OK(cudaStreamDestroy(stream));
    ExpectNoLastError();
  });
  // All of it is there again.
  OK(cudaDeviceSynchronize());
  for (int i = 0; i < 2 * kThreads; ++i) ASSERT_NE(this->Take(bytes), nullptr);
}

// The same on a stream that they share, where no thread has work of its own, the main one neither (whatever it did
// elsewhere in the tests before), and with full memory: each holds a block from the beginning to the end, and what it
// frees under work that only the next read waits for is all that there is for its next allocation, whether the others
// run beside it or not.
TYPED_TEST(Threads, EnoughForEverybodyOnOneStream) {
  const size_t bytes = this->FreeMemory() / (2 * kThreads + 1) * 2;
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  std::array<void*, kThreads> held = {};
  for (void*& memory : held) {
    ASSERT_EQ(TypeParam::Allocate(&memory, bytes, stream), cudaSuccess);
    ASSERT_TRUE(Fill(memory, bytes, NewSalt(), stream));
  }
  // A GPU's driver takes 70 ms for each free of so much memory.
  const int rounds = Simulated() ? kRounds / 3 : kRounds / 10;
  this->RunAll([bytes, stream, rounds, &held](int index) {
    void*& memory = held[static_cast<size_t>(index)];
    for (int round = 0; round < rounds; ++round) {
      const uint32_t salt = NewSalt();
      EXPECT_TRUE(Fill(memory, bytes, salt, stream));
      EXPECT_TRUE(Holds(memory, bytes, salt, stream)) << "thread " << index;
      EXPECT_OK(LaunchDelay(stream));
      EXPECT_TRUE(Fill(memory, bytes, NewSalt(), stream));
      EXPECT_OK(TypeParam::Free(memory, stream));
      cudaError_t result = TypeParam::Allocate(&memory, bytes, stream);
      // Memory of a stream-ordered free is there when the stream gets to it.
      if (TypeParam::kStreamOrdered && result == cudaErrorMemoryAllocation) {
        ExpectLastError(cudaErrorMemoryAllocation);
        EXPECT_OK(cudaStreamSynchronize(stream));
        result = TypeParam::Allocate(&memory, bytes, stream);
      }
      ASSERT_EQ(result, cudaSuccess) << "thread " << index << ", round " << round;
    }
    ExpectNoLastError();
  });
  for (void* const memory : held) EXPECT_OK(TypeParam::Free(memory, stream));
  EXPECT_OK(cudaStreamSynchronize(stream));
  EXPECT_OK(cudaStreamDestroy(stream));
}

// Nobody ever wants more than a share of which there is one for each: nobody is ever refused, whatever the others'
// frees and allocations are in the middle of.
TYPED_TEST(Threads, EnoughForEverybody) {
  if (TypeParam::kStreamOrdered) GTEST_SKIP() << "memory of a stream-ordered free is there when the stream gets to it";
  const size_t most = this->FreeMemory() / 19 * 2;
  this->RunAll([most](int index) {
    std::mt19937 random(static_cast<unsigned>(index));
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    for (int round = 0; round < kRounds / 10; ++round) {
      const size_t bytes = most - random() % 8 * (most / 50);
      void* memory = nullptr;
      ASSERT_EQ(TypeParam::Allocate(&memory, bytes, stream), cudaSuccess)
          << "thread " << index << ", round " << round << ", " << bytes << " of " << most << " bytes";
      const uint32_t salt = NewSalt();
      EXPECT_TRUE(Fill(memory, bytes, salt, stream));
      EXPECT_TRUE(Holds(memory, bytes, salt, stream)) << "thread " << index;
      EXPECT_OK(TypeParam::Free(memory, stream));
    }
    EXPECT_OK(cudaStreamSynchronize(stream));
    EXPECT_OK(cudaStreamDestroy(stream));
    ExpectNoLastError();
  });
}

}  // namespace
}  // namespace conformance
