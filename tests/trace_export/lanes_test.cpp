#include "tools/trace/export/lanes.h"

#include <gtest/gtest.h>

namespace slipstream::trace_export {
namespace {

TEST(Lanes, WhatTouchesSharesALane) {
  Lanes lanes;
  EXPECT_EQ(lanes.Take(0, 10, false), 0U);
  EXPECT_EQ(lanes.Take(10, 20, false), 0U);
  EXPECT_EQ(lanes.Take(20, 20, false), 0U);  // takes no time
  EXPECT_EQ(lanes.Take(20, 30, false), 0U);
}

TEST(Lanes, WhatOverlapsDoesNot) {
  Lanes lanes;
  EXPECT_EQ(lanes.Take(0, 10, false), 0U);
  EXPECT_EQ(lanes.Take(5, 15, false), 1U);
  EXPECT_EQ(lanes.Take(9, 11, false), 2U);
  EXPECT_EQ(lanes.Take(10, 12, false), 0U);  // the first one that is free
  EXPECT_EQ(lanes.Take(11, 12, false), 2U);
}

TEST(Lanes, NestingIsAsked) {
  Lanes streams;
  streams.Take(0, 10, false);
  EXPECT_EQ(streams.Take(2, 8, false), 1U);
  Lanes threads;
  EXPECT_EQ(threads.Take(0, 10, true), 0U);
  EXPECT_EQ(threads.Take(2, 10, true), 0U);
  EXPECT_EQ(threads.Take(3, 5, true), 0U);
  EXPECT_EQ(threads.Take(4, 7, true), 1U);  // across the end of the innermost
  EXPECT_EQ(threads.Take(5, 9, true), 0U);  // which has ended
  EXPECT_EQ(threads.Take(6, 12, true), 2U);
}

// What has ended is forgotten: one that comes late could cross it.
TEST(Lanes, WhatComesLateGetsALaneThatDoesNotReachBackThere) {
  Lanes lanes;
  EXPECT_EQ(lanes.Take(0, 10, true), 0U);
  EXPECT_EQ(lanes.Take(20, 30, true), 0U);
  EXPECT_EQ(lanes.Take(5, 15, true), 1U);
  EXPECT_EQ(lanes.Take(16, 18, true), 1U);
  EXPECT_EQ(lanes.Take(30, 31, true), 0U);
}

}  // namespace
}  // namespace slipstream::trace_export
