// Bytes and numbers in hexadecimal.
//
// Threading: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace slipstream::trace_db {

inline constexpr char kHexDigits[] = "0123456789abcdef";

// "0aff" of two bytes.
inline std::string HexText(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    text += kHexDigits[static_cast<unsigned char>(byte) >> 4];
    text += kHexDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

// "0x1f".
inline std::string HexText(uint64_t number) {
  std::string text;
  do {
    text.insert(text.begin(), kHexDigits[number & 15]);
    number >>= 4;
  } while (number != 0);
  return "0x" + text;
}

}  // namespace slipstream::trace_db
