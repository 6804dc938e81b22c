#include "policy/run_policy.h"

#include <charconv>
#include <utility>

namespace slipstream::policy {
namespace {

constexpr std::string_view kFormat = "slipstream-run-policy-1";
constexpr std::string_view kSystem = "system";
constexpr std::string_view kNamed = "named";

std::string OnOneLine(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 16);
  for (const char c : text) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else {
      out += c;
    }
  }
  return out;
}

// Nothing where a backslash has something else behind it.
std::optional<std::string> Unfolded(std::string_view line) {
  std::string out;
  out.reserve(line.size());
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\\') {
      out += line[i];
      continue;
    }
    const char next = ++i < line.size() ? line[i] : '\0';
    if (next != '\\' && next != 'n' && next != 'r') return std::nullopt;
    out += next == 'n' ? '\n' : next == 'r' ? '\r' : '\\';
  }
  return out;
}

// Takes a line off the text.
std::optional<std::string_view> TakeLine(std::string_view* text) {
  const std::size_t end = text->find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = text->substr(0, end);
  text->remove_prefix(end + 1);
  return line;
}

// "named 120 /place/policy.toml", and behind it as many bytes and a line break.
std::optional<FileText> TakeFile(std::string_view* text) {
  const auto head = TakeLine(text);
  if (!head) return std::nullopt;
  const std::size_t space = head->find(' ');
  const std::string_view layer = head->substr(0, space);
  if (space == std::string_view::npos || (layer != kSystem && layer != kNamed)) return std::nullopt;
  std::string_view rest = head->substr(space + 1);
  std::size_t bytes = 0;
  const auto got = std::from_chars(rest.data(), rest.data() + rest.size(), bytes);
  rest.remove_prefix(static_cast<std::size_t>(got.ptr - rest.data()));
  if (got.ec != std::errc() || !rest.starts_with(' ') || bytes >= text->size() || (*text)[bytes] != '\n') {
    return std::nullopt;
  }
  FileText file;
  file.file.layer = layer == kSystem ? Layer::kSystem : Layer::kNamed;
  file.file.path = rest.substr(1);
  file.file.found = true;
  file.text = text->substr(0, bytes);
  text->remove_prefix(bytes + 1);
  return file;
}

bool HasBreak(const std::string& text) { return text.find('\n') != std::string::npos; }

}  // namespace

std::string FormatRunPolicy(const RunPolicy& policy) {
  if (HasBreak(policy.list)) return {};
  std::string out(kFormat);
  out.append("\n").append(policy.list).append("\n");
  for (const FileText& file : policy.files) {
    if (HasBreak(file.file.path)) return {};
    out.append(file.file.layer == Layer::kSystem ? kSystem : kNamed);
    out.append(" ").append(std::to_string(file.text.size())).append(" ").append(file.file.path).append("\n");
    out.append(file.text).append("\n");
  }
  out = OnOneLine(out);
  return out.size() <= kMostRunPolicy ? out : std::string();
}

std::optional<RunPolicy> ParseRunPolicy(std::string_view line) {
  const std::optional<std::string> unfolded = Unfolded(line);
  if (!unfolded) return std::nullopt;
  std::string_view text = *unfolded;
  RunPolicy policy;
  if (TakeLine(&text) != kFormat) return std::nullopt;
  const auto list = TakeLine(&text);
  if (!list) return std::nullopt;
  policy.list = *list;
  while (!text.empty()) {
    std::optional<FileText> file = TakeFile(&text);
    if (!file) return std::nullopt;
    policy.files.push_back(std::move(*file));
  }
  return policy;
}

}  // namespace slipstream::policy
