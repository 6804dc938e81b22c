// Spools that are cut, damaged, empty, foreign, or that say strange things: what can be read is in the database, what
// cannot is said, and a name is never more than a name.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "policy/text.h"
#include "tests/support/process.h"
#include "tests/trace_db/trace_db_testing.h"
#include "tools/trace/db/clean_text.h"
#include "tracer/spool/block_record.h"

namespace slipstream::trace_db {
namespace {

using tracer::NameTable;
using tracer::RecordKind;
using tracer::Slurp;
using tracer::Spit;

class StrangeSpoolsTest : public TraceDbTest {
 protected:
  // Of `calls` calls in chunks of ten.
  void Sample(const std::string& name, uint64_t calls = 100, const std::string& pid = "10") {
    HandSpool spool(run_, name);
    spool.Facts({{"pid", pid}, {"host", "node"}});
    spool.Name(NameTable::kHooks, 0, "cudaMalloc");
    spool.Clock(1, 2, 1'000'000);
    spool.Thread(1, 100, "main");
    for (uint64_t i = 0; i < calls; i += 10) {
      std::vector<tracer::TraceRecord> records;
      for (uint64_t j = i; j < i + 10; ++j) records.push_back(CallAt(10 + 10 * j, 15 + 10 * j));
      spool.Records(1, records);
    }
    spool.End();
  }
  std::string Calls() const { return One("SELECT count(*) FROM SLIPSTREAM_CALLS"); }
};

TEST_F(StrangeSpoolsTest, NoDirectoryNoSpoolsNothingReadable) {
  run_ = directory_ + "/gone";
  BuildResult result = Build();
  EXPECT_EQ(result.problem, BuildProblem::kNoRun);
  EXPECT_NE(result.what.find("gone: No such file or directory"), std::string::npos) << result.what;
  run_ = directory_ + "/run";
  Spit(run_ + "/notes.txt", "x");
  EXPECT_EQ(Build().problem, BuildProblem::kNoSpools);
  Spit(run_ + "/empty.spool", "");
  Spit(run_ + "/foreign.spool", std::string(1000, 'x'));
  ASSERT_EQ(mkfifo((run_ + "/pipe.spool").c_str(), 0600), 0);
  ASSERT_EQ(mkdir((run_ + "/directory.spool").c_str(), 0700), 0);
  result = Build();
  EXPECT_EQ(result.problem, BuildProblem::kNothingReadable);
  EXPECT_EQ(result.unreadable.size(), 4U);
  EXPECT_EQ(Names(), std::vector<std::string>{"run"});
}

TEST_F(StrangeSpoolsTest, WhatCannotBeReadIsNamedAndTheRestIsExported) {
  Sample("good.spool");
  Spit(run_ + "/empty.spool", "");
  Spit(run_ + "/foreign.spool", "PK\3\4" + std::string(1000, 'x'));
  const BuildResult result = Build();
  ASSERT_EQ(result.problem, BuildProblem::kNone) << result.what;
  EXPECT_TRUE(result.partial());
  ASSERT_EQ(result.unreadable.size(), 2U);
  EXPECT_EQ(result.unreadable[0].file, "empty.spool");
  EXPECT_NE(result.unreadable[0].why.find("too short"), std::string::npos);
  EXPECT_NE(result.unreadable[1].why.find("not a spool file"), std::string::npos);
  EXPECT_EQ(Calls(), "100");
}

TEST_F(StrangeSpoolsTest, OneSpoolByItsName) {
  Sample("a.spool", 100, "10");
  Sample("b.spool", 50, "11");
  run_ += "/b.spool";
  EXPECT_EQ(BuildWell().processes.size(), 1U);
  EXPECT_EQ(Calls(), "50");
}

// At every byte: whatever is left is exported, and what is not whole is said.
TEST_F(StrangeSpoolsTest, CutAnywhere) {
  Sample("a.spool", 30);
  const std::string whole = Slurp(run_ + "/a.spool");
  uint64_t last_calls = 0;
  for (size_t size = 0; size <= whole.size(); size += 7) {
    SCOPED_TRACE(size);
    Spit(run_ + "/a.spool", whole.substr(0, size));
    const BuildResult result = BuildTraceDatabase({.run = run_, .database = database_, .replace = true});
    if (size < sizeof(tracer::SpoolHeader)) {
      EXPECT_EQ(result.problem, BuildProblem::kNothingReadable);
      continue;
    }
    ASSERT_EQ(result.problem, BuildProblem::kNone) << result.what;
    ASSERT_EQ(result.processes.size(), 1U);
    const ExportedProcess& process = result.processes[0];
    EXPECT_EQ(process.end.read_bytes + process.end.left_bytes, size);
    EXPECT_EQ(result.partial(), process.end.left_bytes != 0);
    EXPECT_GE(process.calls, last_calls);
    last_calls = process.calls;
    EXPECT_EQ(Calls(), std::to_string(process.calls));
    EXPECT_EQ(One("SELECT complete FROM SLIPSTREAM_PROCESSES"), size == whole.size() ? "1" : "0");
    EXPECT_EQ(One("SELECT leftBytes FROM SLIPSTREAM_PROCESSES"), std::to_string(process.end.left_bytes));
    EXPECT_EQ(One("SELECT leftWhy IS NULL FROM SLIPSTREAM_PROCESSES"), process.end.left_bytes == 0 ? "1" : "0");
  }
  EXPECT_EQ(last_calls, 30U);
}

TEST_F(StrangeSpoolsTest, DamagedInTheMiddle) {
  Sample("a.spool", 100);
  std::string bytes = Slurp(run_ + "/a.spool");
  bytes[bytes.size() / 2] ^= 0x10;
  Spit(run_ + "/a.spool", bytes);
  const BuildResult result = Build();
  ASSERT_EQ(result.problem, BuildProblem::kNone);
  EXPECT_TRUE(result.partial());
  EXPECT_EQ(result.processes[0].calls, 90U) << "all but those of one chunk";
  EXPECT_EQ(Calls(), "90");
  const size_t chunk = sizeof(tracer::ChunkHeader) + sizeof(tracer::RecordsHead) + 10 * sizeof(tracer::TraceRecord);
  EXPECT_EQ(Query("SELECT complete, leftBytes, leftWhy, damagedBytes, missingChunks, missingRecords, malformedChunks "
                  "FROM SLIPSTREAM_PROCESSES"),
            (Rows{{"1", "0", "NULL", std::to_string(chunk), "1", "10", "0"}}));
  // From the end of the call before them to that of the one behind.
  EXPECT_EQ(Query("SELECT end - start, processId, thread, count, countUpToHere, isDamage FROM SLIPSTREAM_DROPS"),
            (Rows{{"110", "1", "1", "10", "10", "1"}}));
}

TEST_F(StrangeSpoolsTest, WhatADamagedPartSaidIsNotKnown) {
  {
    HandSpool spool(run_, "a.spool");
    spool.Facts({{"pid", "10"}, {"host", "node"}});  // 0
    spool.Name(NameTable::kHooks, 0, "cudaMalloc");
    spool.Name(NameTable::kCallers, 1, "/lib/libx.so");
    spool.Site(1, "train.py", 42, "step");
    spool.Thread(1, 100, "main");
    spool.Thread(2, 101, "worker");  // 5
    tracer::TraceRecord call = CallAt(10, 20);
    call.site = 1;
    spool.Records(
        1, {call,
            tracer::RecordOf({.start_ns = 10, .end_ns = 20, .address = 4096, .bytes = 64, .library = 1, .site = 1})});
    spool.Records(2, {CallAt(30, 40)});
    spool.End();
  }
  for (const size_t chunk : {1, 2, 3, 4}) tracer::DamageChunk(run_ + "/a.spool", chunk);
  const BuildResult result = Build();
  ASSERT_EQ(result.problem, BuildProblem::kNone);
  EXPECT_TRUE(result.partial());
  EXPECT_EQ(Query("SELECT value, globalTid & 0xFFFFFF, siteId FROM CUPTI_ACTIVITY_KIND_RUNTIME JOIN StringIds ON id = "
                  "nameId JOIN SLIPSTREAM_CALLS USING (correlationId) ORDER BY start"),
            (Rows{{"unknown function 0", "8388609", "NULL"}, {"unknown function 0", "101", "NULL"}}));
  EXPECT_EQ(Query("SELECT thread, tid, name, records FROM SLIPSTREAM_THREADS ORDER BY thread"),
            (Rows{{"1", "8388609", "NULL", "2"}, {"2", "101", "worker", "1"}}));
  EXPECT_EQ(Query("SELECT siteId, libraryId FROM SLIPSTREAM_ALLOCATIONS"), (Rows{{"NULL", "NULL"}}))
      << "an empty name would be the program itself";
  EXPECT_EQ(Query("SELECT missingChunks, missingRecords, malformedChunks FROM SLIPSTREAM_PROCESSES"),
            (Rows{{"4", "0", "0"}}));
}

// Nothing but that it does not crash, and that the database is one.
TEST_F(StrangeSpoolsTest, DamagedAnywhere) {
  Sample("a.spool", 50);
  const std::string whole = Slurp(run_ + "/a.spool");
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::string bytes = whole;
    for (auto changes = random() % 4; changes <= 4; ++changes)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    Spit(run_ + "/a.spool", bytes);
    const BuildResult result = BuildTraceDatabase({.run = run_, .database = database_, .replace = true});
    if (result.problem == BuildProblem::kNothingReadable) continue;
    ASSERT_EQ(result.problem, BuildProblem::kNone) << result.what;
    ASSERT_EQ(One("PRAGMA integrity_check"), "ok");
  }
}

TEST_F(StrangeSpoolsTest, EndedForAReason) {
  const auto end = [&](const char* name, tracer::EndReason reason, int error) {
    HandSpool spool(run_, name);
    spool.Clock(1, 2, 1'000'000);
    spool.End(reason, error);
  };
  end("1.spool", tracer::EndReason::kLimit, 0);
  end("2.spool", tracer::EndReason::kError, ENOSPC);
  end("3.spool", static_cast<tracer::EndReason>(99), 0);
  {
    HandSpool spool(run_, "4.spool");
    spool.Clock(1, 2, 1'000'000);
    spool.Stop(tracer::EndReason::kLimit);  // and was killed
  }
  {
    HandSpool spool(run_, "5.spool");
    spool.Clock(1, 2, 1'000'000);
    spool.Stop(tracer::EndReason::kLimit);
    spool.End(tracer::EndReason::kLimit, 0, /*later_calls=*/77);
  }
  BuildWell();
  EXPECT_EQ(Query("SELECT spoolFile, complete, endReason, endError, laterCalls FROM SLIPSTREAM_PROCESSES ORDER BY 1"),
            (Rows{{"1.spool", "1", "limit", "NULL", "0"},
                  {"2.spool", "1", "error", std::to_string(ENOSPC), "0"},
                  {"3.spool", "1", "unknown", "NULL", "0"},
                  {"4.spool", "1", "limit", "NULL", "NULL"},
                  {"5.spool", "1", "limit", "NULL", "77"}}));
  // Nothing was called, and a table without rows is not there.
  EXPECT_EQ(One("SELECT count(*) FROM sqlite_master WHERE name IN ('CUPTI_ACTIVITY_KIND_RUNTIME', 'ThreadNames', "
                "'NVTX_EVENTS')"),
            "0");
  EXPECT_EQ(Calls(), "0");
}

// Nothing is missing where the oldest records made room for the newest.
TEST_F(StrangeSpoolsTest, WhatWasGivenUpIsNotMissing) {
  {
    HandSpool spool(run_, "a.spool");
    const auto say = [&] {
      spool.Facts({{"pid", "10"}, {"host", "node"}});
      spool.Name(NameTable::kHooks, 0, "cudaMalloc");
      spool.Thread(1, 100, "main");
    };
    say();                                                                              // 0 to 2
    spool.Clock(1, 2, 1'000'000);                                                       // 3
    spool.Records(1, {CallAt(10, 15), CallAt(20, 25), tracer::StepRecord(10, 28, 0)});  // 4
    spool.Section(40);                                                                  // 5
    say();
    spool.Clock(41, 42, 1'000'040);
    // A call that ended before, a step that began before, and one that is there as a whole.
    spool.Records(1, {CallAt(30, 35), CallAt(50, 55), tracer::StepRecord(28, 60, 1), CallAt(70, 75),
                      tracer::StepRecord(60, 80, 2)});
    spool.GiveUp(5);
    spool.End();
  }
  tracer::ZeroChunksBefore(run_ + "/a.spool", 5);
  const BuildResult result = BuildWell();
  EXPECT_EQ(Query("SELECT givenUpRecords, keptFromNs - firstNs, lastNs - firstNs, calls, dropped, missingRecords, "
                  "missingChunks, damagedBytes, malformedChunks FROM SLIPSTREAM_PROCESSES"),
            (Rows{{"4", "0", "40", "3", "0", "0", "0", "0", "0"}}));
  EXPECT_EQ(Query("SELECT number, end - start FROM SLIPSTREAM_STEPS"), (Rows{{"2", "20"}}));
  EXPECT_EQ(One("SELECT name FROM SLIPSTREAM_THREADS"), "main");
  EXPECT_EQ(One("SELECT count(*) FROM SLIPSTREAM_DROPS"), "0");
  EXPECT_EQ(result.processes.at(0).end.given_up_records, 4U);
}

TEST_F(StrangeSpoolsTest, PausesOfTheRecording) {
  {
    HandSpool spool(run_, "a.spool");
    spool.Facts({{"pid", "10"}, {"host", "node"}});
    spool.Thread(1, 100, "main");
    spool.Clock(1, 2, 1'000'000);
    spool.Records(0,
                  {tracer::SwitchRecord(10, false), tracer::SwitchRecord(30, true), tracer::SwitchRecord(50, false),
                   tracer::SwitchRecord(55, false), tracer::SwitchRecord(70, true), tracer::SwitchRecord(90, false)});
    spool.Records(1, {CallAt(31, 35), CallAt(80, 85)});
    spool.Records(0, {tracer::ClockRecord(100, 101, 1'000'100, 0)});
    spool.End();
  }
  const BuildResult result = BuildWell();
  EXPECT_EQ(Query("SELECT start - (SELECT firstNs FROM SLIPSTREAM_PROCESSES), end - start FROM SLIPSTREAM_PAUSES ORDER "
                  "BY start"),
            (Rows{{"9", "20"}, {"49", "20"}, {"89", "11"}}))
      << "the second is said twice, and the last one goes on to the end";
  EXPECT_EQ(result.processes.at(0).end.missing_records, 0U);
}

TEST_F(StrangeSpoolsTest, OfANewerSlipstream) {
  {
    HandSpool spool(run_, "a.spool");
    spool.Thread(1, 100, "main");
    spool.Records(1, {CallAt(10, 20)});
    spool.Records(1, {CallAt(30, 40), CallAt(50, 60)}, tracer::kRecordVersion + 1);
    spool.End();
  }
  const BuildResult result = Build();
  EXPECT_EQ(result.problem, BuildProblem::kNone);
  EXPECT_TRUE(result.partial());
  EXPECT_EQ(One("SELECT skippedRecords FROM SLIPSTREAM_PROCESSES"), "2");
  EXPECT_EQ(Calls(), "1");
}

TEST_F(StrangeSpoolsTest, NamesAreOnlyNames) {
  const std::string injection = "x'); DROP TABLE SLIPSTREAM_CALLS; --\"%s?1";
  const std::string not_utf8 = "caf\xe9\xff/tr\xc3\xa4in.py";
  const std::string with_nul("a\0b", 3);
  {
    HandSpool spool(run_, "a';DROP.spool");
    spool.Facts({{"pid", "1 OR 1"},
                 {"rank", "99999999999999999999"},
                 {injection, injection},
                 {"", ""},
                 {"\xff", "1"},
                 {"\\xff", "2"},  // becomes the same text
                 {"command_line", std::string("python\0it's\0\0-x\0\xfe\0", 18)},
                 {"executable", "/usr/bin/" + injection},
                 {"host", not_utf8}});
    spool.Name(NameTable::kHooks, 0, injection);
    spool.Name(NameTable::kHooks, 1, with_nul);
    spool.Name(NameTable::kDecisions, 1, not_utf8);
    spool.Site(1, injection, 1, injection);
    spool.Site(2, not_utf8, 0, "");
    spool.Thread(1, 100, injection);
    tracer::TraceRecord one = CallAt(10, 20, 0);
    one.site = 1;
    one.decision = 1;
    tracer::TraceRecord two = CallAt(30, 40, 1);
    two.site = 2;
    two.decision = 9;
    tracer::TraceRecord three = CallAt(50, 60, 12345);
    three.site = 777;
    spool.Records(1, {one, two, three});
    spool.End();
  }
  BuildWell();
  const std::string clean = "caf\\xe9\\xff/tr\xc3\xa4in.py";
  EXPECT_EQ(Query("SELECT n.value, s.file, s.function, s.line, dn.value FROM CUPTI_ACTIVITY_KIND_RUNTIME r "
                  "JOIN StringIds n ON n.id = r.nameId JOIN SLIPSTREAM_CALLS USING (correlationId) "
                  "LEFT JOIN SLIPSTREAM_SITES s USING (siteId) LEFT JOIN SLIPSTREAM_DECISIONS d USING (correlationId) "
                  "LEFT JOIN StringIds dn ON dn.id = d.decisionId ORDER BY correlationId"),
            (Rows{{injection, injection, injection, "1", clean},
                  {"a\\0b", clean, "", "NULL", "unknown decision 9"},
                  {"unknown function 12345", "NULL", "NULL", "NULL", "NULL"}}));
  EXPECT_EQ(
      Query("SELECT pid, rank, executable, command, spoolFile, globalPid & 0xFFFFFFFFFFFF FROM SLIPSTREAM_PROCESSES"),
      (Rows{{"NULL", "NULL", "/usr/bin/" + injection, R"(python 'it'\''s' '' -x \xfe)", "a';DROP.spool", "0"}}));
  EXPECT_EQ(One("SELECT value FROM SLIPSTREAM_FACTS WHERE key LIKE '%DROP%'"), injection);
  EXPECT_EQ(One("SELECT name FROM SLIPSTREAM_HOSTS"), clean);
  EXPECT_EQ(One("SELECT name FROM SLIPSTREAM_THREADS"), injection);
}

// A call's decisions come before it, and name it.
TEST_F(StrangeSpoolsTest, DecisionsOfCallsThatAreMissing) {
  using tracer::DecisionMade;
  {
    HandSpool spool(run_, "a.spool");
    spool.Facts({{"pid", "7"}, {"host", "h"}});
    spool.Name(NameTable::kHooks, 0, "cudaFree");
    for (uint32_t i = 1; i <= 3; ++i) spool.Name(NameTable::kDecisions, i, "decision " + std::to_string(i));
    spool.Thread(1, 100, "main");
    spool.Thread(2, 101, "other");
    constexpr uint64_t kMissing = uint64_t{5} << 40 | 1;
    constexpr uint64_t kThere = uint64_t{5} << 40 | 2;
    tracer::TraceRecord call = CallAt(30, 40, 0);
    call.number = kThere;
    call.decision = 2;
    const auto known = tracer::Known::kMeasured;
    spool.Records(1, {RecordOf(DecisionMade{.at_ns = 31, .decision = 1, .bytes = 5, .call = kMissing}),
                      RecordOf(DecisionMade{
                          .at_ns = 32, .decision = 2, .time_ns = 8, .saved_ns = -8, .known = known, .call = kThere}),
                      RecordOf(DecisionMade{.at_ns = 33, .decision = 3, .bytes = 4096, .saved_ns = 3, .call = kThere}),
                      call, RecordOf(DecisionMade{.at_ns = 50, .decision = 1, .bytes = 6, .call = kMissing})});
    spool.Records(2,
                  {RecordOf(DecisionMade{.at_ns = 35, .decision = 1, .bytes = 7, .known = tracer::Known::kModeled})});
    spool.End();
  }
  BuildWell();
  EXPECT_EQ(
      Query("SELECT n.value, e.bytes, e.timeNs, e.savedNs, e.savedIsKnown, e.thread, f.value FROM "
            "SLIPSTREAM_DECISION_EVENTS e "
            "JOIN StringIds n ON n.id = e.decisionId LEFT JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId) "
            "LEFT JOIN StringIds f ON f.id = r.nameId ORDER BY time"),
      (Rows{{"decision 1", "5", "0", "0", "0", "1", "NULL"},
            {"decision 2", "0", "8", "-8", "1", "1", "cudaFree_v3020"},
            {"decision 3", "4096", "0", "3", "0", "1", "cudaFree_v3020"},
            {"decision 1", "7", "0", "0", "2", "2", "NULL"},
            {"decision 1", "6", "0", "0", "0", "1", "NULL"}}));
  EXPECT_EQ(Query("SELECT n.value, savedNs, callNumber FROM SLIPSTREAM_DECISIONS JOIN StringIds n ON n.id = decisionId "
                  "JOIN SLIPSTREAM_CALLS USING (correlationId)"),
            (Rows{{"decision 2", "-5", std::to_string(uint64_t{5} << 40 | 2)}}));
}

TEST_F(StrangeSpoolsTest, NumbersOfAnySize) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  {
    HandSpool spool(run_, "a.spool");
    spool.Thread(1, 0xffffffff, "main");
    tracer::TraceRecord call = CallAt(0, kMost);
    call.bytes = kMost;
    call.stream = kMost;
    call.number = kMost;
    const tracer::TraceRecord lost = RecordOf(tracer::DecisionMade{.at_ns = kMost,
                                                                   .bytes = kMost,
                                                                   .time_ns = kMost,
                                                                   .saved_ns = std::numeric_limits<int64_t>::min(),
                                                                   .call = kMost});
    call.device = std::numeric_limits<int16_t>::min();
    call.status = std::numeric_limits<int32_t>::min();
    call.stack = 0xffffffff;
    spool.Records(1, {lost, lost, call, tracer::DropRecord(kMost, 0, kMost, kMost), tracer::StepRecord(kMost, 0, kMost),
                      tracer::MarkRecord(kMost, 5, kMost), tracer::MemoryRecord(kMost, {.device = 40'000})});
    spool.Clock(kMost, kMost, kMost);
    spool.Clock(0, kMost, 0);
    spool.End();
  }
  EXPECT_EQ(Build().problem, BuildProblem::kNone);
  EXPECT_EQ(One("SELECT bytes FROM SLIPSTREAM_CALLS"), std::to_string(std::numeric_limits<int64_t>::max()));
  EXPECT_EQ(One("SELECT stream FROM SLIPSTREAM_CALLS"), "-1");
  EXPECT_EQ(One("SELECT globalTid & 0xFFFFFF FROM CUPTI_ACTIVITY_KIND_RUNTIME"), std::to_string(0xFFFFFF));
  EXPECT_EQ(One("SELECT (globalTid >> 24) & 0xFFFFFF FROM CUPTI_ACTIVITY_KIND_RUNTIME"), "0");
  EXPECT_EQ(One("SELECT savedNs FROM SLIPSTREAM_DECISIONS"), std::to_string(std::numeric_limits<int64_t>::min()));
}

// The same line is one line on every rank; the same number of a process twice is two processes.
TEST_F(StrangeSpoolsTest, WhatProcessesShare) {
  for (int i = 0; i < 3; ++i) {
    HandSpool spool(run_, std::to_string(i) + ".spool");
    spool.Facts({{"pid", "77"}, {"host", "node"}});
    spool.Name(NameTable::kHooks, static_cast<uint32_t>(i), "cudaMemcpyAsync");
    spool.Site(static_cast<uint32_t>(10 + i), "train.py", 42, "step");
    spool.Clock(1, 2, 1'000'000);
    spool.Thread(1, 100, "first");
    spool.Thread(2, 100, "");
    spool.Thread(3, 100, "last");
    tracer::TraceRecord call = CallAt(10, 20, static_cast<uint16_t>(i));
    call.site = static_cast<uint32_t>(10 + i);
    spool.Records(1, {call});
    spool.End();
  }
  BuildWell();
  EXPECT_EQ(One("SELECT count(*) FROM SLIPSTREAM_SITES"), "1");
  EXPECT_EQ(One("SELECT count(*) FROM SLIPSTREAM_CALLS JOIN SLIPSTREAM_SITES USING (siteId)"), "3");
  EXPECT_EQ(
      One("SELECT count(DISTINCT globalPid) || ' ' || count(DISTINCT (globalPid >> 24) & 0xFFFFFF) FROM PROCESSES"),
      "3 1");
  EXPECT_EQ(One("SELECT count(DISTINCT nameId) FROM CUPTI_ACTIVITY_KIND_RUNTIME"), "1");
  // One name a thread's number, or a report's join would count its calls twice.
  EXPECT_EQ(One("SELECT count(*) || ' ' || count(DISTINCT globalTid) FROM ThreadNames"), "3 3");
  EXPECT_EQ(One("SELECT DISTINCT value FROM ThreadNames JOIN StringIds ON id = nameId"), "last");
  EXPECT_EQ(One("SELECT count(*) FROM SLIPSTREAM_THREADS"), "9");
}

TEST_F(StrangeSpoolsTest, TheDriversFunctionsAreOfTheirOwnClass) {
  {
    HandSpool spool(run_, "a.spool");
    spool.Name(NameTable::kHooks, 0, "cuMemcpyHtoDAsync_v2");
    spool.Name(NameTable::kHooks, 1, "cudaMemcpyAsync_ptsz");
    spool.Thread(1, 100, "main");
    spool.Records(1, {CallAt(10, 20, 0), CallAt(30, 40, 1)});
    spool.End();
  }
  BuildWell();
  EXPECT_EQ(Query("SELECT value, e.name FROM CUPTI_ACTIVITY_KIND_RUNTIME JOIN StringIds ON StringIds.id = nameId "
                  "JOIN ENUM_NSYS_EVENT_CLASS e ON e.id = eventClass ORDER BY start"),
            (Rows{{"cuMemcpyHtoDAsync_v2", "TRACE_PROCESS_EVENT_CUDA_DRIVER"},
                  {"cudaMemcpyAsync_ptsz_v7000", "TRACE_PROCESS_EVENT_CUDA_RUNTIME"}}));
}

TEST(CleanTextTest, IsUtf8WithoutNulAndKeepsNamesApart) {
  EXPECT_EQ(CleanText(""), "");
  EXPECT_EQ(CleanText("tr\xc3\xa4in\n.py"), "tr\xc3\xa4in\n.py");
  EXPECT_EQ(CleanText(std::string("\xc3\0\xed\xa0\x80", 5)), R"(\xc3\0\xed\xa0\x80)");
  EXPECT_NE(CleanText("\xfe"), CleanText("\xff"));
}

TEST(CleanTextTest, CommandsAreWhatAShellTakes) {
  EXPECT_EQ(CommandText(std::string("python\0train.py\0--lr=0.1\0", 24)), "python train.py --lr=0.1");
  EXPECT_EQ(CommandText(std::string("sh\0-c\0echo $HOME\0", 17)), "sh -c 'echo $HOME'");
  EXPECT_EQ(CommandText("cut off"), "'cut off'");
  EXPECT_EQ(CommandText(""), "");
}

// More than memory may hold at once: what the export keeps does not grow with the records.
TEST_F(StrangeSpoolsTest, C18_AMillionRecordsInBoundedMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own memory grows";
#else
  constexpr uint64_t kRecords = 1'000'000;
  constexpr uint64_t kChunk = 1000;
  {
    HandSpool spool(run_, "a.spool");
    spool.Facts({{"pid", "10"}});
    spool.Name(NameTable::kHooks, 0, "cudaMalloc");
    spool.Thread(1, 100, "main");
    for (uint64_t i = 0; i < kRecords; i += kChunk) {
      std::vector<tracer::TraceRecord> records;
      for (uint64_t j = i; j < i + kChunk; ++j) records.push_back(CallAt(10 * j, 10 * j + 5));
      spool.Pass(10 * i);
      spool.Records(1, records);
    }
    spool.End();
  }
  // A process of its own: this one's peak may be another test's.
  const auto finished = test::InChild([&] {
    const auto peak_kib = [] {
      rusage usage{};
      getrusage(RUSAGE_SELF, &usage);
      return usage.ru_maxrss;
    };
    const long before = peak_kib();
    if (Build().problem != BuildProblem::kNone) return 1;
    // The pages that SQLite may keep are 64 MiB, and the records alone are 61 MiB.
    std::fprintf(stderr, "%ld MiB more\n", (peak_kib() - before) >> 10);
    return peak_kib() - before < 120 << 10 ? 0 : 2;
  });
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ(Calls(), std::to_string(kRecords));
  EXPECT_EQ(One("SELECT sum(end - start) FROM CUPTI_ACTIVITY_KIND_RUNTIME"), std::to_string(5 * kRecords));
#endif
}

}  // namespace
}  // namespace slipstream::trace_db
