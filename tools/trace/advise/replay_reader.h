// Reads the events of the measured steps for a replay (replay.h).
//
// Threading, errors: as the reader.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tools/trace/advise/facts.h"
#include "tools/trace/advise/replay.h"
#include "tools/trace/run/calls.h"
#include "tools/trace/run/device_work.h"

namespace slipstream::advise {

// Given the rows of a process in their order, those of which steps are made are remembered.
//
// Steps of more than one and a half times the median are left out, where there are few: they have a cause of their own
// (the rule `stalls`). So are the last ones of a run that has more than Replay::kMostEvents events.
class ReplayReading {
 public:
  // Nothing: what the devices did is not in the trace, or no step can be replayed. The facts must stay where they are.
  static std::optional<ReplayReading> Of(const Facts& facts);

  // All calls first, with any number of the caller's for those that have their group in common.
  void Add(const run::Call& call, uint32_t number);
  // One that is of no measured step.
  void LeaveOut(const run::Call& call);
  // Indices of Facts::calls by those numbers. The facts' groups are complete.
  void CallsAreOf(std::span<const uint32_t> groups);

  // Then all work, with numbers likewise.
  void Add(const run::Work& work, uint32_t number);
  // Indices of Facts::work by those numbers; Replay::kNone: it has none.
  std::shared_ptr<const Replay> Take(std::span<const uint32_t> groups);

 private:
  ReplayReading(const Facts& facts, const std::vector<report::Step>& steps);

  void LeaveOutBystanders();
  bool NamesItsStream(const Replay::Call& call) const;
  // stretches_.size(): in none.
  size_t StretchOf(int64_t time) const;
  // Whether a call of then is none of before or after all steps.
  bool IsAmongThem(int64_t time) const;

  struct Asker {
    int64_t stream = 0;  // the handle
    int64_t thread = 0;
  };

  const Facts* facts_;
  int64_t steps_ = 0;
  std::vector<Replay::Events> stretches_;
  // Stretch (kNone: none) and number, by correlationId.
  std::unordered_map<int64_t, std::pair<uint32_t, uint32_t>> calls_;
  std::vector<std::vector<Asker>> askers_;  // of each call
  std::map<std::tuple<int64_t, int64_t, int64_t>, uint32_t> streams_;
  std::map<std::pair<int64_t, int64_t>, uint32_t> engines_;
};

// How the thread of a call may wait, by its function and what slipstream decided.
Replay::Waits WaitsOf(const CallGroup& group);

}  // namespace slipstream::advise
