// How fast one side is beside the other, from pairs of runs, and how sure that is.
//
// The logarithm of each pair's ratio is one measurement: what the machine does to both runs of a pair (a warm device, a
// busy neighbor) is the same factor in both and falls out, and 2 and 1/2 are as far from 1. From kLeastForRanks pairs
// on the interval is that of Wilcoxon's signed ranks, which a few pairs that a neighbor ruined move little, and which
// holds whatever the noise looks like: chance says which side is first, so if they are alike, a pair is as likely to
// favor one as the other. Of fewer pairs it is Student's, which is made for few measurements and gets wide where one is
// far off. A bootstrap is not: of six pairs it draws from six numbers, and its intervals hold the truth clearly less
// often than they say.
//
// The interval is of 99 %: at 95 %, one program compared with itself in forty comparisons would be told of a difference
// twice on average.
//
// Threading: pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace slipstream::compare {

inline constexpr size_t kLeastPairs = 3;    // fewer make no interval
inline constexpr size_t kMostPairs = 1000;  // that are ever suggested
inline constexpr size_t kLeastForRanks = 10;
inline constexpr double kConfidence = 0.99;  // of the interval
inline constexpr double kPower = 0.80;       // a difference of `seen` shows in as many comparisons
inline constexpr double kAimedWidth = 0.01;  // +-1 %
inline constexpr std::array<double, 2> kWorthSeeing = {0.03, 0.01};  // differences that a reader asks for

// One run's figure.
struct Figure {
  double value = 0;     // above 0
  double rounding = 0;  // it may be this far off, because it was printed with few digits
};
using FigurePair = std::array<Figure, 2>;

// Of the second side's speed to the first one's, above 1: the second is faster.
double SpeedRatio(const FigurePair& pair, bool higher_is_better);

struct Estimate {
  size_t pairs = 0;
  double ratio = 1;   // geometric mean of the pairs' ratios; from kLeastForRanks pairs on, Hodges' and Lehmann's middle
  double median = 1;  // of the pairs' ratios
  // The rest only where `has_interval`.
  bool has_interval = false;
  double confidence = kConfidence;
  double low = 1;
  double high = 1;
  bool different = false;  // 1 is not within
  double seen = 0;         // a share: a difference of that much would show in kPower of all such comparisons
  // How many pairs, these included, an interval of +-kAimedWidth needs, if the spread stays the same. Nothing: more
  // than kMostPairs, or the figures are too coarse.
  std::optional<size_t> pairs_for_aim;
  // The same for a difference of each of kWorthSeeing to show in kPower of all comparisons.
  std::array<std::optional<size_t>, kWorthSeeing.size()> pairs_to_see{};
  double deviation = 0;     // of the pairs' logarithms: the one for which Student's interval would be as wide
  double rounding = 0;      // what printed digits add to each side of the interval, a logarithm
  bool coarse = false;      // rounding alone is wider than the pairs' own spread
  std::vector<size_t> far;  // pairs that are far from the others; none is ever left out
};

Estimate EstimateRatio(const std::vector<FigurePair>& pairs, bool higher_is_better, double confidence = kConfidence);

// Whether the second side is slower by more than a limit: whether it takes more than 1 + limit times as long, or, of a
// throughput, has less than 1 / (1 + limit) times as much.
enum class Slower : uint8_t {
  kShown,    // the whole interval lies beyond the limit
  kNot,      // the whole interval lies within
  kUnknown,  // the limit lies within the interval, or there is none
};
// As the JSON spells it.
const char* NameOf(Slower slower);
// Of an interval of the share by which the second takes longer.
Slower WhetherSlower(double low, double high, double limit);
Slower WhetherSlower(const Estimate& estimate, double limit);

// How many pairs, these included, would tell in kPower of all comparisons, if ratio and spread stay as they are.
// Nothing: more than kMostPairs, the figures are too coarse, or there is no interval.
std::optional<size_t> PairsToTell(const Estimate& estimate, double limit);

// How many of the sorted means of every two of `count` values lie beyond each end of an interval of Wilcoxon's signed
// ranks. Exact up to kMostExactRanks values; approximated from there on. 0 too where so few values make
// no interval of that confidence.
inline constexpr size_t kMostExactRanks = 60;
size_t RanksBeyond(size_t count, double confidence);

struct Spread {
  double median = 0;
  double min = 0;
  double max = 0;
  // (max - min) / median
  double share() const { return median > 0 ? (max - min) / median : 0; }
};
// Of an even number of values the mean of the middle two; `values` may not be empty.
Spread SpreadOf(std::vector<double> values);

}  // namespace slipstream::compare
