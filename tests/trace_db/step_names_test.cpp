// Which names of ranges are those of steps.

#include "tools/trace/db/step_names.h"

#include <gtest/gtest.h>

#include <string>

namespace slipstream::trace_db {
namespace {

// "base number", "base -", or "none".
std::string Of(std::string_view text) {
  const auto name = StepNameOf(text);
  if (!name) return "none";
  return name->base + " " + (name->number ? std::to_string(*name->number) : "-");
}

TEST(StepNamesTest, AsProfilersAndPeopleWriteThem) {
  EXPECT_EQ(Of("ProfilerStep#12"), "profilerstep 12");
  EXPECT_EQ(Of("step"), "step -");
  EXPECT_EQ(Of("Step 7"), "step 7");
  EXPECT_EQ(Of("step_0"), "step 0");
  EXPECT_EQ(Of("STEP-3"), "step 3");
  EXPECT_EQ(Of("train_step"), "train step -");
  EXPECT_EQ(Of("Training Step: 100"), "training step 100");
  EXPECT_EQ(Of("iteration18446744073709551615"), "iteration 18446744073709551615");
  EXPECT_EQ(Of("iter=5"), "iter 5");
}

TEST(StepNamesTest, WhatIsNone) {
  for (const char* text : {"", "7", "#7", "Optimizer.step#Adam.step", "steps", "step one", "forward", "stepping 1",
                           "iteration 184467440737095516160", "epoch 3", "step 1 of 7"}) {
    EXPECT_EQ(Of(text), "none") << text;
  }
  EXPECT_EQ(Of(std::string(1000, ' ') + "step"), "none");
}

}  // namespace
}  // namespace slipstream::trace_db
