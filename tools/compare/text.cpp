#include "tools/compare/text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "policy/text.h"
#include "tools/compare/blocks.h"
#include "tools/text/text.h"

namespace slipstream::compare {
namespace {

using policy::Escape;
using text::PadLeft;
using text::PadRight;

constexpr size_t kWidth = 80;
constexpr size_t kColumn = 14;

std::string Printed(int decimals, double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof(buffer), "%.*f", decimals, value);
  return buffer;
}

std::string Percent(double share, int decimals) { return Printed(decimals, 100 * share) + " %"; }

// A share: "0.42 %", "12.3 %".
std::string Percent(double share) { return Percent(share, share >= 0.995 ? 0 : share >= 0.0995 ? 1 : 2); }

std::string Ratio(double ratio) { return Printed(3, ratio); }

// So many digits that an end that is not 1 is not printed as 1.
std::string Interval(const Estimate& estimate) {
  const double nearest = std::min(std::abs(estimate.low - 1), std::abs(estimate.high - 1));
  const int decimals = nearest < 0.0005 ? 5 : nearest < 0.005 ? 4 : 3;
  return Printed(decimals, estimate.low) + " to " + Printed(decimals, estimate.high);
}

std::string Sentence(const std::string& text) { return Wrapped("  ", "    ", text); }

std::string Count(size_t count, const char* one, const char* more) {
  return std::to_string(count) + " " + (count == 1 ? one : more);
}

// "a", "a line that is too lo..."
std::string Cut(const std::string& text, size_t width) {
  const std::string escaped = Escape(text);
  return escaped.size() <= width ? escaped : escaped.substr(0, width - 3) + "...";
}

std::string Quoted(const std::string& text) { return "\"" + Cut(text, kWidth - 26) + "\""; }

std::string Head(const Comparison& comparison) {
  std::string text = "slipstream compare: " + Cut(comparison.command, 200) + "\n";
  for (const Side& side : comparison.sides) {
    text += Wrapped("  " + PadRight(side.name + ":", 12), std::string(14, ' '), Escape(side.detail));
  }
  std::string measured;
  switch (comparison.ruler) {
    case Ruler::kWall:
      measured = "wall time of the whole command, imports and start-up included";
      if (!comparison.no_steps.empty())
        measured += ", because its steps were not found: " + Escape(comparison.no_steps);
      break;
    case Ruler::kSteps:
      measured = "time of a step, from traces of both sides: of the " + text::WithThousands(comparison.steps) +
                 " measured ones of a run " +
                 (comparison.steps < kBlocks * kLeastInBlock
                      ? "the mean"
                      : "in " + std::to_string(kBlocks) + " blocks, the median of the blocks' means") +
                 (comparison.step_line.empty() ? "" : "; a step begins at " + Escape(comparison.step_line));
      break;
    case Ruler::kMetric:
      measured = "what the command prints: " +
                 (comparison.metric_matches == 1 ? std::string("the number")
                                                 : std::string("the ") + NameOf(comparison.pick) + " of " +
                                                       text::WithThousands(comparison.metric_matches) + " numbers") +
                 " that \"" + Escape(comparison.metric) + "\" finds; " +
                 (comparison.higher_is_better ? "higher" : "lower") + " is better";
      break;
  }
  text += Wrapped("  " + PadRight("measured:", 12), std::string(14, ' '), measured);
  std::string runs = Count(comparison.pairs.size(), "pair", "pairs");
  if (comparison.asked_pairs != 0 && comparison.pairs.size() != comparison.asked_pairs)
    runs += " of " + std::to_string(comparison.asked_pairs);
  runs += ", the side that is first drawn with --seed " + std::to_string(comparison.seed);
  if (comparison.warm_ups != 0) {
    runs += ", after " + Count(comparison.warm_ups, "warm-up", "warm-ups") + " of each side that " +
            (comparison.warm_ups == 1 ? "does" : "do") + " not count";
  }
  return text + Wrapped("  " + PadRight("runs:", 12), std::string(14, ' '), runs);
}

std::string Table(const Comparison& comparison) {
  if (comparison.pairs.empty()) return "";
  const auto name = [&](size_t side) { return comparison.sides[side].name; };
  std::string text = "\n  pair  first     " + PadLeft(name(0), kColumn) + PadLeft(name(1), kColumn) +
                     PadLeft("speed ratio", kColumn) + "\n";
  std::array<std::vector<double>, 2> values;
  std::vector<double> ratios;
  double rounding = comparison.pairs.front().runs[0].figure.rounding;
  for (size_t i = 0; i < comparison.pairs.size(); ++i) {
    const PairOfRuns& pair = comparison.pairs[i];
    text += "  " + PadLeft(std::to_string(i + 1), 4) + "  " + PadRight(name(pair.first), 10);
    for (size_t side = 0; side < 2; ++side) {
      const Figure& figure = pair.runs[side].figure;
      values[side].push_back(figure.value);
      rounding = std::min(rounding, figure.rounding);
      text += PadLeft(FormatFigure(comparison, figure), kColumn);
    }
    ratios.push_back(SpeedRatio({pair.runs[0].figure, pair.runs[1].figure}, comparison.higher_is_better));
    text += PadLeft(Ratio(ratios.back()), kColumn);
    const std::vector<size_t>& far = comparison.estimate.far;
    text += std::find(far.begin(), far.end(), i) != far.end() ? " *\n" : "\n";
  }
  const std::array<Spread, 3> spreads = {SpreadOf(values[0]), SpreadOf(values[1]), SpreadOf(ratios)};
  text += PadRight("  median", 18) + PadLeft(FormatFigure(comparison, {spreads[0].median, rounding}), kColumn) +
          PadLeft(FormatFigure(comparison, {spreads[1].median, rounding}), kColumn) +
          PadLeft(Ratio(spreads[2].median), kColumn) + "\n";
  text += PadRight("  max - min", 18);
  for (const Spread& spread : spreads) text += PadLeft(Percent(spread.share()), kColumn);
  text += "\n";
  if (!comparison.estimate.far.empty()) {
    text += Sentence("* far from the other pairs; it counts like any other. More pairs (-n) weigh it less");
  }
  return text;
}

constexpr char kCoarse[] =
    "The number is printed with so few digits that more pairs would not narrow the interval much: have the command "
    "print more of them.";

// "about 9 more pairs (-n 15)"
std::string MorePairs(const Estimate& estimate, size_t pairs) {
  return "about " + Count(pairs - estimate.pairs, "more pair", "more pairs") + " (-n " + std::to_string(pairs) + ")";
}

// Of an interval that tells the sides apart: what would narrow it.
std::string PairsForAim(const Estimate& estimate) {
  if (estimate.pairs_for_aim && *estimate.pairs_for_aim <= estimate.pairs) return "";
  if (estimate.coarse) return kCoarse;
  if (!estimate.pairs_for_aim) {
    return "The pairs are so far apart that no number of them up to " + text::WithThousands(kMostPairs) +
           " would give an interval of +-1 %.";
  }
  return "For an interval of +-1 %: " + MorePairs(estimate, *estimate.pairs_for_aim) + ", if they spread as these do.";
}

// Of one that does not: what it would take.
std::string PairsToSee(const Estimate& estimate) {
  std::string text;
  for (size_t i = 0; i < kWorthSeeing.size(); ++i) {
    const std::optional<size_t>& pairs = estimate.pairs_to_see[i];
    if (pairs && *pairs <= estimate.pairs) continue;
    if (estimate.coarse) return kCoarse;
    text += (text.empty() ? "To see one of " : ", one of ") + Percent(kWorthSeeing[i], 0) + ": " +
            (pairs ? MorePairs(estimate, *pairs) : "more than " + text::WithThousands(kMostPairs) + " pairs");
    if (!pairs) break;  // and the smaller ones take more
  }
  return text.empty() ? "" : text + ", if they spread as these do.";
}

std::string IntervalOf(const Estimate& estimate) {
  return Printed(0, 100 * estimate.confidence) + " % interval " + Interval(estimate);
}

// What the same runs took from their start to their end.
std::string Whole(const Comparison& comparison) {
  if (!comparison.whole || !comparison.whole->has_interval) return "";
  const Estimate& whole = *comparison.whole;
  return Sentence("The whole command, start-up and recording included, has " + Ratio(whole.ratio) +
                  " times the speed (" + IntervalOf(whole) + ").");
}

std::string Verdict(const Comparison& comparison) {
  const Estimate& estimate = comparison.estimate;
  const std::string& a = comparison.sides[0].name;
  const std::string& b = comparison.sides[1].name;
  if (!comparison.stopped.empty() && comparison.failures.empty()) {
    // Said in any case; what there is follows.
    Comparison rest = comparison;
    rest.stopped.clear();
    return Sentence("STOPPED EARLY: " + comparison.stopped) + Verdict(rest);
  }
  if (!estimate.has_interval) {
    return Sentence("NOTHING CAN BE SAID: " + Count(estimate.pairs, "pair", "pairs") + ", and fewer than " +
                    std::to_string(kLeastPairs) + " make no interval" +
                    (estimate.pairs == 0 ? "" : "; ratio so far " + Ratio(estimate.ratio)));
  }
  const std::string ratio =
      b + " has " + Ratio(estimate.ratio) + " times the speed of " + a + " (" + IntervalOf(estimate) + ")";
  std::string text;
  if (estimate.different) {
    text = Sentence((estimate.ratio > 1 ? "FASTER: " : "SLOWER: ") + ratio);
    if (const std::string more = PairsForAim(estimate); !more.empty()) text += Sentence(more);
  } else {
    text = Sentence("NO DIFFERENCE FOUND: " + ratio);
    text += Sentence("Had there been one of " + Percent(estimate.seen) +
                     " or more, four in five such comparisons would have shown it.");
    if (const std::string more = PairsToSee(estimate); !more.empty()) text += Sentence(more);
  }
  return text + Whole(comparison);
}

// Against what was asked for.
std::string LimitText(const Comparison& comparison) {
  if (!comparison.fail_if_slower) return "";
  const Estimate& estimate = comparison.estimate;
  const double limit = *comparison.fail_if_slower;
  std::string how = ".";
  if (const std::optional<size_t> pairs = PairsToTell(estimate, limit)) {
    how = "; " + MorePairs(estimate, *pairs) + " would tell, if they go on as these.";
  } else if (estimate.has_interval) {
    how = ", nor by any number of pairs up to " + text::WithThousands(kMostPairs) + ", if they go on as these.";
  }
  return Sentence(SlowerText(comparison.sides[1].name, WhetherSlower(estimate, limit), limit, how));
}

std::string Place(const Failure& failure) {
  return failure.pair == 0 ? "a warm-up" : "pair " + std::to_string(failure.pair);
}

std::string Failures(const Comparison& comparison) {
  if (comparison.failures.empty()) return "";
  std::string text = "\n";
  const Outcome outcome = OutcomeOf(comparison);
  if (outcome == Outcome::kFailsOnOne) {
    const size_t side = comparison.failures.front().side;
    const size_t other = 1 - side;
    text += Sentence("FAILS ON ONE SIDE ONLY: " + comparison.sides[side].name + " failed in " +
                     std::to_string(comparison.failures.size()) + " of " + std::to_string(comparison.runs[side]) +
                     (comparison.runs[side] == 1 ? " run, " : " runs, ") + comparison.sides[other].name + " in 0 of " +
                     std::to_string(comparison.runs[other]) + ". Nothing further was run.");
  } else {
    text += Sentence("FAILS ON BOTH SIDES: there is nothing to compare.");
  }
  for (const Failure& failure : comparison.failures) {
    text += Sentence(comparison.sides[failure.side].name + ", " + Place(failure) + ": " + Escape(failure.what));
    for (const std::string& line : failure.last_lines) text += "    | " + Cut(line, kWidth - 6) + "\n";
  }
  return text;
}

std::string Results(const Comparison& comparison) {
  const MatchResult& results = comparison.results;
  const std::string& a = comparison.sides[0].name;
  const std::string& b = comparison.sides[1].name;
  const char* const what = results.by_pattern ? "results that --result finds" : "numbers in the output";
  std::string text;
  if (results.differences != 0) {
    text += Sentence("RESULTS DIFFER: " + Count(results.differences, "line", "lines") + " that all " +
                     std::to_string(results.runs[0]) + " runs of " + a + " print alike, " + b + " does not.");
    for (const OutputDifference& difference : results.shown) {
      text += "    " + std::string(difference.standard_error ? "standard error" : "standard output") +
              (results.by_pattern ? ", result " : ", line ") + std::to_string(difference.line) + ", in " +
              std::to_string(difference.runs) + " of " + Count(results.runs[1], "run", "runs") + " of " + b + ":\n";
      text += "      " + PadRight(a, 10) + " says " + Quoted(difference.first) + "\n";
      text += "      " + PadRight(b, 10) + " says " +
              (difference.second.empty() ? "nothing like it" : Quoted(difference.second)) + "\n";
    }
    if (results.differences > results.shown.size()) {
      text += "    and " + std::to_string(results.differences - results.shown.size()) + " more\n";
    }
    if (!results.by_pattern) {
      text += Sentence(
          "A time or a rate without a unit passes for a result: if these are, name the results with --result REGEX.");
    }
  } else if (results.can_be_told()) {
    const bool all = results.repeating == results.numbers;
    text += Sentence((all ? "Same results: all " : "Same results, as far as they repeat: ") +
                     std::to_string(results.repeating) + (all ? " " : " of " + std::to_string(results.numbers) + " ") +
                     what + " are the same in all " + std::to_string(results.runs[0]) + " runs of " + a + ", and " + b +
                     " prints them too" +
                     (results.words == 0 ? "." : ", with " + Count(results.words, "line", "lines") + " of words."));
    if (!results.example.empty()) text += "    such as " + Quoted(results.example) + "\n";
    if (!results.varying.empty()) {
      text += Sentence("The others vary from run to run of " + a + ", which says nothing about " + b + ":");
      text += "    such as " + Quoted(results.varying) + "\n";
    }
  } else if (results.runs[0] < 2 || results.runs[1] < 1) {
    text += comparison.failures.empty() ? Sentence("Results cannot be checked: too few runs.") : "";
  } else if (results.numbers == 0) {
    text +=
        Sentence(results.by_pattern ? "Results cannot be checked: --result finds nothing in the output of " + a + "."
                                    : "Results cannot be checked: no number in the output that is not a time.");
  } else {
    text += Sentence("Results cannot be checked: none of " + std::to_string(results.numbers) + " " + what +
                     " repeats from run to run of " + a + ". A fixed seed and deterministic algorithms would help.");
  }
  if (results.cut) {
    text += Sentence("Of output of more than " + text::HumanBytes(kMostOutput) + " only the beginning was compared.");
  }
  return text;
}

std::string Seen(const Comparison& comparison) {
  std::string text;
  for (size_t i = 0; i < comparison.sides.size(); ++i) {
    const Side& side = comparison.sides[i];
    if (!side.counted || comparison.runs[i] == 0) continue;
    if (side.calls == 0) {
      text += Sentence("NO CUDA CALL WAS SEEN under " + side.name +
                       ": slipstream had nothing to do, and what differs is not its work.");
    } else {
      text += Sentence((side.name.size() > 1 ? "" : "Under " + side.name + " ") + "slipstream saw " +
                       text::WithThousands(side.calls) + " CUDA calls in a run, in " +
                       Count(static_cast<size_t>(side.processes), "process.", "processes."));
    }
  }
  return text;
}

}  // namespace

