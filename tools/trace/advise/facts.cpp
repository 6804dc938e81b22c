#include "tools/trace/advise/facts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "policy/number.h"
#include "tools/trace/advise/recording_cost.h"
#include "tools/trace/advise/replay_reader.h"
#include "tools/trace/db/bounded.h"
#include "tools/trace/report/call_kind.h"
#include "tools/trace/report/distribution.h"
#include "tools/trace/report/format.h"
#include "tools/trace/report/steps.h"
#include "tracer/spool/process_facts.h"
#include "tracer/spool/task_record.h"

namespace slipstream::advise {
namespace {

using report::Interval;
using trace_db::DatabaseReader;
using trace_db::Question;

// Rows in the order of their starts: whether each one begins in the measured time.
class Measured {
 public:
  explicit Measured(const report::ProcessReport& process) : intervals_(report::MeasuredTime(process.steps)) {
    if (!process.has_steps) intervals_ = {{process.first, process.last + 1}};
  }
  bool Has(int64_t start) {
    while (at_ < intervals_.size() && intervals_[at_].end <= start) ++at_;
    return at_ < intervals_.size() && intervals_[at_].start <= start;
  }

 private:
  std::vector<Interval> intervals_;
  size_t at_ = 0;
};

// `kind` of SLIPSTREAM_TASKS.
constexpr auto kAllThreads = static_cast<int64_t>(tracer::TasksOf::kProcess);
constexpr auto kWorkers = static_cast<int64_t>(tracer::TasksOf::kWorkers);
constexpr auto kOneThread = static_cast<int64_t>(tracer::TasksOf::kThread);

template <typename Group>
void Count(int64_t bytes, int64_t time, uint64_t* count, Group* group) {
  group->least = *count == 0 ? bytes : std::min(group->least, bytes);
  group->most = std::max(group->most, bytes);
  ++*count;
  report::AddTo(&group->bytes, bytes);
  report::AddTo(&group->time, time);
}

// Times are those of looks of which the measured steps are half or more, counts those of looks that were taken
// meanwhile: what is at work before the loop or behind it says nothing.
TasksOfProcess ReadTasks(DatabaseReader* reader, const report::ProcessReport& process) {
  TasksOfProcess tasks;
  if (!reader->HasTable("SLIPSTREAM_TASKS")) return tasks;
  std::vector<Interval> measured = report::MeasuredTime(process.steps);
  if (!process.has_steps) measured = {{process.first, process.last + 1}};
  if (measured.empty()) return tasks;
  const std::string began = reader->HasColumn("SLIPSTREAM_TASKS", "began") ? "began" : "NULL";
  Question row(*reader,
               "SELECT start, \"end\", kind, thread, count, ranNs, waitedNs, throttled, throttledNs, " + began +
                   " FROM SLIPSTREAM_TASKS WHERE processId = ?1 AND \"end\" >= ?2 AND start <= ?3 ORDER BY \"end\"");
  bool counted_workers = false;
  row.Bind(1, process.process).Bind(2, measured.front().start).Bind(3, measured.back().end);
  while (row.Next()) {
    const int64_t kind = row.Number(2);
    const int64_t start = trace_db::BoundedTime(row.Number(0));
    const int64_t end = trace_db::BoundedEnd(start, row.Number(1));
    const bool meanwhile = end <= measured.back().end;
    const int64_t common = std::min(end, measured.back().end) - std::max(start, measured.front().start);
    const bool is_of_steps = 2 * common >= end - start;
    if (kind == kOneThread && (!process.has_steps || row.Number(3) != process.step_thread)) continue;
    std::optional<TaskSum>& sum = kind == kAllThreads ? tasks.threads
                                  : kind == kWorkers  ? tasks.workers
                                                      : tasks.step_thread;
    if (!sum) sum.emplace();
    if (meanwhile) {
      sum->most = std::max(sum->most, trace_db::BoundedCount(row.Number(4)));
      counted_workers = counted_workers || kind == kWorkers;
      if (is_of_steps) report::AddTo(&sum->began, trace_db::BoundedCount(row.NumberIfKnown(9).value_or(0)));
    }
    if (is_of_steps && row.NumberIfKnown(5) && row.NumberIfKnown(6)) {
      report::AddTo(&sum->time, end - start);
      report::AddTo(&sum->ran, trace_db::BoundedCount(row.Number(5)));
      report::AddTo(&sum->waited, trace_db::BoundedCount(row.Number(6)));
    }
    if (const auto throttled = row.NumberIfKnown(7); throttled && is_of_steps && kind == kAllThreads) {
      if (!tasks.throttled) tasks.throttled = 0;
      report::AddTo(&*tasks.throttled, trace_db::BoundedCount(*throttled));
      report::AddTo(&tasks.throttled_time, trace_db::BoundedCount(row.Number(8)));
    }
  }
  if (!counted_workers) tasks.workers.reset();
  return tasks;
}

// Finds Facts::backward_threads, as calls are added in the order of their starts.
class BackwardThreads {
 public:
  BackwardThreads(DatabaseReader* reader, const report::ProcessReport& process) {
    if (!process.has_steps || !reader->HasTable("SLIPSTREAM_THREADS")) return;
    // PyTorch names the threads of its engine.
    Question row(*reader,
                 "SELECT thread FROM SLIPSTREAM_THREADS WHERE processId = ?1 AND thread >= 0 AND "
                 "name GLOB 'pt_autograd_[0-9]*'");
    for (row.Bind(1, process.process); row.Next();) threads_[row.Number(0)];
    threads_.erase(process.step_thread);
  }

