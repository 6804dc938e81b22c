// The stream-ordered heap over the simulated driver: where memory comes from, in which order, and what work may see.

#include "allocator/stream_heap.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "tests/sim/sim_test.h"

namespace slipstream::allocator {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

class StreamHeapTest : public testing::Test {
 protected:
  void SetUp() override {
    OK(simReset());
    OK(simSetDeviceMemory(0, 512 * kMiB));
    simtest::RegisterKernels();
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context_, 0));
    OK(cuCtxSetCurrent(context_));
    size_t free = 0;
    OK(cuMemGetInfo(&free, &total_));
    ASSERT_TRUE(cuda::LoadDriver(&driver_));
    for (CUstream* const stream : {&a_, &b_}) OK(cuStreamCreate(stream, CU_STREAM_NON_BLOCKING));
    heap_ = std::make_unique<StreamHeap>(driver_, ledger_, 0, context_, total_);
    ASSERT_TRUE(heap_->Init());
  }
  void TearDown() override {
    simClearFailures();
    simQuiesce();
    EXPECT_TRUE(heap_->Clear());
    heap_.reset();
    OK(cuDevicePrimaryCtxRelease(0));
    OK(simReset());
  }

  CUdeviceptr Allocate(CUstream stream, size_t bytes) { return heap_->Allocate({.stream = stream}, bytes, &how_); }
  bool Free(CUdeviceptr address, CUstream stream) {
    size_t bytes = 0;
    return heap_->Free(address, {.stream = stream}, &bytes);
  }
  void Fill(CUdeviceptr address, size_t bytes, int value, CUstream stream) {
    void* arguments[] = {&address, &bytes, &value};
    OK(cudaLaunchKernel(simtest::Address(&simtest::Fill), 1, 1, arguments, 0, stream));
  }
  std::vector<uint8_t> Read(CUdeviceptr address, size_t bytes) {
    std::vector<uint8_t> read(bytes);
    EXPECT_EQ(cuMemcpyDtoH(read.data(), address, bytes), CUDA_SUCCESS);
    return read;
  }

  static cuda::Ledger& TheLedger() {
    static auto* const ledger = new cuda::Ledger({});
    return *ledger;
  }

  cuda::Driver driver_;
  cuda::Ledger& ledger_ = TheLedger();
  CUcontext context_ = nullptr;
  size_t total_ = 0;
  CUstream a_ = nullptr;
  CUstream b_ = nullptr;
  std::unique_ptr<StreamHeap> heap_;
  Source how_ = Source::kReused;
};

TEST_F(StreamHeapTest, MemoryCanBeUsedAndReachesOverItsPages) {
  const CUdeviceptr address = Allocate(a_, 7 * kMiB + 100);
  ASSERT_NE(address, 0U);
  EXPECT_EQ(how_, Source::kGrown);
  EXPECT_EQ(address % 512, 0U) << "S31";
  Fill(address, 7 * kMiB + 100, 0x5A, a_);
  OK(cuStreamSynchronize(a_));
  const std::vector<uint8_t> read = Read(address, 7 * kMiB + 100);
  EXPECT_EQ(read.front(), 0x5A);
  EXPECT_EQ(read.back(), 0x5A);
  EXPECT_EQ(heap_->Figures().used, 7 * kMiB + 512);
  EXPECT_EQ(heap_->Figures().reserved, 8 * kMiB);
  EXPECT_TRUE(Free(address, a_));
  EXPECT_EQ(heap_->Figures().used, 0U);
  EXPECT_EQ(heap_->Figures().most_used, 7 * kMiB + 512);
}

