#include "tracer/base/memory_sampler.h"

#include <gtest/gtest.h>

namespace slipstream::tracer {
namespace {

constexpr uint64_t kMs = 1'000'000;

MemoryFigures Of(uint64_t live, uint64_t idle = 0, int32_t device = 0) {
  return {.device = device, .live_bytes = live, .idle_bytes = idle};
}

TEST(MemorySamplerTest, TheFirstOfEachDeviceIsKept) {
  MemorySampler pace;
  EXPECT_TRUE(pace.Passes(Of(0), 1));
  EXPECT_FALSE(pace.Passes(Of(0), 2));
  EXPECT_TRUE(pace.Passes(Of(0, 0, 63), 2));
}

TEST(MemorySamplerTest, AChangeOfASixtyFourthOfThePeakIsKeptAtOnce) {
  MemorySampler pace;
  EXPECT_TRUE(pace.Passes(Of(6400), kMs));
  EXPECT_FALSE(pace.Passes(Of(6400 - 99), kMs + 1));
  EXPECT_TRUE(pace.Passes(Of(6400 - 100), kMs + 2));
  // Of live and of idle memory each; what goes from one to the other is a change of both.
  EXPECT_TRUE(pace.Passes(Of(6200, 100), kMs + 3));
  // Against what was kept, not against the one before: many small steps are not missed.
  int kept = 0;
  for (uint64_t step = 1; step <= 100; ++step) kept += pace.Passes(Of(6200 - step, 100), kMs + 3 + step) ? 1 : 0;
  EXPECT_EQ(kept, 1);
  // The peak counts, not what is there now.
  EXPECT_TRUE(pace.Passes(Of(0, 0), kMs + 200));
  EXPECT_FALSE(pace.Passes(Of(50, 0), kMs + 201));
}

TEST(MemorySamplerTest, SmallChangesOnceInTenMilliseconds) {
  MemorySampler pace;
  EXPECT_TRUE(pace.Passes(Of(1'000'000), kMs));
  int kept = 0;
  for (uint64_t us = 1; us <= 100'000; ++us) kept += pace.Passes(Of(1'000'000 - us % 7), kMs + us * 1000) ? 1 : 0;
  EXPECT_EQ(kept, 10);
}

TEST(MemorySamplerTest, TheDriverIsAskedOnceInTenMillisecondsForEachDevice) {
  MemorySampler pace;
  EXPECT_TRUE(pace.MayAsk(0, kMs));
  EXPECT_TRUE(pace.MayAsk(1, kMs));
  EXPECT_FALSE(pace.MayAsk(0, kMs + MemorySampler::kPeriodNs - 1));
  EXPECT_TRUE(pace.MayAsk(0, kMs + MemorySampler::kPeriodNs));
  EXPECT_FALSE(pace.MayAsk(0, kMs + 2 * MemorySampler::kPeriodNs - 1));
  for (const int32_t device : {-1, 64}) EXPECT_FALSE(pace.MayAsk(device, kMs));
}

TEST(MemorySamplerTest, WhatWasAskedForIsKept) {
  MemorySampler pace;
  EXPECT_TRUE(pace.Passes(Of(1'000'000), kMs));
  EXPECT_FALSE(pace.Passes(Of(1'000'000), kMs + 1));
  MemoryFigures figures = Of(1'000'000);
  figures.device_used = 5;
  EXPECT_TRUE(pace.Passes(figures, kMs + 2));
  figures = Of(1'000'000);
  figures.largest_idle = 0;
  EXPECT_TRUE(pace.Passes(figures, kMs + 3));
}

TEST(MemorySamplerTest, StrangeDevicesPass) {
  MemorySampler pace;
  for (const int32_t device : {-1, 64, 1000}) {
    EXPECT_TRUE(pace.Passes(Of(1, 1, device), 5));
    EXPECT_TRUE(pace.Passes(Of(1, 1, device), 6));
  }
}

}  // namespace
}  // namespace slipstream::tracer