  bool IsOne(int64_t thread) const { return threads_.contains(thread); }
  void Add(int64_t thread, bool of_step_thread, int64_t start, int64_t end) {
    if (of_step_thread) {
      step_until_ = std::max(step_until_, end);
      for (auto& [number, calls] : threads_) {
        if (calls.until > start) ++calls.beside;
        calls.until = std::numeric_limits<int64_t>::min();
      }
      return;
    }
    const auto at = threads_.find(thread);
    if (at == threads_.end()) return;
    Calls& calls = at->second;
    ++calls.all;
    if (start < step_until_) {
      ++calls.beside;
    } else {
      calls.until = std::max(calls.until, end);
    }
  }
  std::vector<int64_t> Found() const {
    std::vector<int64_t> found;
    for (const auto& [number, calls] : threads_) {
      if (calls.all > 0 && 10 * calls.beside <= calls.all) found.push_back(number);
    }
    return found;
  }

 private:
  struct Calls {
    uint64_t all = 0;
    uint64_t beside = 0;                                  // those of the step thread
    int64_t until = std::numeric_limits<int64_t>::min();  // where the last ones end, since its last one
  };
  std::map<int64_t, Calls> threads_;
  int64_t step_until_ = std::numeric_limits<int64_t>::min();
};

class FactsReading {
 public:
  FactsReading(DatabaseReader* reader, Facts* facts) : reader_(*reader), facts_(*facts) {
    if (!reader_.HasTable("SLIPSTREAM_PROCESSES")) return;
    Question row(reader_, "SELECT globalPid FROM SLIPSTREAM_PROCESSES WHERE processId = ?1");
    if (row.Bind(1, facts_.process->process).Next()) global_pid_ = row.NumberIfKnown(0);
  }

