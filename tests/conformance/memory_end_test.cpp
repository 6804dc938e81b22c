// What happens where device memory ends: an error that a program can clear, and everything there again after frees.
#include "tests/conformance/conformance_test.h"

namespace conformance {
namespace {

template <typename Allocator>
class MemoryEnd : public Conformance<Allocator> {
 protected:
  void SetUp() override {
    Conformance<Allocator>::SetUp();
    OK(cudaDeviceSynchronize());
    ballast_ = TakeUnseenBut(2048 * kMiB);  // the end of a large device is found sooner
    free_ = this->FreeMemory();
  }
  void TearDown() override {
    Conformance<Allocator>::TearDown();
    if (ballast_ != 0) GiveUnseen(ballast_);
  }
  // Blocks of the size until there is no more.
  std::vector<uint8_t*> TakeAll(size_t bytes) {
    std::vector<uint8_t*> blocks;
    for (;;) {
      void* block = nullptr;
      const cudaError_t result = Allocator::Allocate(&block, bytes, this->home_);
      if (result != cudaSuccess) {
        EXPECT_EQ(result, cudaErrorMemoryAllocation);
        ExpectLastError(cudaErrorMemoryAllocation);
        break;
      }
      this->live_.insert(block);
      blocks.push_back(static_cast<uint8_t*>(block));
    }
    if (Allocator::kStreamOrdered) {
      EXPECT_OK(cudaStreamSynchronize(this->home_));
    }
    return blocks;
  }
  void GiveAll(const std::vector<uint8_t*>& blocks) {
    for (uint8_t* const block : blocks) this->Give(block);
    if (Allocator::kStreamOrdered) {
      EXPECT_OK(cudaStreamSynchronize(this->home_));
    }
  }
  // A tenth of what is free, say: not a size that any other test has.
  size_t Part(size_t of_free, size_t over) const { return free_ / over * of_free / (2 * kMiB) * (2 * kMiB); }
  // The block can be written and read at both ends.
  void ExpectUsable(uint8_t* block, size_t bytes) {
    ASSERT_NE(block, nullptr);
    const uint32_t salt = NewSalt();
    EXPECT_TRUE(Fill(block, bytes, salt, this->a_));
    EXPECT_TRUE(Holds(block, bytes, salt, this->a_));
  }

