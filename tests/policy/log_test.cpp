// The log, each test in a child process of its own: levels, files and the once-only message are state of a process.

#include "policy/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "policy/log_file.h"
#include "tests/support/process.h"

namespace slipstream::policy {
namespace {

using test::Finished;
using test::Folder;
using test::InChild;
using test::ModeOf;
using test::ReadFile;
using test::Split;
using test::WriteFile;

void SayAll() {
  LogError("one");
  LogWarn("two");
  LogInfo("three");
  LogDebug("four");
}

TEST(Log, IsSilentByDefaultAndOffMeansOff) {
  const Finished child = InChild([] {
    SayAll();
    ConfigureLog({});
    SayAll();
    if (LogEnabled(LogLevel::kError) || LogEnabled(LogLevel::kOff)) return 1;
    ConfigureLog({.level = LogLevel::kDebug});
    ConfigureLog({});
    SayAll();
    return 0;
  });
  EXPECT_EQ(child.status, 0);
  EXPECT_EQ(child.err, "");
  EXPECT_EQ(child.out, "");
}

TEST(Log, ALevelIncludesThoseBeforeIt) {
  const LogLevel levels[] = {LogLevel::kError, LogLevel::kWarn, LogLevel::kInfo, LogLevel::kDebug};
  for (std::size_t i = 0; i < std::size(levels); ++i) {
    const Finished child = InChild([&] {
      ConfigureLog({.level = levels[i]});
      for (std::size_t j = 0; j < std::size(levels); ++j) {
        if (LogEnabled(levels[j]) != (j <= i)) return 1;
      }
      if (LogEnabled(LogLevel::kOff)) return 2;
      SayAll();
      return 0;
    });
    EXPECT_EQ(child.status, 0);
    EXPECT_EQ(Split(child.err).size(), i + 1) << child.err;
  }
}

TEST(Log, ALineHasTimeProcessAndLevel) {
  const Finished child = InChild([] {
    ConfigureLog({.level = LogLevel::kDebug});
    SayAll();
    return ::write(STDOUT_FILENO, std::to_string(::getpid()).c_str(), std::to_string(::getpid()).size()) > 0 ? 0 : 1;
  });
  const std::vector<std::string> lines = Split(child.err);
  ASSERT_EQ(lines.size(), 4U);
  const std::string time = "\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z slipstream\\[" + child.out + "\\] ";
  EXPECT_TRUE(std::regex_match(lines[0], std::regex(time + "error: one"))) << lines[0];
  EXPECT_TRUE(std::regex_match(lines[1], std::regex(time + "warning: two"))) << lines[1];
  EXPECT_TRUE(std::regex_match(lines[2], std::regex(time + "info: three"))) << lines[2];
  EXPECT_TRUE(std::regex_match(lines[3], std::regex(time + "debug: four"))) << lines[3];
}

TEST(Log, TheTimeIsUtcWhateverTheTimeZone) {
  const Finished child = InChild([] {
    ::setenv("TZ", "ELSEWHERE-12", 1);
    ConfigureLog({.level = LogLevel::kInfo});
    LogInfo("x");
    return 0;
  });
  std::tm written = {};
  ASSERT_NE(::strptime(child.err.c_str(), "%Y-%m-%dT%H:%M:%S", &written), nullptr) << child.err;
  EXPECT_LT(std::abs(std::difftime(::timegm(&written), std::time(nullptr))), 600.0) << child.err;
}

TEST(Log, AMessageIsOneLineOfPrintableTextAndNoFormatString) {
  const Finished child = InChild([] {
    ConfigureLog({.level = LogLevel::kInfo});
    LogInfo("a\nforged line \033[31m {} %s {0:x}");
    LogInfo(std::string(100000, 'x'));
    LogInfo("");
    return 0;
  });
  const std::vector<std::string> lines = Split(child.err);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_TRUE(lines[0].ends_with("info: a\\nforged line \\u001b[31m {} %s {0:x}")) << lines[0];
  EXPECT_LT(lines[1].size(), 4096U);
  EXPECT_TRUE(lines[2].ends_with("info: ")) << lines[2];
}

TEST(Log, PreservesErrno) {
  const Finished child = InChild([] {
    errno = 77;
    ConfigureLog({.level = LogLevel::kInfo, .file = "/nonexistent/folder/log"});
    if (errno != 77) return 1;
    LogInfo("x");
    if (errno != 77) return 2;
    LogOnceToStderr("y");
    return errno == 77 ? 0 : 3;
  });
  EXPECT_EQ(child.status, 0);
}

TEST(Log, AForkedChildSaysNothing) {
  const Finished child = InChild([] {
    ConfigureLog({.level = LogLevel::kInfo});
    LogInfo("parent");
    const pid_t forked = ::fork();
    if (forked == 0) {
      LogError("child");
      ::_exit(0);
    }
    ::waitpid(forked, nullptr, 0);
    return 0;
  });
  EXPECT_EQ(Split(child.err).size(), 1U) << child.err;
}

// Two configurations at once and four threads of messages: for the thread sanitizer, and for lines that
// must stay whole.
TEST(Log, LinesOfManyThreadsStayWhole) {
  const Folder folder;
  const std::string path = folder / "log";
  const Finished child = InChild([&] {
    const Log log{.level = LogLevel::kInfo, .file = path};
    ConfigureLog(log);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([t] {
        for (int i = 0; i < 500; ++i) LogInfo("thread " + std::to_string(t) + " message " + std::to_string(i) + " end");
      });
    }
    threads.emplace_back([&log] { ConfigureLog(log); });
    for (std::thread& thread : threads) thread.join();
    return 0;
  });
  EXPECT_EQ(child.status, 0);
  const std::vector<std::string> lines = Split(ReadFile(path));
  EXPECT_EQ(lines.size(), 2000U);
  for (const std::string& line : lines) {
    ASSERT_TRUE(line.find("Z slipstream[") == 23 && line.ends_with(" end")) << line;
  }
}

TEST(S59_Log, TheFileIsItsOwnersOnly) {
  const Folder folder;
  const Finished child = InChild([&] {
    ::umask(0);
    if (::chdir(folder.path().c_str()) != 0) return 1;
    ConfigureLog({.level = LogLevel::kInfo, .file = "log"});
    if (::access((folder / "log").c_str(), F_OK) == 0) return 2;  // Nothing said yet, nothing created.
    if (::chdir("/") != 0) return 3;                              // The name was made absolute before.
    LogInfo("hello");
    return 0;
  });
  EXPECT_EQ(child.status, 0);
  EXPECT_EQ(child.err, "");
  EXPECT_EQ(ModeOf(folder / "log"), 0600U);
  EXPECT_EQ(Split(ReadFile(folder / "log")).size(), 1U);
}

TEST(S59_Log, ASymbolicLinkIsNotFollowed) {
  const Folder folder;
  WriteFile(folder / "precious", "data\n");
  ASSERT_EQ(::symlink((folder / "precious").c_str(), (folder / "log").c_str()), 0);
  const Finished child = InChild([&] {
    ConfigureLog({.level = LogLevel::kInfo, .file = folder / "log"});
    LogInfo("one");
    LogInfo("two");
    return 0;
  });
  EXPECT_EQ(child.status, 0);
  EXPECT_EQ(ReadFile(folder / "precious"), "data\n");
  EXPECT_TRUE(std::regex_match(child.err, std::regex("slipstream\\[\\d+\\]: the log file \"" + (folder / "log") +
                                                     "\" is a symbolic link; nothing is logged\n")))
      << child.err;
}

TEST(S59_Log, WhatIsNotAPlainFileOfOursIsNotWritten) {
  const Folder folder;
  WriteFile(folder / "precious", "data\n");
  ASSERT_EQ(::link((folder / "precious").c_str(), (folder / "linked").c_str()), 0);
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  const std::pair<std::string, std::string> cases[] = {
      {folder / "linked", "has a second hard link"},
      {folder / "fifo", "cannot be opened: No such device or address"},  // Nobody reads; and it must not hang.
      {folder.path(), "cannot be opened: Is a directory"},
      {"/dev/null", "is not a regular file"},
      {folder / "missing/log", "cannot be opened: No such file or directory"}};
  for (const auto& [path, why] : cases) {
    const Finished child = InChild([&path = path] {
      ConfigureLog({.level = LogLevel::kInfo, .file = path});
      LogInfo("x");
      LogInfo("x");
      return 0;
    });
    EXPECT_EQ(child.status, 0);
    EXPECT_EQ(Split(child.err).size(), 1U) << child.err;
    EXPECT_NE(child.err.find("\"" + path + "\" " + why + "; nothing is logged"), std::string::npos) << child.err;
  }
  EXPECT_EQ(ReadFile(folder / "precious"), "data\n");
}

TEST(S59_Log, AFileOfAnotherUserIsNotWritten) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a file of another user";
  const Folder folder;
  WriteFile(folder / "log", "", 0666);
  ASSERT_EQ(::chown((folder / "log").c_str(), 65534, 65534), 0);
  const Finished child = InChild([&] {
    ConfigureLog({.level = LogLevel::kInfo, .file = folder / "log"});
    LogInfo("secret");
    return 0;
  });
  EXPECT_EQ(ReadFile(folder / "log"), "");
  EXPECT_NE(child.err.find("belongs to another user; nothing is logged"), std::string::npos) << child.err;
}