  void Calls() {
    std::map<CallKey, CallGroup> groups;
    BackwardThreads backward(&reader_, *facts_.process);
    Measured measured(*facts_.process);
    const int64_t step_thread = facts_.process->step_thread;
    Question row(reader_,
                 "SELECT r.start, r.\"end\", r.nameId, c.siteId, d.decisionId, c.thread, c.bytes "
                 "FROM SLIPSTREAM_CALLS c JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = c.correlationId "
                 "LEFT JOIN SLIPSTREAM_DECISIONS d ON d.correlationId = c.correlationId WHERE c.processId = ?1 "
                 "ORDER BY r.start");
    int64_t all_until = std::numeric_limits<int64_t>::max();  // of any thread; at first, nobody knows
    for (row.Bind(1, facts_.process->process); row.Next();) {
      const int64_t start = trace_db::BoundedTime(row.Number(0));
      const int64_t end = trace_db::BoundedEnd(start, row.Number(1));
      const int64_t pause = all_until < start ? start - all_until : 0;
      all_until = all_until == std::numeric_limits<int64_t>::max() ? end : std::max(all_until, end);
      if (!measured.Has(start)) continue;
      const bool mine = !facts_.process->has_steps || row.Number(5) == step_thread;
      backward.Add(row.Number(5), mine, start, end);
      const int64_t thread = mine ? kStepThread : backward.IsOne(row.Number(5)) ? row.Number(5) : kOtherThread;
      CallGroup& group = groups[{row.Number(2), row.Number(3), row.Number(4), thread}];
      Count(trace_db::BoundedCount(row.Number(6)), end - start, &group.calls, &group);
      if (pause < kPause) continue;
      ++group.pauses;
      report::AddTo(&group.pause_time, pause);
    }
    facts_.backward_threads = backward.Found();
    for (auto& [key, group] : ByKind(&groups)) {
      group.function = report::PlainName(TextOf(std::get<0>(key)));
      group.place = PlaceOf(std::get<1>(key));
      group.decision = TextOf(std::get<2>(key));
      group.of_step_thread = std::get<3>(key) == kStepThread;
      group.of_backward = std::get<3>(key) == kBackwardThreads;
      group.ids = {std::get<0>(key), std::get<1>(key), std::get<2>(key)};
      facts_.calls.push_back(std::move(group));
    }
  }

  // Whoever comes in nine of ten steps comes first in the first tenth: no other is kept in mind.
  void SameUploads() {
    if (!reader_.HasColumn("SLIPSTREAM_DECISION_EVENTS", "contents")) return;
    std::vector<Interval> steps;
    for (const report::Step& step : facts_.process->steps) {
      if (step.use == report::StepUse::kMeasured) steps.push_back({step.start, step.end});
    }
    struct Seen {
      uint64_t steps = 0;
      size_t last_step = SIZE_MAX;
      int64_t bytes = 0;
      void Add(size_t step, int64_t more) {
        steps += last_step != step ? 1 : 0;
        last_step = step;
        report::AddTo(&bytes, more);
      }
    };
    std::map<int64_t, Seen> lines;                              // by site
    std::map<std::tuple<int64_t, int64_t, int64_t>, Seen> one;  // by site, bytes and contents
    size_t at = 0;
    Question row(reader_,
                 "SELECT r.start, c.siteId, e.bytes, e.contents FROM SLIPSTREAM_DECISION_EVENTS e "
                 "JOIN SLIPSTREAM_CALLS c ON c.correlationId = e.correlationId "
                 "JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = e.correlationId "
                 "WHERE e.processId = ?1 AND e.contents IS NOT NULL ORDER BY r.start");
    for (row.Bind(1, facts_.process->process); row.Next();) {
      const int64_t start = trace_db::BoundedTime(row.Number(0));
      while (at < steps.size() && steps[at].end <= start) ++at;
      if (at == steps.size()) break;
      const int64_t site = row.Number(1);
      if (start < steps[at].start || site == 0) continue;
      ++facts_.fingerprinted;
      const int64_t bytes = trace_db::BoundedCount(row.Number(2));
      Seen& line = lines[site];
      line.Add(at, bytes);
      const auto key = std::make_tuple(site, bytes, row.Number(3));
      auto copy = one.find(key);
      if (copy == one.end()) {
        if (10 * (line.steps - 1) > steps.size()) continue;
        copy = one.emplace(key, Seen()).first;
      }
      copy->second.Add(at, bytes);
    }
    for (const auto& [key, copy] : one) {
      const Seen& line = lines[std::get<0>(key)];
      if (10 * copy.steps < 9 * line.steps || line.bytes == 0) continue;
      facts_.same_uploads.push_back({.place = PlaceOf(std::get<0>(key)),
                                     .steps = copy.steps,
                                     .known_steps = line.steps,
                                     .share = static_cast<double>(copy.bytes) / static_cast<double>(line.bytes)});
    }
  }

