// Numbers that are the whole of a text.
//
// Threading: pure functions.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace slipstream::policy {

// Decimal digits, behind a minus for one below zero; nothing: the text is something else, or a number that does not
// fit.
template <typename Number>
std::optional<Number> NumberIn(std::string_view text) noexcept {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

}  // namespace slipstream::policy
