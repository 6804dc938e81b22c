#include "tools/trace/report/gains_text.h"

#include <algorithm>
#include <optional>

#include "tools/text/text.h"
#include "tools/trace/report/format.h"

namespace slipstream::report {
namespace {

using text::PadLeft;
using text::WithThousands;

std::string Times(const ProcessReport& process, const std::optional<int64_t>& sum) {
  if (!sum) return Figure("-") + (process.has_steps ? Figure("-") : "");
  return Figure(Time(*sum)) +
         (process.has_steps ? Figure(Time(static_cast<double>(*sum) / process.divisor())) : std::string());
}

std::string RowText(const ProcessReport& process, GainKind kind, size_t columns) {
  const GainRow& row = process.gains.Of(kind);
  std::string text = Figure(WithThousands(row.measured_calls));
  if (process.has_steps) text += PadLeft(Number(static_cast<double>(row.measured_calls) / process.divisor()), 9);
  return Described(text + Times(process, row.measured) + Times(process, row.estimated), LabelOf(kind), columns);
}

std::string BoundText(const ProcessReport& process) {
  if (!process.ahead || process.ahead->skipped == 0) return "";
  const AheadReport& ahead = *process.ahead;
  const char* const what = process.has_steps ? "a step" : "the run";
  if (!ahead.at_most) {
    return std::string(" By how much ") + what + " can be shorter at most is not known (" + ahead.why_no_bound + ").";
  }
  return std::string(" Through the waits skipped, ") + what + " is shorter by at most " +
         Time(static_cast<double>(*ahead.at_most) / process.divisor()) + " and what such a wait takes by itself (" +
         Number(static_cast<double>(ahead.skipped) / process.divisor()) + " of them), perhaps by nothing.";
}

}  // namespace

std::string GainsText(const ProcessReport& process, size_t columns) {
  const GainsReport& gains = process.gains;
  if (std::all_of(gains.rows.begin(), gains.rows.end(), [](const GainRow& row) { return row.calls == 0; })) return "";
  const bool steps = process.has_steps;
  const std::string a_step = steps ? Figure("a step") : "";
  std::string text = std::string("WHAT SLIPSTREAM GAINED: host time of all threads, ") +
                     (steps ? "of the measured steps" : "of the whole run") + "\n" + Figure("times") +
                     (steps ? PadLeft("a step", 9) : "") + Figure("measured") + a_step + Figure("estimated") + a_step +
                     "   what\n";
  for (size_t i = 0; i < kGainKinds; ++i) {
    if (gains.rows[i].calls != 0) text += RowText(process, static_cast<GainKind>(i), columns);
  }
  text += Figure("") + (steps ? PadLeft("", 9) : "") + Times(process, gains.measured) +
          Times(process, gains.estimated) + "   in all\n";
  for (size_t i = 0; i < kGainKinds; ++i) {
    const GainRow& row = gains.rows[i];
    if (row.measured_calls == 0 || row.not_known.empty()) continue;
    text += Wrapped(columns, std::string("  not known: ") + LabelOf(static_cast<GainKind>(i)) + ": " + row.not_known);
  }
  return text + Wrapped(columns,
                        "  What is estimated is no measurement, and is not added to what was measured. Host time "
                        "is not by how much a step is shorter, which `slipstream compare` measures." +
                            BoundText(process));
}

}  // namespace slipstream::report
