#include "tools/trace/export/trace_rows.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "tools/trace/db/bounded.h"
#include "tools/trace/db/clean_text.h"
#include "tools/trace/db/global_id.h"
#include "tools/trace/db/schema.h"

namespace slipstream::trace_export {
namespace {

using trace_db::BoundedCount;
using trace_db::BoundedEnd;
using trace_db::BoundedTime;
using trace_db::CleanText;
using trace_db::DatabaseReader;
using trace_db::kCopies;
using trace_db::kIdMask;
using trace_db::kKernels;
using trace_db::kNvtxMark;
using trace_db::kNvtxPushPopRange;
using trace_db::kNvtxStartEndRange;
using trace_db::kRuntime;
using trace_db::kSets;
using trace_db::kSynchronizations;
using trace_db::Question;

constexpr uint64_t kRowsBetweenLooks = 4096;
// Beyond every number that Linux gives a process (2^22).
constexpr int64_t kFirstShownPid = 10'000'000;

// Source of the tables and of what their numbers mean: Nsight Systems' "SQLite Schema Reference" and "SQLite Schema
// Event Values"; in ENUM_CUDA_MEM_KIND pageable is 0, unlike in CUPTI.
constexpr const char* kWorkTables[] = {kKernels.name, kCopies.name, kSets.name, kSynchronizations.name};

// The PyTorch profiler's words.
const char* CopyName(int64_t kind) {
  constexpr const char* kNames[] = {"Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD",
                                    "DtoA",    "DtoD", "HtoH", "PtoP", "HtoD", "DtoH", "DtoD"};
  return kind >= 0 && kind < static_cast<int64_t>(std::size(kNames)) ? kNames[kind] : "Unknown";
}
const char* MemoryName(int64_t kind) {
  constexpr const char* kNames[] = {"Pageable", "Pinned",        "Device",         "Array",
                                    "Managed",  "Device Static", "Managed Static", "Unknown"};
  return kind >= 0 && kind < static_cast<int64_t>(std::size(kNames)) ? kNames[kind] : "Unknown";
}
const char* WaitName(int64_t type) {
  constexpr const char* kNames[] = {"Unknown", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"};
  return type >= 0 && type < static_cast<int64_t>(std::size(kNames)) ? kNames[type] : "Unknown";
}

int64_t GlobalPidOf(int64_t global_tid) { return global_tid & ~kIdMask; }

// What devices did, of all tables in the order of time. `columns`: of WorkSelect.
enum Column : uint8_t {
  kKind,
  kStart,
  kEnd,
  kDevice,
  kContext,
  kStream,
  kCorrelation,
  kGlobalPid,
  kName,
  kShortName,
  kRegisters,
  kGridX,
  kGridY,
  kGridZ,
  kBlockX,
  kBlockY,
  kBlockZ,
  kStaticShared,
  kDynamicShared,
  kBytes,
  kCopyKind,
  kSourceKind,
  kTargetKind,
  kMemoryKind,
  kWaitType,
  kWaitIsOwn,
  kGraphNode,
  kColumns,
  kHasCall = kColumns,
  kIsOwn,
};
constexpr const char* kColumnNames[kColumns] = {"",
                                                "start",
                                                "end",
                                                "deviceId",
                                                "contextId",
                                                "streamId",
                                                "correlationId",
                                                "globalPid",
                                                "demangledName",
                                                "shortName",
                                                "registersPerThread",
                                                "gridX",
                                                "gridY",
                                                "gridZ",
                                                "blockX",
                                                "blockY",
                                                "blockZ",
                                                "staticSharedMemory",
                                                "dynamicSharedMemory",
                                                "bytes",
                                                "copyKind",
                                                "srcKind",
                                                "dstKind",
                                                "memKind",
                                                "syncType",
                                                "isOwn",
                                                "graphNodeId"};

// "SELECT ... FROM kernels UNION ALL ..."; empty: there are none. Columns that a table lacks are NULL.
std::string WorkSelect(DatabaseReader& database) {
  std::string sql;
  for (size_t kind = 0; kind < std::size(kWorkTables); ++kind) {
    if (!database.HasTable(kWorkTables[kind])) continue;
    sql += (sql.empty() ? "SELECT " : " UNION ALL SELECT ") + std::to_string(kind) + " AS kind";
    for (size_t i = kStart; i < kColumns; ++i) {
      const char* const name = kColumnNames[i];
      const std::string column = std::string("\"") + name + "\"";
      sql += ", " + (database.HasColumn(kWorkTables[kind], name) ? column : "NULL AS " + column);
    }
    sql += std::string(" FROM ") + kWorkTables[kind];
  }
  return sql;
}

// The correlations that there is work for, in ascending order, beside calls in theirs.
class WorkOfCalls {
 public:
  WorkOfCalls(DatabaseReader& database, const std::string& select) {
    if (select.empty()) return;
    question_.emplace(database, "SELECT DISTINCT correlationId FROM (" + select +
                                    ") WHERE correlationId IS NOT NULL AND kind < 3 ORDER BY 1");
    Advance();
  }
  // `correlation` must not be below the one before.
  bool Has(int64_t correlation) {
    while (next_ && *next_ < correlation) Advance();
    return next_ == correlation;
  }

 private:
  void Advance() { next_ = question_->Next() ? std::optional(question_->Number(0)) : std::nullopt; }

  std::optional<Question> question_;
  std::optional<int64_t> next_;
};

}  // namespace

bool TraceRows::IsOurs() {
  return database_.HasTable("SLIPSTREAM_PROCESSES") && database_.HasTable("SLIPSTREAM_CALLS") &&
         database_.HasTable("SLIPSTREAM_STEPS") && database_.HasTable("StringIds");
}

std::vector<int64_t> TraceRows::Ranks() {
  std::vector<int64_t> ranks;
  Question question(database_, "SELECT DISTINCT rank FROM SLIPSTREAM_PROCESSES WHERE rank IS NOT NULL ORDER BY 1");
  while (question.Next()) ranks.push_back(question.Number(0));
  return ranks;
}

TraceFacts TraceRows::Facts(std::optional<int64_t> rank) {
  TraceFacts facts;
  std::set<int64_t> pids;
  Question processes(
      database_,
      "SELECT p.processId, p.globalPid, p.pid, p.rank, p.localRank, p.worldSize, p.executable, p.command, "
      "h.name FROM SLIPSTREAM_PROCESSES p LEFT JOIN SLIPSTREAM_HOSTS h ON h.hostId = p.hostId "
      "ORDER BY p.rank IS NULL, p.rank, p.processId");
  while (processes.Next()) {
    TraceProcess process = {.id = processes.Number(0),
                            .global_pid = processes.Number(1),
                            .pid = processes.Number(2),
                            .rank = processes.NumberIfKnown(3),
                            .local_rank = processes.NumberIfKnown(4),
                            .world_size = processes.NumberIfKnown(5),
                            .name = std::filesystem::path(CleanText(processes.Text(6))).filename().string(),
                            .command = CleanText(processes.Text(7)),
                            .host = CleanText(processes.Text(8))};
    if (rank && process.rank != rank) continue;
    if (process.name.empty()) process.name = "process";
    process.shown_pid = process.pid;
    if (process.pid <= 0 || process.pid >= kFirstShownPid || !pids.insert(process.pid).second) {
      process.shown_pid = kFirstShownPid + process.id;
    }
    facts.processes.push_back(std::move(process));
  }
  std::map<int64_t, const TraceProcess*> by_global_pid;
  for (const TraceProcess& process : facts.processes) by_global_pid[process.global_pid] = &process;

  // The last one with a name gives it.
  Question threads(database_, "SELECT globalTid, tid, name FROM SLIPSTREAM_THREADS ORDER BY processId, thread");
  while (threads.Next()) {
    const int64_t global_tid = threads.Number(0);
    const auto process = by_global_pid.find(GlobalPidOf(global_tid));
    if (process == by_global_pid.end() || (global_tid & kIdMask) == 0) continue;
    TraceThread& thread = facts.threads[global_tid];
    thread.process = process->second;
    thread.tid = threads.Number(1);
    if (!threads.IsNull(2)) thread.name = CleanText(threads.Text(2));
  }

  const std::string work = WorkSelect(database_);
  if (!work.empty()) {
    Question devices(database_, "SELECT DISTINCT globalPid, deviceId FROM (" + work + ")");
    while (devices.Next()) {
      const auto process = by_global_pid.find(devices.Number(0));
      if (process != by_global_pid.end()) facts.devices[process->second->id].push_back(devices.Number(1));
    }
  }
  for (const TraceProcess& process : facts.processes) {
    std::vector<int64_t>& devices = facts.devices[process.id];
    Question pools(database_, "SELECT DISTINCT deviceId FROM SLIPSTREAM_MEMORY WHERE processId = ?");
    for (pools.Bind(1, process.id); pools.Next();) devices.push_back(pools.Number(0));
    std::sort(devices.begin(), devices.end());
    devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  }
  facts.properties = trace_db::Devices(database_);

  for (const char* const table :
       {kRuntime.name, kKernels.name, kCopies.name, kSets.name, kSynchronizations.name, "NVTX_EVENTS",
        "SLIPSTREAM_STEPS", "SLIPSTREAM_MEMORY", "SLIPSTREAM_MARKS", "SLIPSTREAM_DROPS"}) {
    if (!database_.HasTable(table)) continue;
    Question first(database_, std::string("SELECT min(start) FROM ") + table);
    if (first.Next()) facts.first_ns = std::min(facts.first_ns, BoundedTime(first.Number(0)));
  }
  if (database_.HasTable("TARGET_INFO_SESSION_START_TIME")) {
    Question start(database_, "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME");
    if (start.Next()) facts.start_unix_ns = start.Number(0);
  }
  return facts;
}

class TraceRows::Pass {
 public:
  Pass(TraceRows* rows, const TraceFacts& facts, RowSink* sink, const std::function<bool(uint64_t, uint64_t)>& progress)
      : database_(rows->database_), texts_(rows->texts_), facts_(facts), sink_(*sink), progress_(progress) {
    for (const TraceProcess& process : facts.processes) {
      by_global_pid_[process.global_pid] = &process;
      by_id_[process.id] = &process;
    }
    Question all(database_, "SELECT globalPid FROM SLIPSTREAM_PROCESSES");
    while (all.Next()) known_.insert(all.Number(0));
    work_ = WorkSelect(database_);
    has_runtime_ = database_.HasTable(kRuntime.name);
    has_nvtx_ = database_.HasTable("NVTX_EVENTS");
  }

