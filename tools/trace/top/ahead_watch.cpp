#include "tools/trace/top/ahead_watch.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace slipstream::top {
namespace {

// Of samples: a window is seconds long.
constexpr uint64_t kSampleNs = 100'000'000;
constexpr size_t kMostSamples = 1024;

}  // namespace

const std::vector<report::Interval>& AheadWatch::Always() {
  static const std::vector<report::Interval> always = {{.start = 0, .end = std::numeric_limits<int64_t>::max()}};
  return always;
}

void AheadWatch::Add(const Call& call) {
  calls_.push_back(call);
  if (calls_.size() <= kMostCalls) return;
  Judge(calls_.front());
  calls_.pop_front();
}

void AheadWatch::Add(const Work& work) {
  if (context_ && *context_ != work.context) streams_.SeveralContexts();
  context_ = work.context;
  works_.emplace(work.correlation, work);
  order_.push_back(work.correlation);
  if (order_.size() <= kMostCalls) return;
  works_.erase(order_.front());
  order_.pop_front();
}

bool AheadWatch::IsReady(const Call& call, uint64_t complete_to_ns) const {
  if (call.end_ns > complete_to_ns) return false;
  return call.correlation == 0 || works_.count(call.correlation) != 0 || complete_to_ns - call.end_ns >= kPatienceNs;
}

void AheadWatch::Advance(uint64_t complete_to_ns) {
  while (!calls_.empty() && IsReady(calls_.front(), complete_to_ns)) {
    Judge(calls_.front());
    calls_.pop_front();
  }
}

void AheadWatch::Judge(const Call& call) {
  const report::StreamHandle handle(static_cast<int64_t>(call.stream), call.thread);
  Thread& thread = threads_.try_emplace(call.thread, &Always()).first->second;
  const bool staged = call.kind == report::CallKind::kCopy && call.makes_it_return;
  const bool may_wait = call.kind == report::CallKind::kSynchronize || call.kind == report::CallKind::kAllocator ||
                        (call.kind == report::CallKind::kCopy && !staged);
  const int64_t lost = std::max<int64_t>(0, -std::max(call.saved_ns, -std::numeric_limits<int64_t>::max()));
  if (call.hooked) {
    thread.ahead.Add({.start = static_cast<int64_t>(call.start_ns),
                      .end = static_cast<int64_t>(call.end_ns),
                      .kind = call.kind,
                      .waits = may_wait || lost > 0,
                      .lost = lost});
  }
  if (call.skips_a_wait) {
    ++thread.skipped;
    if (const auto until = streams_.Until(handle)) {
      thread.ahead.Skipped(*until);
    } else {
      ++thread.unknown;
    }
  }
  // What it asked for runs behind what it waited for.
  if (call.correlation != 0) {
    const auto [first, last] = works_.equal_range(call.correlation);
    for (auto at = first; at != last; ++at) {
      const Work& work = at->second;
      const report::StreamWork::Stream stream(work.context, work.stream);
      const auto end = static_cast<int64_t>(work.end_ns);
      if (!work.of_graph) streams_.Add(stream, end);
      if (!call.hooked) continue;
      if (work.of_graph) {
        streams_.AddFor(handle, end);
      } else if (call.names_its_stream) {
        streams_.Is(handle, stream);
      }
    }
    works_.erase(first, last);
  }
  if (call.destroys_its_stream) streams_.Destroyed(handle);
  if (samples_.empty() || call.end_ns >= samples_.back().time_ns + kSampleNs) TakeSample(call.end_ns);
}

void AheadWatch::TakeSample(uint64_t time_ns) {
  const auto most = std::max_element(threads_.begin(), threads_.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second.skipped, b.first) < std::pair(b.second.skipped, a.first);
  });
  const Thread& thread = most->second;
  samples_.push_back({.thread = most->first,
                      .time_ns = time_ns,
                      .net_ns = thread.ahead.times().net(),
                      .skipped = thread.skipped,
                      .unknown = thread.unknown});
  if (samples_.size() > kMostSamples) samples_.pop_front();
}

void AheadWatch::Restart() {
  calls_.clear();
  works_.clear();
  order_.clear();
  streams_ = report::StreamWork();
  context_.reset();
  threads_.clear();
  samples_.clear();
}

std::optional<AheadView> AheadWatch::Look(uint64_t window_ns) const {
  if (samples_.empty()) return std::nullopt;
  const Sample& last = samples_.back();
  const Sample* first = &last;
  for (auto sample = samples_.rbegin(); sample != samples_.rend(); ++sample) {
    if (sample->thread != last.thread || last.time_ns - sample->time_ns > window_ns) break;
    first = &*sample;
  }
  if (first->time_ns == last.time_ns) return std::nullopt;
  return AheadView{
      .share = static_cast<double>(last.net_ns - first->net_ns) / static_cast<double>(last.time_ns - first->time_ns),
      .skipped = last.skipped - first->skipped,
      .unknown = last.unknown - first->unknown};
}

}  // namespace slipstream::top
