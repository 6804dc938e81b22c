// The steps of a program that names none: loops as people write them, by threads of their own.

#include "tracer/calls/line_steps.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string_view>
#include <thread>

#include "tracer/base/hook_id.h"

namespace slipstream::tracer {
namespace {

constexpr uint64_t kWeights = 3;
constexpr uint64_t kImages = 5;
constexpr uint64_t kLabels = 6;

// What a thread knows lies with it.
template <typename Program>
void OnAThread(const Program& program) {
  std::thread(program).join();
}

TEST(UploadLinesTest, WhatIsUploadedWithNothingBetweenIsOneVisit) {
  UploadLines lines;
  EXPECT_TRUE(lines.Visits(kWeights, 7));
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(lines.Visits(kWeights, 7));
  EXPECT_EQ(lines.VisitsOf(kWeights), 1U);
  EXPECT_TRUE(lines.Visits(kWeights, 8));
  EXPECT_EQ(lines.VisitsOf(kWeights), 2U);
  EXPECT_EQ(lines.VisitsOf(kImages), 0U);
}

TEST(UploadLinesTest, TheFirstLinesHaveRoom) {
  UploadLines lines;
  for (uint64_t line = 1; line <= UploadLines::kMostLines; ++line) EXPECT_TRUE(lines.Visits(line, 0));
  EXPECT_FALSE(lines.Visits(UploadLines::kMostLines + 1, 0));
  EXPECT_TRUE(lines.Visits(1, 1)) << "those are still known";
}

TEST(LineStepsTest, TheLineThatUploadsAThirdTimeBeginsEachStep) {
  LineSteps steps;
  OnAThread([&] {
    for (int i = 0; i < 50; ++i) {
      EXPECT_EQ(steps.Begins(kWeights), std::nullopt);
      EXPECT_EQ(steps.Uploaded(kWeights), std::nullopt);
    }
    for (int step = 0; step < 2; ++step) {
      for (const uint64_t line : {kImages, kLabels}) {
        EXPECT_EQ(steps.Begins(line), std::nullopt);
        EXPECT_EQ(steps.Uploaded(line), std::nullopt) << "step " << step;
      }
      LineSteps::Worked();
    }
    EXPECT_EQ(steps.Begins(kImages), std::nullopt);
    EXPECT_EQ(steps.Uploaded(kImages), 2U);
    for (uint64_t step = 3; step < 10; ++step) {
      EXPECT_EQ(steps.Begins(kLabels), std::nullopt);
      EXPECT_EQ(steps.Uploaded(kLabels), std::nullopt);
      LineSteps::Worked();
      EXPECT_EQ(steps.Begins(kImages), step);
      EXPECT_EQ(steps.Uploaded(kImages), std::nullopt);
      EXPECT_EQ(steps.Begins(kImages), std::nullopt) << "once more within the step";
    }
    OnAThread([&] {
      for (int i = 0; i < 5; ++i) {
        LineSteps::Worked();
        EXPECT_EQ(steps.Begins(kImages), std::nullopt) << "another thread's are not the steps";
        EXPECT_EQ(steps.Uploaded(kImages), std::nullopt);
      }
    });
  });
}

TEST(LineStepsTest, WithoutALineThereAreNone) {
  LineSteps steps;
  OnAThread([&] {
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(steps.Begins(0), std::nullopt);
      EXPECT_EQ(steps.Uploaded(0), std::nullopt);
      LineSteps::Worked();
    }
  });
}

// One of them is first, whatever their turns.
TEST(LineStepsTest, OneThreadMakesTheSteps) {
  for (int round = 0; round < 50; ++round) {
    LineSteps steps;
    std::atomic<int> found{0};
    const auto loop = [&] {
      for (int i = 0; i < 5; ++i) {
        if (steps.Uploaded(kImages)) ++found;
        LineSteps::Worked();
      }
    };
    std::thread one(loop);
    std::thread other(loop);
    one.join();
    other.join();
    EXPECT_EQ(found, 1);
  }
}

TEST(StepRoleTest, EveryLaunchOfAKernelIsWork) {
  size_t launches = 0;
  for (size_t i = 0; i < kHookCount; ++i) {
    const std::string_view name = NameOf(static_cast<HookId>(i));
    if (name.find("LaunchKernel") == std::string_view::npos) continue;
    ++launches;
    EXPECT_EQ(RoleOf(name), StepRole::kWork) << name;
  }
  EXPECT_GE(launches, 4U);
}

TEST(StepRoleTest, ByTheNamesOfHooks) {
  for (const char* const copy : {"cudaMemcpyAsync", "cudaMemcpy", "cuMemcpyHtoDAsync_v2", "cudaMemcpy2DAsync"}) {
    EXPECT_EQ(RoleOf(copy), StepRole::kCopy) << copy;
  }
  for (const char* const work : {"cudaLaunchKernel", "cuLaunchKernelEx", "cudaGraphLaunch", "cudaMemsetAsync"}) {
    EXPECT_EQ(RoleOf(work), StepRole::kWork) << work;
  }
  for (const char* const none : {"cudaLaunchHostFunc", "cuLaunchHostFunc", "cudaMalloc", "cudaStreamSynchronize"}) {
    EXPECT_EQ(RoleOf(none), StepRole::kNone) << none;
  }
}

}  // namespace
}  // namespace slipstream::tracer
