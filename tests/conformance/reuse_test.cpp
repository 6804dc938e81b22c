// The central race: a block is freed while work on it is pending, and its memory goes to a new owner. The old owner's
// work must neither write what is the new owner's nor read it.
#include "tests/conformance/conformance_test.h"

namespace conformance {
namespace {

// Pinned host memory. Owner: the test.
class Pinned {
 public:
  explicit Pinned(size_t bytes) { EXPECT_OK(cudaMallocHost(reinterpret_cast<void**>(&bytes_), bytes)); }
  ~Pinned() { EXPECT_OK(cudaFreeHost(bytes_)); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  uint8_t* get() const { return bytes_; }

 private:
  uint8_t* bytes_ = nullptr;
};

template <typename Allocator>
class Reuse : public Conformance<Allocator> {
 protected:
  // Old work in the stream that does not run at once.
  void PendingFill(void* block, size_t bytes, cudaStream_t stream) {
    OK(LaunchDelay(stream));
    EXPECT_TRUE(Fill(block, bytes, NewSalt(), stream));
  }

  // The new owner of the next memory of that size, with its work in the stream. Whatever was pending has run at the
  // end, and the memory is the new owner's before that and after it.
  void NewOwner(size_t bytes, cudaStream_t stream) {
    void* memory = nullptr;
    OK(Allocator::Allocate(&memory, bytes, stream));
    ASSERT_NE(memory, nullptr);
    const uint32_t salt = NewSalt();
    EXPECT_TRUE(Fill(memory, bytes, salt, stream));
    EXPECT_TRUE(Holds(memory, bytes, salt, stream)) << "before the device is synchronized";
    OK(cudaDeviceSynchronize());
    EXPECT_TRUE(Holds(memory, bytes, salt, stream)) << "after the device is synchronized";
    EXPECT_OK(Allocator::Free(memory, stream));
  }
};
TYPED_TEST_SUITE(Reuse, Allocators, AllocatorNames);

TYPED_TEST(Reuse, APendingKernelOfAnyStreamAgainstOneOfAnyOther) {
  for (const auto& [old_name, old_stream] : this->AllStreams()) {
    for (const auto& [new_name, new_stream] : this->AllStreams()) {
      for (const size_t bytes : kSizes) {
        SCOPED_TRACE(std::string(old_name) + ", then " + new_name + ", " + std::to_string(bytes) + " bytes");
        uint8_t* const block = this->Take(bytes);
        this->PendingFill(block, bytes, old_stream);
        this->GiveBehind(block, old_stream);
        this->NewOwner(bytes, new_stream);
        if (this->HasFailure()) return;
      }
    }
  }
}

TYPED_TEST(Reuse, ASmallerOrLargerNewOwner) {
  for (const size_t bytes : {3 * kMiB - 512, 3 * kMiB + 512, 2 * kMiB + 600 * kKiB, 4 * kMiB}) {
    uint8_t* const block = this->Take(3 * kMiB);
    this->PendingFill(block, 3 * kMiB, this->a_);
    this->GiveBehind(block, this->a_);
    this->NewOwner(bytes, this->b_);
  }
}

TYPED_TEST(Reuse, APendingCopyIntoTheBlock) {
  const Pinned pinned(3 * kMiB);
  std::fill_n(pinned.get(), 3 * kMiB, uint8_t{0x5A});
  for (const size_t bytes : kSizes) {
    uint8_t* const block = this->Take(bytes);
    OK(LaunchDelay(this->a_));
    OK(cudaMemcpyAsync(block, pinned.get(), bytes, cudaMemcpyHostToDevice, this->a_));
    this->GiveBehind(block, this->a_);
    this->NewOwner(bytes, this->b_);
  }
}

TYPED_TEST(Reuse, APendingMemset) {
  for (const size_t bytes : kSizes) {
    uint8_t* const block = this->Take(bytes);
    OK(LaunchDelay(this->a_));
    OK(cudaMemsetAsync(block, 0x5A, bytes, this->a_));
    this->GiveBehind(block, this->a_);
    this->NewOwner(bytes, this->b_);
  }
}

TYPED_TEST(Reuse, APendingReadFindsTheOldBytes) {
  const Pinned pinned(3 * kMiB);
  for (const size_t bytes : kSizes) {
    uint8_t* const block = this->Take(bytes);
    const uint32_t salt = NewSalt();
    OK(LaunchFill(block, bytes, salt, this->a_));
    OK(LaunchDelay(this->a_));
    OK(cudaMemcpyAsync(pinned.get(), block, bytes, cudaMemcpyDeviceToHost, this->a_));
    this->GiveBehind(block, this->a_);
    this->NewOwner(bytes, this->b_);
    OK(cudaStreamSynchronize(this->a_));
    size_t wrong = 0;
    for (size_t i = 0; i < bytes; ++i) wrong += pinned.get()[i] != PatternByte(salt, i) ? 1 : 0;
    EXPECT_EQ(wrong, 0U) << "of " << bytes;
  }
}

TYPED_TEST(Reuse, APendingKernelReadsTheOldBytes) {
  for (const size_t bytes : kSizes) {
    uint8_t* const sink = this->Take(bytes);
    uint8_t* const block = this->Take(bytes);
    const uint32_t salt = NewSalt();
    EXPECT_TRUE(Fill(block, bytes, salt, this->a_));
    OK(LaunchDelay(this->a_));
    OK(LaunchMove(sink, block, bytes, this->a_));
    this->GiveBehind(block, this->a_);
    this->NewOwner(bytes, this->b_);
    EXPECT_TRUE(Holds(sink, bytes, salt, this->a_));
  }
}

TYPED_TEST(Reuse, WorkOrderedByAnEventBehindAnotherStreams) {
  for (const size_t bytes : kSizes) {
    uint8_t* const block = this->Take(bytes);
    OK(LaunchDelay(this->a_));
    this->Order(this->a_, this->blocking_);
    EXPECT_TRUE(Fill(block, bytes, NewSalt(), this->blocking_));
    this->GiveBehind(block, this->blocking_);
    this->NewOwner(bytes, this->b_);
  }
}

TYPED_TEST(Reuse, WorkOfSeveralStreamsIsPending) {
  for (const size_t bytes : kSizes) {
    uint8_t* const block = this->Take(bytes);
    for (const auto& [name, stream] : this->AllStreams()) {
      this->PendingFill(block, bytes, stream);
      if (TypeParam::kStreamOrdered) this->Order(stream, this->home_);
    }
    this->Give(block);
    this->NewOwner(bytes, this->b_);
  }
}

// A new owner of the same stream needs no wait, and must not be held up for ever by one.
TYPED_TEST(Reuse, TheSameStreamAgainAndAgain) {
  for (const size_t bytes : kSizes) {
    OK(LaunchDelay(this->a_));
    for (int round = 0; round < 20; ++round) {
      void* memory = nullptr;
      OK(TypeParam::Allocate(&memory, bytes, this->a_));
      EXPECT_TRUE(Fill(memory, bytes, NewSalt(), this->a_));
      EXPECT_OK(TypeParam::Free(memory, this->a_));
    }
    this->NewOwner(bytes, this->a_);
  }
}

TYPED_TEST(Reuse, AnotherThreadFrees) {
  for (const size_t bytes : kSizes) {
    uint8_t* const block = this->Take(bytes);
    this->PendingFill(block, bytes, this->a_);
    OnAnotherThread([&] { this->GiveBehind(block, this->a_); });
    this->NewOwner(bytes, this->b_);
  }
}

TYPED_TEST(Reuse, AnotherThreadIsTheNewOwner) {
  for (const size_t bytes : kSizes) {
    uint8_t* const block = this->Take(bytes);
    this->PendingFill(block, bytes, this->a_);
    this->GiveBehind(block, this->a_);
    OnAnotherThread([&] { this->NewOwner(bytes, cudaStreamPerThread); });
  }
}

// The old work is in the per-thread stream of a thread that is gone.
TYPED_TEST(Reuse, AnotherThreadsOwnStreamIsPending) {
  // Behind the other tests of this suite the thread does not end: it waits in the driver for a lock, bare too
  // (580.159).
  if (TypeParam::kStreamOrdered && !Simulated()) GTEST_SKIP() << "the driver hangs";
  for (const size_t bytes : kSizes) {
    uint8_t* const block = this->Take(bytes);
    OnAnotherThread([&] {
      this->PendingFill(block, bytes, cudaStreamPerThread);
      if (TypeParam::kStreamOrdered) this->Order(cudaStreamPerThread, this->home_);
    });
    this->Give(block);
    this->NewOwner(bytes, cudaStreamPerThread);
  }
}

TYPED_TEST(Reuse, TheStreamIsDestroyedWithItsWorkPending) {
  for (const size_t bytes : kSizes) {
    cudaStream_t stream = nullptr;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    uint8_t* const block = this->Take(bytes);
    this->PendingFill(block, bytes, stream);
    if (TypeParam::kStreamOrdered) this->Order(stream, this->home_);
    OK(cudaStreamDestroy(stream));
    this->Give(block);
    this->NewOwner(bytes, this->b_);
  }
}

TYPED_TEST(Reuse, AGraphLaunchIsPending) {
  for (const size_t bytes : kSizes) {
    uint8_t* const block = this->Take(bytes);
    OK(cudaStreamBeginCapture(this->a_, cudaStreamCaptureModeRelaxed));
    EXPECT_TRUE(Fill(block, bytes, NewSalt(), this->a_));
    cudaGraph_t graph = nullptr;
    OK(cudaStreamEndCapture(this->a_, &graph));
    cudaGraphExec_t executable = nullptr;
    OK(cudaGraphInstantiate(&executable, graph, 0));
    OK(cudaGraphDestroy(graph));
    OK(LaunchDelay(this->a_));
    OK(cudaGraphLaunch(executable, this->a_));
    this->GiveBehind(block, this->a_);
    this->NewOwner(bytes, this->b_);
    OK(cudaGraphExecDestroy(executable));
  }
}

// Many blocks, freed behind different lengths of work, so that some are ready and some are not.
TYPED_TEST(Reuse, ManyBlocksSomeOfThemReady) {
  constexpr size_t kBytes = 96 * kKiB;
  for (int round = 0; round < 6; ++round) {
    std::vector<uint8_t*> blocks;
    for (int i = 0; i < 12; ++i) blocks.push_back(this->Take(kBytes));
    for (size_t i = 0; i < blocks.size(); ++i) {
      const cudaStream_t stream = i % 3 == 0 ? this->a_ : this->blocking_;
      if (i % 4 == 1) {
        OK(LaunchDelay(stream));
      }
      EXPECT_TRUE(Fill(blocks[i], kBytes, NewSalt(), stream));
      this->GiveBehind(blocks[i], stream);
      if (i % 5 == 2) {
        OK(cudaStreamSynchronize(stream));
      }
    }
    std::vector<std::pair<void*, uint32_t>> owned;
    for (int i = 0; i < 12; ++i) {
      void* memory = nullptr;
      OK(TypeParam::Allocate(&memory, kBytes, this->b_));
      this->live_.insert(memory);
      owned.emplace_back(memory, NewSalt());
      EXPECT_TRUE(Fill(memory, kBytes, owned.back().second, this->b_));
    }
    for (const auto& [memory, salt] : owned) EXPECT_TRUE(Holds(memory, kBytes, salt, this->b_));
    OK(cudaDeviceSynchronize());
    for (const auto& [memory, salt] : owned) {
      EXPECT_TRUE(Holds(memory, kBytes, salt, this->b_));
      this->Give(memory);
    }
  }
}

// No document says that a free waits for results in host memory. Every driver does, and programs count on it.
TYPED_TEST(Reuse, AFreeWaitsForResultsOnTheHost) {
  if (TypeParam::kStreamOrdered) GTEST_SKIP() << "a stream-ordered free waits for nothing";
  const Pinned pinned(4 * kKiB);
  for (const size_t bytes : kSizes) {
    uint8_t* const source = this->Take(4 * kKiB);
    uint8_t* const block = this->Take(bytes);
    const uint32_t salt = NewSalt();
    OK(LaunchDelay(this->a_));
    OK(LaunchFill(source, 4 * kKiB, salt, this->a_));
    OK(cudaMemcpyAsync(pinned.get(), source, 4 * kKiB, cudaMemcpyDeviceToHost, this->a_));
    this->Give(block);
    size_t wrong = 0;
    for (size_t i = 0; i < 4 * kKiB; ++i) wrong += pinned.get()[i] != PatternByte(salt, i) ? 1 : 0;
    EXPECT_EQ(wrong, 0U);
  }
}

}  // namespace
}  // namespace conformance
