// S50, T13: a process that never calls CUDA cannot tell that the library is there.

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "tests/support/plain_build.h"
#include "tests/support/process.h"

namespace slipstream::test {
namespace {

class InertTest : public ::testing::Test {
 protected:
  void SetUp() override { NEEDS_PLAIN_BUILD(); }
};

// Runs the command in a fresh directory that is HOME, TMPDIR and the working directory, and lists what it left there.
struct Traced {
  Finished finished;
  std::vector<std::string> left;
};

Traced RunInside(const std::vector<std::string>& command, Variables variables) {
  const std::string place = NewDirectory();
  variables["HOME"] = place;
  variables["TMPDIR"] = place;
  variables["SLIPSTREAM_RUN_DIRECTORY"] = place;  // where files would go
  std::vector<std::string> words = {"env", "-C", place};
  words.insert(words.end(), command.begin(), command.end());
  Traced traced;
  traced.finished = RunProgram(words, variables);
  traced.left = NamesIn(place);
  return traced;
}

void ExpectSame(const std::vector<std::string>& command) {
  const Traced bare = RunInside(command, {});
  const Traced preloaded = RunInside(command, Preload(SLIPSTREAM_LIBRARY));
  EXPECT_EQ(preloaded.finished.out, bare.finished.out) << command[0];
  EXPECT_EQ(preloaded.finished.err, bare.finished.err) << command[0];
  EXPECT_EQ(preloaded.finished.status, bare.finished.status) << command[0];
  EXPECT_EQ(preloaded.left, bare.left) << command[0];
}

TEST_F(InertTest, S50_OrdinaryProgramsAreUntouched) {
  ExpectSame({"true"});
  ExpectSame({"bash", "-c", "echo hello; ls; exit 3"});
  ExpectSame({"gcc", "-x", "c", "-fsyntax-only", "/dev/null"});
  ExpectSame({"python3", "-c", "pass"});
  ExpectSame({"python3", "-c", "import threading; print(threading.active_count()); raise SystemExit(4)"});
}

TEST_F(InertTest, S50_NoThread) {
  ExpectSame({"grep", "Threads", "/proc/self/status"});
  ExpectSame({"python3", "-c", "print([l for l in open('/proc/self/status') if l.startswith('Threads')])"});
  ExpectSame({PROGRAM, "nothing"});  // linked to libcudart, and calls nothing
}

TEST_F(InertTest, S50_NoFileDescriptor) {
  ExpectSame({"bash", "-c", "cd /proc/self/fd && echo *"});
  ExpectSame({"python3", "-c", "import os; print(len(os.listdir('/proc/self/fd')))"});
}

TEST_F(InertTest, S50_LoadingALibraryThatUsesCudaIsNotAUse) { ExpectSame({LOADER, "nothing", USER13, USER12}); }

TEST_F(InertTest, S50_NoSystemCallOfOursAfterLoading) {
  if (RunProgram({"sh", "-c", "command -v strace"}).status != 0) GTEST_SKIP() << "strace is not installed";
  // What the loader does to map one more library is all there is: the calls after the program's first own
  // ones are the same.
  const std::string place = NewDirectory();
  const auto calls = [&](const char* name, const Variables& variables) {
    Variables inner;
    std::vector<std::string> words = {"strace", "-f", "-o", place + "/" + name, "-e", "trace=!brk"};
    for (const auto& [variable, value] : variables) {
      words.push_back("-E");
      words.push_back(variable + "=" + value);
    }
    words.insert(words.end(), {PROGRAM, "nothing"});
    const Finished finished = RunProgram(words, inner);
    EXPECT_EQ(finished.status, 0) << finished.err;
    const std::string text = ReadFile(place + "/" + name);
    return text.substr(text.find("/proc/self/status"));
  };
  const auto without_pid = [](const std::string& text) {
    std::string kept;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      // Numbers of processes are padded to one width.
      const size_t parenthesis = line.find('(');
      const size_t space = parenthesis != std::string::npos ? line.rfind(' ', parenthesis) : parenthesis;
      if (space != std::string::npos) kept += line.substr(space, parenthesis - space) + "\n";
    }
    return kept;
  };
  const std::string bare = without_pid(calls("bare", {}));
  EXPECT_NE(bare, "");
  EXPECT_EQ(without_pid(calls("preloaded", Preload(SLIPSTREAM_LIBRARY))), bare);
}

}  // namespace
}  // namespace slipstream::test
