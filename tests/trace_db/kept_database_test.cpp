// A database that stays with its run: what it is known again by, what is not believed, and what may be replaced.

#include "tools/trace/db/kept_database.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "tests/trace_db/trace_db_testing.h"

namespace slipstream::trace_db {
namespace {

using tracer::Slurp;
using tracer::Spit;

constexpr char kVersion[] = "1.2.3";

class KeptDatabaseTest : public TraceDbTest {
 protected:
  void SetUp() override {
    TraceDbTest::SetUp();
    Spool("a.spool", 3);
    std::string why;
    kept_ = KeptPlace(run_, &why);
    EXPECT_EQ(kept_, run_ + "/slipstream-cache.sqlite") << why;
  }
  void Spool(const std::string& name, uint64_t calls, bool ends = true) const {
    HandSpool spool(run_, name);
    spool.Facts({{"pid", "10"}, {"rank", "4"}});
    spool.Thread(1, 100, "main");
    for (uint64_t i = 1; i <= calls; ++i) spool.Records(1, {CallAt(10 * i, 10 * i + 5)});
    if (ends) {
      spool.End();
    } else {
      spool.Flush();
    }
  }
  // Of the spools as they are now; "": one cannot be looked at.
  std::string MadeNow(const std::string& version = kVersion) const {
    return MadeFrom(FindSpools(run_, {}).paths, version).value_or("");
  }
  BuildResult Keep() const {
    BuildResult result = BuildTraceDatabase({.run = run_, .database = kept_, .replace = true, .made_from = MadeNow()});
    EXPECT_EQ(result.problem, BuildProblem::kNone) << result.what;
    return result;
  }
  KeptDatabase OpenIt() const { return OpenKept(kept_, MadeNow()); }
  // It cannot be used, and whether it may be replaced.
  void ExpectNone(bool replaceable) const {
    const KeptDatabase kept = OpenIt();
    EXPECT_EQ(kept.reader, nullptr);
    EXPECT_EQ(kept.replaceable, replaceable) << kept.why;
    EXPECT_NE(kept.why, "");
  }

