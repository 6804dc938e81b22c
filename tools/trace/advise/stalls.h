// The rule about steps that take far longer than the others (rules.h): what most of their time went to decides what it
// says.
//
// Threading: pure functions.
#pragma once

#include "tools/trace/advise/advice.h"

namespace slipstream::advise {

Verdict Stalls(const Facts& facts);

}  // namespace slipstream::advise
