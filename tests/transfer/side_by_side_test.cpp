// Parts of the engine that threads share, with threads that really run side by side: each thread has a lock of its own
// as long as it can, and what one of them relies on must hold whatever the others do between any two of its lines.
//
// The driver is played: an event passes at some time after it was recorded, and when it does, what it stands for is
// looked at, as a DMA would have read it.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/capture_watch.h"
#include "cuda/host_effects.h"
#include "cuda/run_ahead.h"
#include "transfer/ring.h"

namespace slipstream::transfer {
namespace {

constexpr int kThreads = 20;  // more than there are shards
constexpr int kTurns = 2000;
constexpr size_t kLeast = 64;  // bytes of a copy

// What an event stands for: a DMA that reads memory.
struct Dma {
  const char* begin = nullptr;
  const char* end = nullptr;
  char value = 0;
};
struct Event {
  std::mutex mutex;
  bool pending = false;
  Dma dma;
};
constexpr size_t kEvents = 1 << 14;
std::array<Event, kEvents> g_events;
std::atomic<size_t> g_made{0};
std::atomic<int> g_wrong{0};
thread_local Dma t_dma;
thread_local std::minstd_rand t_random;

// In the driver, where the locks of what asks it are held.
void LetOthersRun() {
  if (t_random() % 8 == 0) std::this_thread::yield();
}

Event& At(CUevent event) { return g_events[reinterpret_cast<uintptr_t>(event) - 1]; }

void Play(cuda::Driver* driver) {
  driver->cuCtxGetCurrent = [](CUcontext*) { return CUDA_SUCCESS; };
  driver->cuCtxSetCurrent = [](CUcontext) { return CUDA_SUCCESS; };
  driver->cuEventCreate = [](CUevent* event, unsigned) {
    const size_t number = g_made.fetch_add(1) + 1;
    if (number > kEvents) return CUDA_ERROR_OUT_OF_MEMORY;
    *event = reinterpret_cast<CUevent>(number);
    return CUDA_SUCCESS;
  };
  driver->cuEventRecord = [](CUevent event, CUstream) {
    LetOthersRun();
    Event& at = At(event);
    const std::lock_guard lock(at.mutex);
    at.pending = true;
    at.dma = t_dma;
    return CUDA_SUCCESS;
  };
  driver->cuEventQuery = [](CUevent event) {
    LetOthersRun();
    Event& at = At(event);
    const std::lock_guard lock(at.mutex);
    if (at.pending && t_random() % 3 != 0) return CUDA_ERROR_NOT_READY;
    const Dma dma = std::exchange(at.dma, Dma());
    if (at.pending && std::any_of(dma.begin, dma.end, [&](char byte) { return byte != dma.value; })) ++g_wrong;
    at.pending = false;
    return CUDA_SUCCESS;
  };
}

// As in the engine, never destroyed.
struct Parts {
  cuda::Driver driver;
  cuda::FencePool fences{driver};
  Ring ring;
  cuda::HostEffects effects;
  cuda::RunAhead ahead;
  cuda::CaptureWatch captures;
  std::vector<char> segment = std::vector<char>(Ring::kSegmentBytes);
};

class SideBySideTest : public ::testing::Test {
 protected:
  static Parts& NewParts() {
    static auto* const all = new std::vector<std::unique_ptr<Parts>>;
    Parts& parts = *all->emplace_back(std::make_unique<Parts>());
    Play(&parts.driver);
    parts.ring.Add(parts.segment.data());
    return parts;
  }
  void SetUp() override { g_wrong = 0; }

