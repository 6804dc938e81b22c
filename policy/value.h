// A value of an option, and the ways it is written.
//
// Threading: pure functions.

#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace slipstream::policy {

// Not a std::variant: the destructor of libstdc++ 12's is undefined behavior where copying a string into it fails.
struct Value {
  enum class Kind : std::uint8_t { kFlag, kNumber, kText, kList };

  Value() = default;
  // Not by conversion: a pointer is no switch, and a switch no number.
  template <std::same_as<bool> T>
  Value(T held) : flag(held) {}  // NOLINT(google-explicit-constructor): a value is what it holds.
  template <std::same_as<std::int64_t> T>
  Value(T held) : kind(Kind::kNumber), number(held) {}                   // NOLINT(google-explicit-constructor)
  Value(std::string held) : kind(Kind::kText), text(std::move(held)) {}  // NOLINT(google-explicit-constructor)
  // NOLINTNEXTLINE(google-explicit-constructor)
  Value(std::vector<std::string> held) : kind(Kind::kList), list(std::move(held)) {}

  bool operator==(const Value&) const = default;

  Kind kind = Kind::kFlag;
  bool flag = false;
  // A number, a size in bytes, or the number of a choice.
  std::int64_t number = 0;
  std::string text{};
  std::vector<std::string> list{};
};

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
