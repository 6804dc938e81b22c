// S55: how often a copy asks the driver, in a program that copies on and on. Each call of the driver costs 0.1 to 2 us
// on the calling thread, so that none may come back unnoticed.
#include "tests/preload/transfer/rule_test.h"
#include "tests/sim/simcuda.h"

namespace rules {
namespace {

class DriverCalls : public Rule {
 protected:
  static constexpr int kCopies = 50;
  static constexpr size_t kLongest = 16 * kMiB;

  static uint64_t Calls() { return simCallCountIn("libcuda.so.1", nullptr); }

  // Of a copy and its synchronization, when there is staging memory for it.
  void ExpectAtMost(size_t bytes, double most) {
    SCOPED_TRACE(bytes);
    const auto step = [&] {
      OK(CopyUp(device_, source_.data(), bytes, a_));
      OK(cudaStreamSynchronize(a_));
    };
    for (int i = 0; i < 5; ++i) step();
    OK(cudaDeviceSynchronize());
    const Tally tally("transfer");
    const uint64_t before = Calls();
    for (int i = 0; i < kCopies; ++i) step();
    const uint64_t calls = Calls() - before;
    DECIDED(tally, "sync.skipped", kCopies);
    EXPECT_LE(static_cast<double>(calls) / kCopies, most);
  }
};

TEST_F(DriverCalls, S55_OfACopyAndItsSynchronization) {
  if (!Engine()) GTEST_SKIP() << "nobody but the engine asks";
  WarmUp();
  source_.resize(kLongest);
  uint8_t* const short_one = device_;
  OK(cudaMalloc(reinterpret_cast<void**>(&device_), kLongest));
  ExpectAtMost(4, 13);
  ExpectAtMost(size_t{64} << 10, 14);
  ExpectAtMost(4 * kMiB, 38);
  ExpectAtMost(kLongest, 85);
  OK(cudaFree(device_));
  device_ = short_one;
}

}  // namespace
}  // namespace rules
