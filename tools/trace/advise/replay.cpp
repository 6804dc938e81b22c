#include "tools/trace/advise/replay.h"

#include <algorithm>
#include <map>
#include <utility>

#include "tools/trace/report/distribution.h"

namespace slipstream::advise {
namespace {

// Work that begins so soon behind other work waited for it: on an H100 it is 2 to 12 us from the end of a copy to a
// kernel of another stream that waited for it.
constexpr int64_t kSoon = 15'000;
// The clocks of host and device agree to this.
constexpr int64_t kClockError = 3'000;
// Work that had been asked for so long before had been waiting for the work before it.
constexpr int64_t kLongAsked = 50'000;
// A call of that length waited for room, if so much work was pending: the queue holds about twice as much.
constexpr int64_t kLongCall = 30'000;
constexpr uint32_t kFullQueue = 500;
// Of a trace that has too little to tell.
constexpr int64_t kUsualLatency = 8'000;
constexpr int64_t kUsualGap = 1'500;
constexpr size_t kTimesThatTell = 20;

CallChange OfCall(const WhatIf& what_if, uint32_t group) {
  return group < what_if.calls.size() ? what_if.calls[group] : CallChange::kStays;
}
bool HasGap(const WhatIf& what_if, uint32_t group, int64_t time) {
  return group >= what_if.gaps.size() || time > what_if.gaps[group];
}
double ShareIn(const std::vector<double>& shares, uint32_t group) {
  return group < shares.size() ? std::clamp(shares[group], 0.0, 1.0) : 1.0;
}
int64_t PartOf(int64_t time, double share) {
  return share < 1 ? static_cast<int64_t>(static_cast<double>(time) * share) : time;
}

StreamChange OfStream(const WhatIf& what_if, uint32_t group) {
  return group < what_if.streams.size() ? what_if.streams[group] : StreamChange::kStays;
}

// Of work: when it was asked for.
int64_t AskedFor(const Replay::Events& events, const Replay::Work& work) {
  return work.call < events.calls.size() ? std::min(work.start, events.calls[work.call].start) : work.start;
}

int64_t MedianOr(std::vector<int64_t> values, int64_t otherwise) {
  return values.size() < kTimesThatTell ? otherwise : report::DistributionOf(std::move(values)).median;
}

}  // namespace

void WhatIf::Add(const WhatIf& other) {
  calls.resize(std::max(calls.size(), other.calls.size()), CallChange::kStays);
  for (size_t i = 0; i < other.calls.size(); ++i) calls[i] = std::max(calls[i], other.calls[i]);
  gaps.resize(std::max(gaps.size(), other.gaps.size()), 0);
  for (size_t i = 0; i < other.gaps.size(); ++i) gaps[i] = std::max(gaps[i], other.gaps[i]);
  host.resize(std::max(host.size(), other.host.size()), 1.0);
  for (size_t i = 0; i < other.host.size(); ++i) host[i] = std::min(host[i], other.host[i]);
  work.resize(std::max(work.size(), other.work.size()), 1.0);
  for (size_t i = 0; i < other.work.size(); ++i) work[i] = std::min(work[i], other.work[i]);
  streams.resize(std::max(streams.size(), other.streams.size()), StreamChange::kStays);
  for (size_t i = 0; i < other.streams.size(); ++i) streams[i] = std::max(streams[i], other.streams[i]);
}

// Lays the time of the host out: calls of the thread that makes the steps, those of other threads where it is in none,
// and the time between them.
class Replay::Host {
 public:
  Host(const Events& events, std::vector<Piece>* pieces, std::vector<uint32_t>* piece_of)
      : events_(events), pieces_(*pieces), piece_of_(*piece_of), now_(events.time.start) {
    piece_of_.assign(events.calls.size(), kNone);
  }

  void LayOut() {
    for (uint32_t i = 0; i < events_.calls.size(); ++i) {
      const Call& call = events_.calls[i];
      if (!call.of_step_thread || call.end <= now_ || call.start >= events_.time.end) continue;
      Others(call.start);
      Gap(call.start, call.group);
      InCall(i, events_.time.end);
    }
    Others(events_.time.end);
    Gap(events_.time.end, kNone);
  }

