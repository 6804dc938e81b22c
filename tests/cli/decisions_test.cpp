// The transfer engine's decisions, as a person reads them.

#include "tools/text/decisions.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "allocator/decision.h"
#include "transfer/decision.h"

namespace slipstream::text {
namespace {

using Lines = std::vector<std::string>;

constexpr size_t kWide = 1000;
constexpr uint64_t kGiB = uint64_t{1} << 30;

TEST(DecisionsTest, EveryDecisionOfTheEngineHasItsPhrase) {
  for (const policy::DecisionText& text : transfer::kDecisionTexts) {
    EXPECT_NE(DecisionPhrase(text.name), "") << text.name;
    // The engine's names decide what line they are in.
    if (std::string_view(text.name).starts_with("transfer.sync.skipped")) continue;
    // Part of another line: ARunInWords.
    if (std::string_view(text.name) == "transfer.h2d.ahead") continue;
    if (std::string_view(text.name) == "transfer.h2d.mirrored") continue;
    if (IsSumOfTimes(text.name)) continue;  // ASumOfTimesIsNoReason
    const Lines lines = TransferLines({{text.name, 3, 0, 0}}, kWide);
    ASSERT_EQ(lines.size(), 1U) << text.name;
    EXPECT_FALSE(lines[0].starts_with("also")) << lines[0];
    EXPECT_NE(lines[0].find(": " + std::string(DecisionPhrase(text.name))), std::string::npos) << lines[0];
  }
}

TEST(DecisionsTest, ARunInWords) {
  EXPECT_EQ(
      TransferLines({{"transfer.h2d.promoted.small", 24, 4096, 0},
                     {"transfer.h2d.promoted.large", 1180, 92 * kGiB, 0},
                     {"transfer.h2d.declined.starting", 12, 0, 0},
                     {"transfer.h2d.declined.source", 3, 0, 0},
                     {"transfer.h2d.declined.full", 0, 0, 0},
                     {"transfer.h2d.ahead", 300, 30 * kGiB, 0},
                     {"transfer.h2d.mirrored", 900, 70 * kGiB, 0},
                     {"transfer.d2h.promoted", 7, 3 * kGiB, 0},
                     {"transfer.d2h.declined.small", 90, 0, 0},
                     {"transfer.d2h.declined.memory", 1, 0, 0},
                     {"transfer.sync.skipped", 1146, 0, 0},
                     {"transfer.sync.skipped.rest", 4, 0, 0},
                     {"transfer.sync.kept.host_effect", 54, 0, 0},
                     {"transfer.sync.settled.free", 2, 0, 1'200'000},
                     {"transfer.sync.settled.query", 1, 0, 0},
                     {"transfer.unmapped.background", 90, 6 * kGiB, 700'000'000},
                     {"transfer.unmapped.caller", 2, kGiB, 0}},
                    kWide),
      (Lines{"promoted 1,204 copies to the device, 92.0 GiB: 1,180 large, 24 small; 300 of them ahead of a busy "
             "stream; 900 of them out of a mirror",
             "declined 15 copies to the device: 12 while staging memory was being pinned, 3 from memory that is not "
             "pageable",
             "promoted 7 copies to the host, 3.00 GiB: through staging memory",
             "declined 91 copies to the host: 90 of up to 64 KiB, 1 not from plain device memory to pageable "
             "memory",
             "skipped 1,150 of 1,204 synchronizations, 4 of them after waiting for work on host memory",
             "kept 54 synchronizations: while another stream could still use host memory",
             "waited 3 times for skipped synchronizations, 1.20 ms: 2 before a free, 1 because a query asked",
             "gave back 92 pieces of shared memory, 7.00 GiB, 700 ms: 90 in the background, 2 by the program's "
             "call, because too much was waiting"}));
}

TEST(DecisionsTest, EveryDecisionOfTheAllocatorHasItsPhrase) {
  for (const policy::DecisionText& text : allocator::kDecisionTexts) {
    EXPECT_NE(DecisionPhrase(text.name), "") << text.name;
    if (std::string_view(text.name) == "allocator.retried") continue;  // is said with what was given back
    if (IsSumOfTimes(text.name)) continue;                             // ASumOfTimesIsNoReason
    const Lines lines = AllocatorLines({{text.name, 3, 0, 0}}, kWide);
    ASSERT_GE(lines.size(), 1U) << text.name;
    for (const std::string& line : lines) EXPECT_FALSE(line.starts_with("also")) << line;
  }
}

TEST(DecisionsTest, ASumOfTimesIsNoReason) {
  EXPECT_EQ(TransferLines({{"transfer.sync.skipped", 3, 0, 0}, {"transfer.sync.ran_on", 2, 0, 1'210'000}}, kWide),
            (Lines{"skipped 3 of 3 synchronizations",
                   "2 skipped waits were still due later: threads ran on for at least 1.21 ms meanwhile"}));
  EXPECT_EQ(TransferLines({{"transfer.sync.ran_on", 1, 0, 5'000}}, kWide),
            Lines{"1 skipped wait was still due later: threads ran on for at least 5.00 us meanwhile"});
  EXPECT_EQ(AllocatorLines({{"allocator.driver.allocated", 4, 0, 800'000},
                            {"allocator.spared.allocation", 3, 0, 300'000},
                            {"allocator.spared.free", 3, 0, 300'000}},
                           kWide),
            Lines{});
}

TEST(DecisionsTest, MeaningsOfBothEngines) {
  EXPECT_EQ(DecisionMeaning("transfer.sync.skipped"), "synchronizations skipped");
  EXPECT_NE(DecisionMeaning("allocator.reused"), "");
  EXPECT_EQ(DecisionMeaning("transfer.nothing"), "");
}

TEST(DecisionsTest, TheAllocatorInWords) {
  EXPECT_EQ(AllocatorLines({{"allocator.reserved", 32, kGiB, 0},
                            {"allocator.reused", 1180, 92 * kGiB, 0},
                            {"allocator.reused.behind", 20, 8 * kGiB, 0},
                            {"allocator.grown", 300, 30 * kGiB, 0},
                            {"allocator.passed.capture", 2, 0, 0},
                            {"allocator.parked", 1400, 100 * kGiB, 0},
                            {"allocator.freed.cap", 60, 8 * kGiB, 0},
                            {"allocator.freed.capture", 1, 0, 0},
                            {"allocator.trimmed", 12, 2 * kGiB, 0},
                            {"allocator.reclaimed", 5, 3 * kGiB, 0},
                            {"allocator.retried", 1, 0, 0}},
                           kWide),
            (Lines{"took 32 blocks, 1.00 GiB, in advance",
                   "served 1,200 of 1,500 allocations from the pool, 100 GiB, 20 of them behind a wait of the device",
                   "left alone 2 allocations: during a stream capture", "kept 1,400 of 1,461 freed blocks, 100 GiB",
                   "freed 61 blocks for real: 60 with enough idle memory kept, 1 during a stream capture",
                   "gave back 17 blocks, 5.00 GiB: 12 that nobody wanted, 5 when the driver had none left; tried 1 "
                   "allocation again"}));
  EXPECT_EQ(AllocatorLines({}, kWide), Lines{});
  EXPECT_EQ(AllocatorLines({{"transfer.sync.skipped", 1, 0, 0}}, kWide), Lines{});
}

TEST(DecisionsTest, WhatDidNotHappenIsNotMentioned) {
  EXPECT_EQ(TransferLines({}, kWide), Lines{});
  EXPECT_EQ(TransferLines({{"transfer.h2d.promoted.small", 0, 0, 0}, {"transfer.sync.kept.off", 0, 0, 0}}, kWide),
            Lines{});
  EXPECT_EQ(TransferLines({{"transfer.h2d.promoted.small", 1, 8, 0}, {"transfer.sync.skipped", 1, 0, 0}}, kWide),
            (Lines{"promoted 1 copy to the device, 8 B: small", "skipped 1 of 1 synchronization"}));
  EXPECT_EQ(TransferLines({{"transfer.sync.settled.free", 1, 0, 0}}, kWide),
            Lines{"waited 1 time for skipped synchronizations: before a free"});
}

TEST(DecisionsTest, NamesOfAnotherBuildAreShownAsTheyAre) {
  EXPECT_EQ(
      TransferLines({{"transfer.h2d.declined.bad_weather", 2, 0, 0},
                     {"transfer.h2d.declined.full", 1, 0, 0},
                     {"transfer.checked", 7, 0, 0},
                     {"allocator.pooled", 9, 0, 0}},
                    kWide),
      (Lines{"declined 3 copies to the device: 2 h2d declined bad weather, 1 while all staging memory was in flight",
             "also: checked"}));
}

TEST(DecisionsTest, ManyReasonsAreSummedAndStillAddUp) {
  std::vector<tracer::DecisionCounts> decisions;
  for (uint64_t i = 1; i <= 6; ++i) decisions.push_back({"transfer.h2d.declined.r" + std::to_string(i), i, 0, 0});
  EXPECT_EQ(TransferLines(decisions, kWide), Lines{"declined 21 copies to the device: 6 h2d declined r6, 5 h2d "
                                                   "declined r5, 4 h2d declined r4, 3 h2d declined r3, "
                                                   "2 h2d declined r2, 1 h2d declined r1"});
  decisions.push_back({"transfer.h2d.declined.r7", 7, 0, 0});
  EXPECT_EQ(TransferLines(decisions, kWide), Lines{"declined 28 copies to the device: 7 h2d declined r7, 6 h2d "
                                                   "declined r6, 5 h2d declined r5, 4 h2d declined r4, "
                                                   "3 h2d declined r3, 3 for 2 other "
                                                   "reasons"});
}

TEST(DecisionsTest, LongLinesAreBrokenAtSpaces) {
  std::vector<tracer::DecisionCounts> decisions;
  for (const policy::DecisionText& text : transfer::kDecisionTexts) decisions.push_back({text.name, 1, 1, 1});
  std::string joined;
  for (const std::string& line : TransferLines(decisions, 60)) {
    EXPECT_LE(line.size(), 60U) << line;
    if (!joined.empty()) joined += line.starts_with("  ") ? " " : "\n";
    joined += line.starts_with("  ") ? line.substr(2) : line;
  }
  std::string whole;
  for (const std::string& line : TransferLines(decisions, kWide * 10)) whole += (whole.empty() ? "" : "\n") + line;
  EXPECT_EQ(joined, whole);
  // A word that does not fit is not taken apart.
  EXPECT_EQ(TransferLines({{"transfer." + std::string(30, 'x'), 1, 0, 0}}, 10),
            (Lines{"also:", "  " + std::string(30, 'x')}));
}

}  // namespace
}  // namespace slipstream::text