TEST_F(StreamHeapTest, S38_TheSameStreamHasItAgainAtOnce) {
  for (const size_t bytes : {size_t{1}, size_t{4096}, size_t{40'000}, 3 * kMiB}) {
    const CUdeviceptr address = Allocate(a_, bytes);
    Fill(address, bytes, 1, a_);
    ASSERT_TRUE(Free(address, a_));
    EXPECT_EQ(Allocate(a_, bytes), address) << bytes;
    EXPECT_EQ(how_, Source::kReused);
  }
}

TEST_F(StreamHeapTest, S38_AnotherStreamGrowsWhileItsWorkMayRun) {
  const CUdeviceptr address = Allocate(a_, 4 * kMiB);
  Fill(address, 4 * kMiB, 1, a_);
  ASSERT_TRUE(Free(address, a_));
  const CUdeviceptr other = Allocate(b_, 4 * kMiB);
  EXPECT_EQ(how_, Source::kGrown);
  EXPECT_NE(other, address);
  ASSERT_TRUE(Free(other, b_));
}

TEST_F(StreamHeapTest, S38_WhatHasRunIsAnybodys) {
  const CUdeviceptr address = Allocate(a_, 4 * kMiB);
  Fill(address, 4 * kMiB, 1, a_);
  ASSERT_TRUE(Free(address, a_));
  // The fence is recorded where somebody first looks.
  const CUdeviceptr second = Allocate(b_, 4 * kMiB);
  OK(simQuiesce());
  const CUdeviceptr third = Allocate(b_, 4 * kMiB);
  EXPECT_EQ(how_, Source::kReused);
  EXPECT_EQ(third, address);
  EXPECT_NE(second, address);
}

// All of the device's memory is in use or free in another stream's order: the second stream waits for it, not the host.
TEST_F(StreamHeapTest, S38_BehindAWaitWhereMemoryIsShort) {
  const size_t most = total_ / 2 / kMiB * kMiB;
  const CUdeviceptr address = Allocate(a_, most);
  ASSERT_NE(address, 0U);
  std::vector<CUdeviceptr> rest;
  while (const CUdeviceptr one = Allocate(a_, 32 * kMiB)) rest.push_back(one);
  Fill(address, most, 1, a_);
  ASSERT_TRUE(Free(address, a_));
  const uint64_t waits = simCallCount("cuEventSynchronize");
  const CUdeviceptr again = Allocate(b_, most);
  ASSERT_EQ(again, address);
  EXPECT_EQ(how_, Source::kBehind);
  EXPECT_EQ(simCallCount("cuEventSynchronize"), waits) << "the host does not wait";
  Fill(again, most, 2, b_);
  OK(simQuiesce());
  EXPECT_EQ(Read(again + most - 1, 1)[0], 2);
}

TEST_F(StreamHeapTest, S36_FragmentsComeAgainInOnePiece) {
  std::vector<CUdeviceptr> blocks;
  while (const CUdeviceptr one = Allocate(a_, 8 * kMiB)) {
    Fill(one, 8 * kMiB, 1, a_);
    blocks.push_back(one);
  }
  ASSERT_GT(blocks.size(), 8U);
  for (size_t i = 0; i < blocks.size(); i += 2) ASSERT_TRUE(Free(blocks[i], a_));
  const size_t half = blocks.size() / 2 * 8 * kMiB;
  const CUdeviceptr large = Allocate(a_, half);
  ASSERT_NE(large, 0U);
  EXPECT_EQ(how_, Source::kMoved);
  Fill(large, half, 3, a_);
  OK(cuStreamSynchronize(a_));
  EXPECT_EQ(Read(large + half - 1, 1)[0], 3);
  EXPECT_EQ(Read(blocks[1], 1)[0], 1);
}

// Every second one of these is free, and none is large enough.
class StreamHeapPieces : public StreamHeapTest {
 protected:
  static constexpr size_t kPiece = 6 * kMiB;
  void MakePieces(size_t count) {
    for (size_t i = 0; i < 2 * count; ++i) {
      CUdeviceptr& one = i % 2 == 0 ? freed_.emplace_back() : kept_.emplace_back();
      one = Allocate(a_, kPiece);
      ASSERT_NE(one, 0U);
      Fill(one, kPiece, static_cast<int>(i % 100 + 1), a_);
    }
    for (const CUdeviceptr one : freed_) ASSERT_TRUE(Free(one, a_));
  }
  // And the heap has seen it: a fence tells of what was before it, and a magazine's blocks of when they left it.
  void LetThemRun() {
    heap_->Trim(SIZE_MAX);
    heap_->Trim(SIZE_MAX);
    OK(simQuiesce());
  }
  void ExpectKept() {
    for (size_t i = 0; i < kept_.size(); ++i) {
      EXPECT_EQ(Read(kept_[i], kPiece), std::vector<uint8_t>(kPiece, static_cast<uint8_t>((2 * i + 1) % 100 + 1))) << i;
    }
  }
  std::vector<CUdeviceptr> kept_;
  std::vector<CUdeviceptr> freed_;
};

TEST_F(StreamHeapPieces, IdleMemoryIsPutTogetherBeforeThereIsMoreOfIt) {
  MakePieces(8);
  LetThemRun();
  const uint64_t reserved = heap_->Figures().reserved;
  const CUdeviceptr large = Allocate(b_, 4 * kPiece);
  ASSERT_NE(large, 0U);
  EXPECT_EQ(how_, Source::kMoved);
  EXPECT_EQ(heap_->Figures().reserved, reserved);
  Fill(large, 4 * kPiece, 77, b_);
  OK(simQuiesce());
  EXPECT_EQ(Read(large, 4 * kPiece), std::vector<uint8_t>(4 * kPiece, 77));
  ExpectKept();
  // More than there is: what there is, and the rest is new.
  const CUdeviceptr larger = Allocate(b_, 10 * kPiece);
  ASSERT_NE(larger, 0U);
  EXPECT_EQ(heap_->Figures().reserved, reserved + 6 * kPiece);
  Fill(larger, 10 * kPiece, 78, b_);
  OK(simQuiesce());
  EXPECT_EQ(Read(larger, 10 * kPiece), std::vector<uint8_t>(10 * kPiece, 78));
  EXPECT_EQ(Read(large, 4 * kPiece), std::vector<uint8_t>(4 * kPiece, 77));
  ExpectKept();
}

TEST_F(StreamHeapPieces, S39_WhatWorkIsOnStaysWhereItIs) {
  MakePieces(8);
  const uint64_t unmapped = simCallCount("cuMemUnmap");
  ASSERT_NE(Allocate(b_, 4 * kPiece), 0U);
  EXPECT_EQ(how_, Source::kGrown);
  EXPECT_EQ(simCallCount("cuMemUnmap"), unmapped);
  OK(simQuiesce());
  ExpectKept();
}

TEST_F(StreamHeapPieces, LittleThatIsIdleIsLeftAlone) {
  MakePieces(1);
  const CUdeviceptr most = Allocate(a_, 300 * kMiB);
  ASSERT_NE(most, 0U);
  LetThemRun();
  ASSERT_NE(Allocate(b_, 8 * kMiB), 0U);
  EXPECT_EQ(how_, Source::kGrown);
}

TEST_F(StreamHeapPieces, WhereMovingFailsThereIsNewMemory) {
  MakePieces(8);
  LetThemRun();
  for (const char* const function : {"cuMemUnmap", "cuMemMap", "cuMemSetAccess"}) {
    OK(simFailCall(function, CUDA_ERROR_UNKNOWN, 1, 0));
    const CUdeviceptr large = Allocate(b_, 2 * kPiece);
    simClearFailures();
    ASSERT_NE(large, 0U) << function;
    EXPECT_EQ(how_, Source::kGrown) << function;
    Fill(large, 2 * kPiece, 5, b_);
    OK(simQuiesce());
    EXPECT_EQ(Read(large, 2 * kPiece), std::vector<uint8_t>(2 * kPiece, 5)) << function;
  }
  ExpectKept();
  bool waited = false;
  for (const CUdeviceptr one : kept_) ASSERT_TRUE(Free(one, a_));
  heap_->TrimBehindAll(0, &waited);
  EXPECT_EQ(heap_->Figures().reserved, 6 * kPiece) << "those three alone";
}

// What was put together is in pieces again, each time: moving ends where it has cost enough.
TEST_F(StreamHeapPieces, AfterAWhileMemoryIsNotMovedWhileThereIsSome) {
  constexpr unsigned kRounds = 40;
  std::vector<unsigned> moved;
  for (unsigned round = 0; round < kRounds; ++round) {
    MakePieces(4);
    LetThemRun();
    const CUdeviceptr large = Allocate(a_, 4 * kPiece);
    ASSERT_NE(large, 0U);
    if (how_ == Source::kMoved) moved.push_back(round);
    ExpectKept();
    kept_.push_back(large);
    for (const CUdeviceptr one : kept_) ASSERT_TRUE(Free(one, a_));
    kept_.clear();
    freed_.clear();
    LetThemRun();
  }
  ASSERT_GT(moved.size(), 3U);
  EXPECT_LT(moved.back(), kRounds / 2);
  // The driver has nothing left.
  MakePieces(4);
  ASSERT_NE(Allocate(a_, total_ - heap_->Figures().reserved + 2 * kPiece), 0U);
  EXPECT_EQ(how_, Source::kMoved);
  OK(simQuiesce());
  ExpectKept();
}

TEST_F(StreamHeapTest, OutOfMemoryIsNoBlock) {
  EXPECT_EQ(Allocate(a_, 2 * total_), 0U);
  EXPECT_EQ(Allocate(a_, SIZE_MAX), 0U);
  EXPECT_EQ(heap_->Figures().reserved, 0U);
  EXPECT_NE(Allocate(a_, kMiB), 0U);
}

TEST_F(StreamHeapTest, S34_WhatIsNoBlockIsNotFreed) {
  const CUdeviceptr small = Allocate(a_, 1024);
  const CUdeviceptr large = Allocate(a_, 3 * kMiB);
  EXPECT_FALSE(Free(small + 512, a_));
  EXPECT_FALSE(Free(large + 512, a_));
  EXPECT_TRUE(Free(small, a_));
  EXPECT_TRUE(Free(large, a_));
  EXPECT_FALSE(Free(small, a_));
  EXPECT_FALSE(Free(large, a_));
  EXPECT_TRUE(heap_->Owns(small));
  EXPECT_FALSE(heap_->Owns(0));
}

TEST_F(StreamHeapTest, RangesAreThoseOfTheProgramsBlocks) {
  for (const size_t bytes : {size_t{700}, 3 * kMiB}) {
    const CUdeviceptr address = Allocate(a_, bytes);
    CUdeviceptr begin = 0;
    size_t size = 0;
    EXPECT_TRUE(heap_->RangeOf(address + bytes - 1, &begin, &size));
    EXPECT_EQ(begin, address);
    EXPECT_EQ(size, (bytes + 511) / 512 * 512);
    ASSERT_TRUE(Free(address, a_));
    EXPECT_FALSE(heap_->RangeOf(address, &begin, &size));
  }
}

TEST_F(StreamHeapTest, S38_ADestroyedStreamsBlocksAreNotItsSuccessors) {
  const CUdeviceptr address = Allocate(a_, 4 * kMiB);
  Fill(address, 4 * kMiB, 1, a_);
  ASSERT_TRUE(Free(address, a_));
  heap_->StreamEnds({.stream = a_});
  // Another stream of the same name, for all that the heap knows.
  EXPECT_NE(Allocate(a_, 4 * kMiB), address);
  OK(simQuiesce());
  EXPECT_EQ(Allocate(b_, 4 * kMiB), address);
}

// What a thread frees and has again at once passes by the heap's tables; to everybody else it is as free as any.
TEST_F(StreamHeapTest, S34_ASecondFreeIsRefusedWhoeverMakesIt) {
  for (const size_t bytes : {size_t{1000}, 4 * kMiB}) {
    const CUdeviceptr address = Allocate(a_, bytes);
    ASSERT_TRUE(Free(address, a_));
    EXPECT_FALSE(Free(address, a_));
    EXPECT_EQ(Allocate(a_, bytes), address);
    ASSERT_TRUE(Free(address, a_));
    std::thread([&] { EXPECT_FALSE(Free(address, b_)); }).join();
    size_t freed = 0;
    EXPECT_FALSE(heap_->FreeDone(address, &freed));
    EXPECT_EQ(heap_->Figures().used, 0U);
  }
}

TEST_F(StreamHeapTest, S38_WhatAnotherThreadFreedHasTheSizeItHasNow) {
  const CUdeviceptr first = Allocate(a_, 4 * kMiB);
  std::thread([&] {
    ASSERT_TRUE(Free(first, a_));
    // Another block begins where the first one did, and is not as large.
    EXPECT_EQ(Allocate(a_, kMiB), first);
  }).join();
  const CUdeviceptr rest = Allocate(a_, 3 * kMiB);
  EXPECT_EQ(rest, first + kMiB);
  ASSERT_TRUE(Free(first, a_)) << "by the thread that had the first one";
  EXPECT_EQ(heap_->Figures().used, 3 * kMiB);
  const CUdeviceptr again = Allocate(a_, 4 * kMiB);
  EXPECT_TRUE(again < first || again >= rest + 3 * kMiB) << "the rest is live";
  EXPECT_EQ(Allocate(a_, kMiB), first);
}

TEST_F(StreamHeapTest, S40_ThePeakIsOfWhatWasUsedAtOnce) {
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(Free(Allocate(a_, (8 + i) * kMiB), a_));
  }
  EXPECT_EQ(heap_->Figures().most_used, 13 * kMiB);
  EXPECT_EQ(heap_->Figures().used, 0U);
}

TEST_F(StreamHeapTest, S36_WhatAnotherThreadFreedLastIsFoundBeforeMemoryIsTaken) {
  CUdeviceptr address = 0;
  std::thread([&] {
    address = Allocate(a_, 16 * kMiB);
    ASSERT_TRUE(Free(address, a_));
  }).join();
  EXPECT_EQ(Allocate(a_, 12 * kMiB), address);
  EXPECT_EQ(how_, Source::kReused);
  EXPECT_EQ(heap_->Figures().reserved, 16 * kMiB);
}

TEST_F(StreamHeapTest, S39_WhatGoesBackHasRun) {
  const CUdeviceptr address = Allocate(a_, 16 * kMiB);
  Fill(address, 16 * kMiB, 1, a_);
  ASSERT_TRUE(Free(address, a_));
  EXPECT_EQ(heap_->Trim(0), 0U) << "its work has not run";
  EXPECT_EQ(heap_->Figures().reserved, 16 * kMiB);
  bool waited = false;
  EXPECT_EQ(heap_->TrimBehindAll(6 * kMiB, &waited), 10 * kMiB);
  EXPECT_TRUE(waited);
  EXPECT_EQ(simPendingOperations(a_), 0);
  EXPECT_EQ(heap_->TrimBehindAll(0, &waited), 6 * kMiB);
  EXPECT_EQ(heap_->Figures().reserved, 0U);
  size_t free = 0;
  OK(cuMemGetInfo(&free, &total_));
  OK(cudaGetLastError());
}

TEST_F(StreamHeapTest, S37_WhileACaptureIsLiveNothingOfTheWholeContextIsAsked) {
  const CUdeviceptr address = Allocate(a_, 4 * kMiB);
  Fill(address, 4 * kMiB, 1, a_);
  ASSERT_TRUE(Free(address, a_));
  CUstream capturing = nullptr;
  OK(cuStreamCreate(&capturing, CU_STREAM_NON_BLOCKING));
  const auto begin = [&] {
    return static_cast<cudaError_t>(cuStreamBeginCapture(capturing, CU_STREAM_CAPTURE_MODE_GLOBAL));
  };
  ASSERT_EQ(ledger_.BeginCapture(capturing, false, begin), cudaSuccess);
  EXPECT_NE(Allocate(b_, 4 * kMiB), 0U) << "new memory";
  EXPECT_EQ(Allocate(b_, total_), 0U);
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(capturing, &graph), CUDA_SUCCESS) << "the capture is whole";
  ledger_.CaptureMayHaveEnded(capturing, false);
  EXPECT_FALSE(ledger_.CaptureLive());
}

