// Times of calls by the processor's counter are those of the clock that records have.

#include "tracer/base/call_clock.h"

#include <gtest/gtest.h>

namespace slipstream::tracer {
namespace {

void Spin(uint64_t ns) {
  const uint64_t start = NowNs();
  while (NowNs() - start < ns) {
  }
}

// Calls until the rate is known.
bool Settle(CallClock* clock, uint64_t limit_ns = 100 * CallClock::kMeasuredNs) {
  const uint64_t start = NowNs();
  while (clock->Now().scale == 0 && NowNs() - start < limit_ns) {
    const CallClock::Moment begin = clock->Now();
    clock->NsSince(begin);
  }
  return clock->Now().scale != 0;
}

TEST(CallClockTest, WithoutACounterItIsTheClockOfRecords) {
  CallClock clock;
  clock.Start(false);
  EXPECT_FALSE(Settle(&clock, 2 * CallClock::kMeasuredNs));
  const uint64_t before = NowNs();
  const CallClock::Moment begin = clock.Now();
  EXPECT_GE(begin.at, before);
  EXPECT_LE(begin.at, NowNs());
}

class CounterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!TimeStampCounterIsAClock()) GTEST_SKIP() << "the kernel keeps its time by something else here";
    clock_.Start(true);
  }
  CallClock clock_;
};

// Between two readings of the other clock, inside and outside, whatever comes in between.
TEST_F(CounterTest, TimesLieBetweenThoseOfTheOtherClock) {
  ASSERT_TRUE(Settle(&clock_));
  for (int i = 0; i < 20; ++i) {
    const uint64_t outer = NowNs();
    const CallClock::Moment begin = clock_.Now();
    const uint64_t inner = NowNs();
    Spin(uint64_t{100'000} << i % 5);
    const uint64_t least = NowNs() - inner;
    const uint64_t measured = clock_.NsSince(begin);
    const uint64_t most = NowNs() - outer;
    // The kernel corrects its clock by up to 500 millionths, and the counter is read without waiting for what is
    // before.
    EXPECT_GE(measured + 100, least - least / 1000);
    EXPECT_LE(measured, most + most / 1000 + 100);
  }
}

TEST_F(CounterTest, ACallThatBeganBeforeTheRateWasKnown) {
  const CallClock::Moment begin = clock_.Now();
  EXPECT_EQ(begin.scale, 0U);
  const uint64_t inner = NowNs();
  ASSERT_TRUE(Settle(&clock_));
  const uint64_t least = NowNs() - inner;
  const uint64_t measured = clock_.NsSince(begin);
  EXPECT_GE(measured, least);
  EXPECT_LE(measured, NowNs() - begin.at);
}

TEST_F(CounterTest, AnEndBeforeTheBeginningIsNoTime) {
  ASSERT_TRUE(Settle(&clock_));
  CallClock::Moment begin = clock_.Now();
  begin.at += uint64_t{1} << 40;
  EXPECT_EQ(clock_.NsSince(begin), 0U);
}

// A call of hours, whether or not this machine has been up for so long.
TEST_F(CounterTest, LongTimesDoNotOverflow) {
  ASSERT_TRUE(Settle(&clock_));
  constexpr uint64_t kCounts = uint64_t{1} << 46;
  const uint64_t scale = clock_.Now().scale;
  const double ns = static_cast<double>(kCounts) * static_cast<double>(scale) / 4294967296.0;
  EXPECT_NEAR(static_cast<double>(CallClock::NsOf(kCounts, scale)), ns, ns / 1e6);
}

}  // namespace
}  // namespace slipstream::tracer
