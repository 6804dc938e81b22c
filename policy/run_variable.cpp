#include "policy/run_variable.h"

#include <charconv>

namespace slipstream::policy {
namespace {

constexpr int kFieldsBetween = 19;  // between the program's name, field 2, and the start

// Takes a number and the character behind it off the text.
template <typename Number>
bool TakeNumber(std::string_view* text, char end, Number* number) noexcept {
  const char* const last = text->data() + text->size();
  const std::from_chars_result got = std::from_chars(text->data(), last, *number);
  if (got.ec != std::errc() || got.ptr == last || *got.ptr != end) return false;
  text->remove_prefix(static_cast<std::size_t>(got.ptr - text->data()) + 1);
  return true;
}

}  // namespace

std::string FormatRunRoot(const RunRoot& root) {
  return std::to_string(root.pid) + ":" + std::to_string(root.started) + ":" + std::string(root.command);
}

bool ParseRunRoot(std::string_view text, RunRoot* root) noexcept {
  if (!TakeNumber(&text, ':', &root->pid) || !TakeNumber(&text, ':', &root->started)) return false;
  root->command = text;
  return root->pid > 0 && !text.empty();
}

std::uint64_t StartedOf(std::string_view stat) noexcept {
  const std::size_t name = stat.rfind(')');
  if (name == std::string_view::npos || stat.size() < name + 2) return 0;
  stat.remove_prefix(name + 2);
  for (int field = 0; field < kFieldsBetween; ++field) {
    const std::size_t space = stat.find(' ');
    if (space == std::string_view::npos) return 0;
    stat.remove_prefix(space + 1);
  }
  std::uint64_t started = 0;
  return TakeNumber(&stat, ' ', &started) ? started : 0;
}

}  // namespace slipstream::policy
