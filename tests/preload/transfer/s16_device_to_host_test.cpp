// S16: a copy to pageable memory is complete when it returns.
#include <thread>

#include "tests/preload/transfer/rule_test.h"

namespace rules {
namespace {

TEST_F(Rule, S16_ACopyToPageableMemoryIsCompleteAtReturn) {
  for (const cudaMemcpyKind kind : {cudaMemcpyDeviceToHost, cudaMemcpyDefault}) {
    for (const size_t bytes : {size_t{1}, kSmall, size_t{65536}, kLarge, kHuge}) {
      SCOPED_TRACE(std::to_string(kind) + " " + std::to_string(bytes));
      std::vector<uint8_t> back(bytes, 0);
      Backlog(a_);
      OK(LaunchFill(device_, bytes, 7, a_));
      OK(cudaMemcpyAsync(back.data(), device_, bytes, kind, a_));
      EXPECT_EQ(back, std::vector<uint8_t>(bytes, 7));
      OK(LaunchFill(device_, bytes, 8, a_));
    }
  }
}

TEST_F(Rule, S16_BehindAPromotedCopy) {
  source_ = Pattern(kHuge, 3);
  for (const size_t bytes : {kSmall, kLarge, kHuge}) {
    std::vector<uint8_t> back(bytes, 0);
    Backlog(a_);
    OK(CopyUp(device_, source_.data(), bytes, a_));
    OK(cudaMemcpyAsync(back.data(), device_, bytes, cudaMemcpyDeviceToHost, a_));
    EXPECT_EQ(std::memcmp(back.data(), source_.data(), bytes), 0) << bytes;
  }
}

TEST_F(Rule, S16_BehindASkippedSynchronization) {
  DeferOnA();
  std::vector<uint8_t> back(kSmall, 0);
  OK(cudaMemcpyAsync(back.data(), device_, kSmall, cudaMemcpyDeviceToHost, b_));
  EXPECT_EQ(back, std::vector<uint8_t>(kSmall, 0x11));
}

TEST_F(Rule, S16_A2DCopy) {
  std::vector<uint8_t> back(kSmall, 0);
  Backlog(a_);
  OK(LaunchFill(device_, kSmall, 7, a_));
  OK(cudaMemcpy2DAsync(back.data(), 64, device_, 64, 64, kSmall / 64, cudaMemcpyDeviceToHost, a_));
  EXPECT_EQ(back, std::vector<uint8_t>(kSmall, 7));
}

// Through staging memory, by several threads.
class Fetches : public Rule {
 protected:
  Fetches() { StartWith("SLIPSTREAM_TRANSFER_D2H", "on"); }
  // Staging memory for more than one slot.
  void SetUp() override {
    Rule::SetUp();
    OK(CopyUp(device_, source_.data(), kHuge, a_));
    OK(cudaStreamSynchronize(a_));
  }
};

TEST_F(Fetches, S16_AFetchedCopyIsCompleteAtReturn) {
  uint8_t* far = nullptr;
  OK(cudaMalloc(reinterpret_cast<void**>(&far), 96 * kMiB));
  for (const size_t bytes : {65536 + size_t{1}, kLarge, kHuge - 1, 37 * kMiB + 4711, 96 * kMiB}) {
    SCOPED_TRACE(bytes);
    const auto pattern = Pattern(bytes, static_cast<uint32_t>(bytes));
    for (const bool busy : {false, true}) {
      OK(cudaDeviceSynchronize());
      OK(cudaMemcpy(far, pattern.data(), bytes, cudaMemcpyHostToDevice));
      OK(cudaDeviceSynchronize());
      std::vector<uint8_t> back(bytes + 2, 0xEE);
      if (busy) {
        Backlog(a_);
        OK(LaunchFill(far, 1000, 7, a_));
      }
      const Tally tally("transfer");
      OK(cudaMemcpyAsync(back.data() + 1, far, bytes, cudaMemcpyDeviceToHost, a_));
      auto expected = pattern;
      if (busy) std::fill_n(expected.begin(), 1000, 7);
      EXPECT_EQ(std::memcmp(back.data() + 1, expected.data(), bytes), 0);
      EXPECT_EQ(back.front(), 0xEE);
      EXPECT_EQ(back.back(), 0xEE);
      DECIDED(tally, "d2h.promoted", 1);
      OK(LaunchFill(far, bytes, 8, a_));
    }
  }
}

// Places are used again while the copy goes on, and never before they were copied out.
TEST_F(Fetches, S08early_AFetchedCopyLongerThanStagingMemory) {
  constexpr size_t kBytes = (size_t{80} << 20) + 13;
  uint8_t* far = nullptr;
  OK(cudaMalloc(reinterpret_cast<void**>(&far), kBytes));
  const auto pattern = Pattern(kBytes, 9);
  OK(cudaMemcpy(far, pattern.data(), kBytes, cudaMemcpyHostToDevice));
  OK(cudaDeviceSynchronize());
  std::vector<uint8_t> back(kBytes, 0);
  const Tally tally("transfer");
  OK(cudaMemcpyAsync(back.data(), far, kBytes, cudaMemcpyDeviceToHost, a_));
  EXPECT_EQ(std::memcmp(back.data(), pattern.data(), kBytes), 0);
  DECIDED(tally, "d2h.promoted", 1);
}

// Fewer places than the threads could work at: nobody copies out what has not come yet.
class ShortOfStaging : public Fetches {
 protected:
  ShortOfStaging() {
    StartWith("SLIPSTREAM_TRANSFER_MAX_PINNED", "8MiB");
    StartWith("SLIPSTREAM_TRANSFER_THREADS", "64");
  }
};

TEST_F(ShortOfStaging, S16_AFetchedCopyIsWhole) {
  constexpr size_t kMost = (size_t{140} << 20) + 7;
  uint8_t* far = nullptr;
  OK(cudaMalloc(reinterpret_cast<void**>(&far), kMost));
  const auto pattern = Pattern(kMost, 1);
  OK(cudaMemcpy(far, pattern.data(), kMost, cudaMemcpyHostToDevice));
  OK(cudaDeviceSynchronize());
  // As often as each size is copied so before another way is tried out.
  for (const size_t bytes : {kMost / 4, kMost / 4, kMost / 4, kMost / 2, kMost / 2, kMost / 2, kMost, kMost, kMost}) {
    std::vector<uint8_t> back(bytes, 0);
    const Tally tally("transfer");
    OK(cudaMemcpyAsync(back.data(), far, bytes, cudaMemcpyDeviceToHost, a_));
    EXPECT_EQ(std::memcmp(back.data(), pattern.data(), bytes), 0);
    DECIDED(tally, "d2h.promoted", 1);
  }
}

TEST_F(Fetches, S16_WhatIsOwedIsPaidFirst) {
  DeferOnA();
  std::vector<uint8_t> back(kLarge, 0);
  OK(LaunchFill(other_, kLarge, 0x21, b_));
  OK(cudaMemcpyAsync(back.data(), other_, kLarge, cudaMemcpyDeviceToHost, b_));
  EXPECT_EQ(Pending(a_), 0);
  EXPECT_EQ(back, std::vector<uint8_t>(kLarge, 0x21));
}

// The rest is the program's own call.
TEST_F(Fetches, Policy_OtherMemoryIsLeftAlone) {
  const Tally tally("transfer");
  OK(LaunchFill(device_, kLarge, 0x31, a_));
  OK(cudaMemcpyAsync(pinned_, device_, kLarge, cudaMemcpyDeviceToHost, a_));
  OK(cudaStreamSynchronize(a_));
  EXPECT_EQ(pinned_[kLarge - 1], 0x31);
  std::vector<uint8_t> back(kSmall, 0);
  OK(cudaMemcpyAsync(back.data(), device_, kSmall, cudaMemcpyDeviceToHost, a_));
  EXPECT_EQ(back, std::vector<uint8_t>(kSmall, 0x31));
  NEVER_DECIDED(tally, "d2h.promoted");
  DECIDED(tally, "d2h.declined.memory", 1);
  DECIDED(tally, "d2h.declined.small", 1);
}

TEST_F(Fetches, S05_ACapturingStream) {
  std::vector<uint8_t> back(kLarge, 0);
  OK(cudaStreamBeginCapture(a_, cudaStreamCaptureModeRelaxed));
  const Tally tally("transfer");
  const cudaError_t result = cudaMemcpyAsync(back.data(), device_, kLarge, cudaMemcpyDeviceToHost, a_);
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(a_, &graph);
  EXPECT_EQ(result == cudaSuccess, ended == cudaSuccess);
  (void)cudaGetLastError();
  NEVER_DECIDED(tally, "d2h.promoted");
  DECIDED(tally, "d2h.declined.capture", 1);
}

// Several threads at once, each on its own stream.
TEST_F(Fetches, S16_SeveralThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
      cudaStream_t stream = nullptr;
      EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
      uint8_t* far = nullptr;
      EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&far), kHuge), cudaSuccess);
      for (int round = 0; round < 6; ++round) {
        const auto value = static_cast<uint8_t>(i * 16 + round + 1);
        EXPECT_EQ(LaunchFill(far, kHuge, value, stream), cudaSuccess);
        std::vector<uint8_t> back(kHuge, 0);
        EXPECT_EQ(cudaMemcpyAsync(back.data(), far, kHuge, cudaMemcpyDeviceToHost, stream), cudaSuccess);
        EXPECT_EQ(back, std::vector<uint8_t>(kHuge, value));
      }
      EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace rules
