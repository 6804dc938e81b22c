// Finds the steps of a loop by what it asks of a device, where no line brings a batch to the device: its data lies
// there, or is made there; one line runs two models in turn, or launches a CUDA graph.
//
// A launch, copy or set is known by its line, its function and the kernel that ran, if that was recorded. A step is a
// stretch of them that comes again, one behind the other, with nearly the same ones each time, and that has nearly all
// of those that come again at all: so neither a layer is one, nor every tenth step. The shortest such stretch is taken;
// but where some of these are unlike the others, the one of up to twice its length of which fewest are: fourteen of
// sixteen rounds of a loop have most of a step, and now and then nothing but rounds.
//
// One that is itself a loop, with half of its kinds or more, is none: nothing tells an epoch of steps from a step of
// layers.
//
// Memory: the first kMostLaunches of each of kMostThreads threads, of 32 bytes each, and for as many kernels an entry of
// a map.
// Threading: an object belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace slipstream::trace_db {

// Stretches of `tokens`, each from one of these positions to the next; the last one ends where the last stretch does.
// Empty: there are none, or fewer than five.
std::vector<size_t> RepeatedStretches(std::span<const uint32_t> tokens);

// Of steps that were found by the line that begins one, and by launches: whether there are about as many of both, or
// both are about as long. Then the line tells more.
constexpr bool LineTellsMore(uint64_t by_launches, uint64_t by_line) {
  return 10 * (by_launches > by_line ? by_launches : by_line) <= 11 * (by_launches < by_line ? by_launches : by_line);
}

// Whether a function of this name launches, copies or sets.
bool AsksForWork(std::string_view function);

class LaunchSequence {
 public:
  static constexpr size_t kMostLaunches = size_t{1} << 18;
  static constexpr size_t kMostThreads = 4;

  struct Launch {
    uint32_t site = 0;      // LinesOfSites; 0: no line is known
    uint16_t function = 0;  // the spool's number
    bool is_graph = false;  // launches a graph
    uint32_t correlation = 0;
    uint64_t start_ns = 0;
    uint64_t end_ns = 0;
  };
  // Those of a thread in their order.
  void Add(uint32_t thread, const Launch& launch);
  // What the device did for it: the number of the kernel's name.
  void Ran(uint32_t correlation, uint32_t kernel);

  struct Step {
    uint64_t start_ns = 0;
    uint64_t end_ns = 0;
    bool is_unfinished = false;  // its work is followed by other work, or by nothing that is known
  };
  struct Found {
    uint32_t thread = 0;
    uint32_t site = 0;        // of the first launch of a step; 0: no line is known
    size_t launches = 0;      // of a step, in the median
    std::vector<Step> steps;  // in their order
  };
  // Of the thread with most launches that has steps.
  std::optional<Found> Find() const;

 private:
  std::optional<Found> FindOf(uint32_t thread, std::span<const Launch> launches) const;

  std::map<uint32_t, std::vector<Launch>> threads_;
  std::unordered_map<uint32_t, uint32_t> kernels_;  // by correlation
};

}  // namespace slipstream::trace_db
