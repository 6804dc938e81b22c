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

constexpr char kStackOfCalls[] =
    "WITH RECURSIVE frames(correlationId, siteId, parentId, isCut, depth) AS ("
    "SELECT correlationId, s.siteId, parentId, isCut, depth FROM SLIPSTREAM_CALLS JOIN SLIPSTREAM_STACKS s USING "
    "(stackId) "
    "UNION ALL SELECT f.correlationId, s.siteId, s.parentId, s.isCut, s.depth FROM frames f "
    "JOIN SLIPSTREAM_STACKS s ON s.stackId = f.parentId) "
    "SELECT correlationId, group_concat(coalesce(line, '?') || CASE isCut WHEN 1 THEN '...' ELSE '' END, ' ') FROM "
    "(SELECT * FROM frames ORDER BY correlationId, depth DESC) LEFT JOIN SLIPSTREAM_SITES USING (siteId) "
    "GROUP BY correlationId";

TEST_F(CallPlacesTest, AStackIsReadFromItsInnermostFrameOut) {
  {
    HandSpool spool(run_, "a.spool");
    for (const uint32_t line : {1U, 2U, 3U}) spool.Site(line, "train.py", static_cast<int32_t>(line), "step");
    spool.Thread(1, 100, "python");
    spool.Stack(2, 0, 1);
    spool.Stack(3, 2, 2);
    spool.Stack(4, 3, 3);
    spool.Stack(5, 2, 3);
    spool.Stack(6, tracer::kCutSpoolStack, 2);
    spool.Stack(7, 6, 3);
    spool.Stack(8, 3, 0);    // a frame that nobody can name
    spool.Stack(9, 3, 999);  // nor this one: damage
    std::vector<TraceRecord> calls;
    for (const uint32_t stack : {4U, 5U, 3U, 7U, 8U, 9U, 4U, 0U, 1U, 77U}) {
      calls.push_back(Call(10 * (calls.size() + 1), 0));
      calls.back().stack = stack;
    }
    spool.Records(1, calls);
    spool.End();
  }
  BuildWell();
  EXPECT_EQ(Query(kStackOfCalls), (Rows{{"1", "3 2 1"},
                                        {"2", "3 1"},
                                        {"3", "2 1"},
                                        {"4", "3 2..."},
                                        {"5", "? 2 1"},
                                        {"6", "? 2 1"},
                                        {"7", "3 2 1"}}));
  EXPECT_EQ(One("SELECT count(*) FROM SLIPSTREAM_CALLS WHERE stackId IS NULL"), "3");
  EXPECT_EQ(One("SELECT count(DISTINCT stackId) FROM SLIPSTREAM_CALLS"), "5");
  // Each row once, below its parent.
  EXPECT_EQ(One("SELECT count(*) FROM SLIPSTREAM_STACKS"), "7");
  EXPECT_EQ(One("SELECT count(*) FROM SLIPSTREAM_STACKS c JOIN SLIPSTREAM_STACKS p ON p.stackId = c.parentId "
                "WHERE c.depth != p.depth + 1 OR c.isCut"),
            "0");
  EXPECT_EQ(One("SELECT count(*) FROM SLIPSTREAM_STACKS WHERE parentId IS NULL AND depth != 0"), "0");
}

// Two processes number their lines and stacks each in its own way, and one sees two instructions of a line.
TEST_F(CallPlacesTest, AStackIsOneStackInEveryProcess) {
  for (const uint32_t offset : {0U, 10U}) {
    HandSpool spool(run_, std::to_string(offset) + ".spool");
    spool.Site(1 + offset, "train.py", 1, "main");
    spool.Site(2 + offset, "train.py", 2, "step");
    spool.Site(3 + offset, "train.py", 2, "step");
    spool.Thread(1, 100, "python");
    spool.Stack(2 + offset, 0, 1 + offset);
    spool.Stack(3 + offset, 2 + offset, 2 + offset);
    spool.Stack(4 + offset, 2 + offset, 3 + offset);
    std::vector<TraceRecord> calls = {Call(10, 0), Call(20, 0)};
    calls[0].stack = 3 + offset;
    calls[1].stack = 4 + offset;
    spool.Records(1, calls);
    spool.End();
  }
  BuildWell();
  EXPECT_EQ(One("SELECT count(DISTINCT stackId) FROM SLIPSTREAM_CALLS"), "1");
  EXPECT_EQ(One("SELECT count(*) FROM SLIPSTREAM_STACKS"), "2");
}

// As deep as a file can have it: nothing here recurses.
TEST_F(CallPlacesTest, AStackOfAnyDepth) {
  constexpr uint32_t kFrames = 50'000;
  {
    HandSpool spool(run_, "a.spool");
    spool.Site(1, "train.py", 1, "step");
    spool.Thread(1, 100, "python");
    for (uint32_t i = 0; i < kFrames; ++i) spool.Stack(2 + i, i == 0 ? 0 : 1 + i, 1);
    TraceRecord call = Call(10, 0);
    call.stack = 1 + kFrames;
    spool.Records(1, {call});
    spool.End();
  }
  BuildWell();
  EXPECT_EQ(One("SELECT depth FROM SLIPSTREAM_CALLS JOIN SLIPSTREAM_STACKS USING (stackId)"),
            std::to_string(kFrames - 1));
}

}  // namespace
}  // namespace slipstream::trace_db
