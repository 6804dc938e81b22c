#include "tools/cli/tune_text.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <utility>

#include "policy/text.h"
#include "tools/compare/ratio.h"
#include "tools/text/json_text.h"
#include "tools/text/text.h"
#include "tools/tune/policy_file.h"

namespace slipstream::cli {
namespace {

using policy::Escape;
using text::Json;
using text::PadRight;
using tune::Fate;

constexpr char kSchema[] = "slipstream-tune-1";
constexpr size_t kSetting = 38;
constexpr size_t kOutcome = 15;

std::string Row(const tune::Tried& tried) {
  constexpr std::array<const char*, 5> kWords = {"kept", "slower", "no difference", "refused", "not confirmed"};
  const compare::Estimate& estimate = tried.confirmed ? *tried.confirmed : tried.estimate;
  const char* const outcome = kWords.at(static_cast<size_t>(tried.fate));
  const std::string text = "  " + PadRight(tried.key + " = " + tried.value, kSetting - 1) + " ";
  if (tried.fate == Fate::kRefused) return text + outcome + "\n      " + Escape(tried.why) + "\n";
  std::array<char, 48> speed{};
  if (estimate.has_interval) {
    std::snprintf(speed.data(), speed.size(), "%.3f (%.3f to %.3f)", estimate.ratio, estimate.low, estimate.high);
  } else {
    std::snprintf(speed.data(), speed.size(), "%.3f", estimate.ratio);
  }
  return text + PadRight(outcome, kOutcome) + speed.data() + "\n";
}

Json EstimateJson(const std::optional<compare::Estimate>& estimate) {
  if (!estimate || estimate->pairs == 0) return nullptr;
  return {{"value", estimate->ratio},
          {"low", estimate->has_interval ? Json(estimate->low) : nullptr},
          {"high", estimate->has_interval ? Json(estimate->high) : nullptr},
          {"confidence", estimate->has_interval ? Json(estimate->confidence) : nullptr},
          {"pairs", estimate->pairs}};
}

}  // namespace

std::string JoinedWords(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string TuneText(const TuneOutcome& outcome) {
  const tune::Search& search = outcome.search;
  std::string text = "slipstream tune: " + Escape(JoinedWords(outcome.command)) + "\n";
  text += "  compared: " + Escape(outcome.ruler) + "\n";
  text += "  " + PadRight("tried", kSetting) + PadRight("", kOutcome) + "speed, " +
          std::to_string(std::lround(100 * tune::kTrialConfidence)) + " %\n";
  for (const tune::Tried& tried : search.tried()) text += Row(tried);
  for (const tune::NotTried& one : outcome.not_tried) {
    text += "  " + PadRight(one.key, kSetting) + "not tried\n      " + one.why + "\n";
  }
  for (const std::string& note : outcome.notes) text += "  " + Escape(note) + "\n";
  if (search.best().empty()) {
    text += "NOTHING FASTER WAS FOUND.\n";
  } else if (search.in_all()) {
    text += "FASTER: " + tune::Worth(*search.in_all()) + "\n  as before; measured once more at the end.\n";
  }
  if (!outcome.journal.empty()) {
    text += "Not all was tried: --resume with the same options tries the rest, for --budget\nseconds more.\n";
  }
  return text + "Wrote " + Escape(outcome.out) + ":  slipstream run --policy " + Escape(outcome.out) + " -- ...\n";
}

std::string TuneJson(const TuneOutcome& outcome) {
  const tune::Search& search = outcome.search;
  Json tried = Json::array();
  for (const tune::Tried& one : search.tried()) {
    tried.push_back({{"key", one.key},
                     {"value", one.value},
                     {"outcome", NameOf(one.fate)},
                     {"why", text::OrNull(one.why)},
                     {"speed_ratio", EstimateJson(one.estimate)},
                     {"confirmed_speed_ratio", EstimateJson(one.confirmed)}});
  }
  Json not_tried = Json::array();
  for (const tune::NotTried& one : outcome.not_tried) not_tried.push_back({{"key", one.key}, {"why", one.why}});
  const Json json = {{"schema", kSchema},
                     {"command", outcome.command},
                     {"policy_file", outcome.out},
                     {"compared", outcome.ruler},
                     {"settings", search.best()},
                     {"speed_ratio", search.best().empty() ? Json(nullptr) : EstimateJson(search.in_all())},
                     {"tried", std::move(tried)},
                     {"not_tried", std::move(not_tried)},
                     {"stopped_early", search.stopped_early()},
                     {"journal", text::OrNull(outcome.journal)},
                     {"host", text::OrNull(outcome.place.host)},
                     {"devices", text::OrNull(outcome.place.devices)},
                     {"driver", text::OrNull(outcome.place.driver)},
                     {"notes", outcome.notes}};
  return text::JsonText(json);
}

}  // namespace slipstream::cli
