// One event of a Chrome trace, as it is put together: {"key": value, ...}.
//
// Texts must be UTF-8 (trace_texts.h makes them so). Times are microseconds with three digits, so that no nanosecond is
// lost: a binary number would lose some.
//
// Threading: an object belongs to one thread.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace slipstream::trace_export {

inline void AppendJsonText(std::string_view text, std::string* to) {
  to->push_back('"');
  size_t done = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x20 && byte != '"' && byte != '\\') continue;
    to->append(text.substr(done, i - done));
    done = i + 1;
    if (byte >= 0x20) {
      to->push_back('\\');
      to->push_back(text[i]);
    } else {
      char code[8];
      to->append(code, static_cast<size_t>(std::snprintf(code, sizeof(code), "\\u%04x", byte)));
    }
  }
  to->append(text.substr(done));
  to->push_back('"');
}

class JsonLine {
 public:
  void Open() {
    text_ += '{';
    first_ = true;
  }
  void Open(std::string_view key) {
    Key(key);
    Open();
  }
  void Close() {
    text_ += '}';
    first_ = false;
  }
  void Text(std::string_view key, std::string_view value) {
    Key(key);
    AppendJsonText(value, &text_);
  }
  void Number(std::string_view key, int64_t value) {
    Key(key);
    AppendNumber(value);
  }
  void Real(std::string_view key, double value) {
    Key(key);
    AppendNumber(value);
  }
  void Microseconds(std::string_view key, int64_t ns) {
    Key(key);
    const uint64_t size = ns < 0 ? 0 - static_cast<uint64_t>(ns) : static_cast<uint64_t>(ns);
    if (ns < 0) text_ += '-';
    AppendNumber(size / 1000);
    const auto rest = static_cast<unsigned>(size % 1000);
    for (const unsigned digit : {rest / 100, rest / 10 % 10, rest % 10}) text_ += static_cast<char>('0' + digit);
    text_.insert(text_.size() - 3, 1, '.');
  }
  void Three(std::string_view key, const int64_t (&values)[3]) {
    Key(key);
    text_ += '[';
    for (int i = 0; i < 3; ++i) {
      if (i != 0) text_ += ", ";
      AppendNumber(values[i]);
    }
    text_ += ']';
  }
  std::string& text() { return text_; }

 private:
  void Key(std::string_view key) {
    if (!first_) text_ += ", ";
    first_ = false;
    text_ += '"';
    text_ += key;
    text_ += "\": ";
  }
  template <typename Value>
  void AppendNumber(Value value) {
    char digits[32];
    text_.append(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
  }

  std::string text_;
  bool first_ = true;
};

}  // namespace slipstream::trace_export
