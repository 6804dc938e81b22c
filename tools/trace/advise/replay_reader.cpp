#include "tools/trace/advise/replay_reader.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tools/trace/advise/sums.h"
#include "tools/trace/db/bounded.h"
#include "tools/trace/report/call_kind.h"
#include "tools/trace/report/steps.h"
#include "tools/trace/report/stream_work.h"

namespace slipstream::advise {
namespace {

using report::Interval;
using trace_db::DatabaseReader;
using trace_db::Question;

// The steps that are replayed.
std::vector<report::Step> Chosen(const Facts& facts) {
  const report::ProcessReport& process = *facts.process;
  std::vector<report::Step> steps;
  for (const report::Step& step : process.steps) {
    if (step.use == report::StepUse::kMeasured) steps.push_back(step);
  }
  const size_t all = steps.size();
  const auto is_slow = [&](const report::Step& step) {
    return report::IsSlow(process.TimeOf(step), process.pace_of_work());
  };
  const auto slow = static_cast<size_t>(std::count_if(steps.begin(), steps.end(), is_slow));
  if (slow <= all / 4) std::erase_if(steps, is_slow);
  uint64_t events = 0;
  for (const CallGroup& group : facts.calls) events += group.calls;
  for (const WorkGroup& group : facts.work) events += group.count;
  const uint64_t of_step = std::max<uint64_t>(1, events / std::max<size_t>(1, all));
  steps.resize(std::min<size_t>(steps.size(), std::max<uint64_t>(1, Replay::kMostEvents / of_step)));
  return steps;
}

class ReplayReading {
 public:
  ReplayReading(DatabaseReader* reader, const Facts& facts, const std::vector<report::Step>& steps)
      : reader_(*reader), facts_(facts) {
    for (const Interval& time : report::MeasuredTime(steps)) {
      stretches_.push_back({.time = time, .calls = {}, .work = {}});
    }
    for (const report::Step& step : steps) {
      if (const size_t at = StretchOf(step.start); at < stretches_.size()) {
        stretches_[at].steps.push_back(step.start);
      }
    }
    if (!reader_.HasTable("SLIPSTREAM_PROCESSES")) return;
    Question row(reader_, "SELECT globalPid FROM SLIPSTREAM_PROCESSES WHERE processId = ?1");
    if (row.Bind(1, facts_.process->process).Next()) global_pid_ = row.NumberIfKnown(0);
  }

  void Calls() {
    std::map<std::tuple<int64_t, int64_t, int64_t, bool, bool>, uint32_t> groups;
    for (uint32_t i = 0; i < facts_.calls.size(); ++i) {
      const CallGroup& group = facts_.calls[i];
      groups[{group.ids[0], group.ids[1], group.ids[2], group.of_step_thread, group.of_backward}] = i;
    }
    Question row(reader_,
                 "SELECT r.start, r.\"end\", r.nameId, c.siteId, d.decisionId, c.thread, c.correlationId, c.stream "
                 "FROM SLIPSTREAM_CALLS c JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = c.correlationId "
                 "LEFT JOIN SLIPSTREAM_DECISIONS d ON d.correlationId = c.correlationId WHERE c.processId = ?1 "
                 "AND r.start >= ?2 AND r.start < ?3 ORDER BY r.start, r.\"end\" DESC");
    if (stretches_.empty()) return;
    const int64_t first = stretches_.front().time.start;
    for (row.Bind(1, facts_.process->process).Bind(2, first).Bind(3, stretches_.back().time.end); row.Next();) {
      const int64_t start = trace_db::BoundedTime(row.Number(0));
      const size_t at = StretchOf(start);
      if (at == stretches_.size()) {
        calls_[row.Number(6)] = {Replay::kNone, 0};
        continue;
      }
      const bool mine = row.Number(5) == facts_.process->step_thread;
      const bool backward = !mine && IsBackwardThread(facts_, row.Number(5));
      const auto group = groups.find({row.Number(2), row.Number(3), row.Number(4), mine, backward});
      Replay::Call call;
      call.start = start;
      call.end = trace_db::BoundedEnd(start, row.Number(1));
      call.of_step_thread = mine;
      if (group != groups.end()) {
        call.group = group->second;
        call.waits = WaitsOf(facts_.calls[group->second]);
        call.recording = facts_.calls[group->second].recording;
      }
      const auto number = static_cast<uint32_t>(stretches_[at].calls.size());
      calls_[row.Number(6)] = {static_cast<uint32_t>(at), number};
      stretches_[at].calls.push_back(call);
      handles_.resize(stretches_.size());
      handles_[at].emplace_back(row.Number(7), row.Number(5));
    }
    LeaveOutBystanders();
  }