std::string Wrapped(const std::string& head, const std::string& indent, const std::string& text) {
  std::string result;
  std::string line = head;
  bool has_words = false;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    at = end + 1;
    if (has_words && line.size() + 1 + word.size() > kWidth) {
      result += line + "\n";
      line = indent;
      has_words = false;
    }
    line += (has_words ? " " : "") + word;
    has_words = true;
  }
  return result + line + "\n";
}

std::string PercentOf(double share) {
  char buffer[64];
  std::snprintf(buffer, sizeof(buffer), "%.6g %%", 100 * share);
  return buffer;
}

std::string SlowerText(const std::string& what, Slower slower, double limit, const std::string& how) {
  switch (slower) {
    case Slower::kShown:
      return "SLOWER BY MORE THAN " + PercentOf(limit) + ": the whole interval lies beyond.";
    case Slower::kNot:
      return "Not slower by more than " + PercentOf(limit) + ": the whole interval lies within.";
    case Slower::kUnknown:
      break;
  }
  return "Whether " + what + " is slower by more than " + PercentOf(limit) + " cannot be told" + how;
}

std::string FormatSeconds(double seconds) {
  struct Unit {
    double factor;
    const char* name;
  };
  constexpr std::array<Unit, 3> kUnits = {{{1, " s"}, {1e3, " ms"}, {1e6, " us"}}};
  size_t unit = 0;
  while (unit + 1 < kUnits.size() && seconds * kUnits[unit].factor < 0.99995) ++unit;
  const double value = seconds * kUnits[unit].factor;
  const int decimals = value >= 999.95 ? 0 : value >= 99.995 ? 1 : value >= 9.9995 ? 2 : 3;
  return Printed(decimals, value) + kUnits[unit].name;
}

