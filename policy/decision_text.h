// What names a decision of an engine: allocator/decision.h and transfer/decision.h.
//
// One row for each decision, from which all that names one is made: the enumerator; the name in files and summaries;
// how much it says about the call that it was made in (tracer::CallShare); what it counts, for the documentation; and
// the phrase behind a count in a summary. The summary puts a decision into the line that the beginning of its name
// names.
//
// Threading: constants.
#pragma once

namespace slipstream::policy {

struct DecisionText {
  const char* name;  // with the engine's in front, as files and summaries spell it: "transfer.verified"
  const char* meaning;
  const char* phrase;
};

}  // namespace slipstream::policy
