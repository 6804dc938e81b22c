#include "tools/compare/output_match.h"

#include <algorithm>
#include <utility>

namespace slipstream::compare {
namespace {

// The log of slipstream itself (policy/log.cpp): there on one side only, and no output of the program.
bool IsOwnLog(std::string_view line) {
  // Behind the time of day; npos is larger.
  return line.starts_with("slipstream: ") || line.find("slipstream[") <= 32;
}

std::string KeyOf(std::string words, size_t occurrence) {
  words += '\0';
  return words += std::to_string(occurrence);
}

// Whether one of the numbers that repeat looks like a result: counters are whole numbers, and say little.
bool HasFraction(const std::vector<NumberField>& numbers, const std::vector<bool>& constant) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (constant[i] && numbers[i].text.find('.') != std::string::npos) return true;
  }
  return false;
}

}  // namespace

OutputMatch::Lines OutputMatch::Parse(std::string_view text) {
  Lines lines;
  std::unordered_map<std::string, size_t> seen;
  size_t number = 0;
  for (const std::string_view line : LinesOf(text)) {
    ++number;
    if (IsOwnLog(line)) continue;
    LineParts parts = PartsOf(line);
    if (parts.skeleton.empty()) continue;
    const size_t occurrence = seen[parts.skeleton]++;
    lines[KeyOf(parts.skeleton, occurrence)] = {number, std::string(line), std::move(parts.numbers)};
  }
  // How often a line comes may depend on how long the run takes. Then its last ones have nothing to be compared with,
  // and which is which is not known either: the count is part of the key.
  Lines counted;
  for (auto& [key, line] : lines) {
    const size_t count = seen.at(key.substr(0, key.rfind('\0')));
    counted[key + '/' + std::to_string(count)] = std::move(line);
  }
  return counted;
}

OutputMatch::Lines OutputMatch::Captured(std::string_view text) const {
  Lines lines;
  size_t number = 0;
  for (std::string& found : result_->FindAll(text)) {
    ++number;
    lines[KeyOf("", number)] = {number, found, {{.text = found, .measured = false}}};
  }
  return lines;
}

void OutputMatch::Add(size_t side, std::string_view output, std::string_view errors) {
  Run run;
  const std::array<std::string_view, 2> streams = {output, errors};
  for (size_t i = 0; i < streams.size(); ++i) {
    std::string_view text = streams[i];
    if (text.size() > kMostOutput) {
      cut_ = true;
      text = text.substr(0, kMostOutput);
      text = text.substr(0, text.rfind('\n') + 1);  // half a number is none
    }
    if (result_ != nullptr) {
      run[i] = Captured(text);
    } else if (metric_ != nullptr) {
      run[i] = Parse(metric_->Without(text, "~"));
    } else {
      run[i] = Parse(text);
    }
  }
  runs_[side].push_back(std::move(run));
}

void OutputMatch::Compare(size_t stream, MatchResult* result) const {
  const std::vector<Run>& firsts = runs_[0];
  std::vector<std::pair<std::string, const Line*>> lines;
  for (const auto& [key, line] : firsts.front()[stream]) lines.emplace_back(key, &line);
  std::sort(lines.begin(), lines.end(),
            [](const auto& a, const auto& b) { return a.second->number < b.second->number; });
  for (const auto& [key, line] : lines) {
    // Which of its numbers are the same in every run of this side.
    std::vector<bool> constant;
    bool repeats = true;
    for (const NumberField& field : line->numbers) constant.push_back(!field.measured);
    for (const Run& run : firsts) {
      const auto other = run[stream].find(key);
      repeats = repeats && other != run[stream].end();
      for (size_t i = 0; repeats && i < constant.size(); ++i) {
        constant[i] = constant[i] && other->second.numbers[i].text == line->numbers[i].text;
      }
    }
    size_t results = 0;
    size_t same_results = 0;
    for (size_t i = 0; i < constant.size(); ++i) {
      results += line->numbers[i].measured ? 0 : 1;
      same_results += repeats && constant[i] ? 1 : 0;
    }
    result->numbers += results;
    result->repeating += same_results;
    if (same_results < results) result->varying = line->text;
    // Warnings and bars of progress on standard error come and go: there only numbers count.
    const bool is_words = results == 0 && stream == 0 && result_ == nullptr;
    if (!repeats || (same_results == 0 && !is_words)) continue;
    if (is_words) ++result->words;

    OutputDifference difference = {.standard_error = stream == 1, .line = line->number, .first = line->text};
    for (const Run& run : runs_[1]) {
      const auto other = run[stream].find(key);
      if (cut_ && other == run[stream].end()) continue;  // it may stand in what is not compared
      bool same = other != run[stream].end();
      for (size_t i = 0; same && i < constant.size(); ++i) {
        same = !constant[i] || other->second.numbers[i].text == line->numbers[i].text;
      }
      if (same) continue;
      if (difference.runs == 0 && other != run[stream].end()) difference.second = other->second.text;
      ++difference.runs;
    }
    if (difference.runs == 0) {
      if (same_results != 0 && (result->example.empty() || HasFraction(line->numbers, constant))) {
        result->example = line->text;
      }
      continue;
    }
    ++result->differences;
    if (result->shown.size() < kMostDifferences) result->shown.push_back(std::move(difference));
  }
}

MatchResult OutputMatch::Result() const {
  MatchResult result;
  result.runs = {runs_[0].size(), runs_[1].size()};
  result.cut = cut_;
  result.by_pattern = result_ != nullptr;
  if (result.runs[0] >= 2 && result.runs[1] >= 1) {
    for (size_t stream = 0; stream < 2; ++stream) Compare(stream, &result);
  }
  return result;
}

}  // namespace slipstream::compare
