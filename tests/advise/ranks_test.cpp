// Findings of several ranks as one list, and how the ranks stand beside each other.

#include "tools/trace/advise/ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/advise/units_testing.h"
#include "tests/support/process.h"
#include "tools/text/columns.h"
#include "tools/trace/advise/ranks_text.h"
#include "tools/trace/advise/rules.h"
#include "tools/trace/advise/text.h"

namespace slipstream::advise {
namespace {

using nlohmann::json;

constexpr int64_t kRankSteps = 100;

// Ranks of steps of 10 ms, and in each step so many ms of kernels that communicate, and 1 ms without device work.
class RanksTest : public ::testing::Test {
 protected:
  void Ranks(const std::vector<double>& communication) {
    report_.has_own_tables = report_.kernels_recorded = true;
    report_.hosts = {"node"};
    for (size_t i = 0; i < communication.size(); ++i) {
      report::ProcessReport& process = report_.processes.emplace_back();
      process.process = static_cast<int64_t>(11 + i);
      process.rank = static_cast<int64_t>(i);
      process.host = "node";
      process.executable = "/usr/bin/python3";
      process.command = "train.py";
      process.has_steps = true;
      process.measured_steps = kRankSteps;
      process.measured_time = kRankSteps * 10 * kMs;
      process.step_time.median = 10 * kMs;
      report::DeviceReport& device = process.devices.emplace_back();
      device.kernels = 1;
      device.times.communication = static_cast<int64_t>(communication[i] * kMs) * kRankSteps;
      device.times.idle[report::kHostOutside] = kRankSteps * kMs;
    }
  }
  // As the report finds them.
  void Communicate(size_t waited_for, size_t waits_most, int64_t wait) {
    report_.communication = report::Communication{waited_for, waits_most, wait};
  }

  // Of the rule at this place of Rules().
  static RuleVerdict Finds(size_t rule, int64_t cost) {
    Advice advice;
    advice.finding = "Finding " + std::to_string(rule) + ".";
    advice.evidence = {std::to_string(cost) + " ns"};
    advice.cost = cost;
    advice.change = "Change it.";
    advice.snippet = "x = y";
    return {&Rules()[rule], Verdict::Say(advice)};
  }
  static RuleVerdict CannotTell(size_t rule, const std::string& why) { return {&Rules()[rule], Verdict::Abstain(why)}; }

  static Findings Of(std::vector<RuleVerdict> advice, std::vector<RuleVerdict> abstained = {}) {
    Findings findings;
    findings.advice = std::move(advice);
    findings.abstained = std::move(abstained);
    return findings;
  }
  // Everybody's findings, in the order of the ranks.
  RanksFindings Merge(const std::vector<Findings>& of) {
    RanksAdvice advice(report_);
    const std::vector<size_t> ranks = RanksOf(report_);
    EXPECT_EQ(ranks.size(), of.size());
    for (size_t i = 0; i < ranks.size(); ++i) {
      Facts facts;
      facts.report = &report_;
      facts.process = &report_.processes[ranks[i]];
      facts.devices_recorded = true;
      advice.Add(facts, of[i]);
    }
    return advice.Finish();
  }
  std::string Row(const RanksFindings& findings, const std::string& rank) const {
    for (const std::string& line : test::Split(FormatRanks(report_, findings))) {
      if (line.starts_with("  " + rank + " ")) return line;
    }
    return "";
  }

