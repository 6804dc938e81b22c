// JSON with bytes that are not UTF-8: what is written is JSON for everybody, and gives the bytes back.

#include "tools/text/json_bytes.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>

namespace slipstream::text {
namespace {

using nlohmann::json;

std::string Written(const std::string& text) { return DumpBytes(json(text), -1); }
std::string Back(const std::string& text) { return ParseBytes(Written(text)).get<std::string>(); }

TEST(JsonBytesTest, WhatIsUtf8IsAsEver) {
  for (const char* const text :
       {"", "plain", "caf\xC3\xA9", "\xF0\x9F\x92\x80", "a \"quote\" and a \\", "new\nline\t", "\\udce9"}) {
    EXPECT_EQ(Written(text), json(text).dump()) << text;
    EXPECT_EQ(Back(text), text);
  }
}

TEST(JsonBytesTest, OtherBytesAreLoneSurrogatesAsInPython) {
  EXPECT_EQ(Written("caf\xE9"), R"("caf\udce9")");
  EXPECT_EQ(Written("\x80\xFF"), R"("\udc80\udcff")");
  EXPECT_EQ(Written("\xED\xB3\xA9"), R"("\udced\udcb3\udca9")") << "a surrogate in UTF-8 is none";
  EXPECT_EQ(Back("caf\xE9"), "caf\xE9");
}

TEST(JsonBytesTest, NamesAndEverythingInside) {
  const json before = {{"a\xFF", {1, "b\xFE", {{"c", nullptr}}}}, {"d", true}};
  EXPECT_EQ(ParseBytes(DumpBytes(before, 2)), before);
}

// What others write is read too: pairs of surrogates, escapes in front of what looks like one, large digits.
TEST(JsonBytesTest, ReadsWhatOthersWrite) {
  EXPECT_EQ(ParseBytes(R"("\ud83d\udc80")").get<std::string>(), "\xF0\x9F\x92\x80");
  EXPECT_EQ(ParseBytes(R"("\\udce9")").get<std::string>(), "\\udce9");
  EXPECT_EQ(ParseBytes(R"("\uDCE9")").get<std::string>(), "\xE9");
  for (const char* const wrong :
       {"", "\"", R"("\)", R"("\u)", R"("\udc)", R"("\ud83d)", R"("\ud83d\udc)", "{", R"("\udc12")"}) {
    EXPECT_THROW(ParseBytes(wrong), json::exception) << wrong;
  }
}

TEST(JsonBytesTest, AnyBytesComeBack) {
  std::mt19937 random(5);
  // Those that characters are made of more often than others, and whole ones of the kind that stands for a byte inside.
  const std::string often = "\x80\xBF\xC0\xE9\xF4\x8F\xBE\xBF\\u\"dc9\n";
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (auto size = random() % 12; size > 0; --size) {
      if (random() % 8 == 0) text += "\xF4\x8F\xBF\x80";
      text += random() % 2 == 0 ? static_cast<char>(random() % 256) : often[random() % often.size()];
    }
    ASSERT_EQ(Back(text), text) << Written(text);
    ASSERT_EQ(DumpBytes(nlohmann::ordered_json(text), -1), Written(text));
  }
}

}  // namespace
}  // namespace slipstream::text
