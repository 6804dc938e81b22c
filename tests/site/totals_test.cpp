// What the runs of a site add up to, and how it is shown.

#include "tools/site/totals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/site/site_testing.h"
#include "tests/support/process.h"
#include "tools/text/columns.h"

namespace slipstream::site {
namespace {

SiteView ThreeRuns() {
  SiteView view = {.directory = "/srv/runs"};
  view.totals.Add(SampleRecord());
  RunRecord failed = SampleRecord("bob", "torchrun");
  failed.exit_status = 1;
  failed.duration_s = 7200;
  failed.estimated_gain_ns = 0;
  failed.gain_unknown = false;
  failed.stood_aside = {{"transfer", "CUDA_LAUNCH_BLOCKING is set", 4}};
  view.totals.Add(failed);
  RunRecord killed = SampleRecord("bob", "python3.12");
  killed.version = "0.2.0";
  killed.exit_status.reset();
  killed.duration_s.reset();
  killed.failed_open = {{"transfer", "copies to the device declined: a driver call failed", 3}};
  view.totals.Add(killed);
  return view;
}

TEST(TotalsTest, RunsAreAddedUpByUserProgramAndVersion) {
  const SiteView view = ThreeRuns();
  const Figures& all = view.totals.all();
  EXPECT_EQ(all.runs, 3U);
  EXPECT_EQ(all.untimed, 1U);
  EXPECT_EQ(all.duration_s, 10800);
  EXPECT_DOUBLE_EQ(all.estimated_gain_s, 0.003);
  EXPECT_EQ(all.gain_unknown, 2U);
  EXPECT_EQ(all.failed, 1U);
  EXPECT_EQ(all.crashed, 1U);
  EXPECT_EQ(all.failed_open, 1U);
  EXPECT_EQ(all.stood_aside, 1U);
  const Totals::Groups& users = view.totals.Of(By::kUser);
  ASSERT_EQ(users.size(), 2U);
  EXPECT_EQ(users.at("bob").runs, 2U);
  EXPECT_EQ(users.at("bob").failed, 1U);
  EXPECT_EQ(users.at("ada").failed, 0U);
  EXPECT_EQ(view.totals.Of(By::kProgram).at("python3.12").runs, 2U);
  EXPECT_EQ(view.totals.Of(By::kVersion).at("0.2.0").crashed, 1U);
  EXPECT_EQ(view.totals.stood_aside().at({"transfer", "CUDA_LAUNCH_BLOCKING is set"}).count, 4U);
}

TEST(TotalsTest, ASignalIsACrash) {
  Totals totals;
  RunRecord record = SampleRecord();
  record.exit_status = 137;
  totals.Add(record);
  record.exit_status = 255;  // no signal has that number
  totals.Add(record);
  EXPECT_EQ(totals.all().crashed, 1U);
  EXPECT_EQ(totals.all().failed, 1U);
}

TEST(TotalsTest, MemoryIsBounded) {
  Totals totals;
  for (size_t i = 0; i < Totals::kMostGroups + 7; ++i) {
    RunRecord record = SampleRecord("user" + std::to_string(i));
    record.stood_aside = {{"transfer", "why " + std::to_string(i), 1}};
    totals.Add(record);
  }
  const Totals::Groups& users = totals.Of(By::kUser);
  EXPECT_EQ(users.size(), Totals::kMostGroups + 1);
  EXPECT_EQ(users.at(std::string(Totals::kOthers)).runs, 7U);
  EXPECT_EQ(totals.stood_aside().size(), Totals::kMostReasons + 1);
}

TEST(SiteTextTest, ThreeTablesAndTheReasons) {
  const std::string text = SiteText(ThreeRuns(), nullptr);
  EXPECT_NE(text.find("3 runs of 2 users, 3.00 hours, from 2027-01-15 to 2027-01-15 (1 of unknown\n"
                      "  duration)\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("gained: about 3.00 ms (estimated), and in 2 runs by copies what is not known\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\nuser                   runs     hours     gained  failed  crashed   open  aside\n"
                      "bob                       2      2.00    1.50 ms       1        1      1      1\n"
                      "ada                       1      1.00    1.50 ms       -        -      -      -\n"
                      "\nprogram "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\nversion "), std::string::npos) << text;
  EXPECT_NE(text.find("\nstood aside\n  transfer: CUDA_LAUNCH_BLOCKING is set (1 run, 4 processes)\n"),
            std::string::npos)
      << text;
  EXPECT_NE(
      text.find("\nfailed open\n  transfer: copies to the device declined: a driver call failed (1 run, 3 calls)\n"),
      std::string::npos)
      << text;
  EXPECT_EQ(text.find("skipped"), std::string::npos) << text;
  const By by = By::kProgram;
  const std::string one = SiteText(ThreeRuns(), &by);
  EXPECT_NE(one.find("\nprogram "), std::string::npos) << one;
  EXPECT_EQ(one.find("\nuser "), std::string::npos) << one;
}

TEST(SiteTextTest, AnEmptyDirectorySaysWhatToSet) {
  SiteView view = {.directory = "/srv/runs"};
  EXPECT_NE(SiteText(view, nullptr).find("summaries = \"/srv/runs\"\n"), std::string::npos);
  view.since = "7d";
  EXPECT_EQ(SiteText(view, nullptr), "no run of the last 7d has left a summary in /srv/runs\n");
}

TEST(SiteTextTest, HostileNamesAreTextOfAtMostEightyColumns) {
  SiteView view = {.directory = "/srv/" + std::string(200, 'd') + "\033[2J"};
  view.skipped = {.foreign = 1000, .damaged = 20, .newer = 3, .large = 1, .irregular = 4, .unreadable = 5};
  EXPECT_EQ(SiteText(view, nullptr).find('\033'), std::string::npos);
  for (int i = 0; i < 100; ++i) {
    RunRecord record = SampleRecord(std::string(300, 'u') + std::to_string(i) + "\033[2J\n", "\u202eforged\nroot 1 1");
    record.version = "\xff\x9b";
    record.duration_s = 1e9;
    record.estimated_gain_ns = uint64_t{1} << 53;
    record.exit_status = i % 2;
    record.stood_aside = {{"\033]0;x\a", std::string(400, 'y') + "\n" + std::to_string(i), 1}};
    view.totals.Add(record);
  }
  const std::string text = SiteText(view, nullptr);
  for (const std::string& line : test::Split(text)) {
    EXPECT_LE(text::Columns(line), 80U) << line;
    EXPECT_TRUE(std::all_of(line.begin(), line.end(), [](unsigned char byte) { return byte >= 0x20 && byte != 0x7F; }))
        << line;
  }
  EXPECT_EQ(text.find("\nroot 1 1"), std::string::npos) << text;
  EXPECT_NE(text.find("and 80 more: --json has all\n"), std::string::npos) << text;
  EXPECT_NE(text.find("skipped 1,033 files: 1,000 of something else, 20 truncated or damaged, 3 of a"),
            std::string::npos)
      << text;
}

TEST(SiteJsonTest, HoldsAllOfIt) {
  SiteView view = ThreeRuns();
  view.skipped.newer = 2;
  const nlohmann::json json = nlohmann::json::parse(SiteJson(view, nullptr));
  EXPECT_EQ(json["schema"], "slipstream-site-1");
  EXPECT_EQ(json["since"], nullptr);
  EXPECT_EQ(json["all"]["runs"], 3);
  EXPECT_EQ(json["by"]["user"][1]["user"], "bob");
  EXPECT_EQ(json["by"]["user"][1]["duration_s"], 7200.0);
  EXPECT_EQ(json["by"]["version"].size(), 2U);
  EXPECT_EQ(json["stood_aside"][0]["processes"], 4);
  EXPECT_EQ(json["failed_open"][0]["calls"], 3);
  EXPECT_EQ(json["skipped"]["newer"], 2);
  const By by = By::kUser;
  EXPECT_EQ(nlohmann::json::parse(SiteJson(view, &by))["by"].size(), 1U);
}

}  // namespace
}  // namespace slipstream::site
