// `slipstream report` as a user and a script meet it: what it takes, what it leaves behind, and its exit status.

#include "tools/cli/report_command.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/report/report_testing.h"
#include "tests/support/plain_build.h"
#include "tests/support/process.h"
#include "tools/cli/exit_codes.h"

namespace slipstream::cli {
namespace {

using test::Finished;
using test::InChild;
using tracer::Slurp;
using tracer::Spit;

class ReportCommandTest : public report::ReportTest {
 protected:
  void SetUp() override {
    ReportTest::SetUp();
    page_ = directory_ + "/page.html";
  }
  static Finished RunIt(const ReportCommandOptions& options) {
    return InChild([&] { return Report(options, "1.2.3"); });
  }
  // All of it, which names no command and so not the run either.
  static Finished RunFull(ReportCommandOptions options) {
    options.full = true;
    return RunIt(options);
  }
  static Finished RunCommand(std::vector<std::string> words) {
    words.insert(words.begin(), SLIPSTREAM_COMMAND);
    return test::RunProgram(words);
  }

  std::string Kept() const { return run_ + "/slipstream-cache.sqlite"; }
  static ino_t InodeOf(const std::string& path) {
    struct stat facts {};
    EXPECT_EQ(stat(path.c_str(), &facts), 0) << path;
    return facts.st_ino;
  }

