#include "tools/trace/db/clean_text.h"

#include <cctype>

#include "policy/text.h"

namespace slipstream::trace_db {
namespace {

bool IsPlain(std::string_view argument) {
  for (const char byte : argument) {
    const auto value = static_cast<unsigned char>(byte);
    if (value < 0x80 && std::isalnum(value) == 0 &&
        std::string_view("_-+=./:,@%").find(byte) == std::string_view::npos) {
      return false;
    }
  }
  return !argument.empty();
}

}  // namespace

std::string CleanText(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    const size_t length = policy::Utf8CharacterLength(text);
    if (length == 0) {
      const auto value = static_cast<unsigned char>(text[0]);
      clean += "\\x";
      clean += kDigits[value >> 4];
      clean += kDigits[value & 0xf];
    } else if (text[0] == '\0') {
      clean += "\\0";
    } else {
      clean += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return clean;
}

std::string CommandText(std::string_view arguments) {
  std::string line;
  while (!arguments.empty()) {
    const size_t end = arguments.find('\0');
    const std::string_view argument = arguments.substr(0, end);
    arguments.remove_prefix(end == std::string_view::npos ? arguments.size() : end + 1);
    if (!line.empty()) line += ' ';
    if (IsPlain(argument)) {
      line += argument;
      continue;
    }
    line += '\'';
    for (const char byte : argument) {
      if (byte == '\'') {
        line += "'\\''";
      } else {
        line += byte;
      }
    }
    line += '\'';
  }
  return CleanText(line);
}

}  // namespace slipstream::trace_db
