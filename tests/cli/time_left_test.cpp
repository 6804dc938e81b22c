#include "tools/cli/time_left.h"

#include <gtest/gtest.h>

namespace slipstream::cli {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

TEST(TimeLeftTest, AsItWentSoFar) {
  EXPECT_EQ(SecondsLeft(25, 100, 10 * kSecond), 30.0);
  EXPECT_EQ(SecondsLeft(100, 100, 10 * kSecond), 0.0);
  EXPECT_EQ(SecondsLeft(uint64_t{1} << 62, uint64_t{1} << 63, 7 * kSecond), 7.0);
}

TEST(TimeLeftTest, NothingIsSaidTooEarly) {
  EXPECT_EQ(SecondsLeft(0, 100, 10 * kSecond), std::nullopt);
  EXPECT_EQ(SecondsLeft(50, 100, kSecond - 1), std::nullopt);
  EXPECT_EQ(SecondsLeft(50, 100, kSecond), 1.0);
  EXPECT_EQ(SecondsLeft(9, 1000, 10 * kSecond), std::nullopt);
  EXPECT_EQ(SecondsLeft(10, 1000, 10 * kSecond), 990.0);
  EXPECT_EQ(SecondsLeft(101, 100, 10 * kSecond), std::nullopt);
  EXPECT_EQ(SecondsLeft(0, 0, 10 * kSecond), std::nullopt);
}

// What was done before it was looked at took nobody knows how long.
TEST(TimeLeftTest, OfWhatWasSeen) {
  TimeLeft left;
  EXPECT_EQ(left.At(40, 100, 5 * kSecond), "");
  EXPECT_EQ(left.At(60, 100, 15 * kSecond), ", about 20 s left");
  EXPECT_EQ(left.At(100, 100, 16 * kSecond), ", about 1 s left");
}

TEST(TimeLeftTest, OnePieceOfWorkBehindAnother) {
  TimeLeft left;
  EXPECT_EQ(left.At(0, 100, 0), "");
  EXPECT_EQ(left.At(50, 100, 300 * kSecond), ", about 5 min left");
  EXPECT_EQ(left.At(10, 100, 301 * kSecond), "") << "the next one";
  EXPECT_EQ(left.At(40, 100, 304 * kSecond), ", about 6 s left");
  EXPECT_EQ(left.At(40, 200, 305 * kSecond), "") << "another size";
  EXPECT_EQ(left.At(120, 200, 307 * kSecond), ", about 2 s left");
}

}  // namespace
}  // namespace slipstream::cli
