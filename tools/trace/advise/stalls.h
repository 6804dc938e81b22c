// The rules about steps that take far longer than the others (rules.h): what most of their time went to decides what is
// said, and by which of them.
//
// Threading: pure functions.
#pragma once

#include "tools/trace/advise/advice.h"

namespace slipstream::advise {

Verdict Stalls(const Facts& facts);
// Late for the first batch of an epoch, whose loader has new workers.
Verdict LoaderRemade(const Facts& facts);

}  // namespace slipstream::advise