  // `columns`: name, kind of copy, of copies whether they are of pageable memory and of kernels whether they compute in
  // double precision, bytes.
  void Work(const char* table, const std::string& columns, const std::string& source) {
    if (!reader_.HasTable(table)) return;
    using Key = std::tuple<int64_t, int64_t, int64_t, bool, int64_t>;  // device, name, copy, pageable, site
    std::map<Key, WorkGroup> groups;
    Measured measured(*facts_.process);
    // Work whose call is not in the trace is the process's as well, of no line.
    const std::string unattributed = reader_.HasColumn(table, "globalPid") && global_pid_
                                         ? " OR c.processId IS NULL AND w.globalPid = " + std::to_string(*global_pid_)
                                         : "";
    Question row(reader_, "SELECT w.start, w.\"end\", w.deviceId, " + columns + ", c.siteId FROM " + table +
                              " w LEFT JOIN SLIPSTREAM_CALLS c ON c.correlationId = w.correlationId WHERE "
                              "(c.processId = ?1" +
                              unattributed + ") ORDER BY w.start");
    for (row.Bind(1, facts_.process->process); row.Next();) {
      const int64_t start = trace_db::BoundedTime(row.Number(0));
      if (!measured.Has(start)) continue;
      const int64_t end = trace_db::BoundedEnd(start, row.Number(1));
      const bool is_kernel = source == "kernel";
      const bool flag = row.Number(5) != 0;
      WorkGroup& group = groups[{row.Number(2), row.Number(3), row.Number(4), !is_kernel && flag, row.Number(7)}];
      Count(trace_db::BoundedCount(row.Number(6)), end - start, &group.count, &group);
      if (is_kernel && flag) report::AddTo(&group.double_time, end - start);
    }
    for (auto& [key, group] : groups) {
      group.device = std::get<0>(key);
      if (source == "kernel") group.kernel = TextOf(std::get<1>(key));
      group.copy_kind = std::get<2>(key);
      group.pageable = std::get<3>(key);
      group.place = PlaceOf(std::get<4>(key));
      group.ids = {std::get<1>(key), std::get<4>(key)};
      group.count = static_cast<uint64_t>(facts_.OfMeasuredSteps(static_cast<int64_t>(group.count)));
      group.bytes = facts_.OfMeasuredSteps(group.bytes);
      group.time = facts_.OfMeasuredSteps(group.time);
      group.double_time = facts_.OfMeasuredSteps(group.double_time);
      facts_.work.push_back(std::move(group));
    }
  }

 private:
  using CallKey = std::tuple<int64_t, int64_t, int64_t, int64_t>;  // function, site, decision, thread
  // Threads have numbers from 0 on.
  static constexpr int64_t kStepThread = -1;
  static constexpr int64_t kBackwardThreads = -2;
  static constexpr int64_t kOtherThread = -3;

