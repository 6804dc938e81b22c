// The thread that opens our files: whose descriptors it has, what it reads, and where it cannot be had.

#include "tracer/spool/own_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "tests/tracer/spool_testing.h"
#include "tracer/spool/spool_file.h"

namespace slipstream::tracer {
namespace {

class OwnFilesTest : public SpoolTest {
 protected:
  std::string Path(const std::string& name) const { return directory_ + "/" + name; }
};

// There it is the calling thread's table that is asked, and not by a function that a sanitizer knows.
bool IsOpen(int fd) { return syscall(SYS_fcntl, fd, F_GETFD) != -1; }

TEST_F(OwnFilesTest, ItsDescriptorsAreNobodyElses) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  OwnFiles files;
  int error = 0;
  ASSERT_EQ(files.Start(&error), OwnFiles::Started::kYes) << error;
  EXPECT_FALSE(files.Do([&] { return IsOpen(fds[0]) || IsOpen(fds[1]) || IsOpen(0) || IsOpen(1) || IsOpen(2); }));
  const std::string here = "/proc/self/fd";
  const auto open_here = [&] { return std::distance(std::filesystem::directory_iterator(here), {}); };
  const auto before = open_here();
  {
    SpoolFile file(FileCalls{}, &files);
    ASSERT_EQ(file.Create(directory_, "a.spool").problem, SpoolProblem::kNone);
    EXPECT_EQ(file.Append("bytes", 5), 0);
    EXPECT_EQ(open_here(), before);
    syscall(SYS_close_range, 100, ~0U, 0);  // the program's, all that there may be of ours
    EXPECT_EQ(file.Append(" and more", 9), 0);
  }
  EXPECT_EQ(Slurp(Path("a.spool")), "bytes and more");
  // The program's are as they were, and no copy keeps its pipe open.
  EXPECT_EQ(write(fds[1], "x", 1), 1);
  close(fds[1]);
  char byte = 0;
  EXPECT_EQ(read(fds[0], &byte, 1), 1);
  EXPECT_EQ(read(fds[0], &byte, 1), 0);
  close(fds[0]);
}

TEST_F(OwnFilesTest, Reads) {
  OwnFiles files;
  int error = 0;
  ASSERT_EQ(files.Start(&error), OwnFiles::Started::kYes) << error;
  Spit(Path("text"), "some text");
  Spit(Path("empty"), "");
  char bytes[64] = {};
  EXPECT_EQ(files.Read(Path("text").c_str(), bytes), 9);
  EXPECT_STREQ(bytes, "some text");
  EXPECT_EQ(files.Read(Path("text").c_str(), {bytes, 4}), 4);
  EXPECT_EQ(files.Read(Path("empty").c_str(), bytes), 0);
  EXPECT_EQ(files.Read(Path("none").c_str(), bytes), -ENOENT);
  EXPECT_EQ(files.Read(directory_.c_str(), bytes), -EISDIR);
}

TEST_F(OwnFilesTest, ListsNumbers) {
  OwnFiles files;
  int error = 0;
  ASSERT_EQ(files.Start(&error), OwnFiles::Started::kYes) << error;
  // More than one call of the system's gives.
  std::vector<uint32_t> there(500);
  std::iota(there.begin(), there.end(), 1U);
  for (const uint32_t number : there) Spit(Path(std::to_string(number)), "");
  for (const char* name : {"self", "12a", "a12", "-3", "4294967296", "1.5"}) Spit(Path(name), "");
  std::vector<uint32_t> numbers;
  numbers.reserve(there.size() + 10);
  EXPECT_EQ(files.ListNumbers(directory_.c_str(), &numbers), 0);
  std::sort(numbers.begin(), numbers.end());
  EXPECT_EQ(numbers, there);
  std::vector<uint32_t> some;
  some.reserve(7);
  const size_t room = some.capacity();
  EXPECT_EQ(files.ListNumbers(directory_.c_str(), &some), 0);
  EXPECT_EQ(some.size(), room);
  EXPECT_EQ(files.ListNumbers(Path("none").c_str(), &numbers), ENOENT);
  EXPECT_EQ(files.ListNumbers(Path("1").c_str(), &numbers), ENOTDIR);
}

TEST_F(OwnFilesTest, ManyOneAfterTheOther) {
  for (int i = 0; i < 50; ++i) {
    OwnFiles files;
    int error = 0;
    ASSERT_EQ(files.Start(&error), OwnFiles::Started::kYes) << error;
    for (int j = 0; j < i; ++j) EXPECT_EQ(files.Do([j] { return j; }), j);
  }
}

// From here on the process has none of these system calls, as before Linux 5.9 and in some containers. False: they
// cannot be forbidden here.
bool Forbid(unsigned first, unsigned second) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, first, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, second, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog filter = {static_cast<unsigned short>(std::size(program)), program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

enum Result { kGood = 0, kShared, kNotEmpty, kNoFile, kNotRefused, kNoFilter = 77 };

// What a child says that has forbidden them.
template <typename Body>
int InChildWithout(unsigned first, unsigned second, const Body& body) {
  const pid_t child = fork();
  if (child == 0) _exit(Forbid(first, second) ? body() : kNoFilter);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST_F(OwnFilesTest, WithoutCloseRange) {
  const int result = InChildWithout(SYS_close_range, SYS_close_range, [&] {
    int fds[2];
    if (pipe(fds) != 0) return kNotEmpty;
    OwnFiles files;
    int error = 0;
    if (files.Start(&error) != OwnFiles::Started::kYes) return kShared;
    for (int fd = 0; fd <= fds[1]; ++fd) {
      if (files.Do([fd] { return IsOpen(fd); })) return kNotEmpty;
    }
    SpoolFile file(FileCalls{}, &files);
    if (file.Create(directory_, "a.spool").problem != SpoolProblem::kNone || file.Append("bytes", 5) != 0) {
      return kNoFile;
    }
    // The program's are as they were.
    return write(fds[1], "x", 1) == 1 ? kGood : kShared;
  });
  if (result == kNoFilter) GTEST_SKIP() << "system calls cannot be forbidden here";
  EXPECT_EQ(result, kGood);
  EXPECT_EQ(Slurp(Path("a.spool")), "bytes");
}

TEST_F(OwnFilesTest, WhereNoTableCanBeHadNothingIsRecorded) {
  const int result = InChildWithout(SYS_close_range, SYS_unshare, [&] {
    SpoolFailure why;
    return Recorder::Start({.directory = directory_}, &why) == nullptr &&
                   why.problem == SpoolProblem::kSharedDescriptors && why.error == ENOSYS
               ? kGood
               : kNotRefused;
  });
  if (result == kNoFilter) GTEST_SKIP() << "system calls cannot be forbidden here";
  EXPECT_EQ(result, kGood);
  EXPECT_TRUE(Spools().empty());
}

}  // namespace
}  // namespace slipstream::tracer
