// Rows of the program's own NVTX ranges, and steps that are some of them.

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/trace_db/trace_db_testing.h"
#include "tools/trace/db/survey.h"
#include "tracer/spool/range_record.h"

namespace slipstream::trace_db {
namespace {

using tracer::RangeKind;
using tracer::RangePayload;
using tracer::RangeRecord;

class RangeRowsTest : public TraceDbTest {
 protected:
  static constexpr uint32_t kThread = 1;

  static void Begin(HandSpool& spool) {
    spool.Facts({{"pid", "100"}, {"host", "node"}});
    spool.Name(tracer::NameTable::kHooks, 0, "cudaMalloc");
    spool.Clock(999, 1001, 1'000'000'000'000'000'000);
    spool.Thread(kThread, 100, "main");
    spool.Thread(2, 101, "other");
    spool.Pass(1000);
  }
  static tracer::TraceRecord Of(const RangeRecord& range) { return tracer::RecordOf(range); }
};

TEST_F(RangeRowsTest, RangesMarksAndDomains) {
  {
    HandSpool spool(run_, "0.spool");
    Begin(spool);
    spool.Name(tracer::NameTable::kRanges, 1, "forward");
    spool.Name(tracer::NameTable::kRanges, 2, "NCCL");
    double half = 0.5;
    uint64_t half_bits = 0;
    std::memcpy(&half_bits, &half, sizeof(half));
    float third = 0.25F;
    uint32_t third_bits = 0;
    std::memcpy(&third_bits, &third, sizeof(third));
    spool.Records(kThread, {Of({.start_ns = 2000, .end_ns = 3000, .kind = RangeKind::kPushed, .name = 1}),
                            Of({.start_ns = 2500,
                                .end_ns = 3100,
                                .kind = RangeKind::kPushed,
                                .name = 1,
                                .domain = 2,
                                .category = 9,
                                .color = 0x80ff0000,
                                .payload = RangePayload::kSigned,
                                .payload_bits = static_cast<uint64_t>(int64_t{-3})}),
                            Of({.start_ns = 3200,
                                .end_ns = 3200,
                                .kind = RangeKind::kMark,
                                .name = 1,
                                .domain = 2,
                                .payload = RangePayload::kDouble,
                                .payload_bits = half_bits}),
                            Of({.start_ns = 1500,
                                .end_ns = 3300,
                                .kind = RangeKind::kStarted,
                                .name = 0,
                                .payload = RangePayload::kUnsigned,
                                .payload_bits = 77,
                                .thread = 101}),
                            Of({.start_ns = 3400,
                                .end_ns = 3400,
                                .kind = RangeKind::kMark,
                                .name = 5,
                                .payload = RangePayload::kFloat,
                                .payload_bits = third_bits})});
    spool.End();
  }
  BuildWell();
  const std::string rows =
      "SELECT n.start - (SELECT min(start) FROM NVTX_EVENTS WHERE eventType != 75), n.end - n.start, eventType, "
      "s.value, "
      "domainId, category, color, uint64Value, int64Value, doubleValue, floatValue, n.globalTid & 0xFFFFFF, "
      "endGlobalTid & 0xFFFFFF FROM NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId WHERE eventType != 75 "
      "ORDER BY n.start";
  const Rows expected = {
      {"0", "1800", "60", "NULL", "0", "NULL", "NULL", "77", "NULL", "NULL", "NULL", "101", "100"},
      {"500", "1000", "59", "forward", "0", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "100", "NULL"},
      {"1000", "600", "59", "forward", "1", "9", "2164195328", "NULL", "-3", "NULL", "NULL", "100", "NULL"},
      {"1700", "NULL", "34", "forward", "1", "NULL", "NULL", "NULL", "NULL", "0.5", "NULL", "100", "NULL"},
      {"1900", "NULL", "34", "NULL", "0", "NULL", "NULL", "NULL", "NULL", "NULL", "0.25", "100", "NULL"},
  };
  EXPECT_EQ(Query(rows), expected);
  EXPECT_EQ(
      Query("SELECT s.value, domainId FROM NVTX_EVENTS n JOIN StringIds s ON s.id = n.textId WHERE eventType = 75"),
      (Rows{{"NCCL", "1"}}));
  EXPECT_EQ(One("SELECT count(*) FROM SLIPSTREAM_STEPS"), "0");
}

TEST_F(RangeRowsTest, StepsAreThoseOfTheThreadAndNameThatHasTheMost) {
  {
    HandSpool spool(run_, "0.spool");
    Begin(spool);
    spool.Name(tracer::NameTable::kRanges, 1, "step 10");
    spool.Name(tracer::NameTable::kRanges, 2, "Step_11");
    spool.Name(tracer::NameTable::kRanges, 3, "iteration");
    spool.Name(tracer::NameTable::kRanges, 4, "forward");
    std::vector<tracer::TraceRecord> mine;
    for (uint64_t i = 0; i < 2; ++i) {
      mine.push_back(
          Of({.start_ns = 2000 + 1000 * i, .end_ns = 2100 + 1000 * i, .kind = RangeKind::kPushed, .name = 4}));
      mine.push_back(Of({.start_ns = 2000 + 1000 * i,
                         .end_ns = 2800 + 1000 * i,
                         .kind = RangeKind::kPushed,
                         .name = static_cast<uint32_t>(1 + i)}));
    }
    mine.push_back(Of({.start_ns = 9000, .end_ns = 9000, .kind = RangeKind::kMark, .name = 1}));
    mine.push_back(Of({.start_ns = 9100, .end_ns = 9200, .kind = RangeKind::kPushed, .name = 3}));
    spool.Records(kThread, mine);
    spool.Records(2, {Of({.start_ns = 2000, .end_ns = 9000, .kind = RangeKind::kPushed, .name = 1})});
    spool.End();
  }
  const BuildResult result = BuildWell();
  EXPECT_EQ(result.processes[0].step_name, "step");
  EXPECT_EQ(Query("SELECT number, end - start, thread, siteId FROM SLIPSTREAM_STEPS ORDER BY start"),
            (Rows{{"10", "800", "1", "NULL"}, {"11", "800", "1", "NULL"}}));
  // As reports of Nsight Systems know them, too.
  EXPECT_EQ(Query("SELECT uint64Value, end - start FROM NVTX_EVENTS WHERE text = 'step' ORDER BY start"),
            (Rows{{"10", "800"}, {"11", "800"}}));
}

TEST_F(RangeRowsTest, ThoseOfPyTorchsProfilerComeFirst) {
  {
    HandSpool spool(run_, "0.spool");
    Begin(spool);
    spool.Name(tracer::NameTable::kRanges, 1, "ProfilerStep#3");
    spool.Name(tracer::NameTable::kRanges, 2, "ProfilerStep#4");
    spool.Name(tracer::NameTable::kRanges, 3, "step");
    std::vector<tracer::TraceRecord> mine;
    for (uint64_t i = 0; i < 6; ++i) {
      mine.push_back(Of({.start_ns = 2000 + 10 * i, .end_ns = 2005 + 10 * i, .kind = RangeKind::kPushed, .name = 3}));
    }
    mine.push_back(Of({.start_ns = 1900, .end_ns = 2100, .kind = RangeKind::kPushed, .name = 1}));
    mine.push_back(Of({.start_ns = 2100, .end_ns = 2300, .kind = RangeKind::kPushed, .name = 2}));
    spool.Records(kThread, mine);
    spool.End();
  }
  BuildWell();
  EXPECT_EQ(Query("SELECT number, end - start FROM SLIPSTREAM_STEPS ORDER BY start"),
            (Rows{{"3", "200"}, {"4", "200"}}));
}

// 50 iterations of 10 ms, of which 41 have a range of the same name within them.
TEST_F(RangeRowsTest, OfNestedRangesOfOneNameTheOutermostAreTheSteps) {
  constexpr uint64_t kMs = 1'000'000;
  {
    HandSpool spool(run_, "0.spool");
    Begin(spool);
    spool.Name(tracer::NameTable::kRanges, 1, "train_step");
    std::vector<tracer::TraceRecord> mine;
    for (uint64_t i = 0; i < 50; ++i) {
      const uint64_t at = 2000 + 10 * kMs * i;
      if (i < 41) {
        mine.push_back(Of({.start_ns = at + kMs, .end_ns = at + 3 * kMs, .kind = RangeKind::kPushed, .name = 1}));
      }
      mine.push_back(Of({.start_ns = at, .end_ns = at + 10 * kMs, .kind = RangeKind::kPushed, .name = 1}));
    }
    spool.Records(kThread, mine);
    spool.End();
  }
  const BuildResult result = BuildWell();
  EXPECT_EQ(result.processes[0].steps, 50U);
  EXPECT_EQ(result.processes[0].median_step_ns, static_cast<int64_t>(10 * kMs));
  EXPECT_EQ(Query("SELECT count(*), min(end - start), max(end - start), max(number) FROM SLIPSTREAM_STEPS"),
            (Rows{{"50", "10000000", "10000000", "49"}}));
  // The ranges are all there.
  EXPECT_EQ(One("SELECT count(*) FROM NVTX_EVENTS n JOIN StringIds s ON s.id = n.textId WHERE s.value = 'train_step'"),
            "91");
}

TEST_F(RangeRowsTest, ARangeAroundTheLoopIsNoStep) {
  {
    HandSpool spool(run_, "0.spool");
    Begin(spool);
    spool.Name(tracer::NameTable::kRanges, 1, "step");
    std::vector<tracer::TraceRecord> mine;
    for (uint64_t i = 0; i < 6; ++i) {
      const uint64_t at = 2000 + 100 * i;
      mine.push_back(Of({.start_ns = at + 10, .end_ns = at + 20, .kind = RangeKind::kPushed, .name = 1}));
      mine.push_back(Of({.start_ns = at, .end_ns = at + 90, .kind = RangeKind::kPushed, .name = 1}));
    }
    mine.push_back(Of({.start_ns = 1900, .end_ns = 3000, .kind = RangeKind::kPushed, .name = 1}));
    spool.Records(kThread, mine);
    spool.End();
  }
  BuildWell();
  EXPECT_EQ(Query("SELECT count(*), min(end - start), max(end - start) FROM SLIPSTREAM_STEPS"),
            (Rows{{"6", "90", "90"}}));
}

// One range is no loop: the steps are looked for elsewhere.
TEST_F(RangeRowsTest, OneRangeIsNoLoop) {
  {
    HandSpool spool(run_, "0.spool");
    Begin(spool);
    spool.Name(tracer::NameTable::kRanges, 1, "step 1");
    spool.Records(kThread, {Of({.start_ns = 2000, .end_ns = 3000, .kind = RangeKind::kPushed, .name = 1})});
    spool.End();
  }
  EXPECT_EQ(BuildWell().processes[0].step_name, "");
  EXPECT_EQ(One("SELECT count(*) FROM SLIPSTREAM_STEPS"), "0");
}

// What is remembered of them has a bound, and a part of the steps would be a wrong number.
TEST_F(RangeRowsTest, OfTooManyNoneIsAStep) {
  constexpr uint64_t kSteps = 6;
  {
    HandSpool spool(run_, "0.spool");
    Begin(spool);
    spool.Name(tracer::NameTable::kRanges, 1, "step");
    spool.Name(tracer::NameTable::kRanges, 2, "forward");
    for (uint64_t i = 0; i < kSteps; ++i) {
      const uint64_t at = 2000 + 100 * i;
      spool.Records(kThread, {Of({.start_ns = at + 10, .end_ns = at + 20, .kind = RangeKind::kPushed, .name = 2}),
                              Of({.start_ns = at, .end_ns = at + 90, .kind = RangeKind::kPushed, .name = 1})});
    }
    spool.End();
  }
  const auto look = [](uint64_t) { return true; };
  const SpoolSurvey whole = SurveySpool(run_ + "/0.spool", look, kSteps);
  ASSERT_TRUE(whole.step_ranges.has_value());
  EXPECT_EQ(whole.step_ranges->are_steps, std::vector<bool>(kSteps, true));
  EXPECT_FALSE(SurveySpool(run_ + "/0.spool", look, kSteps - 1).step_ranges.has_value());
  EXPECT_FALSE(SurveySpool(run_ + "/0.spool", look, 2).step_ranges.has_value());
}

}  // namespace
}  // namespace slipstream::trace_db
