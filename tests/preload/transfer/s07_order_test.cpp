// S07: the destination is written in the caller's stream order.
#include "tests/preload/transfer/rule_test.h"

namespace rules {
namespace {

// By way of staging memory of the host alone, whether the stream is busy or not.
constexpr size_t kMiddle = size_t{256} << 10;

TEST_F(Rule, S07_EarlierWorkReadsTheOldBytesAndLaterWorkTheNew) {
  const Tally tally("transfer");
  source_ = Pattern(kHuge, 1);
  for (const size_t bytes : {kSmall, kMiddle, kLarge, kHuge}) {
    for (const bool synchronize : {false, true}) {
      SCOPED_TRACE(std::to_string(bytes) + (synchronize ? " with" : " without") + " a synchronization");
      OK(LaunchFill(device_, bytes, 1, a_));
      Backlog(a_);
      OK(LaunchMove(other_, device_, bytes, a_));
      OK(CopyUp(device_, source_.data(), bytes, a_));
      if (synchronize) {
        OK(cudaStreamSynchronize(a_));
      }
      OK(LaunchMove(third_, device_, bytes, a_));
      OK(LaunchFill(device_, bytes, 2, a_));
      OK(cudaStreamSynchronize(a_));
      EXPECT_TRUE(HoldsOnly(other_, 1, bytes));
      EXPECT_TRUE(Holds(third_, source_, bytes));
      EXPECT_TRUE(HoldsOnly(device_, 2, bytes));
    }
  }
  DECIDED(tally, "h2d.promoted.small", 2);
  DECIDED(tally, "h2d.promoted.large", 6);
}

// One buffer, written again and again while kernels read it.
TEST_F(Rule, S07_ManyCopiesToOneDestination) {
  const Tally tally("transfer");
  constexpr int kCopies = 15;
  for (int i = 0; i < kCopies; ++i) {
    std::memset(source_.data(), i, kMiddle);
    OK(CopyUp(device_, source_.data(), kMiddle, a_));
    OK(LaunchMove(other_ + static_cast<size_t>(i) * kMiddle, device_, kMiddle, a_));
  }
  OK(cudaStreamSynchronize(a_));
  for (int i = 0; i < kCopies; ++i) {
    EXPECT_TRUE(HoldsOnly(other_ + static_cast<size_t>(i) * kMiddle, static_cast<uint8_t>(i), kMiddle)) << i;
  }
  DECIDED(tally, "h2d.promoted.large", kCopies);
}

// The legacy stream waits for the blocking ones and they for it, with a copy in between too.
TEST_F(Rule, S07_TheLegacyStreamsOrder) {
  cudaStream_t blocking = nullptr;
  OK(cudaStreamCreate(&blocking));
  const Tally tally("transfer");
  source_ = Pattern(kHuge, 2);
  OK(LaunchFill(device_, kMiddle, 1, blocking));
  Backlog(blocking);
  OK(LaunchMove(other_, device_, kMiddle, blocking));
  OK(CopyUp(device_, source_.data(), kMiddle, nullptr));
  OK(LaunchMove(third_, device_, kMiddle, blocking));
  OK(cudaStreamSynchronize(blocking));
  EXPECT_TRUE(HoldsOnly(other_, 1, kMiddle));
  EXPECT_TRUE(Holds(third_, source_, kMiddle));
  DECIDED(tally, "h2d.promoted.large", 1);
}

TEST_F(Rule, S07_ThePerThreadStreamsOrder) {
  const Tally tally("transfer");
  source_ = Pattern(kHuge, 3);
  OK(LaunchFill(device_, kMiddle, 1, cudaStreamPerThread));
  Backlog(cudaStreamPerThread);
  OK(LaunchMove(other_, device_, kMiddle, cudaStreamPerThread));
  OK(CopyUp(device_, source_.data(), kMiddle, cudaStreamPerThread));
  OK(LaunchMove(third_, device_, kMiddle, cudaStreamPerThread));
  OK(cudaStreamSynchronize(cudaStreamPerThread));
  EXPECT_TRUE(HoldsOnly(other_, 1, kMiddle));
  EXPECT_TRUE(Holds(third_, source_, kMiddle));
  DECIDED(tally, "h2d.promoted.large", 1);
}

}  // namespace
}  // namespace rules
