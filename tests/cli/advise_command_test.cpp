// `slipstream advise` as a user and a script meet it: what it takes, what it says, and its exit status.

#include "tools/cli/advise_command.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/report/report_testing.h"
#include "tests/support/process.h"
#include "tools/cli/exit_codes.h"
#include "tools/trace/advise/rules.h"

namespace slipstream::cli {
namespace {

using nlohmann::json;
using report::Call;
using test::Finished;

class AdviseCommandTest : public report::ReportTest {
 protected:
  static Finished RunIt(const AdviseOptions& options) {
    return test::InChild([&] { return Advise(options, "1.2.3"); });
  }
  static Finished RunCommand(std::vector<std::string> words, const test::Variables& variables = {}) {
    words.insert(words.begin(), {SLIPSTREAM_COMMAND, "advise"});
    return test::RunProgram(words, variables);
  }
  json JsonOf(const AdviseOptions& options) {
    const Finished finished = RunIt(options);
    EXPECT_EQ(finished.status, kSuccess) << finished.err;
    return json::parse(finished.out, nullptr, /*allow_exceptions=*/false);
  }
  static json FindingOf(const json& root, const std::string& rule) {
    for (const json& found : root["advice"]) {
      if (found["rule"] == rule) return found;
    }
    return nullptr;
  }
  // As Sample, and at one line every step copies four bytes and waits for them.
  void SampleWithItems(const std::string& name, int rank) {
    constexpr uint32_t kItemSite = 4;
    trace_db::HandSpool spool(run_, name);
    Introduce(&spool, rank);
    spool.Site(kItemSite, "/job/train.py", 40, "log");
    std::vector<tracer::TraceRecord> main;
    std::vector<tracer::TraceRecord> other;
    for (uint64_t i = 0; i < kSteps; ++i) {
      const uint64_t at = kBegin + kStep * i;
      AddStep(at, kStep, i, &main, &other);
      main.insert(main.end() - 1, {Call(report::kMemcpyHook, at + 900, at + 910, kItemSite, 4),
                                   Call(report::kSynchronizeHook, at + 910, at + 990, kItemSite)});
    }
    spool.Pass(kBegin);
    spool.Records(1, main);
    spool.Records(2, other);
    spool.End();
  }
  void FourRanks() {
    Sample("0.spool", 0);
    Sample("1.spool", 1);
    Sample("2.spool", 2, kStep * 13 / 10);
    SampleWithItems("3.spool", 3);
  }
};

TEST_F(AdviseCommandTest, OneProcess) {
  SampleWithItems("3.spool", 3);
  const Finished finished = RunIt({.run = run_});
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_EQ(finished.err, "");
  EXPECT_TRUE(finished.out.starts_with("slipstream advise: train.py\n")) << finished.out;
  EXPECT_NE(finished.out.find("rules looked at 8 steps of python3 (pid 103, rank 3), 1.00 us in the median"),
            std::string::npos)
      << finished.out;
  EXPECT_NE(finished.out.find("item-synchronize: "), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find("at /job/train.py:40 (log)"), std::string::npos) << finished.out;
  EXPECT_EQ(finished.out.find("RANKS"), std::string::npos) << finished.out;
  BuildWell();
  EXPECT_EQ(RunIt({.run = database_}).out, finished.out);

  const json root = JsonOf({.run = run_, .json = true});
  EXPECT_EQ(root["schema"], "slipstream-advise-1");
  EXPECT_EQ(root["steps"], 8);
  EXPECT_EQ(root["step_time_median_ns"], 1000);
  const json found = FindingOf(root, "item-synchronize");
  ASSERT_TRUE(found.is_object()) << root;
  EXPECT_EQ(found["places"][0]["line"], 40);
  // Every rule says something.
  EXPECT_EQ(root["advice"].size() + root["cannot_be_told"].size() + root["nothing_found"].size(),
            advise::Rules().size());
}

// The third rank is slow, and the fourth has a fault that the others do not have.
TEST_F(AdviseCommandTest, ADirectoryOfRanks) {
  FourRanks();
  const Finished finished = RunIt({.run = run_});
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_NE(finished.out.find("RANKS on node"), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find("slowest: rank 2, 300 ns a step (30.0 %) behind rank 0 in the median"), std::string::npos)
      << finished.out;
  EXPECT_NE(finished.out.find("imbalance 1.30: "), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find("communication wait: not known"), std::string::npos) << finished.out;
  const std::vector<std::string> lines = test::Split(finished.out);
  for (const char* const row : {"  rank 0       8   1.00 us         -           -  ", "  rank 1       8   1.00 us",
                                "  rank 2       8   1.30 us", "  rank 3       8   1.00 us"}) {
    EXPECT_EQ(std::count_if(lines.begin(), lines.end(), [&](const auto& line) { return line.starts_with(row); }), 1)
        << row << " in\n"
        << finished.out;
  }
  const size_t item = finished.out.find(". item-synchronize: ");
  ASSERT_NE(item, std::string::npos) << finished.out;
  EXPECT_EQ(finished.out.find("rank 3 only", item), finished.out.find("\n    ", item) + 5) << finished.out;

  const json root = JsonOf({.run = run_, .json = true});
  ASSERT_EQ(root["ranks"].size(), 4U) << root;
  EXPECT_EQ(root["ranks"][2]["step_time_median_ns"], 1300);
  EXPECT_EQ(root["slowest"]["rank"], 2);
  EXPECT_EQ(FindingOf(root, "item-synchronize")["ranks"], json::array({3}));
  for (const json& found : root["advice"]) EXPECT_FALSE(found["ranks"].empty()) << found;
}

TEST_F(AdviseCommandTest, OneOfTheRanks) {
  FourRanks();
  const json root = JsonOf({.run = run_, .rank = 3, .json = true});
  EXPECT_FALSE(root.contains("ranks"));
  EXPECT_TRUE(FindingOf(root, "item-synchronize").is_object());
  EXPECT_TRUE(FindingOf(JsonOf({.run = run_, .rank = 0, .json = true}), "item-synchronize").is_null());
  const Finished finished = RunCommand({run_, "--rank", "3"});
  EXPECT_EQ(finished.out, RunIt({.run = run_, .rank = 3}).out);
  EXPECT_NE(finished.out.find("rank 3"), std::string::npos) << finished.out;
  const Finished none = RunCommand({run_, "--rank", "7"});
  EXPECT_EQ(none.status, kFailed);
  EXPECT_EQ(none.out, "");
  EXPECT_NE(none.err.find("no process of rank 7"), std::string::npos) << none.err;
}

TEST_F(AdviseCommandTest, TheRules) {
  const Finished finished = RunCommand({"--list"});
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  const json root = json::parse(RunCommand({"--list", "--json"}).out);
  EXPECT_EQ(root["rules"].size(), advise::Rules().size());
  for (const advise::Rule& rule : advise::Rules()) {
    EXPECT_NE(("\n" + finished.out).find("\n" + std::string(rule.name) + " "), std::string::npos) << finished.out;
  }
}

TEST_F(AdviseCommandTest, AsWideAsTheScreen) {
  SampleWithItems("3.spool", 3);
  const auto longest = [&](const std::string& columns) {
    size_t most = 0;
    for (const std::string& line : test::Split(RunCommand({run_}, {{"COLUMNS", columns}}).out)) {
      most = std::max(most, line.size());
    }
    return most;
  };
  EXPECT_LE(longest(""), 80U);
  EXPECT_LE(longest("20"), 80U);
  EXPECT_GT(longest("20"), 60U);
  EXPECT_GT(longest("120"), 90U);
  EXPECT_LE(longest("120"), 120U);
  EXPECT_LE(longest("5000"), 160U);
}

TEST_F(AdviseCommandTest, WhatIsNoRun) {
  Finished finished = RunCommand({"/nowhere"});
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_EQ(finished.out, "");
  EXPECT_TRUE(finished.err.starts_with("slipstream advise: /nowhere: ")) << finished.err;
  finished = RunCommand({run_});
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_NE(finished.err.find("no .spool file in it"), std::string::npos) << finished.err;
  finished = RunCommand({});
  EXPECT_EQ(finished.status, kUsage);
  EXPECT_NE(finished.err.find("slipstream advise RUN"), std::string::npos) << finished.err;
  EXPECT_EQ(RunCommand({run_, "--nothing"}).status, kUsage);
  Sample("0.spool", 0);
  BuildWell();
  std::string drop;
  for (const std::string& table : trace_db::TablesOf(database_)) {
    if (table.starts_with("SLIPSTREAM_")) drop += "DROP TABLE " + table + ";";
  }
  report::Execute(database_, drop);
  finished = RunCommand({database_});
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_NE(finished.err.find("a database that slipstream did not make"), std::string::npos) << finished.err;
}

TEST_F(AdviseCommandTest, ARunWithoutStepsAndWithoutDevices) {
  {
    trace_db::HandSpool spool(run_, "0.spool");
    Introduce(&spool, 0);
    spool.Pass(kBegin);
    spool.Records(1, {Call(report::kLaunchHook, kBegin, kBegin + 10, report::kLaunchSite)});
    spool.End();
  }
  const Finished finished = RunCommand({run_});
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_NE(finished.out.find("in which no steps were found"), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find("Nothing worth changing was found: "), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find("CANNOT BE TOLD"), std::string::npos) << finished.out;
  const json root = json::parse(RunCommand({run_, "--json"}).out);
  EXPECT_TRUE(root["advice"].empty()) << root;
  EXPECT_FALSE(root["cannot_be_told"].empty()) << root;
}

TEST_F(AdviseCommandTest, WhatCouldNotBeReadMakesItPartial) {
  FourRanks();
  tracer::Spit(run_ + "/4.spool", "");
  const Finished finished = RunCommand({run_, "--json"});
  EXPECT_EQ(finished.status, kPartial) << finished.err;
  EXPECT_EQ(json::parse(finished.out)["ranks"].size(), 4U);
}

}  // namespace
}  // namespace slipstream::cli
