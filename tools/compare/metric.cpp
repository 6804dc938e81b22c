#include "tools/compare/metric.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <regex>

namespace slipstream::compare {
namespace {

// The number, and half a unit of its last digit; false where it is none.
bool ParseNumber(std::string text, Figure* figure) {
  text.erase(std::remove(text.begin(), text.end(), ','), text.end());
  if (text.starts_with("+")) text.erase(0, 1);
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, figure->value);
  if (error != std::errc() || stopped != end || !std::isfinite(figure->value)) return false;
  const size_t exponent_at = text.find_first_of("eE");
  const std::string mantissa = text.substr(0, exponent_at);
  int exponent = 0;
  if (exponent_at != std::string::npos) {
    const char* const digits = text.data() + exponent_at + 1;
    std::from_chars(*digits == '+' ? digits + 1 : digits, end, exponent);
  }
  const size_t point = mantissa.find('.');
  const auto decimals = point == std::string::npos ? 0 : static_cast<int>(mantissa.size() - point - 1);
  figure->rounding = 0.5 * std::pow(10.0, exponent - decimals);
  return true;
}

}  // namespace

std::vector<std::string_view> LinesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    while (line.ends_with('\r')) line.remove_suffix(1);
    line.remove_prefix(line.rfind('\r') + 1);  // npos + 1 is 0
    lines.push_back(line);
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

struct Pattern::Compiled {
  std::regex regex;
};

Pattern::Pattern(const std::string& text, size_t least_groups, size_t most_groups) {
  const auto compiled = std::make_shared<Compiled>();
  compiled_ = compiled;
  try {
    compiled->regex = std::regex(text, std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error& error) {
    error_ = std::string("no regular expression: ") + error.what();
    return;
  }
  const size_t groups = compiled->regex.mark_count();
  if (groups < least_groups || groups > most_groups) {
    error_ = "it has " + std::to_string(groups) + " groups in parentheses, and needs " +
             (least_groups == most_groups ? "exactly " : "at most ") + std::to_string(most_groups) +
             "; (?: ) groups without counting";
  }
  group_ = groups == 0 ? 0 : 1;
}

std::vector<std::string> Pattern::FindAll(std::string_view text) const {
  std::vector<std::string> found;
  for (const std::string_view line : LinesOf(text)) {
    if (line.size() > kLongestLine) continue;
    for (std::cregex_iterator at(line.data(), line.data() + line.size(), compiled_->regex), end; at != end; ++at) {
      if ((*at)[static_cast<size_t>(group_)].matched) found.push_back((*at)[static_cast<size_t>(group_)].str());
    }
  }
  return found;
}

std::string Pattern::Without(std::string_view text, std::string_view mark) const {
  std::string result;
  for (const std::string_view line : LinesOf(text)) {
    size_t done = 0;
    if (line.size() <= kLongestLine) {
      for (std::cregex_iterator at(line.data(), line.data() + line.size(), compiled_->regex), end; at != end; ++at) {
        const auto& group = (*at)[static_cast<size_t>(group_)];
        if (!group.matched || group.length() == 0) continue;
        const auto begin = static_cast<size_t>(group.first - line.data());
        result.append(line.substr(done, begin - done)).append(mark);
        done = begin + static_cast<size_t>(group.length());
      }
    }
    result.append(line.substr(done)).append("\n");
  }
  return result;
}

MetricFigure ReadMetric(const Pattern& pattern, Pick pick, std::string_view output) {
  MetricFigure read;
  std::vector<Figure> figures;
  for (const std::string& text : pattern.FindAll(output)) {
    Figure figure;
    if (!ParseNumber(text, &figure)) {
      read.problem = "what --metric captures is no number: \"" + text + "\"";
      return read;
    }
    if (figure.value <= 0) {
      read.problem = "what --metric captures is not above zero: \"" + text + "\"";
      return read;
    }
    figures.push_back(figure);
  }
  read.matches = figures.size();
  if (figures.empty()) {
    read.problem = "it prints nothing that --metric matches";
    return read;
  }
  // Of several the roughest counts.
  std::vector<double> values;
  double rounding = 0;
  for (const Figure& figure : figures) {
    values.push_back(figure.value);
    rounding = std::max(rounding, figure.rounding);
  }
  if (pick == Pick::kLast) {
    read.figure = figures.back();
  } else if (pick == Pick::kMedian) {
    read.figure = {SpreadOf(values).median, rounding};
  } else {
    read.figure = {std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size()), rounding};
  }
  return read;
}

}  // namespace slipstream::compare
