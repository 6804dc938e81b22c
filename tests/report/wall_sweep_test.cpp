// The whole time of a process in parts, against a search of every single nanosecond and figures by hand.

#include "tools/trace/report/wall_sweep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

namespace slipstream::report {
namespace {

Step StepFrom(int64_t start, int64_t end, StepUse use = StepUse::kMeasured) {
  Step step;
  step.start = start;
  step.end = end;
  step.use = use;
  return step;
}

WallSweep::Call Own(int64_t start, int64_t end, int64_t site, CallKind kind = CallKind::kCopy) {
  return {.start = start, .end = end, .of_step_thread = true, .kind = kind, .site = site};
}

WallPart PartOf(StepUse use) {
  constexpr WallPart kParts[] = {WallPart::kMeasured, WallPart::kWarmUp, WallPart::kDropped, WallPart::kUnwatched,
                                 WallPart::kUnfinished};
  return kParts[static_cast<size_t>(use)];
}

class WallSweepTest : public ::testing::TestWithParam<unsigned> {
 protected:
  int64_t Number(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random_); }

  std::mt19937 random_{GetParam()};
};

// Steps may lie over each other, as those that a process records itself.
TEST_P(WallSweepTest, EveryNanosecondIsInOnePart) {
  const int64_t begin = Number(-50, 0);
  const int64_t last = Number(100, 400);
  std::vector<Step> steps;
  for (int64_t i = Number(1, 12); i > 0; --i) {
    const int64_t start = Number(0, last);
    steps.push_back(StepFrom(start, std::min(last, start + Number(0, 60)), static_cast<StepUse>(Number(0, 4))));
  }
  std::sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.start < b.start; });
  std::array<int64_t, kWallParts> expected{};
  int64_t behind = 0;
  for (const Step& step : steps) behind = std::max(behind, step.end);
  for (int64_t t = begin; t < last; ++t) {
    const auto step =
        std::find_if(steps.begin(), steps.end(), [&](const Step& one) { return one.start <= t && t < one.end; });
    const WallPart part = step != steps.end()       ? PartOf(step->use)
                          : t < steps.front().start ? WallPart::kStartUp
                          : t >= behind             ? WallPart::kAfter
                                                    : WallPart::kBetween;
    ++expected[static_cast<size_t>(part)];
  }
  WallSweep sweep({.begin = begin, .first = 0, .last = last, .has_steps = true, .steps = steps});
  // Few calls: no pause is anything but a pause.
  sweep.Add(Own(last / 3, last / 2, 1));
  sweep.Finish();
  int64_t sum = 0;
  for (size_t part = 0; part < kWallParts; ++part) {
    SCOPED_TRACE(std::string(NameOf(static_cast<WallPart>(part))));
    EXPECT_EQ(sweep.Of(static_cast<WallPart>(part)).time, expected[part]);
    sum += sweep.Of(static_cast<WallPart>(part)).time;
  }
  EXPECT_EQ(sum, last - begin);
}
INSTANTIATE_TEST_SUITE_P(Random, WallSweepTest, ::testing::Range(0U, 60U));

// Five steps of 10, 90 between two, from 50 on; 40 behind the last one.
TEST(WallSweep, ALoaderBetweenSteps) {
  std::vector<Step> steps;
  for (int64_t i = 0; i < 5; ++i) steps.push_back(StepFrom(50 + 100 * i, 60 + 100 * i));
  WallSweep sweep({.begin = 0, .first = 20, .last = 500, .has_steps = true, .steps = steps});
  for (const Step& step : steps) sweep.Add(Own(step.start, step.start + 8, 7));
  sweep.Finish();
  EXPECT_EQ(sweep.Of(WallPart::kStartUp).time, 50);
  EXPECT_EQ(sweep.Of(WallPart::kMeasured).time, 50);
  EXPECT_EQ(sweep.Of(WallPart::kMeasured).count, 5U);
  EXPECT_EQ(sweep.Of(WallPart::kBetween).time, 360);
  EXPECT_EQ(sweep.Of(WallPart::kBetween).count, 4U);
  EXPECT_EQ(sweep.Of(WallPart::kAfter).time, 40);
  EXPECT_EQ(sweep.pauses(), (std::vector<int64_t>{90, 90, 90, 90}));
  EXPECT_EQ(sweep.paces(), (std::vector<int64_t>{100, 100, 100, 100}));
  ASSERT_TRUE(sweep.Of(WallPart::kBetween).most);
  EXPECT_EQ(sweep.Of(WallPart::kBetween).most->site, 7);
  EXPECT_TRUE(sweep.Of(WallPart::kBetween).most->before);
  EXPECT_EQ(sweep.Of(WallPart::kBetween).most->time, 360);
  ASSERT_TRUE(sweep.Of(WallPart::kStartUp).most);
  EXPECT_EQ(sweep.Of(WallPart::kStartUp).most->time, 50);
  EXPECT_FALSE(sweep.Of(WallPart::kAfter).most) << "no call is there";
  EXPECT_FALSE(sweep.Of(WallPart::kMeasured).most) << "a step has its own lines";
}