  // Threads of autograd's, which have groups of their own until it is known which of them work for the steps.
  std::map<CallKey, CallGroup> ByKind(std::map<CallKey, CallGroup>* groups) const {
    std::map<CallKey, CallGroup> sums;
    for (auto& [key, group] : *groups) {
      auto [function, site, decision, thread] = key;
      if (thread >= 0) thread = IsBackwardThread(facts_, thread) ? kBackwardThreads : kOtherThread;
      const auto [sum, is_new] = sums.try_emplace({function, site, decision, thread}, std::move(group));
      if (!is_new) AddGroup(group, &sum->second);
    }
    return sums;
  }
  static void AddGroup(const CallGroup& group, CallGroup* sum) {
    sum->calls += group.calls;
    report::AddTo(&sum->bytes, group.bytes);
    report::AddTo(&sum->time, group.time);
    sum->least = std::min(sum->least, group.least);
    sum->most = std::max(sum->most, group.most);
    sum->pauses += group.pauses;
    report::AddTo(&sum->pause_time, group.pause_time);
  }
  std::string TextOf(int64_t id) {
    const auto [text, is_new] = texts_.try_emplace(id);
    if (is_new && id != 0) {
      Question row(reader_, "SELECT value FROM StringIds WHERE id = ?1");
      if (row.Bind(1, id).Next()) text->second = row.Text(0);
    }
    return text->second;
  }
  Place PlaceOf(int64_t site) {
    const auto [place, is_new] = places_.try_emplace(site);
    if (is_new && site != 0) {
      Question row(reader_, "SELECT file, line, function FROM SLIPSTREAM_SITES WHERE siteId = ?1");
      if (row.Bind(1, site).Next()) {
        place->second = {std::string(row.Text(0)), row.NumberIfKnown(1), std::string(row.Text(2))};
      }
    }
    return place->second;
  }

