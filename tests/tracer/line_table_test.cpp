// Lines as seven of CPython's compilers wrote them, and tables that none of them wrote.

#include "tracer/python/line_table.h"

#include <gtest/gtest.h>

#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace slipstream::tracer {
namespace {

struct Sample {
  LineTableFormat format;
  int32_t first_line;
  int32_t code_bytes;
  const char* table;
  const char* starts;
};

constexpr Sample kSamples[] = {
#include "line_tables/3.10.inc"
#include "line_tables/3.11.inc"
#include "line_tables/3.12.inc"
#include "line_tables/3.13.inc"
#include "line_tables/3.14.inc"
#include "line_tables/3.15.inc"
#include "line_tables/3.9.inc"
};

std::vector<uint8_t> FromHex(const std::string& text) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

TEST(LineTableTest, EveryInstructionHasTheLineThatPythonGivesIt) {
  int instructions = 0;
  int highest = 0;
  bool found_none = false;
  for (const Sample& sample : kSamples) {
    const std::vector<uint8_t> table = FromHex(sample.table);
    std::istringstream starts(sample.starts);
    std::vector<std::pair<int32_t, int32_t>> expected;
    int32_t offset = 0;
    int32_t line = 0;
    char colon = 0;
    while (starts >> offset >> colon >> line) expected.emplace_back(offset, line);
    ASSERT_FALSE(expected.empty());
    ASSERT_EQ(expected[0].first, 0);
    for (size_t i = 0; i < expected.size(); ++i) {
      const int32_t end = i + 1 < expected.size() ? expected[i + 1].first : sample.code_bytes;
      for (int32_t at = expected[i].first; at < end; at += 2, ++instructions) {
        ASSERT_EQ(LineOf(sample.format, table, sample.first_line, at), expected[i].second)
            << "offset " << at << " of " << sample.table;
      }
      highest = std::max(highest, expected[i].second);
      found_none = found_none || expected[i].second == kNoLine;
    }
    EXPECT_EQ(LineOf(sample.format, table, sample.first_line, -2), sample.first_line);
  }
  EXPECT_GT(instructions, 4000);
  EXPECT_GT(highest, 140000);
  EXPECT_TRUE(found_none);
}

TEST(LineTableTest, BehindTheEndThereIsNoLine) {
  const uint8_t ranges[] = {4, 1};
  EXPECT_EQ(LineOf(LineTableFormat::kRanges, ranges, 7, 2), 8);
  EXPECT_EQ(LineOf(LineTableFormat::kRanges, ranges, 7, 4), kNoLine);
  const uint8_t locations[] = {0x80 | 13 << 3 | 1, 2};  // two instructions, one line on
  EXPECT_EQ(LineOf(LineTableFormat::kLocations, locations, 7, 2), 8);
  EXPECT_EQ(LineOf(LineTableFormat::kLocations, locations, 7, 4), kNoLine);
  EXPECT_EQ(LineOf(LineTableFormat::kLocations, {}, 7, 0), kNoLine);
  EXPECT_EQ(LineOf(LineTableFormat::kRanges, {}, 7, 0), kNoLine);
  EXPECT_EQ(LineOf(LineTableFormat::kPairs, {}, 7, 0), 7);  // co_lnotab: the rest is on the last line
}

TEST(LineTableTest, AnEntryMustBeginAsOne) {
  const uint8_t locations[] = {13 << 3, 2};
  EXPECT_EQ(LineOf(LineTableFormat::kLocations, locations, 7, 0), kNoLine);
}

// Tables that end in the middle, or are none: an answer, any, and nothing read from behind them (ASan sees to it).
TEST(LineTableTest, DamagedTablesAreReadToTheirEndAtMost) {
  std::mt19937 random(7);
  int64_t sum = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<uint8_t> table(random() % 64);
    for (uint8_t& byte : table) byte = static_cast<uint8_t>(random() | (random() % 2 == 0 ? 0x80 : 0));
    table.shrink_to_fit();
    for (const auto format : {LineTableFormat::kPairs, LineTableFormat::kRanges, LineTableFormat::kLocations}) {
      const int32_t line = LineOf(format, table, INT32_MAX - 100, static_cast<int32_t>(random() % 300));
      ASSERT_GE(line, 0);
      sum += line;
    }
  }
  EXPECT_GT(sum, 0);
}

}  // namespace
}  // namespace slipstream::tracer