// Of calls within each other, the outer one has the time; what lies across a border is in both.
TEST(WallSweep, TheLineWithMostOfIt) {
  const std::vector<Step> steps = {StepFrom(100, 110)};
  WallSweep sweep({.begin = 0, .first = 0, .last = 200, .has_steps = true, .steps = steps});
  sweep.Add(Own(30, 70, 1));
  sweep.Add(Own(40, 60, 2));  // within it
  sweep.Add(Own(90, 105, 3));
  sweep.Add(Own(105, 130, 4));
  sweep.Add(Own(185, 190, 5));
  sweep.Finish();
  // Before 1: 30, in it 40; before 3: 20, in it 10.
  ASSERT_TRUE(sweep.Of(WallPart::kStartUp).most);
  EXPECT_EQ(sweep.Of(WallPart::kStartUp).most->site, 1);
  EXPECT_EQ(sweep.Of(WallPart::kStartUp).most->time, 70);
  EXPECT_FALSE(sweep.Of(WallPart::kStartUp).most->before);
  // In 4: 20; before 5: 55, in it 5; 10 behind.
  ASSERT_TRUE(sweep.Of(WallPart::kAfter).most);
  EXPECT_EQ(sweep.Of(WallPart::kAfter).most->site, 5);
  EXPECT_EQ(sweep.Of(WallPart::kAfter).most->time, 60);
  EXPECT_TRUE(sweep.Of(WallPart::kAfter).most->before);
}

TEST(WallSweep, APauseWithMissingRecordsIsNoPause) {
  std::vector<Step> steps;
  for (int64_t i = 0; i < 5; ++i) steps.push_back(StepFrom(100 * i, 100 * i + 10));
  const std::vector<Interval> drops = {{250, 260}};
  WallSweep sweep({.begin = 0, .first = 0, .last = 410, .has_steps = true, .steps = steps, .drops = drops});
  sweep.Finish();
  EXPECT_EQ(sweep.Of(WallPart::kBetween).time, 270);
  EXPECT_EQ(sweep.Of(WallPart::kOther).time, 90);
  EXPECT_EQ(sweep.Of(WallPart::kOther).count, 1U);
  EXPECT_EQ(sweep.pauses(), (std::vector<int64_t>{90, 90, 90}));
}

// A long pause without calls of its own is the loop's: a loader that begins anew, say.
TEST(WallSweep, ALongPauseIsAPhaseByItsCalls) {
  std::vector<Step> steps;
  for (int64_t i = 0; i < 6; ++i)
    steps.push_back(StepFrom(100 * i + (i > 2 ? 500 : 0), 100 * i + 90 + (i > 2 ? 500 : 0)));
  const WallSpan span = {.begin = 0, .first = 0, .last = 1090, .has_steps = true, .steps = steps};
  WallSweep quiet(span);
  for (const Step& step : steps) quiet.Add(Own(step.start, step.end, 7));
  quiet.Finish();
  EXPECT_EQ(quiet.Of(WallPart::kBetween).time, 4 * 10 + 510);
  EXPECT_EQ(quiet.pauses().size(), 5U);

  WallSweep busy(span);
  for (size_t i = 0; i < 3; ++i) busy.Add(Own(steps[i].start, steps[i].end, 7));
  for (int64_t i = 0; i < 10; ++i) busy.Add(Own(300 + 10 * i, 305 + 10 * i, i % 2 == 0 ? 8 : 9, CallKind::kLaunch));
  for (size_t i = 3; i < 6; ++i) busy.Add(Own(steps[i].start, steps[i].end, 7));
  busy.Finish();
  EXPECT_EQ(busy.Of(WallPart::kBetween).time, 4 * 10);
  EXPECT_EQ(busy.Of(WallPart::kEvaluation).time, 510);
  EXPECT_EQ(busy.Of(WallPart::kEvaluation).count, 1U);
  EXPECT_EQ(busy.pauses(), (std::vector<int64_t>{10, 10, 10, 10}));
  EXPECT_EQ(busy.paces(), (std::vector<int64_t>{100, 100, 100, 100}));
}