std::string FormatFigure(const Comparison& comparison, const Figure& figure) {
  if (comparison.ruler != Ruler::kMetric) return FormatSeconds(figure.value);
  // As many decimals as the command prints.
  const double decimals = figure.rounding > 0 ? std::round(-std::log10(2 * figure.rounding)) : -1;
  if (decimals >= 0 && decimals <= 6 && figure.value < 1e6) return Printed(static_cast<int>(decimals), figure.value);
  char buffer[64];
  std::snprintf(buffer, sizeof(buffer), "%.6g", figure.value);
  return buffer;
}

std::string RatioText(const Comparison& comparison) {
  const Estimate& estimate = comparison.estimate;
  return Ratio(estimate.ratio) + " times the speed" +
         (estimate.has_interval ? " (" + Interval(estimate) + ")" : std::string());
}

std::string ComparisonMarkdown(const Comparison& comparison) {
  const auto cell = [](const std::string& text) {
    std::string escaped;
    for (const char c : Escape(text)) escaped += c == '|' ? std::string("\\|") : std::string(1, c);
    return escaped + " |";
  };
  std::string text = "`" + Escape(comparison.command) + "`\n";
  if (!comparison.pairs.empty()) {
    std::array<std::vector<double>, 2> values;
    std::vector<double> ratios;
    double rounding = comparison.pairs.front().runs[0].figure.rounding;
    for (const PairOfRuns& pair : comparison.pairs) {
      for (size_t side = 0; side < 2; ++side) {
        values[side].push_back(pair.runs[side].figure.value);
        rounding = std::min(rounding, pair.runs[side].figure.rounding);
      }
      ratios.push_back(SpeedRatio({pair.runs[0].figure, pair.runs[1].figure}, comparison.higher_is_better));
    }
    const std::array<Spread, 3> spreads = {SpreadOf(values[0]), SpreadOf(values[1]), SpreadOf(ratios)};
    text += "\n| " + cell("") + " " + cell(comparison.sides[0].name) + " " + cell(comparison.sides[1].name) + " " +
            cell("speed ratio") + "\n| --- | ---: | ---: | ---: |\n";
    text += "| " + cell("median of " + Count(comparison.pairs.size(), "pair", "pairs")) + " " +
            cell(FormatFigure(comparison, {spreads[0].median, rounding})) + " " +
            cell(FormatFigure(comparison, {spreads[1].median, rounding})) + " " + cell(Ratio(spreads[2].median)) + "\n";
    text += "| " + cell("max - min");
    for (const Spread& spread : spreads) text += " " + cell(Percent(spread.share()));
    text += "\n";
  }
  text += "\n```text\n" + Failures(comparison);
  if (comparison.failures.empty()) text += Verdict(comparison) + LimitText(comparison);
  text += Results(comparison);
  for (const std::string& note : comparison.notes) text += Sentence("Note: " + Escape(note));
  return text + "```\n";
}

std::string FormatComparison(const Comparison& comparison) {
  std::string text = Head(comparison) + Table(comparison) + Failures(comparison);
  text += "\n";
  const std::string results = Results(comparison);
  // Nobody wants a speed before he knows that it is the same work.
  if (comparison.results.differences != 0) text += results;
  if (comparison.failures.empty()) text += Verdict(comparison) + LimitText(comparison);
  if (comparison.results.differences == 0) text += results;
  if (comparison.failures.empty()) text += Seen(comparison);
  for (const std::string& note : comparison.notes) text += Sentence("Note: " + Escape(note));
  return text;
}

}  // namespace slipstream::compare
