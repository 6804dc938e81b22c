// What files of a recorded run have, lack and contradict: each thing in a spool that the test made wrong by hand.

#include "tools/trace/check/check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "tests/trace_db/trace_db_testing.h"
#include "tools/trace/check/counter_check.h"
#include "tracer/spool/block_record.h"
#include "tracer/spool/range_record.h"

namespace slipstream::trace_check {
namespace {

using trace_db::HandSpool;
using tracer::Counted;
using tracer::CountersEntry;
using tracer::NameTable;
using tracer::TraceRecord;

enum Hook : uint16_t { kCopy, kLaunch };
constexpr uint16_t kPromoted = 1;

class CheckTest : public trace_db::TraceDbTest {
 protected:
  static void Introduce(HandSpool* spool) {
    spool->Facts({{"pid", "100"}, {"host", "node"}, {"rank", "0"}, {"executable", "/usr/bin/python3"}});
    spool->Name(NameTable::kHooks, kCopy, "cudaMemcpyAsync");
    spool->Name(NameTable::kHooks, kLaunch, "cudaLaunchKernel");
    spool->Name(NameTable::kDecisions, kPromoted, "transfer.h2d.promoted.small");
    spool->Records(0, {tracer::ClockRecord(999, 1001, 1'000'000'000'000'000'000, 5000)});
    spool->Thread(1, 100, "main");
  }
  // From 2000 on, 100 ns each with 100 ns in between, with numbers of their own.
  static std::vector<TraceRecord> Calls(uint64_t count, uint16_t hook = kCopy, uint64_t first = 2000) {
    std::vector<TraceRecord> calls;
    for (uint64_t i = 0; i < count; ++i) {
      TraceRecord call = trace_db::CallAt(first + 200 * i, first + 200 * i + 100, hook);
      call.number = first + i;
      call.bytes = hook == kCopy ? 64 : 0;
      calls.push_back(call);
    }
    return calls;
  }
  static Counted Of(uint64_t calls, uint64_t bytes, uint64_t errors = 0, uint64_t time = 0) {
    return {.calls = calls, .errors = errors, .bytes = bytes, .time_ns = time};
  }
  static CountersEntry Exactly(uint32_t number, const Counted& counted) {
    return {.number = number, .at_least = counted, .at_most = counted};
  }

  // A process with these records, whose file ends well.
  void Sample(const std::vector<TraceRecord>& records, const std::vector<CountersEntry>& hooks,
              const std::vector<CountersEntry>& decisions = {}) {
    HandSpool spool(run_, "0.spool");
    Introduce(&spool);
    spool.Records(1, records);
    spool.Counters(NameTable::kHooks, hooks);
    spool.Counters(NameTable::kDecisions, decisions);
    spool.End();
  }
  void Whole(uint64_t calls) { Sample(Calls(calls), {Exactly(kCopy, Of(calls, 64 * calls, 0, 100 * calls))}); }