 private:
  void Others(int64_t until) {
    for (; other_ < events_.calls.size() && events_.calls[other_].start < until; ++other_) {
      const Call& call = events_.calls[other_];
      if (call.of_step_thread || call.end <= now_) continue;
      Gap(call.start, call.group);
      InCall(other_, until);
    }
  }
  void Gap(int64_t to, uint32_t next) {
    if (to <= now_) return;
    pieces_.push_back({.start = now_, .time = to - now_, .group = next});
    now_ = to;
  }
  void InCall(uint32_t number, int64_t until) {
    const Call& call = events_.calls[number];
    const int64_t end = std::min(call.end, until);
    if (end <= now_) return;
    Piece piece = {.start = now_, .time = end - now_, .group = call.group, .is_call = true};
    // One that is cut off does not decide when the host goes on, nor is it known which part of it is left.
    if (end == call.end) piece_of_[number] = static_cast<uint32_t>(pieces_.size());
    if (end == call.end && now_ == call.start) piece.recording = std::clamp<int64_t>(call.recording, 0, piece.time);
    pieces_.push_back(piece);
    now_ = end;
  }

  const Events& events_;
  std::vector<Piece>& pieces_;
  std::vector<uint32_t>& piece_of_;  // of each call
  int64_t now_;
  uint32_t other_ = 0;
};

Replay::Replay(std::vector<Events> stretches, int64_t steps) : steps_(std::max<int64_t>(1, steps)) {
  for (Events& events : stretches) Sort(&events);
  const Usual usual = UsualOf(stretches);
  for (const Events& events : stretches) stretches_.push_back(Prepare(events, usual));
  recorded_ = Run(WhatIf{}, Recording::kStays);
  unrecorded_ = Run(WhatIf{}, Recording::kGone);
}

void Replay::Sort(Events* events) {
  std::stable_sort(events->work.begin(), events->work.end(), [&](const Work& a, const Work& b) {
    const int64_t asked_a = AskedFor(*events, a);
    const int64_t asked_b = AskedFor(*events, b);
    return asked_a != asked_b ? asked_a < asked_b : a.start < b.start;
  });
}

// How long work takes to begin that nothing holds up, and that waits for the work before it alone.
Replay::Usual Replay::UsualOf(const std::vector<Events>& stretches) {
  std::vector<int64_t> latencies;
  std::vector<int64_t> gaps;
  for (const Events& events : stretches) {
    std::map<uint32_t, int64_t> ends;  // of the last work, by stream
    for (const Work& work : events.work) {
      const int64_t asked = AskedFor(events, work);
      const auto last = ends.find(work.stream);
      if (last == ends.end() || last->second <= asked) {
        latencies.push_back(work.start - asked);
      } else if (work.start >= last->second && work.start - asked > kLongAsked) {
        gaps.push_back(work.start - last->second);
      }
      ends[work.stream] = work.end;
    }
  }
  return {.latency = MedianOr(std::move(latencies), kUsualLatency), .gap = MedianOr(std::move(gaps), kUsualGap)};
}

// Finds the work that calls wait for. A synchronization waits for all that was asked for before, on its stream or on
// all of them, though it had ended by then: without an earlier wait it may not have.
class Replay::Waited {
 public:
  Waited(const Events& events, const std::vector<uint32_t>& piece_of, Stretch* stretch)
      : events_(events), piece_of_(piece_of), stretch_(*stretch), by_end_(stretch->ops.size()) {
    for (uint32_t i = 0; i < by_end_.size(); ++i) by_end_[i] = i;
    std::stable_sort(by_end_.begin(), by_end_.end(), [&](uint32_t a, uint32_t b) { return EndOf(a) < EndOf(b); });
    own_.assign(events.calls.size(), kNone);
    within_.assign(stretch->pieces.size(), kNone);
    for (uint32_t i = 0; i < events.work.size(); ++i) {
      if (events.work[i].call >= own_.size()) continue;
      own_[events.work[i].call] = i;
      if (stretch->ops[i].piece < within_.size()) within_[stretch->ops[i].piece] = i;
    }
  }

