#include "policy/value.h"

#include <charconv>

#include "policy/number.h"

namespace slipstream::policy {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t bytes;
};

constexpr std::int64_t kKibi = 1024;
constexpr std::int64_t kKilo = 1000;
constexpr Unit kUnits[] = {
    {"B", 1},      {"KiB", kKibi},       {"MiB", kKibi* kKibi},      {"GiB", kKibi* kKibi* kKibi},
    {"kB", kKilo}, {"MB", kKilo* kKilo}, {"GB", kKilo* kKilo* kKilo}};

// More digits after the point than these would overflow below, and no size in bytes needs them.
constexpr std::size_t kFractionDigits = 9;

std::string_view TakeDigits(std::string_view& text) {
  std::size_t count = 0;
  while (count < text.size() && text[count] >= '0' && text[count] <= '9') ++count;
  const std::string_view digits = text.substr(0, count);
  text.remove_prefix(count);
  return digits;
}

}  // namespace

Size ParseSize(std::string_view text) noexcept {
  const std::string_view digits = TakeDigits(text);
  if (digits.empty()) return {.error = SizeError::kSyntax};
  std::string_view fraction;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    fraction = TakeDigits(text);
    if (fraction.empty() || text.empty()) return {.error = SizeError::kSyntax};
  }
  std::int64_t unit = text.empty() ? 1 : 0;
  if (text.starts_with(' ')) text.remove_prefix(1);
  for (const Unit& known : kUnits) {
    if (text == known.name) unit = known.bytes;
  }
  if (unit == 0) return {.error = SizeError::kSyntax};

  Size size;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), size.bytes).ec != std::errc() ||
      __builtin_mul_overflow(size.bytes, unit, &size.bytes)) {
    return {.error = SizeError::kOverflow};
  }
  while (fraction.ends_with('0')) fraction.remove_suffix(1);
  if (fraction.empty()) return size;
  if (fraction.size() > kFractionDigits) return {.error = SizeError::kFraction};
  std::int64_t numerator = 0;
  std::from_chars(fraction.data(), fraction.data() + fraction.size(), numerator);
  std::int64_t denominator = 1;
  for (std::size_t i = 0; i < fraction.size(); ++i) denominator *= 10;
  // Below 10^9 times at most 2^30: no overflow.
  if (numerator * unit % denominator != 0) return {.error = SizeError::kFraction};
  if (__builtin_add_overflow(size.bytes, numerator * unit / denominator, &size.bytes)) {
    return {.error = SizeError::kOverflow};
  }
  return size;
}

std::string FormatSize(std::int64_t bytes) {
  const Unit* largest = &kUnits[0];
  for (const Unit& unit : kUnits) {
    if (bytes != 0 && bytes % unit.bytes == 0 && unit.bytes > largest->bytes) largest = &unit;
  }
  return std::to_string(bytes / largest->bytes).append(largest->name);
}

std::optional<std::int64_t> ParseInteger(std::string_view text) noexcept {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;
  }
  return NumberIn<std::int64_t>(text);
}

}  // namespace slipstream::policy
