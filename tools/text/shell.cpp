#include "tools/text/shell.h"

#include <cstdio>
#include <string_view>

#include "policy/text.h"

namespace slipstream::text {
namespace {

// A word with what no terminal should be sent.
std::string InShellByBytes(const std::string& word) {
  std::string quoted = "$'";
  for (const char c : word) {
    char byte[8];
    const bool plain = c >= ' ' && c <= '~' && c != '\'' && c != '\\';
    std::snprintf(byte, sizeof(byte), plain ? "%c" : "\\x%02x", static_cast<unsigned char>(c));
    quoted += byte;
  }
  return quoted + "'";
}

}  // namespace

std::string InShell(const std::string& word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  if (policy::Escape(word) != word) return InShellByBytes(word);
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string InShell(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + InShell(word);
  return line;
}

}  // namespace slipstream::text
