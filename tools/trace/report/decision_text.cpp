#include "tools/trace/report/decision_text.h"

namespace slipstream::report {

bool MakesItReturn(std::string_view decision) {
  // "skipped.rest" is a wait for work on host memory.
  return decision == "transfer.sync.skipped" || decision == "transfer.h2d.promoted.small" ||
         decision == "transfer.h2d.promoted.large";
}

bool SkipsTheWait(std::string_view decision) {
  return decision == "transfer.sync.skipped" || decision == "transfer.sync.skipped.rest";
}

bool UsesOtherStreams(std::string_view decision) {
  // Ahead of a busy stream the bytes cross the bus on one of slipstream's own.
  return decision.starts_with("transfer.h2d.promoted.") || decision == "transfer.d2h.promoted";
}

const DecisionNames::Known& DecisionNames::Of(int64_t id) {
  const auto [at, is_new] = known_.try_emplace(id);
  if (is_new) {
    at->second.name = names_.TextOf(id);
    at->second.makes_it_return = report::MakesItReturn(at->second.name);
    at->second.skips_the_wait = SkipsTheWait(at->second.name);
    at->second.uses_other_streams = UsesOtherStreams(at->second.name);
  }
  return at->second;
}

}  // namespace slipstream::report
