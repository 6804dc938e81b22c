// Advice: what a program could do differently, and what that would gain. Start reading here.
//
//   facts.h    what is looked at
//   rules.h    the rules, each a pure function of the facts
//   replay.h   what a step would take with a change
//   costs.h    what each finding is worth, and all of them together
//   advice.h   what they say, in the order in which it counts
//   ranks.h    what several ranks have in common, and how they stand beside each other
//   text.h     how it is shown
//
// A rule finds something, or finds nothing, or says why it cannot tell. It never guesses: it gives a number for what a
// change would save only if the trace has it. Where the trace has what the devices did, that number is what a replay of
// the steps with that change gains; else it is at most the time in which the fault shows. What two findings would both
// gain is counted once.
//
// Threading: pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/trace/advise/facts.h"
#include "tools/trace/advise/replay.h"
#include "tools/trace/report/verdict.h"

namespace slipstream::advise {

enum class Confidence : uint8_t { kLow, kMedium, kHigh };
const char* NameOf(Confidence confidence);

// Of two findings that would gain the same time, it is counted under the more specific one.
enum class Scope : uint8_t {
  kRest,      // what is left of the host's time
  kGeneral,   // where time goes that no other rule explains
  kUsual,     // one fault
  kSpecific,  // a fault that another rule sees a part of
};

// What the time that a finding would gain is taken from, where no replay says it.
enum class Gains : uint8_t {
  kIdle,       // the device's idle time: the host's is no loss while the device is busy
  kBusy,       // the time of its work
  kSlowSteps,  // time above the median of steps: none of the time that others are about
};

struct Advice {
  std::string finding;                // one sentence
  std::vector<std::string> evidence;  // numbers, a line each
  std::vector<Place> places;          // where, what costs most first
  // The most that would be saved of a step, in ns. Nothing: `why_unknown` says why it is not known, and `at_stake` how
  // much of a step it is about. Rules give the time in which the fault shows; Advise() limits it (costs.h).
  std::optional<int64_t> cost = {};
  std::string why_unknown = {};
  int64_t at_stake = 0;
  // Where a replay gives the number, for the usual steps: what of `cost` slow steps lose on top, of which it has none.
  int64_t of_slow_steps = 0;
  std::string change;   // what to do, in a sentence
  std::string snippet;  // a line or two of the program, or of a policy
  Confidence confidence = Confidence::kMedium;
  WhatIf what_if = {};  // the change; empty: none that a replay can make
  WhatIf no_more = {};  // it gains no more than this change would; empty: nothing limits it
  Gains gains = Gains::kIdle;
  Scope scope = Scope::kUsual;
};

// The outcome of a rule.
struct Verdict {
  enum class Kind : uint8_t { kNothing, kAdvice, kAbstains };
  Kind kind = Kind::kNothing;
  Advice advice = {};
  std::string why = {};  // it abstains

  static Verdict Nothing() { return {}; }
  static Verdict Say(Advice advice) { return {Kind::kAdvice, std::move(advice), ""}; }
  static Verdict Abstain(std::string why) { return {Kind::kAbstains, {}, std::move(why)}; }
};

struct Rule {
  const char* name;
  const char* title;
  const char* needs;  // of the trace
  Verdict (*look)(const Facts& facts);
  uint32_t about = 0;  // About(): the report's verdicts that it answers
};

// A set of them.
template <typename... Kinds>
constexpr uint32_t About(Kinds... kinds) {
  return ((uint32_t{1} << static_cast<uint32_t>(kinds)) | ... | 0);
}

struct RuleVerdict {
  const Rule* rule = nullptr;
  Verdict verdict;
};

struct Findings {
  std::vector<RuleVerdict> advice;     // PutInOrder
  std::vector<RuleVerdict> abstained;  // in the order of the rules
  std::vector<const Rule*> nothing;
};

Findings Advise(const Facts& facts);

// The report's verdict on the process, beside its findings.
struct Answered {
  report::Verdict verdict;
  size_t by = 0;  // the first finding that is about it, from 1 on; 0: none is
};
// Nothing: the verdict is on another process, or there is none; or it names no loss.
std::optional<Answered> AnswerTo(const Facts& facts, const Findings& findings);

// What decides on the order, in ns of a step.
int64_t WeightOf(const Advice& advice);

// By weight, the heaviest first; but what stands first has a number and is no guess, where any is so. `advice_of`: of
// an element.
template <typename Found, typename AdviceOf>
void PutInOrder(std::vector<Found>* found, const AdviceOf& advice_of) {
  std::stable_sort(found->begin(), found->end(),
                   [&](const Found& a, const Found& b) { return WeightOf(advice_of(a)) > WeightOf(advice_of(b)); });
  const auto lead = std::find_if(found->begin(), found->end(), [&](const Found& one) {
    const Advice& advice = advice_of(one);
    return advice.cost && *advice.cost > 0 && advice.confidence != Confidence::kLow;
  });
  if (lead != found->end()) std::rotate(found->begin(), lead, lead + 1);
}

}  // namespace slipstream::advise
