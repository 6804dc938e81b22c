// S62 with threads that run side by side: on one stream and on several, switched at each of their calls and at each
// call of the driver that slipstream makes meanwhile. What they find must be what some order of whole operations gives.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <random>

#include "tests/preload/transfer/rule_test.h"
#include "tests/support/interleaver.h"
#include "tests/support/register_history.h"

namespace rules {
namespace {

using slipstream::test::Interleaver;
using slipstream::test::RegisterHistory;

constexpr int kTorn = -1;

// The value that all of it has.
int ValueOf(const uint8_t* memory, size_t bytes) {
  constexpr size_t kOften = size_t{64} << 10;  // a byte of so many is looked at, and the last one; pieces are longer
  for (size_t at = 0; at < bytes - 1; at += kOften) {
    if (memory[at] != memory[bytes - 1]) return kTorn;
  }
  return memory[0];
}

// A piece of device memory that several threads use, always on the same stream: its operations have an order.
struct Shared {
  uint8_t* device = nullptr;
  size_t bytes = 0;
  cudaStream_t stream = nullptr;
  std::mutex mutex{};
  RegisterHistory history{};
};

class Threads : public Rule, public ::testing::WithParamInterface<int> {
 protected:
  static constexpr size_t kThreads = 3;
  static constexpr int kOperations = 6;  // of each thread
  static constexpr size_t kSizes[] = {kSmall, 65537, kMiB, 2 * kMiB + 65537};

  Threads() {
    StartWith("SLIPSTREAM_TRANSFER_D2H", "on");
    // Each process its own, so that a run of all seeds tries other ones.
    const char* const seed = std::getenv("SIMCUDA_SEED");
    first_seed_ = 10'000'000U * (seed != nullptr ? static_cast<uint32_t>(std::atoi(seed)) : 0U);
  }
  void SetUp() override {
    Rule::SetUp();
    OK(cudaStreamCreate(&blocking_));
    source_.assign(kSizes[3], 0);
    for (int i = 0; i < 2; ++i) {  // staging memory for all sizes
      OK(CopyUp(device_, source_.data(), kSizes[3], a_));
      OK(cudaDeviceSynchronize());
      OK(cudaMemcpyAsync(source_.data(), device_, kSizes[3], cudaMemcpyDeviceToHost, a_));
    }
  }

  void TearDown() override { simBetweenCalls(nullptr, nullptr); }

  // What one thread does to one piece of memory, drawn by `random`. Writes have the value, which nobody else has.
  void Operate(Shared& shared, int value, std::mt19937& random, std::vector<uint8_t>& host) {
    const auto what = random() % 6;
    Interleaver::Yield();
    const uint64_t begin = ++clock_;
    int read = 0;
    const bool writes = what < 4;
    std::memset(host.data(), value, shared.bytes);
    if (what < 3) {
      if (what == 2 && shared.stream == nullptr) {
        EXPECT_EQ(cudaMemcpy(shared.device, host.data(), shared.bytes, cudaMemcpyHostToDevice), cudaSuccess);
      } else {
        EXPECT_EQ(CopyUp(shared.device, host.data(), shared.bytes, shared.stream), cudaSuccess);
      }
      std::memset(host.data(), 0xEE, shared.bytes);  // it has been read
    } else if (writes) {
      EXPECT_EQ(LaunchFill(shared.device, shared.bytes, value, shared.stream), cudaSuccess);
    } else {
      EXPECT_EQ(cudaMemcpyAsync(host.data(), shared.device, shared.bytes, cudaMemcpyDeviceToHost, shared.stream),
                cudaSuccess);
      read = ValueOf(host.data(), shared.bytes);
    }
    const uint64_t end = ++clock_;
    {
      const std::lock_guard lock(shared.mutex);
      if (writes) {
        shared.history.Wrote(value, begin, end);
      } else {
        shared.history.Read(read, begin, end);
      }
    }
    if (what == 0 || what == 1) {  // as frameworks do behind a copy from pageable memory
      EXPECT_EQ(cudaStreamSynchronize(shared.stream), cudaSuccess);
    }
  }