  void Work(const char* table, const std::string& columns, bool is_kernel) {
    if (!reader_.HasTable(table)) return;
    const auto column = [&](const char* name, const char* without) {
      return reader_.HasColumn(table, name) ? std::string("w.") + name : std::string(without);
    };
    std::map<std::tuple<int64_t, int64_t, int64_t, int64_t, bool>, uint32_t> groups;
    for (uint32_t i = 0; i < facts_.work.size(); ++i) {
      const WorkGroup& group = facts_.work[i];
      if (group.kernel.empty() == is_kernel) continue;
      groups[{group.device, group.ids[0], group.copy_kind, group.ids[1], group.pageable}] = i;
    }
    const std::string unattributed = reader_.HasColumn(table, "globalPid") && global_pid_
                                         ? " OR c.processId IS NULL AND w.globalPid = " + std::to_string(*global_pid_)
                                         : "";
    Question row(reader_, "SELECT w.start, w.\"end\", w.deviceId, " + columns + ", c.siteId, " +
                              column("contextId", "w.deviceId") + ", " + column("streamId", "0") +
                              ", w.correlationId, c.processId FROM " + table +
                              " w LEFT JOIN SLIPSTREAM_CALLS c ON c.correlationId = w.correlationId WHERE "
                              "(c.processId = ?1" +
                              unattributed + ") AND w.start >= ?2 AND w.start < ?3 ORDER BY w.start");
    // Work may run behind the steps that asked for it, but not for longer than they took.
    const int64_t first = stretches_.empty() ? 0 : stretches_.front().time.start;
    const int64_t end = stretches_.empty() ? 0 : stretches_.back().time.end;
    for (row.Bind(1, facts_.process->process).Bind(2, first).Bind(3, trace_db::Sum(end, end - first)); row.Next();) {
      const int64_t start = trace_db::BoundedTime(row.Number(0));
      // Work belongs where it was asked for, though it may run later; where nobody knows that, where it begins.
      const auto call = calls_.find(row.Number(9));
      if (call == calls_.end() && !row.IsNull(10)) continue;  // before all of them
      const size_t at = call == calls_.end() ? StretchOf(start) : call->second.first;
      if (at >= stretches_.size()) continue;
      Replay::Work work;
      if (call != calls_.end()) work.call = call->second.second;
      work.start = start;
      work.end = trace_db::BoundedEnd(start, row.Number(1));
      const auto group = groups.find({row.Number(2), row.Number(3), row.Number(4), row.Number(6), row.Number(5) != 0});
      if (group != groups.end()) work.group = group->second;
      const std::tuple<int64_t, int64_t, int64_t> stream = {row.Number(2), row.Number(7), row.Number(8)};
      work.stream = streams_.try_emplace(stream, static_cast<uint32_t>(streams_.size())).first->second;
      // A device has an engine for each direction.
      const std::pair<int64_t, int64_t> engine = {row.Number(2), row.Number(4)};
      work.engine = engines_.try_emplace(engine, static_cast<uint32_t>(engines_.size())).first->second;
      stretches_[at].work.push_back(work);
    }
  }

  // Which stream a handle stands for is what work of calls with that handle ran on.
  std::vector<Replay::Events> Take() {
    std::map<report::StreamHandle, uint32_t> stream_of;  // kNone: of several
    for (size_t at = 0; at < handles_.size(); ++at) {
      for (const Replay::Work& work : stretches_[at].work) {
        if (work.call == Replay::kNone || !NamesItsStream(stretches_[at].calls[work.call])) continue;
        const auto& [handle, thread] = handles_[at][work.call];
        const auto [stream, is_new] = stream_of.try_emplace({handle, thread}, work.stream);
        if (!is_new && stream->second != work.stream) stream->second = Replay::kNone;
      }
    }
    for (size_t at = 0; at < handles_.size(); ++at) {
      for (size_t i = 0; i < stretches_[at].calls.size(); ++i) {
        Replay::Call& call = stretches_[at].calls[i];
        if (call.waits != Replay::Waits::kForItsStream) continue;
        const auto stream = stream_of.find({handles_[at][i].first, handles_[at][i].second});
        if (stream != stream_of.end()) call.stream = stream->second;
      }
    }
    return std::move(stretches_);
  }

