// What real recorders wrote, against what they were told: row by row.

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <latch>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/trace_db/trace_db_testing.h"
#include "tests/tracer/fake_python.h"
#include "tests/tracer/pytorch_tree.h"
#include "tracer/base/hook_id.h"
#include "tracer/python/code_sites.h"

namespace slipstream::trace_db {
namespace {

using tracer::HookId;
using tracer::Index;
using tracer::kOneLine;
using tracer::RecordKind;
using tracer::TraceRecord;

class RecordedRowsTest : public TraceDbTest {
 protected:
  // Of a process that knows its Python's lines, and two decisions.
  void StartRecording() {
    tracer::RecorderOptions options = {.directory = run_};
    options.decisions = {"transfer.h2d.promoted.small", "transfer.d2h.declined.off"};
    recorder_ = tracer::StartRecorder(options);
    ASSERT_NE(recorder_, nullptr);
    sites_.reset(tracer::CodeSites::Create(python_.layout(), {}));
    recorder_->SetSites(sites_.get());
  }
  static std::string Number(uint64_t number) { return std::to_string(static_cast<int64_t>(number)); }
  size_t CallsInFileOf(pid_t pid) const {
    std::string error;
    for (const std::string& path : tracer::ListSpools(run_, &error)) {
      const tracer::Spool spool = tracer::ReadSpool(path);
      if (spool.reader != nullptr && spool.reader->facts().at(tracer::kFactPid) == std::to_string(pid)) {
        return spool.Of(RecordKind::kCall).size();
      }
    }
    return 0;
  }