  void PlayRound(uint32_t seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 draw(seed);
    const size_t count = GetParam() == 1 ? 1 : 3;
    const cudaStream_t streams[] = {draw() % 2 == 0 ? a_ : nullptr, blocking_, b_};
    uint8_t* const memory[] = {device_, other_, third_};
    std::vector<Shared> all(count);
    for (size_t i = 0; i < count; ++i) {
      all[i].device = memory[i];
      all[i].bytes = kSizes[draw() % std::size(kSizes)];
      all[i].stream = streams[i];
      OK(LaunchFill(memory[i], all[i].bytes, 0, streams[i]));
    }
    OK(cudaDeviceSynchronize());
    if (draw() % 2 == 0) Backlog(streams[0], 8);
    Interleaver interleaver(draw(), 3, 400);
    std::vector<std::function<void()>> bodies;
    for (size_t thread = 0; thread < kThreads; ++thread) {
      bodies.emplace_back([&, thread, own = draw()] {
        EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
        std::mt19937 random(own);
        std::vector<uint8_t> host(kSizes[3]);
        for (int i = 0; i < kOperations; ++i) {
          Operate(all[random() % count], 1 + static_cast<int>(thread) * kOperations + i, random, host);
        }
      });
    }
    simBetweenCalls(
        [](const char* function, void*) {
          // Asked under locks, where another thread may be waiting for the lock.
          if (std::strcmp(function, "cuEventQuery") != 0) Interleaver::Yield();
        },
        nullptr);
    interleaver.Run(bodies);
    simBetweenCalls(nullptr, nullptr);
    OK(cudaDeviceSynchronize());
    std::vector<uint8_t> host(kSizes[3]);
    for (Shared& shared : all) {
      OK(cudaMemcpy(host.data(), shared.device, shared.bytes, cudaMemcpyDeviceToHost));
      shared.history.Read(ValueOf(host.data(), shared.bytes), clock_ + 1, clock_ + 2);
      EXPECT_EQ(shared.history.Contradiction(), "") << shared.bytes << " bytes";
    }
  }

  uint32_t first_seed_ = 0;
  cudaStream_t blocking_ = nullptr;
  std::atomic<uint64_t> clock_{0};
};

INSTANTIATE_TEST_SUITE_P(Streams, Threads, ::testing::Values(1, 3));

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kRoundsByDefault = 60;
#else
constexpr int kRoundsByDefault = 300;
#endif

// RULES_ROUNDS says how many, RULES_SECONDS how long they may take; with another SIMCUDA_SEED they are others.
TEST_P(Threads, S62_SomeOrderOfWholeOperations) {
  const char* const wanted = std::getenv("RULES_ROUNDS");
  const int rounds = wanted != nullptr ? std::atoi(wanted) : kRoundsByDefault;
  const Tally tally("transfer");
  for (int round = 0; round < rounds && !HasFailure(); ++round) PlayRound(first_seed_ + static_cast<uint32_t>(round));
  DECIDED_AT_LEAST(tally, "h2d.promoted.large", static_cast<uint64_t>(rounds));
  DECIDED_AT_LEAST(tally, "d2h.promoted", 1);
}

// The judge itself.
TEST(History, S62_IsExplainedByAnOrderOrNot) {
  const auto judged = [](const std::function<void(RegisterHistory&)>& fill) {
    RegisterHistory history;
    fill(history);
    return history.Contradiction();
  };
  // Two writes side by side may be in either order, but for one of them only.
  EXPECT_EQ(judged([](auto& h) { h.Wrote(1, 1, 4), h.Wrote(2, 2, 5), h.Read(1, 6, 7); }), "");
  EXPECT_EQ(judged([](auto& h) { h.Wrote(1, 1, 4), h.Wrote(2, 2, 5), h.Read(2, 6, 7); }), "");
  EXPECT_NE(judged([](auto& h) { h.Wrote(1, 1, 4), h.Wrote(2, 2, 5), h.Read(1, 6, 7), h.Read(2, 8, 9); }), "");
  // Overwritten before the read began.
  EXPECT_NE(judged([](auto& h) { h.Wrote(1, 1, 2), h.Wrote(2, 3, 4), h.Read(1, 5, 6); }), "");
  EXPECT_EQ(judged([](auto& h) { h.Wrote(1, 1, 2), h.Wrote(2, 3, 6), h.Read(1, 5, 7); }), "");
  // Nobody's value, the one before all, one from the future.
  EXPECT_NE(judged([](auto& h) { h.Wrote(1, 1, 2), h.Read(kTorn, 3, 4); }), "");
  EXPECT_NE(judged([](auto& h) { h.Wrote(1, 1, 2), h.Read(0, 3, 4); }), "");
  EXPECT_EQ(judged([](auto& h) { h.Wrote(1, 1, 4), h.Read(0, 2, 3); }), "");
  EXPECT_NE(judged([](auto& h) { h.Read(1, 1, 2), h.Wrote(1, 3, 4); }), "");
}

}  // namespace
}  // namespace rules
