#include "tools/trace/db/step_finder.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "tools/trace/db/bounded.h"

namespace slipstream::trace_db {
namespace {

// Of the lines that come again, a step has at least so many; where no copy is part of the loop, nearly all.
constexpr double kLeastShare = 0.6;
constexpr double kLeastShareWithoutCopies = 0.9;
// Of the lines in a step or the next one, at least so many are in both.
constexpr double kLeastLikeness = 0.7;
// Visits of a line, to its being in a loop.
constexpr double kVisitsOfALoop = 3;
// The second look, which takes longer, is for so many.
constexpr size_t kMostLookedAtAgain = 32;
constexpr size_t kMostSampled = 64;
constexpr size_t kMostCandidates = 256;

struct Line {
  std::vector<size_t> visits;  // positions
  bool copies = false;
};
using Lines = std::unordered_map<uint32_t, Line>;

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double Likeness(const std::set<uint32_t>& a, const std::set<uint32_t>& b) {
  size_t both = 0;
  for (const uint32_t site : a) both += b.count(site);
  return static_cast<double>(both) / static_cast<double>(a.size() + b.size() - both);
}

// What lies between the visits of one line, over so many of its visits in their middle: the first are the program's
// warm-up.
struct Periods {
  double share = 0;     // of the lines that come again
  double likeness = 0;  // of one to the next
};

// Lines that come again, but for those of `others`.
Periods PeriodsOf(std::span<const LineVisit> visits, const Lines& lines, const Line& line,
                  const std::set<uint32_t>& others = {}) {
  const auto counts = [&](uint32_t site) {
    return lines.at(site).visits.size() >= StepFinder::kLeastSteps && others.count(site) == 0;
  };
  size_t again = 0;
  for (const auto& [site, other] : lines) again += counts(site) ? 1 : 0;
  const size_t periods = line.visits.size() - 1;
  const size_t first = periods > kMostSampled ? (periods - kMostSampled) / 2 : 0;
  std::vector<double> shares;
  std::vector<double> likenesses;
  std::set<uint32_t> before;
  for (size_t i = first; i < std::min(periods, first + kMostSampled); ++i) {
    std::set<uint32_t> seen;
    for (size_t at = line.visits[i]; at < line.visits[i + 1]; ++at) {
      const uint32_t site = visits[at].site;
      if (counts(site)) seen.insert(site);
    }
    shares.push_back(static_cast<double>(seen.size()) / static_cast<double>(again));
    if (!before.empty()) likenesses.push_back(Likeness(before, seen));
    before = std::move(seen);
  }
  return {Median(shares), Median(likenesses)};
}

// Whether most of what the thread did lies between the first visit of this line and the last.
bool IsMostOfTheThread(std::span<const LineVisit> visits, const Line& line) {
  return 2 * (line.visits.back() - line.visits.front()) >= visits.size();
}

// Lines that are not visited at all while the middle half of this one's visits are: of what comes before the loop or
// behind it, such as the warm-up of a step that is captured into a CUDA graph, whose own lines never run again.
std::set<uint32_t> LinesOfOtherTimes(const Lines& lines, const Line& line) {
  const size_t first = line.visits[line.visits.size() / 4];
  const size_t last = line.visits[line.visits.size() * 3 / 4];
  std::set<uint32_t> others;
  for (const auto& [site, other] : lines) {
    const auto at = std::lower_bound(other.visits.begin(), other.visits.end(), first);
    if (at == other.visits.end() || *at > last) others.insert(site);
  }
  return others;
}

// Lines that are in few periods of this one, and in those again and again: of another loop, which runs between two
// visits of this line now and then, as an evaluation does. What else a step has, seen from a line inside a loop of the
// step, is in few periods too, but once in each.
std::set<uint32_t> LinesOfOtherLoops(const Lines& lines, const Line& line) {
  std::set<uint32_t> others;
  const size_t periods = line.visits.size() - 1;
  for (const auto& [site, other] : lines) {
    std::vector<double> visits_in;  // of each period that it is in
    size_t last = 0;
    for (const size_t at : other.visits) {
      const auto behind = std::upper_bound(line.visits.begin(), line.visits.end(), at);
      if (behind == line.visits.begin()) continue;
      const auto period = static_cast<size_t>(behind - line.visits.begin());
      if (visits_in.empty() || period != last) visits_in.push_back(0);
      last = period;
      ++visits_in.back();
    }
    if (visits_in.size() * kSeldom < periods && Median(visits_in) >= kVisitsOfALoop) others.insert(site);
  }
  return others;
}

}  // namespace

bool IsCopy(std::string_view function) { return function.starts_with("cudaMemcpy"); }

uint32_t LinesOfSites::LineOf(uint32_t site) {
  if (site == 0) return 0;
  const auto [line, is_new] = lines_.try_emplace(site, 0);
  const tracer::SpoolSite* const known = is_new ? reader_.SiteOf(site) : nullptr;
  if (known != nullptr) line->second = first_.try_emplace({known->file, known->line}, site).first->second;
  return line->second;
}

uint32_t LinesOfSites::LineOf(const tracer::TraceRecord& call) {
  return (call.flags & tracer::kSiteIsBackward) != 0 ? 0 : LineOf(call.site);
}

StepLoop LoopOf(std::span<const LineVisit> visits, uint32_t site) {
  struct Seen {
    size_t steps = 0;
    size_t last = 0;  // step that it was seen in, from 1
  };
  std::unordered_map<uint32_t, Seen> lines;
  std::vector<uint64_t> starts;
  size_t last = 0;  // visit of `site`: what is behind it is no whole step
  for (size_t at = 0; at < visits.size(); ++at) {
    if (visits[at].site == site) last = at;
  }
  for (size_t at = 0; at < last; ++at) {
    if (visits[at].site == site) starts.push_back(visits[at].start_ns);
    if (starts.empty()) continue;
    Seen& line = lines[visits[at].site];
    if (line.last == starts.size()) continue;
    line.last = starts.size();
    ++line.steps;
  }
  StepLoop loop;
  if (starts.empty()) return loop;
  for (const auto& [line, seen] : lines) {
    if (seen.steps * 2 >= starts.size()) {
      loop.own.push_back(line);
    } else if (seen.steps * kSeldom >= starts.size()) {
      loop.often.push_back(line);
    }
  }
  std::sort(loop.own.begin(), loop.own.end());
  std::sort(loop.often.begin(), loop.often.end());
  starts.push_back(visits[last].start_ns);
  std::vector<int64_t> times;
  for (size_t i = 1; i < starts.size(); ++i) times.push_back(static_cast<int64_t>(starts[i] - starts[i - 1]));
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  loop.median_ns = BoundedTime(*middle);
  return loop;
}

std::optional<uint32_t> FindStepLine(std::span<const LineVisit> visits) {
  Lines lines;
  for (size_t at = 0; at < visits.size(); ++at) {
    Line& line = lines[visits[at].site];
    line.visits.push_back(at);
    line.copies |= visits[at].copies;
  }
  std::vector<std::pair<uint32_t, const Line*>> candidates;
  for (const auto& [site, line] : lines) {
    if (line.visits.size() > StepFinder::kLeastSteps) candidates.emplace_back(site, &line);
  }
  // The most frequent first, and of those the one that came first.
  std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
    const size_t of_a = a.second->visits.size();
    const size_t of_b = b.second->visits.size();
    return of_a != of_b ? of_a > of_b : a.second->visits[0] < b.second->visits[0];
  });
  if (candidates.size() > kMostCandidates) candidates.resize(kMostCandidates);
  const auto begins_a_step = [&](const Line& line, double least_share, const std::set<uint32_t>& others = {}) {
    const Periods periods = PeriodsOf(visits, lines, line, others);
    return periods.share >= least_share && periods.likeness >= kLeastLikeness;
  };
  std::optional<uint32_t> for_a_while;
  for (const auto& [site, line] : candidates) {
    if (!line->copies || !begins_a_step(*line, kLeastShare)) continue;
    if (IsMostOfTheThread(visits, *line)) return site;
    if (!for_a_while) for_a_while = site;
  }
  // A captured step leaves few lines to its loop, and all its lines to its warm-up.
  for (const auto& [site, line] : candidates) {
    if (!line->copies || !IsMostOfTheThread(visits, *line)) continue;
    if (begins_a_step(*line, kLeastShare, LinesOfOtherTimes(lines, *line))) return site;
  }
  if (for_a_while) return for_a_while;
  for (const auto& [site, line] : candidates) {
    if (begins_a_step(*line, kLeastShareWithoutCopies)) return site;
  }
  // An evaluation may have as many lines as the training, or more.
  if (candidates.size() > kMostLookedAtAgain) candidates.resize(kMostLookedAtAgain);
  for (const auto& [site, line] : candidates) {
    if (!line->copies || !IsMostOfTheThread(visits, *line)) continue;
    const std::set<uint32_t> others = LinesOfOtherLoops(lines, *line);
    if (!others.empty() && begins_a_step(*line, kLeastShare, others)) return site;
  }
  return std::nullopt;
}

