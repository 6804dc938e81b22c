// Changes to a program, for a replay (replay.h), by what their groups have in common.
//
// Threading: pure functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "tools/trace/advise/facts.h"
#include "tools/trace/advise/replay.h"

namespace slipstream::advise {

// The calls that `wanted` is true of.
template <typename Wanted>
void ChangeCalls(const Facts& facts, const Wanted& wanted, CallChange change, WhatIf* what_if) {
  what_if->calls.resize(facts.calls.size(), CallChange::kStays);
  for (size_t i = 0; i < facts.calls.size(); ++i) {
    if (wanted(facts.calls[i])) what_if->calls[i] = std::max(what_if->calls[i], change);
  }
}

// The host's time right before the calls that `wanted` is true of, where it is no longer than `most`.
template <typename Wanted>
void TakeGaps(const Facts& facts, const Wanted& wanted, WhatIf* what_if,
              int64_t most = std::numeric_limits<int64_t>::max()) {
  what_if->gaps.resize(facts.calls.size(), 0);
  for (size_t i = 0; i < facts.calls.size(); ++i) {
    if (wanted(facts.calls[i])) what_if->gaps[i] = std::max(what_if->gaps[i], most);
  }
}

// Of the host's time in the calls that `wanted` is true of, and right before them, this share stays.
template <typename Wanted>
void ShrinkHost(const Facts& facts, const Wanted& wanted, double share, WhatIf* what_if) {
  what_if->host.resize(facts.calls.size(), 1.0);
  for (size_t i = 0; i < facts.calls.size(); ++i) {
    if (wanted(facts.calls[i])) what_if->host[i] = std::min(what_if->host[i], share);
  }
}

// Of the time of the work that `wanted` is true of, this share stays.
template <typename Wanted>
void ShrinkWork(const Facts& facts, const Wanted& wanted, double share, WhatIf* what_if) {
  what_if->work.resize(facts.work.size(), 1.0);
  for (size_t i = 0; i < facts.work.size(); ++i) {
    if (wanted(facts.work[i])) what_if->work[i] = std::min(what_if->work[i], share);
  }
}

// The copies that `wanted` is true of, to a stream of their own.
template <typename Wanted>
void MoveCopies(const Facts& facts, const Wanted& wanted, StreamChange change, WhatIf* what_if) {
  what_if->streams.resize(facts.work.size(), StreamChange::kStays);
  for (size_t i = 0; i < facts.work.size(); ++i) {
    if (wanted(facts.work[i])) what_if->streams[i] = std::max(what_if->streams[i], change);
  }
}

}  // namespace slipstream::advise