TEST_F(StreamHeapTest, WhateverCallFailsThereIsAnAnswer) {
  for (const char* const function : {"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuCtxRecordEvent", "cuEventCreate",
                                     "cuEventQuery", "cuStreamWaitEvent", "cuEventSynchronize"}) {
    for (uint64_t nth = 1; nth < 8; ++nth) {
      OK(simFailCall(function, CUDA_ERROR_UNKNOWN, nth, 1));
      std::vector<CUdeviceptr> blocks;
      for (unsigned i = 0; i < 12; ++i) {
        const CUdeviceptr address = Allocate(i % 2 == 0 ? a_ : b_, (size_t{i} % 5 + 1) * 3 * kMiB);
        if (address == 0) continue;
        Fill(address, kMiB, static_cast<int>(i), i % 2 == 0 ? a_ : b_);
        blocks.push_back(address);
        if (i % 3 == 2) {
          EXPECT_TRUE(Free(blocks[0], i % 2 == 0 ? a_ : b_));
          blocks.erase(blocks.begin());
        }
      }
      simClearFailures();
      OK(simQuiesce());
      for (const CUdeviceptr address : blocks) EXPECT_TRUE(Free(address, a_));
      bool waited = false;
      heap_->TrimBehindAll(0, &waited);
      EXPECT_TRUE(waited);
      EXPECT_EQ(heap_->Figures().reserved, 0U) << function << " " << nth;
    }
  }
}

