// S16: a copy to pageable memory is complete when it returns.
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

TEST_F(Rule, S16_BehindASkippedSynchronise) {
  OweOnA();
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

}  // namespace
}  // namespace rules
