// Advice on a run of several ranks: how they stand beside each other, and their findings as one list, in which a rule
// that speaks on several ranks stands once.
//
// Memory: a row each rank, and of each rule the advice of one of them; facts are looked at one rank after another.
// Threading: an object belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/trace/advise/advice.h"
#include "tools/trace/advise/facts.h"
#include "tools/trace/report/report.h"

namespace slipstream::advise {

// A process that makes steps. Times are ns of a step.
struct RankRow {
  size_t process = 0;           // index of Report::processes
  std::optional<int64_t> idle;  // no device was at work; nothing: not known
  // In kernels that communicate, beyond the rank that is in them for the shortest time: a collective's kernel runs
  // until the last rank is there. Nothing: it does not communicate, or nobody else does.
  std::optional<int64_t> communication_wait;
  int64_t work = 0;             // the median step, without that wait
  int64_t recording = 0;        // as of the facts
  int64_t step = 0;             // UnrecordedStep of them
  const Rule* first = nullptr;  // its most costly finding, without those of the run; null: it has none
};

// `ranks`: indices of RanksFindings::ranks, ascending.
struct RankFinding {
  const Rule* rule = nullptr;
  Advice advice;    // of the rank where it counts most
  size_t rank = 0;  // that one, an index of RanksFindings::ranks
  std::vector<size_t> ranks;
};
struct RankAbstention {
  const Rule* rule = nullptr;
  std::string why;
  std::vector<size_t> ranks;
};

struct RanksFindings {
  std::vector<RankRow> ranks;             // in the order of the report
  std::vector<RankFinding> advice;        // what counts most first
  std::vector<RankAbstention> abstained;  // in the order of the rules
  std::vector<const Rule*> nothing;       // these found nothing on any rank
  size_t most_work = 0;                   // the rank with the longest step without its wait in communication
  // That step, and the same of the median rank. Above it, the others wait.
  int64_t work_max = 0;
  int64_t work_median = 0;
  double imbalance() const {
    return work_median > 0 ? static_cast<double>(work_max) / static_cast<double>(work_median) : 1;
  }
};

// Whether it compares the ranks: what one of them is told is then said of all.
bool IsOfTheRun(const Rule& rule);

// Indices of the processes that make steps.
std::vector<size_t> RanksOf(const report::Report& report);

class RanksAdvice {
 public:
  // The report must outlive it.
  explicit RanksAdvice(const report::Report& report) : report_(report) {}

  // Of RanksOf, in its order.
  void Add(const Facts& facts, const Findings& findings);
  // When all are added.
  RanksFindings Finish();

 private:
  const report::Report& report_;
  RanksFindings findings_;
};

}  // namespace slipstream::advise