void StepFinder::AddCall(uint32_t thread, uint32_t site, bool copies, uint64_t start_ns) {
  if (site == 0) return;
  auto found = threads_.find(thread);
  if (found == threads_.end()) {
    if (threads_.size() == kMostThreads) return;
    found = threads_.try_emplace(thread).first;
  }
  std::vector<LineVisit>& visits = found->second;
  if (visits.empty() || visits.back().site != site) {
    if (visits.size() == kMostVisits) return;
    visits.push_back({site, false, start_ns});
  }
  visits.back().copies |= copies;
}

size_t StepFinder::most_visits() const {
  size_t most = 0;
  for (const auto& [thread, visits] : threads_) {
    std::unordered_map<uint32_t, size_t> of_lines;
    for (const LineVisit& visit : visits) most = std::max(most, ++of_lines[visit.site]);
  }
  return most;
}

size_t StepFinder::visits() const {
  size_t sum = 0;
  for (const auto& [thread, visits] : threads_) sum += visits.size();
  return sum;
}

std::optional<StepFinder::Found> StepFinder::Find() const {
  std::vector<std::pair<size_t, uint32_t>> threads;  // the busiest first
  for (const auto& [thread, visits] : threads_) threads.emplace_back(visits.size(), thread);
  std::sort(threads.rbegin(), threads.rend());
  for (const auto& [size, thread] : threads) {
    const std::vector<LineVisit>& visits = threads_.at(thread);
    const auto site = FindStepLine(visits);
    if (!site) continue;
    Found found = {.thread = thread, .site = *site, .loop = LoopOf(visits, *site)};
    for (const LineVisit& visit : visits) {
      if (visit.site != *site) continue;
      found.copies |= visit.copies;
      ++found.visits;
    }
    return found;
  }
  return std::nullopt;
}

}  // namespace slipstream::trace_db
