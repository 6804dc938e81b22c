// However a process ends while its threads are inside hooked calls: output, exit status and signal are its own, and its
// trace can be read.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/preload/tracer/trace_testing.h"
#include "tests/support/plain_build.h"

namespace slipstream::test {
namespace {

#if defined(__SANITIZE_THREAD__)
// It reports threads that are still running when the process ends, and other things that these programs do on purpose.
#define NEEDS_NO_THREAD_SANITIZER() GTEST_SKIP() << "ThreadSanitizer has its own way with the end of a process"
#else
#define NEEDS_NO_THREAD_SANITIZER() static_cast<void>(0)
#endif

Variables EndVariables() {
  Variables variables = Preload("");
  variables["SIMCUDA_SEED"] = "0";
  variables["ASAN_OPTIONS"] += ":handle_abort=0:handle_segv=0";
  return variables;
}

// Bare and recorded; the same, and the trace is whole but for its end.
void EndsAsBare(const std::vector<std::string>& way, int status, Variables more = {}) {
  std::vector<std::string> command = {ENDS};
  command.insert(command.end(), way.begin(), way.end());
  Variables bare_variables = EndVariables();
  if (more.count("SIMCUDA_EXIT") != 0) bare_variables["SIMCUDA_EXIT"] = "1";
  const Finished bare = RunProgram(command, bare_variables);
  EXPECT_EQ(bare.status, status) << bare.out << bare.err;
  const std::string directory = NewDirectory();
  more["ASAN_OPTIONS"] = EndVariables()["ASAN_OPTIONS"];
  const Finished traced = RunTraced(command, directory, more);
  EXPECT_EQ(traced.status, bare.status);
  EXPECT_EQ(traced.out, bare.out);
  EXPECT_EQ(traced.err, bare.err);
  const Trace trace = ReadOnlyTrace(directory);
  ASSERT_NE(trace.reader, nullptr);
  EXPECT_TRUE(trace.end().left_why.empty() || trace.end().left_why == "the last chunk is cut") << trace.end().left_why;
}

TEST(EndsTest, S53_ExitWhileThreadsCopy) {
  NEEDS_NO_THREAD_SANITIZER();
  EndsAsBare({"exit"}, 5);
}
TEST(EndsTest, S53_TheEndOfMainWhileThreadsCopy) {
  NEEDS_NO_THREAD_SANITIZER();
  EndsAsBare({"return"}, 4);
}
TEST(EndsTest, S53_ExitByAnotherThread) {
  NEEDS_NO_THREAD_SANITIZER();
  EndsAsBare({"pthread_exit"}, 9);
}
// The driver's own exit handler is behind everything that calls it: no thread of slipstream's does from there on.
// Memory that is idle would go back to the driver every quarter of a second.
TEST(EndsTest, S75_NoThreadOfOursCallsADriverThatEnds) {
  NEEDS_NO_THREAD_SANITIZER();
  const Variables pool_alone = {{"SLIPSTREAM_TRANSFER_H2D", "off"}, {"SLIPSTREAM_TRANSFER_D2H", "off"}};
  for (Variables more : {Variables{}, Variables{{"SLIPSTREAM_INTERCEPT_LEVEL", "driver"}}, pool_alone}) {
    more["SIMCUDA_EXIT"] = "600";
    more["SLIPSTREAM_ALLOCATOR_DECAY"] = "1";
    EndsAsBare({"pthread_exit"}, 9, more);
  }
}
// libcudart takes itself apart when the process ends, and a call that begins meanwhile crashes. One that the program
// had made before is in CUDA by then, as it is without slipstream: it does not stay in slipstream's own code until it
// is too late.
TEST(EndsTest, S75_ACallThatWasMadeBeforeTheEndIsInTheRuntimeByThen) {
  NEEDS_NO_THREAD_SANITIZER();
  for (const char* const function : {"cuCtxGetCurrent", "cuPointerGetAttributes", "cuStreamQuery"}) {
    for (Variables more : {Variables{}, Variables{{"SLIPSTREAM_INTERCEPT_LEVEL", "driver"}}}) {
      SCOPED_TRACE(function);
      more["SIMCUDA_RUNTIME_EXIT"] = "300";
      EndsAsBare({"late", function}, 3, more);
    }
  }
}
TEST(EndsTest, S58_ExecWhileThreadsCopy) {
  NEEDS_NO_THREAD_SANITIZER();
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the shell cannot load a sanitized library";
#endif
  EndsAsBare({"exec"}, 6);
}
TEST(EndsTest, S58_UnderscoreExitWhileThreadsCopy) {
  NEEDS_NO_THREAD_SANITIZER();
  EndsAsBare({"_exit"}, 7);
}
TEST(EndsTest, S58_QuickExitWhileThreadsCopy) {
  NEEDS_NO_THREAD_SANITIZER();
  EndsAsBare({"quick_exit"}, 8);
}
TEST(EndsTest, S58_AbortAndWhatLeadsThere) {
  NEEDS_NO_THREAD_SANITIZER();
  for (const char* const way : {"abort", "terminate", "thread_throws"}) {
    SCOPED_TRACE(way);
    EndsAsBare({way}, 128 + SIGABRT);
  }
}
TEST(EndsTest, S54_SignalsThatNobodyHandlesEndTheProcess) {
  NEEDS_NO_THREAD_SANITIZER();
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGALRM, SIGPIPE, SIGKILL, SIGXFSZ, SIGSEGV}) {
    SCOPED_TRACE(number);
    EndsAsBare({"kill", std::to_string(number)}, 128 + number);
  }
}
TEST(EndsTest, S54_SignalsThatTheProgramHandlesAreHandledByIt) {
  NEEDS_NO_THREAD_SANITIZER();
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGALRM}) {
    SCOPED_TRACE(number);
    EndsAsBare({"handled", std::to_string(number)}, 10);
  }
}