  tracer::FakePython python_{0x030b00f0};
  std::unique_ptr<tracer::CodeSites> sites_;
  std::unique_ptr<tracer::Recorder> recorder_;
};

// A call in which every field is different, and differs from that of every other call.
TraceRecord MakeCall(uint64_t number, uint32_t site) {
  constexpr HookId kHooks[] = {HookId::cudaMemcpyAsync, HookId::cudaMalloc, HookId::cudaStreamSynchronize_ptsz};
  const uint64_t now = tracer::NowNs();
  return {.start_ns = now - 1000 - number,
          .end_ns = now,
          .bytes = number * 4096 + 1,
          .stream = 0xfedc000000000000 + number,
          .number = uint64_t{1} << 40 | number,
          .site = number % 2 == 0 ? site : 0,
          .correlation = number % 5 == 0 ? static_cast<uint32_t>(number + 7) : 0,
          .status = number % 7 == 0 ? 700 : 0,
          .hook = static_cast<uint16_t>(Index(kHooks[number % 3])),
          .decision = static_cast<uint16_t>(number % 3),
          .device = static_cast<int16_t>(static_cast<int>(number % 3) - 1),
          .kind = RecordKind::kCall};
}

// What that call's decisions saved: two of them, where there are any.
int64_t SavedBy(uint64_t number) { return number % 3 != 0 ? 1000 - static_cast<int64_t>(number) : 0; }

// The database is made where the files may not be: the process says where its PyTorch was.
TEST_F(RecordedRowsTest, AnEditablePyTorchIsALibrary) {
  const std::string torch = directory_ + "/src/torch";
  tracer::MakePyTorchTree(torch);
  ASSERT_NO_FATAL_FAILURE(StartRecording());
  uint64_t number = 0;
  for (const std::string& file :
       {directory_ + "/torch/train.py", torch + "/nn/modules/module.py", torch + "less/x.py"}) {
    const uintptr_t code = python_.NewCode({.file = file, .name = "step", .first_line = 7, .table = kOneLine});
    recorder_->Record(MakeCall(number, sites_->Intern({code, 0})));
    number += 2;
  }
  ASSERT_TRUE(recorder_->Finish(tracer::kForeverNs));
  std::filesystem::remove_all(torch);
  BuildWell();
  EXPECT_EQ(
      Query("SELECT file, isLibrary FROM SLIPSTREAM_SITES ORDER BY file"),
      (Rows{
          {torch + "/nn/modules/module.py", "1"}, {torch + "less/x.py", "0"}, {directory_ + "/torch/train.py", "0"}}));
  EXPECT_EQ(One("SELECT value FROM SLIPSTREAM_FACTS WHERE key = 'pytorch_folder'"), torch + "/");
}

TEST_F(RecordedRowsTest, EveryCallOfEveryThreadIsARow) {
  constexpr uint64_t kThreads = 4;
  constexpr uint64_t kCalls = 500;
  ASSERT_NO_FATAL_FAILURE(StartRecording());
  std::vector<uint32_t> lines;
  for (int32_t i = 0; i < static_cast<int32_t>(kThreads); ++i) {
    const uintptr_t code =
        python_.NewCode({.file = "train.py", .name = "step", .first_line = 7 + i, .table = kOneLine});
    lines.push_back(sites_->Intern({code, 0}));
  }
  std::map<uint64_t, std::vector<TraceRecord>> made;  // by thread
  std::vector<pid_t> ids(kThreads);
  std::vector<std::thread> running;
  for (uint64_t t = 0; t < kThreads; ++t) made[t];
  std::latch all_there(kThreads);  // or the system could give one's number to the next
  for (uint64_t t = 0; t < kThreads; ++t) {
    running.emplace_back([&, t] {
      prctl(PR_SET_NAME, ("worker-" + std::to_string(t)).c_str());
      ids[t] = gettid();
      all_there.arrive_and_wait();
      for (uint64_t i = 0; i < kCalls; ++i) {
        made[t].push_back(MakeCall(t * kCalls + i, lines[t]));
        const TraceRecord& call = made[t].back();
        if (call.decision != 0) {
          const int64_t saved = SavedBy(t * kCalls + i);
          tracer::DecisionMade decision = {
              .at_ns = call.end_ns, .decision = call.decision, .saved_ns = 1000, .call = call.number};
          recorder_->Record(RecordOf(decision));
          decision.saved_ns = saved - 1000;
          recorder_->Record(RecordOf(decision));
        }
        recorder_->Record(call);
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  ASSERT_TRUE(recorder_->Finish(tracer::kForeverNs));
  const BuildResult result = BuildWell();
  ASSERT_EQ(result.processes.size(), 1U);
  EXPECT_EQ(result.processes[0].calls, kThreads * kCalls);

  constexpr const char* kNames[] = {"cudaMemcpyAsync_v3020", "cudaMalloc_v3020", "cudaStreamSynchronize_ptsz_v7000"};
  constexpr const char* kDecisions[] = {"", "transfer.h2d.promoted.small", "transfer.d2h.declined.off"};
  const uint64_t zero = result.start_unix_ns - static_cast<uint64_t>(result.hosts.at(0).clocks.difference);
  for (uint64_t t = 0; t < kThreads; ++t) {
    SCOPED_TRACE("thread " + std::to_string(t));
    const Rows rows = Query(
        "SELECT r.start, r.end, r.eventClass, (r.globalTid >> 24) & 0xFFFFFF, n.value, r.returnValue, r.callchainId, "
        "c.bytes, c.stream, c.deviceId, c.cuptiCorrelation, s.file, s.line, s.function, s.isLibrary, dn.value, "
        "d.savedNs, d.bytes, c.processId, c.callNumber, c.insideCall, c.workIsOwn FROM CUPTI_ACTIVITY_KIND_RUNTIME r "
        "JOIN SLIPSTREAM_CALLS c USING (correlationId) JOIN StringIds n ON n.id = r.nameId "
        "LEFT JOIN SLIPSTREAM_SITES s USING (siteId) LEFT JOIN SLIPSTREAM_DECISIONS d USING (correlationId) "
        "LEFT JOIN StringIds dn ON dn.id = d.decisionId WHERE (r.globalTid & 0xFFFFFF) = " +
        std::to_string(ids[t]) + " ORDER BY r.correlationId");
    ASSERT_EQ(rows.size(), kCalls);
    for (size_t i = 0; i < kCalls; ++i) {
      const TraceRecord& call = made[t][i];
      const bool has_site = call.site != 0;
      const bool decided = call.decision != 0;
      const std::vector<std::string> expected = {Number(call.start_ns - zero),
                                                 Number(call.end_ns - zero),
                                                 "0",
                                                 std::to_string(getpid()),
                                                 kNames[(t * kCalls + i) % 3],
                                                 std::to_string(call.status),
                                                 "NULL",
                                                 Number(call.bytes),
                                                 Number(call.stream),
                                                 call.device < 0 ? "NULL" : std::to_string(call.device),
                                                 call.correlation == 0 ? "NULL" : std::to_string(call.correlation),
                                                 has_site ? "train.py" : "NULL",
                                                 has_site ? std::to_string(7 + t) : "NULL",
                                                 has_site ? "step" : "NULL",
                                                 has_site ? "0" : "NULL",
                                                 call.decision == 0 ? "NULL" : kDecisions[call.decision],
                                                 decided ? std::to_string(SavedBy(t * kCalls + i)) : "NULL",
                                                 decided ? Number(call.bytes) : "NULL",
                                                 "1",
                                                 Number(call.number),
                                                 "NULL",
                                                 "0"};
      ASSERT_EQ(rows[i], expected) << "call " << i;
    }
  }
  EXPECT_EQ(One("SELECT count(DISTINCT correlationId) FROM CUPTI_ACTIVITY_KIND_RUNTIME"), "2000");
  EXPECT_EQ(One("SELECT min(start) FROM (SELECT start FROM CUPTI_ACTIVITY_KIND_RUNTIME UNION ALL "
                "SELECT start FROM SLIPSTREAM_CLOCKS)"),
            "0");
  EXPECT_EQ(
      One("SELECT group_concat(value) FROM (SELECT n.value FROM ThreadNames t JOIN StringIds n ON n.id = t.nameId "
          "ORDER BY n.value)"),
      "worker-0,worker-1,worker-2,worker-3");
  EXPECT_EQ(One("SELECT count(*) FROM SLIPSTREAM_THREADS t WHERE records = 500 + (SELECT count(*) FROM "
                "SLIPSTREAM_DECISION_EVENTS e WHERE e.thread = t.thread) AND dropped = 0 AND ended = 1 "
                "AND (globalTid & 0xFFFFFF) = tid"),
            "4");
  // Two of each call that is no multiple of three.
  EXPECT_EQ(One("SELECT count(*) FROM SLIPSTREAM_DECISION_EVENTS"), "2666");
  EXPECT_EQ(One("SELECT count(*) FROM SLIPSTREAM_SITES"), "4");
}

TEST_F(RecordedRowsTest, WhatIsAtWork) {
  const uint64_t begin = 1'000'000;
  {
    HandSpool spool(run_, "0.spool");
    spool.Facts({{"pid", "7"}, {"host", "node"}});
    spool.Thread(1, 70, "main");
    spool.Pass(begin);
    // The first look comes 400 ns before the call, and has nothing before it.
    spool.Records(0, {tracer::RecordOf(tracer::TaskSample{.start_ns = begin, .end_ns = begin, .count = 12})});
    spool.Records(1, {{.start_ns = begin + 400, .end_ns = begin + 500, .kind = tracer::RecordKind::kCall}});
    spool.Records(0, {tracer::RecordOf(tracer::TaskSample{.start_ns = begin,
                                                          .end_ns = begin + 900,
                                                          .count = 13,
                                                          .busy = 2,
                                                          .has_times = true,
                                                          .ran_ns = uint64_t{1} << 40,
                                                          .waited_ns = 77,
                                                          .has_throttled = true,
                                                          .throttled = 3,
                                                          .throttled_ns = uint64_t{1} << 35}),
                      tracer::RecordOf(tracer::TaskSample{
                          .start_ns = begin, .end_ns = begin + 900, .of = tracer::TasksOf::kWorkers, .count = 4}),
                      tracer::RecordOf(tracer::TaskSample{.start_ns = begin,
                                                          .end_ns = begin + 950,
                                                          .of = tracer::TasksOf::kWorkers,
                                                          .count = 4,
                                                          .has_times = true,
                                                          .ran_ns = 7,
                                                          .has_began = true,
                                                          .began = 3}),
                      tracer::RecordOf(tracer::TaskSample{.start_ns = begin,
                                                          .end_ns = begin + 900,
                                                          .of = tracer::TasksOf::kThread,
                                                          .thread = 1,
                                                          .count = 1,
                                                          .busy = 1,
                                                          .has_times = true,
                                                          .ran_ns = 500,
                                                          .waited_ns = 5})});
    spool.End();
  }
  BuildWell();
  EXPECT_EQ(Query("SELECT start, end, kind, thread, count, busy, ranNs, waitedNs, throttled, throttledNs, "
                  "began FROM SLIPSTREAM_TASKS ORDER BY end, kind"),
            (Rows{{"0", "0", "0", "NULL", "12", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL"},
                  {"0", "900", "0", "NULL", "13", "2", Number(uint64_t{1} << 40), "77", "3", Number(uint64_t{1} << 35),
                   "NULL"},
                  {"0", "900", "1", "NULL", "4", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL"},
                  {"0", "900", "2", "1", "1", "1", "500", "5", "NULL", "NULL", "NULL"},
                  {"0", "950", "1", "NULL", "4", "0", "7", "0", "NULL", "NULL", "3"}}));
}

TEST_F(RecordedRowsTest, WhatCopiesCarry) {
  constexpr uint64_t kContents = 0xfedcba9876543210;
  auto recorder = tracer::StartRecorder({.directory = run_});
  ASSERT_NE(recorder, nullptr);
  const uint64_t now = tracer::NowNs();
  recorder->Record(RecordOf(tracer::DecisionMade{.at_ns = now, .decision = 1, .bytes = 5, .contents = kContents}));
  recorder->Record(RecordOf(tracer::DecisionMade{.at_ns = now + 1, .decision = 1, .bytes = 6}));
  ASSERT_TRUE(recorder->Finish(tracer::kForeverNs));
  BuildWell();
  EXPECT_EQ(Query("SELECT bytes, contents FROM SLIPSTREAM_DECISION_EVENTS ORDER BY bytes"),
            (Rows{{"5", Number(kContents)}, {"6", "NULL"}}));
}

// A look reaches back to the one before, which may be in front of all that was kept.
TEST_F(RecordedRowsTest, ALookDoesNotMakeTheTraceLonger) {
  const uint64_t begin = 9'000'000;
  {
    HandSpool spool(run_, "0.spool");
    spool.Facts({{"pid", "7"}, {"host", "node"}});
    spool.Thread(1, 70, "main");
    spool.Pass(begin);
    spool.Records(1, {{.start_ns = begin, .end_ns = begin + 10, .kind = tracer::RecordKind::kCall}});
    spool.Records(0,
                  {tracer::RecordOf(tracer::TaskSample{.start_ns = begin - 5000, .end_ns = begin + 20, .count = 1})});
    spool.End();
  }
  BuildWell();
  EXPECT_EQ(Query("SELECT firstNs, lastNs FROM SLIPSTREAM_PROCESSES"), (Rows{{"0", "20"}}));
  EXPECT_EQ(Query("SELECT start, end FROM SLIPSTREAM_TASKS"), (Rows{{"-5000", "20"}}));
}

TEST_F(RecordedRowsTest, OtherKindsOfRecords) {
  tracer::RecorderOptions options = {.directory = run_};
  options.facts = {{"policy", "defaults"}};
  auto recorder = tracer::StartRecorder(options);
  ASSERT_NE(recorder, nullptr);
  const uint64_t now = tracer::NowNs();
  recorder->Record(tracer::MarkRecord(now, 0, 0xabcdef));
  recorder->Record(tracer::StepRecord(now, now + 50, 12));
  recorder->Record(tracer::StepRecord(now + 50, now + 90, 13));
  recorder->Record(tracer::MemoryRecord(
      now + 5,
      {.device = 2, .live_bytes = 11, .idle_bytes = uint64_t{1} << 50, .parked_bytes = 3, .trims = 4, .retries = 5}));
  recorder->Record(tracer::MemoryRecord(
      now + 6, {.device = 2, .live_bytes = 7, .device_used = (uint64_t{3} << 32) + 5, .largest_idle = 0}));
  recorder->Record(tracer::MemoryRecord(now + 7, {.device = 2, .live_bytes = 8, .largest_idle = 3 * 1024 + 1}));
  ASSERT_TRUE(recorder->Finish(tracer::kForeverNs));
  const BuildResult result = BuildWell();
  const uint64_t zero = result.start_unix_ns - static_cast<uint64_t>(result.hosts.at(0).clocks.difference);
  const std::string tid = std::to_string(gettid());
  EXPECT_EQ(Query("SELECT start, processId, thread, globalTid & 0xFFFFFF, value, siteId FROM SLIPSTREAM_MARKS"),
            (Rows{{Number(now - zero), "1", "1", tid, std::to_string(0xabcdef), "NULL"}}));
  EXPECT_EQ(Query("SELECT start, end - start, thread, globalTid & 0xFFFFFF, number FROM SLIPSTREAM_STEPS"),
            (Rows{{Number(now - zero), "50", "1", tid, "12"}, {Number(now + 50 - zero), "40", "1", tid, "13"}}));
  EXPECT_EQ(Query("SELECT e.start, e.end - e.start, t.label, e.text, e.uint64Value, e.domainId, e.globalTid & 0xFFFFFF "
                  "FROM NVTX_EVENTS e JOIN ENUM_NSYS_EVENT_TYPE t ON t.id = e.eventType"),
            (Rows{{Number(now - zero), "50", "NvtxStartEndRange", "step", "12", "0", tid},
                  {Number(now + 50 - zero), "40", "NvtxStartEndRange", "step", "13", "0", tid}}));
  EXPECT_EQ(Query("SELECT start, deviceId, liveBytes, idleBytes, parkedBytes, trims, retries, deviceUsedBytes, "
                  "largestIdleBytes FROM SLIPSTREAM_MEMORY ORDER BY start"),
            (Rows{{Number(now + 5 - zero), "2", "11", Number(uint64_t{1} << 50), "3", "4", "5", "NULL", "NULL"},
                  {Number(now + 6 - zero), "2", "7", "0", "0", "0", "0", Number((uint64_t{3} << 32) + 5), "0"},
                  {Number(now + 7 - zero), "2", "8", "0", "0", "0", "0", "NULL", "3072"}}));
  EXPECT_EQ(One("SELECT value FROM SLIPSTREAM_FACTS WHERE key = 'policy'"), "defaults");
  EXPECT_EQ(One("SELECT count(*) FROM SLIPSTREAM_CLOCKS WHERE monotonicBeforeNs <= monotonicAfterNs AND "
                "start = monotonicBeforeNs - " +
                Number(zero) + " AND monotonicRawNs > 0 AND realtimeNs > 1000000000"),
            One("SELECT count(*) FROM SLIPSTREAM_CLOCKS"));
  EXPECT_NE(One("SELECT count(*) FROM SLIPSTREAM_CLOCKS"), "0");
}

// A ring of eight records, filled before the writer is awake again.
TEST_F(RecordedRowsTest, WhatWasDroppedIsSaid) {
  tracer::RecorderOptions options = {.directory = run_};
  options.ring_records = 8;
  auto recorder = tracer::StartRecorder(options);
  ASSERT_NE(recorder, nullptr);
  for (int i = 0; i < 199'999; ++i) recorder->Record(tracer::NumberedCall(static_cast<uint64_t>(i)));
  // What is missing is said with the first record for which there is room again.
  while (tracer::t_recorder_place.ring->Available() != 0) std::this_thread::yield();
  recorder->Record(tracer::NumberedCall(199'999));
  ASSERT_TRUE(recorder->Finish(tracer::kForeverNs));
  const BuildResult result = BuildWell();
  ASSERT_EQ(result.processes.size(), 1U);
  const uint64_t dropped = result.processes[0].end.dropped;
  EXPECT_GT(dropped, 0U);
  EXPECT_EQ(result.processes[0].calls + dropped, 200'000U);
  EXPECT_EQ(One("SELECT dropped FROM SLIPSTREAM_PROCESSES"), std::to_string(dropped));
  EXPECT_EQ(One("SELECT sum(dropped) FROM SLIPSTREAM_THREADS"), std::to_string(dropped));
  EXPECT_EQ(One("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME"), std::to_string(200'000 - dropped));
  // Each says how many there were up to it.
  EXPECT_EQ(One("SELECT count(*) FROM (SELECT countUpToHere - sum(count) OVER (ORDER BY rowid) AS off "
                "FROM SLIPSTREAM_DROPS) WHERE off != 0"),
            "0");
  EXPECT_NE(One("SELECT count(*) FROM SLIPSTREAM_DROPS"), "0");
}

// Ranks on one host: three processes, and a fourth that SIGKILL ended.
TEST_F(RecordedRowsTest, ProcessesSideBySide) {
  constexpr int kRanks = 4;
  std::map<std::string, int> rank_of;  // by pid
  for (int rank = 0; rank < kRanks; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      tracer::RecorderOptions options = {.directory = run_};
      options.period_ns = 1'000'000;
      options.job = {.launcher = "torchrun", .job = "j", .rank = rank, .local_rank = rank % 2, .world_size = kRanks};
      tracer::SpoolFailure why;
      tracer::Recorder* const recorder = tracer::Recorder::Start(options, &why);
      if (recorder == nullptr) _exit(1);
      for (int i = 0; i < 10 * (rank + 1); ++i) recorder->Record(tracer::NumberedCall(static_cast<uint64_t>(i)));
      if (rank == 3) {
        while (CallsInFileOf(getpid()) != 40) usleep(100);
        kill(getpid(), SIGKILL);
      }
      _exit(recorder->Finish(tracer::kForeverNs) ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, rank == 3 ? SIGKILL : 0);
    rank_of[std::to_string(child)] = rank;
  }
  const BuildResult result = BuildWell();
  EXPECT_EQ(result.processes.size(), static_cast<size_t>(kRanks));
  EXPECT_EQ(result.hosts.size(), 1U);
  char executable[4096] = {};
  ASSERT_GT(readlink("/proc/self/exe", executable, sizeof(executable) - 1), 0);
  const Rows rows = Query(
      "SELECT pid, parentPid, rank, localRank, worldSize, launcher, job, complete, endReason, endError, calls, "
      "(globalPid >> 24) & 0xFFFFFF, hostId, executable, dropped FROM SLIPSTREAM_PROCESSES ORDER BY rank");
  ASSERT_EQ(rows.size(), static_cast<size_t>(kRanks));
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto& row = rows[static_cast<size_t>(rank)];
    const std::string& pid = row[0];
    EXPECT_EQ(rank_of.at(pid), rank);
    const bool killed = rank == 3;
    const std::vector<std::string> expected = {pid,
                                               std::to_string(getpid()),
                                               std::to_string(rank),
                                               std::to_string(rank % 2),
                                               "4",
                                               "torchrun",
                                               "j",
                                               killed ? "0" : "1",
                                               killed ? "NULL" : "finished",
                                               "NULL",
                                               std::to_string(10 * (rank + 1)),
                                               pid,
                                               "1",
                                               executable,
                                               "0"};
    EXPECT_EQ(row, expected);
    EXPECT_EQ(One("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE (globalTid >> 24) & 0xFFFFFF = " + pid),
              std::to_string(10 * (rank + 1)));
    EXPECT_EQ(One("SELECT name FROM PROCESSES WHERE pid = " + pid), executable);
  }
  EXPECT_EQ(One("SELECT count(DISTINCT correlationId) FROM CUPTI_ACTIVITY_KIND_RUNTIME"), "100");
  EXPECT_EQ(One("SELECT count(DISTINCT globalPid) FROM SLIPSTREAM_PROCESSES"), "4");
  // One time base: they ran one after the other.
  EXPECT_EQ(One("SELECT count(*) FROM SLIPSTREAM_PROCESSES a JOIN SLIPSTREAM_PROCESSES b ON b.rank = a.rank + 1 "
                "WHERE a.lastNs <= b.firstNs"),
            "3");
}

TEST_F(RecordedRowsTest, TheFileIsPrivateAndOfTheExpectedLayout) {
  auto recorder = tracer::StartRecorder({.directory = run_});
  ASSERT_NE(recorder, nullptr);
  recorder->Record(tracer::NumberedCall(1));
  ASSERT_TRUE(recorder->Finish(tracer::kForeverNs));
  const BuildResult result = BuildWell();
  struct stat facts {};
  ASSERT_EQ(stat(database_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0600U);
  EXPECT_EQ(static_cast<uint64_t>(facts.st_size), result.database_bytes);
  EXPECT_EQ(Names(), (std::vector<std::string>{"run", "trace.sqlite"}));
  EXPECT_EQ(One("PRAGMA integrity_check"), "ok");
  EXPECT_EQ(TablesOf(database_), (std::vector<std::string>{"ANALYSIS_DETAILS",
                                                           "CUPTI_ACTIVITY_KIND_RUNTIME",
                                                           "ENUM_CUDA_MEMCPY_OPER",
                                                           "ENUM_CUDA_MEM_KIND",
                                                           "ENUM_CUPTI_SYNC_TYPE",
                                                           "ENUM_NSYS_EVENT_CLASS",
                                                           "ENUM_NSYS_EVENT_TYPE",
                                                           "META_DATA_EXPORT",
                                                           "PROCESSES",
                                                           "SLIPSTREAM_ADDRESSES",
                                                           "SLIPSTREAM_ALLOCATIONS",
                                                           "SLIPSTREAM_CALLS",
                                                           "SLIPSTREAM_CLOCKS",
                                                           "SLIPSTREAM_COUNTERS",
                                                           "SLIPSTREAM_DECISIONS",
                                                           "SLIPSTREAM_DECISION_EVENTS",
                                                           "SLIPSTREAM_DEVICES",
                                                           "SLIPSTREAM_DEVICE_CLOCKS",
                                                           "SLIPSTREAM_DEVICE_PERIODS",
                                                           "SLIPSTREAM_DEVICE_WORK",
                                                           "SLIPSTREAM_DROPS",
                                                           "SLIPSTREAM_FACTS",
                                                           "SLIPSTREAM_HOSTS",
                                                           "SLIPSTREAM_MARKS",
                                                           "SLIPSTREAM_MEMORY",
                                                           "SLIPSTREAM_MODULES",
                                                           "SLIPSTREAM_PAUSES",
                                                           "SLIPSTREAM_PROCESSES",
                                                           "SLIPSTREAM_SITES",
                                                           "SLIPSTREAM_STACKS",
                                                           "SLIPSTREAM_STEPS",
                                                           "SLIPSTREAM_TASKS",
                                                           "SLIPSTREAM_THREADS",
                                                           "StringIds",
                                                           "TARGET_INFO_SESSION_START_TIME",
                                                           "TARGET_INFO_SYSTEM_ENV",
                                                           "ThreadNames"}));
  EXPECT_EQ(One("SELECT value FROM META_DATA_EXPORT WHERE name = 'EXPORT_SCHEMA_VERSION'"), "3.16.1");
  EXPECT_EQ(One("SELECT value FROM META_DATA_EXPORT WHERE name = 'EXPORT_SCHEMA_VERSION_MINOR'"), "16");
  EXPECT_EQ(One("SELECT label FROM ENUM_CUDA_MEM_KIND WHERE id = 1"), "Pinned");
  EXPECT_EQ(One("SELECT label FROM ENUM_CUDA_MEMCPY_OPER WHERE id = 1"), "Host-to-Device");
  EXPECT_EQ(Query("SELECT id, label FROM ENUM_CUPTI_SYNC_TYPE ORDER BY id"), (Rows{{"0", "Unknown"},
                                                                                   {"1", "Event sync"},
                                                                                   {"2", "Stream wait sync"},
                                                                                   {"3", "Stream sync"},
                                                                                   {"4", "Context sync"}}));
  EXPECT_EQ(One("SELECT name FROM ENUM_NSYS_EVENT_TYPE WHERE id = 59"), "NvtxPushPopRange");
  EXPECT_EQ(One("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME"), std::to_string(result.start_unix_ns));
  EXPECT_EQ(One("SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'Hostname'"), tracer::HostName());
  EXPECT_EQ(One("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN ThreadNames USING (globalTid)"), "1");
}

}  // namespace
}  // namespace slipstream::trace_db