TEST(WallSweep, ADevicesRecordsTellACheckpoint) {
  const std::vector<Step> steps = {StepFrom(0, 10), StepFrom(10, 20), StepFrom(20, 30), StepFrom(130, 140)};
  const WallSpan span = {.begin = 0, .first = 0, .last = 140, .has_steps = true, .steps = steps};
  for (const auto direction : {WallSweep::Direction::kToHost, WallSweep::Direction::kToDevice}) {
    WallSweep sweep(span);
    for (int64_t i = 0; i < 4; ++i) {
      sweep.Add(Own(40 + 20 * i, 55 + 20 * i, 8));
      sweep.AddDeviceCopy(42 + 20 * i, direction, 1000);
    }
    sweep.Finish();
    const bool out = direction == WallSweep::Direction::kToHost;
    EXPECT_EQ(sweep.Of(WallPart::kCheckpoint).time, out ? 100 : 0);
    EXPECT_EQ(sweep.Of(WallPart::kOther).time, out ? 0 : 100);
  }
}

TEST(WallSweep, ThePausesOfARecordingArePartsOfTheirOwn) {
  const std::vector<Step> steps = {StepFrom(20, 30), StepFrom(32, 42), StepFrom(80, 90)};
  const std::vector<Interval> paused = {{-5, 5}, {50, 70}, {95, 120}};
  WallSweep sweep({.begin = 0, .first = 5, .last = 100, .has_steps = true, .steps = steps, .paused = paused});
  sweep.Add(Own(44, 48, 7));
  sweep.Finish();
  EXPECT_EQ(sweep.Of(WallPart::kPaused).time, 5 + 20 + 5);
  EXPECT_EQ(sweep.Of(WallPart::kPaused).count, 3U);
  EXPECT_EQ(sweep.Of(WallPart::kStartUp).time, 15);
  EXPECT_EQ(sweep.Of(WallPart::kMeasured).time, 30);
  EXPECT_EQ(sweep.Of(WallPart::kBetween).time, 2);
  EXPECT_EQ(sweep.Of(WallPart::kOther).time, 8 + 10) << "parts of steps";
  EXPECT_EQ(sweep.Of(WallPart::kAfter).time, 5);
  EXPECT_EQ(sweep.pauses(), std::vector<int64_t>{2});
  EXPECT_EQ(sweep.paces(), std::vector<int64_t>{12}) << "not across a pause";
  WallSweep without({.begin = 0, .first = 5, .last = 100, .paused = paused});
  without.Finish();
  EXPECT_EQ(without.Of(WallPart::kPaused).time, 30);
  EXPECT_EQ(without.Of(WallPart::kStartUp).time, 0);
  EXPECT_EQ(without.Of(WallPart::kNoSteps).time, 45 + 25);
}

TEST(WallSweep, WithoutSteps) {
  WallSweep sweep({.begin = -30, .first = 10, .last = 100});
  sweep.Add(Own(50, 60, 7));
  sweep.Finish();
  EXPECT_EQ(sweep.Of(WallPart::kStartUp).time, 40);
  EXPECT_EQ(sweep.Of(WallPart::kNoSteps).time, 90);
  EXPECT_EQ(sweep.Of(WallPart::kAfter).time, 0);
  EXPECT_TRUE(sweep.pauses().empty());
}

TEST(PhaseOfTest, NothingIsSaidThatIsNotKnown) {
  EXPECT_EQ(PhaseOf({.calls = 10, .foreign = 10, .launches = 5}, false, 1), WallPart::kEvaluation);
  EXPECT_EQ(PhaseOf({.calls = 7, .foreign = 7, .launches = 5}, false, 1), WallPart::kOther) << "that is not much";
  EXPECT_EQ(PhaseOf({.calls = 10, .foreign = 0, .launches = 5}, false, 1), WallPart::kOther) << "at lines of the loop";
  EXPECT_EQ(PhaseOf({.calls = 9, .foreign = 1, .launches = 5}, false, 1), WallPart::kBetween);
  EXPECT_EQ(PhaseOf({.calls = 4, .foreign = 4}, false, 1), WallPart::kOther);
  EXPECT_EQ(PhaseOf({.calls = 4, .foreign = 4, .to_host = 9, .to_device = 8}, false, 1), WallPart::kCheckpoint);
  EXPECT_EQ(PhaseOf({.calls = 4, .foreign = 4, .to_host = 9, .to_device = 9}, false, 1), WallPart::kOther);
  EXPECT_EQ(PhaseOf({.calls = 4, .foreign = 4, .called_to_host = 5}, false, 1), WallPart::kCheckpoint);
  // The devices' own records are surer.
  EXPECT_EQ(PhaseOf({.calls = 4, .foreign = 4, .to_device = 1, .called_to_host = 5}, false, 1), WallPart::kOther);
  EXPECT_EQ(PhaseOf({.calls = 4, .foreign = 4, .launches = 1, .to_host = 9}, false, 1), WallPart::kOther);
  // What was cut off from a step that was found is a phase.
  EXPECT_EQ(PhaseOf({.calls = 1}, true, 1), WallPart::kOther);
}

}  // namespace
}  // namespace slipstream::report
