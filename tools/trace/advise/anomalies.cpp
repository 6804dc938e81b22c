#include "tools/trace/advise/anomalies.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "tools/trace/advise/facts.h"
#include "tools/trace/advise/sums.h"
#include "tools/trace/db/bounded.h"
#include "tools/trace/report/call_kind.h"
#include "tools/trace/report/distribution.h"
#include "tools/trace/report/steps.h"

namespace slipstream::advise {
namespace {

using report::CallKind;

struct CallRow {
  int64_t start = 0;
  int64_t end = 0;
  int64_t site = 0;
  int64_t bytes = 0;
  CallKind kind = CallKind::kOther;
};

double ShareOf(int64_t part, int64_t all) {
  return all > 0 ? std::clamp(static_cast<double>(part) / static_cast<double>(all), 0.0, 1.0) : 1;
}

// Of one thread of the backward pass.
class Backward {
 public:
  void Add(const CallRow& call) {
    const int64_t before = last_end_.value_or(call.start);
    const int64_t time = std::max(call.end, before) - before;
    report::AddTo(&all_, time);
    const bool is_answer = was_question_ && call.kind == CallKind::kSynchronize;
    was_question_ = call.kind == CallKind::kCopy && call.bytes == 1;
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
    if (call.kind != CallKind::kLaunch) return;
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
  void Add(const CallRow& call) {
    if (!is_on_) return;
    const int64_t before = last_end_.value_or(call.start);
    last_end_ = std::max(call.end, before);
    Site& site = sites_[call.site];
    report::AddTo(&site.time, *last_end_ - before);
    site.launches += call.kind == CallKind::kLaunch ? 1 : 0;
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

CallKind KindOfName(trace_db::DatabaseReader* reader, int64_t id, std::map<int64_t, CallKind>* kinds) {
  const auto [at, is_new] = kinds->try_emplace(id, CallKind::kOther);
  if (is_new) {
    trace_db::Question name(*reader, "SELECT value FROM StringIds WHERE id = ?1");
    if (name.Bind(1, id).Next()) at->second = report::KindOf(report::PlainName(name.Text(0)));
  }
  return at->second;
}

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
  std::map<int64_t, CallKind> kinds;
  size_t at = 0;
  bool begun = false;
  trace_db::Question row(*reader,
                         "SELECT r.start, r.\"end\", r.nameId, c.siteId, c.thread, c.bytes FROM SLIPSTREAM_CALLS c "
                         "JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = c.correlationId "
                         "WHERE c.processId = ?1 ORDER BY r.start");
  for (row.Bind(1, facts.process->process); row.Next();) {
    CallRow call = {.start = trace_db::BoundedTime(row.Number(0))};
    call.end = trace_db::BoundedEnd(call.start, row.Number(1));
    for (; at < steps.size() && steps[at].end <= call.start; ++at) begun = false;
    if (at == steps.size()) break;
    if (call.start < steps[at].start) continue;
    if (!begun) forward.Begin();
    begun = true;
    call.site = row.Number(3);
    call.bytes = trace_db::BoundedCount(row.Number(5));
    call.kind = KindOfName(reader, row.Number(2), &kinds);
    if (const auto thread = threads.find(row.Number(4)); thread != threads.end()) {
      forward.End();
      thread->second.Add(call);
    } else if (row.Number(4) == facts.process->step_thread) {
      for (auto& [number, backward] : threads) backward.End();
      forward.Add(call);
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
