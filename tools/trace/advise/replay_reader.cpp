#include "tools/trace/advise/replay_reader.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "tools/trace/advise/sums.h"
#include "tools/trace/db/bounded.h"
#include "tools/trace/report/call_kind.h"
#include "tools/trace/report/steps.h"
#include "tools/trace/report/stream_work.h"

namespace slipstream::advise {
namespace {

using report::Interval;

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
  for (const report::Step& step : process.steps) {
    if (step.use == report::StepUse::kMeasured) events += step.calls + step.calls_elsewhere;
  }
  for (const report::DeviceReport& device : process.devices) {
    events += device.kernels;
    for (const report::DeviceCopyReport& copies : device.copies) events += copies.count;
  }
  const uint64_t of_step = std::max<uint64_t>(1, events / std::max<size_t>(1, all));
  steps.resize(std::min<size_t>(steps.size(), std::max<uint64_t>(1, Replay::kMostEvents / of_step)));
  return steps;
}

}  // namespace

std::optional<ReplayReading> ReplayReading::Of(const Facts& facts) {
  if (!facts.devices_recorded || !facts.process->has_steps || facts.process->unwatched_everywhere) return std::nullopt;
  const std::vector<report::Step> steps = Chosen(facts);
  if (steps.empty()) return std::nullopt;
  return ReplayReading(facts, steps);
}

ReplayReading::ReplayReading(const Facts& facts, const std::vector<report::Step>& steps)
    : facts_(&facts), steps_(static_cast<int64_t>(steps.size())) {
  for (const Interval& time : report::MeasuredTime(steps)) {
    stretches_.push_back({.time = time, .calls = {}, .work = {}});
  }
  size_t calls = 0;
  for (const report::Step& step : steps) {
    if (const size_t at = StretchOf(step.start); at < stretches_.size()) stretches_[at].steps.push_back(step.start);
    calls += step.calls + step.calls_elsewhere;
  }
  calls_.reserve(calls);
  askers_.resize(stretches_.size());
}

void ReplayReading::Add(const run::Call& call, uint32_t number) {
  const size_t at = StretchOf(call.start);
  if (at == stretches_.size()) return LeaveOut(call);
  calls_[call.correlation] = {static_cast<uint32_t>(at), static_cast<uint32_t>(stretches_[at].calls.size())};
  stretches_[at].calls.push_back({.start = call.start,
                                  .end = call.end,
                                  .group = number,
                                  .of_step_thread = call.thread == facts_->process->step_thread});
  askers_[at].push_back({call.stream, call.thread});
}

void ReplayReading::LeaveOut(const run::Call& call) {
  if (IsAmongThem(call.start)) calls_[call.correlation] = {Replay::kNone, 0};
}

void ReplayReading::CallsAreOf(std::span<const uint32_t> groups) {
  for (Replay::Events& stretch : stretches_) {
    for (Replay::Call& call : stretch.calls) {
      call.group = groups[call.group];
      call.waits = WaitsOf(facts_->calls[call.group]);
      call.recording = facts_->calls[call.group].recording;
    }
  }
  LeaveOutBystanders();
}

void ReplayReading::Add(const run::Work& work, uint32_t number) {
  // Work may run behind the steps that asked for it, but not for longer than they took.
  const int64_t first = stretches_.front().time.start;
  const int64_t end = stretches_.back().time.end;
  if (work.start < first || work.start >= trace_db::Sum(end, end - first)) return;
  // Work belongs where it was asked for, though it may run later; where nobody knows that, where it begins.
  const auto call = calls_.find(work.correlation);
  if (call == calls_.end() && work.has_call) return;  // before all of them
  const size_t at = call == calls_.end() ? StretchOf(work.start) : call->second.first;
  if (at >= stretches_.size()) return;
  Replay::Work one = {.start = work.start, .end = work.end, .group = number};
  if (call != calls_.end()) one.call = call->second.second;
  const std::tuple<int64_t, int64_t, int64_t> stream = {work.device, work.context, work.stream};
  one.stream = streams_.try_emplace(stream, static_cast<uint32_t>(streams_.size())).first->second;
  // A device has an engine for each direction.
  const std::pair<int64_t, int64_t> engine = {work.device, work.copy_kind};
  one.engine = engines_.try_emplace(engine, static_cast<uint32_t>(engines_.size())).first->second;
  stretches_[at].work.push_back(one);
}

