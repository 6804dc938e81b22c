// Finds the steps of a program's loop without its help: the line of a thread that begins one.
//
// A training step brings a batch to the device. So a step begins at a line that copies, comes again and again, and has
// between two of its visits most of the lines that come again at all. A line inside a loop over layers does not: the
// rest of the step is missing between two visits. Of several that do, the most frequent one is taken, and of equally
// frequent ones the first: neither an epoch nor every tenth step is a step. Where no copy is part of the loop, any line
// will do that has nearly all others between its visits. Lines that are not visited while the middle half of a line's
// visits are, as those of a step that was captured into a CUDA graph, and lines of other loops that run between two of
// its visits now and then, as an evaluation does, are not asked for where that line is at work for most of what the
// thread did.
//
// Limits: of batches whose gradients are added up, each is a step. A loop over layers that copies each layer's weights,
// and has most of the program's lines in it, is taken for the steps.
//
// Memory: the first kMostVisits visits of lines by each of kMostThreads threads, of 16 bytes each.
// Threading: an object belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tracer/spool/spool_reader.h"

namespace slipstream::trace_db {

// A line of the program that was at work: calls of one thread, one after the other, that are put down to it.
struct LineVisit {
  uint32_t site = 0;
  bool copies = false;
  uint64_t start_ns = 0;  // of the first call
};

// The site at which each step of the thread that made these visits begins.
std::optional<uint32_t> FindStepLine(std::span<const LineVisit> visits);

// What the steps that begin at a line have in common, by all of those among `visits`.
struct StepLoop {
  // Each ascending, by site. A line that is in neither of them is no part of the loop as far as its steps tell.
  std::vector<uint32_t> own;    // at least every second step visits it
  std::vector<uint32_t> often;  // not in `own`, and at least one step of kSeldom visits it: what a program logs, say
  int64_t median_ns = 0;        // from the beginning of one to the next
};
inline constexpr size_t kSeldom = 8;
StepLoop LoopOf(std::span<const LineVisit> visits, uint32_t site);

// Whether a hooked function of this name is a copy.
bool IsCopy(std::string_view function);

// A spool has a site for each call in a line; here the first of those stands for the line.
class LinesOfSites {
 public:
  explicit LinesOfSites(const tracer::SpoolReader& reader) : reader_(reader) {}

  // 0: no line is known. Asked when a record has the site: then the reader has it too.
  uint32_t LineOf(uint32_t site);
  // Of a call that a thread of autograd's made, 0: it is put down to a line that the thread is not at, which says
  // nothing about its loop.
  uint32_t LineOf(const tracer::TraceRecord& call);

 private:
  const tracer::SpoolReader& reader_;
  std::unordered_map<uint32_t, uint32_t> lines_;               // by site
  std::map<std::pair<std::string, int32_t>, uint32_t> first_;  // site of a line of a file
};

class StepFinder {
 public:
  static constexpr size_t kMostVisits = size_t{1} << 18;
  static constexpr size_t kMostThreads = 16;
  // Fewer are no loop.
  static constexpr size_t kLeastSteps = 4;

  struct Found {
    uint32_t thread = 0;  // by the spool's number
    uint32_t site = 0;    // LinesOfSites
    StepLoop loop = {};
    bool copies = false;  // the line does, as one that brings a batch to the device
    size_t visits = 0;
  };

  // The calls of a process, each thread's in their order. `site`: LinesOfSites.
  void AddCall(uint32_t thread, uint32_t site, bool copies, uint64_t start_ns = 0);
  // Of the thread with the most visits that has steps.
  std::optional<Found> Find() const;
  // The most visits of any one line.
  size_t most_visits() const;
  // That are remembered.
  size_t visits() const;

 private:
  std::map<uint32_t, std::vector<LineVisit>> threads_;
};

}  // namespace slipstream::trace_db
