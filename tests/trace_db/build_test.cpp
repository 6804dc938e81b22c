// How a database comes to its name, or does not: what is there already, what is in the way, and what stops it.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tests/trace_db/trace_db_testing.h"
#include "tools/trace/db/new_file.h"

namespace slipstream::trace_db {
namespace {

using test::InChild;
using tracer::Slurp;
using tracer::Spit;

class BuildTest : public TraceDbTest {
 protected:
  void SetUp() override {
    TraceDbTest::SetUp();
    HandSpool spool(run_, "a.spool");
    spool.Facts({{"pid", "10"}});
    spool.Thread(1, 100, "main");
    std::vector<tracer::TraceRecord> records;
    for (uint64_t i = 0; i < 1000; ++i) records.push_back(CallAt(10 * i, 10 * i + 5));
    for (int i = 0; i < 20; ++i) spool.Records(1, records);
    spool.End();
  }
  BuildOptions Options() const { return {.run = run_, .database = database_}; }
  BuildOptions Replacing() const { return {.run = run_, .database = database_, .replace = true}; }
};

TEST_F(BuildTest, WhatIsThereStays) {
  Spit(database_, "precious");
  EXPECT_EQ(BuildTraceDatabase(Options()).problem, BuildProblem::kExists);
  EXPECT_EQ(Slurp(database_), "precious");
  EXPECT_EQ(Names(), (std::vector<std::string>{"run", "trace.sqlite"}));
}

TEST_F(BuildTest, AndIsReplacedOnDemand) {
  Spit(database_, "precious");
  chmod(database_.c_str(), 0644);
  EXPECT_EQ(BuildTraceDatabase(Replacing()).problem, BuildProblem::kNone);
  EXPECT_EQ(One("SELECT count(*) FROM SLIPSTREAM_CALLS"), "20000");
  struct stat facts {};
  ASSERT_EQ(stat(database_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0600U);
}

// Before it has its name, and when all is in it.
TEST_F(BuildTest, GetsItsNameIfItIsAccepted) {
  BuildOptions options = Options();
  std::string calls;
  bool well = false;
  options.accept = [&](const std::string& path) {
    EXPECT_NE(path, database_);
    calls = trace_db::One(path, "SELECT count(*) FROM SLIPSTREAM_CALLS");
    return well;
  };
  EXPECT_EQ(BuildTraceDatabase(options).problem, BuildProblem::kRefused);
  EXPECT_EQ(calls, "20000");
  EXPECT_EQ(Names(), std::vector<std::string>{"run"});
  well = true;
  EXPECT_EQ(BuildTraceDatabase(options).problem, BuildProblem::kNone);
  EXPECT_EQ(Names(), (std::vector<std::string>{"run", "trace.sqlite"}));
}

// Somebody makes a file of that name while the database is being built.
TEST_F(BuildTest, WhatAppearsMeanwhileStays) {
  BuildOptions options = Options();
  options.progress = [&](const BuildProgress& progress) {
    if (progress.phase == BuildProgress::Phase::kIndexing) Spit(database_, "precious");
  };
  EXPECT_EQ(BuildTraceDatabase(options).problem, BuildProblem::kExists);
  EXPECT_EQ(Slurp(database_), "precious");
  EXPECT_EQ(Names(), (std::vector<std::string>{"run", "trace.sqlite"}));
}

TEST_F(BuildTest, ASpoolIsNeverReplaced) {
  const std::string before = Slurp(run_ + "/a.spool");
  database_ = run_ + "/../run/a.spool";
  EXPECT_EQ(BuildTraceDatabase(Replacing()).problem, BuildProblem::kIsSpool);
  run_ += "/a.spool";
  EXPECT_EQ(BuildTraceDatabase(Replacing()).problem, BuildProblem::kIsSpool);
  EXPECT_EQ(Slurp(run_), before);
}

TEST_F(BuildTest, ALinkIsReplacedAndNotFollowed) {
  Spit(directory_ + "/other", "precious");
  ASSERT_EQ(symlink("other", database_.c_str()), 0);
  EXPECT_EQ(BuildTraceDatabase(Options()).problem, BuildProblem::kExists);
  EXPECT_EQ(BuildTraceDatabase(Replacing()).problem, BuildProblem::kNone);
  EXPECT_EQ(Slurp(directory_ + "/other"), "precious");
  EXPECT_EQ(One("SELECT count(*) FROM SLIPSTREAM_CALLS"), "20000");
}

TEST_F(BuildTest, WhatIsNoFileIsNeverReplaced) {
  ASSERT_EQ(mkfifo(database_.c_str(), 0600), 0);
  EXPECT_EQ(BuildTraceDatabase(Replacing()).problem, BuildProblem::kPlace);
  ASSERT_EQ(unlink(database_.c_str()), 0);
  ASSERT_EQ(symlink("/dev/null", database_.c_str()), 0);
  EXPECT_EQ(BuildTraceDatabase(Replacing()).problem, BuildProblem::kPlace);
  EXPECT_EQ(std::filesystem::read_symlink(database_), "/dev/null");
}

// SQLite takes some names for more than that.
TEST_F(BuildTest, AnyName) {
  const auto finished = InChild([&] {
    if (chdir(directory_.c_str()) != 0) return 77;
    for (const char* name : {"file:x?mode=memory", ":memory:", "a b'\"\xff.sqlite", "-x"}) {
      const BuildResult result = BuildTraceDatabase({.run = "run", .database = name});
      if (result.problem != BuildProblem::kNone || !std::filesystem::is_regular_file(name)) return 1;
    }
    return 0;
  });
  EXPECT_EQ(finished.status, 0);
  EXPECT_EQ(Names().size(), 5U);
}

TEST_F(BuildTest, PlacesWhereNoFileCanBe) {
  database_ = directory_ + "/missing/trace.sqlite";
  BuildResult result = Build();
  EXPECT_EQ(result.problem, BuildProblem::kPlace);
  EXPECT_EQ(result.what, "No such file or directory");
  database_ = run_;
  EXPECT_EQ(BuildTraceDatabase(Replacing()).problem, BuildProblem::kPlace);
  database_ = directory_ + "/" + std::string(300, 'x');
  EXPECT_EQ(Build().problem, BuildProblem::kPlace);
  EXPECT_EQ(Names(), std::vector<std::string>{"run"});
}

TEST_F(BuildTest, ADirectoryThatCannotBeWritten) {
  chmod(directory_.c_str(), 0555);
  chmod(run_.c_str(), 0555);
  chmod((run_ + "/a.spool").c_str(), 0444);
  const auto finished = InChild([&] {
    if (!test::BecomeNobody()) return 77;
    return Build().problem == BuildProblem::kPlace ? 0 : 1;
  });
  chmod(directory_.c_str(), 0755);
  chmod(run_.c_str(), 0755);
  EXPECT_EQ(finished.status, 0);
  EXPECT_EQ(Names(), std::vector<std::string>{"run"});
}

// At any moment: before the first record, among them, in the indices.
TEST_F(BuildTest, StoppedAtAnyMoment) {
  int looks = 0;
  BuildOptions options = Options();
  options.progress = [&](const BuildProgress&) { ++looks; };
  ASSERT_EQ(BuildTraceDatabase(options).problem, BuildProblem::kNone);
  ASSERT_GT(looks, 8);
  ASSERT_EQ(unlink(database_.c_str()), 0);
  for (int at = 0; at <= looks; ++at) {
    SCOPED_TRACE(at);
    std::atomic<bool> stop{at == 0};
    int seen = 0;
    options.stop = &stop;
    options.progress = [&](const BuildProgress&) {
      if (++seen == at) stop = true;
    };
    const BuildResult result = BuildTraceDatabase(options);
    EXPECT_EQ(result.problem, BuildProblem::kStopped);
    EXPECT_TRUE(result.processes.empty());
    EXPECT_EQ(Names(), std::vector<std::string>{"run"});
  }
}

TEST_F(BuildTest, ProgressGoesFromNothingToAll) {
  uint64_t last = 0;
  auto phase = BuildProgress::Phase::kReading;
  BuildOptions options = Options();
  const uint64_t bytes = Slurp(run_ + "/a.spool").size();
  options.progress = [&](const BuildProgress& progress) {
    if (progress.phase != phase) last = 0;
    EXPECT_GE(progress.phase, phase);
    EXPECT_GE(progress.done_bytes, last);
    EXPECT_LE(progress.done_bytes, progress.total_bytes);
    EXPECT_EQ(progress.total_bytes, bytes);
    last = progress.done_bytes;
    phase = progress.phase;
  };
  EXPECT_EQ(BuildTraceDatabase(options).problem, BuildProblem::kNone);
  EXPECT_EQ(phase, BuildProgress::Phase::kIndexing);
  EXPECT_EQ(last, bytes);
}

// Most calls have no stack, and a row less in an index each.
TEST_F(BuildTest, CallsAreFoundByWhereTheyCameFrom) {
  ASSERT_EQ(BuildTraceDatabase(Options()).problem, BuildProblem::kNone);
  for (const std::string column : {"siteId", "stackId", "nativeStackId"}) {
    const Rows plan = Query("EXPLAIN QUERY PLAN SELECT bytes FROM SLIPSTREAM_CALLS WHERE " + column + " = 3");
    ASSERT_EQ(plan.size(), 1U);
    EXPECT_NE(plan[0].back().find("USING INDEX SLIPSTREAM_CALLS_BY_"), std::string::npos) << plan[0].back();
  }
}

// Nobody waits for a disk, and everything else is as ever.
TEST_F(BuildTest, ATemporaryOneIsWholeToo) {
  BuildOptions options = Options();
  options.temporary = true;
  EXPECT_EQ(BuildTraceDatabase(options).problem, BuildProblem::kNone);
  EXPECT_EQ(One("SELECT count(*) FROM SLIPSTREAM_CALLS"), "20000");
  EXPECT_EQ(Names(), (std::vector<std::string>{"run", "trace.sqlite"}));
}

TEST_F(BuildTest, WhatKilledOnesLeftIsRemoved) {
  struct Left {
    std::string name;
    bool is_old;
    bool stays;
  };
  const std::vector<Left> all = {{"trace.sqlite.new-abcdef", true, false}, {"trace.sqlite.new-ABCDEF", false, true},
                                 {"trace.sqlite.new-abcde", true, true},   {"trace.sqlite.new-abcdefg", true, true},
                                 {"other.sqlite.new-abcdef", true, true},  {"trace.sqlite", true, true}};
  const timespec hours_ago[] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
  std::vector<std::string> expected = {"run", "trace.sqlite.new-link00"};
  for (const Left& left : all) {
    Spit(directory_ + "/" + left.name, "x");
    if (left.is_old) {
      ASSERT_EQ(utimensat(AT_FDCWD, (directory_ + "/" + left.name).c_str(), hours_ago, 0), 0);
    }
    if (left.stays) expected.push_back(left.name);
  }
  const std::string link = directory_ + "/trace.sqlite.new-link00";
  ASSERT_EQ(symlink("run", link.c_str()), 0);
  ASSERT_EQ(utimensat(AT_FDCWD, link.c_str(), hours_ago, AT_SYMLINK_NOFOLLOW), 0);
  NewFile::RemoveAbandoned(database_);
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(Names(), expected);
  NewFile::RemoveAbandoned(directory_ + "/missing/trace.sqlite");
}

}  // namespace
}  // namespace slipstream::trace_db
