// A task that may hang, for which nobody waits longer than was said.

#include "tools/cli/bounded_task.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "tests/support/process.h"

namespace slipstream::cli {
namespace {

constexpr int kLong = 60'000;  // not to wait for: a task that answers is not waited for any longer

TEST(BoundedTaskTest, AnswersWhatTheTaskSays) {
  EXPECT_EQ(DoWithin(kLong, "late", [] { return std::string(); }), "");
  EXPECT_EQ(DoWithin(kLong, "late", [] { return std::string("disk full"); }), "disk full");
  EXPECT_EQ(DoWithin(kLong, "late", [] { return std::string(1'000'000, 'x'); }).substr(0, 3), "xxx");
}

TEST(BoundedTaskTest, OneThatHangsIsNotWaitedFor) {
  const test::Folder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string done = folder / "done";
  ASSERT_EQ(mkfifo(done.c_str(), 0600), 0);
  const int ended = open(done.c_str(), O_RDONLY | O_NONBLOCK);
  EXPECT_EQ(DoWithin(1, "late",
                     [&] {
                       const int end = open(done.c_str(), O_WRONLY);
                       const int file = open(pipe.c_str(), O_RDONLY);  // until somebody writes
                       close(file);
                       close(end);
                       return std::string();
                     }),
            "late");
  // It goes on, and ends by itself once it can.
  close(open(pipe.c_str(), O_WRONLY));
  fcntl(ended, F_SETFL, 0);
  char byte = 0;
  EXPECT_EQ(read(ended, &byte, 1), 0);
  close(ended);
}

TEST(BoundedTaskTest, ATaskThatDiesHasFailed) {
  EXPECT_EQ(DoWithin(kLong, "late",
                     [] {
                       raise(SIGKILL);
                       return std::string();
                     }),
            "killed by signal 9");
}

TEST(BoundedTaskTest, HasNothingOfThisProcessOpen) {
  const int mine = open("/dev/zero", O_RDONLY);
  const int high = fcntl(mine, F_DUPFD, 100);
  const std::string said = DoWithin(kLong, "late", [&] {
    const bool closed = fcntl(high, F_GETFD) < 0 && errno == EBADF;
    struct stat null {};
    struct stat error {};
    stat("/dev/null", &null);
    fstat(STDERR_FILENO, &error);
    return std::string(closed ? "closed" : "open") + (error.st_rdev == null.st_rdev ? ", silent" : ", heard");
  });
  EXPECT_EQ(said, "closed, silent");
  close(mine);
  close(high);
}

}  // namespace
}  // namespace slipstream::cli