TEST(Log, TheSizeIsObeyedAndTheNewestLinesAreKept) {
  const Folder folder;
  const Finished child = InChild([&] {
    ConfigureLog({.level = LogLevel::kInfo, .file = folder / "log", .max_size = 65536});
    for (int i = 0; i < 5000; ++i) LogInfo("message number " + std::to_string(i));
    return 0;
  });
  EXPECT_EQ(child.status, 0);
  EXPECT_EQ(child.err, "");
  const std::string now = ReadFile(folder / "log");
  const std::string before = ReadFile(folder / "log.1");
  EXPECT_LE(now.size(), 65536U);
  EXPECT_LE(before.size(), 65536U);
  EXPECT_GT(before.size(), 65536U - 200U);
  EXPECT_EQ(ModeOf(folder / "log"), 0600U);
  // The two together are an unbroken run of messages up to the last.
  const std::vector<std::string> lines = Split(before + now);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string expected = " message number " + std::to_string(5000 - lines.size() + i);
    ASSERT_TRUE(lines[i].ends_with(expected)) << lines[i] << " for" << expected;
  }
}

TEST(Log, AFileFoundFullIsTurnedOver) {
  const Folder folder;
  WriteFile(folder / "log", std::string(65536, 'x'), 0600);
  ASSERT_EQ(::symlink("/nonexistent", (folder / "log.1").c_str()), 0);  // Replaced, not followed.
  const Finished child = InChild([&] {
    ConfigureLog({.level = LogLevel::kInfo, .file = folder / "log", .max_size = 65536});
    LogInfo("x");
    return 0;
  });
  EXPECT_EQ(child.status, 0);
  EXPECT_EQ(Split(ReadFile(folder / "log")).size(), 1U);
  EXPECT_EQ(ReadFile(folder / "log.1").size(), 65536U);
}