  RowCounts Run() {
    Count();
    sink_.Begin(facts_);
    if (Go(&Pass::Steps) && Go(&Pass::Ranges) && Go(&Pass::Calls) && Go(&Pass::Work) && Go(&Pass::Memory) &&
        Go(&Pass::Marks) && Go(&Pass::Drops)) {
      sink_.End();
    }
    return counts_;
  }

 private:
  bool Go(void (Pass::*part)()) {
    (this->*part)();
    return !stopped_ && database_.ok();
  }
  void Count();
  // Of a row that was read: is there to go on?
  bool Step() {
    if (++done_ % kRowsBetweenLooks == 0) stopped_ = stopped_ || !progress_(done_, std::max(done_, total_));
    return !stopped_;
  }
  // Of the process that is packed in a thread's number; nothing where it is not exported.
  const TraceProcess* ProcessOf(int64_t global) {
    const int64_t global_pid = GlobalPidOf(global);
    const auto process = by_global_pid_.find(global_pid);
    if (process != by_global_pid_.end()) return process->second;
    if (known_.count(global_pid) == 0) ++counts_.strays;
    return nullptr;
  }
  // By number and thread, for tables that may have no thread: what the process did itself.
  const TraceProcess* ProcessBy(int64_t id) const {
    const auto process = by_id_.find(id);
    return process == by_id_.end() ? nullptr : process->second;
  }
  static Place PlaceOf(const TraceProcess* process, const Question& question, int column) {
    return {process, question.Number(column) & kIdMask};
  }
  CallSite SiteOf(const Question& question, int column) {
    const auto site = question.NumberIfKnown(column);
    return {.line = site ? texts_.LineOf(*site) : nullptr};
  }

