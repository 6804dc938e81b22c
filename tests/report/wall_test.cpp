// Where the whole time of recorded processes went, pauses between their steps, and steps that took far longer: as the
// report, the screen, the JSON and the page have it, against figures by hand.

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "tests/report/report_testing.h"
#include "tools/trace/report/format.h"
#include "tools/trace/report/html.h"
#include "tools/trace/report/json.h"
#include "tools/trace/report/text.h"
#include "tools/trace/report/wall_text.h"

namespace slipstream::report {
namespace {

using nlohmann::json;
using tracer::StepRecord;
using tracer::TraceRecord;

// Before the first step of all: the first record, of a clock, is at 999.
constexpr int64_t kStartUp = 10'000 - 999;
constexpr uint32_t kEvaluateSite = 4;
constexpr uint16_t kCopiedOut = 7;  // a decision

using PartTimes = std::vector<std::pair<WallPart, int64_t>>;

class WallTest : public ReportTest {
 protected:
  void Record(const std::vector<TraceRecord>& records, const std::string& start_ticks = "") {
    trace_db::HandSpool spool(run_, "0.spool");
    Introduce(&spool, 0);
    if (!start_ticks.empty()) spool.Facts({{tracer::kFactStartTicks, start_ticks}});
    spool.Site(kEvaluateSite, "/job/train.py", 60, "evaluate");
    spool.Name(tracer::NameTable::kDecisions, kCopiedOut, "transfer.d2h.declined.small");
    spool.Pass(kBegin);
    spool.Records(1, records);
    spool.End();
  }
  // Its only process; adds up.
  ProcessReport Only() {
    BuildWell();
    report_ = Make();
    ProcessReport process = report_.processes.at(0);
    int64_t sum = 0;
    for (const WallPartReport& part : process.wall.parts) sum += part.time;
    EXPECT_EQ(sum, process.wall.end - process.wall.begin);
    EXPECT_EQ(process.wall.end, process.last);
    return process;
  }
  static PartTimes Times(const ProcessReport& process) {
    PartTimes times;
    for (const WallPartReport& part : process.wall.parts) times.emplace_back(part.part, part.time);
    return times;
  }
  static const WallPartReport* Find(const ProcessReport& process, WallPart part) {
    for (const WallPartReport& one : process.wall.parts) {
      if (one.part == part) return &one;
    }
    return nullptr;
  }
  // Where a line goes on in the next one.
  std::string Flat() const { return std::regex_replace(FormatReport(report_), std::regex("\n      "), " "); }