  size_t free_ = 0;
  CUdeviceptr ballast_ = 0;
};
TYPED_TEST_SUITE(MemoryEnd, Allocators, AllocatorNames);

TYPED_TEST(MemoryEnd, TooMuchIsRefusedAndForgotten) {
  size_t free = 0;
  size_t total = 0;
  OK(cudaMemGetInfo(&free, &total));
  uint8_t* const kept = this->Take(3 * kMiB);
  const uint32_t salt = NewSalt();
  EXPECT_TRUE(Fill(kept, 3 * kMiB, salt, this->a_));
  for (const size_t bytes : {total + 2 * kMiB, 16 * total}) {
    void* block = this;
    EXPECT_EQ(TypeParam::Allocate(&block, bytes, this->home_), cudaErrorMemoryAllocation) << bytes << " bytes";
    ExpectLastError(cudaErrorMemoryAllocation);
    this->ExpectUsable(this->Take(4 * kMiB), 4 * kMiB);
  }
  EXPECT_TRUE(Holds(kept, 3 * kMiB, salt, this->a_));
  OK(cudaDeviceSynchronize());
}

TYPED_TEST(MemoryEnd, AllOfItTwice) {
  const size_t bytes = this->Part(1, 24);
  const std::vector<uint8_t*> first = this->TakeAll(bytes);
  EXPECT_GE(first.size(), 20U);
  for (uint8_t* const block : first) this->ExpectUsable(block, bytes);
  this->GiveAll(first);
  const std::vector<uint8_t*> second = this->TakeAll(bytes);
  EXPECT_GE(second.size(), first.size());
  for (uint8_t* const block : second) this->ExpectUsable(block, bytes);
}

// The last block is there again at once for whoever frees one: every time.
TYPED_TEST(MemoryEnd, OneBackOneMore) {
  const size_t bytes = this->Part(1, 24);
  std::vector<uint8_t*> blocks = this->TakeAll(bytes);
  ASSERT_GE(blocks.size(), 20U);
  for (int round = 0; round < 8; ++round) {
    const size_t which = this->random_() % blocks.size();
    this->Give(blocks[which]);
    blocks[which] = this->Take(bytes);
    this->ExpectUsable(blocks[which], bytes);
  }
}

TYPED_TEST(MemoryEnd, MostOfItAgainAndAgain) {
  const size_t bytes = this->Part(7, 10);
  for (int round = 0; round < 4; ++round) {
    uint8_t* const block = this->Take(bytes);
    this->ExpectUsable(block, bytes);
    this->Give(block);
    if (TypeParam::kStreamOrdered) {
      OK(cudaStreamSynchronize(this->home_));
    }
  }
}

// What came back in pieces is there for one block, and the other way round.
TYPED_TEST(MemoryEnd, ManyPiecesThenMostOfIt) {
  for (int round = 0; round < 2; ++round) {
    std::vector<uint8_t*> blocks;
    const size_t piece = this->Part(1, 10);
    for (int i = 0; i < 8; ++i) blocks.push_back(this->Take(piece));
    for (uint8_t* const block : blocks) this->ExpectUsable(block, piece);
    this->GiveAll(blocks);
    const size_t most = this->Part(9, 10);
    uint8_t* const block = this->Take(most);
    this->ExpectUsable(block, most);
    this->GiveAll({block});
  }
}

// It is there for a thread whose first call of all this is.
TYPED_TEST(MemoryEnd, PiecesThenMostOfItForANewThread) {
  std::vector<uint8_t*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(this->Take(this->Part(1, 10)));
  this->GiveAll(blocks);
  const size_t most = this->Part(9, 10);
  void* block = nullptr;
  OnAnotherThread([&] { EXPECT_OK(TypeParam::Allocate(&block, most, this->home_)); });
  if (block != nullptr) this->GiveAll({static_cast<uint8_t*>(block)});
}

// What was freed by one allocator's call is there for every other's.
TYPED_TEST(MemoryEnd, PiecesOfAnotherAllocatorThenMostOfIt) {
  for (int round = 0; round < 2; ++round) {
    std::vector<void*> blocks(8);
    for (void*& block : blocks) OK(cudaMalloc(&block, this->Part(1, 10)));
    for (void* const block : blocks) OK(cudaFree(block));
    const size_t most = this->Part(9, 10);
    uint8_t* const block = this->Take(most);
    this->ExpectUsable(block, most);
    ExpectNoLastError();
    this->GiveAll({block});
  }
}

// There is nothing left but what was freed in front of work that is pending.
TYPED_TEST(MemoryEnd, TheLastBlockIsFreedUnderPendingWork) {
  for (const auto& [name, stream] : this->AllStreams()) {
    SCOPED_TRACE(name);
    const size_t bytes = this->Part(1, 24);
    const std::vector<uint8_t*> blocks = this->TakeAll(bytes);
    ASSERT_GE(blocks.size(), 20U);
    OK(LaunchDelay(stream));
    EXPECT_TRUE(Fill(blocks[3], bytes, NewSalt(), stream));
    this->GiveBehind(blocks[3], stream);
    void* again = nullptr;
    const cudaStream_t next = stream == this->b_ ? this->a_ : this->b_;
    OK(TypeParam::Allocate(&again, bytes, next));
    this->live_.insert(again);
    const uint32_t salt = NewSalt();
    EXPECT_TRUE(Fill(again, bytes, salt, next));
    EXPECT_TRUE(Holds(again, bytes, salt, next));
    OK(cudaDeviceSynchronize());
    EXPECT_TRUE(Holds(again, bytes, salt, next));
    for (void* const block : std::set<void*>(this->live_)) this->Give(block);
    OK(cudaDeviceSynchronize());
  }
}

// The same with a reader: what is pending must find what was there.
TYPED_TEST(MemoryEnd, TheLastBlockIsFreedUnderAPendingRead) {
  const size_t bytes = this->Part(1, 24);
  uint8_t* pinned = nullptr;
  OK(cudaMallocHost(reinterpret_cast<void**>(&pinned), 4 * kKiB));
  const std::vector<uint8_t*> blocks = this->TakeAll(bytes);
  ASSERT_GE(blocks.size(), 20U);
  const uint32_t old_salt = NewSalt();
  OK(LaunchFill(blocks[3], 4 * kKiB, old_salt, this->a_));
  OK(LaunchDelay(this->a_));
  OK(cudaMemcpyAsync(pinned, blocks[3], 4 * kKiB, cudaMemcpyDeviceToHost, this->a_));
  this->GiveBehind(blocks[3], this->a_);
  void* again = nullptr;
  OK(TypeParam::Allocate(&again, bytes, this->b_));
  this->live_.insert(again);
  EXPECT_TRUE(Fill(again, bytes, NewSalt(), this->b_));
  OK(cudaStreamSynchronize(this->b_));
  OK(cudaStreamSynchronize(this->a_));
  for (size_t i = 0; i < 4 * kKiB; ++i) ASSERT_EQ(pinned[i], PatternByte(old_salt, i)) << i;
  OK(cudaFreeHost(pinned));
}

}  // namespace
}  // namespace conformance
