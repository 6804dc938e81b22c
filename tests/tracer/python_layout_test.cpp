// Which Pythons have a layout, and what _Py_DebugOffsets may change of it.

#include "tracer/python/python_layout.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "tests/tracer/fake_python.h"
#include "tracer/python/python_process.h"

namespace slipstream::tracer {
namespace {

constexpr uint32_t kVersion = 0x030d05f0;

struct Word {
  size_t at;
  uint64_t value;
};

// As offsetof says it of the headers of 3.13.5, 3.14.10 and 3.15.2.
constexpr Word k13[] = {{22, 16},  {23, 72},  {29, 8},   {30, 0},  {31, 56},  {33, 70}, {35, 112},
                        {36, 120}, {37, 128}, {38, 136}, {39, 68}, {43, 200}, {45, 8},  {49, 168},
                        {65, 16},  {66, 32},  {68, 32},  {69, 16}, {70, 40}};
constexpr Word k14[] = {{25, 16},  {26, 72},  {32, 8},   {33, 0},  {34, 56},  {36, 74}, {40, 112},
                        {41, 120}, {42, 128}, {43, 136}, {44, 68}, {48, 208}, {51, 8},  {55, 168},
                        {75, 16},  {76, 32},  {78, 32},  {79, 16}, {80, 40}};
constexpr Word k15[] = {{25, 16},  {26, 72},  {40, 8},   {41, 0},  {42, 56},  {44, 74}, {48, 112},
                        {49, 120}, {50, 128}, {51, 136}, {52, 68}, {56, 208}, {59, 8},  {63, 168},
                        {87, 16},  {88, 32},  {90, 32},  {91, 16}, {92, 40}};

std::span<const Word> KnownWords(uint32_t version) {
  switch (version >> 16) {
    case 0x030d:
      return k13;
    case 0x030e:
      return k14;
    default:
      return k15;
  }
}

// The words that nothing is read from are 7.
std::array<uint64_t, kDebugOffsetsWords> DebugOffsets(uint32_t version = kVersion) {
  std::array<uint64_t, kDebugOffsetsWords> words;
  words.fill(7);
  std::memcpy(words.data(), "xdebugpy", 8);
  words[1] = version;
  words[2] = 0;
  for (const auto& [at, value] : KnownWords(version)) words[at] = value;
  return words;
}

TEST(PythonLayoutTest, OnlyReleasesFrom309To315HaveOne) {
  for (const uint32_t version : kPythonVersions) {
    ASSERT_NE(FindPythonLayout(version), nullptr);
    EXPECT_EQ(FindPythonLayout(version)->version, version >> 16);
    EXPECT_NE(FindPythonLayout((version & ~0xffU) | 0xc1), nullptr);  // a release candidate
    EXPECT_EQ(FindPythonLayout((version & ~0xffU) | 0xb1), nullptr);  // a beta
  }
  EXPECT_EQ(FindPythonLayout(0x030812f0), nullptr);
  EXPECT_EQ(FindPythonLayout(0x031000f0), nullptr);
  EXPECT_EQ(FindPythonLayout(0x020712f0), nullptr);
  EXPECT_EQ(FindPythonLayout(0), nullptr);
}

TEST(PythonLayoutTest, DebugOffsetsThatAgreeKeepTheRow) {
  for (const uint32_t version : {kVersion, 0x030e0af0U, 0x030f02f0U}) {
    PythonLayout layout = *FindPythonLayout(version);
    EXPECT_EQ(TakeDebugOffsets(DebugOffsets(version), version, &layout), DebugOffsetsVerdict::kTaken);
    EXPECT_EQ(layout.code_version, 92U);
    EXPECT_EQ(layout.wide_text, 56U);
    EXPECT_EQ(layout.code_first_traceable, version == kVersion ? 184U : 192U);
  }
}

// Each version's words are where that version has them: those of the one before are no such thing, or lead elsewhere.
TEST(PythonLayoutTest, DebugOffsetsAreReadInTheOrderOfTheirVersion) {
  for (const auto& [version, other] :
       {std::pair{0x030e0af0U, kVersion}, {0x030f02f0U, 0x030e0af0U}, {kVersion, 0x030e0af0U}}) {
    PythonLayout layout = *FindPythonLayout(version);
    auto words = DebugOffsets(other);
    words[1] = version;
    EXPECT_EQ(TakeDebugOffsets(words, version, &layout), DebugOffsetsVerdict::kNotThem);
  }
}

TEST(PythonLayoutTest, EveryWordIsTaken) {
  for (const uint32_t version : {kVersion, 0x030e0af0U, 0x030f02f0U}) {
    PythonLayout layout = *FindPythonLayout(version);
    auto words = DebugOffsets(version);
    const std::span<const Word> known = KnownWords(version);
    for (size_t i = 0; i < 12; ++i) words[known[i].at] = 400 + i;
    words[known[18].at] = 48;
    ASSERT_EQ(TakeDebugOffsets(words, version, &layout), DebugOffsetsVerdict::kTaken);
    EXPECT_EQ(layout.thread_interpreter, 400U);
    EXPECT_EQ(layout.thread_frame, 401U);
    EXPECT_EQ(layout.frame_previous, 402U);
    EXPECT_EQ(layout.frame_code, 403U);
    EXPECT_EQ(layout.frame_instruction, 404U);
    EXPECT_EQ(layout.frame_owner, 405U);
    EXPECT_EQ(layout.code_file, 406U);
    EXPECT_EQ(layout.code_name, 407U);
    EXPECT_EQ(layout.code_qualified_name, 408U);
    EXPECT_EQ(layout.code_line_table, 409U);
    EXPECT_EQ(layout.code_first_line, 410U);
    EXPECT_EQ(layout.code_instructions, 411U);
    EXPECT_EQ(layout.ascii_text, 48U);
    EXPECT_EQ(layout.wide_text, 64U);
  }
}

TEST(PythonLayoutTest, DebugOffsetsGoBeforeTheRow) {
  PythonLayout layout = *FindPythonLayout(kVersion);
  auto words = DebugOffsets();
  words[35] = 144;
  words[23] = 80;
  words[43] = 208;
  EXPECT_EQ(TakeDebugOffsets(words, kVersion, &layout), DebugOffsetsVerdict::kTaken);
  EXPECT_EQ(layout.code_file, 144U);
  EXPECT_EQ(layout.thread_frame, 80U);
  EXPECT_EQ(layout.code_first_traceable, 192U);
  EXPECT_EQ(layout.code_version, kAbsent);  // nothing says where it went
}

TEST(PythonLayoutTest, AFreeThreadedBuildIsRefused) {
  for (const auto& [version, type] : {std::pair{kVersion, size_t{45}}, {0x030e0af0U, 51}, {0x030f02f0U, 59}}) {
    PythonLayout layout = *FindPythonLayout(version);
    auto words = DebugOffsets(version);
    words[2] = 1;
    words[type] = 24;
    EXPECT_EQ(TakeDebugOffsets(words, version, &layout), DebugOffsetsVerdict::kFreeThreaded);
  }
}

TEST(PythonLayoutTest, WhatIsNotDebugOffsetsChangesNothing) {
  const auto refuses = [](auto words) {
    PythonLayout layout = *FindPythonLayout(kVersion);
    return TakeDebugOffsets(words, kVersion, &layout) == DebugOffsetsVerdict::kNotThem && layout.code_file == 112;
  };
  auto words = DebugOffsets();
  words[0] = 0;
  EXPECT_TRUE(refuses(words));
  words = DebugOffsets();
  words[1] = kVersion + 0x100;
  EXPECT_TRUE(refuses(words));
  words = DebugOffsets();
  words[31] = 1 << 20;
  EXPECT_TRUE(refuses(words));
  words = DebugOffsets();
  words[49] = 176;  // tp_flags is read before any check could find it wrong
  EXPECT_TRUE(refuses(words));
  EXPECT_TRUE(refuses(std::span<const uint64_t>(DebugOffsets()).first(70)));
}

TEST(PythonProcessTest, VersionsAreReadFromText) {
  EXPECT_EQ(ParsePythonVersion("3.9.18 (main, Jan  1 2024)"), 0x030912f0U);
  EXPECT_EQ(ParsePythonVersion("3.10.13"), 0x030a0df0U);
  EXPECT_EQ(ParsePythonVersion("3.9.2+ (heads)"), 0x030902f0U);
  EXPECT_NE(FindPythonLayout(ParsePythonVersion("3.9.0rc1 (main)")), nullptr);
  EXPECT_EQ(FindPythonLayout(ParsePythonVersion("3.9.0b4 (main)")), nullptr);
  for (const char* text : {"", "3", "3.9", "3.x.1", "3.9.", "-3.9.1", "three", "3.999.1"}) {
    EXPECT_EQ(ParsePythonVersion(text), 0U) << text;
  }
}

TEST(PythonProcessTest, TheFactNamesThePythonAndWhatIsWrongWithIt) {
  EXPECT_EQ(LinesFact(PythonStatus::kOk, 0x030e02f0), "read: CPython 3.14.2");
  EXPECT_EQ(LinesFact(PythonStatus::kFreeThreaded, 0x030e00f0), "unsupported: this is a free-threaded CPython 3.14.0");
  EXPECT_EQ(LinesFact(PythonStatus::kDebugBuild, 0x030d0cf0), "unsupported: this is a debug build of CPython 3.13.12");
  EXPECT_EQ(LinesFact(PythonStatus::kUnknownVersion, 0x031000a4),
            "unsupported: this is CPython 3.16.0a4, not a release of 3.9 to 3.15");
  EXPECT_EQ(LinesFact(PythonStatus::kUnknownVersion, ParsePythonVersion("3.9.0b4 (main)")),
            "unsupported: this is CPython 3.9.0, an alpha or beta, not a release of 3.9 to 3.15");
  EXPECT_EQ(LinesFact(PythonStatus::kUnknownVersion, 0),
            "unsupported: this is CPython of an unknown version, not a release of 3.9 to 3.15");
  EXPECT_EQ(LinesFact(PythonStatus::kIncomplete, 0x030c01c2),
            "unsupported: this CPython 3.12.1rc2 lacks functions that they are read with");
  EXPECT_EQ(LinesFact(PythonStatus::kBadLayout, 0x030c01f0),
            "unsupported: this CPython 3.12.1 has its memory laid out in another way than its version");
  EXPECT_EQ(LinesFact(PythonStatus::kNoPython, 0), "none: there is no CPython in this process");
}

// This program has no Python in it.
TEST(PythonProcessTest, WithoutPythonTheReasonIsThat) {
  PythonProcess process;
  const PythonStatus status = FindPython(&process);
  EXPECT_EQ(status, PythonStatus::kNoPython);
  EXPECT_TRUE(IsFinal(status));
  EXPECT_STREQ(NameOf(status), "no_python");
  EXPECT_EQ(LinesFactOfThisProcess(), "");
  EXPECT_FALSE(IsFinal(PythonStatus::kFinalizing));
  EXPECT_FALSE(IsFinal(PythonStatus::kNoThread));
  EXPECT_FALSE(IsFinal(PythonStatus::kNotInitialized));
}

}  // namespace
}  // namespace slipstream::tracer