// A thread that stands inside the driver, in a call of the library's own, holds whatever lock the library takes there.
TEST(EndsTest, S53_ExitWhileAThreadStandsInTheDriver) {
  NEEDS_NO_THREAD_SANITIZER();
  for (const char* const function :
       {"cuMemcpyHtoDAsync_v2",  "cuMemcpyDtoHAsync_v2", "cuMemAlloc_v2",
        "cuMemFree_v2",          "cuMemFreeAsync",       "cuEventRecord",
        "cuEventQuery",          "cuEventSynchronize",   "cuEventCreate",
        "cuCtxRecordEvent",      "cuCtxWaitEvent",       "cuPointerGetAttributes",
        "cuPointerGetAttribute", "cuStreamIsCapturing",  "cuStreamQuery",
        "cuMemGetInfo_v2",       "cuCtxGetCurrent",      "cuThreadExchangeStreamCaptureMode",
        "cuStreamSynchronize",   "cuStreamWaitEvent",    "cuMemHostRegister_v2"}) {
    SCOPED_TRACE(function);
    EndsAsBare({"held", function}, 3);
    EndsAsBare({"held", function}, 3, {{"SLIPSTREAM_ALLOCATOR_MODE", "off"}});
  }
}

// C14: what is done about signals is the program's, and none is blocked, before and after.
TEST(EndsTest, C14_S54_NoSignalHandlerIsReplaced) {
  const std::string directory = NewDirectory();
  const Finished bare = RunProgram({ENDS, "signals"}, EndVariables());
  Variables more = {{"SLIPSTREAM_TRACER_STACKS", "full"}};
  if (EndVariables().count("ASAN_OPTIONS") != 0) more["ASAN_OPTIONS"] = EndVariables()["ASAN_OPTIONS"];
  const Finished traced = RunTraced({ENDS, "signals"}, directory, more);
  ASSERT_EQ(bare.status, 0);
  EXPECT_EQ(traced.out, bare.out);
  std::string before;
  std::string after;
  std::istringstream lines(traced.out);
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.find(' ');
    (line.starts_with("before") ? before : after) += line.substr(space) + "\n";
  }
  EXPECT_GT(before.size(), 1000U);
  EXPECT_EQ(before, after);
}

// C14: twenty processes that start at once are inside slipstream's start-up all together, so that none holds a lock
// that another waits for: each stands at the call until all have come.
void AllMeetAt(const std::string& call) {
  constexpr int kProcesses = 20;
  const std::string directory = NewDirectory();
  int come[2];
  int go[2];
  ASSERT_EQ(pipe(come), 0);
  ASSERT_EQ(pipe(go), 0);
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      Variables variables = TracingPreload(SLIPSTREAM_LIBRARY, directory);
      variables["LD_PRELOAD"] = std::string(FAILING_LIBC) + ":" + SLIPSTREAM_LIBRARY;
      variables["MEET_LIBC"] = call;
      variables["MEET_LIBC_AT"] = std::to_string(come[1]) + ":" + std::to_string(go[0]);
      variables["SLIPSTREAM_LOG_FILE"] = directory + "/log.txt";
      variables["SLIPSTREAM_LOG_LEVEL"] = "debug";
      for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
      const int null = open("/dev/null", O_WRONLY);
      dup2(null, STDOUT_FILENO);
      execl(ENDS, ENDS, "signals", static_cast<char*>(nullptr));
      _exit(127);
    }
    children.push_back(child);
  }
  int here = 0;
  pollfd waiting = {come[0], POLLIN, 0};
  char bytes[kProcesses] = {};
  while (here < kProcesses && poll(&waiting, 1, 60'000) == 1) {
    const ssize_t got = read(come[0], bytes, static_cast<size_t>(kProcesses - here));
    ASSERT_GT(got, 0);
    here += static_cast<int>(got);
  }
  EXPECT_EQ(here, kProcesses);
  ASSERT_EQ(write(go[1], bytes, kProcesses), kProcesses);
  for (const pid_t child : children) {
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  for (const int descriptor : {come[0], come[1], go[0], go[1]}) close(descriptor);
  EXPECT_EQ(Spools(directory).size(), static_cast<size_t>(kProcesses));
}

TEST(StartTest, C14_TwentyProcessesStartAtOnce) {
  NEEDS_NO_SANITIZER("a sanitizer has the C library's functions itself");
  // Where the log is opened, the counter file made, and the recorder's thread started.
  for (const char* const call : {"open@1", "posix_fallocate@1", "pthread_create@1"}) {
    SCOPED_TRACE(call);
    AllMeetAt(call);
  }
}

}  // namespace
}  // namespace slipstream::test
