// Steps that are cut at a line, and their rows.
#include "tools/trace/db/step_cutter.h"

#include <gtest/gtest.h>

#include "tests/trace_db/trace_db_testing.h"

namespace slipstream::trace_db {
namespace {

constexpr StepFinder::Found kLine = {.thread = 7, .site = 10};

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
  cutter.Add(10, 300, 301);  // the loop looks for another batch, and there is none
  EXPECT_FALSE(cutter.Last());
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

}  // namespace
}  // namespace slipstream::trace_db
