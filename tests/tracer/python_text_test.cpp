// Python's strings as UTF-8: every width, cut at every length.

#include "tracer/python/python_text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/tracer/fake_python.h"

namespace slipstream::tracer {
namespace {

std::string Utf8(const PythonText& text, size_t limit) {
  std::string out(limit, '?');
  out.resize(WriteUtf8(text, out));
  return out;
}

struct TextSample {
  std::u32string_view points;
  std::string_view utf8;
};

constexpr TextSample kTextSamples[] = {
    {U"", ""},
    {U"train.py", "train.py"},
    {U"na\u00efve.py", "na\xc3\xafve.py"},                // Latin-1
    {U"\u8a13\u7df4.py", "\xe8\xa8\x93\xe7\xb7\xb4.py"},  // two bytes a code point
    {U"\U0001f600\u00e9x", "\xf0\x9f\x98\x80\xc3\xa9x"},  // four
    {std::u32string_view(U"a\0b", 3), std::string_view("a\0b", 3)},
};

TEST(PythonTextTest, EveryWidthIsWrittenAsUtf8) {
  for (const uint32_t version : kPythonVersions) {
    FakePython python(version);
    for (const TextSample& sample : kTextSamples) {
      PythonText text;
      ASSERT_TRUE(ReadText(python.layout(), python.Text(sample.points), &text));
      EXPECT_EQ(Utf8(text, 100), sample.utf8);
      EXPECT_TRUE(EqualsUtf8(text, sample.utf8, 100));
      EXPECT_FALSE(EqualsUtf8(text, std::string(sample.utf8) + "x", 100));
      for (const uint32_t width : {1U, 2U, 4U}) {
        if (width < text.width) continue;
        PythonText distant;
        ASSERT_TRUE(ReadText(python.layout(), python.DistantText(sample.points, width), &distant));
        EXPECT_EQ(Utf8(distant, 100), sample.utf8);
      }
    }
  }
}

TEST(PythonTextTest, ACutTextEndsWithAWholeCodePointAndStillEquals) {
  FakePython python(kPythonVersions[0]);
  for (const TextSample& sample : kTextSamples) {
    PythonText text;
    ASSERT_TRUE(ReadText(python.layout(), python.Text(sample.points), &text));
    for (size_t limit = 0; limit <= sample.utf8.size(); ++limit) {
      const std::string cut = Utf8(text, limit);
      EXPECT_EQ(cut, sample.utf8.substr(0, cut.size()));
      EXPECT_GT(cut.size() + 4, limit);
      if (cut.size() < sample.utf8.size()) {
        EXPECT_NE(sample.utf8[cut.size()] & 0xc0, 0x80);
      }
      EXPECT_TRUE(EqualsUtf8(text, cut, limit));
    }
  }
}

TEST(PythonTextTest, OtherTextsOfTheSameLengthAreNotEqual) {
  FakePython python(kPythonVersions[0]);
  PythonText text;
  ASSERT_TRUE(ReadText(python.layout(), python.Text("step"), &text));
  EXPECT_FALSE(EqualsUtf8(text, "stop", 100));
  EXPECT_FALSE(EqualsUtf8(text, "ste", 100));
  ASSERT_TRUE(ReadText(python.layout(), python.Text(U"st\u00e9p"), &text));
  EXPECT_FALSE(EqualsUtf8(text, "st\xc3\xa8p", 100));
  EXPECT_FALSE(EqualsUtf8(text, "st", 100));
}

TEST(PythonTextTest, WhatUtf8CannotSayIsReplaced) {
  FakePython python(kPythonVersions[0]);
  PythonText text;
  const char32_t points[] = {'a', 0xdcff, 'b', 0xd800};  // a file name with a byte that is no text has such
  ASSERT_TRUE(ReadText(python.layout(), python.Text(std::u32string_view(points, 4)), &text));
  EXPECT_EQ(Utf8(text, 100),
            "a\xef\xbf\xbd"
            "b\xef\xbf\xbd");
}

TEST(PythonTextTest, WhatIsNoStringIsRefused) {
  for (const uint32_t version : kPythonVersions) {
    FakePython python(version);
    PythonText text;
    EXPECT_FALSE(ReadText(python.layout(), 0, &text));
    EXPECT_FALSE(ReadText(python.layout(), python.Bytes("bytes"), &text));
    // Of width 0: the characters were never laid out.
    EXPECT_FALSE(ReadText(python.layout(), python.DistantText(U"abc", 0), &text));
  }
}

}  // namespace
}  // namespace slipstream::tracer