// Two descriptors in one process are as two processes: one has the file that the other has turned over.
TEST(Log, AFileThatAnotherTurnedOverIsLeftToIt) {
  const Folder folder;
  const std::string line = std::string(99, 'x') + "\n";
  LogFile first(folder / "log", 1000);
  LogFile second(folder / "log", 1000);
  ASSERT_TRUE(second.Append(line));
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(first.Append(line));
  ASSERT_EQ(ReadFile(folder / "log.1").size(), 1000U);
  ASSERT_EQ(ReadFile(folder / "log").size(), 100U);
  EXPECT_TRUE(second.Append(line));
  EXPECT_EQ(ReadFile(folder / "log.1").size(), 1000U);
  EXPECT_EQ(ReadFile(folder / "log").size(), 200U);
}

TEST(Log, WhileAnotherTurnsTheFileOverALineIsLostAndTheSizeObeyed) {
  const Folder folder;
  const std::string line = std::string(99, 'x') + "\n";
  LogFile log(folder / "log", 1000);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(log.Append(line));
  const int other = ::open((folder / "log").c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  EXPECT_FALSE(log.Append(line));
  EXPECT_EQ(ReadFile(folder / "log").size(), 1000U);
  ::close(other);
  EXPECT_TRUE(log.Append(line));
  EXPECT_EQ(ReadFile(folder / "log").size(), 100U);
}

// Programs that become daemons close every descriptor, and the next file that they open has the number of ours.
TEST(Log, ADescriptorThatTheProgramTookIsNotWritten) {
  const Folder folder;
  const std::string path = folder / "log";
  const Finished child = InChild([&] {
    LogFile log(path, 65536);
    const int number = ::dup(STDERR_FILENO);  // The one that the log will get.
    ::close(number);
    if (!log.Append("one\n")) return 1;
    if (::close(number) != 0) return 2;
    if (!log.Append("two\n")) return 3;
    ::close(number);
    if (::open((folder / "precious").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600) != number) return 4;
    if (!log.Append("three\n")) return 5;
    return ::write(number, "mine\n", 5) == 5 ? 0 : 6;
  });
  EXPECT_EQ(child.status, 0);
  EXPECT_EQ(ReadFile(folder / "precious"), "mine\n");
  EXPECT_EQ(ReadFile(path), "one\ntwo\nthree\n");
}

TEST(Log, SeveralProcessesShareAFile) {
  const Folder folder;
  constexpr int kProcesses = 4;
  constexpr int kMessages = 2000;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = ::fork();
    if (child == 0) {
      ConfigureLog({.level = LogLevel::kInfo, .file = folder / "log", .max_size = 65536});
      for (int i = 0; i < kMessages; ++i) LogInfo("process " + std::to_string(p) + " end");
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  for (const char* name : {"log", "log.1"}) {
    const std::string text = ReadFile(folder / name);
    EXPECT_LE(text.size(), 65536U + kProcesses * 100U);
    const std::vector<std::string> lines = Split(text);
    EXPECT_FALSE(lines.empty());
    for (const std::string& line : lines) {
      ASSERT_TRUE(line.find("Z slipstream[") == 23 && line.ends_with(" end")) << line;
    }
  }
}

TEST(Log, WhereTheFileCannotBeTurnedOverTheSizeIsStillObeyed) {
  const Folder folder;
  const std::string inner = folder / "inner";
  ASSERT_EQ(::mkdir(inner.c_str(), 0777), 0);
  ASSERT_EQ(::chmod(inner.c_str(), 0777), 0);
  const Finished first = InChild([&] {
    if (!test::BecomeNobody()) return 1;
    ConfigureLog({.level = LogLevel::kInfo, .file = inner + "/log", .max_size = 65536});
    LogInfo("first");
    return 0;
  });
  ASSERT_EQ(first.status, 0);
  ASSERT_EQ(::chmod(inner.c_str(), 0555), 0);
  const Finished full = InChild([&] {
    if (!test::BecomeNobody()) return 1;
    ConfigureLog({.level = LogLevel::kInfo, .file = inner + "/log", .max_size = 65536});
    for (int i = 0; i < 3000; ++i) LogInfo("message number " + std::to_string(i));
    return 0;
  });
  EXPECT_EQ(full.status, 0);
  ASSERT_EQ(::chmod(inner.c_str(), 0755), 0);
  const std::size_t size = ReadFile(inner + "/log").size();
  EXPECT_LE(size, 65536U);
  EXPECT_GT(size, 60000U);
}

// A reader of standard error that went away, and a limit on file sizes, must not end the process.
TEST(Log, SignalsOfWritingAreKeptFromTheProcess) {
  const Folder folder;
  const Finished child = InChild([&] {
    ::signal(SIGPIPE, SIG_DFL);
    ::signal(SIGXFSZ, SIG_DFL);
    int ends[2];
    if (::pipe(ends) != 0) return 1;
    ::close(ends[0]);
    ::dup2(ends[1], STDERR_FILENO);
    ConfigureLog({.level = LogLevel::kInfo});
    LogInfo("nobody reads this");
    LogOnceToStderr("nor this");

    const rlimit limit{.rlim_cur = 10, .rlim_max = 10};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
    ConfigureLog({.level = LogLevel::kInfo, .file = folder / "log"});
    LogInfo("longer than ten bytes");

    // Nothing is left pending, and the mask is what it was.
    sigset_t pending;
    sigset_t mask;
    ::sigpending(&pending);
    ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    for (const int signal : {SIGPIPE, SIGXFSZ}) {
      if (sigismember(&pending, signal) == 1 || sigismember(&mask, signal) == 1) return 3;
    }
    return 0;
  });
  EXPECT_EQ(child.status, 0);
}

TEST(Log, ASignalThatTheProgramHasPendingStaysPending) {
  const Finished child = InChild([] {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    ::raise(SIGPIPE);
    WriteQuietly(STDERR_FILENO, "x");
    sigset_t pending;
    ::sigpending(&pending);
    return sigismember(&pending, SIGPIPE) == 1 ? 0 : 1;
  });
  EXPECT_EQ(child.status, 0);
}

TEST(Log, AClosedStandardErrorIsNoHarm) {
  const Finished child = InChild([] {
    ::close(STDERR_FILENO);
    ConfigureLog({.level = LogLevel::kInfo});
    LogInfo("x");
    LogOnceToStderr("y");
    return 0;
  });
  EXPECT_EQ(child.status, 0);
}

TEST(LogOnce, IsSaidOnceOnOneLine) {
  const Finished child = InChild([] {
    LogOnceToStderr("policy broken\nforged");
    LogOnceToStderr("again");
    return 0;
  });
  EXPECT_TRUE(std::regex_match(child.err, std::regex("slipstream\\[\\d+\\]: policy broken\\?forged\n"))) << child.err;
}

TEST(LogOnce, LongMessagesAreCutAndNeedNoTerminator) {
  const Finished child = InChild([] {
    const std::string text(10000, 'x');
    LogOnceToStderr(text);
    return 0;
  });
  EXPECT_EQ(child.err.size(), 2047U);
  EXPECT_TRUE(child.err.ends_with("xxx\n"));
  const Finished part = InChild([] {
    LogOnceToStderr(std::string_view("visible hidden").substr(0, 7));
    return 0;
  });
  EXPECT_TRUE(part.err.ends_with(": visible\n")) << part.err;
}

}  // namespace
}  // namespace slipstream::policy
