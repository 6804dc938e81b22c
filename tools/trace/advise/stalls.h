// The rules about steps that take far longer than the others (rules.h): what most of their time went to decides what is
// said, and by which of them.
//
// Threading: pure functions.
#pragma once

#include <cstdint>

#include "tools/trace/advise/advice.h"

namespace slipstream::advise {

Verdict Stalls(const Facts& facts);
// Late for the first batch of an epoch, whose loader has new workers.
Verdict LoaderRemade(const Facts& facts);

// Steps that are slow because they come late to a line that uploads batches, where the usual step is late there too:
// what both lose has one cause, of which Stalls() then says nothing.
struct LateBatches {
  uint64_t steps = 0;     // slow ones; 0: there are none, or they have another cause
  int64_t per_step = 0;   // ns that they lose, of each measured step
  int64_t of_others = 0;  // ns of each measured step before those lines that LoaderRemade() counts
};
LateBatches LateBatchesOf(const Facts& facts);

}  // namespace slipstream::advise
