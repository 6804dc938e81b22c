// A value of an option, and the ways it is written.
//
// Threading: pure functions.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace slipstream::policy {

// bool: a switch. int64: a number, a size in bytes, or the number of a choice. string: text.
using Value = std::variant<bool, std::int64_t, std::string>;

// Why a size is not one.
enum class SizeError { kNone, kSyntax, kOverflow, kFraction };

struct Size {
  std::int64_t bytes = 0;
  SizeError error = SizeError::kNone;
};

// "65536", "512MiB", "1.5GB", "64 KiB": digits, an optional fraction, an optional unit. KiB, MiB, GiB are powers of
// 1024; kB, MB, GB powers of 1000; B is bytes. A fraction needs a unit and must give whole bytes. Never negative.
Size ParseSize(std::string_view text) noexcept;

// The shortest exact way to write it: "16MiB", "1500B".
std::string FormatSize(std::int64_t bytes);

// A decimal integer, with an optional sign; nothing where it is anything else or too large.
std::optional<std::int64_t> ParseInteger(std::string_view text) noexcept;

}  // namespace slipstream::policy