  report::Report report_;
};

// The third one comes last, and the others wait for it in their kernels; the fourth one has a fault of its own.
TEST_F(RanksTest, WhatSeveralHaveStandsOnce) {
  Ranks({3, 3, 0.5, 3.2});
  Communicate(2, 3, 27 * kMs / 10);
  report_.slowest = report::Slowest{2, 3, report::Slowest::By::kCommunication, 27 * kMs / 10};
  report_.shown = 2;
  const RanksFindings findings = Merge({
      Of({Finds(0, kMs)}, {CannotTell(2, "nobody knows")}),
      Of({Finds(0, 2 * kMs)}, {CannotTell(2, "nobody knows"), CannotTell(3, "too short")}),
      Of({Finds(0, 3 * kMs)}, {CannotTell(2, "nobody knows")}),
      Of({Finds(1, 5 * kMs / 2), Finds(0, kMs / 2)}, {CannotTell(2, "nobody knows")}),
  });
  ASSERT_EQ(findings.advice.size(), 2U);
  EXPECT_EQ(findings.advice[0].rule, &Rules()[0]);
  EXPECT_EQ(findings.advice[0].advice.cost, 3 * kMs);
  EXPECT_EQ(findings.advice[0].rank, 2U);
  EXPECT_EQ(findings.advice[0].ranks, (std::vector<size_t>{0, 1, 2, 3}));
  EXPECT_EQ(findings.advice[1].rule, &Rules()[1]);
  EXPECT_EQ(findings.advice[1].advice.cost, 5 * kMs / 2);
  EXPECT_EQ(findings.advice[1].ranks, (std::vector<size_t>{3}));
  ASSERT_EQ(findings.abstained.size(), 2U);
  EXPECT_EQ(findings.abstained[0].ranks.size(), 4U);
  EXPECT_EQ(findings.abstained[1].ranks, (std::vector<size_t>{1}));
  EXPECT_EQ(findings.nothing.size(), Rules().size() - 4);

  // 10 less 2.5, 2.5, 0 and 2.7: the second of 7.3, 7.5, 7.5 and 10 is the median.
  EXPECT_EQ(findings.ranks[0].communication_wait, 5 * kMs / 2);
  EXPECT_EQ(findings.ranks[2].communication_wait, 0);
  EXPECT_EQ(findings.ranks[3].communication_wait, 27 * kMs / 10);
  EXPECT_EQ(findings.ranks[3].idle, kMs);
  EXPECT_EQ(findings.most_work, 2U);
  EXPECT_EQ(findings.work_max, 10 * kMs);
  EXPECT_EQ(findings.work_median, 15 * kMs / 2);
  EXPECT_DOUBLE_EQ(findings.imbalance(), 10.0 / 7.5);

  const std::string text = FormatRanks(report_, findings);
  EXPECT_TRUE(text.starts_with("slipstream advise: train.py\n")) << text;
  for (const char* const part :
       {"the steps of 4 processes", "RANKS on node", "waiting: rank 3 is 2.70 ms a step longer", "imbalance 1.33: ",
        "(rank 2)", "communication wait: rank 3 waits most, for 2.70 ms of a step, and rank 2 least",
        "about 3.00 ms per step (30.0 %)", "    ranks 0-3; what follows is of rank 2, where it counts most\n",
        "    rank 3 only\n", "3000000 ns", " (rank 1): too short"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
  EXPECT_EQ(text.find("500000 ns"), text.find("2500000 ns") + 1) << "only the largest of each rule\n" << text;
  const std::string row = Row(findings, "rank 3");
  EXPECT_NE(row.find("10.0 ms   1.00 ms     2.70 ms  " + std::string(Rules()[1].name)), std::string::npos) << row;

  const json root = json::parse(RanksJson(report_, findings));
  EXPECT_EQ(root["schema"], "slipstream-advise-1");
  EXPECT_EQ(root["process"], 13);
  EXPECT_EQ(root["slowest"]["rank"], 2);
  ASSERT_EQ(root["ranks"].size(), 4U);
  EXPECT_EQ(root["ranks"][3]["rank"], 3);
  EXPECT_EQ(root["ranks"][3]["host"], "node");
  EXPECT_EQ(root["ranks"][3]["communication_wait_per_step_ns"], 2'700'000);
  EXPECT_EQ(root["ranks"][3]["step_time_without_wait_ns"], 7'300'000);
  EXPECT_EQ(root["ranks"][3]["first_finding"], Rules()[1].name);
  EXPECT_EQ(root["advice"][0]["ranks"], json({0, 1, 2, 3}));
  EXPECT_EQ(root["advice"][0]["figures_of_process"], 13);
  EXPECT_EQ(root["advice"][1]["ranks"], json::array({3}));
  EXPECT_EQ(root["advice"][1]["processes"], json::array({14}));
  EXPECT_EQ(root["cannot_be_told"][1]["ranks"], json::array({1}));
}

// It compares them: everybody is told the same, and it is nobody's own.
TEST_F(RanksTest, WhatIsOfTheRunIsOfNoRank) {
  size_t of_run = 0;
  while (std::string_view(Rules()[of_run].name) != "stragglers") ++of_run;
  Ranks({0, 0});
  const RanksFindings findings = Merge({Of({Finds(of_run, 2 * kMs), Finds(0, kMs)}), Of({Finds(of_run, 2 * kMs)})});
  EXPECT_EQ(findings.ranks[0].first, &Rules()[0]);
  EXPECT_EQ(findings.ranks[1].first, nullptr);
  ASSERT_EQ(findings.advice.size(), 2U);
  EXPECT_EQ(findings.advice[0].ranks, (std::vector<size_t>{0, 1}));
  const std::string text = FormatRanks(report_, findings);
  EXPECT_EQ(text.find("ranks 0-1"), std::string::npos) << text;
  EXPECT_NE(text.find("    rank 0 only\n"), std::string::npos) << text;
}

TEST_F(RanksTest, OfARunWithNothingToChange) {
  Ranks({0, 0});
  const RanksFindings findings = Merge({Of({}, {CannotTell(3, "why")}), Of({}, {CannotTell(3, "why")})});
  const std::string text = FormatRanks(report_, findings);
  EXPECT_NE(
      text.find("Nothing worth changing was found: " + std::to_string(Rules().size()) + " rules looked, and 1 of"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find(std::string("  ") + Rules()[3].name + ": why\n"), std::string::npos) << text;
  EXPECT_NE(text.find("slowest: none"), std::string::npos) << text;
  EXPECT_NE(text.find("communication wait: none"), std::string::npos) << text;
  EXPECT_NE(text.find("imbalance 1: "), std::string::npos) << text;
  EXPECT_EQ(findings.ranks[0].communication_wait, std::nullopt);
  EXPECT_TRUE(json::parse(RanksJson(report_, findings))["ranks"][0]["first_finding"].is_null());
}

// Of the rank whose steps became longer by the largest share.
TEST_F(RanksTest, WhatTheRecordingOfTheDevicesCostsIsSaid) {
  Ranks({0, 0, 0});
  const std::string start = "rules looked at the steps of 3 processes";
  const auto text = [&] { return FormatRanks(report_, Merge({{}, {}, {}}), {.columns = 400}); };
  EXPECT_NE(text().find(start + "\n"), std::string::npos) << text();
  report_.processes[0].step_time_before_devices = {.count = 10, .median = 9 * kMs};
  report_.processes[1].step_time_before_devices = {.count = 10, .median = 8 * kMs};
  report_.processes[2].step_time_before_devices = {.count = 9, .median = 5 * kMs};
  EXPECT_NE(text().find(start + "; steps of rank 1 take 10.0 ms in the median, 8.00 ms before devices were "
                                "recorded, so that what is said below of the host's time is up to 25.0 % too long\n"),
            std::string::npos)
      << text();
}

TEST_F(RanksTest, ProcessesWithoutStepsAreLeftOut) {
  Ranks({0, 0, 0});
  report_.processes[1].has_steps = false;
  EXPECT_EQ(RanksOf(report_), (std::vector<size_t>{0, 2}));
  const RanksFindings findings = Merge({{}, Of({Finds(0, kMs)})});
  EXPECT_EQ(findings.ranks[1].process, 2U);
  const std::string text = FormatRanks(report_, findings);
  EXPECT_NE(text.find("and 1 process without steps, left out"), std::string::npos) << text;
  EXPECT_NE(text.find("    rank 2 only\n"), std::string::npos) << text;
}

TEST_F(RanksTest, NamesOfRanks) {
  Ranks({0, 0, 0, 0, 0, 0});
  const RanksFindings findings = Merge({{}, {}, {}, {}, {}, {}});
  EXPECT_EQ(RankNames(report_, findings, {4}), "rank 4");
  EXPECT_EQ(RankNames(report_, findings, {0, 1, 2, 5}), "ranks 0-2, 5");
  EXPECT_EQ(RankNames(report_, findings, {1, 3, 4}), "ranks 1, 3-4");
  for (report::ProcessReport& process : report_.processes) {
    process.pid = process.process;
    process.rank.reset();
  }
  EXPECT_EQ(RankNames(report_, findings, {0, 1}), "python3 (pid 11), python3 (pid 12)");
  EXPECT_EQ(RankNames(report_, findings, {0, 1, 2, 3, 4}),
            "python3 (pid 11), python3 (pid 12), python3 (pid 13) and 2 more");
}

// Of more ranks than fit, the slowest is shown; several hosts have a column.
TEST_F(RanksTest, ManyRanksOnSeveralHosts) {
  Ranks(std::vector<double>(64, 0));
  report_.hosts.clear();
  for (size_t i = 0; i < report_.processes.size(); ++i) {
    report_.processes[i].host = "a-rather-long-name-of-a-host-" + std::to_string(i / 8) + ".cluster.example.org";
  }
  report_.shown = 50;
  const std::vector<Findings> none(64);
  const RanksFindings findings = Merge(none);
  for (const size_t columns : {80, 100, 160}) {
    const std::string text = FormatRanks(report_, findings, {.columns = columns});
    EXPECT_NE(text.find("and 48 more (--json has all)"), std::string::npos) << text;
    EXPECT_NE(text.find("\n  rank 50 "), std::string::npos) << text;
    EXPECT_EQ(text.find("\n  rank 15 "), std::string::npos) << text;
    for (const std::string& line : test::Split(text)) EXPECT_LE(text::Columns(line), columns) << line;
  }
  EXPECT_EQ(json::parse(RanksJson(report_, findings))["ranks"].size(), 64U);
}

}  // namespace
}  // namespace slipstream::advise