  Report report_;
};

// Ten steps of 1,000, each behind 9,000 in which nothing is called.
std::vector<TraceRecord> WithALoader() {
  std::vector<TraceRecord> records;
  for (uint64_t i = 0; i < 10; ++i) {
    const uint64_t at = 10'000 + 10'000 * i;
    records.push_back(Call(kMemcpyHook, at, at + 100, kCopySite, 4096));
    records.push_back(Call(kLaunchHook, at + 300, at + 340, kLaunchSite));
    records.push_back(StepRecord(at, at + 1000, i));
  }
  return records;
}

TEST_F(WallTest, ALoaderBetweenStepsIsSaid) {
  Record(WithALoader());
  const ProcessReport process = Only();
  EXPECT_FALSE(process.wall.from_process_start);
  EXPECT_EQ(Times(process),
            (PartTimes{{WallPart::kStartUp, kStartUp}, {WallPart::kMeasured, 10'000}, {WallPart::kBetween, 81'000}}));
  const WallPartReport* const between = Find(process, WallPart::kBetween);
  EXPECT_EQ(between->count, 9U);
  ASSERT_TRUE(between->most);
  EXPECT_EQ(between->most->line, 10);
  EXPECT_TRUE(between->most->before);
  EXPECT_EQ(between->most->time, 81'000);
  EXPECT_EQ(process.pause_time.count, 9U);
  EXPECT_EQ(process.pause_time.median, 9000);
  EXPECT_EQ(process.pause_time.total, 81'000);
  EXPECT_EQ(process.pace.median, 10'000);
  EXPECT_EQ(process.step_time.median, 1000);
  const std::string flat = Flat();
  EXPECT_NE(flat.find("10 steps, as recorded; 1.00 us a step, and 9.00 us between two of them: one every 10.0 us"),
            std::string::npos)
      << flat;
  EXPECT_NE(flat.find("  between two steps "), std::string::npos);
  EXPECT_NE(flat.find("  from one step to the next "), std::string::npos);
  EXPECT_NE(flat.find("before /job/train.py:10 (step)"), std::string::npos) << flat;
}

TEST_F(WallTest, TheScreenTheJsonAndThePageHaveTheSame) {
  Record(WithALoader());
  const ProcessReport process = Only();
  const json of = json::parse(ReportJson(report_, false))["processes"][0];
  const json& wall = of["wall"];
  EXPECT_EQ(wall["begin_ns"], process.wall.begin);
  EXPECT_EQ(wall["time_ns"], kStartUp + 91'000);
  EXPECT_EQ(wall["from_process_start"], false);
  const std::string text = FormatReport(report_);
  EXPECT_NE(text.find("WALL TIME: 100 us from the first record to the last record\n"), std::string::npos) << text;
  int64_t sum = 0;
  double shares = 0;
  ASSERT_EQ(wall["parts"].size(), process.wall.parts.size());
  for (size_t i = 0; i < process.wall.parts.size(); ++i) {
    const WallPartReport& part = process.wall.parts[i];
    const json& one = wall["parts"][i];
    EXPECT_EQ(one["part"], NameOf(part.part));
    EXPECT_EQ(one["time_ns"], part.time);
    sum += one["time_ns"].get<int64_t>();
    shares += one["share"].get<double>();
    const std::string label = "\n  " + Label(part.part, part.count);
    const size_t row = text.find(label);
    ASSERT_NE(row, std::string::npos) << label;
    EXPECT_NE(text.substr(row, text.find('\n', row + 1) - row).find(Time(part.time)), std::string::npos);
  }
  EXPECT_EQ(sum, wall["time_ns"]);
  EXPECT_NEAR(shares, 1, 1e-9);
  EXPECT_EQ(wall["parts"][2]["most_at"]["line"], 10);
  EXPECT_EQ(wall["parts"][2]["most_at"]["before_its_calls"], true);
  EXPECT_EQ(of["steps"]["between"]["mean_ns"], 9000);
  EXPECT_EQ(of["steps"]["start_to_start"]["mean_ns"], 10'000);
  EXPECT_EQ(of["steps"]["slow"], 0);
  EXPECT_NE(ReportHtml(report_, "js").find("aria-label=\"whole time\""), std::string::npos);
}

// Steps without anything between them are not longer for it.
TEST_F(WallTest, StepsBackToBackHaveNoPauses) {
  std::vector<TraceRecord> records;
  for (uint64_t i = 0; i < 10; ++i) records.push_back(StepRecord(kBegin + kStep * i, kBegin + kStep * (i + 1), i));
  Record(records);
  const ProcessReport process = Only();
  EXPECT_EQ(Times(process), (PartTimes{{WallPart::kStartUp, kStartUp}, {WallPart::kMeasured, 10'000}}));
  EXPECT_EQ(process.pause_time.total, 0);
  EXPECT_EQ(Flat().find("between two"), std::string::npos) << Flat();
}

// By its ticks since the system was booted, 0; the clock of the trace began then, too.
TEST_F(WallTest, FromTheStartOfTheProcess) {
  Record(WithALoader(), "0");
  const ProcessReport process = Only();
  EXPECT_TRUE(process.wall.from_process_start);
  EXPECT_EQ(process.wall.begin, process.first - 999);
  EXPECT_EQ(Find(process, WallPart::kStartUp)->time, 10'000);
  EXPECT_NE(Flat().find("from the start of the process to the last record"), std::string::npos);
}

// 10 ms behind the first record: a system that slept counts ticks that this clock does not.
TEST_F(WallTest, AStartBehindTheFirstRecordIsNone) {
  Record(WithALoader(), "1");
  const ProcessReport process = Only();
  EXPECT_FALSE(process.wall.from_process_start);
  EXPECT_EQ(process.wall.begin, process.first);
}

TEST_F(WallTest, ASingleStep) {
  Record({Call(kMemcpyHook, kBegin, kBegin + 100, kCopySite), StepRecord(kBegin, kBegin + 700, 0),
          Call(kLaunchHook, kBegin + 900, kBegin + 1000, kWaitSite)});
  const ProcessReport process = Only();
  EXPECT_EQ(Times(process),
            (PartTimes{{WallPart::kStartUp, kStartUp}, {WallPart::kMeasured, 700}, {WallPart::kAfter, 300}}));
  ASSERT_TRUE(Find(process, WallPart::kAfter)->most);
  EXPECT_EQ(Find(process, WallPart::kAfter)->most->line, 30);
}

TEST_F(WallTest, NoSteps) {
  Record({Call(kMemcpyHook, kBegin, kBegin + 100, kCopySite)}, "0");
  const ProcessReport process = Only();
  EXPECT_EQ(Times(process), (PartTimes{{WallPart::kStartUp, 999}, {WallPart::kNoSteps, kStartUp + 100}}));
  EXPECT_NE(Flat().find("recorded, no steps were found"), std::string::npos);
}

TEST_F(WallTest, APauseAndAStepWithDroppedRecords) {
  std::vector<TraceRecord> records = WithALoader();
  // In the pause behind step 3, and in step 6.
  records.insert(records.begin() + 12, tracer::DropRecord(45'000, 45'100, 5, 5));
  records.insert(records.begin() + 21, tracer::DropRecord(70'400, 70'500, 5, 10));
  Record(records);
  const ProcessReport process = Only();
  EXPECT_EQ(Times(process), (PartTimes{{WallPart::kStartUp, kStartUp},
                                       {WallPart::kMeasured, 9000},
                                       {WallPart::kDropped, 1000},
                                       {WallPart::kBetween, 72'000},
                                       {WallPart::kOther, 9000}}));
  // Of two measured steps, with nothing missing: of nine, not those of the pause and of the step.
  EXPECT_EQ(process.pause_time.count, 6U);
}

// Ten steps of a loop and a pause of 5,000 behind the sixth of them, in which six copies come out.
TEST_F(WallTest, ACheckpoint) {
  for (const bool known : {true, false}) {
    std::vector<TraceRecord> records;
    uint64_t at = kBegin;
    for (uint64_t i = 0; i < 12; ++i, at += kStep) {
      records.push_back(Call(kLaunchHook, at, at + 500, kLaunchSite));
      records.push_back(StepRecord(at, at + kStep, i));
      if (i != 5) continue;
      for (uint64_t copy = 0; copy < 6; ++copy) {
        const uint64_t now = at + kStep + 800 * copy;
        records.push_back(Call(kMemcpyHook, now, now + 700, kEvaluateSite, 1 << 20, known ? kCopiedOut : uint16_t{0}));
      }
      at += 5000;
    }
    std::filesystem::remove(run_ + "/0.spool");
    std::filesystem::remove(database_);
    Record(records);
    const ProcessReport process = Only();
    const WallPart part = known ? WallPart::kCheckpoint : WallPart::kOther;
    EXPECT_EQ(Times(process), (PartTimes{{WallPart::kStartUp, kStartUp}, {WallPart::kMeasured, 12'000}, {part, 5000}}));
    ASSERT_TRUE(Find(process, part) != nullptr && Find(process, part)->most);
    EXPECT_EQ(Find(process, part)->most->line, 60);
    EXPECT_FALSE(Find(process, part)->most->before);
    // In six copies; between them.
    EXPECT_EQ(Find(process, part)->most->time, 6 * 700 + 5 * 100);
    EXPECT_EQ(process.pause_time.count, 10U);
  }
}

// 120 steps of 1,000, found by their line; behind the 50th and the 100th, ten batches of 100 each.
TEST_F(WallTest, FoundStepsAndTheirEvaluation) {
  std::vector<TraceRecord> records;
  uint64_t at = kBegin;
  for (uint64_t i = 0; i < 120; ++i, at += kStep) {
    records.push_back(Call(kMemcpyHook, at, at + 100, kCopySite, 4096));
    records.push_back(Call(kLaunchHook, at + 300, at + 340, kLaunchSite));
    records.push_back(Call(kSynchronizeHook, at + 700, at + 900, kWaitSite));
    if (i != 49 && i != 99) continue;
    for (uint64_t batch = 0; batch < 10; ++batch, at += 100) {
      records.push_back(Call(kMemcpyHook, at + 1000, at + 1020, kEvaluateSite, 4096));
      records.push_back(Call(kLaunchHook, at + 1030, at + 1060, kLaunchSite));
    }
  }
  Record(records);
  const ProcessReport process = Only();
  EXPECT_TRUE(process.steps_found);
  EXPECT_EQ(process.measured_steps, 117U);
  EXPECT_EQ(process.step_time.max, 1000);
  EXPECT_EQ(process.unfinished_steps, 3U);
  EXPECT_EQ(process.steps[49].use, StepUse::kUnfinished);
  EXPECT_EQ(process.steps[119].use, StepUse::kUnfinished);
  // A step that is cut off ends with its last call; so does the recording.
  EXPECT_EQ(Times(process), (PartTimes{{WallPart::kStartUp, kStartUp},
                                       {WallPart::kMeasured, 117'000},
                                       {WallPart::kUnfinished, 3 * 900},
                                       {WallPart::kEvaluation, 2 * 1100}}));
  const WallPartReport* const evaluation = Find(process, WallPart::kEvaluation);
  EXPECT_EQ(evaluation->count, 2U);
  ASSERT_TRUE(evaluation->most);
  EXPECT_EQ(evaluation->most->line, 60);
  EXPECT_TRUE(evaluation->most->before);
  // In its copies 10 times 20; before the first 100, and before the others 40.
  EXPECT_EQ(evaluation->most->time, 2 * (200 + 100 + 9 * 40));
  EXPECT_EQ(process.pause_time.count, 0U) << "a step that was found ends where the next one begins";
  const json steps = json::parse(ReportJson(report_, false))["processes"][0]["steps"];
  EXPECT_EQ(steps["with_unknown_end"], 3);
  EXPECT_EQ(steps["between"], nullptr);
  EXPECT_EQ(steps["steps"][49]["use"], "end_not_known");
  EXPECT_NE(Flat().find("3 steps whose ends are not known, left out"), std::string::npos) << Flat();
  EXPECT_NE(Flat().find("  other work (evaluation?), 2 times"), std::string::npos);
}

// In a database of an older slipstream the last step that was found is one that ended.
TEST_F(WallTest, TheLastFoundStepOfAnOlderDatabase) {
  std::vector<TraceRecord> records;
  for (uint64_t at = kBegin; at < kBegin + 10 * kStep; at += kStep) {
    records.push_back(Call(kMemcpyHook, at, at + 100, kCopySite, 4096));
    records.push_back(Call(kLaunchHook, at + 300, at + 340, kLaunchSite));
    records.push_back(Call(kSynchronizeHook, at + 700, at + 900, kWaitSite));
  }
  Record(records);
  EXPECT_EQ(Only().unfinished_steps, 1U);
  Execute(database_, "ALTER TABLE SLIPSTREAM_STEPS DROP COLUMN isUnfinished");
  const ProcessReport process = Make().processes.at(0);
  EXPECT_EQ(process.unfinished_steps, 1U);
  EXPECT_EQ(process.steps.back().use, StepUse::kUnfinished);
  EXPECT_EQ(process.step_time.min, 1000);
}

// 20 steps of 1,000: a copy, and a synchronization that begins at 700 and ends at 900. One waits for 2,000 more, and in
// another 1,500 pass before it waits.
TEST_F(WallTest, SlowStepsAreNamedWithTheirCause) {
  std::vector<TraceRecord> records;
  uint64_t at = kBegin;
  for (uint64_t i = 0; i < 20; ++i) {
    const uint64_t before = i == 15 ? 1500 : 0;
    const uint64_t in = i == 12 ? 2000 : 0;
    records.push_back(Call(kMemcpyHook, at, at + 100, kCopySite, 4096));
    records.push_back(Call(kSynchronizeHook, at + 700 + before, at + 900 + before + in, kWaitSite));
    records.push_back(StepRecord(at, at + kStep + before + in, i));
    at += kStep + before + in;
  }
  Record(records);
  const ProcessReport process = Only();
  EXPECT_EQ(process.measured_steps, 20U);
  EXPECT_EQ(process.slow_step_count, 2U);
  ASSERT_EQ(process.slow_steps.size(), 2U);
  const SlowStep& waits = process.slow_steps[0];
  EXPECT_EQ(waits.number, 12);
  EXPECT_EQ(waits.time, 3000);
  EXPECT_EQ(waits.part, Part::kSynchronizes);
  EXPECT_EQ(waits.grew, 2000);
  ASSERT_TRUE(waits.place);
  EXPECT_EQ(waits.place->line, 30);
  EXPECT_FALSE(waits.place->before);
  EXPECT_EQ(waits.place->time, 2000);
  const SlowStep& idles = process.slow_steps[1];
  EXPECT_EQ(idles.number, 15);
  EXPECT_EQ(idles.time, 2500);
  EXPECT_EQ(idles.part, Part::kOutside);
  EXPECT_EQ(idles.grew, 1500);
  ASSERT_TRUE(idles.place);
  EXPECT_EQ(idles.place->line, 30);
  EXPECT_TRUE(idles.place->before);
  EXPECT_EQ(idles.place->time, 1500);
  const std::string text = FormatReport(report_);
  EXPECT_NE(text.find("2 steps took more than 1.5 times the median"), std::string::npos) << text;
  EXPECT_NE(text.find("synchronizations +2.00 us"), std::string::npos) << text;
  EXPECT_NE(text.find("before /job/train.py:30 (main) +1.50 us"), std::string::npos) << text;
  const json steps = json::parse(ReportJson(report_, false))["processes"][0]["steps"];
  EXPECT_EQ(steps["slow"], 2);
  EXPECT_EQ(steps["slow_steps"][0]["part"], "synchronizes");
  EXPECT_EQ(steps["slow_steps"][0]["longer_ns"], 2000);
  EXPECT_EQ(steps["slow_steps"][1]["most_at"]["line"], 30);
}

// The wait for a batch is at the end of a step that was found: before the next one's first call.
TEST_F(WallTest, ASlowBatchIsBeforeTheNextSteps) {
  std::vector<TraceRecord> records;
  uint64_t at = kBegin;
  for (uint64_t i = 0; i < 20; ++i) {
    records.push_back(Call(kMemcpyHook, at, at + 100, kCopySite, 4096));
    records.push_back(Call(kLaunchHook, at + 300, at + 340, kLaunchSite));
    records.push_back(Call(kSynchronizeHook, at + 700, at + 900, kWaitSite));
    at += kStep + (i == 9 ? 4000 : 0);
  }
  Record(records);
  const ProcessReport process = Only();
  EXPECT_EQ(process.unfinished_steps, 1U) << "it is slow at the loop's own lines, and not cut off";
  ASSERT_EQ(process.slow_steps.size(), 1U);
  EXPECT_EQ(process.slow_steps[0].number, 9);
  EXPECT_EQ(process.slow_steps[0].part, Part::kOutside);
  EXPECT_EQ(process.slow_steps[0].grew, 4000);
  ASSERT_TRUE(process.slow_steps[0].place);
  EXPECT_EQ(process.slow_steps[0].place->line, 10);
  EXPECT_TRUE(process.slow_steps[0].place->before);
  EXPECT_EQ(process.slow_steps[0].place->time, 4000);
}

}  // namespace
}  // namespace slipstream::report
