#include "tools/trace/advise/recording_cost.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include "tools/trace/advise/replay_reader.h"
#include "tools/trace/db/bounded.h"
#include "tools/trace/report/distribution.h"
#include "tools/trace/report/steps.h"

namespace slipstream::advise {
namespace {

using trace_db::Question;

// Calls of either kind.
constexpr size_t kStepsThatTell = 20;

struct Durations {
  std::vector<int64_t> recorded;
  std::vector<int64_t> unrecorded;
};
using Key = std::tuple<int64_t, int64_t, bool>;  // function, decision, of the step thread

int64_t AddedTo(Durations durations) {
  if (std::min(durations.recorded.size(), durations.unrecorded.size()) < kStepsThatTell) return 0;
  return std::max<int64_t>(0, report::DistributionOf(std::move(durations.recorded)).median -
                                  report::DistributionOf(std::move(durations.unrecorded)).median);
}

}  // namespace

void ReadRecordingCost(trace_db::DatabaseReader* reader, const report::ProcessReport& process,
                       std::vector<CallGroup>* calls) {
  if (!process.has_steps || process.unwatched_everywhere || !process.median_before_devices()) return;
  std::map<Key, Durations> durations;
  const auto key_of = [](const CallGroup& group) { return Key(group.ids[0], group.ids[2], group.of_step_thread); };
  for (const CallGroup& group : *calls) {
    if (WaitsOf(group) == Replay::Waits::kNever) durations.try_emplace(key_of(group));
  }
  auto step = process.steps.begin();
  Question row(*reader,
               "SELECT r.start, r.\"end\", r.nameId, d.decisionId, c.thread "
               "FROM SLIPSTREAM_CALLS c JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = c.correlationId "
               "LEFT JOIN SLIPSTREAM_DECISIONS d ON d.correlationId = c.correlationId WHERE c.processId = ?1 "
               "ORDER BY r.start");
  for (row.Bind(1, process.process); row.Next();) {
    const int64_t start = trace_db::BoundedTime(row.Number(0));
    while (step != process.steps.end() && step->end <= start) ++step;
    if (step == process.steps.end()) break;
    const bool recorded = step->use == report::StepUse::kMeasured;
    if (start < step->start || !(recorded || step->before_devices)) continue;
    const auto at = durations.find(Key(row.Number(2), row.Number(3), row.Number(4) == process.step_thread));
    if (at == durations.end()) continue;
    (recorded ? at->second.recorded : at->second.unrecorded)
        .push_back(trace_db::BoundedEnd(start, row.Number(1)) - start);
  }
  std::map<Key, int64_t> added;
  for (auto& [key, both] : durations) added[key] = AddedTo(std::move(both));
  for (CallGroup& group : *calls) {
    const auto at = added.find(key_of(group));
    if (at != added.end()) group.recording = at->second;
  }
}

}  // namespace slipstream::advise
