// What commands that read a recorded run take for one, and what they say and leave behind where it is none.

#include "tools/cli/trace_input.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tests/trace_db/trace_db_testing.h"
#include "tools/cli/trace_build.h"

namespace slipstream::cli {
namespace {

using test::Finished;
using test::InChild;
using trace_db::Question;

// What a file is known by: another one of its name has another.
struct Identity {
  ino_t inode = 0;
  int64_t written_ns = 0;
  bool operator==(const Identity&) const = default;
};

class TraceInputTest : public trace_db::TraceDbTest {
 protected:
  void SetUp() override {
    TraceDbTest::SetUp();
    kept_ = run_ + "/slipstream-cache.sqlite";
  }
  static void Spool(const std::string& folder, const std::string& name, uint64_t calls = 2) {
    trace_db::HandSpool spool(folder, name);
    spool.Facts({{"pid", "100"}, {"host", "node"}});
    spool.Name(tracer::NameTable::kHooks, 0, "cudaMalloc");
    spool.Clock(999, 1001, 1'000'000'000'000'000'000);
    spool.Thread(1, 100, "main");
    spool.Pass(1000);
    for (uint64_t i = 0; i < calls; ++i) spool.Records(1, {trace_db::CallAt(2000 + 1000 * i, 2500 + 1000 * i)});
    spool.End();
  }
  void Sample() const { Spool(run_, "0.spool"); }

