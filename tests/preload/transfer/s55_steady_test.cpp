// S55: what is pinned is pinned at the beginning. Steps like those before make the driver pin nothing more, nor let go
// of anything.
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "tests/preload/transfer/rule_test.h"

namespace rules {
namespace {

class Steady : public Cold, public ::testing::WithParamInterface<const char*> {
 protected:
  Steady() {
    StartWith("SLIPSTREAM_TRANSFER_START", GetParam());
    StartWith("SLIPSTREAM_TRANSFER_D2H", "on");
    StartWith("SLIPSTREAM_ALLOCATOR_MODE", "segments");
  }

  // The library's own, as the driver counts them: a step calls none.
  static uint64_t CallsThatPin() {
    uint64_t calls = 0;
    for (const char* const function :
         {"cuMemHostAlloc", "cuMemAllocHost_v2", "cuMemHostRegister_v2", "cuMemFreeHost", "cuMemHostUnregister",
          "cudaHostAlloc", "cudaMallocHost", "cudaHostRegister", "cudaFreeHost", "cudaHostUnregister"}) {
      calls += simCallCount(function);
    }
    return calls;
  }

  // A batch up, work, results down, and memory for a while.
  void Step(int number) {
    void* temporary = nullptr;
    OK(cudaMalloc(&temporary, kLarge));
    source_.assign(kHuge, static_cast<uint8_t>(number));
    for (const size_t bytes : {kHuge, kLarge, kSmall}) {
      OK(CopyUp(device_, source_.data(), bytes, a_));
      OK(cudaStreamSynchronize(a_));
    }
    OK(LaunchFill(temporary, kSmall, number, a_));
    OK(cudaMemcpyAsync(back_.data(), device_, kHuge, cudaMemcpyDeviceToHost, a_));
    OK(cudaStreamSynchronize(a_));
    EXPECT_EQ(back_, source_);
    OK(cudaFree(temporary));
  }

  std::vector<uint8_t> back_ = std::vector<uint8_t>(kHuge);
};

TEST_P(Steady, S55_C17_NothingIsPinnedInTheMiddleOfTraining) {
  const uint64_t at_first = CallsThatPin();
  const Tally warming("transfer");
  const auto deadline = std::chrono::steady_clock::now() + Patience();
  int step = 0;
  // Long copies go through the last of the memory that steps of this size ask for.
  while (step < 5 || (Engine() && warming.Of("h2d.promoted.large") == 0)) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << warming.Text();
    Step(++step);
  }
  const uint64_t before = CallsThatPin();
  // "now" may have been before this test: at the driver's level the first call of the process starts the engine.
  if (Engine() && std::string_view(GetParam()) == "background") {
    EXPECT_GE(before - at_first, 1U) << "staging memory";
  }
  const Tally tally("transfer");
  constexpr int kSteps = 30;
  for (int i = 0; i < kSteps; ++i) Step(++step);
  EXPECT_EQ(CallsThatPin(), before);
  DECIDED_AT_LEAST(tally, "h2d.promoted.large", kSteps);
  DECIDED_AT_LEAST(tally, "h2d.promoted.small", kSteps / 2);
}

INSTANTIATE_TEST_SUITE_P(Starts, Steady, ::testing::Values("now", "background"));

}  // namespace
}  // namespace rules
