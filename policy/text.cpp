#include "policy/text.h"

namespace slipstream::policy {
namespace {

constexpr char kHex[] = "0123456789abcdef";

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

// Marks that turn the direction of what stands behind them, so that a name is shown as another one, and the two
// further ends of lines: U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069.
bool IsUnseen(std::string_view character) {
  if (character[0] != '\xE2') return false;
  const auto second = static_cast<unsigned char>(character[1]);
  const auto third = static_cast<unsigned char>(character[2]);
  if (second == 0x80) return third == 0x8E || third == 0x8F || (third >= 0xA8 && third <= 0xAE);
  return second == 0x81 && third >= 0xA6 && third <= 0xA9;
}

// Appends the character that `text` begins with, fit to print, and returns how many bytes it was.
std::size_t AppendEscaped(std::string& out, std::string_view text) {
  const auto byte = static_cast<unsigned char>(text.front());
  const std::size_t length = Utf8CharacterLength(text);
  if (length == 0) {
    out += "\\x";
    out += kHex[byte >> 4U];
    out += kHex[byte & 0xFU];
    return 1;
  }
  if (byte == '\n') {
    out += "\\n";
  } else if (byte == '\t') {
    out += "\\t";
  } else if (byte == '\r') {
    out += "\\r";
  } else if (byte < 0x20 || byte == 0x7F) {
    out += "\\u00";
    out += kHex[byte >> 4U];
    out += kHex[byte & 0xFU];
  } else if (length == 2 && byte == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0) {
    // The C1 controls, U+0080 to U+009F: some terminals obey them.
    const auto second = static_cast<unsigned char>(text[1]);
    out += "\\u00";
    out += kHex[second >> 4U];
    out += kHex[second & 0xFU];
  } else if (length == 3 && IsUnseen(text.substr(0, 3))) {
    const unsigned code =
        (static_cast<unsigned char>(text[1]) & 0x3FU) << 6U | (static_cast<unsigned char>(text[2]) & 0x3FU);
    out += "\\u2";
    for (const unsigned shift : {8U, 4U, 0U}) out += kHex[(code >> shift) & 0xFU];
  } else {
    out += text.substr(0, length);
  }
  return length;
}

}  // namespace

std::size_t Utf8CharacterLength(std::string_view text) noexcept {
  if (text.empty()) return 0;
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  std::size_t length = 0;
  unsigned char low = 0x80;   // Bounds of the second byte: they exclude overlong forms, surrogates and
  unsigned char high = 0xBF;  // what lies beyond U+10FFFF.
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  }
  if (length == 0 || text.size() < length) return 0;
  const auto second = static_cast<unsigned char>(text[1]);
  if (second < low || second > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (!IsContinuation(text[i])) return 0;
  }
  return length;
}

std::string Escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) text.remove_prefix(AppendEscaped(out, text));
  return out;
}

std::string Quote(std::string_view text, std::size_t limit) {
  std::string out = "\"";
  std::size_t characters = 0;
  while (!text.empty() && characters < limit) {
    if (text.front() == '"' || text.front() == '\\') {
      out += '\\';
      out += text.front();
      text.remove_prefix(1);
    } else {
      text.remove_prefix(AppendEscaped(out, text));
    }
    ++characters;
  }
  out += '"';
  if (!text.empty()) out += "...";
  return out;
}

}  // namespace slipstream::policy
