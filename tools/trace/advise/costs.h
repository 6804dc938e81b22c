// What findings are worth: each what a replay with its change gains, and what several would gain counted once.
//
// Where there is no replay, a finding is worth what its rule says, but all about the host together no more than the
// device's idle time, and all about the device no more than its busy time.
//
// Threading: pure functions.
#pragma once

#include <vector>

#include "tools/trace/advise/advice.h"

namespace slipstream::advise {

// Sets the cost of all that have one, and says in the evidence where time is counted under another one. `findings` are
// advice, in any order. What is worth too little by itself, and together with the others, is taken out and returned.
std::vector<const Rule*> ShareOut(const Facts& facts, std::vector<RuleVerdict>* findings);

}  // namespace slipstream::advise
