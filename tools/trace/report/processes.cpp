#include "tools/trace/report/processes.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <utility>

#include "policy/number.h"
#include "tools/text/text.h"
#include "tools/trace/db/bounded.h"
#include "tools/trace/db/schema.h"
#include "tools/trace/report/call_kind.h"
#include "tools/trace/run/names.h"
#include "tracer/base/python_lines.h"

namespace slipstream::report {
namespace {

using trace_db::DatabaseReader;
using trace_db::Question;

constexpr size_t kMemoryPoints = 400;

struct Thread {
  int64_t thread = 0;
  int64_t global_tid = -1;
  bool found = false;  // its steps were, by a line
  std::optional<int64_t> site;
  std::vector<Step> steps;
};

// One stands for each process until its calls are read.
struct Draft {
  ProcessReport report;
  int64_t global_pid = 0;
  int64_t step_global_tid = -1;
  std::vector<Interval> drops;
  std::vector<Interval> pauses;
};

std::vector<Draft> OwnProcesses(DatabaseReader* reader) {
  std::vector<Draft> drafts;
  // Older slipstreams read no file behind its first damage.
  const bool knows_damage = reader->HasColumn("SLIPSTREAM_PROCESSES", "missingChunks");
  const bool knows_given_up = reader->HasColumn("SLIPSTREAM_PROCESSES", "givenUpRecords");
  const bool knows_later = reader->HasColumn("SLIPSTREAM_PROCESSES", "laterCalls");
  Question row(
      *reader,
      std::string(
          "SELECT p.processId, p.globalPid, p.pid, p.rank, p.localRank, p.worldSize, h.name, p.executable, "
          "p.command, p.spoolFile, p.firstNs, p.lastNs, p.calls, p.dropped, p.complete, p.endReason, p.leftWhy, "
          "p.leftBytes, p.missingRecords, p.malformedChunks, p.skippedRecords + p.skippedChunks, ") +
          (knows_damage ? "p.damagedBytes, p.missingChunks, " : "0, 0, ") +
          (knows_later ? "p.laterCalls, " : "NULL, ") +
          (knows_given_up ? "p.givenUpRecords, p.keptFromNs " : "0, NULL ") +
          "FROM SLIPSTREAM_PROCESSES p LEFT JOIN SLIPSTREAM_HOSTS h USING (hostId) ORDER BY p.processId");
  while (row.Next()) {
    Draft& draft = drafts.emplace_back();
    ProcessReport& process = draft.report;
    process.process = row.Number(0);
    draft.global_pid = GlobalPidOf(row.Number(1));
    process.pid = row.NumberIfKnown(2);
    process.rank = row.NumberIfKnown(3);
    process.local_rank = row.NumberIfKnown(4);
    process.world_size = row.NumberIfKnown(5);
    process.host = row.Text(6);
    process.executable = row.Text(7);
    process.command = row.Text(8);
    process.spool = row.Text(9);
    process.first = trace_db::BoundedTime(row.Number(10));
    process.last = trace_db::BoundedEnd(process.first, row.Number(11));
    process.calls = static_cast<uint64_t>(row.Number(12));
    process.dropped = static_cast<uint64_t>(row.Number(13));
    process.complete = row.Number(14) != 0;
    process.end_reason = row.Text(15);
    process.left_why = row.Text(16);
    process.left_bytes = row.Number(17);
    process.missing_records = row.Number(18);
    process.malformed_chunks = row.Number(19);
    process.skipped_records = row.Number(20);
    process.damaged_bytes = row.Number(21);
    process.missing_chunks = row.Number(22);
    process.later_calls = row.NumberIfKnown(23);
    process.given_up_records = static_cast<uint64_t>(row.Number(24));
    process.kept_from = row.NumberIfKnown(25);
  }
  return drafts;
}

// Of a database that is not slipstream's: whoever has calls or kernels.
std::vector<Draft> ForeignProcesses(DatabaseReader* reader) {
  std::map<int64_t, Draft> drafts;
  const auto see = [&](int64_t global, int64_t first, int64_t last, int64_t calls) -> Draft& {
    Draft& draft = drafts[GlobalPidOf(global)];
    const bool is_new = draft.global_pid == 0 && draft.report.process == 0;
    draft.global_pid = GlobalPidOf(global);
    first = trace_db::BoundedTime(first);
    last = trace_db::BoundedEnd(first, last);
    draft.report.first = is_new ? first : std::min(draft.report.first, first);
    draft.report.last = is_new ? last : std::max(draft.report.last, last);
    draft.report.process = 1;
    draft.report.calls += static_cast<uint64_t>(calls);
    return draft;
  };
  if (reader->HasTable("CUPTI_ACTIVITY_KIND_RUNTIME")) {
    std::map<int64_t, int64_t> most;
    Question row(*reader,
                 "SELECT globalTid, min(start), max(\"end\"), count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME "
                 "WHERE globalTid IS NOT NULL GROUP BY globalTid");
    while (row.Next()) {
      Draft& draft = see(row.Number(0), row.Number(1), row.Number(2), row.Number(3));
      int64_t& calls = most[draft.global_pid];
      if (row.Number(3) > calls) {
        calls = row.Number(3);
        draft.step_global_tid = row.Number(0);
      }
    }
  }
  for (const char* const table : {"CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY"}) {
    if (!reader->HasTable(table) || !reader->HasColumn(table, "globalPid")) continue;
    Question row(*reader, std::string("SELECT globalPid, min(start), max(\"end\") FROM ") + table +
                              " WHERE globalPid IS NOT NULL GROUP BY globalPid");
    while (row.Next()) see(row.Number(0), row.Number(1), row.Number(2), 0);
  }
  std::vector<Draft> list;
  for (auto& [global, draft] : drafts) {
    draft.report.process = static_cast<int64_t>(list.size()) + 1;
    draft.report.pid = global >> 24 & 0xFFFFFF;
    list.push_back(std::move(draft));
  }
  if (!reader->HasTable("PROCESSES")) return list;
  Question name(*reader, "SELECT name FROM PROCESSES WHERE globalPid = ? LIMIT 1");
  for (Draft& draft : list) {
    name.Again();
    if (name.Bind(1, draft.global_pid).Next()) draft.report.executable = name.Text(0);
  }
  return list;
}

std::optional<std::string> FactOf(DatabaseReader* reader, int64_t process, const char* key) {
  if (!reader->HasTable("SLIPSTREAM_FACTS")) return std::nullopt;
  Question row(*reader,
               "SELECT value FROM SLIPSTREAM_FACTS WHERE processId = ? AND key = ? ORDER BY rowid DESC LIMIT 1");
  if (!row.Bind(1, process).Bind(2, key).Next()) return std::nullopt;
  return std::string(row.Text(0));
}

// What found no room, by its writer's own count.
void TakeRefused(DatabaseReader* reader, ProcessReport* process) {
  for (const tracer::RefusedFact& fact : tracer::kRefusedFacts) {
    const std::string count = FactOf(reader, process->process, fact.key).value_or("");
    const auto number = static_cast<uint64_t>(std::strtoull(count.c_str(), nullptr, 10));
    if (number != 0) process->refused.emplace_back(&fact, number);
  }
}

std::string SiteText(DatabaseReader* reader, int64_t site) {
  run::Names names(reader);
  const run::Line& line = names.LineOf(site);
  std::string text = line.file;
  if (line.line) text += ":" + std::to_string(*line.line);
  if (!line.function.empty()) text += " (" + line.function + ")";
  return text;
}

// Those of the thread that has most.
void TakeSteps(DatabaseReader* reader, Draft* draft) {
  std::map<int64_t, Thread> threads;
  // Of older slipstreams, the last one that was found ends at its last call.
  const bool knows_unfinished = reader->HasColumn("SLIPSTREAM_STEPS", "isUnfinished");
  Question row(*reader, std::string("SELECT thread, globalTid, number, siteId, start, \"end\", ") +
                            (knows_unfinished ? "isUnfinished" : "0") +
                            " FROM SLIPSTREAM_STEPS WHERE processId = ? ORDER BY start, \"end\" DESC, number");
  row.Bind(1, draft->report.process);
  while (row.Next()) {
    Thread& thread = threads[row.Number(0)];
    thread.thread = row.Number(0);
    thread.global_tid = row.NumberIfKnown(1).value_or(-1);
    thread.site = row.NumberIfKnown(3);
    Step& step = thread.steps.emplace_back();
    step.number = row.Number(2);
    step.start = trace_db::BoundedTime(row.Number(4));
    step.end = trace_db::BoundedEnd(step.start, row.Number(5));
    if (row.Number(6) != 0) step.use = StepUse::kUnfinished;
  }
  Thread* most = nullptr;
  for (auto& [number, thread] : threads) {
    if (most == nullptr || thread.steps.size() > most->steps.size()) most = &thread;
  }
  if (most == nullptr) return;
  if (!knows_unfinished && most->site) most->steps.back().use = StepUse::kUnfinished;
  ProcessReport& process = draft->report;
  process.has_steps = true;
  process.steps = std::move(most->steps);
  process.step_thread = most->thread;
  process.steps_found = most->site.has_value();
  if (most->site) process.step_site = SiteText(reader, *most->site);
  if (const auto launches = FactOf(reader, process.process, trace_db::kFactLaunchesOfAStep)) {
    process.step_launches = policy::NumberIn<int64_t>(*launches);
    process.steps_found = true;
  }
  draft->step_global_tid = most->global_tid;
}

// As the shim says it.
constexpr char kFactIntercept[] = "intercept";

// Steps are found by their lines, if the program does not name them.
void TakeLines(DatabaseReader* reader, ProcessReport* process) {
  const std::optional<std::string> fact = FactOf(reader, process->process, tracer::kFactPythonLines);
  if (!fact) return;
  const bool are_read = fact->starts_with(tracer::kLinesRead);
  if (!are_read) process->no_lines = text::PythonLinesText(*fact);
  if (process->has_steps) return;
  process->why_no_steps = "Python lines: " + process->no_lines;
  if (!are_read) return;
  process->why_no_steps = FactOf(reader, process->process, trace_db::kFactWhyNoSteps)
                              .value_or("no line of the program was seen to begin each of them");
}

// It knows by then whether there is a time at which they were recorded.
void TakeDevices(DatabaseReader* reader, ProcessReport* process) {
  const std::optional<std::string> fact = FactOf(reader, process->process, tracer::kFactDeviceWork);
  if (!fact || process->devices_recorded) return;
  const std::string_view off = tracer::kDeviceWorkOff;
  process->no_devices = fact->starts_with(off) ? fact->substr(off.size())
                                               : "another profiler had the devices, or their recording had not begun";
}

// Nobody knows steps: the thread with most records, and the whole of the process.
void TakeWhole(DatabaseReader* reader, Draft* draft) {
  ProcessReport& process = draft->report;
  Step& whole = process.steps.emplace_back();
  whole.start = process.first;
  whole.end = process.last;
  Question row(*reader,
               "SELECT thread, globalTid FROM SLIPSTREAM_THREADS WHERE processId = ? AND thread != 0 "
               "ORDER BY records DESC, thread LIMIT 1");
  if (!row.Bind(1, process.process).Next()) return;
  process.step_thread = row.Number(0);
  draft->step_global_tid = row.Number(1);
}

// When devices were recorded; none: they were not, or whoever made the database knows nothing about it.
std::vector<Interval> DevicePeriods(DatabaseReader* reader, const ProcessReport& process) {
  std::vector<Interval> periods;
  if (!reader->HasTable("SLIPSTREAM_DEVICE_PERIODS")) return periods;
  Question row(*reader,
               "SELECT start, \"end\" FROM SLIPSTREAM_DEVICE_PERIODS WHERE processId = ? ORDER BY start, \"end\"");
  row.Bind(1, process.process);
  while (row.Next()) {
    const int64_t start = trace_db::BoundedTime(row.Number(0));
    periods.push_back({start, trace_db::BoundedEnd(start, row.Number(1))});
  }
  return periods;
}

// When nothing was recorded, as it was wanted.
std::vector<Interval> Pauses(DatabaseReader* reader, ProcessReport* process) {
  std::vector<Interval> pauses;
  if (!reader->HasTable("SLIPSTREAM_PAUSES")) return pauses;
  Question row(*reader, "SELECT start, \"end\" FROM SLIPSTREAM_PAUSES WHERE processId = ? ORDER BY start, \"end\"");
  row.Bind(1, process->process);
  while (row.Next()) {
    const int64_t start = trace_db::BoundedTime(row.Number(0));
    const Interval& pause = pauses.emplace_back(Interval{start, trace_db::BoundedEnd(start, row.Number(1))});
    ++process->pauses;
    AddTo(&process->paused_time, pause.end - pause.start);
  }
  return pauses;
}

// What both cover; each in order, and without overlaps of its own.
std::vector<Interval> Common(const std::vector<Interval>& some, const std::vector<Interval>& others) {
  std::vector<Interval> common;
  for (size_t i = 0, j = 0; i < some.size() && j < others.size();) {
    const Interval both = {std::max(some[i].start, others[j].start), std::min(some[i].end, others[j].end)};
    if (both.start < both.end) common.push_back(both);
    if (some[i].end < others[j].end) {
      ++i;
    } else {
      ++j;
    }
  }
  return common;
}

// The rest of first to last. The process's first and last moments are no holes: they are the recording's own.
std::vector<Interval> Between(const std::vector<Interval>& periods, int64_t first, int64_t last) {
  std::vector<Interval> holes;
  if (periods.empty()) return holes;
  if (first < periods.front().start) holes.push_back({first, periods.front().start});
  for (size_t i = 1; i < periods.size(); ++i) holes.push_back({periods[i - 1].end, periods[i].start});
  if (periods.back().end < last) holes.push_back({periods.back().end, last});
  return holes;
}

// When records of any thread are missing. What a thread lost at its very end has no time of its own: it is missing
// somewhere behind the last call and the last gap that are known of it.
std::vector<Interval> Drops(DatabaseReader* reader, ProcessReport* process) {
  std::vector<Interval> drops;
  std::map<int64_t, int64_t> last;  // of each thread, the end of its last gap
  std::map<int64_t, int64_t> said;  // records in its gaps
  const auto count = [process](int64_t thread, int64_t records) {
    (thread == process->step_thread ? process->dropped_of_step_thread : process->dropped_of_others) +=
        static_cast<uint64_t>(records);
  };
  {
    const bool knows_damage = reader->HasColumn("SLIPSTREAM_DROPS", "isDamage");
    Question row(*reader, std::string("SELECT thread, start, \"end\", count, ") + (knows_damage ? "isDamage" : "0") +
                              " FROM SLIPSTREAM_DROPS WHERE processId = ?");
    row.Bind(1, process->process);
    while (row.Next()) {
      const int64_t start = trace_db::BoundedTime(row.Number(1));
      const Interval& drop = drops.emplace_back(Interval{start, trace_db::BoundedEnd(start, row.Number(2))});
      if (row.Number(4) != 0) continue;  // records that were made and written
      ++process->drop_gaps;
      const int64_t records = trace_db::BoundedCount(row.Number(3));
      const auto [at, is_new] = last.try_emplace(row.Number(0), drop.end);
      if (!is_new) at->second = std::max(at->second, drop.end);
      AddTo(&said[row.Number(0)], records);
      count(row.Number(0), records);
    }
  }
  std::map<int64_t, int64_t> unsaid;  // records that threads lost at their ends
  {
    Question row(*reader, "SELECT thread, dropped FROM SLIPSTREAM_THREADS WHERE processId = ? AND dropped != 0");
    row.Bind(1, process->process);
    while (row.Next()) {
      const int64_t records = trace_db::BoundedCount(row.Number(1)) - said[row.Number(0)];
      if (records > 0) unsaid[row.Number(0)] = records;
    }
  }
  // Without calls of any process there is no table of them.
  const std::string last_call =
      reader->HasTable("CUPTI_ACTIVITY_KIND_RUNTIME")
          ? "SELECT max(r.\"end\") FROM SLIPSTREAM_CALLS c JOIN CUPTI_ACTIVITY_KIND_RUNTIME r "
            "ON r.correlationId = c.correlationId WHERE c.processId = ? AND c.thread = ?"
          : "SELECT NULL WHERE ? != ?";
  for (const auto& [thread, records] : unsaid) {
    const auto gap = last.find(thread);
    int64_t from = gap != last.end() ? gap->second : process->first;
    Question row(*reader, last_call);
    if (row.Bind(1, process->process).Bind(2, thread).Next() && !row.IsNull(0)) {
      from = std::max(from, trace_db::BoundedTime(row.Number(0)));
    }
    drops.push_back({from, std::max(from, process->last)});
    count(thread, records);
  }
  return drops;
}

// When the process began, by its start in ticks since the system was booted. Those go on while it sleeps and the
// trace's clock does not: what would be behind the first record is no start.
std::optional<int64_t> StartOf(DatabaseReader* reader, const ProcessReport& process) {
  constexpr int64_t kTickNs = 10'000'000;  // for every program: Linux's USER_HZ
  if (!reader->HasTable("SLIPSTREAM_FACTS") || !reader->HasTable("SLIPSTREAM_CLOCKS")) return std::nullopt;
  Question fact(*reader,
                "SELECT value FROM SLIPSTREAM_FACTS WHERE processId = ? AND key = ? ORDER BY rowid DESC LIMIT 1");
  if (!fact.Bind(1, process.process).Bind(2, tracer::kFactStartTicks).Next()) return std::nullopt;
  const auto ticks = policy::NumberIn<int64_t>(fact.Text(0));
  Question clock(*reader,
                 "SELECT start, monotonicBeforeNs FROM SLIPSTREAM_CLOCKS WHERE processId = ? ORDER BY start LIMIT 1");
  if (!ticks || !clock.Bind(1, process.process).Next()) return std::nullopt;
  constexpr int64_t kMostTicks = (int64_t{1} << 55) / kTickNs;
  const int64_t since_boot = trace_db::BoundedTime(clock.Number(1));
  if (*ticks < 0 || *ticks > kMostTicks) return std::nullopt;
  const int64_t start = trace_db::BoundedTime(clock.Number(0)) - since_boot + *ticks * kTickNs;
  return start <= process.first ? std::optional(start) : std::nullopt;
}

void TakeStart(DatabaseReader* reader, ProcessReport* process) {
  const std::optional<int64_t> start = StartOf(reader, *process);
  process->wall.from_process_start = start.has_value();
  process->wall.begin = start.value_or(process->first);
}

// Nobody knows what lay in a step across one. False: that is all of them.
bool LeaveOutPaused(const std::vector<Interval>& pauses, ProcessReport* process) {
  const auto paused = [&](const Step& step) {
    return std::any_of(pauses.begin(), pauses.end(),
                       [&](const Interval& pause) { return pause.start < step.end && pause.end > step.start; });
  };
  process->paused_steps = std::erase_if(process->steps, paused);
  return !process->steps.empty();
}

void TakeDropsAndName(DatabaseReader* reader, const std::vector<Interval>& pauses, Draft* draft) {
  ProcessReport* const process = &draft->report;
  draft->drops = Drops(reader, process);
  const std::vector<Interval>& drops = draft->drops;
  const std::vector<Interval> periods = DevicePeriods(reader, *process);
  process->devices_recorded = !periods.empty();
  if (process->has_steps) {
    const Chosen chosen = ChooseSteps(drops, Between(periods, process->first, process->last), &process->steps);
    process->drops_everywhere = chosen.drops_everywhere;
    process->unwatched_everywhere = chosen.unwatched_everywhere;
    for (Step& step : process->steps) {
      step.before_devices = step.use == StepUse::kUnwatched && step.end <= periods.front().start;
    }
  } else {
    process->drops_everywhere = !drops.empty();
    // What there is to measure is when devices were recorded.
    std::vector<Interval> recorded = periods;
    if (!pauses.empty()) {
      recorded = Between(pauses, process->first, process->last);
      if (!periods.empty()) recorded = Common(recorded, periods);
    }
    if (!periods.empty() || !pauses.empty()) process->steps.clear();
    for (const Interval& period : recorded) process->steps.push_back({.start = period.start, .end = period.end});
    if (process->steps.empty()) process->steps.push_back({.start = process->first, .end = process->first});
  }
  Question row(*reader, "SELECT name FROM SLIPSTREAM_THREADS WHERE processId = ? AND thread = ?");
  row.Bind(1, process->process).Bind(2, process->step_thread);
  if (row.Next()) process->step_thread_name = row.Text(0);
}

}  // namespace

int64_t ProcessTable::OfGlobal(int64_t global) const {
  const auto found = by_global_pid.find(GlobalPidOf(global));
  return found == by_global_pid.end() ? -1 : static_cast<int64_t>(found->second);
}

ProcessTable ReadProcesses(DatabaseReader* reader) {
  const bool own = reader->HasTable("SLIPSTREAM_PROCESSES");
  std::vector<Draft> drafts = own ? OwnProcesses(reader) : ForeignProcesses(reader);
  for (Draft& draft : drafts) {
    if (own) {
      TakeRefused(reader, &draft.report);
      TakeSteps(reader, &draft);
      draft.pauses = Pauses(reader, &draft.report);
      const std::vector<Interval>& pauses = draft.pauses;
      if (draft.report.has_steps && !LeaveOutPaused(pauses, &draft.report)) draft.report.has_steps = false;
      if (!draft.report.has_steps) TakeWhole(reader, &draft);
      TakeLines(reader, &draft.report);
      draft.report.intercept = FactOf(reader, draft.report.process, kFactIntercept).value_or("");
      TakeDropsAndName(reader, pauses, &draft);
      TakeDevices(reader, &draft.report);
      TakeStart(reader, &draft.report);
    } else {
      Step& whole = draft.report.steps.emplace_back();
      whole.start = draft.report.first;
      whole.end = draft.report.last;
      draft.report.wall.begin = draft.report.first;
    }
  }
  std::stable_sort(drafts.begin(), drafts.end(), [](const Draft& a, const Draft& b) {
    constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
    return a.report.rank.value_or(kNone) < b.report.rank.value_or(kNone);
  });
  ProcessTable table;
  for (Draft& draft : drafts) {
    const size_t index = table.processes.size();
    table.by_id.emplace(draft.report.process, index);
    table.by_global_pid.emplace(draft.global_pid, index);
    table.step_global_tid.push_back(draft.step_global_tid);
    table.drops.push_back(std::move(draft.drops));
    table.pauses.push_back(std::move(draft.pauses));
    table.processes.push_back(std::move(draft.report));
  }
  return table;
}

namespace {

// Calls of the driver's that a library made past every hook, and that wait for a device.
void ReadLibrarySynchronizations(DatabaseReader* reader, ProcessTable* table) {
  if (!reader->HasTable("CUPTI_ACTIVITY_KIND_RUNTIME")) return;
  Question row(*reader,
               "SELECT c.processId, s.value, n.value, count(*), sum(r.\"end\" - r.start) FROM SLIPSTREAM_CALLS c JOIN "
               "CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId) JOIN StringIds s ON s.id = c.libraryId JOIN "
               "StringIds n ON n.id = r.nameId GROUP BY c.processId, s.value, n.value");
  while (row.Next()) {
    const auto process = table->by_id.find(row.Number(0));
    if (process == table->by_id.end() || KindOf(row.Text(2)) != CallKind::kSynchronize) continue;
    std::vector<LibraryReport>& libraries = table->processes[process->second].libraries;
    auto library = std::find_if(libraries.begin(), libraries.end(),
                                [&row](const LibraryReport& each) { return each.path == row.Text(1); });
    if (library == libraries.end()) library = libraries.insert(library, {.path = std::string(row.Text(1))});
    library->synchronizations += static_cast<uint64_t>(trace_db::BoundedCount(row.Number(3)));
    library->synchronizing_time = trace_db::Sum(library->synchronizing_time, trace_db::BoundedTime(row.Number(4)));
  }
  // As the query of their work has them: those that asked for none come last.
  for (ProcessReport& process : table->processes) {
    std::sort(process.libraries.begin(), process.libraries.end(), [](const LibraryReport& a, const LibraryReport& b) {
      return a.time != b.time ? a.time > b.time : a.path < b.path;
    });
  }
}

}  // namespace

void ReadLibraries(DatabaseReader* reader, ProcessTable* table) {
  if (!reader->HasColumn("SLIPSTREAM_CALLS", "libraryId") || !reader->HasTable("SLIPSTREAM_DEVICE_WORK")) return;
  {
    Question row(*reader, "SELECT processId, kernels, unattributed FROM SLIPSTREAM_DEVICE_WORK");
    while (row.Next()) {
      const auto process = table->by_id.find(row.Number(0));
      if (process == table->by_id.end()) continue;
      table->processes[process->second].all_kernels = static_cast<uint64_t>(trace_db::BoundedCount(row.Number(1)));
      table->processes[process->second].unattributed = static_cast<uint64_t>(trace_db::BoundedCount(row.Number(2)));
    }
  }
  std::string work;
  for (const char* const name : {"KERNEL", "MEMCPY", "MEMSET"}) {
    const std::string activity = std::string("CUPTI_ACTIVITY_KIND_") + name;
    if (!reader->HasColumn(activity, "correlationId")) continue;
    const bool is_kernel = std::string_view(name) == "KERNEL";
    work += std::string(work.empty() ? "" : " UNION ALL ") + "SELECT correlationId, \"end\" - start AS ns, " +
            (is_kernel ? "1" : "0") + " AS kernel FROM " + activity;
  }
  if (work.empty()) return ReadLibrarySynchronizations(reader, table);
  Question row(*reader, "SELECT c.processId, s.value, sum(w.kernel), sum(1 - w.kernel), sum(w.ns) AS time FROM (" +
                            work +
                            ") w JOIN SLIPSTREAM_CALLS c USING (correlationId) JOIN StringIds s ON s.id = c.libraryId "
                            "GROUP BY c.processId, s.value ORDER BY c.processId, time DESC, s.value");
  while (row.Next()) {
    const auto process = table->by_id.find(row.Number(0));
    if (process == table->by_id.end()) continue;
    table->processes[process->second].libraries.push_back(
        {.path = std::string(row.Text(1)),
         .kernels = static_cast<uint64_t>(trace_db::BoundedCount(row.Number(2))),
         .copies = static_cast<uint64_t>(trace_db::BoundedCount(row.Number(3))),
         .time = trace_db::BoundedTime(row.Number(4))});
  }
  ReadLibrarySynchronizations(reader, table);
}

void ReadMemory(DatabaseReader* reader, int64_t first, int64_t last, ProcessTable* table) {
  if (!reader->HasTable("SLIPSTREAM_MEMORY")) return;
  const int64_t part = std::max<int64_t>(1, (last - first) / static_cast<int64_t>(kMemoryPoints) + 1);
  std::map<std::pair<size_t, int64_t>, MemoryReport> pools;
  const bool has_largest = reader->HasColumn("SLIPSTREAM_MEMORY", "largestIdleBytes");
  Question row(*reader, std::string("SELECT processId, deviceId, start, liveBytes, idleBytes, trims, retries, ") +
                            (has_largest ? "largestIdleBytes" : "NULL") + " FROM SLIPSTREAM_MEMORY ORDER BY start");
  while (row.Next()) {
    const auto process = table->by_id.find(row.Number(0));
    if (process == table->by_id.end()) continue;
    MemoryReport& pool = pools[{process->second, row.Number(1)}];
    const MemoryPoint point = {trace_db::BoundedTime(row.Number(2)), trace_db::BoundedCount(row.Number(3)),
                               trace_db::BoundedCount(row.Number(4))};
    pool.device = row.Number(1);
    ++pool.readings;
    pool.peak_live = std::max(pool.peak_live, point.live);
    pool.peak_idle = std::max(pool.peak_idle, point.idle);
    if (pool.readings == 1 || point.live + point.idle > pool.peak) {
      pool.peak = point.live + point.idle;
      pool.peak_point = point;
      pool.peak_largest_idle = row.NumberIfKnown(7);
      if (pool.peak_largest_idle) pool.peak_largest_idle = trace_db::BoundedCount(*pool.peak_largest_idle);
    }
    pool.last_live = point.live;
    pool.last_idle = point.idle;
    pool.trims = std::max(pool.trims, row.Number(5));
    pool.retries = std::max(pool.retries, row.Number(6));
    if (!pool.points.empty() && pool.points.back().time / part == point.time / part) {
      MemoryPoint& highest = pool.points.back();
      if (point.live + point.idle > highest.live + highest.idle) highest = point;
    } else {
      pool.points.push_back(point);
    }
  }
  for (auto& [key, pool] : pools) table->processes[key.first].memory.push_back(std::move(pool));
}

}  // namespace slipstream::report
