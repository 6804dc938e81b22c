// Spool files: only where nobody else can interfere, and whole or as before.

#include "tracer/spool/spool_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/tracer/spool_testing.h"

namespace slipstream::tracer {
namespace {

// What pwrite does next: so many bytes, or minus an errno.
std::vector<int> g_script;
ssize_t ScriptedPwrite(int fd, const void* bytes, size_t size, off_t offset) {
  if (g_script.empty()) return pwrite(fd, bytes, size, offset);
  const int next = g_script.front();
  g_script.erase(g_script.begin());
  if (next < 0) {
    errno = -next;
    return -1;
  }
  return pwrite(fd, bytes, std::min(size, static_cast<size_t>(next)), offset);
}

class SpoolFileTest : public SpoolTest {
 protected:
  void SetUp() override {
    SpoolTest::SetUp();
    g_script.clear();
  }

  SpoolFailure Create(const std::string& directory, const std::string& name = "a.spool") {
    SpoolFile file{FileCalls{}};
    const SpoolFailure failure = file.Create(directory, name);
    if (failure.problem == SpoolProblem::kNone) {
      EXPECT_EQ(file.Append("a", 1), 0);
    }
    return failure;
  }
  mode_t ModeOf(const std::string& path) const {
    struct stat facts {};
    EXPECT_EQ(stat(path.c_str(), &facts), 0);
    return facts.st_mode & 07777;
  }
};

int g_interruptions = 0;
int InterruptedFallocate(int fd, int mode, off_t at, off_t size) {
  if (g_interruptions-- > 0) {
    errno = EINTR;
    return -1;
  }
  return fallocate(fd, mode, at, size);
}
int RefusedFallocate(int, int, off_t, off_t) {
  errno = EOPNOTSUPP;
  return -1;
}

TEST_F(SpoolFileTest, WhatIsGivenBackReadsAsZerosAndTheFileKeepsItsLength) {
  FileCalls calls;
  calls.fallocate = InterruptedFallocate;
  SpoolFile file{calls};
  ASSERT_EQ(file.Create(directory_, "a.spool").problem, SpoolProblem::kNone);
  if (file.CanGiveBack() != 0) GTEST_SKIP() << "this file system does not give back parts of a file";
  const std::string bytes(20'000, 'x');
  ASSERT_EQ(file.Append(bytes.data(), bytes.size()), 0);
  g_interruptions = 3;
  EXPECT_EQ(file.GiveBack(100, 17'000), 0);
  EXPECT_EQ(g_interruptions, -1);
  EXPECT_EQ(file.GiveBack(17'000, 17'000), 0);
  EXPECT_EQ(file.size(), 20'000U);
  EXPECT_EQ(Slurp(directory_ + "/a.spool"),
            std::string(100, 'x') + std::string(16'900, '\0') + std::string(3'000, 'x'));
  ASSERT_EQ(file.Append("more", 4), 0);
  EXPECT_EQ(std::filesystem::file_size(directory_ + "/a.spool"), 20'004U);
}

TEST_F(SpoolFileTest, AFileSystemThatGivesNothingBackSaysSo) {
  FileCalls calls;
  calls.fallocate = RefusedFallocate;
  SpoolFile file{calls};
  EXPECT_EQ(file.GiveBack(0, 1), EBADF);
  ASSERT_EQ(file.Create(directory_, "a.spool").problem, SpoolProblem::kNone);
  EXPECT_EQ(file.CanGiveBack(), EOPNOTSUPP);
  EXPECT_EQ(file.GiveBack(0, 1), EOPNOTSUPP);
}

TEST_F(SpoolFileTest, S59_OnlyTheUserCanReadIt) {
  for (const mode_t mask : {0U, 077U, 0377U}) {
    const std::string run = directory_ + "/run" + std::to_string(mask);
    ASSERT_EQ(mkdir(run.c_str(), 0700), 0);
    const mode_t before = umask(mask);
    const SpoolFailure failure = Create(run);
    umask(before);
    EXPECT_EQ(failure.problem, SpoolProblem::kNone);
    EXPECT_EQ(ModeOf(run + "/a.spool"), 0600U) << std::oct << mask;
  }
}

TEST_F(SpoolFileTest, S59_NeverThroughASymbolicLinkAndNeverOverAFile) {
  std::filesystem::create_directory(directory_ + "/real");
  std::filesystem::permissions(directory_ + "/real", std::filesystem::perms::owner_all);
  std::filesystem::create_symlink("real", directory_ + "/link");
  SpoolFailure failure = Create(directory_ + "/link");
  EXPECT_EQ(failure.problem, SpoolProblem::kNoDirectory);
  EXPECT_TRUE(failure.error == ELOOP || failure.error == ENOTDIR) << failure.error;
  EXPECT_TRUE(std::filesystem::is_empty(directory_ + "/real"));

  std::filesystem::create_symlink("elsewhere", directory_ + "/real/a.spool");
  failure = Create(directory_ + "/real");
  EXPECT_EQ(failure.problem, SpoolProblem::kNoFile);
  EXPECT_EQ(failure.error, EEXIST);
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/real/elsewhere"));

  Spit(directory_ + "/real/b.spool", "the user's");
  EXPECT_EQ(Create(directory_ + "/real", "b.spool").error, EEXIST);
  EXPECT_EQ(Slurp(directory_ + "/real/b.spool"), "the user's");
}

TEST_F(SpoolFileTest, S59_NotWhereOthersCanWrite) {
  using std::filesystem::perms;
  for (const perms others : {perms::group_write, perms::others_write}) {
    std::filesystem::permissions(directory_, perms::owner_all | others);
    EXPECT_EQ(Create(directory_).problem, SpoolProblem::kOpenDirectory);
    std::filesystem::permissions(directory_, perms::owner_all | others | perms::sticky_bit);
    EXPECT_EQ(Create(directory_).problem, SpoolProblem::kOpenDirectory);
  }
  std::filesystem::permissions(directory_, perms::owner_all | perms::group_read | perms::others_exec);
  EXPECT_EQ(Create(directory_).problem, SpoolProblem::kNone);
}

TEST_F(SpoolFileTest, S59_NotInSomebodyElsesDirectory) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  ASSERT_EQ(chown(directory_.c_str(), 65534, 65534), 0);
  EXPECT_EQ(Create(directory_).problem, SpoolProblem::kForeignDirectory);
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
}

TEST_F(SpoolFileTest, WhereThereIsNoDirectoryItSaysSo) {
  SpoolFailure failure = Create(directory_ + "/no/run");
  EXPECT_EQ(failure.problem, SpoolProblem::kNoDirectory);
  EXPECT_EQ(failure.error, ENOENT);
  Spit(directory_ + "/file", "");
  failure = Create(directory_ + "/file");
  EXPECT_EQ(failure.problem, SpoolProblem::kNoDirectory);
  EXPECT_EQ(failure.error, ENOTDIR);
  EXPECT_STREQ(NameOf(failure.problem), "no_directory");
}

TEST_F(SpoolFileTest, ShortWritesAndInterruptionsAreGoneOnWith) {
  SpoolFile file(FileCalls{.pwrite = ScriptedPwrite});
  ASSERT_EQ(file.Create(directory_, "a.spool").problem, SpoolProblem::kNone);
  g_script = {1, -EINTR, 3, -EINTR, -EINTR, 2};
  EXPECT_EQ(file.Append("0123456789", 10), 0);
  EXPECT_TRUE(g_script.empty());
  EXPECT_EQ(file.Append("abc", 3), 0);
  EXPECT_EQ(file.size(), 13U);
  EXPECT_EQ(Slurp(directory_ + "/a.spool"), "0123456789abc");
}

TEST_F(SpoolFileTest, WhatCannotBeWrittenWholeIsTakenBack) {
  SpoolFile file(FileCalls{.pwrite = ScriptedPwrite});
  ASSERT_EQ(file.Create(directory_, "a.spool").problem, SpoolProblem::kNone);
  EXPECT_EQ(file.Append("first", 5), 0);
  g_script = {3, -ENOSPC};
  EXPECT_EQ(file.Append("second", 6), ENOSPC);
  EXPECT_EQ(Slurp(directory_ + "/a.spool"), "first");
  g_script = {2, 0};
  EXPECT_EQ(file.Append("second", 6), EIO) << "no bytes and no error";
  EXPECT_EQ(file.Append("third", 5), 0);
  EXPECT_EQ(Slurp(directory_ + "/a.spool"), "firstthird");
}

TEST_F(SpoolFileTest, AFileThatCouldNotBeBegunIsNotLeft) {
  SpoolFile file(FileCalls{.pwrite = ScriptedPwrite});
  ASSERT_EQ(file.Create(directory_, "a.spool").problem, SpoolProblem::kNone);
  g_script = {-ENOSPC};
  EXPECT_EQ(file.Append("first", 5), ENOSPC);
  file.Close();
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
}

TEST_F(SpoolFileTest, AFileThatWasRemovedIsNotFilledUnseen) {
  SpoolFile file{FileCalls{}};
  ASSERT_EQ(file.Create(directory_, "a.spool").problem, SpoolProblem::kNone);
  EXPECT_EQ(file.Append("first", 5), 0);
  std::filesystem::remove(directory_ + "/a.spool");
  EXPECT_EQ(file.Append("second", 6), EIDRM);
  file.Close();
  EXPECT_EQ(file.Append("third", 5), EBADF);
}

TEST_F(SpoolFileTest, ANameFitsAnyFileSystem) {
  EXPECT_EQ(SpoolName("node_17", 42, 1000), "node_17-42-1000.spool");
  EXPECT_EQ(SpoolName("../a b.c\n", 42, 1000), "___a_b_c_-42-1000.spool");
  EXPECT_EQ(SpoolName("", 1, 2), "host-1-2.spool");
  EXPECT_LT(SpoolName(std::string(500, 'h'), 42, ~uint64_t{0}).size(), 128U);
}

}  // namespace
}  // namespace slipstream::tracer