  struct How {
    TraceInputOptions options{};
    std::string version = "1.2.3";
    std::vector<std::string> more{};
    std::function<void()> before = [] {};
  };
  // In a child: the exit status is OpenTrace's, and standard output the number of calls that the database has, whether
  // that was named, and whether it was used again.
  static int OpenHere(const std::string& run, const How& how) {
    how.before();
    const EndingSignals signals;
    const TraceInput input = OpenTrace({"report", run, how.version, how.more, how.options});
    if (input.status != kSuccess) return input.status;
    Question question(*input.database, "SELECT count(*) FROM SLIPSTREAM_CALLS");
    const bool has_row = question.Next();
    std::printf("%s %d%s", has_row ? std::to_string(question.Number(0)).c_str() : "none", input.was_database,
                input.reused ? " again" : "");
    std::fflush(stdout);
    return input.status;
  }
  static Finished Open(const std::string& run, const How& how) {
    return InChild([&] { return OpenHere(run, how); });
  }
  static Finished Open(const std::string& run) { return Open(run, How()); }
  static How InTemporaryFolder(const std::string& folder) {
    return {.options = {.keep = false}, .before = [folder] { setenv("TMPDIR", folder.c_str(), 1); }};
  }
  static Identity IdentityOf(const std::string& path) {
    struct stat facts {};
    EXPECT_EQ(stat(path.c_str(), &facts), 0) << path;
    return {facts.st_ino, facts.st_mtim.tv_sec * 1'000'000'000 + facts.st_mtim.tv_nsec};
  }
  std::string NewFolder(const std::string& name) {
    std::string folder = std::filesystem::path(database_).parent_path().string() + "/" + name;
    std::filesystem::create_directory(folder);
    return folder;
  }

  std::string kept_;
};

TEST_F(TraceInputTest, ARunsDirectory) {
  Sample();
  const Finished finished = Open(run_);
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_EQ(finished.out, "2 0");
  EXPECT_EQ(finished.err, "");
}

TEST_F(TraceInputTest, OneSpoolFile) {
  Sample();
  EXPECT_EQ(Open(run_ + "/0.spool").out, "2 0");
}

TEST_F(TraceInputTest, ADatabaseThatWasMadeBefore) {
  Sample();
  ASSERT_EQ(trace_db::BuildTraceDatabase({.run = run_, .database = database_}).problem, trace_db::BuildProblem::kNone);
  const Finished finished = Open(database_);
  EXPECT_EQ(finished.out, "2 1") << finished.err;
}

TEST_F(TraceInputTest, ADatabaseWhoseNameIsNoUri) {
  Sample();
  const std::string odd = NewFolder("a?b#c%20d &mode=rw") + "/x?mode=memory";
  ASSERT_EQ(trace_db::BuildTraceDatabase({.run = run_, .database = odd}).problem, trace_db::BuildProblem::kNone);
  EXPECT_EQ(Open(odd).out, "2 1");
}

TEST_F(TraceInputTest, NothingIsLeftInTheTemporaryDirectory) {
  Sample();
  const std::string folder = NewFolder("tmp");
  const Finished finished = Open(run_, InTemporaryFolder(folder));
  EXPECT_EQ(finished.out, "2 0");
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  EXPECT_EQ(test::NamesIn(run_), std::vector<std::string>{"0.spool"});
  const Finished none = Open(NewFolder("empty"), InTemporaryFolder(folder));
  EXPECT_EQ(none.status, kFailed);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST_F(TraceInputTest, ATemporaryDirectoryThatIsNotThere) {
  Sample();
  How how = InTemporaryFolder("/nowhere");
  how.options.verbose = true;
  const Finished finished = Open(run_, how);
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_EQ(finished.out, "2 0");
  EXPECT_NE(finished.err.find("slipstream report: /nowhere: cannot be written\n"), std::string::npos) << finished.err;
  EXPECT_NE(finished.err.find("is made in /var/tmp, and not kept\n"), std::string::npos) << finished.err;
}

TEST_F(TraceInputTest, WhereThereIsNoRoom) {
  Sample();
  const std::string folder = NewFolder("tmp");
  const Finished finished = Open(run_, {.before = [&] {
                                   setenv("TMPDIR", folder.c_str(), 1);
                                   const rlimit little = {100'000, 100'000};
                                   setrlimit(RLIMIT_FSIZE, &little);
                                 }});
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_EQ(finished.out, "");
  EXPECT_NE(finished.err.find(": no room: File too large"), std::string::npos) << finished.err;
  EXPECT_NE(finished.err.find("`TMPDIR=/big slipstream report " + run_ + "`"), std::string::npos) << finished.err;
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  EXPECT_EQ(test::NamesIn(run_), std::vector<std::string>{"0.spool"});
}

TEST_F(TraceInputTest, IsBuiltOnceAndUsedAgain) {
  Sample();
  const Finished first = Open(run_, {.options = {.verbose = true}});
  EXPECT_EQ(first.out, "2 0");
  EXPECT_EQ(first.err, "slipstream report: the database stays in " + kept_ + "\n");
  EXPECT_EQ(test::NamesIn(run_), (std::vector<std::string>{"0.spool", "slipstream-cache.sqlite"}));
  EXPECT_EQ(test::ModeOf(kept_), 0600U);
  const Identity made = IdentityOf(kept_);
  const Finished second = Open(run_, {.options = {.verbose = true}});
  EXPECT_EQ(second.out, "2 0 again");
  EXPECT_EQ(second.err, "slipstream report: the database is used again: " + kept_ + "\n");
  EXPECT_EQ(Open(run_ + "/").out, "2 0 again");
  EXPECT_EQ(Open(run_).err, "");
  EXPECT_EQ(IdentityOf(kept_), made);
  EXPECT_EQ(Open(kept_).out, "2 1") << "it is a database like any other";
}

// A run that was killed has no end, and does not change any more.
TEST_F(TraceInputTest, OfAProcessThatWasKilledItIsUsedAgainUntilTheFileGrows) {
  {
    trace_db::HandSpool spool(run_, "0.spool");
    spool.Thread(1, 100, "main");
    spool.Records(1, {trace_db::CallAt(10, 20)});
    spool.Flush();
    EXPECT_EQ(Open(run_).out, "1 0");
    EXPECT_EQ(Open(run_).out, "1 0 again");
    spool.Records(1, {trace_db::CallAt(30, 40)});
    spool.Flush();
  }
  EXPECT_EQ(Open(run_).out, "2 0");
  EXPECT_EQ(Open(run_).out, "2 0 again");
}

TEST_F(TraceInputTest, ASpoolThatWasReplacedOrCameLater) {
  Sample();
  EXPECT_EQ(Open(run_).out, "2 0");
  const std::string other = NewFolder("other");
  std::filesystem::permissions(other, std::filesystem::perms::owner_all);
  Spool(other, "0.spool", 5);
  std::filesystem::rename(other + "/0.spool", run_ + "/0.spool");
  EXPECT_EQ(Open(run_).out, "5 0");
  EXPECT_EQ(Open(run_).out, "5 0 again");
  Spool(run_, "1.spool", 3);
  EXPECT_EQ(Open(run_).out, "8 0");
  std::filesystem::remove(run_ + "/0.spool");
  EXPECT_EQ(Open(run_).out, "3 0");
}

TEST_F(TraceInputTest, AnotherVersionMakesItsOwn) {
  Sample();
  EXPECT_EQ(Open(run_).out, "2 0");
  EXPECT_EQ(Open(run_, {.version = "1.2.4"}).out, "2 0");
  EXPECT_EQ(Open(run_, {.version = "1.2.4"}).out, "2 0 again");
  EXPECT_EQ(trace_db::One(kept_, "SELECT value FROM META_DATA_EXPORT WHERE name = 'EXPORT_PRODUCT_VERSION'"), "1.2.4");
}

TEST_F(TraceInputTest, OnDemandItIsMadeAgainOrLeftAlone) {
  Sample();
  EXPECT_EQ(Open(run_).out, "2 0");
  const Identity first = IdentityOf(kept_);
  // Its inode may be given to the next file of that name; one that is kept open is not.
  const int held = open(kept_.c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(Open(run_, {.options = {.rebuild = true}}).out, "2 0");
  close(held);
  const Identity second = IdentityOf(kept_);
  EXPECT_NE(second.inode, first.inode);
  EXPECT_EQ(Open(run_, {.options = {.keep = false}}).out, "2 0");
  EXPECT_EQ(IdentityOf(kept_), second);
  EXPECT_EQ(Open(run_).out, "2 0 again");
}

TEST_F(TraceInputTest, ADamagedOneIsMadeAgain) {
  Sample();
  EXPECT_EQ(Open(run_).out, "2 0");
  ASSERT_EQ(truncate(kept_.c_str(), 5000), 0);
  const Finished finished = Open(run_);
  EXPECT_EQ(finished.out, "2 0");
  EXPECT_EQ(finished.err, "");
  EXPECT_EQ(Open(run_).out, "2 0 again");
}

TEST_F(TraceInputTest, WhatSomebodyPutThereStaysAndIsNotRead) {
  Sample();
  const std::string precious = std::filesystem::path(database_).parent_path().string() + "/precious";
  tracer::Spit(precious, "precious");
  ASSERT_EQ(symlink(precious.c_str(), kept_.c_str()), 0);
  const Finished link = Open(run_, {.options = {.verbose = true}});
  EXPECT_EQ(link.out, "2 0") << link.err;
  EXPECT_NE(link.err.find("no database is kept with the run: " + kept_), std::string::npos) << link.err;
  EXPECT_EQ(std::filesystem::read_symlink(kept_), precious);
  EXPECT_EQ(tracer::Slurp(precious), "precious");

  ASSERT_EQ(unlink(kept_.c_str()), 0);
  EXPECT_EQ(Open(run_).out, "2 0");
  chmod(kept_.c_str(), 0666);
  const Identity planted = IdentityOf(kept_);
  EXPECT_EQ(Open(run_).out, "2 0");
  EXPECT_EQ(IdentityOf(kept_), planted);
}

TEST_F(TraceInputTest, OfADirectoryThatOthersMayWriteToNoneIsKept) {
  Sample();
  chmod(run_.c_str(), 0777);
  const Finished finished = Open(run_, {.options = {.verbose = true}});
  EXPECT_EQ(finished.out, "2 0");
  EXPECT_NE(finished.err.find("others may write to " + run_ + "\n"), std::string::npos) << finished.err;
  EXPECT_EQ(test::NamesIn(run_), std::vector<std::string>{"0.spool"});
}

TEST_F(TraceInputTest, OfADirectoryThatCannotBeWrittenNoneIsKept) {
  Sample();
  chmod(directory_.c_str(), 0755);
  chmod((run_ + "/0.spool").c_str(), 0444);
  chmod(run_.c_str(), 0555);
  const std::string folder = NewFolder("tmp");
  chmod(folder.c_str(), 0777);
  const Finished finished = Open(run_, {.options = {.verbose = true}, .before = [&] {
                                          setenv("TMPDIR", folder.c_str(), 1);
                                          if (!test::BecomeNobody()) _exit(77);
                                        }});
  chmod(run_.c_str(), 0755);
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_EQ(finished.out, "2 0");
  EXPECT_NE(finished.err.find("its directory cannot be written\n"), std::string::npos) << finished.err;
  EXPECT_EQ(test::NamesIn(run_), std::vector<std::string>{"0.spool"});
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

// The end of the run would remove it, and it would be old before.
TEST_F(TraceInputTest, OfARunThatGoesOnNoneIsKept) {
  Sample();
  tracer::Spit(run_ + "/run.json", "{}");
  EXPECT_EQ(Open(run_).out, "2 0");
  EXPECT_EQ(test::NamesIn(run_), (std::vector<std::string>{"0.spool", "run.json"}));
}

// Made of all of them, and in the first one.
TEST_F(TraceInputTest, OfSeveralDirectoriesOneIsKept) {
  Sample();
  const std::string other = NewFolder("other");
  std::filesystem::permissions(other, std::filesystem::perms::owner_all);
  Spool(other, "1.spool", 5);
  EXPECT_EQ(Open(run_, {.more = {other}}).out, "7 0");
  EXPECT_EQ(Open(run_, {.more = {other}}).out, "7 0 again");
  EXPECT_EQ(test::NamesIn(other), std::vector<std::string>{"1.spool"});
  EXPECT_EQ(Open(run_).out, "2 0") << "is another question";
  EXPECT_EQ(Open(run_, {.more = {other}}).out, "7 0");
}

// Of one spool file none is kept, so that what is asked of the whole run stays.
TEST_F(TraceInputTest, OfOneSpoolFileNoneIsKept) {
  Sample();
  EXPECT_EQ(Open(run_).out, "2 0");
  EXPECT_EQ(Open(run_ + "/0.spool").out, "2 0");
  EXPECT_EQ(Open(run_).out, "2 0 again");
}

// Whoever asks gets his own answer, whoever else makes a database at the same place at the same time.
TEST_F(TraceInputTest, SeveralAtOnce) {
  Sample();
  const std::string other = NewFolder("other");
  std::filesystem::permissions(other, std::filesystem::perms::owner_all);
  Spool(other, "1.spool", 5);
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      const bool both = i % 2 == 0;
      const std::string expected = both ? "7" : "2";
      for (int round = 0; round < 10; ++round) {
        const EndingSignals signals;
        const auto more = both ? std::vector<std::string>{other} : std::vector<std::string>();
        const TraceInput input = OpenTrace({"report", run_, "1.2.3", more});
        if (input.status != kSuccess) _exit(1);
        Question question(*input.database, "SELECT count(*) FROM SLIPSTREAM_CALLS");
        if (!question.Next() || question.Text(0) != expected) _exit(2);
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(test::NamesIn(run_), (std::vector<std::string>{"0.spool", "slipstream-cache.sqlite"}));
}

// As one that was killed leaves it.
TEST_F(TraceInputTest, HalfADatabaseIsSweptAway) {
  Sample();
  const std::string half = kept_ + ".new-abcdef";
  tracer::Spit(half, "half");
  const timespec years_ago[] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, half.c_str(), years_ago, 0), 0);
  EXPECT_EQ(Open(run_).out, "2 0");
  EXPECT_EQ(test::NamesIn(run_), (std::vector<std::string>{"0.spool", "slipstream-cache.sqlite"}));
}

TEST_F(TraceInputTest, NoSuchRun) {
  const Finished finished = Open("/nowhere");
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_NE(finished.err.find("slipstream report: "), std::string::npos) << finished.err;
  EXPECT_NE(finished.err.find("/nowhere"), std::string::npos) << finished.err;
}

TEST_F(TraceInputTest, ADatabaseThatIsCut) {
  Sample();
  ASSERT_EQ(trace_db::BuildTraceDatabase({.run = run_, .database = database_}).problem, trace_db::BuildProblem::kNone);
  ASSERT_EQ(truncate(database_.c_str(), 50), 0);
  const Finished finished = Open(database_);
  EXPECT_EQ(finished.status, kFailed) << finished.out;
  EXPECT_NE(finished.err.find(": cannot be read: "), std::string::npos) << finished.err;
}

TEST_F(TraceInputTest, ADatabaseWithAViewInPlaceOfATable) {
  trace_db::Execute(database_, "CREATE VIEW SLIPSTREAM_CALLS AS SELECT 1");
  const Finished finished = Open(database_);
  EXPECT_EQ(finished.status, kFailed) << finished.out;
  EXPECT_NE(finished.err.find(": cannot be read: its SLIPSTREAM_CALLS is a view and no table\n"), std::string::npos)
      << finished.err;
}

TEST_F(TraceInputTest, AQuestionThatIsWrongIsAnError) {
  Sample();
  ASSERT_EQ(trace_db::BuildTraceDatabase({.run = run_, .database = database_}).problem, trace_db::BuildProblem::kNone);
  trace_db::DatabaseReader reader(database_);
  EXPECT_TRUE(reader.HasTable("SLIPSTREAM_CALLS"));
  EXPECT_FALSE(reader.HasTable("CUPTI_ACTIVITY_KIND_KERNEL"));
  EXPECT_TRUE(reader.HasColumn("SLIPSTREAM_CALLS", "bytes"));
  EXPECT_FALSE(reader.HasColumn("SLIPSTREAM_CALLS", "kernels"));
  Question question(reader, "SELECT bytes, NULL, 'text', 1.5 FROM SLIPSTREAM_CALLS WHERE correlationId > ? ORDER BY 1");
  EXPECT_TRUE(question.Bind(1, int64_t{0}).Next());
  EXPECT_TRUE(question.IsNull(1));
  EXPECT_EQ(question.NumberIfKnown(1), std::nullopt);
  EXPECT_EQ(question.Text(2), "text");
  EXPECT_EQ(question.Real(3), 1.5);
  EXPECT_TRUE(question.Next());
  EXPECT_FALSE(question.Next());
  question.Again();
  EXPECT_FALSE(question.Bind(1, int64_t{1} << 60).Next());
  EXPECT_TRUE(reader.ok());
  EXPECT_FALSE(Question(reader, "SELECT nothing FROM SLIPSTREAM_CALLS").Next());
  EXPECT_FALSE(reader.ok());
  EXPECT_NE(reader.error().text.find("nothing"), std::string::npos) << reader.error().text;
}

TEST_F(TraceInputTest, AStopEndsAQuestion) {
  Sample();
  ASSERT_EQ(trace_db::BuildTraceDatabase({.run = run_, .database = database_}).problem, trace_db::BuildProblem::kNone);
  trace_db::DatabaseReader reader(database_);
  const std::atomic<bool> stop{true};
  reader.StopWhen(&stop);
  Question question(reader, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n");
  EXPECT_FALSE(question.Next());
  EXPECT_TRUE(reader.stopped());
}

}  // namespace
}  // namespace slipstream::cli
