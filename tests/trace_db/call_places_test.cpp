// Where a call came from, in the database: its line, and whether that line is one that it was put down to.

#include <gtest/gtest.h>

#include "tests/trace_db/trace_db_testing.h"

namespace slipstream::trace_db {
namespace {

using tracer::NameTable;
using tracer::TraceRecord;

TraceRecord Call(uint64_t start_ns, uint32_t site, uint8_t flags = 0, uint16_t hook = 0) {
  TraceRecord record = CallAt(start_ns, start_ns + 1, hook);
  record.site = site;
  record.flags = flags;
  return record;
}

class CallPlacesTest : public TraceDbTest {};

TEST_F(CallPlacesTest, ALineThatWasInferredSaysSo) {
  {
    HandSpool spool(run_, "a.spool");
    spool.Name(NameTable::kHooks, 0, "cudaLaunchKernel");
    spool.Site(5, "train.py", 33, "step");
    spool.Thread(1, 100, "python");
    spool.Thread(2, 101, "pt_autograd_0");
    spool.Records(1, {Call(10, 5)});
    spool.Records(2, {Call(20, 5, tracer::kSiteIsBackward), Call(30, 0, tracer::kSiteIsBackward), Call(40, 0)});
    spool.End();
  }
  BuildWell();
  EXPECT_EQ(Query("SELECT thread, line, siteIsBackward FROM SLIPSTREAM_CALLS LEFT JOIN SLIPSTREAM_SITES USING (siteId) "
                  "ORDER BY correlationId"),
            (Rows{{"1", "33", "0"}, {"2", "33", "1"}, {"2", "NULL", "1"}, {"2", "NULL", "0"}}));
}

// Files from before calls had flags: the byte means nothing there.
TEST_F(CallPlacesTest, OfAnOlderRecordTheLineIsItsOwn) {
  {
    HandSpool spool(run_, "a.spool");
    spool.Site(5, "train.py", 33, "step");
    spool.Thread(1, 100, "python");
    spool.Records(1, {Call(10, 5, 0xff)}, tracer::kOldestRecordVersion);
    spool.Records(1, {Call(20, 5)});
    spool.End();
  }
  BuildWell();
  EXPECT_EQ(Query("SELECT line, siteIsBackward FROM SLIPSTREAM_CALLS JOIN SLIPSTREAM_SITES USING (siteId)"),
            (Rows{{"33", "0"}, {"33", "0"}}));
}

// Autograd's thread visits two lines in turn more often than the program's own thread does anything.
TEST_F(CallPlacesTest, StepsAreNotCutByLinesThatWereInferred) {
  constexpr uint64_t kSteps = 20;
  {
    HandSpool spool(run_, "a.spool");
    spool.Name(NameTable::kHooks, 0, "cudaMemcpyAsync");
    spool.Name(NameTable::kHooks, 1, "cudaLaunchKernel");
    for (const uint32_t site : {1U, 2U, 3U}) spool.Site(site, "train.py", static_cast<int32_t>(site), "step");
    spool.Thread(1, 100, "python");
    spool.Thread(2, 101, "pt_autograd_0");
    std::vector<TraceRecord> own;
    std::vector<TraceRecord> autograd;
    for (uint64_t step = 0; step < kSteps; ++step) {
      const uint64_t now = 1000 * (step + 1);
      for (const uint32_t site : {1U, 2U, 3U}) own.push_back(Call(now + site, site, 0, site == 1 ? 0 : 1));
      for (uint64_t i = 0; i < 10; ++i) {
        autograd.push_back(Call(now + 100 + i, i % 2 == 0 ? 2 : 3, tracer::kSiteIsBackward));
      }
    }
    spool.Records(1, own);
    spool.Records(2, autograd);
    spool.End();
  }
  BuildWell();
  EXPECT_EQ(Query("SELECT DISTINCT thread, line FROM SLIPSTREAM_STEPS JOIN SLIPSTREAM_SITES USING (siteId)"),
            (Rows{{"1", "1"}}));
}

}  // namespace
}  // namespace slipstream::trace_db