 private:
  // Threads beside the one that makes the steps that ask devices for nothing and wait for nothing, such as the one of a
  // loader that pins batches: what they call is no reason for the host's time.
  void LeaveOutBystanders() {
    std::set<int64_t> at_work = {facts_.process->step_thread};
    for (size_t at = 0; at < handles_.size(); ++at) {
      for (size_t i = 0; i < handles_[at].size(); ++i) {
        const Replay::Call& call = stretches_[at].calls[i];
        if (call.group == Replay::kNone) continue;
        const CallGroup& group = facts_.calls[call.group];
        const bool works =
            IsLaunchCall(group) || IsCopyCall(group) || group.function.find("Memset") != std::string::npos;
        if (works || call.waits != Replay::Waits::kNever) at_work.insert(handles_[at][i].second);
      }
    }
    std::vector<std::vector<uint32_t>> numbers(handles_.size());  // the new ones, by the old ones
    for (size_t at = 0; at < handles_.size(); ++at) {
      uint32_t kept = 0;
      for (size_t i = 0; i < handles_[at].size(); ++i) {
        const bool stays = at_work.contains(handles_[at][i].second);
        numbers[at].push_back(stays ? kept : Replay::kNone);
        if (!stays) continue;
        stretches_[at].calls[kept] = stretches_[at].calls[i];
        handles_[at][kept++] = handles_[at][i];
      }
      stretches_[at].calls.resize(kept);
      handles_[at].resize(kept);
    }
    for (auto& [correlation, place] : calls_) {
      if (place.first != Replay::kNone) place.second = numbers[place.first][place.second];
    }
  }
  // Copies may run on a stream of slipstream's.
  bool NamesItsStream(const Replay::Call& call) const {
    if (call.group == Replay::kNone) return false;
    const CallGroup& group = facts_.calls[call.group];
    return IsLaunchCall(group) && report::NamesItsStream(group.function);
  }
  // stretches_.size(): in none.
  size_t StretchOf(int64_t time) const {
    const auto next = std::upper_bound(stretches_.begin(), stretches_.end(), time,
                                       [](int64_t at, const Replay::Events& events) { return at < events.time.start; });
    if (next == stretches_.begin()) return stretches_.size();
    const auto at = static_cast<size_t>(next - stretches_.begin() - 1);
    return time < stretches_[at].time.end ? at : stretches_.size();
  }

  DatabaseReader& reader_;
  const Facts& facts_;
  std::optional<int64_t> global_pid_;
  std::vector<Replay::Events> stretches_;
  // Stretch (kNone: none) and number, by correlationId.
  std::unordered_map<int64_t, std::pair<uint32_t, uint32_t>> calls_;
  std::vector<std::vector<std::pair<int64_t, int64_t>>> handles_;  // of the stream, and thread, of each call
  std::map<std::tuple<int64_t, int64_t, int64_t>, uint32_t> streams_;
  std::map<std::pair<int64_t, int64_t>, uint32_t> engines_;
};

}  // namespace

Replay::Waits WaitsOf(const CallGroup& group) {
  // What slipstream skipped did not wait, nor what it promoted to a copy that returns at once.
  if (group.decision.starts_with("transfer.sync.skipped") || group.decision.starts_with("transfer.h2d.promoted")) {
    return Replay::Waits::kNever;
  }
  if (group.function.find("StreamSynchronize") != std::string::npos) return Replay::Waits::kForItsStream;
  if (group.function.find("EventSynchronize") != std::string::npos) return Replay::Waits::kForAnEvent;
  if (IsWaitCall(group)) return Replay::Waits::kForTheDevice;
  if (IsCopyCall(group)) return Replay::Waits::kForItsOwnWork;
  // A free waits until the device is idle (CUDA Runtime API, cudaFree), unless a pool took the memory.
  const bool frees = group.function == "cudaFree" || group.function == "cuMemFree" || group.function == "cuMemFree_v2";
  return frees && group.decision.empty() ? Replay::Waits::kForTheDevice : Replay::Waits::kNever;
}

std::shared_ptr<const Replay> ReadReplay(DatabaseReader* reader, const Facts& facts) {
  if (!facts.devices_recorded || !facts.process->has_steps || facts.process->unwatched_everywhere) return nullptr;
  const std::vector<report::Step> steps = Chosen(facts);
  if (steps.empty()) return nullptr;
  ReplayReading reading(reader, facts, steps);
  reading.Calls();
  const bool has_kinds = reader->HasColumn("CUPTI_ACTIVITY_KIND_MEMCPY", "srcKind") &&
                         reader->HasColumn("CUPTI_ACTIVITY_KIND_MEMCPY", "dstKind");

  reading.Work("CUPTI_ACTIVITY_KIND_KERNEL", "w.shortName, -1, 0", true);
  reading.Work("CUPTI_ACTIVITY_KIND_MEMCPY",
               std::string("0, w.copyKind, ") + (has_kinds ? "(w.srcKind = 0 OR w.dstKind = 0)" : "0"), false);
  reading.Work("CUPTI_ACTIVITY_KIND_MEMSET", "0, -1, 0", false);
  return std::make_shared<const Replay>(reading.Take(), static_cast<int64_t>(steps.size()));
}

}  // namespace slipstream::advise
