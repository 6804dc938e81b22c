#include "tools/trace/db/launch_sequence.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <unordered_set>
#include <utility>

namespace slipstream::trace_db {
namespace {

constexpr size_t kLeastStretches = 5;
// Of the kinds that come again, most stretches have at least so many.
constexpr double kShareOfKinds = 0.9;
// Or they are steps of an epoch, which must not be taken for one itself.
constexpr double kShareInALoop = 0.5;
// Of what is in a stretch or the next one, one for one, at least so much is in both; of three quarters of all
// stretches.
constexpr double kLikenessOfStretches = 0.9;
// A stretch may have so many of its most telling kind.
constexpr size_t kMostOfOne = 16;
constexpr size_t kStretchesSampled = 64;
constexpr size_t kMostKinds = 256;
// So many more are looked at than the shortest one.
constexpr size_t kMostOthers = 64;
constexpr size_t kMostLookedAt = size_t{1} << 15;
// A stretch with so many times the usual number has other work in it.
constexpr double kWithOthers = 1.5;

struct Kind {
  uint32_t token = 0;
  std::vector<size_t> at;
};

// In the order in which they are first seen.
std::vector<Kind> KindsOf(std::span<const uint32_t> tokens) {
  std::vector<Kind> kinds;
  std::unordered_map<uint32_t, size_t> index;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto [at, is_new] = index.try_emplace(tokens[i], kinds.size());
    if (is_new) kinds.push_back({.token = tokens[i], .at = {}});
    kinds[at->second].at.push_back(i);
  }
  return kinds;
}

using Bag = std::unordered_map<uint32_t, size_t>;  // how many of each

double BagLikeness(const Bag& a, const Bag& b) {
  size_t both = 0;
  size_t either = 0;
  for (const auto& [token, count] : a) {
    const auto other = b.find(token);
    const size_t there = other != b.end() ? other->second : 0;
    both += std::min(count, there);
    either += std::max(count, there);
  }
  for (const auto& [token, count] : b) either += a.count(token) == 0 ? count : 0;
  return either == 0 ? 0 : static_cast<double>(both) / static_cast<double>(either);
}

// What comes before the loop only, or behind it, is no part of it: a step's first launches, whose kernels were not
// recorded yet, have other tokens than those of later steps.
bool ComesAgain(const Kind& kind, size_t size) {
  const auto middle = std::lower_bound(kind.at.begin(), kind.at.end(), size / 4);
  return kind.at.size() >= 2 && middle != kind.at.end() && *middle < size - size / 4;
}

// Every `each`th place.
std::vector<size_t> Cuts(const std::vector<size_t>& at, size_t each) {
  std::vector<size_t> cuts;
  for (size_t i = 0; i < at.size(); i += each) cuts.push_back(at[i]);
  return cuts;
}

// How many of these stretches are unlike what a step is, of so many; nothing: they are none. The middle ones are looked
// at: the first are the program's warm-up.
std::optional<double> Unlike(std::span<const uint32_t> tokens, const std::vector<size_t>& cuts,
                             const std::unordered_set<uint32_t>& of, double share) {
  if (cuts.size() <= kLeastStretches) return std::nullopt;
  const size_t stretches = cuts.size() - 1;
  const size_t first = stretches > kStretchesSampled ? (stretches - kStretchesSampled) / 2 : 0;
  const size_t last = std::min(stretches, first + kStretchesSampled);
  size_t unlike = 0;
  Bag before;
  for (size_t i = first; i < last; ++i) {
    Bag bag;
    size_t seen = 0;
    for (size_t at = cuts[i]; at < cuts[i + 1]; ++at) {
      if (++bag[tokens[at]] == 1 && of.count(tokens[at]) != 0) ++seen;
    }
    const bool has_most = static_cast<double>(seen) >= share * static_cast<double>(of.size());
    const bool is_alike = before.empty() || BagLikeness(before, bag) >= kLikenessOfStretches;
    if (!(has_most && is_alike) && ++unlike > (last - first) / 4) return std::nullopt;
    before = std::move(bag);
  }
  return static_cast<double>(unlike) / static_cast<double>(last - first);
}

struct Candidate {
  size_t stretches = 0;
  size_t kind = 0;
  size_t each = 1;
};

// Of these kinds, a stretch must have that share.
std::optional<Candidate> Shortest(std::span<const uint32_t> tokens, const std::vector<Kind>& kinds,
                                  const std::unordered_set<uint32_t>& of, double share) {
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < kinds.size() && i < kMostKinds; ++i) {
    for (size_t each = 1; each <= kMostOfOne; ++each) {
      const size_t stretches = (kinds[i].at.size() - 1) / each;
      if (stretches < kLeastStretches) break;
      candidates.push_back({stretches, i, each});
    }
  }
  // The shortest stretches first, and of equally short ones those of the kind that came first.
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tuple(b.stretches, a.kind, a.each) < std::tuple(a.stretches, b.kind, b.each);
  });
  const auto unlike = [&](const Candidate& candidate) {
    return Unlike(tokens, Cuts(kinds[candidate.kind].at, candidate.each), of, share);
  };
  std::optional<double> least;
  auto found = candidates.begin();
  for (; found != candidates.end() && !(least = unlike(*found)); ++found) continue;
  if (found == candidates.end()) return std::nullopt;
  // What comes once in a stretch tells its length best.
  auto best = found;
  size_t others = 0;
  for (auto other = std::next(found); other != candidates.end() && *least > 0 && others < kMostOthers; ++other) {
    if (2 * other->stretches <= found->stretches) break;
    if (other->each != 1) continue;
    ++others;
    if (const auto of_other = unlike(*other); of_other && *of_other < *least) {
      best = other;
      least = of_other;
    }
  }
  return *best;
}