  void Find() {
    for (uint32_t i = 0; i < events_.calls.size(); ++i) {
      const Call& call = events_.calls[i];
      for (; next_ < events_.work.size() && AskedFor(events_, events_.work[next_]) <= call.start; ++next_) {
        last_[events_.work[next_].stream] = next_;
      }
      for (; ended_ < by_end_.size() && EndOf(by_end_[ended_]) <= call.start; ++ended_) continue;
      if (piece_of_[i] == kNone) continue;
      Piece& piece = stretch_.pieces[piece_of_[i]];
      uint32_t work = WorkOf(i);
      if (work == kNone && piece.time > kLongCall && next_ > ended_ + kFullQueue) {
        work = EndedIn(call);
        if (work == kNone) continue;
        piece.wait = work;
        piece.tail = call.end - EndOf(work);
        piece.own = kReturnsAfter;
        piece.recording = 0;
        continue;
      }
      if (work == kNone) continue;
      const bool waited = EndOf(work) > call.start;
      piece.wait = work;
      piece.for_all = call.waits == Waits::kForTheDevice;
      piece.recording = 0;
      piece.tail = waited ? call.end - EndOf(work) : 0;
      piece.own = waited ? std::clamp<int64_t>(piece.tail, 0, piece.time) : piece.time;
    }
  }

 private:
  int64_t EndOf(uint32_t op) const { return stretch_.ops[op].end; }

  uint32_t WorkOf(uint32_t number) const {
    const Call& call = events_.calls[number];
    switch (call.waits) {
      case Waits::kForTheDevice:
        return LastOf(call);
      case Waits::kForItsStream:
        return call.stream == kNone ? EndedIn(call) : LastOf(call);
      case Waits::kForAnEvent:
        return EndedIn(call);
      case Waits::kForItsOwnWork: {
        const uint32_t work = own_[number] != kNone ? own_[number] : within_[piece_of_[number]];
        const bool waited = work != kNone && EndOf(work) > call.start && EndOf(work) <= call.end + kClockError;
        return waited ? work : kNone;
      }
      case Waits::kNever:
        break;
    }
    return kNone;
  }
  // The work that ends last, of what was asked for before; kNone: there is none, or some ran on behind the call, which
  // so did not wait for it.
  uint32_t LastOf(const Call& call) const {
    uint32_t last = kNone;
    for (const auto& [stream, work] : last_) {
      if (call.waits == Waits::kForItsStream && stream != call.stream) continue;
      if (EndOf(work) > call.end + kClockError) return kNone;
      if (last == kNone || EndOf(work) > EndOf(last)) last = work;
    }
    return last;
  }
  // The work that ended last while the call lasted.
  uint32_t EndedIn(const Call& call) const {
    auto at = std::upper_bound(by_end_.begin(), by_end_.end(), call.end + kClockError,
                               [&](int64_t end, uint32_t op) { return end < EndOf(op); });
    while (at != by_end_.begin() && EndOf(*--at) > call.start) {
      if (AskedFor(events_, events_.work[*at]) <= call.start) return *at;
    }
    return kNone;
  }

