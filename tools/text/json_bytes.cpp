#include "tools/text/json_bytes.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "policy/text.h"

namespace slipstream::text {
namespace {

// The library takes UTF-8 alone. In between, a byte of 0x80 to 0xff stands as the character U+10FF80 to U+10FFFF, of
// which nobody has any; where a text does have one, each of its four bytes stands as such a character.
constexpr std::string_view kMarks[] = {"\xF4\x8F\xBE", "\xF4\x8F\xBF"};  // of bytes below 0xc0, and of the others
constexpr size_t kMarkBytes = 4;

bool IsMark(std::string_view text) { return text.starts_with(kMarks[0]) || text.starts_with(kMarks[1]); }

unsigned char ByteOf(std::string_view mark) {
  const auto last = static_cast<unsigned char>(mark[3]);
  return mark.starts_with(kMarks[0]) ? last : static_cast<unsigned char>(last + 0x40);
}

void AppendMark(std::string* out, unsigned char byte) {
  out->append(kMarks[byte < 0xC0 ? 0 : 1]);
  out->push_back(static_cast<char>(byte < 0xC0 ? byte : byte - 0x40));
}

std::string Marked(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = policy::Utf8CharacterLength(text);
    const size_t taken = length == 0 ? 1 : length;
    if (length == 0 || IsMark(text)) {
      for (const char byte : text.substr(0, taken)) AppendMark(&out, static_cast<unsigned char>(byte));
    } else {
      out.append(text.substr(0, taken));
    }
    text.remove_prefix(taken);
  }
  return out;
}

std::string Unmarked(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const bool is_mark = text.size() >= kMarkBytes && IsMark(text);
    out.push_back(is_mark ? static_cast<char>(ByteOf(text)) : text.front());
    text.remove_prefix(is_mark ? kMarkBytes : 1);
  }
  return out;
}

// The same with every text changed, names too.
template <typename Json, typename Change>
Json WithTexts(const Json& json, const Change& change) {
  if (json.is_string()) return change(json.template get_ref<const std::string&>());
  if (json.is_array()) {
    Json changed = Json::array();
    for (const Json& one : json) changed.push_back(WithTexts(one, change));
    return changed;
  }
  if (json.is_object()) {
    Json changed = Json::object();
    for (const auto& [name, value] : json.items()) changed[change(name)] = WithTexts(value, change);
    return changed;
  }
  return json;
}

template <typename Json>
std::string Dump(const Json& json, int indent) {
  const std::string with_marks = WithTexts(json, Marked).dump(indent);
  std::string out;
  for (std::string_view left = with_marks; !left.empty();) {
    const bool is_mark = IsMark(left);
    if (is_mark) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\udc%02x", static_cast<unsigned>(ByteOf(left)));
      out += escape;
    } else {
      out.push_back(left.front());
    }
    left.remove_prefix(is_mark ? kMarkBytes : 1);
  }
  return out;
}

// The number that four hexadecimal digits are; -1: they are none.
int HexOf(std::string_view digits) {
  int number = 0;
  for (const char digit : digits.substr(0, 4)) {
    const std::string_view all = "0123456789abcdef";
    const size_t value = all.find(static_cast<char>(digit >= 'A' && digit <= 'F' ? digit + ('a' - 'A') : digit));
    if (value == std::string_view::npos) return -1;
    number = number * 16 + static_cast<int>(value);
  }
  return digits.size() >= 4 ? number : -1;
}

// JSON text whose lone surrogates that stand for bytes are marks.
std::string WithMarksForSurrogates(std::string_view text) {
  constexpr size_t kEscape = 6;  // \u and four digits
  std::string out;
  while (!text.empty()) {
    size_t taken = 1;
    const int code = text.starts_with("\\u") ? HexOf(text.substr(2)) : -1;
    if (code >= 0xDC80 && code <= 0xDCFF) {
      AppendMark(&out, static_cast<unsigned char>(code & 0xFF));
      text.remove_prefix(kEscape);
      continue;
    }
    if (code >= 0xD800 && code <= 0xDBFF) {
      taken = 2 * kEscape;  // the first of a pair
    } else if (text.front() == '\\') {
      taken = 2;
    } else if (IsMark(text)) {
      taken = kMarkBytes;
      for (const char byte : text.substr(0, taken)) AppendMark(&out, static_cast<unsigned char>(byte));
      text.remove_prefix(std::min(taken, text.size()));
      continue;
    }
    out.append(text.substr(0, taken));
    text.remove_prefix(std::min(taken, text.size()));
  }
  return out;
}

}  // namespace

std::string DumpBytes(const nlohmann::json& json, int indent) { return Dump(json, indent); }
std::string DumpBytes(const nlohmann::ordered_json& json, int indent) { return Dump(json, indent); }

std::string ForParser(std::string_view text) { return WithMarksForSurrogates(text); }

std::string FromParser(std::string_view text) { return Unmarked(text); }

nlohmann::json ParseBytes(std::string_view text) {
  return WithTexts(nlohmann::json::parse(WithMarksForSurrogates(text)), Unmarked);
}

}  // namespace slipstream::text