  std::string kept_;
};

TEST_F(KeptDatabaseTest, IsFoundAgain) {
  ExpectNone(true);
  Keep();
  const KeptDatabase kept = OpenIt();
  ASSERT_NE(kept.reader, nullptr) << kept.why;
  Question question(*kept.reader, "SELECT count(*) FROM SLIPSTREAM_CALLS");
  ASSERT_TRUE(question.Next());
  EXPECT_EQ(question.Number(0), 3);
  EXPECT_EQ(kept.built.problem, BuildProblem::kNone);
  EXPECT_EQ(kept.built.database_bytes, std::filesystem::file_size(kept_));
  EXPECT_FALSE(kept.built.partial());
}

// As those who read it for the first time say what is missing, whoever reads it again does.
TEST_F(KeptDatabaseTest, WhatIsKnownOfItsSpoolsComesBack) {
  Spool("b.spool", 5, /*ends=*/false);
  Spit(run_ + "/b.spool", Slurp(run_ + "/b.spool") + "no chunk");
  Spit(run_ + "/c.spool", "nothing");
  {
    HandSpool limited(run_, "d.spool");
    limited.End(tracer::EndReason::kLimit);
    HandSpool failed(run_, "e.spool");
    failed.End(tracer::EndReason::kError, ENOSPC);
  }
  const BuildResult built = Keep();
  EXPECT_TRUE(built.partial());
  const KeptDatabase kept = OpenIt();
  ASSERT_NE(kept.reader, nullptr) << kept.why;
  EXPECT_TRUE(kept.built.partial());
  ASSERT_EQ(kept.built.unreadable.size(), 1U);
  EXPECT_EQ(kept.built.unreadable[0].file, "c.spool");
  EXPECT_EQ(kept.built.unreadable[0].why, built.unreadable.at(0).why);
  ASSERT_EQ(kept.built.processes.size(), 4U);
  for (size_t i = 0; i < 4; ++i) {
    const ExportedProcess& before = built.processes.at(i);
    const ExportedProcess& now = kept.built.processes[i];
    SCOPED_TRACE(before.file);
    EXPECT_EQ(now.file, before.file);
    EXPECT_EQ(now.pid, before.pid);
    EXPECT_EQ(now.rank, before.rank);
    EXPECT_EQ(now.calls, before.calls);
    EXPECT_EQ(now.damaged(), before.damaged());
    EXPECT_EQ(now.end.complete, before.end.complete);
    EXPECT_EQ(now.end.reason, before.end.reason);
    EXPECT_EQ(now.end.error, before.end.error);
    EXPECT_EQ(now.end.records, before.end.records);
    EXPECT_EQ(now.end.dropped, before.end.dropped);
    EXPECT_EQ(now.end.read_bytes, before.end.read_bytes);
    EXPECT_EQ(now.end.left_bytes, before.end.left_bytes);
    EXPECT_EQ(now.end.left_why, before.end.left_why);
  }
  EXPECT_FALSE(kept.built.processes[1].end.complete);
  EXPECT_EQ(kept.built.processes[1].end.left_bytes, 8U);
  EXPECT_EQ(kept.built.processes[2].end.reason, tracer::EndReason::kLimit);
  EXPECT_EQ(kept.built.processes[3].end.error, ENOSPC);
}

TEST_F(KeptDatabaseTest, DamageComesBackToo) {
  Spool("b.spool", 4);
  std::string bytes = Slurp(run_ + "/b.spool");
  bytes[tracer::Boundaries(bytes).at(3) + sizeof(tracer::ChunkHeader) + 1] ^= 1;  // of the second call
  Spit(run_ + "/b.spool", bytes);
  const tracer::SpoolReader::End before = Keep().processes.at(1).end;
  EXPECT_GT(before.damaged_bytes, 0U);
  EXPECT_EQ(before.missing_chunks, 1U);
  EXPECT_GT(before.missing_records, 0U);
  const KeptDatabase kept = OpenIt();
  ASSERT_NE(kept.reader, nullptr) << kept.why;
  const tracer::SpoolReader::End& now = kept.built.processes.at(1).end;
  EXPECT_EQ(now.damaged_bytes, before.damaged_bytes);
  EXPECT_EQ(now.missing_chunks, before.missing_chunks);
  EXPECT_EQ(now.missing_records, before.missing_records);
  EXPECT_EQ(now.skipped_chunks, before.skipped_chunks);
  EXPECT_EQ(now.skipped_records, before.skipped_records);
  EXPECT_EQ(now.malformed_chunks, before.malformed_chunks);
  EXPECT_EQ(now.late_records, before.late_records);
  EXPECT_TRUE(kept.built.partial());
}

TEST_F(KeptDatabaseTest, WhatItIsMadeOf) {
  const std::string spool = run_ + "/a.spool";
  const std::string before = MadeNow();
  EXPECT_NE(before, "");
  EXPECT_EQ(MadeNow(), before);
  EXPECT_NE(MadeNow("1.2.4"), before) << "another version";
  Keep();
  EXPECT_EQ(MadeNow(), before) << "the database itself is none of them";

  struct stat facts {};
  ASSERT_EQ(stat(spool.c_str(), &facts), 0);
  const timespec times[] = {facts.st_atim, facts.st_mtim};
  // The same bytes and the same time, of another file.
  std::filesystem::copy(spool, directory_ + "/other");
  ASSERT_EQ(utimensat(AT_FDCWD, (directory_ + "/other").c_str(), times, 0), 0);
  ASSERT_EQ(rename((directory_ + "/other").c_str(), spool.c_str()), 0);
  const std::string replaced = MadeNow();
  EXPECT_NE(replaced, before) << "replaced";

  timespec later[] = {facts.st_atim, facts.st_mtim};
  ++later[1].tv_sec;
  ASSERT_EQ(utimensat(AT_FDCWD, spool.c_str(), later, 0), 0);
  const std::string touched = MadeNow();
  EXPECT_NE(touched, replaced) << "written at another time";

  Spit(spool, Slurp(spool) + "more");
  ASSERT_EQ(utimensat(AT_FDCWD, spool.c_str(), later, 0), 0);
  const std::string grown = MadeNow();
  EXPECT_NE(grown, touched) << "grown";

  ASSERT_EQ(rename(spool.c_str(), (run_ + "/b.spool").c_str()), 0);
  const std::string renamed = MadeNow();
  EXPECT_NE(renamed, grown) << "of another name";
  Spool("c.spool", 1);
  EXPECT_NE(MadeNow(), renamed) << "one more";
  EXPECT_EQ(MadeFrom({spool}, kVersion), std::nullopt) << "not there any more";
}

TEST_F(KeptDatabaseTest, OfOtherSpoolsOrAnotherVersionIsReplaced) {
  Keep();
  ASSERT_NE(OpenIt().reader, nullptr);
  EXPECT_EQ(OpenKept(kept_, MadeNow("1.2.4")).reader, nullptr);
  EXPECT_TRUE(OpenKept(kept_, MadeNow("1.2.4")).replaceable);
  Spool("b.spool", 1);
  ExpectNone(true);
  Keep();
  EXPECT_NE(OpenIt().reader, nullptr);
}

// What `slipstream export --sqlite` makes does not say what it was made of.
TEST_F(KeptDatabaseTest, AnExportOfThatNameIsNotTakenForOne) {
  ASSERT_EQ(BuildTraceDatabase({.run = run_, .database = kept_}).problem, BuildProblem::kNone);
  ExpectNone(true);
}

TEST_F(KeptDatabaseTest, DamagedOnesAreReplaced) {
  Keep();
  const std::string whole = Slurp(kept_);
  const std::string cut = whole.substr(0, whole.size() / 2);
  std::string zeros = whole;
  zeros.replace(100, 4096, 4096, '\0');  // of the page that says which tables there are
  for (const std::string& bytes : {cut, zeros, std::string(), std::string("no database"), whole + "x"}) {
    Spit(kept_, bytes);
    ExpectNone(true);
  }
  Spit(kept_, whole);
  EXPECT_NE(OpenIt().reader, nullptr);
}

TEST_F(KeptDatabaseTest, WhatIsNotOursAloneStaysAsItIs) {
  Keep();
  for (const mode_t mode : {0620U, 0602U}) {
    chmod(kept_.c_str(), mode);
    ExpectNone(false);
  }
  chmod(kept_.c_str(), 0644);
  EXPECT_NE(OpenIt().reader, nullptr) << "others may read it";

  ASSERT_EQ(rename(kept_.c_str(), (directory_ + "/good").c_str()), 0);
  ASSERT_EQ(symlink("../good", kept_.c_str()), 0);
  ExpectNone(false);
  ASSERT_EQ(unlink(kept_.c_str()), 0);
  ASSERT_EQ(mkfifo(kept_.c_str(), 0600), 0);
  ExpectNone(false);
  ASSERT_EQ(unlink(kept_.c_str()), 0);
  std::filesystem::create_directory(kept_);
  ExpectNone(false);
}

TEST_F(KeptDatabaseTest, AnotherUsersFile) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  Keep();
  constexpr uid_t kSomebody = 65534;
  if (chown(kept_.c_str(), kSomebody, static_cast<gid_t>(-1)) != 0) GTEST_SKIP() << "not even root can, here";
  ExpectNone(false);
}

TEST_F(KeptDatabaseTest, PlacesThatOthersMayWriteTo) {
  for (const mode_t mode : {0770U, 0707U, 01777U}) {
    chmod(run_.c_str(), mode);
    std::string why;
    EXPECT_EQ(KeptPlace(run_, &why), "");
    EXPECT_NE(why, "");
  }
  chmod(run_.c_str(), 0755);
  std::string why;
  EXPECT_EQ(KeptPlace(run_ + "/", &why), kept_);
  EXPECT_EQ(KeptPlace(run_ + "/a.spool", &why), "") << "of one file none is kept";
  EXPECT_EQ(KeptPlace(run_ + "/missing", &why), "");
}

}  // namespace
}  // namespace slipstream::trace_db