// Which stream a handle stands for is what work of calls with that handle ran on.
std::shared_ptr<const Replay> ReplayReading::Take(std::span<const uint32_t> groups) {
  std::map<report::StreamHandle, uint32_t> stream_of;  // kNone: of several
  for (size_t at = 0; at < stretches_.size(); ++at) {
    for (Replay::Work& work : stretches_[at].work) {
      work.group = groups[work.group];
      if (work.call == Replay::kNone || !NamesItsStream(stretches_[at].calls[work.call])) continue;
      const Asker& asker = askers_[at][work.call];
      const auto [stream, is_new] = stream_of.try_emplace({asker.stream, asker.thread}, work.stream);
      if (!is_new && stream->second != work.stream) stream->second = Replay::kNone;
    }
  }
  for (size_t at = 0; at < stretches_.size(); ++at) {
    for (size_t i = 0; i < stretches_[at].calls.size(); ++i) {
      Replay::Call& call = stretches_[at].calls[i];
      if (call.waits != Replay::Waits::kForItsStream) continue;
      const auto stream = stream_of.find({askers_[at][i].stream, askers_[at][i].thread});
      if (stream != stream_of.end()) call.stream = stream->second;
    }
  }
  return std::make_shared<const Replay>(std::move(stretches_), steps_);
}

// Threads beside the one that makes the steps that ask devices for nothing and wait for nothing, such as the one of a
// loader that pins batches: what they call is no reason for the host's time.
void ReplayReading::LeaveOutBystanders() {
  std::set<int64_t> at_work = {facts_->process->step_thread};
  for (size_t at = 0; at < stretches_.size(); ++at) {
    for (size_t i = 0; i < askers_[at].size(); ++i) {
      const Replay::Call& call = stretches_[at].calls[i];
      const CallGroup& group = facts_->calls[call.group];
      const bool works = IsLaunchCall(group) || IsCopyCall(group) || group.function.find("Memset") != std::string::npos;
      if (works || call.waits != Replay::Waits::kNever) at_work.insert(askers_[at][i].thread);
    }
  }
  std::vector<std::vector<uint32_t>> numbers(stretches_.size());  // the new ones, by the old ones
  for (size_t at = 0; at < stretches_.size(); ++at) {
    uint32_t kept = 0;
    for (size_t i = 0; i < askers_[at].size(); ++i) {
      const bool stays = at_work.contains(askers_[at][i].thread);
      numbers[at].push_back(stays ? kept : Replay::kNone);
      if (!stays) continue;
      stretches_[at].calls[kept] = stretches_[at].calls[i];
      askers_[at][kept++] = askers_[at][i];
    }
    stretches_[at].calls.resize(kept);
    askers_[at].resize(kept);
  }
  for (auto& [correlation, place] : calls_) {
    if (place.first != Replay::kNone) place.second = numbers[place.first][place.second];
  }
}

// Copies may run on a stream of slipstream's.
bool ReplayReading::NamesItsStream(const Replay::Call& call) const {
  const CallGroup& group = facts_->calls[call.group];
  return IsLaunchCall(group) && report::NamesItsStream(group.function);
}

size_t ReplayReading::StretchOf(int64_t time) const {
  const auto next = std::upper_bound(stretches_.begin(), stretches_.end(), time,
                                     [](int64_t at, const Replay::Events& events) { return at < events.time.start; });
  if (next == stretches_.begin()) return stretches_.size();
  const auto at = static_cast<size_t>(next - stretches_.begin() - 1);
  return time < stretches_[at].time.end ? at : stretches_.size();
}

bool ReplayReading::IsAmongThem(int64_t time) const {
  return time >= stretches_.front().time.start && time < stretches_.back().time.end;
}

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

}  // namespace slipstream::advise