  void Steps();
  void Ranges();
  void Calls();
  void Work();
  void Memory();
  void Marks();
  void Drops();

  DatabaseReader& database_;
  TraceTexts& texts_;
  const TraceFacts& facts_;
  RowSink& sink_;
  const std::function<bool(uint64_t, uint64_t)>& progress_;
  std::map<int64_t, const TraceProcess*> by_global_pid_;
  std::map<int64_t, const TraceProcess*> by_id_;
  std::set<int64_t> known_;  // global pids of all processes, also of those that are not exported
  std::string work_;
  bool has_runtime_ = false;
  bool has_nvtx_ = false;
  bool stopped_ = false;
  uint64_t done_ = 0;
  uint64_t total_ = 0;
  RowCounts counts_;
};

void TraceRows::Pass::Count() {
  std::vector<const char*> tables = {"SLIPSTREAM_STEPS", "SLIPSTREAM_MEMORY", "SLIPSTREAM_MARKS", "SLIPSTREAM_DROPS"};
  if (has_runtime_) tables.push_back(kRuntime.name);
  if (has_nvtx_) tables.push_back("NVTX_EVENTS");
  for (const char* const table : kWorkTables) {
    if (database_.HasTable(table)) tables.push_back(table);
  }
  for (const char* const table : tables) {
    Question count(database_, std::string("SELECT count(*) FROM ") + table);
    if (count.Next()) total_ += static_cast<uint64_t>(count.Number(0));
  }
}

void TraceRows::Pass::Steps() {
  Question steps(
      database_,
      "SELECT start, end, processId, globalTid, number, siteId FROM SLIPSTREAM_STEPS ORDER BY start, end DESC");
  while (steps.Next() && Step()) {
    const TraceProcess* const process = ProcessBy(steps.Number(2));
    if (process == nullptr) continue;
    ++counts_.steps;
    sink_.Add(StepRow{.at = PlaceOf(process, steps, 3),
                      .start = BoundedTime(steps.Number(0)),
                      .end = BoundedEnd(BoundedTime(steps.Number(0)), steps.Number(1)),
                      .number = steps.Number(4),
                      .site = SiteOf(steps, 5)});
  }
}

// Steps are there a second time, as ranges, for the reports of Nsight Systems. Those that the program named itself are
// its own ranges, too.
void TraceRows::Pass::Ranges() {
  if (!has_nvtx_) return;
  Question ranges(database_,
                  "SELECT n.start, n.end, n.eventType, n.globalTid, n.text, n.textId, p.start IS NOT NULL "
                  "FROM NVTX_EVENTS n "
                  "LEFT JOIN SLIPSTREAM_STEPS s ON n.text = 'step' AND s.start = n.start AND s.end = n.end "
                  "AND s.number = n.uint64Value LEFT JOIN StringIds t ON t.id = n.textId "
                  "LEFT JOIN SLIPSTREAM_STEPS p ON p.start = n.start AND p.end = n.end AND p.globalTid = n.globalTid "
                  "AND p.siteId IS NULL AND t.value = 'ProfilerStep#' || p.number "
                  "WHERE s.start IS NULL ORDER BY n.start, n.end DESC");
  while (ranges.Next() && Step()) {
    const int64_t type = ranges.Number(2);
    if (type != kNvtxMark && type != kNvtxPushPopRange && type != kNvtxStartEndRange) continue;
    const TraceProcess* const process = ProcessOf(ranges.Number(3));
    if (process == nullptr) continue;
    ++counts_.ranges;
    const std::string own = ranges.IsNull(4) ? "" : CleanText(ranges.Text(4));
    sink_.Add(RangeRow{.at = PlaceOf(process, ranges, 3),
                       .start = BoundedTime(ranges.Number(0)),
                       .end = type == kNvtxMark || ranges.IsNull(1)
                                  ? std::nullopt
                                  : std::optional(BoundedEnd(BoundedTime(ranges.Number(0)), ranges.Number(1))),
                       .is_mark = type == kNvtxMark,
                       .is_profiler_step = ranges.Number(6) != 0,
                       .text = ranges.IsNull(4) ? std::string_view(texts_.TextOf(ranges.Number(5))) : own});
  }
}

void TraceRows::Pass::Calls() {
  if (!has_runtime_) return;
  WorkOfCalls work(database_, work_);
  const std::string stack = texts_.has_stacks() ? "c.stackId" : "NULL";
  const std::string native_stack = texts_.has_native_stacks() ? "c.nativeStackId" : "NULL";
  Question calls(
      database_,
      "SELECT r.correlationId, r.start, r.end, r.eventClass, r.globalTid, r.nameId, r.returnValue, c.siteId, "
      "c.bytes, c.stream, c.deviceId, d.correlationId, d.decisionId, d.savedNs, " +
          stack + ", " + native_stack +
          " FROM CUPTI_ACTIVITY_KIND_RUNTIME r "
          "LEFT JOIN SLIPSTREAM_CALLS c ON c.correlationId = r.correlationId "
          "LEFT JOIN SLIPSTREAM_DECISIONS d ON d.correlationId = r.correlationId ORDER BY r.correlationId");
  while (calls.Next() && Step()) {
    const TraceProcess* const process = ProcessOf(calls.Number(4));
    if (process == nullptr) continue;
    ++counts_.calls;
    CallRow row = {.at = PlaceOf(process, calls, 4),
                   .start = BoundedTime(calls.Number(1)),
                   .end = BoundedEnd(BoundedTime(calls.Number(1)), calls.Number(2)),
                   .function = texts_.FunctionOf(calls.Number(5)),
                   .is_driver = calls.Number(3) == 1,
                   .correlation = calls.Number(0),
                   .status = calls.Number(6),
                   .bytes = calls.Number(8),
                   .stream = calls.Number(9),
                   .device = calls.NumberIfKnown(10),
                   .site = SiteOf(calls, 7),
                   .decided = !calls.IsNull(11),
                   .saved_ns = calls.Number(13)};
    if (row.is_driver) row.function = texts_.TextOf(calls.Number(5));
    row.has_work = row.correlation != 0 && work.Has(row.correlation);
    row.site.stack = calls.Number(14);
    row.site.native_stack = calls.Number(15);
    if (!calls.IsNull(12)) row.decision = texts_.TextOf(calls.Number(12));
    sink_.Add(row);
  }
}

void TraceRows::Pass::Work() {
  if (work_.empty()) return;
  const std::string call =
      has_runtime_ ? "EXISTS (SELECT 1 FROM CUPTI_ACTIVITY_KIND_RUNTIME r WHERE r.correlationId = w.correlationId)"
                   : "0";
  const std::string own = database_.HasColumn("SLIPSTREAM_CALLS", "workIsOwn")
                              ? "(SELECT workIsOwn FROM SLIPSTREAM_CALLS c WHERE c.correlationId = w.correlationId)"
                              : "0";
  Question work(database_, "SELECT w.*, " + call + ", " + own + " FROM (" + work_ + ") w ORDER BY w.start, w.end DESC");
  WorkRow row;
  while (work.Next() && Step()) {
    row.process = ProcessOf(work.Number(kGlobalPid));
    if (row.process == nullptr) continue;
    row.kind = static_cast<WorkKind>(work.Number(kKind));
    row.start = BoundedTime(work.Number(kStart));
    row.end = BoundedEnd(row.start, work.Number(kEnd));
    row.device = work.Number(kDevice);
    row.context = work.Number(kContext);
    row.stream = work.NumberIfKnown(kStream).value_or(-1);
    row.correlation = work.Number(kCorrelation);
    row.has_call = work.Number(kHasCall) != 0;
    row.is_own = work.Number(row.kind == WorkKind::kWait ? kWaitIsOwn : kIsOwn) != 0;
    row.graph_node = work.NumberIfKnown(kGraphNode);
    row.bytes = work.Number(kBytes);
    switch (row.kind) {
      case WorkKind::kKernel:
        ++counts_.kernels;
        row.name = texts_.TextOf(work.Number(kName));
        if (row.name.empty()) row.name = texts_.TextOf(work.Number(kShortName));
        row.shape = {.grid = {work.Number(kGridX), work.Number(kGridY), work.Number(kGridZ)},
                     .block = {work.Number(kBlockX), work.Number(kBlockY), work.Number(kBlockZ)},
                     .registers = work.Number(kRegisters),
                     .shared = BoundedCount(work.Number(kStaticShared)) + BoundedCount(work.Number(kDynamicShared))};
        break;
      case WorkKind::kCopy:
        ++counts_.copies;
        row.name = std::string("Memcpy ") + CopyName(work.Number(kCopyKind)) + " (" +
                   MemoryName(work.NumberIfKnown(kSourceKind).value_or(-1)) + " -> " +
                   MemoryName(work.NumberIfKnown(kTargetKind).value_or(-1)) + ")";
        break;
      case WorkKind::kSet:
        ++counts_.sets;
        row.name = std::string("Memset (") + MemoryName(work.NumberIfKnown(kMemoryKind).value_or(-1)) + ")";
        break;
      case WorkKind::kWait: {
        constexpr int64_t kNoStream = 0xFFFFFFFF;  // CUPTI_SYNCHRONIZATION_INVALID_VALUE
        ++counts_.waits;
        row.name = WaitName(work.Number(kWaitType));
        if (row.stream == kNoStream) row.stream = -1;
        break;
      }
    }
    sink_.Add(row);
  }
}

void TraceRows::Pass::Memory() {
  Question memory(database_,
                  "SELECT start, processId, deviceId, liveBytes, idleBytes, parkedBytes, trims, retries "
                  "FROM SLIPSTREAM_MEMORY ORDER BY start");
  while (memory.Next() && Step()) {
    const TraceProcess* const process = ProcessBy(memory.Number(1));
    if (process == nullptr) continue;
    ++counts_.memory;
    sink_.Add(MemoryRow{.process = process,
                        .start = BoundedTime(memory.Number(0)),
                        .device = memory.Number(2),
                        .live = memory.Number(3),
                        .idle = memory.Number(4),
                        .parked = memory.Number(5),
                        .trims = memory.Number(6),
                        .retries = memory.Number(7)});
  }
}

void TraceRows::Pass::Marks() {
  Question marks(database_, "SELECT start, processId, globalTid, value, siteId FROM SLIPSTREAM_MARKS ORDER BY start");
  while (marks.Next() && Step()) {
    const TraceProcess* const process = ProcessBy(marks.Number(1));
    if (process == nullptr) continue;
    ++counts_.marks;
    sink_.Add(MarkRow{.at = PlaceOf(process, marks, 2),
                      .start = BoundedTime(marks.Number(0)),
                      .value = marks.Number(3),
                      .site = SiteOf(marks, 4)});
  }
}

void TraceRows::Pass::Drops() {
  Question drops(database_,
                 "SELECT start, end, processId, globalTid, count FROM SLIPSTREAM_DROPS ORDER BY start, end DESC");
  while (drops.Next() && Step()) {
    const TraceProcess* const process = ProcessBy(drops.Number(2));
    if (process == nullptr) continue;
    ++counts_.drops;
    sink_.Add(DropRow{.at = PlaceOf(process, drops, 3),
                      .start = BoundedTime(drops.Number(0)),
                      .end = BoundedEnd(BoundedTime(drops.Number(0)), drops.Number(1)),
                      .count = drops.Number(4)});
  }
}

RowCounts TraceRows::Visit(const TraceFacts& facts, RowSink* sink,
                           const std::function<bool(uint64_t, uint64_t)>& progress) {
  return Pass(this, facts, sink, progress).Run();
}

}  // namespace slipstream::trace_export