  DatabaseReader& reader_;
  Facts& facts_;
  std::optional<int64_t> global_pid_;
  std::map<int64_t, std::string> texts_;
  std::map<int64_t, Place> places_;
};

}  // namespace

bool IsBackwardThread(const Facts& facts, int64_t thread) {
  return std::binary_search(facts.backward_threads.begin(), facts.backward_threads.end(), thread);
}

int64_t Facts::OfMeasuredSteps(int64_t sum) const {
  if (!process->ran_ahead) return sum;
  return std::llround(static_cast<double>(sum) * process->divisor() / process->device_divisor());
}

std::optional<int64_t> Facts::IdlePerStep() const {
  if (!devices_recorded) return std::nullopt;
  std::optional<int64_t> least;
  for (const report::DeviceReport& device : process->devices) {
    if (device.kernels == 0) continue;
    int64_t idle = 0;
    for (const int64_t time : device.times.idle) report::AddTo(&idle, time);
    if (!least || idle < *least) least = idle;
  }
  return least ? std::optional(PerStep(OfMeasuredSteps(*least))) : std::nullopt;
}

std::string ProcessorsText(double processors) {
  return report::Number(processors) + (processors == 1 ? " processor" : " processors");
}

std::optional<double> Facts::ProcessorsToUse() const {
  if (!processors) return processor_limit;
  const auto may_use = static_cast<double>(*processors);
  return processor_limit ? std::min(may_use, *processor_limit) : may_use;
}

namespace {

std::optional<int64_t> CountIn(std::string_view text) {
  const auto number = policy::NumberIn<int64_t>(text);
  return number.value_or(-1) >= 0 ? number : std::nullopt;
}

}  // namespace

Facts ReadFacts(DatabaseReader* reader, const report::Report& report, size_t process) {
  Facts facts;
  facts.report = &report;
  facts.process = &report.processes[process];
  for (const report::Step& step : facts.process->steps) {
    if (step.use == report::StepUse::kMeasured) facts.step_times.push_back(facts.process->TimeOf(step));
  }
  for (const report::DeviceReport& device : facts.process->devices) {
    facts.devices_recorded = facts.devices_recorded || device.kernels != 0;
  }
  FactsReading reading(reader, &facts);
  for (const char* const table :
       {"SLIPSTREAM_CALLS", "SLIPSTREAM_DECISIONS", "SLIPSTREAM_SITES", "CUPTI_ACTIVITY_KIND_RUNTIME", "StringIds"}) {
    if (!reader->HasTable(table)) return facts;
  }
  reading.Calls();
  ReadRecordingCost(reader, *facts.process, &facts.calls);
  reading.SameUploads();
  // A short name has no template, so functors of PyTorch's are in the other one alone.
  const std::string is_double = reader->HasColumn("CUPTI_ACTIVITY_KIND_KERNEL", "demangledName")
                                    ? "w.demangledName IN (SELECT id FROM StringIds WHERE value GLOB '*<double*' OR "
                                      "value GLOB 'dgemm*' OR value GLOB '*_dgemm*' OR value GLOB '*_d884*' OR value "
                                      "GLOB '*f64f64*')"
                                    : "0";
  reading.Work("CUPTI_ACTIVITY_KIND_KERNEL", "w.shortName, -1, " + is_double + ", 0", "kernel");
  // srcKind and dstKind: 0 is pageable memory (ENUM_CUDA_MEM_KIND).
  const bool has_kinds = reader->HasColumn("CUPTI_ACTIVITY_KIND_MEMCPY", "srcKind") &&
                         reader->HasColumn("CUPTI_ACTIVITY_KIND_MEMCPY", "dstKind");
  const std::string pageable = has_kinds ? "w.srcKind = 0 OR w.dstKind = 0" : "0";
  reading.Work("CUPTI_ACTIVITY_KIND_MEMCPY", "0, w.copyKind, " + pageable + ", w.bytes", "copy");
  reading.Work("CUPTI_ACTIVITY_KIND_MEMSET", "0, -1, 0, w.bytes", "set");
  if (reader->HasTable("SLIPSTREAM_FACTS")) {
    Question row(*reader, "SELECT key, value FROM SLIPSTREAM_FACTS WHERE processId = ?1");
    for (row.Bind(1, facts.process->process); row.Next();) {
      if (row.Text(0) == tracer::kFactProcessors) facts.processors = CountIn(row.Text(1));
      if (row.Text(0) == tracer::kFactProcessorLimit) {
        if (const auto limit = CountIn(row.Text(1))) facts.processor_limit = static_cast<double>(*limit) / 1000;
      }
      if (row.Text(0) == tracer::kFactSharedMemory) facts.shared_memory = CountIn(row.Text(1));
    }
  }
  facts.tasks = ReadTasks(reader, *facts.process);
  for (const report::ProcessReport& other : report.processes) {
    const bool is_this = &other == facts.process;
    if (!is_this && (!other.has_steps || other.host != facts.process->host)) continue;
    facts.machine.push_back(is_this ? facts.tasks : ReadTasks(reader, other));
  }
  if (reader->HasTable("TARGET_INFO_GPU") && reader->HasColumn("TARGET_INFO_GPU", "totalMemory")) {
    Question row(*reader, "SELECT max(totalMemory) FROM TARGET_INFO_GPU");
    if (row.Next()) facts.device_memory = row.NumberIfKnown(0);
  }
  if (reader->HasColumn("TARGET_INFO_GPU", "computeMajor") && reader->HasColumn("TARGET_INFO_GPU", "computeMinor")) {
    Question row(*reader,
                 "SELECT min(computeMajor * 10 + computeMinor), max(computeMajor * 10 + computeMinor) "
                 "FROM TARGET_INFO_GPU");
    if (row.Next() && row.Number(0) == row.Number(1)) facts.compute_capability = row.NumberIfKnown(0);
  }
  if (facts.devices_recorded) facts.step_idle = ReadIdleOfSteps(reader, *facts.process);
  facts.slow_steps = ReadSlowSteps(reader, *facts.process);
  facts.convolutions = ReadConvolutions(reader, *facts.process);
  facts.anomalies = ReadAnomalies(reader, facts);
  facts.replay = ReadReplay(reader, facts);
  if (facts.replay != nullptr) facts.recording = facts.replay->Recorded() - facts.replay->Unrecorded();
  return facts;
}

}  // namespace slipstream::advise
