#include "tools/compare/output_lines.h"

#include <gtest/gtest.h>

namespace slipstream::compare {
namespace {

// The numbers of a line, those that are measurements in brackets.
std::string Numbers(std::string_view line) {
  std::string text;
  for (const NumberField& number : PartsOf(line).numbers) {
    text += text.empty() ? "" : " ";
    text += number.measured ? "[" + number.text + "]" : number.text;
  }
  return text;
}

TEST(OutputLinesTest, NumbersAndWords) {
  const LineParts parts = PartsOf("epoch 3:  loss=1.25e-03,  acc 93.1%");
  EXPECT_EQ(parts.skeleton, "epoch #: loss=#, acc #%");
  EXPECT_EQ(Numbers("epoch 3:  loss=1.25e-03,  acc 93.1%"), "3 1.25e-03 93.1");
  EXPECT_EQ(Numbers("resnet50 on cuda:0, sm_90, x-1"), "1");
  EXPECT_EQ(PartsOf("  a   b\t c ").skeleton, "a b c");
  EXPECT_EQ(Numbers("-3 +4 (5) [6] 1,234,567 7."), "-3 +4 5 6 1,234,567 7");
  EXPECT_EQ(Numbers("1.2.3"), "1.2 3");
  EXPECT_EQ(PartsOf("").skeleton, "");
}

TEST(OutputLinesTest, WhatIsNoNumberIsOneToo) {
  EXPECT_EQ(Numbers("loss nan, inf, -inf"), "nan inf -inf");
  EXPECT_EQ(PartsOf("loss nan").skeleton, PartsOf("loss 1.25").skeleton);
  EXPECT_EQ(Numbers("finance information nano"), "");
}

TEST(OutputLinesTest, SumsOfFiles) {
  EXPECT_EQ(Numbers("weights 1ed1ef79e7695fe3"), "1ed1ef79e7695fe3");
  EXPECT_EQ(Numbers("weights e7695fe3"), "e7695fe3");
  EXPECT_EQ(Numbers("defaced beefcafe"), "") << "words";
}

TEST(OutputLinesTest, MeasurementsByUnit) {
  EXPECT_EQ(Numbers("106.8 samples/s, 12 ms, 3s, 4.5 GiB, 7 it/s, 9 s/it"), "[106.8] [12] [3] [4.5] [7] [9]");
  EXPECT_EQ(Numbers("2 TFLOP/s 30 FPS 5 \xc2\xb5s 8 images per second"), "[2] [30] [5] [8]");
  EXPECT_EQ(Numbers("93 % 3 steps 2 samples 4 models"), "93 3 2 4");
}

TEST(OutputLinesTest, MeasurementsByTheWordInFront) {
  EXPECT_EQ(Numbers("elapsed: 12, took 3, Time=4, throughput 5, \"step_time\": 0.5, (s): 6"),
            "[12] [3] [4] [5] [0.5] [6]");
  EXPECT_EQ(Numbers("memory 12, max_memory_allocated=13, pid 14"), "[12] [13] [14]");
  EXPECT_EQ(Numbers("loss: 12, lr=0.1, beta 0.9, learning rate 0.1, step 7"), "12 0.1 0.9 0.1 7");
}

TEST(OutputLinesTest, ClocksAndAddresses) {
  EXPECT_EQ(Numbers("2026-11-23 12:03:55.123 at 0x7f001234"), "[2026-11-23] [12:03:55.123] [0x7f001234]");
  EXPECT_EQ(Numbers("2026-11-23T12:03:55,123"), "[2026-11-23T12:03:55,123]");
  EXPECT_EQ(PartsOf("2026-11-23T12:03:55Z x").skeleton, PartsOf("2026-11-24T09:00:00Z x").skeleton);
  EXPECT_EQ(Numbers("10/100 [00:12<01:48]"), "10 100 [00:12] [01:48]");
}

TEST(OutputLinesTest, AHashOfTheProgramsOwnIsNoNumber) {
  EXPECT_NE(PartsOf("# 1").skeleton, PartsOf("2 1").skeleton);
  EXPECT_FALSE(PartsOf("# of x").has_results());
  EXPECT_TRUE(PartsOf("5 of x").has_results());
  EXPECT_FALSE(PartsOf("5 ms").has_results());
}

}  // namespace
}  // namespace slipstream::compare