// Threads with streams of their own, and frees on each other's: bytes stay whose they are.
TEST_F(StreamHeapTest, ThreadsWithStreamsOfTheirOwn) {
  constexpr int kThreads = 4;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  std::array<std::mutex, kThreads> locks;
  std::array<std::vector<CUdeviceptr>, kThreads> handed;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      cuCtxSetCurrent(context_);
      CUstream stream = nullptr;
      cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
      std::mt19937 random(static_cast<unsigned>(t));
      std::vector<std::pair<CUdeviceptr, size_t>> live;
      for (int i = 0; i < 150; ++i) {
        const size_t bytes = 1 + random() % (random() % 3 == 0 ? 3 * kMiB : 20'000);
        Source how = Source::kReused;
        const CUdeviceptr address = heap_->Allocate({.stream = stream}, bytes, &how);
        if (address == 0) continue;
        cuMemsetD8Async(address, static_cast<unsigned char>(t), bytes, stream);
        live.emplace_back(address, bytes);
        if (live.size() > 8) {
          const auto [old, size] = live.front();
          live.erase(live.begin());
          uint8_t last = 0xFF;
          cuMemcpyDtoHAsync(&last, old + size - 1, 1, stream);
          cuStreamSynchronize(stream);
          if (last != t) ++wrong;
          const std::lock_guard lock(locks[(t + 1) % kThreads]);
          handed[(t + 1) % kThreads].push_back(old);
        }
        std::vector<CUdeviceptr> mine;
        {
          const std::lock_guard lock(locks[t]);
          mine.swap(handed[t]);
        }
        size_t freed = 0;
        for (const CUdeviceptr one : mine) {
          if (!heap_->Free(one, {.stream = stream}, &freed)) ++wrong;
        }
        if (i % 40 == 39) heap_->Trim(0);
      }
      cuStreamSynchronize(stream);
      size_t freed = 0;
      for (const auto& [address, bytes] : live) heap_->Free(address, {.stream = stream}, &freed);
      heap_->StreamEnds({.stream = stream});
      cuStreamDestroy(stream);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  size_t freed = 0;
  for (const auto& rest : handed) {
    for (const CUdeviceptr one : rest) EXPECT_TRUE(heap_->Free(one, {.stream = a_}, &freed));
  }
  EXPECT_EQ(heap_->Figures().used, 0U);
  bool waited = false;
  heap_->TrimBehindAll(0, &waited);
  EXPECT_EQ(heap_->Figures().reserved, 0U);
}

}  // namespace
}  // namespace slipstream::allocator
