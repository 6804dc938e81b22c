// What the exports write, read back row by row and compared with the database that it was made of.

#include "tools/trace/export/trace_export.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/trace_export/chrome_rows.h"
#include "tests/trace_export/expected_rows.h"
#include "tests/trace_export/perfetto_rows.h"
#include "tests/trace_export/random_trace.h"
#include "tracer/spool/range_record.h"

namespace slipstream::trace_export {
namespace {

class TraceExportTest : public trace_db::TraceDbTest {
 protected:
  void Make(const RandomTraceOptions& options) {
    RandomTrace trace(options);
    trace.WriteSpools(run_);
    BuildWell();
    trace.Complete(database_);
    devices_ = options.work && options.devices;
  }
  std::string FileOf(Format format) const { return directory_ + "/trace." + NameOf(format); }
  ExportOutcome Export(Format format, std::optional<int64_t> rank = std::nullopt) {
    trace_db::DatabaseReader reader(database_);
    ExportOutcome outcome = ExportTrace(
        reader, {.format = format, .run = database_, .file = FileOf(format), .replace = true, .rank = rank});
    EXPECT_EQ(outcome.problem, ExportProblem::kNone) << static_cast<int>(outcome.problem) << outcome.what;
    return outcome;
  }
  Lines Decoded(Format format) const {
    const std::string bytes = tracer::Slurp(FileOf(format));
    if (format == Format::kChrome) return ChromeRows(bytes).All();
    return PerfettoRows(bytes, std::stoll(One("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME"))).All();
  }
  Lines Expected(Format format, const std::string& where = "1") const {
    Lines lines = ExpectedRows(database_, format, where).All();
    if (format == Format::kPerfetto) return lines;
    // There, a device is a process of its own.
    const bool one = trace_db::Query(database_, "SELECT 1 FROM SLIPSTREAM_PROCESSES p WHERE " + where).size() == 1;
    for (std::string& line : lines) {
      if (line.starts_with("kernel ") || line.starts_with("gpu_") || line.starts_with("cuda_sync ")) {
        const size_t from = line.find("pid=") + 4;
        const std::string pid = line.substr(from, line.find(' ', from) - from);
        // The processes of a random trace: the second has the number 100, the first another one instead.
        const std::string process = pid == "10000001" ? "1" : pid == "100" ? "2" : "3";
        line.replace(from, pid.size(), one ? "only" : "of " + process);
      }
    }
    return Sorted(std::move(lines));
  }
  void ExpectEqual(const Lines& actual, const Lines& expected) {
    EXPECT_EQ(actual.size(), expected.size());
    Lines missing;
    Lines extra;
    std::set_difference(expected.begin(), expected.end(), actual.begin(), actual.end(), std::back_inserter(missing));
    std::set_difference(actual.begin(), actual.end(), expected.begin(), expected.end(), std::back_inserter(extra));
    constexpr size_t kShown = 5;
    for (size_t i = 0; i < std::min(kShown, missing.size()); ++i) ADD_FAILURE() << "missing: " << missing[i];
    for (size_t i = 0; i < std::min(kShown, extra.size()); ++i) ADD_FAILURE() << "not in the database: " << extra[i];
  }
  void ExpectSame(Format format) {
    Export(format);
    ExpectEqual(Decoded(format), Expected(format));
  }

