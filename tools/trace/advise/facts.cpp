#include "tools/trace/advise/facts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "policy/number.h"
#include "tools/trace/advise/recording_cost.h"
#include "tools/trace/advise/replay_reader.h"
#include "tools/trace/advise/sums.h"
#include "tools/trace/db/bounded.h"
#include "tools/trace/report/call_kind.h"
#include "tools/trace/report/distribution.h"
#include "tools/trace/report/format.h"
#include "tools/trace/report/steps.h"
#include "tools/trace/run/calls.h"
#include "tools/trace/run/device_work.h"
#include "tools/trace/run/names.h"
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
  FactsReading(DatabaseReader* reader, Facts* facts) : reader_(*reader), names_(reader), facts_(*facts) {}

  // `replay`: null, or it gets them too, by their numbers in `groups`.
  void Calls(ReplayReading* replay) {
    BackwardThreads backward(&reader_, *facts_.process);
    Measured measured(*facts_.process);
    const int64_t step_thread = facts_.process->step_thread;
    std::map<CallKey, uint32_t> numbers;
    std::vector<CallGroup> groups;
    int64_t all_until = std::numeric_limits<int64_t>::max();  // of any thread; at first, nobody knows
    for (run::Calls calls(&reader_, facts_.process->process); calls.Next();) {
      const run::Call& call = calls.now();
      const int64_t pause = all_until < call.start ? call.start - all_until : 0;
      all_until = all_until == std::numeric_limits<int64_t>::max() ? call.end : std::max(all_until, call.end);
      if (!measured.Has(call.start)) {
        if (replay != nullptr) replay->LeaveOut(call);
        continue;
      }
      const bool mine = !facts_.process->has_steps || call.thread == step_thread;
      backward.Add(call.thread, mine, call.start, call.end);
      const int64_t thread = mine ? kStepThread : backward.IsOne(call.thread) ? call.thread : kOtherThread;
      const auto [number, is_new] =
          numbers.try_emplace({call.function, call.site, call.decision, thread, !call.site_is_backward}, groups.size());
      if (mine) forward_sites_.insert(call.site);
      if (is_new) groups.emplace_back();
      CallGroup& group = groups[number->second];
      Count(call.bytes, call.end - call.start, &group.calls, &group);
      if (replay != nullptr) replay->Add(call, number->second);
      if (pause < kPause) continue;
      ++group.pauses;
      report::AddTo(&group.pause_time, pause);
    }
    facts_.backward_threads = backward.Found();
    call_groups_.resize(groups.size());
    std::map<CallKey, std::vector<uint32_t>> kinds;
    for (const auto& [key, number] : numbers) kinds[KindOf(key)].push_back(number);
    for (const auto& [key, of_kind] : kinds) {
      CallGroup group = groups[of_kind.front()];
      for (size_t i = 1; i < of_kind.size(); ++i) AddGroup(groups[of_kind[i]], &group);
      for (const uint32_t number : of_kind) call_groups_[number] = static_cast<uint32_t>(facts_.calls.size());
      group.function = report::PlainName(names_.TextOf(std::get<0>(key)));
      group.place = names_.LineOf(std::get<1>(key));
      group.decision = names_.TextOf(std::get<2>(key));
      group.of_step_thread = std::get<3>(key) == kStepThread;
      group.of_backward = std::get<3>(key) == kBackwardThreads;
      group.recomputes = group.of_backward && Recomputes(std::get<1>(key), std::get<4>(key));
      group.ids = {std::get<0>(key), std::get<1>(key), std::get<2>(key)};
      facts_.calls.push_back(std::move(group));
    }
  }
  // Of kernels whose calls are in the trace.
  Convolutions FindConvolutions() {
    std::vector<KernelsOfLine> kernels;
    for (const auto& [key, when] : kernels_) {
      kernels.push_back(
          {.name = names_.TextOf(key.first), .site = key.second, .first = when.first, .last = when.second});
    }
    return advise::FindConvolutions(*facts_.process, kernels);
  }
  // Indices of Facts::calls, by the numbers that a replay got; and of Facts::work.
  const std::vector<uint32_t>& call_groups() const { return call_groups_; }
  const std::vector<uint32_t>& work_groups() const { return work_groups_; }

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
      facts_.same_uploads.push_back({.place = names_.LineOf(std::get<0>(key)),
                                     .steps = copy.steps,
                                     .known_steps = line.steps,
                                     .share = static_cast<double>(copy.bytes) / static_cast<double>(line.bytes)});
    }
  }

  void Work(run::WorkKind kind, ReplayReading* replay) {
    // Device, name, copy, pageable, site, whether it is for an activation checkpoint.
    using Key = std::tuple<int64_t, int64_t, int64_t, bool, int64_t, bool>;
    std::map<Key, uint32_t> numbers;
    std::vector<WorkGroup> groups;
    const auto before = static_cast<uint32_t>(work_groups_.size());
    Measured measured(*facts_.process);
    struct Fill {
      uint32_t group = 0;
      int64_t time = 0;
      bool is_measured = false;
    };
    std::map<std::tuple<int64_t, int64_t, int64_t>, Fill> last_fills;  // by device, context, stream
    for (run::DeviceWork works(&reader_, facts_.process->process, kind); works.Next();) {
      const run::Work& work = works.now();
      const Key key = {
          work.device,    work.kernel,
          work.copy_kind, work.is_pageable,
          work.site,      IsBackwardThread(facts_, work.thread) && Recomputes(work.site, !work.site_is_backward)};
      const auto [number, is_new] = numbers.try_emplace(key, groups.size());
      if (is_new) groups.emplace_back();
      if (replay != nullptr) replay->Add(work, before + number->second);
      if (kind == run::WorkKind::kKernel && work.has_call) {
        kernels_.try_emplace({work.kernel, work.site}, work.start, 0).first->second.second = work.start;
      }
      const bool is_measured = measured.Has(work.start);
      if (kind == run::WorkKind::kKernel) {
        Fill& fill = last_fills[{work.device, work.context, work.stream}];
        if (work.is_fill) fill = {number->second, work.end - work.start, is_measured};
        if (fill.is_measured && IsOfEmbeddingGradient(names_.TextOf(work.kernel))) {
          ++groups[fill.group].gradient_fills;
          report::AddTo(&groups[fill.group].gradient_fill_time, fill.time);
          fill = {};
        }
      }
      if (!is_measured) continue;
      WorkGroup& group = groups[number->second];
      Count(work.bytes, work.end - work.start, &group.count, &group);
      if (work.is_double) report::AddTo(&group.double_time, work.end - work.start);
      if (work.is_fill) report::AddTo(&group.fill_time, work.end - work.start);
      group.fills += work.is_fill ? 1 : 0;
    }
    work_groups_.resize(before + groups.size(), Replay::kNone);
    for (const auto& [key, number] : numbers) {
      WorkGroup& group = groups[number];
      if (group.count == 0) continue;
      group.device = std::get<0>(key);
      group.kernel = names_.TextOf(std::get<1>(key));
      group.copy_kind = std::get<2>(key);
      group.pageable = std::get<3>(key);
      group.place = names_.LineOf(std::get<4>(key));
      group.recomputes = std::get<5>(key);
      group.ids = {std::get<1>(key), std::get<4>(key)};
      group.count = static_cast<uint64_t>(facts_.OfMeasuredSteps(static_cast<int64_t>(group.count)));
      group.bytes = facts_.OfMeasuredSteps(group.bytes);
      group.time = facts_.OfMeasuredSteps(group.time);
      group.double_time = facts_.OfMeasuredSteps(group.double_time);
      group.fill_time = facts_.OfMeasuredSteps(group.fill_time);
      group.gradient_fill_time = facts_.OfMeasuredSteps(group.gradient_fill_time);
      for (uint64_t* const count : {&group.fills, &group.gradient_fills})
        *count = static_cast<uint64_t>(facts_.OfMeasuredSteps(static_cast<int64_t>(*count)));
      work_groups_[before + number] = static_cast<uint32_t>(facts_.work.size());
      facts_.work.push_back(std::move(group));
    }
  }

 private:
  // Function, site, decision, thread, whether the thread itself was at the site.
  using CallKey = std::tuple<int64_t, int64_t, int64_t, int64_t, bool>;
  // Threads have numbers from 0 on.
  static constexpr int64_t kStepThread = -1;
  static constexpr int64_t kBackwardThreads = -2;
  static constexpr int64_t kOtherThread = -3;

  // A thread of the backward pass is at a line that the step's own thread calls CUDA from, too: it makes the forward
  // pass again, as torch.utils.checkpoint does.
  bool Recomputes(int64_t site, bool is_there) const { return site != 0 && is_there && forward_sites_.contains(site); }

  // Threads of autograd's have groups of their own until it is known which of them work for the steps.
  CallKey KindOf(CallKey key) const {
    int64_t& thread = std::get<3>(key);
    if (thread >= 0) thread = IsBackwardThread(facts_, thread) ? kBackwardThreads : kOtherThread;
    return key;
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

  DatabaseReader& reader_;
  run::Names names_;
  Facts& facts_;
  std::unordered_set<int64_t> forward_sites_;
  std::vector<uint32_t> call_groups_;
  std::vector<uint32_t> work_groups_;
  std::map<std::pair<int64_t, int64_t>, std::pair<int64_t, int64_t>> kernels_;  // by name and site: first and last
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
  for (const report::DeviceReport& device : facts.process->devices) {
    facts.devices_recorded = facts.devices_recorded || device.kernels != 0;
  }
  for (const report::Step& step : facts.process->steps) {
    if (step.use != report::StepUse::kMeasured) continue;
    facts.step_times.push_back(facts.process->TimeOf(step));
    if (facts.devices_recorded) facts.step_idle.push_back(step.idle);
  }
  if (!run::Calls::AreIn(reader)) return facts;
  FactsReading reading(reader, &facts);
  std::optional<ReplayReading> replay = ReplayReading::Of(facts);
  ReplayReading* const replayed = replay ? &*replay : nullptr;
  reading.Calls(replayed);
  ReadRecordingCost(reader, *facts.process, &facts.calls);
  if (replay) replay->CallsAreOf(reading.call_groups());
  reading.SameUploads();
  for (const run::WorkKind kind : {run::WorkKind::kKernel, run::WorkKind::kCopy, run::WorkKind::kSet}) {
    reading.Work(kind, replayed);
  }
  facts.convolutions = reading.FindConvolutions();
  if (replay) facts.replay = replay->Take(reading.work_groups());
  if (facts.replay != nullptr) facts.recording = facts.replay->Recorded() - facts.replay->Unrecorded();
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
  facts.slow_steps = ReadSlowSteps(reader, *facts.process);
  facts.anomalies = ReadAnomalies(reader, facts);
  return facts;
}

}  // namespace slipstream::advise