// Whether a stretch is made of stretches that have most of what it has: an epoch of steps, and an evaluation.
bool IsALoopItself(std::span<const uint32_t> stretch) {
  const std::vector<Kind> kinds = KindsOf(stretch);
  std::unordered_set<uint32_t> all;
  for (const Kind& kind : kinds) all.insert(kind.token);
  return Shortest(stretch, kinds, all, kShareInALoop).has_value();
}

}  // namespace

std::vector<size_t> RepeatedStretches(std::span<const uint32_t> tokens) {
  // What repeats is looked for in the middle.
  const size_t size = std::min(tokens.size(), kMostLookedAt);
  const std::span<const uint32_t> window = tokens.subspan((tokens.size() - size) / 2, size);
  const std::vector<Kind> kinds = KindsOf(window);
  std::unordered_set<uint32_t> again;
  for (const Kind& kind : kinds) {
    if (ComesAgain(kind, window.size())) again.insert(kind.token);
  }
  const std::optional<Candidate> found = Shortest(window, kinds, again, kShareOfKinds);
  if (!found) return {};
  const std::vector<size_t> places = Cuts(kinds[found->kind].at, found->each);
  const size_t middle = places.size() / 2 - 1;
  if (IsALoopItself(window.subspan(places[middle], places[middle + 1] - places[middle]))) return {};
  std::vector<size_t> at;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] == kinds[found->kind].token) at.push_back(i);
  }
  return Cuts(at, found->each);
}

bool AsksForWork(std::string_view function) {
  while (function.starts_with('_')) function.remove_prefix(1);  // __cudaLaunchKernel, which CUDA 13's headers call
  for (const std::string_view begin : {"cudaLaunch", "cudaGraphLaunch", "cudaMemcpy", "cudaMemset", "cuLaunch",
                                       "cuGraphLaunch", "cuMemcpy", "cuMemset"}) {
    if (function.starts_with(begin)) return true;
  }
  return false;
}

void LaunchSequence::Add(uint32_t thread, const Launch& launch) {
  auto found = threads_.find(thread);
  if (found == threads_.end()) {
    if (threads_.size() == kMostThreads) return;
    found = threads_.try_emplace(thread).first;
  }
  if (found->second.size() < kMostLaunches) found->second.push_back(launch);
}

void LaunchSequence::Ran(uint32_t correlation, uint32_t kernel) {
  if (correlation != 0 && kernels_.size() < kMostThreads * kMostLaunches) kernels_.try_emplace(correlation, kernel);
}

std::optional<LaunchSequence::Found> LaunchSequence::FindOf(uint32_t thread, std::span<const Launch> launches) const {
  std::map<std::tuple<uint32_t, uint16_t, uint32_t>, uint32_t> numbers;
  std::vector<uint32_t> tokens;
  bool all_graphs = true;
  for (const Launch& launch : launches) {
    const auto ran = launch.is_graph ? kernels_.end() : kernels_.find(launch.correlation);
    const std::tuple key(launch.site, launch.function, ran != kernels_.end() ? ran->second : 0);
    tokens.push_back(numbers.try_emplace(key, static_cast<uint32_t>(numbers.size())).first->second);
  }
  const std::vector<size_t> cuts = RepeatedStretches(tokens);
  if (cuts.empty()) return std::nullopt;
  std::vector<size_t> lengths;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    lengths.push_back(cuts[i + 1] - cuts[i]);
    all_graphs = all_graphs && launches[cuts[i]].is_graph;
  }
  const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2);
  std::nth_element(lengths.begin(), middle, lengths.end());
  const size_t usual = *middle;
  // One kernel again and again is a step only where it is a whole graph.
  if (usual < 2 && !all_graphs) return std::nullopt;
  Found found = {.thread = thread, .site = launches[cuts[cuts.size() / 2]].site, .launches = usual, .steps = {}};
  for (size_t i = 0; i < cuts.size(); ++i) {
    const bool is_last = i + 1 == cuts.size();
    const size_t next = is_last ? launches.size() : cuts[i + 1];
    const bool has_others = static_cast<double>(next - cuts[i]) > kWithOthers * static_cast<double>(usual);
    if (is_last && next - cuts[i] < usual) break;  // the loop ended before it
    const size_t last = std::min(next, cuts[i] + usual) - 1;
    found.steps.push_back({.start_ns = launches[cuts[i]].start_ns,
                           .end_ns = is_last || has_others ? launches[last].end_ns : launches[next].start_ns,
                           .is_unfinished = is_last || has_others});
  }
  return found;
}

std::optional<LaunchSequence::Found> LaunchSequence::Find() const {
  std::vector<std::pair<size_t, uint32_t>> threads;  // the busiest first
  for (const auto& [thread, launches] : threads_) threads.emplace_back(launches.size(), thread);
  std::sort(threads.rbegin(), threads.rend());
  for (const auto& [size, thread] : threads) {
    if (auto found = FindOf(thread, threads_.at(thread))) return found;
  }
  return std::nullopt;
}

}  // namespace slipstream::trace_db