  const Events& events_;
  const std::vector<uint32_t>& piece_of_;
  Stretch& stretch_;
  std::vector<uint32_t> by_end_;
  std::vector<uint32_t> own_;          // the last work of each call
  std::vector<uint32_t> within_;       // and of each piece: calls within its call may have asked for it
  std::map<uint32_t, uint32_t> last_;  // of what was asked for so far, by stream
  uint32_t next_ = 0;                  // how much was asked for so far
  uint32_t ended_ = 0;                 // and how much has ended
};

Replay::Stretch Replay::Prepare(const Events& events, const Usual& usual) {
  Stretch stretch;
  stretch.start = events.time.start;
  stretch.gap = usual.gap;
  std::vector<uint32_t> piece_of;
  Host(events, &stretch.pieces, &piece_of).LayOut();
  std::map<uint32_t, std::vector<uint32_t>> ops;  // by stream: they end in their order
  for (const Work& work : events.work) {
    Op op;
    op.group = work.group;
    op.engine = work.engine;
    op.end = work.end;
    op.time = work.end - work.start;
    const int64_t asked = std::max(events.time.start, AskedFor(events, work));
    const auto next = std::upper_bound(stretch.pieces.begin(), stretch.pieces.end(), asked,
                                       [](int64_t at, const Piece& piece) { return at < piece.start; });
    op.piece = next == stretch.pieces.begin() ? 0 : static_cast<uint32_t>(next - stretch.pieces.begin() - 1);
    op.offset = stretch.pieces.empty() ? 0 : asked - stretch.pieces[op.piece].start;
    op.latency = std::min(work.start - asked, usual.latency);
    int64_t explained = asked + op.latency;
    std::vector<uint32_t>& of_stream = ops[work.stream];
    if (!of_stream.empty()) {
      op.before = of_stream.back();
      op.gap = std::min(work.start - stretch.ops[op.before].end, usual.gap);
      explained = std::max(explained, stretch.ops[op.before].end + op.gap);
    }
    int64_t rest = work.start - explained;
    if (rest > kSoon) {
      for (const auto& [stream, others] : ops) {
        // What was asked for earlier may end later, such as the copy of the next batch.
        const auto running = std::upper_bound(others.begin(), others.end(), work.start,
                                              [&](int64_t at, uint32_t other) { return at < stretch.ops[other].end; });
        if (stream == work.stream || running == others.begin()) continue;
        const uint32_t number = *(running - 1);
        const int64_t behind = work.start - stretch.ops[number].end;
        if (behind > kSoon) continue;
        if (op.other != kNone && stretch.ops[op.other].end >= stretch.ops[number].end) continue;
        op.other = number;
        op.other_gap = behind;
        rest = 0;
      }
    }
    // What nothing explains is a longer way to an idle device, or a longer change from the work before.
    if (rest > 0) {
      const bool was_idle = op.before == kNone || stretch.ops[op.before].end <= asked;
      (was_idle ? op.latency : op.gap) = work.start - (was_idle ? asked : stretch.ops[op.before].end);
    }
    of_stream.push_back(static_cast<uint32_t>(stretch.ops.size()));
    stretch.ops.push_back(op);
  }
  Waited(events, piece_of, &stretch).Find();
  FindCounterparts(events, &stretch);
  return stretch;
}

void Replay::FindCounterparts(const Events& events, Stretch* stretch) {
  const auto piece_at = [&](int64_t time) {
    const auto at = std::lower_bound(stretch->pieces.begin(), stretch->pieces.end(), time,
                                     [](const Piece& piece, int64_t start) { return piece.start < start; });
    return static_cast<uint32_t>(at - stretch->pieces.begin());
  };
  std::map<uint32_t, std::vector<uint32_t>> now;  // those of a step, by group
  std::map<uint32_t, std::vector<uint32_t>> before;
  size_t step = 0;
  uint32_t begin = piece_at(events.time.start);
  uint32_t begin_before = kNone;
  for (uint32_t i = 0; i < stretch->ops.size(); ++i) {
    Op& op = stretch->ops[i];
    const int64_t asked = AskedFor(events, events.work[i]);
    for (; step + 1 < events.steps.size() && events.steps[step + 1] <= asked; ++step) {
      before = std::exchange(now, {});
      begin_before = std::exchange(begin, piece_at(events.steps[step + 1]));
    }
    op.step_before = begin_before;
    std::vector<uint32_t>& same = now[op.group];
    if (const auto at = before.find(op.group); at != before.end()) {
      op.counterpart = at->second[std::min(same.size(), at->second.size() - 1)];
    }
    same.push_back(i);
  }
}

// When work ends, one after the other in the order in which it was asked for.
class Replay::Device {
 public:
  Device(const Stretch& stretch, const WhatIf& what_if)
      : stretch_(stretch),
        what_if_(what_if),
        ends_(stretch.ops.size()),
        behind_(stretch.ops.size()),
        aside_(what_if.streams.empty() ? 0 : stretch.ops.size(), stretch.start),
        begins_(what_if.streams.empty() ? 0 : stretch.pieces.size(), stretch.start),
        last_(stretch.start),
        moved_(stretch.start) {}

  void Begin(uint32_t piece, int64_t now) {
    if (!begins_.empty()) begins_[piece] = now;
  }

  void Ask(uint32_t number, int64_t asked) {
    const Op& op = stretch_.ops[number];
    if (!aside_.empty() && op.before != kNone) aside_[number] = aside_[op.before];
    const double share = ShareIn(what_if_.work, op.group);
    if (share == 0) {
      ends_[number] = behind_[number] = op.before != kNone ? behind_[op.before] : asked;
      return;
    }
    const int64_t takes = PartOf(op.time, share);
    const StreamChange change = OfStream(what_if_, op.group);
    if (change != StreamChange::kStays) return AskMoved(number, change, asked, takes);
    int64_t start = asked + op.latency;
    if (op.before != kNone) start = std::max(start, behind_[op.before] + op.gap);
    if (op.other != kNone) start = std::max(start, behind_[op.other] + op.other_gap);
    ends_[number] = behind_[number] = start + takes;
    last_ = std::max(last_, ends_[number]);
  }

