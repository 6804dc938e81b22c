#include "tools/trace/report/slow_steps.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/trace/db/bounded.h"
#include "tools/trace/report/sweep.h"

namespace slipstream::report {
namespace {

using trace_db::DatabaseReader;
using trace_db::Question;

using TimesBySite = std::map<int64_t, int64_t>;

// CROSS: in this order, so that the calls of a few steps are found by their starts.
constexpr char kStepCallsSql[] =
    "SELECT r.start, r.\"end\", c.thread, c.siteId, n.value FROM CUPTI_ACTIVITY_KIND_RUNTIME r "
    "CROSS JOIN SLIPSTREAM_CALLS c ON c.correlationId = r.correlationId CROSS JOIN StringIds n ON n.id = r.nameId ";

// One step swept once more, with its lines (sweep.h).
class StepLines {
 public:
  StepLines(DatabaseReader* reader, const ProcessReport& process)
      : process_(process),
        within_(*reader, std::string(kStepCallsSql) +
                             "WHERE r.start >= ? AND r.start < ? AND c.processId = ? "
                             "ORDER BY r.start, r.\"end\" DESC, r.rowid"),
        behind_(*reader, std::string(kStepCallsSql) +
                             "WHERE r.start >= ? AND c.processId = ? AND c.thread = ? "
                             "ORDER BY r.start, r.\"end\" DESC, r.rowid LIMIT 1") {}

  // What each line had of a part: in its calls, or of Part::kOutside before them.
  TimesBySite Of(const Step& step, Part part) {
    std::vector<Step> one = {{.number = step.number, .start = step.start, .end = step.end}};
    Sweep sweep(&one);
    std::map<std::pair<int64_t, CallKind>, size_t> places;
    const auto add = [&](const Question& row) {
      const CallKind kind = KindOf(row.Text(4));
      const size_t place = places.try_emplace({row.Number(3), kind}, places.size()).first->second;
      const int64_t start = trace_db::BoundedTime(row.Number(0));
      const int64_t end = trace_db::BoundedEnd(start, row.Number(1));
      sweep.Call(row.Number(2) == process_.step_thread, start, end, kind, place);
    };
    within_.Again();
    within_.Bind(1, step.start).Bind(2, step.end).Bind(3, process_.process);
    while (within_.Next()) add(within_);
    // What the end of the step was spent before.
    behind_.Again();
    if (behind_.Bind(1, step.end).Bind(2, process_.process).Bind(3, process_.step_thread).Next()) add(behind_);
    sweep.Finish();
    TimesBySite times;
    for (const auto& [place, index] : places) {
      const auto& [site, kind] = place;
      if (part == Part::kOutside) {
        times[site] += sweep.GapTime(index);
      } else if (PartOf(kind) == part) {
        times[site] += sweep.SiteTime(index);
      }
    }
    return times;
  }

 private:
  const ProcessReport& process_;
  Question within_;
  Question behind_;
};

// Against the medians of the parts, which are not those of one step.
void NamePart(const Step& step, const ProcessReport& process, SlowStep* slow) {
  for (size_t part = 0; part < kParts; ++part) {
    const int64_t grew = step.parts[part] - process.parts[part].median;
    if (grew <= slow->grew) continue;
    slow->part = static_cast<Part>(part);
    slow->grew = grew;
  }
}

void NameLine(run::Names* names, const TimesBySite& usual, const TimesBySite& times, SlowStep* slow) {
  int64_t most = 0;
  int64_t site = 0;
  for (const auto& [of, time] : times) {
    const auto at = usual.find(of);
    const int64_t grew = time - (at != usual.end() ? at->second : 0);
    if (grew <= most) continue;
    most = grew;
    site = of;
  }
  slow->place = PlaceOf(names, site);
  if (!slow->place) return;
  slow->place->before = slow->part == Part::kOutside;
  slow->place->time = most;
}

}  // namespace

void FindSlowSteps(DatabaseReader* reader, run::Names* names, ProcessReport* process) {
  std::vector<const Step*> slow;
  std::vector<const Step*> measured;
  std::vector<int64_t> times;
  for (const Step& step : process->steps) {
    if (!process->has_steps || step.use != StepUse::kMeasured) continue;
    measured.push_back(&step);
    times.push_back(process->TimeOf(step));
    if (IsSlow(process->TimeOf(step), process->pace_of_work())) slow.push_back(&step);
  }
  process->slow_step_count = slow.size();
  if (slow.empty()) return;
  std::stable_sort(slow.begin(), slow.end(),
                   [&](const Step* a, const Step* b) { return process->TimeOf(*a) > process->TimeOf(*b); });
  if (slow.size() > kSlowStepsListed) slow.resize(kSlowStepsListed);
  const Step& median = *measured[IndexOfMedian(times)];
  const bool has_calls = reader->HasTable("CUPTI_ACTIVITY_KIND_RUNTIME") && reader->HasTable("SLIPSTREAM_CALLS");
  std::optional<StepLines> lines;
  if (has_calls) lines.emplace(reader, *process);
  std::map<Part, TimesBySite> usual;
  for (const Step* const step : slow) {
    SlowStep& one = process->slow_steps.emplace_back();
    one.number = step->number;
    one.start = step->start;
    one.time = process->TimeOf(*step);
    NamePart(*step, *process, &one);
    // While another thread is in a call, no line of this one is to blame.
    if (!lines || !one.part || one.part == Part::kElsewhere) continue;
    const auto [at, is_new] = usual.try_emplace(*one.part);
    if (is_new) at->second = lines->Of(median, *one.part);
    NameLine(names, at->second, lines->Of(*step, *one.part), &one);
  }
}

}  // namespace slipstream::report
