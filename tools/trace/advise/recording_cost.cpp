#include "tools/trace/advise/recording_cost.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include "tools/trace/advise/replay_reader.h"
#include "tools/trace/report/distribution.h"
#include "tools/trace/report/steps.h"
#include "tools/trace/run/calls.h"

namespace slipstream::advise {
namespace {

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
  for (run::Calls rows(reader, process.process); rows.Next();) {
    const run::Call& call = rows.now();
    while (step != process.steps.end() && step->end <= call.start) ++step;
    if (step == process.steps.end()) break;
    const bool recorded = step->use == report::StepUse::kMeasured;
    if (call.start < step->start || !(recorded || step->before_devices)) continue;
    const auto at = durations.find(Key(call.function, call.decision, call.thread == process.step_thread));
    if (at == durations.end()) continue;
    (recorded ? at->second.recorded : at->second.unrecorded).push_back(call.end - call.start);
  }
  std::map<Key, int64_t> added;
  for (auto& [key, both] : durations) added[key] = AddedTo(std::move(both));
  for (CallGroup& group : *calls) {
    const auto at = added.find(key_of(group));
    if (at != added.end()) group.recording = at->second;
  }
}

}  // namespace slipstream::advise
