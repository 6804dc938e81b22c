#include "tools/trace/advise/anomalies.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "tools/trace/advise/facts.h"
#include "tools/trace/advise/sums.h"
#include "tools/trace/report/call_kind.h"
#include "tools/trace/report/distribution.h"
#include "tools/trace/report/steps.h"
#include "tools/trace/run/calls.h"
#include "tools/trace/run/names.h"

namespace slipstream::advise {
namespace {

using report::CallKind;

double ShareOf(int64_t part, int64_t all) {
  return all > 0 ? std::clamp(static_cast<double>(part) / static_cast<double>(all), 0.0, 1.0) : 1;
}

// Of one thread of the backward pass.
class Backward {
 public:
  void Add(const run::Call& call, CallKind kind) {
    const int64_t before = last_end_.value_or(call.start);
    const int64_t time = std::max(call.end, before) - before;
    report::AddTo(&all_, time);
    const bool is_answer = was_question_ && kind == CallKind::kSynchronize;
    was_question_ = kind == CallKind::kCopy && call.bytes == 1;
    last_end_ = std::max(call.end, before);
    if (was_question_) {
      ++questions_;
      const uint64_t own = std::min<uint64_t>(since_, kKernels);
      launches_ -= own;
      report::AddTo(&asked_, *last_end_ - (own > 0 ? begins_[(since_ - own) % kKernels] : before));
      since_ = 0;
    }
    if (is_answer) report::AddTo(&asked_, time);
    if (was_question_ || is_answer) report::AddTo(&gone_, time);
    if (kind != CallKind::kLaunch) return;
    begins_[since_++ % kKernels] = before;
    ++launches_;
  }
  void End() {
    last_end_.reset();
    was_question_ = false;
    since_ = 0;
  }

  uint64_t questions() const { return questions_; }
  uint64_t launches() const { return launches_; }
  // Without the questions; of `changed()`.
  int64_t own() const { return std::max<int64_t>(0, all_ - asked_); }
  // In and before all calls but the copies and waits of the questions.
  int64_t changed() const { return all_ - gone_; }

 private:
  static constexpr uint64_t kKernels = 2;  // isnan() and any()

  std::optional<int64_t> last_end_;
  bool was_question_ = false;
  std::array<int64_t, kKernels> begins_{};  // of the last launches, with the time before them
  uint64_t since_ = 0;                      // launches, since the last question
  uint64_t questions_ = 0;
  uint64_t launches_ = 0;  // of the pass's own
  int64_t all_ = 0;
  int64_t asked_ = 0;
  int64_t gone_ = 0;
};

// Of the thread that makes the steps, in each of them up to the backward pass.
class Forward {
 public:
  void Begin() {
    is_on_ = true;
    last_end_.reset();
  }
  void End() { is_on_ = false; }
  void Add(const run::Call& call, CallKind kind) {
    if (!is_on_) return;
    const int64_t before = last_end_.value_or(call.start);
    last_end_ = std::max(call.end, before);
    Site& site = sites_[call.site];
    report::AddTo(&site.time, *last_end_ - before);
    site.launches += kind == CallKind::kLaunch ? 1 : 0;
  }
  // `usual`: ns of a launch without stack traces.
  void Tell(int64_t usual, Anomalies* found) const {
    int64_t time = 0;
    uint64_t launches = 0;
    for (const auto& [number, site] : sites_) {
      if (number == 0 || site.launches == 0) continue;
      found->forward_sites.push_back(number);
      report::AddTo(&time, site.time);
      launches += site.launches;
    }
    if (launches == 0) return;
    found->forward_launch = time / static_cast<int64_t>(launches);
    found->forward_stays = ShareOf(usual, found->forward_launch);
  }

 private:
  struct Site {
    int64_t time = 0;
    uint64_t launches = 0;
  };
  bool is_on_ = false;
  std::optional<int64_t> last_end_;
  std::map<int64_t, Site> sites_;
};

}  // namespace

Anomalies ReadAnomalies(trace_db::DatabaseReader* reader, const Facts& facts) {
  Anomalies found;
  if (!facts.process->has_steps || AnomalyLines(facts).empty()) return found;
  std::vector<report::Interval> steps;
  for (const report::Step& step : facts.process->steps) {
    if (step.use == report::StepUse::kMeasured) steps.push_back({step.start, step.end});
  }
  std::map<int64_t, Backward> threads;
  for (const int64_t thread : facts.backward_threads) threads[thread];
  Forward forward;
  run::Names names(reader);
  size_t at = 0;
  bool begun = false;
  for (run::Calls calls(reader, facts.process->process, steps.front().start, steps.back().end); calls.Next();) {
    const run::Call& call = calls.now();
    for (; at < steps.size() && steps[at].end <= call.start; ++at) begun = false;
    if (at == steps.size()) break;
    if (call.start < steps[at].start) continue;
    if (!begun) forward.Begin();
    begun = true;
    const CallKind kind = report::KindOf(report::PlainName(names.TextOf(call.function)));
    if (const auto thread = threads.find(call.thread); thread != threads.end()) {
      forward.End();
      thread->second.Add(call, kind);
    } else if (call.thread == facts.process->step_thread) {
      for (auto& [number, backward] : threads) backward.End();
      forward.Add(call, kind);
    }
  }
  int64_t own = 0;
  int64_t changed = 0;
  uint64_t launches = 0;
  for (const auto& [number, backward] : threads) {
    found.questions += backward.questions();
    launches += backward.launches();
    report::AddTo(&own, backward.own());
    report::AddTo(&changed, backward.changed());
  }
  found.backward_stays = ShareOf(own, changed);
  if (launches == 0) return found;
  found.backward_launch = own / static_cast<int64_t>(launches);
  forward.Tell(found.backward_launch, &found);
  return found;
}

}  // namespace slipstream::advise
