// Steps that are cut at a line, and their rows.
#include "tools/trace/db/step_cutter.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "tests/trace_db/trace_db_testing.h"

namespace slipstream::trace_db {
namespace {

const StepFinder::Found kLine = {.thread = 7, .site = 10};
// Steps of 100 ns at three lines, and a fourth now and then.
const StepFinder::Found kLoop = {
    .thread = 7, .site = 10, .loop = {.own = {10, 11, 12}, .often = {20}, .median_ns = 100}};

TEST(StepCutterTest, AStepEndsWhereTheNextOneBegins) {
  StepCutter cutter(kLine);
  EXPECT_FALSE(cutter.Add(3, 0, 5));  // before the loop
  EXPECT_FALSE(cutter.Add(10, 10, 12));
  EXPECT_FALSE(cutter.Add(10, 12, 14));  // still the same visit
  EXPECT_FALSE(cutter.Add(0, 14, 15));   // a call without a line does not end it
  EXPECT_FALSE(cutter.Add(10, 15, 16));
  EXPECT_FALSE(cutter.Add(11, 20, 25));
  const auto first = cutter.Add(10, 30, 31);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->start, 10);
  EXPECT_EQ(first->end, 30);
  EXPECT_EQ(first->calls, 5U);
}

TEST(StepCutterTest, TheLastOneWhereItWasNotCutShort) {
  StepCutter cutter(kLine);
  EXPECT_FALSE(cutter.Last());
  for (const int64_t start : {0, 100, 200}) {
    cutter.Add(10, start, start + 1);
    EXPECT_EQ(cutter.Last().has_value(), false);
    for (const uint32_t site : {11, 12, 13}) cutter.Add(site, start + site, start + site + 1);
  }
  ASSERT_TRUE(cutter.Last());
  EXPECT_EQ(cutter.Last()->start, 200);
  EXPECT_EQ(cutter.Last()->end, 214);
  EXPECT_TRUE(cutter.Last()->is_unfinished) << "nobody knows when it would have ended";
  cutter.Add(10, 300, 301);  // the loop looks for another batch, and there is none
  EXPECT_FALSE(cutter.Last());
}

// At 0 to 45.
void AddOwnLines(StepCutter* cutter) {
  cutter->Add(10, 0, 5);
  cutter->Add(11, 20, 25);
  cutter->Add(12, 40, 45);
}

// From 60 to 150 behind `at`: three batches, at lines of its own and one of the training's.
void AddEvaluation(int64_t at, StepCutter* cutter) {
  for (int64_t batch = 0; batch < 3; ++batch) {
    const int64_t now = at + 60 + 30 * batch;
    cutter->Add(30, now, now + 5);
    cutter->Add(11, now + 10, now + 15);
    cutter->Add(31, now + 20, now + 30);
  }
}

void ExpectStep(const std::optional<StepTime>& step, int64_t start, int64_t end, uint64_t calls, bool is_unfinished) {
  ASSERT_TRUE(step);
  EXPECT_EQ(step->start, start);
  EXPECT_EQ(step->end, end);
  EXPECT_EQ(step->calls, calls);
  EXPECT_EQ(step->is_unfinished, is_unfinished);
}

TEST(StepCutterTest, AnEvaluationIsCutOff) {
  StepCutter cutter(kLoop);
  AddOwnLines(&cutter);
  AddEvaluation(0, &cutter);
  ExpectStep(cutter.Add(10, 200, 205), 0, 45, 3, true);
  cutter.Add(11, 220, 225);
  cutter.Add(12, 240, 245);
  ExpectStep(cutter.Add(10, 300, 305), 200, 300, 3, false);
}

TEST(StepCutterTest, WhatTakesNoLongerThanStepsDoIsNot) {
  StepCutter cutter(kLoop);
  AddOwnLines(&cutter);
  AddEvaluation(0, &cutter);
  ExpectStep(cutter.Add(10, 150, 155), 0, 150, 12, false);
}

// One line that comes once, as what is written now and then does, however long it takes; and the loop's own lines.
TEST(StepCutterTest, ASlowStepIsNot) {
  StepCutter cutter(kLoop);
  AddOwnLines(&cutter);
  cutter.Add(20, 50, 500);
  cutter.Add(33, 510, 900);
  ExpectStep(cutter.Add(10, 1000, 1005), 0, 1000, 5, false);
  cutter.Add(11, 1020, 1025);
  for (int64_t again = 0; again < 5; ++again) {
    cutter.Add(20, 1100 + 100 * again, 1110 + 100 * again);
    cutter.Add(12, 1150 + 100 * again, 1160 + 100 * again);
  }
  ExpectStep(cutter.Add(10, 2000, 2005), 1000, 2000, 12, false);
}

// Lines of the step come behind it.
TEST(StepCutterTest, ABranchInTheMidstOfAStepIsNot) {
  StepCutter cutter(kLoop);
  cutter.Add(10, 0, 5);
  cutter.Add(11, 20, 25);
  AddEvaluation(0, &cutter);
  cutter.Add(12, 180, 185);
  ExpectStep(cutter.Add(10, 200, 205), 0, 200, 12, false);
}

TEST(StepCutterTest, ACheckpointIsCutOff) {
  constexpr uint64_t kHalf = StepCutter::kMuchCopied / 2;
  StepCutter cutter(kLoop);
  AddOwnLines(&cutter);
  cutter.Add(40, 60, 100, kHalf);
  cutter.Add(40, 100, 200, kHalf);
  ExpectStep(cutter.Add(10, 1000, 1005), 0, 45, 3, true);
  cutter.Add(11, 1020, 1025);
  cutter.Add(12, 1040, 1045);
  cutter.Add(40, 1060, 1200, kHalf);  // a tensor that is looked at
  ExpectStep(cutter.Add(10, 2000, 2005), 1000, 2000, 4, false);
}

// What every step does from some time on is no evaluation, though no step did it before.
TEST(StepCutterTest, LinesThatComeOftenAreTheLoops) {
  StepCutter cutter(kLoop);
  for (int64_t step = 0; step < 10; ++step) {
    const int64_t at = 200 * step;
    const auto ended = cutter.Add(10, at, at + 5);
    ASSERT_EQ(ended.has_value(), step > 0);
    // The fourth of them has it for the fourth time.
    if (ended) {
      EXPECT_EQ(ended->is_unfinished, step <= 3) << step;
    }
    cutter.Add(11, at + 20, at + 25);
    cutter.Add(12, at + 40, at + 45);
    AddEvaluation(at, &cutter);
  }
}

// Once in nine steps, each time.
TEST(StepCutterTest, WhatComesSeldomStaysForeign) {
  StepCutter cutter(kLoop);
  int64_t at = 0;
  uint64_t cut = 0;
  for (int64_t step = 0; step < 91; ++step) {
    const auto ended = cutter.Add(10, at, at + 5);
    if (ended && ended->is_unfinished) ++cut;
    cutter.Add(11, at + 20, at + 25);
    cutter.Add(12, at + 40, at + 45);
    if (step % 9 == 0) AddEvaluation(at, &cutter);
    at += step % 9 == 0 ? 200 : 100;
  }
  EXPECT_EQ(cut, 10U);
}

// Behind the last step, whatever is foreign is no part of it.
TEST(StepCutterTest, TheLastOneEndsBeforeForeignLines) {
  StepCutter cutter(kLoop);
  AddOwnLines(&cutter);
  cutter.Add(10, 100, 105);
  cutter.Add(11, 120, 125);
  cutter.Add(12, 140, 145);
  cutter.Add(50, 150, 160);
  ExpectStep(cutter.Last(), 100, 145, 3, true);
}

class FoundSteps : public TraceDbTest {
 protected:
  // A loop of steps of 1,000 ns, each of four lines, in thread 1; thread 2 does something else.
  void Record(uint64_t steps, bool recorded = false) {
    HandSpool spool(run_, "a.spool");
    spool.Facts({{tracer::kFactPid, "100"}, {tracer::kFactHost, "h"}, {tracer::kFactExecutable, "/bin/python"}});
    spool.Name(tracer::NameTable::kHooks, 0, "cudaLaunchKernel");
    spool.Name(tracer::NameTable::kHooks, 1, "cudaMemcpyAsync");
    for (uint32_t site = 1; site <= 5; ++site) spool.Site(site, "train.py", static_cast<int32_t>(40 + site), "main");
    spool.Site(6, "train.py", 42, "main");  // another call in the line of site 2
    spool.Thread(1, 100, "main");
    spool.Thread(2, 200, "other");
    std::vector<tracer::TraceRecord> records;
    for (uint64_t step = 0; step < steps; ++step) {
      for (uint32_t site = 2; site <= 5; ++site) {
        tracer::TraceRecord call =
            CallAt(1000 * step + uint64_t{100} * site, 1000 * step + uint64_t{100} * site + 50, site == 2 ? 1 : 0);
        call.site = site;
        records.push_back(call);
        if (site == 2) {
          for (uint64_t again = 0; again < 20; ++again) {  // the line copies many times, and waits
            tracer::TraceRecord wait = CallAt(call.end_ns + again, call.end_ns + again + 1);
            wait.site = again % 2 == 0 ? 6 : 2;
            wait.hook = again % 2 == 0 ? 0 : 1;
            records.push_back(wait);
          }
        }
      }
      if (recorded) records.push_back(tracer::StepRecord(1000 * step, 1000 * step + 900, 70 + step));
    }
    spool.Records(1, records);
    tracer::TraceRecord other = CallAt(350, 360);
    other.site = 1;
    spool.Records(2, {other});
    spool.End();
  }
};

TEST_F(FoundSteps, HaveRows) {
  Record(8);
  const BuildResult result = BuildWell();
  ASSERT_EQ(result.processes.size(), 1U);
  EXPECT_EQ(result.processes[0].steps, 8U);
  EXPECT_EQ(result.processes[0].median_step_ns, 1000);
  EXPECT_EQ(result.processes[0].step_line, "train.py:42");
  const Rows rows = Query(
      "SELECT s.start - (SELECT min(start) FROM SLIPSTREAM_STEPS), s.end - s.start, s.processId, s.thread, "
      "s.globalTid & 0xFFFFFF, s.number, l.line FROM SLIPSTREAM_STEPS s JOIN SLIPSTREAM_SITES l USING (siteId)");
  ASSERT_EQ(rows.size(), 8U);
  for (size_t step = 0; step < 8; ++step) {
    const std::string time = step == 7 ? "350" : "1000";  // to the end of the last call
    EXPECT_EQ(rows[step], (std::vector<std::string>{std::to_string(1000 * step), time, "1", "1", "100",
                                                    std::to_string(step), "42"}));
  }
  EXPECT_EQ(One("SELECT count(*) FROM NVTX_EVENTS WHERE text = 'step' AND eventType = 60"), "8");
  EXPECT_EQ(Query("SELECT number FROM SLIPSTREAM_STEPS WHERE isUnfinished = 1"), (Rows{{"7"}}));
}

// 120 steps of 1,000 ns, and behind the 50th and the 100th ten batches of 300 ns each.
TEST_F(FoundSteps, DoNotSwallowAnEvaluation) {
  {
    HandSpool spool(run_, "a.spool");
    spool.Facts({{tracer::kFactPid, "100"}, {tracer::kFactHost, "h"}, {tracer::kFactExecutable, "/bin/python"}});
    spool.Name(tracer::NameTable::kHooks, 0, "cudaLaunchKernel");
    spool.Name(tracer::NameTable::kHooks, 1, "cudaMemcpyAsync");
    for (uint32_t site = 2; site <= 5; ++site) spool.Site(site, "train.py", static_cast<int32_t>(40 + site), "main");
    spool.Site(7, "train.py", 60, "evaluate");
    spool.Site(8, "train.py", 61, "evaluate");
    spool.Thread(1, 100, "main");
    std::vector<tracer::TraceRecord> records;
    const auto call = [&](uint64_t at, uint32_t site) {
      records.push_back(CallAt(at, at + 50, site == 2 || site == 7 ? 1 : 0));
      records.back().site = site;
    };
    uint64_t at = 1000;
    for (uint64_t step = 0; step < 120; ++step, at += 1000) {
      for (uint32_t site = 2; site <= 5; ++site) call(at + uint64_t{200} * (site - 2), site);
      if (step != 49 && step != 99) continue;
      for (uint64_t batch = 0; batch < 10; ++batch, at += 300) {
        call(at + 1000, 7);
        call(at + 1100, 3);
        call(at + 1200, 8);
      }
    }
    spool.Records(1, records);
    spool.End();
  }
  const BuildResult result = BuildWell();
  EXPECT_EQ(result.processes[0].step_line, "train.py:42");
  EXPECT_EQ(result.processes[0].steps, 120U);
  EXPECT_EQ(result.processes[0].median_step_ns, 1000);
  // Those two and the last one end with their last call: 600 behind their start, and 50 long.
  EXPECT_EQ(Query("SELECT end - start, isUnfinished, count(*) FROM SLIPSTREAM_STEPS GROUP BY 1, 2 ORDER BY 1"),
            (Rows{{"650", "1", "3"}, {"1000", "0", "117"}}));
  EXPECT_EQ(Query("SELECT number FROM SLIPSTREAM_STEPS WHERE isUnfinished ORDER BY start"),
            (Rows{{"49"}, {"99"}, {"119"}}));
}

// Of two sites of one line, another thread has the one that is not the cut thread's, and has it first.
TEST_F(FoundSteps, AreCutWhereAnotherThreadWasAtTheirLineFirst) {
  {
    HandSpool spool(run_, "a.spool");
    spool.Name(tracer::NameTable::kHooks, 0, "cudaLaunchKernel");
    spool.Name(tracer::NameTable::kHooks, 1, "cudaMemcpyAsync");
    for (uint32_t site = 2; site <= 5; ++site) spool.Site(site, "train.py", static_cast<int32_t>(40 + site), "main");
    spool.Site(6, "train.py", 42, "main");
    spool.Thread(1, 100, "main");
    spool.Thread(2, 200, "other");
    tracer::TraceRecord other = CallAt(10, 20, 1);
    other.site = 6;
    spool.Records(2, {other});
    std::vector<tracer::TraceRecord> records;
    for (uint64_t step = 0; step < 8; ++step) {
      for (uint32_t site = 2; site <= 5; ++site) {
        const uint64_t at = 1000 * (step + 1) + uint64_t{100} * site;
        records.push_back(CallAt(at, at + 50, site == 2 ? 1 : 0));
        records.back().site = site;
      }
    }
    spool.Records(1, records);
    spool.End();
  }
  EXPECT_EQ(BuildWell().processes[0].steps, 8U);
}

TEST_F(FoundSteps, GiveWayToThoseThatTheProcessRecorded) {
  Record(8, true);
  const BuildResult result = BuildWell();
  EXPECT_EQ(result.processes[0].steps, 8U);
  EXPECT_EQ(result.processes[0].median_step_ns, 900);
  EXPECT_EQ(result.processes[0].step_line, "");
  EXPECT_EQ(One("SELECT min(number) FROM SLIPSTREAM_STEPS"), "70");
  EXPECT_EQ(One("SELECT count(*) FROM SLIPSTREAM_STEPS WHERE siteId IS NOT NULL"), "0");
}

TEST_F(FoundSteps, AreNotMadeUp) {
  Record(3);
  const BuildResult result = BuildWell();
  EXPECT_EQ(result.processes[0].steps, 0U);
  EXPECT_FALSE(result.processes[0].median_step_ns);
  EXPECT_EQ(One("SELECT count(*) FROM SLIPSTREAM_STEPS"), "0");
}

// One line runs a model, whose layers are another: A B A B A, and again.
TEST_F(FoundSteps, OfALoopThatBringsNothingAreByWhatItLaunches) {
  const auto record = [&](int steps) {
    HandSpool spool(run_, "a.spool");
    spool.Facts({{tracer::kFactPid, "100"}, {tracer::kFactHost, "h"}, {tracer::kFactExecutable, "/bin/python"}});
    spool.Name(tracer::NameTable::kHooks, 0, "__cudaLaunchKernel");
    spool.Name(tracer::NameTable::kHooks, 1, "cudaStreamIsCapturing");
    spool.Site(1, "train.py", 6, "forward");
    spool.Site(2, "train.py", 11, "main");
    spool.Thread(1, 100, "main");
    std::vector<tracer::TraceRecord> records;
    for (int step = 0; step < steps; ++step) {
      for (uint64_t i = 0; i < 5; ++i) {
        const uint64_t at = 1000 * static_cast<uint64_t>(step + 1) + 100 * i;
        records.push_back(CallAt(at, at + 10, 1));
        records.push_back(CallAt(at + 20, at + 50, 0));
        records[records.size() - 2].site = records.back().site = i % 2 == 0 ? 1 : 2;
      }
    }
    spool.Records(1, records);
    spool.End();
  };
  record(12);
  const BuildResult result = BuildWell();
  EXPECT_EQ(result.processes[0].steps, 12U);
  EXPECT_EQ(Query("SELECT s.end - s.start, s.isUnfinished, l.line, s.thread, s.globalTid & 0xFFFFFF, count(*) FROM "
                  "SLIPSTREAM_STEPS s JOIN SLIPSTREAM_SITES l USING (siteId) GROUP BY 1, 2, 3, 4, 5 ORDER BY 1"),
            (Rows{{"430", "1", "6", "1", "100", "1"}, {"1000", "0", "6", "1", "100", "11"}}));
  EXPECT_EQ(One("SELECT value FROM SLIPSTREAM_FACTS WHERE key = 'steps.launches'"), "5");
  EXPECT_EQ(One("SELECT count(*) FROM SLIPSTREAM_FACTS WHERE key = 'steps.none'"), "0");
}

TEST_F(FoundSteps, ThatThereAreNoneHasAReason) {
  const auto why = [&](const std::vector<uint32_t>& sites) {
    std::filesystem::remove(database_);
    std::filesystem::remove(run_ + "/a.spool");
    HandSpool spool(run_, "a.spool");
    spool.Name(tracer::NameTable::kHooks, 0, "cudaLaunchKernel");
    for (uint32_t site = 1; site <= 9; ++site) spool.Site(site, "train.py", static_cast<int32_t>(site), "main");
    spool.Thread(1, 100, "main");
    std::vector<tracer::TraceRecord> records;
    for (const uint32_t site : sites) {
      const uint64_t at = 1000 + 100 * records.size();
      records.push_back(CallAt(at, at + 10, 0));
      records.back().site = site;
    }
    spool.Records(1, records);
    spool.End();
    BuildWell();
    return One("SELECT value FROM SLIPSTREAM_FACTS WHERE key = 'steps.none'");
  };
  EXPECT_EQ(why({0, 0, 0}), "no call was made at a line of the program that is known");
  EXPECT_EQ(why({1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4}),
            "no line of the program made calls more than 3 times, and fewer than five steps are not found");
  std::mt19937 random(3);
  std::uniform_int_distribution<uint32_t> lines(1, 9);
  std::vector<uint32_t> any(400);
  for (uint32_t& line : any) line = lines(random);
  EXPECT_EQ(why(any), "no line of the program was seen to begin each of them, and no sequence of launches repeats");
}

}  // namespace
}  // namespace slipstream::trace_db