  int64_t last() const { return last_; }
  // What a wait for this work lasts to.
  int64_t DoneAt(uint32_t number, bool for_all) const {
    if (aside_.empty()) return ends_[number];
    return std::max({ends_[number], behind_[number], aside_[number], for_all ? moved_ : stretch_.start});
  }

 private:
  void AskMoved(uint32_t number, StreamChange change, int64_t asked, int64_t takes) {
    const Op& op = stretch_.ops[number];
    const bool ahead = change == StreamChange::kAhead;
    const bool alone = ahead && op.step_before != kNone && op.counterpart == kNone;
    int64_t start = (alone && op.step_before <= op.piece ? begins_[op.step_before] : asked) + op.latency;
    const int64_t before = op.before != kNone ? behind_[op.before] : stretch_.start;
    if (!ahead && op.before != kNone) start = std::max(start, before + op.gap);
    if (op.other != kNone) start = std::max(start, behind_[op.other] + op.other_gap);
    const auto [engine, is_first] = engines_.try_emplace(op.engine);
    if (!is_first) start = std::max(start, engine->second + stretch_.gap);
    ends_[number] = engine->second = start + takes;
    behind_[number] = before;
    if (alone) behind_[number] = std::max(before, ends_[number]);
    if (ahead && op.counterpart != kNone) behind_[number] = std::max(before, ends_[op.counterpart]);
    if (!ahead) aside_[number] = std::max(aside_[number], ends_[number]);
    last_ = std::max(last_, ends_[number]);
    moved_ = std::max(moved_, ends_[number]);
  }

  const Stretch& stretch_;
  const WhatIf& what_if_;
  std::vector<int64_t> ends_;
  std::vector<int64_t> behind_;          // what comes behind it on its stream waits for that
  std::vector<int64_t> aside_;           // ends of what was moved aside from its stream so far
  std::vector<int64_t> begins_;          // of the pieces
  std::map<uint32_t, int64_t> engines_;  // when the last copy of each ends
  int64_t last_;
  int64_t moved_;
};

int64_t Replay::Run(const Stretch& stretch, const WhatIf& what_if, Recording recording) {
  Device device(stretch, what_if);
  int64_t now = stretch.start;
  size_t next = 0;
  for (uint32_t i = 0; i < stretch.pieces.size(); ++i) {
    const Piece& piece = stretch.pieces[i];
    const CallChange change = piece.is_call ? OfCall(what_if, piece.group) : CallChange::kStays;
    int64_t time = recording == Recording::kGone ? piece.time - piece.recording : piece.time;
    if (!piece.is_call && !HasGap(what_if, piece.group, piece.time)) time = 0;
    time = PartOf(time, ShareIn(what_if.host, piece.group));
    if (change == CallChange::kReturns) time = std::min(time, kReturnsAfter);
    if (change == CallChange::kGone) time = 0;
    device.Begin(i, now);
    for (; next < stretch.ops.size() && stretch.ops[next].piece <= i; ++next) {
      device.Ask(static_cast<uint32_t>(next), now + std::min(stretch.ops[next].offset, time));
    }
    const bool waits = piece.wait != kNone && change == CallChange::kStays;
    now = waits ? std::max(now + piece.own, device.DoneAt(piece.wait, piece.for_all) + piece.tail) : now + time;
  }
  return std::max(now, device.last()) - stretch.start;
}

int64_t Replay::Run(const WhatIf& what_if, Recording recording) const {
  int64_t sum = 0;
  for (const Stretch& stretch : stretches_) report::AddTo(&sum, Run(stretch, what_if, recording));
  return sum;
}

int64_t Replay::Saved(const WhatIf& what_if) const {
  return what_if.empty() ? 0 : std::max<int64_t>(0, unrecorded_ - Run(what_if, Recording::kGone)) / steps_;
}

}  // namespace slipstream::advise
