// Which Pythons have a layout, and what _Py_DebugOffsets may change of it.

#include "tracer/python/python_layout.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "tests/tracer/fake_python.h"
#include "tracer/python/python_process.h"

namespace slipstream::tracer {
namespace {

constexpr uint32_t kVersion = 0x030d05f0;

// As 3.13.5 has it; the words that nothing is read from are 7.
std::array<uint64_t, kDebugOffsetsWords> DebugOffsets() {
  std::array<uint64_t, kDebugOffsetsWords> words;
  words.fill(7);
  std::memcpy(words.data(), "xdebugpy", 8);
  words[1] = kVersion;
  words[2] = 0;
  words[22] = 16;
  words[23] = 72;
  words[29] = 8;
  words[30] = 0;
  words[31] = 56;
  words[33] = 70;
  words[35] = 112;
  words[36] = 120;
  words[37] = 128;
  words[38] = 136;
  words[39] = 68;
  words[43] = 200;
  words[45] = 8;
  words[49] = 168;
  words[65] = 16;
  words[66] = 32;
  words[68] = 32;
  words[69] = 16;
  words[70] = 40;
  return words;
}

TEST(PythonLayoutTest, OnlyReleasesFrom309To313HaveOne) {
  for (const uint32_t version : kPythonVersions) {
    ASSERT_NE(FindPythonLayout(version), nullptr);
    EXPECT_EQ(FindPythonLayout(version)->version, version >> 16);
    EXPECT_NE(FindPythonLayout((version & ~0xffU) | 0xc1), nullptr);  // a release candidate
    EXPECT_EQ(FindPythonLayout((version & ~0xffU) | 0xb1), nullptr);  // a beta
  }
  EXPECT_EQ(FindPythonLayout(0x030812f0), nullptr);
  EXPECT_EQ(FindPythonLayout(0x030e00f0), nullptr);
  EXPECT_EQ(FindPythonLayout(0x020712f0), nullptr);
  EXPECT_EQ(FindPythonLayout(0), nullptr);
}

TEST(PythonLayoutTest, DebugOffsetsThatAgreeKeepTheRow) {
  PythonLayout layout = *FindPythonLayout(kVersion);
  EXPECT_EQ(TakeDebugOffsets(DebugOffsets(), kVersion, &layout), DebugOffsetsVerdict::kTaken);
  EXPECT_EQ(layout.code_version, 92U);
  EXPECT_EQ(layout.wide_text, 56U);
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
  PythonLayout layout = *FindPythonLayout(kVersion);
  auto words = DebugOffsets();
  words[2] = 1;
  words[45] = 24;
  EXPECT_EQ(TakeDebugOffsets(words, kVersion, &layout), DebugOffsetsVerdict::kFreeThreaded);
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
  EXPECT_TRUE(refuses(std::span<const uint64_t>(DebugOffsets()).first(kDebugOffsetsWords - 1)));
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

// This program has no Python in it.
TEST(PythonProcessTest, WithoutPythonTheReasonIsThat) {
  PythonProcess process;
  const PythonStatus status = FindPython(&process);
  EXPECT_EQ(status, PythonStatus::kNoPython);
  EXPECT_TRUE(IsFinal(status));
  EXPECT_STREQ(NameOf(status), "no_python");
  EXPECT_FALSE(IsFinal(PythonStatus::kFinalizing));
  EXPECT_FALSE(IsFinal(PythonStatus::kNoThread));
  EXPECT_FALSE(IsFinal(PythonStatus::kNotInitialized));
}

}  // namespace
}  // namespace slipstream::tracer