  std::string page_;
};

TEST_F(ReportCommandTest, ADirectoryASpoolAndADatabaseSayTheSame) {
  Sample("0.spool", 0);
  const Finished finished = RunFull({.run = run_});
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_EQ(finished.err, "");
  EXPECT_TRUE(finished.out.starts_with("VERDICT: what the GPU did was not recorded")) << finished.out;
  EXPECT_NE(finished.out.find("\nslipstream report: train.py\n"), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find("STEPS of python3 (pid 100, rank 0): 8 steps"), std::string::npos) << finished.out;
  EXPECT_EQ(RunFull({.run = run_ + "/0.spool"}).out, finished.out);
  BuildWell();
  const std::string before = Slurp(database_);
  EXPECT_EQ(RunFull({.run = database_}).out, finished.out);
  EXPECT_EQ(Slurp(database_), before);
  EXPECT_EQ(Names(), (std::vector<std::string>{"run", "trace.sqlite"}));
}

TEST_F(ReportCommandTest, OneScreenThatSaysWhereTheRestIs) {
  Sample("0.spool", 0);
  const std::string text = RunIt({.run = run_}).out;
  EXPECT_NE(text.find("\nA STEP of 1.00 us: mean of 8 "), std::string::npos) << text;
  EXPECT_EQ(text.find("NOT SEEN"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("\nmore: --full; next: slipstream advise " + run_ + "\n")) << text;
  EXPECT_EQ(RunCommand({"report", run_}).out, text);
  const std::string full = RunCommand({"report", "--full", run_}).out;
  EXPECT_NE(full.find("\nNOT SEEN\n"), std::string::npos) << full;
  EXPECT_EQ(full.find("more: --full"), std::string::npos) << full;
  // A command that no line has room for is not cut: it could not be pasted.
  const std::string long_name = run_ + std::string(80, 'r');
  std::filesystem::rename(run_, long_name);
  const std::string named = RunIt({.run = long_name}).out;
  EXPECT_TRUE(named.ends_with("\nmore: --full; next: slipstream advise, of the same run\n")) << named;
}

// The trace is read piece by piece, into a database that is on the disk too: neither has to fit into memory.
TEST_F(ReportCommandTest, C18_AReportOfALongTraceTakesLittleMemory) {
  NEEDS_NO_SANITIZER("a sanitizer's own memory grows");
  constexpr uint64_t kCalls = 2'000'000;
  constexpr uint64_t kStepCalls = 1000;
  constexpr uint64_t kCallNs = 10;
  {
    trace_db::HandSpool spool(run_, "0.spool");
    Introduce(&spool, 0);
    uint64_t at = kBegin;
    for (uint64_t step = 0; step < kCalls / kStepCalls; ++step) {
      const uint64_t begin = at;
      std::vector<tracer::TraceRecord> records;
      for (uint64_t i = 0; i < kStepCalls; ++i, at += kCallNs) {
        records.push_back(report::Call(report::kLaunchHook, at, at + kCallNs / 2, report::kLaunchSite));
      }
      records.push_back(tracer::StepRecord(begin, at, step));
      spool.Pass(at);
      spool.Records(1, records);
    }
    spool.End();
  }
  ASSERT_GE(std::filesystem::file_size(run_ + "/0.spool"), kCalls * sizeof(tracer::TraceRecord));
  // A process of its own: this one's peak may be another test's.
  const Finished finished = InChild([&] {
    const auto peak_kib = [] {
      rusage usage{};
      getrusage(RUSAGE_SELF, &usage);
      return usage.ru_maxrss;
    };
    const long before = peak_kib();
    if (Report({.run = run_}, "1.2.3") != kSuccess) return 1;
    // SQLite may keep pages of 64 MiB, and the records alone are 122 MiB.
    std::fprintf(stderr, "%ld MiB more\n", (peak_kib() - before) >> 10);
    return peak_kib() - before < 150 << 10 ? 0 : 2;
  });
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_NE(finished.out.find("2,000,000 CUDA"), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find("mean of 2,000 "), std::string::npos) << finished.out;
  EXPECT_GE(std::filesystem::file_size(Kept()), kCalls * sizeof(tracer::TraceRecord));
}

// As srun leaves them: a directory a rank.
TEST_F(ReportCommandTest, RanksThatWereRecordedApart) {
  Sample("0.spool", 0);
  Sample("1.spool", 1, 1200);
  const std::string whole = RunFull({.run = run_}).out;
  const std::string other = directory_ + "/other";
  std::filesystem::create_directory(other);
  std::filesystem::rename(run_ + "/1.spool", other + "/1.spool");
  EXPECT_NE(RunFull({.run = run_}).out, whole);
  EXPECT_EQ(RunFull({.run = run_, .more = {other}}).out, whole);
  EXPECT_EQ(RunFull({.run = other + "/1.spool", .more = {run_}}).out, whole);
  EXPECT_EQ(RunFull({.run = run_, .more = {other, run_ + "/0.spool", other + "/"}}).out, whole) << "each once";
  EXPECT_EQ(RunCommand({"report", "--full", run_, other}).out, whole);
  EXPECT_EQ(RunCommand({"advise", run_, other, "--rank", "0"}).status, kSuccess);
  const std::string database = directory_ + "/all.sqlite";
  EXPECT_EQ(RunCommand({"export", run_, other, "--sqlite", database}).status, kSuccess);
  EXPECT_EQ(RunFull({.run = database}).out, whole.substr(0, whole.size()));

  // Nothing of either is written over.
  const Finished finished = RunFull({.run = run_, .more = {other}, .html = other + "/1.spool", .force = true});
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_NE(finished.err.find("would be lost"), std::string::npos) << finished.err;
  const Finished exported = RunCommand({"export", run_, other, "--chrome", other + "/1.spool", "--force"});
  EXPECT_EQ(exported.status, kFailed) << exported.out;
  EXPECT_EQ(RunFull({.run = run_, .more = {other}}).out, whole);

  const Finished mixed = RunFull({.run = run_, .more = {database}});
  EXPECT_EQ(mixed.status, kFailed);
  EXPECT_NE(mixed.err.find(database + ": a database, which cannot be put together"), std::string::npos) << mixed.err;
  const Finished missing = RunFull({.run = run_, .more = {directory_ + "/none"}});
  EXPECT_NE(missing.status, kSuccess);
  EXPECT_NE(missing.err.find("/none: No such file"), std::string::npos) << missing.err;
  std::filesystem::create_directory(directory_ + "/empty");
  const Finished empty = RunFull({.run = run_, .more = {directory_ + "/empty"}});
  EXPECT_NE(empty.err.find("/empty: no .spool file in it"), std::string::npos) << empty.err;
}

TEST_F(ReportCommandTest, ForScripts) {
  Sample("0.spool", 0);
  const Finished finished = RunIt({.run = run_, .json = true});
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  const auto json = nlohmann::json::parse(finished.out);
  EXPECT_EQ(json["schema"], "slipstream-report-1");
  EXPECT_EQ(json["partial"], false);
  EXPECT_EQ(json["database_by"], "slipstream 1.2.3");
  EXPECT_EQ(json["processes"][0]["steps"]["measured"], 8);
}

TEST_F(ReportCommandTest, APage) {
  Sample("0.spool", 0);
  const Finished finished = RunIt({.run = run_, .html = page_});
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_TRUE(finished.out.ends_with("page: " + page_ + "\n")) << finished.out;
  const std::string page = Slurp(page_);
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>"));
  const nlohmann::json advice = nlohmann::json::parse(RunCommand({"advise", "--json", run_}).out)["advice"];
  ASSERT_FALSE(advice.empty());
  for (const nlohmann::json& finding : advice) {
    const std::string rule = finding["rule"];
    EXPECT_NE(page.find("<h3>" + rule + ": "), std::string::npos) << rule;
    EXPECT_NE(page.find("<code>slipstream help " + rule + "</code>"), std::string::npos) << rule;
  }
  struct stat facts {};
  ASSERT_EQ(stat(page_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0600U);
  EXPECT_EQ(Names(), (std::vector<std::string>{"page.html", "run"}));
}

TEST_F(ReportCommandTest, WhatIsThereStays) {
  Sample("0.spool", 0);
  Spit(page_, "precious");
  const Finished finished = RunIt({.run = run_, .html = page_});
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_EQ(finished.out, "");
  EXPECT_NE(finished.err.find("--force replaces it"), std::string::npos) << finished.err;
  EXPECT_EQ(Slurp(page_), "precious");
  EXPECT_EQ(RunIt({.run = run_, .html = page_, .force = true}).status, kSuccess);
  EXPECT_TRUE(Slurp(page_).starts_with("<!DOCTYPE html>"));
}

TEST_F(ReportCommandTest, WhatIsReadIsNeverReplaced) {
  Sample("0.spool", 0);
  BuildWell();
  const std::string spool = run_ + "/0.spool";
  for (const auto& [run, page] : std::vector<std::pair<std::string, std::string>>{
           {run_, spool}, {spool, run_ + "/../run/0.spool"}, {database_, database_}, {run_, run_}}) {
    const std::string before = page == run_ ? "" : Slurp(page);
    const Finished finished = RunIt({.run = run, .html = page, .force = true});
    EXPECT_EQ(finished.status, kFailed) << page;
    EXPECT_NE(finished.err, "");
    if (page != run_) {
      EXPECT_EQ(Slurp(page), before);
    }
  }
  ASSERT_EQ(mkfifo(page_.c_str(), 0600), 0);
  EXPECT_EQ(RunIt({.run = run_, .html = page_, .force = true}).status, kFailed);
  EXPECT_TRUE(std::filesystem::is_fifo(page_));
}

TEST_F(ReportCommandTest, PlacesWhereNoPageCanBe) {
  Sample("0.spool", 0);
  const Finished finished = RunIt({.run = run_, .html = directory_ + "/missing/page.html"});
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_EQ(finished.out, "");
  EXPECT_NE(finished.err.find("No such file or directory\n  Name a file"), std::string::npos) << finished.err;
}

TEST_F(ReportCommandTest, WhatCouldNotBeReadMakesItPartial) {
  Sample("0.spool", 0);
  Spit(run_ + "/1.spool", "");
  const Finished finished = RunIt({.run = run_, .json = true});
  EXPECT_EQ(finished.status, kPartial) << finished.err;
  EXPECT_EQ(nlohmann::json::parse(finished.out)["partial"], true);
  EXPECT_NE(RunIt({.run = run_}).out.find("1.spool"), std::string::npos);
}

TEST_F(ReportCommandTest, AProcessThatWasKilledIsNotPartial) {
  Sample("0.spool", 0, kStep, /*ends=*/false);
  const Finished finished = RunIt({.run = run_});
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_NE(finished.out.find("it was killed or still runs"), std::string::npos) << finished.out;
}

TEST_F(ReportCommandTest, WhatIsNoRun) {
  Finished finished = RunIt({.run = "/nowhere"});
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_TRUE(finished.err.starts_with("slipstream report: ")) << finished.err;
  Sample("0.spool", 0);
  BuildWell();
  report::Execute(database_, "DROP TABLE SLIPSTREAM_PROCESSES; DROP TABLE CUPTI_ACTIVITY_KIND_RUNTIME");
  finished = RunIt({.run = database_});
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_NE(finished.err.find("holds no CUDA calls and no kernels"), std::string::npos) << finished.err;
  EXPECT_EQ(finished.out, "");
}

// Its tables are there and lack what slipstream's have.
TEST_F(ReportCommandTest, ADatabaseThatCannotBeReadToItsEnd) {
  Sample("0.spool", 0);
  BuildWell();
  report::Execute(database_, "ALTER TABLE SLIPSTREAM_CALLS RENAME COLUMN siteId TO other");
  const Finished finished = RunIt({.run = database_});
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_EQ(finished.out, "");
  EXPECT_NE(finished.err.find("cannot be read to its end: "), std::string::npos) << finished.err;
}

// The database stays with the run, and so does all that is said of its spools.
TEST_F(ReportCommandTest, TheSecondTimeItSaysTheSame) {
  Sample("0.spool", 0);
  Sample("1.spool", 1, kStep, /*ends=*/false);
  Spit(run_ + "/2.spool", "");
  const Finished text = RunIt({.run = run_});
  EXPECT_EQ(text.status, kPartial) << text.err;
  EXPECT_NE(text.out.find("2.spool"), std::string::npos) << text.out;
  const ino_t made = InodeOf(Kept());
  EXPECT_EQ(RunIt({.run = run_}).out, text.out);
  const Finished json = RunIt({.run = run_, .json = true});
  EXPECT_EQ(json.status, kPartial) << json.err;
  EXPECT_EQ(InodeOf(Kept()), made);
  EXPECT_EQ(RunIt({.run = run_, .json = true, .input = {.keep = false}}).out, json.out);
}

// Nobody sees it before it is read.
TEST_F(ReportCommandTest, DamageInsideTheKeptDatabaseCostsTimeOnly) {
  Sample("0.spool", 0);
  const Finished first = RunIt({.run = run_});
  EXPECT_EQ(first.status, kSuccess) << first.err;
  const std::string advice = RunCommand({"advise", run_}).out;
  for (const char* command : {"report", "advise"}) {
    EXPECT_EQ(RunCommand({command, run_}).status, kSuccess);  // makes its own
    trace_db::DamageTable(Kept(), "SLIPSTREAM_CALLS");
    const std::string bytes = Slurp(Kept());
    const Finished again = RunCommand({command, run_});
    EXPECT_EQ(again.status, kSuccess) << again.err;
    EXPECT_EQ(again.err, "");
    EXPECT_EQ(again.out, command == std::string("report") ? first.out : advice);
    EXPECT_NE(Slurp(Kept()), bytes);
  }
}

TEST_F(ReportCommandTest, WhereTheDatabaseIs) {
  Sample("0.spool", 0);
  const std::string whole = RunCommand({"report", run_, "--no-cache"}).out;
  EXPECT_FALSE(std::filesystem::exists(Kept()));
  const Finished kept = RunCommand({"report", run_, "--verbose"});
  EXPECT_EQ(kept.err, "slipstream report: the database stays in " + Kept() + "\n");
  EXPECT_EQ(kept.out, whole);
  EXPECT_EQ(RunCommand({"advise", run_, "-v"}).err, "slipstream advise: the database is used again: " + Kept() + "\n");
  EXPECT_EQ(RunCommand({"advise", run_, "-v", "--rebuild"}).err,
            "slipstream advise: the database stays in " + Kept() + "\n");
  const std::string file = directory_ + "/trace.json";
  EXPECT_EQ(RunCommand({"export", run_, "-v", "--chrome", file}).err,
            "slipstream export: the database is used again: " + Kept() + "\n");
}

TEST_F(ReportCommandTest, AsWideAsTheScreen) {
  Sample("0.spool", 0);
  const auto longest = [&](const std::string& columns) {
    size_t most = 0;
    for (const std::string& line :
         test::Split(test::RunProgram({SLIPSTREAM_COMMAND, "report", run_}, {{"COLUMNS", columns}}).out)) {
      most = std::max(most, line.size());
    }
    return most;
  };
  EXPECT_LE(longest(""), 80U);
  EXPECT_LE(longest("none"), 80U);
  EXPECT_GT(longest("140"), 110U);
  EXPECT_LE(longest("140"), 140U);
  EXPECT_LE(longest("5000"), 160U);
}

TEST_F(ReportCommandTest, StandardOutputThatIsFull) {
  Sample("0.spool", 0);
  const Finished finished = InChild([&] {
    if (std::freopen("/dev/full", "w", stdout) == nullptr) return 77;
    return Report({.run = run_}, "1.2.3");
  });
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_NE(finished.err.find("standard output"), std::string::npos) << finished.err;
}

TEST_F(ReportCommandTest, TheCommandLine) {
  Sample("0.spool", 0);
  Finished finished = RunCommand({"report"});
  EXPECT_EQ(finished.status, kUsage);
  EXPECT_NE(finished.err.find("slipstream report RUN"), std::string::npos) << finished.err;
  EXPECT_EQ(RunCommand({"report", run_, "--nothing"}).status, kUsage);
  finished = RunCommand({"report", run_});
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_EQ(finished.out, RunIt({.run = run_}).out);
  EXPECT_EQ(RunCommand({"report", run_, "--html", page_, "--json"}).status, kSuccess);
  EXPECT_TRUE(std::filesystem::exists(page_));
}

}  // namespace
}  // namespace slipstream::cli