  Check Made() {
    EXPECT_EQ(Build().problem, trace_db::BuildProblem::kNone);
    return Again();
  }
  Check Again() {
    trace_db::DatabaseReader reader(database_);
    Check check = CheckTrace(&reader);
    EXPECT_TRUE(reader.ok()) << reader.error().text;
    return check;
  }
  std::string Warnings() {
    trace_db::DatabaseReader reader(database_);
    return FormatCounterWarnings(&reader);
  }
  void Execute(const std::string& sql) const { trace_db::Execute(database_, sql); }
  static std::vector<std::string> Texts(const std::vector<Finding>& findings) {
    std::vector<std::string> texts;
    for (const Finding& finding : findings) texts.push_back(finding.key + ": " + finding.text);
    return texts;
  }
  using List = std::vector<std::string>;
};

TEST_F(CheckTest, ARunOfWhichNothingIsMissing) {
  Whole(3);
  const Check check = Made();
  ASSERT_EQ(check.processes.size(), 1U);
  const ProcessCheck& process = check.processes[0];
  EXPECT_TRUE(check.whole());
  EXPECT_EQ(Texts(process.lacks), List());
  EXPECT_EQ(Texts(process.contradicts), List());
  EXPECT_EQ(process.counted, 3U);
  EXPECT_EQ(process.name, "python3 (pid 100, rank 0)");
  const auto calls = std::find_if(process.there.begin(), process.there.end(),
                                  [](const Amount& amount) { return amount.key == "calls"; });
  ASSERT_NE(calls, process.there.end());
  EXPECT_EQ(calls->count, 3U);
  EXPECT_EQ(Warnings(), "");
  EXPECT_NE(FormatCheck(check).find("nothing is missing: all of the 3 calls that it counted are there"),
            std::string::npos)
      << FormatCheck(check);
  EXPECT_NE(FormatCheck(check).find("1 of 1 file: nothing missing that is known, and no contradiction"),
            std::string::npos);
}

TEST_F(CheckTest, TheDatabaseHasWhatWasCounted) {
  Sample(Calls(2), {{.number = kCopy, .at_least = Of(2, 128, 1, 30), .at_most = Of(4, 200, 2, 50)}},
         {Exactly(kPromoted, Of(7, 9))});
  Made();
  EXPECT_EQ(Query("SELECT kind, value, calls, errors, bytes, timeNs, callsAtMost, errorsAtMost, bytesAtMost, "
                  "timeNsAtMost FROM SLIPSTREAM_COUNTERS LEFT JOIN StringIds ON id = nameId ORDER BY kind, value"),
            (trace_db::Rows{{"0", "NULL", "2", "1", "128", "30", "4", "2", "200", "50"},
                            {"0", "cudaMemcpyAsync_v3020", "2", "1", "128", "30", "4", "2", "200", "50"},
                            {"1", "NULL", "7", "0", "9", "0", "7", "0", "9", "0"},
                            {"1", "transfer.h2d.promoted.small", "7", "0", "9", "0", "7", "0", "9", "0"}}));
}

TEST_F(CheckTest, CallsThatWereCountedAndAreNotThere) {
  Sample(Calls(998), {Exactly(kCopy, Of(1000, 64'000))});
  const Check check = Made();
  EXPECT_FALSE(check.whole());
  EXPECT_EQ(
      Texts(check.processes[0].contradicts),
      (List{"counters: cudaMemcpyAsync_v3020: 1,000 calls counted, 998 in the trace, 0 records known to be missing"}));
  EXPECT_EQ(Warnings(),
            "  WARNING: 0.spool: cudaMemcpyAsync_v3020: 1,000 calls counted, 998 in the trace, 0 records known to be "
            "missing\n");
}

TEST_F(CheckTest, CallsThatAreThereAndWereNotCounted) {
  std::vector<TraceRecord> records = Calls(2);
  const std::vector<TraceRecord> launches = Calls(1, kLaunch, 9000);
  records.insert(records.end(), launches.begin(), launches.end());
  Sample(records, {Exactly(kCopy, Of(1, 64))});
  EXPECT_EQ(Texts(Made().processes[0].contradicts),
            (List{"counters: cudaMemcpyAsync_v3020: 1 calls counted, 2 in the trace, 0 records known to be missing",
                  "counters: cudaLaunchKernel_v7000: 0 calls counted, 1 in the trace, 0 records known to be missing"}));
}

// What was dropped is not said by function: all together, no more may be missing.
TEST_F(CheckTest, WhatIsKnownToBeMissingExplainsAsMuch) {
  for (const uint64_t counted : {6U, 7U}) {
    std::filesystem::remove_all(run_);
    std::filesystem::create_directory(run_);
    std::filesystem::remove(database_);
    std::vector<TraceRecord> records = Calls(4);
    records.push_back(tracer::DropRecord(3000, 3500, 2, 2));
    Sample(records, {Exactly(kCopy, Of(counted, 64 * counted))});
    const Check check = Made();
    EXPECT_EQ(Texts(check.processes[0].lacks),
              (List{"dropped: 2 records of thread 100 main from 2.00 us to 2.50 us, in 1 gap"}));
    EXPECT_EQ(Texts(check.processes[0].contradicts),
              counted == 6
                  ? List()
                  : List{"counters: cudaMemcpyAsync_v3020: 7 calls counted, 4 in the trace, 2 records known to "
                         "be missing"});
  }
}

TEST_F(CheckTest, BytesErrorsAndTimeAddUpToo) {
  std::vector<TraceRecord> records = Calls(3);
  records[1].status = 2;
  records[1].bytes = 0;
  Sample(records, {Exactly(kCopy, Of(3, 128, 1, 300))});
  EXPECT_EQ(Texts(Made().processes[0].contradicts), List());
  const std::string counters = "UPDATE SLIPSTREAM_COUNTERS SET ";
  Execute(counters + "bytes = 129, bytesAtMost = 129 WHERE kind = 0");
  EXPECT_EQ(
      Texts(Again().processes[0].contradicts),
      (List{"counters: cudaMemcpyAsync_v3020: 129 bytes counted, 128 in the trace, 0 records known to be missing"}));
  Execute(counters + "bytes = 128, bytesAtMost = 128, errors = 0, errorsAtMost = 0 WHERE kind = 0");
  EXPECT_EQ(Texts(Again().processes[0].contradicts),
            (List{"counters: cudaMemcpyAsync_v3020: 0 errors counted, 1 in the trace, 0 records known to be missing"}));
  Execute(counters + "errors = 1, errorsAtMost = 1, timeNs = 299, timeNsAtMost = 299 WHERE kind = 0");
  EXPECT_EQ(Texts(Again().processes[0].contradicts),
            (List{"counters: cudaMemcpyAsync_v3020: 299 ns counted, 300 in the trace, 0 records known to be missing"}));
  Execute(counters + "timeNs = 0, timeNsAtMost = 0 WHERE kind = 0");
  EXPECT_EQ(Texts(Again().processes[0].contradicts), List()) << "times are not counted";
}

TEST_F(CheckTest, WhatEndedWithTheRecordingMayBeThereOrNot) {
  for (const uint64_t there : {1U, 2U, 3U, 4U}) {
    std::filesystem::remove_all(run_);
    std::filesystem::create_directory(run_);
    std::filesystem::remove(database_);
    Sample(Calls(there), {{.number = kCopy, .at_least = Of(2, 128), .at_most = Of(3, 192)}});
    const Check check = Made();
    EXPECT_EQ(check.processes[0].contradicts.empty(), there == 2 || there == 3) << there;
    const List notes = Texts(check.processes[0].notes);
    EXPECT_NE(std::find(notes.begin(), notes.end(),
                        "while_ending: 1 call or decision was counted while the recording ended, and may be in the "
                        "trace or not"),
              notes.end());
  }
}

TEST_F(CheckTest, DecisionsAreHeldAgainstTheirCounters) {
  const tracer::DecisionMade made = {.at_ns = 2050, .decision = kPromoted, .bytes = 64, .call = 2000};
  std::vector<TraceRecord> records = Calls(1);
  records.insert(records.begin(), RecordOf(made));
  Sample(records, {Exactly(kCopy, Of(1, 64))}, {Exactly(kPromoted, Of(2, 128))});
  EXPECT_EQ(Texts(Made().processes[0].contradicts),
            (List{"counters: transfer.h2d.promoted.small: 2 times counted, 1 in the trace, 0 records known to be "
                  "missing"}));
}

// The other's chunk may be in a damaged part of the file.
TEST_F(CheckTest, TotalsOfDecisionsSayNothingAboutCalls) {
  {
    HandSpool spool(run_, "0.spool");
    Introduce(&spool);
    spool.Records(1, Calls(2));
    spool.Counters(NameTable::kDecisions, {});
    spool.End();
  }
  const Check check = Made();
  EXPECT_EQ(Texts(check.processes[0].contradicts), List());
  EXPECT_EQ(check.processes[0].counted, std::nullopt);
}

TEST_F(CheckTest, WithoutTotalsItSaysWhy) {
  const auto why = [&](const std::function<void(HandSpool*)>& end) {
    std::filesystem::remove_all(run_);
    std::filesystem::create_directory(run_);
    std::filesystem::remove(database_);
    {
      HandSpool spool(run_, "0.spool");
      Introduce(&spool);
      spool.Records(1, Calls(2));
      end(&spool);
    }
    const ProcessCheck process = Made().processes.at(0);
    EXPECT_EQ(process.counted, std::nullopt);
    EXPECT_EQ(Warnings(), "");
    for (const Finding& note : process.notes) {
      if (note.key == "counters_not_known") return note.text;
    }
    return std::string("nothing");
  };
  const std::string cannot = "its records cannot be held against its counters: ";
  EXPECT_EQ(why([](HandSpool* spool) { spool->Flush(); }),
            cannot + "the process was killed or still runs, and its totals are not in the file");
  EXPECT_EQ(why([](HandSpool* spool) { spool->End(tracer::EndReason::kLimit); }),
            cannot + "the recording ended before the process did");
  EXPECT_EQ(why([](HandSpool* spool) { spool->End(); }),
            cannot + "the process counts nothing, or an older slipstream recorded it");
}

TEST_F(CheckTest, WhatTheFileLacks) {
  {
    HandSpool spool(run_, "0.spool");
    Introduce(&spool);
    spool.Facts({{"sites.refused", "3"}});
    spool.Records(1, Calls(2));
    spool.Flush();
  }
  std::string bytes = tracer::Slurp(run_ + "/0.spool");
  const Check killed = Made();
  EXPECT_EQ(Texts(killed.processes[0].lacks),
            (List{"killed: its end: the process was killed or still runs, and its last moments may be missing",
                  "sites.refused: 3 lines of the program found no room"}));
  EXPECT_FALSE(killed.whole());
  tracer::Spit(run_ + "/0.spool", bytes.substr(0, bytes.size() - 3));
  std::filesystem::remove(database_);
  const Check cut = Made();
  EXPECT_EQ(cut.processes[0].lacks.at(0).key, "left");
  std::filesystem::remove(database_);
  tracer::DamageChunk(&bytes, 1);
  tracer::Spit(run_ + "/0.spool", bytes);
  const List damaged = Texts(Made().processes[0].lacks);
  EXPECT_EQ(damaged.at(1).substr(0, 17), "damaged: 1 chunk ") << damaged.at(1);
}

// While a recording is paused, devices may still be recorded: what they did then is not missing, nor are the totals.
TEST_F(CheckTest, WhatWasNotWantedIsNotMissing) {
  Whole(4);
  Made();
  Execute("DELETE FROM SLIPSTREAM_COUNTERS; INSERT OR REPLACE INTO SLIPSTREAM_DEVICE_WORK VALUES (1, 9, 0, 0, 7)");
  const auto keys = [](const std::vector<Finding>& findings) {
    List found;
    for (const Finding& finding : findings) found.push_back(finding.key);
    return found;
  };
  const Check without = Again();
  EXPECT_EQ(keys(without.processes.at(0).lacks), List{"work_without_call"});
  Execute("INSERT INTO SLIPSTREAM_PAUSES VALUES (1, 10, 20); UPDATE SLIPSTREAM_PROCESSES SET givenUpRecords = 5");
  const Check paused = Again();
  EXPECT_EQ(keys(paused.processes.at(0).lacks), List());
  EXPECT_EQ(keys(paused.processes.at(0).notes),
            (List{"given_up", "paused", "work_without_call", "counters_not_known"}));
}

TEST_F(CheckTest, WhatCannotHaveHappenedSo) {
  Whole(4);
  Made();
  const auto after = [&](const std::string& sql) {
    const std::string kept = tracer::Slurp(database_);
    Execute(sql);
    List keys;
    const Check check = Again();
    for (const Finding& finding : check.processes.at(0).contradicts) {
      if (finding.key != "counters") keys.push_back(finding.key);
    }
    tracer::Spit(database_, kept);
    return keys;
  };
  EXPECT_EQ(after("SELECT 1"), List());
  EXPECT_EQ(after("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET end = end + 101 WHERE rowid = 2"), List{"calls_overlap"});
  EXPECT_EQ(after("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET end = end + 100 WHERE rowid = 2"), List()) << "they touch";
  EXPECT_EQ(after("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET end = start - 1 WHERE rowid = 2"),
            List{"ends_before_starts"});
  EXPECT_EQ(after("INSERT INTO SLIPSTREAM_STEPS VALUES (5, 4, 1, 1, NULL, 0, NULL, 0)"), List{"ends_before_starts"});
  EXPECT_EQ(after("UPDATE SLIPSTREAM_PROCESSES SET dropped = 0; INSERT INTO SLIPSTREAM_DROPS VALUES (5, 6, 1, 1, NULL, "
                  "3, 3, 0)"),
            List{"dropped_sums"});
  const std::string event = "INSERT INTO SLIPSTREAM_DECISION_EVENTS SELECT start + ";
  const std::string rest =
      ", 1, 1, 1, correlationId, nameId, 0, 0, 0, 0, NULL FROM CUPTI_ACTIVITY_KIND_RUNTIME LIMIT 1";
  EXPECT_EQ(after(event + "100" + rest), List()) << "at its end";
  EXPECT_EQ(after(event + "101" + rest), List{"decisions_outside"});
}

TEST_F(CheckTest, MemoryThatIsGivenBackTwice) {
  const auto block = [](uint64_t at, bool allocated, uint64_t address) {
    return RecordOf(tracer::BlockRecord{.start_ns = at,
                                        .end_ns = at,
                                        .use = allocated ? tracer::MemoryUse::kAllocated : tracer::MemoryUse::kFreed,
                                        .address = address,
                                        .bytes = allocated ? uint64_t{64} : 0});
  };
  const auto found = [&](const std::vector<TraceRecord>& blocks) {
    std::filesystem::remove_all(run_);
    std::filesystem::create_directory(run_);
    std::filesystem::remove(database_);
    Sample(blocks, {});
    return Texts(Made().processes.at(0).contradicts);
  };
  EXPECT_EQ(found({block(10, true, 1), block(20, false, 1), block(30, true, 1), block(40, false, 1)}), List());
  EXPECT_EQ(found({block(10, false, 1), block(20, true, 1)}), List()) << "it was there before";
  EXPECT_EQ(found({block(10, true, 1), block(20, false, 1), block(30, false, 1)}),
            List{"freed_twice: 1 block of memory is given back twice"});
  EXPECT_EQ(found({block(10, true, 1), block(20, true, 1)}),
            List{"given_twice: 1 address is given out while it is in use"});
}

TEST_F(CheckTest, RangesThatCross) {
  const auto range = [](uint64_t from, uint64_t to) {
    return RecordOf(tracer::RangeRecord{.start_ns = from, .end_ns = to, .kind = tracer::RangeKind::kPushed, .name = 1});
  };
  const auto found = [&](const std::vector<TraceRecord>& ranges) {
    std::filesystem::remove_all(run_);
    std::filesystem::create_directory(run_);
    std::filesystem::remove(database_);
    Sample(ranges, {});
    return Texts(Made().processes.at(0).contradicts);
  };
  EXPECT_EQ(found({range(10, 20), range(20, 30), range(5, 40)}), List());
  EXPECT_EQ(found({range(10, 20), range(15, 30)}), List{"ranges_cross: 1 NVTX range crosses another one"});
}

TEST_F(CheckTest, ClocksThatDisagree) {
  const auto found = [&](const std::vector<TraceRecord>& clocks) {
    std::filesystem::remove_all(run_);
    std::filesystem::create_directory(run_);
    std::filesystem::remove(database_);
    {
      HandSpool spool(run_, "0.spool");
      spool.Facts({{"pid", "100"}, {"host", "node"}});
      spool.Records(0, clocks);
      spool.End();
    }
    List keys;
    const Check check = Made();
    for (const Finding& finding : check.processes.at(0).contradicts) keys.push_back(finding.key);
    return keys;
  };
  constexpr uint64_t kWall = 1'000'000'000'000'000'000;
  constexpr uint64_t kLater = 1'000'000'000;
  const TraceRecord first = tracer::ClockRecord(1000, 1010, kWall, 500);
  // 500 ppm are what a clock may be slewed by.
  EXPECT_EQ(found({first, tracer::ClockRecord(1000 + kLater, 1010 + kLater, kWall, 500 + kLater + 500'000)}), List());
  EXPECT_EQ(found({first, tracer::ClockRecord(1000 + kLater, 1010 + kLater, kWall, 500 + kLater + 2'000'000)}),
            List{"clock_disagree"});
}

TEST_F(CheckTest, NoLineIsTooLong) {
  Sample(Calls(1), {Exactly(kCopy, Of(123'456'789'012, 64))});
  Check check = Made();
  check.processes[0].name = std::string(300, 'x');
  check.unreadable.push_back("/data/" + std::string(200, 'y') + ": not a spool file");
  const std::string text = FormatCheck(check);
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    EXPECT_LE(end - at, 80U) << text.substr(at, end - at);
    at = end + 1;
  }
  EXPECT_NE(text.find("it contradicts itself"), std::string::npos);
  EXPECT_NE(text.find("cannot be read"), std::string::npos);
}

}  // namespace
}  // namespace slipstream::trace_check