  // turn(thread) in each of kThreads threads, kTurns times; `thread` is from 1.
  static void Each(const std::function<void(uint64_t thread)>& turn) {
    std::barrier begin(kThreads);
    std::vector<std::thread> threads;
    for (uint64_t number = 1; number <= kThreads; ++number) {
      threads.emplace_back([&, number] {
        t_random.seed(static_cast<unsigned>(number));
        begin.arrive_and_wait();
        for (int i = 0; i < kTurns; ++i) turn(number);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // Behind a DMA that reads [begin, end), which holds the thread's number everywhere.
  cuda::FenceRef Send(const char* begin, const char* end, uint64_t thread) {
    t_dma = {begin, end, static_cast<char>(thread)};
    cuda::FenceRef fence = parts_.fences.Record(context_, stream_);
    t_dma = {};
    return fence;
  }

  Parts& parts_ = NewParts();
  CUcontext const context_ = reinterpret_cast<CUcontext>(0x2000);
  CUstream const stream_ = reinterpret_cast<CUstream>(0x3000);
};

// No slot is lost or had twice, whichever thread gives it back.
TEST_F(SideBySideTest, SlotsGoFromThreadToThread) {
  std::array<std::atomic<int>, Ring::kSegmentBytes / Ring::kSlotBytes> holders{};
  Each([&](uint64_t thread) {
    char* const slot = parts_.ring.Take(t_random() % 2 == 0);
    if (slot == nullptr) return;
    auto& holder = holders[static_cast<size_t>(slot - parts_.segment.data()) / Ring::kSlotBytes];
    if (holder.fetch_add(1) != 0) ++g_wrong;
    std::fill(slot, slot + kLeast, static_cast<char>(thread));
    holder.fetch_sub(1);
    parts_.ring.Commit({slot}, Send(slot, slot + kLeast, thread));
  });
  EXPECT_EQ(g_wrong, 0);
  for (const cuda::FenceRef& fence : parts_.ring.InFlight()) {
    while (!fence.Done()) {
    }
  }
  EXPECT_EQ(parts_.ring.TakeIdleSegments(), std::vector<char*>{parts_.segment.data()});
  EXPECT_EQ(parts_.ring.capacity(), 0U);
}

// A query of another thread finds what a thread has deferred, also while the last one that was open is forgotten.
TEST_F(SideBySideTest, S63_WhatIsDeferredIsOpenUntilItHasPassed) {
  std::atomic<uint64_t> marks{0};
  Each([&](uint64_t thread) {
    const cuda::StreamKey stream = {reinterpret_cast<CUstream>(thread << 12), 0};
    while (const cuda::FenceRef oldest = parts_.ahead.MustWaitFor(stream)) {
      while (!oldest.Done()) {
      }
    }
    const cuda::FenceRef fence = parts_.fences.Record(context_, stream.handle);
    const uint64_t mark = ++marks;
    parts_.ahead.Defer(stream, fence, mark);
    if (!parts_.ahead.MayBeOpenSince(mark - 1) && !fence.Done()) ++g_wrong;
    if (t_random() % 2 != 0) return;
    const std::vector<cuda::RunAhead::DeferredWait> open = parts_.ahead.Open();
    const bool found = std::any_of(open.begin(), open.end(), [&](const auto& wait) { return wait.mark == mark; });
    if (!found && !fence.KnownDone()) ++g_wrong;
  });
  EXPECT_EQ(g_wrong, 0);
}

TEST_F(SideBySideTest, S10_AnEffectIsFoundUntilItHasPassed) {
  Each([&](uint64_t thread) {
    const cuda::StreamKey stream = {reinterpret_cast<CUstream>((thread % 3 + 1) << 12), 0};
    const cuda::AddressRange mine = {thread * 4096, thread * 4096 + 64};
    const cuda::FenceRef fence = parts_.fences.Record(context_, stream.handle);
    parts_.effects.Add(stream, thread, cuda::HostEffectKind::kWrite, mine, fence);
    if (!parts_.effects.MayWrite(cuda::HostEffectKind::kWrite, mine) && !fence.KnownDone()) ++g_wrong;
    std::vector<cuda::FenceRef> fences;
    const cuda::StreamKey other = {reinterpret_cast<CUstream>(uintptr_t{9} << 12), 0};
    if (parts_.effects.OnlyOn(other, &fences) && !fence.KnownDone()) ++g_wrong;
    fences.clear();
    if (!parts_.effects.All(context_, &fences)) ++g_wrong;
    const auto is_it = [&](const cuda::FenceRef& found) { return found.event() == fence.event(); };
    if (std::none_of(fences.begin(), fences.end(), is_it) && !fence.KnownDone()) ++g_wrong;
  });
  EXPECT_EQ(g_wrong, 0);
}

TEST_F(SideBySideTest, S05_NothingIsDoneWhileACaptureIsLive) {
  std::atomic<int> working{0};
  std::atomic<int> capturing{0};
  std::atomic<int> begun{0};
  Each([&](uint64_t thread) {
    static thread_local bool captures;
    const cuda::StreamKey stream = {reinterpret_cast<CUstream>(thread << 12), 0};
    if (captures) {
      if (t_random() % 4 != 0) return;
      captures = false;
      --capturing;
      parts_.captures.Ended(stream);
    } else if (t_random() % 64 == 0) {
      captures = parts_.captures.Begin(stream, [&] {
        if (working != 0) ++g_wrong;
        LetOthersRun();
        ++capturing;
        ++begun;
        return 0;
      }) == 0;
    } else {
      parts_.captures.Without([&] {
        ++working;
        LetOthersRun();
        if (capturing != 0) ++g_wrong;
        --working;
      });
    }
  });
  EXPECT_EQ(g_wrong, 0);
  EXPECT_GT(begun, 0);
}

// One thread records, and another one is the last that holds the fence.
TEST_F(SideBySideTest, FencesThatChangeHandsAreUsedAgain) {
  std::mutex mutex;
  std::vector<cuda::FenceRef> handed;
  const size_t before = g_made;
  Each([&](uint64_t thread) {
    if (thread % 2 == 0) {
      cuda::FenceRef fence = parts_.fences.Record(context_, stream_);
      const std::lock_guard lock(mutex);
      if (handed.size() < 100) handed.push_back(std::move(fence));
    } else {
      cuda::FenceRef last;
      const std::lock_guard lock(mutex);
      if (handed.empty()) return;
      last = std::move(handed.back());
      handed.pop_back();
    }
  });
  // 100 are under way and each thread has one; a few more where all lists were empty as a thread looked at them.
  EXPECT_LE(g_made - before, 400U) << "of " << kTurns * kThreads / 2 << " that were recorded";
}

}  // namespace
}  // namespace slipstream::transfer