  bool devices_ = false;
};

class EveryFormat : public TraceExportTest, public ::testing::WithParamInterface<Format> {};

TEST_P(EveryFormat, EveryRowOfARandomTrace) {
  for (uint32_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    std::filesystem::remove(database_);
    for (const auto& entry : std::filesystem::directory_iterator(run_)) std::filesystem::remove(entry);
    Make({.seed = seed});
    ExpectSame(GetParam());
  }
}

TEST_P(EveryFormat, WithoutWhatDevicesDid) {
  Make({.seed = 11, .work = false});
  ExpectSame(GetParam());
}

TEST_P(EveryFormat, WithDevicesThatNobodyDescribes) {
  Make({.seed = 12, .devices = false});
  ExpectSame(GetParam());
}

TEST_P(EveryFormat, WithCallStacks) {
  Make({.seed = 13, .stacks = true});
  ASSERT_GT(std::stoi(One("SELECT count(*) FROM SLIPSTREAM_STACKS WHERE parentId > 1")), 5);
  ExpectSame(GetParam());
}

TEST_P(EveryFormat, OfOneRank) {
  Make({.seed = 14});
  const ExportOutcome outcome = Export(GetParam(), 1);
  ASSERT_EQ(outcome.processes.size(), 1U);
  EXPECT_EQ(outcome.processes[0].pid, 100);
  EXPECT_EQ(outcome.processes[0].shown_pid, 100);
  EXPECT_EQ(outcome.processes[0].host, "node-a");
  EXPECT_EQ(outcome.rows.strays, 0U);
  ExpectEqual(Decoded(GetParam()), Expected(GetParam(), "p.rank = 1"));
}

TEST_P(EveryFormat, CountsWhatIsThere) {
  Make({.seed = 15});
  const ExportOutcome outcome = Export(GetParam());
  const auto count = [&](const std::string& table) {
    return static_cast<uint64_t>(std::stoll(One("SELECT count(*) FROM " + table)));
  };
  EXPECT_EQ(outcome.rows.calls, count("SLIPSTREAM_CALLS"));
  EXPECT_EQ(outcome.rows.kernels, count("CUPTI_ACTIVITY_KIND_KERNEL"));
  EXPECT_EQ(outcome.rows.copies, count("CUPTI_ACTIVITY_KIND_MEMCPY"));
  EXPECT_EQ(outcome.rows.sets, count("CUPTI_ACTIVITY_KIND_MEMSET"));
  EXPECT_EQ(outcome.rows.waits, count("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"));
  EXPECT_EQ(outcome.rows.steps, count("SLIPSTREAM_STEPS"));
  EXPECT_EQ(outcome.rows.memory, count("SLIPSTREAM_MEMORY"));
  EXPECT_EQ(outcome.rows.marks, count("SLIPSTREAM_MARKS"));
  EXPECT_EQ(outcome.rows.drops, count("SLIPSTREAM_DROPS"));
  EXPECT_EQ(outcome.bytes, std::filesystem::file_size(FileOf(GetParam())));
  ASSERT_EQ(outcome.processes.size(), 3U);
  EXPECT_EQ(outcome.processes[0].rank, 0);
  EXPECT_EQ(outcome.processes[1].shown_pid, 10'000'001);
}

// A clock that was put right may give what is before the first record.
TEST_P(EveryFormat, BeforeTheFirstMoment) {
  Make({.seed = 16});
  trace_db::Execute(database_, "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = -1234567 WHERE rowid = 1");
  ExpectSame(GetParam());
}

TEST_P(EveryFormat, RowsOfNobodyAreLeftOutAndCounted) {
  Make({.seed = 17});
  const Lines before = Expected(GetParam());
  trace_db::Execute(database_,
                    "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET SELECT start, end, deviceId, contextId, 0, streamId, "
                    "NULL, globalPid + (1 << 56) * 5, value, bytes, NULL, memKind FROM CUPTI_ACTIVITY_KIND_MEMSET "
                    "LIMIT 7");
  const ExportOutcome outcome = Export(GetParam());
  EXPECT_EQ(outcome.rows.strays, 7U);
  ExpectEqual(Decoded(GetParam()), before);
}

TEST_P(EveryFormat, CompressedIsTheSame) {
  Make({.seed = 18});
  Export(GetParam());
  trace_db::DatabaseReader reader(database_);
  const std::string packed = FileOf(GetParam()) + ".gz";
  const ExportOutcome outcome = ExportTrace(reader, {.format = GetParam(), .run = database_, .file = packed});
  ASSERT_EQ(outcome.problem, ExportProblem::kNone);
  EXPECT_EQ(outcome.bytes, std::filesystem::file_size(packed));
  const std::string plain = tracer::Slurp(FileOf(GetParam()));
  EXPECT_LT(outcome.bytes, plain.size() / 2);
  // gzopen would read a file that is not compressed, too.
  EXPECT_TRUE(tracer::Slurp(packed).starts_with("\x1f\x8b"));
  const gzFile file = gzopen(packed.c_str(), "rb");
  ASSERT_NE(file, nullptr);
  std::string unpacked(plain.size() + 1, '\0');
  EXPECT_EQ(static_cast<size_t>(gzread(file, unpacked.data(), static_cast<unsigned>(unpacked.size()))), plain.size());
  unpacked.resize(plain.size());
  EXPECT_TRUE(unpacked == plain);
  EXPECT_EQ(gzclose(file), Z_OK);
}

// More than the buffer holds, so that the file is written in pieces.
TEST_P(EveryFormat, LargerThanTheBuffer) {
  Make({.seed = 19, .calls = 3000, .work = false});
  ASSERT_GT(Export(GetParam()).bytes, uint64_t{4} * (256 << 10));
  ExpectEqual(Decoded(GetParam()), Expected(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(TraceExport, EveryFormat, ::testing::Values(Format::kChrome, Format::kPerfetto),
                         [](const auto& format) { return std::string(NameOf(format.param)); });

TEST_F(TraceExportTest, ChromeSaysWhatReadersOfTheProfilersTracesLookFor) {
  Make({.seed = 21});
  Export(Format::kChrome);
  const std::string text = tracer::Slurp(FileOf(Format::kChrome));
  const ChromeRows rows(text);
  const nlohmann::json& json = rows.json();
  EXPECT_EQ(json["schemaVersion"], 1);
  EXPECT_EQ(json["distributedInfo"]["rank"], 0);
  EXPECT_EQ(json["distributedInfo"]["world_size"], 2);
  EXPECT_EQ(json["baseTimeNanoseconds"], std::stoll(One("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME")));
  // Before the events, on one line, with a space.
  EXPECT_LT(text.find("\"distributedInfo\": {\"rank\": 0,"), text.find("\"traceEvents\""));
  ASSERT_EQ(json["deviceProperties"].size(), 2U);
  EXPECT_EQ(json["deviceProperties"][0]["id"], 0);
  EXPECT_EQ(json["deviceProperties"][0]["name"], "NVIDIA H200");
  EXPECT_EQ(json["deviceProperties"][0]["numSms"], 132);
  EXPECT_EQ(json["deviceProperties"][0]["maxThreadsPerMultiprocessor"], 2048);
  EXPECT_EQ(json["deviceProperties"][1]["name"], "NVIDIA A100");
  // Of a kernel, exactly these.
  std::set<std::string> keys;
  for (const auto& event : json["traceEvents"]) {
    if (event.value("cat", "") != "kernel") continue;
    for (const auto& [key, value] : event["args"].items()) keys.insert(key);
  }
  EXPECT_EQ(keys, (std::set<std::string>{"queued", "device", "context", "stream", "correlation", "graph node id",
                                         "registers per thread", "shared memory", "blocks per SM", "warps per SM",
                                         "grid", "block", "est. achieved occupancy %"}));
  for (const char* const expected :
       {"process_name 100 0 python\"3\"", "process_labels 100 0 CPU, rank 0, node-b",
        "process_labels 10000001 0 CPU, rank 1, node-a", "process_labels 102 0 CPU, node-a",
        "thread_name 100 100 thread 100 (main)", "process_labels 100002001 0 GPU 1",
        "process_command 102 0 python3 'train \xc3\xbc.py'"}) {
    EXPECT_EQ(rows.descriptions().count(expected), 1U) << expected;
  }
  EXPECT_EQ(json["traceEvents"][0]["ph"], "M");  // readers take the first event's number, 0, for none
}

// Where the program's own ranges are the steps, a range and its step have one name and one place.
TEST_F(TraceExportTest, ChromeHasAStepOfThePyTorchProfilerOnce) {
  {
    trace_db::HandSpool spool(run_, "0.spool");
    spool.Facts({{"pid", "100"}, {"host", "node"}});
    spool.Name(tracer::NameTable::kHooks, 0, "cudaMalloc");
    spool.Name(tracer::NameTable::kRanges, 1, "ProfilerStep#3");
    spool.Name(tracer::NameTable::kRanges, 2, "ProfilerStep#4");
    spool.Name(tracer::NameTable::kRanges, 3, "forward");
    spool.Clock(999, 1001, 1'000'000'000'000'000'000);
    spool.Thread(1, 100, "main");
    spool.Pass(1000);
    const auto range = [](uint64_t start, uint64_t end, uint32_t name) {
      return tracer::RecordOf(
          tracer::RangeRecord{.start_ns = start, .end_ns = end, .kind = tracer::RangeKind::kPushed, .name = name});
    };
    spool.Records(1, {trace_db::CallAt(2010, 2020), range(2000, 2050, 3), range(2000, 2100, 1), range(2100, 2200, 2)});
    spool.End();
  }
  BuildWell();
  ASSERT_EQ(One("SELECT count(*) FROM SLIPSTREAM_STEPS"), "2");
  Export(Format::kChrome);
  const nlohmann::json trace = nlohmann::json::parse(tracer::Slurp(FileOf(Format::kChrome)));
  std::multiset<std::string> names;
  for (const auto& event : trace["traceEvents"]) {
    if (event.value("cat", "") == "user_annotation") names.insert(event["name"].get<std::string>());
  }
  EXPECT_EQ(names, (std::multiset<std::string>{"ProfilerStep#3", "ProfilerStep#4", "forward"}));
}

TEST_F(TraceExportTest, ChromeCallsADeviceOfOneProcessByItsNumber) {
  Make({.seed = 22});
  Export(Format::kChrome, 0);
  const ChromeRows rows(tracer::Slurp(FileOf(Format::kChrome)));
  EXPECT_EQ(rows.descriptions().count("process_labels 1 0 GPU 1"), 1U);
}

TEST_F(TraceExportTest, PerfettoNamesItsTracks) {
  Make({.seed = 23});
  Export(Format::kPerfetto);
  const PerfettoRows rows(tracer::Slurp(FileOf(Format::kPerfetto)), 0);
  std::set<std::tuple<std::string, int64_t, int64_t>> named;  // with process and thread, -1: none
  for (const auto& [uuid, track] : rows.tracks())
    named.insert({track.name, track.pid.value_or(-1), track.tid.value_or(-1)});
  for (const auto& expected : std::vector<std::tuple<std::string, int64_t, int64_t>>{{"python\"3\"", 100, -1},
                                                                                     {"python\"3\"", 10'000'001, -1},
                                                                                     {"python\"3\"", 102, -1},
                                                                                     {"main", 100, 100},
                                                                                     {"thread 101", 100, 101},
                                                                                     {"main", 10'000'001, 100},
                                                                                     {"main", 102, 102},
                                                                                     {"stream 7", -1, -1},
                                                                                     {"GPU 1", -1, -1},
                                                                                     {"device 1 pool: live", -1, -1}}) {
    EXPECT_EQ(named.count(expected), 1U) << std::get<0>(expected);
  }
  for (const auto& [uuid, track] : rows.tracks()) {
    if (track.pid != 10'000'001 || track.tid) continue;
    EXPECT_EQ(track.command, "python3 'train \xc3\xbc.py'");
    EXPECT_EQ(track.labels, (std::vector<std::string>{"rank 1", "node-a"}));
  }
}

TEST_F(TraceExportTest, WhatCannotBeExported) {
  Make({.seed = 31, .calls = 60});
  const auto problem = [&](const ExportRequest& request) {
    trace_db::DatabaseReader reader(request.run);
    const ExportOutcome outcome = ExportTrace(reader, request);
    return outcome.problem;
  };
  const std::string file = FileOf(Format::kChrome);
  EXPECT_EQ(problem({.run = database_, .file = directory_ + "/missing/x.json"}), ExportProblem::kPlace);
  EXPECT_EQ(problem({.run = database_, .file = run_}), ExportProblem::kPlace);
  EXPECT_EQ(problem({.run = database_, .file = database_, .replace = true}), ExportProblem::kIsInput);
  EXPECT_EQ(problem({.run = database_, .file = file, .rank = 7}), ExportProblem::kNoRank);
  tracer::Spit(file, "x");
  EXPECT_EQ(problem({.run = database_, .file = file}), ExportProblem::kExists);
  EXPECT_EQ(tracer::Slurp(file), "x");
  std::filesystem::remove(file);
  // Of another program.
  const std::string other = directory_ + "/other.sqlite";
  trace_db::Execute(other, "CREATE TABLE x (y)");
  EXPECT_EQ(problem({.run = other, .file = file}), ExportProblem::kNotOurs);
  // Damaged: cut where the rows are.
  std::filesystem::resize_file(database_, std::filesystem::file_size(database_) / 2 / 4096 * 4096);
  EXPECT_EQ(problem({.run = database_, .file = file}), ExportProblem::kUnreadable);
  EXPECT_EQ(Names(), (std::vector<std::string>{"other.sqlite", "run", "trace.sqlite"}));
}

TEST_F(TraceExportTest, NothingIsLeftOfOneThatWasStopped) {
  Make({.seed = 32, .calls = 3000, .work = false});
  trace_db::DatabaseReader reader(database_);
  uint64_t seen = 0;
  const ExportOutcome outcome = ExportTrace(
      reader, {.run = database_, .file = FileOf(Format::kChrome), .progress = [&](uint64_t done, uint64_t total) {
                 EXPECT_LT(done, total);
                 seen = done;
                 return false;
               }});
  EXPECT_EQ(outcome.problem, ExportProblem::kStopped);
  EXPECT_GT(seen, 0U);
  EXPECT_EQ(Names(), (std::vector<std::string>{"run", "trace.sqlite"}));
}

}  // namespace
}  // namespace slipstream::trace_export
