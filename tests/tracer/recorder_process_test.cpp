// Processes that die, fork, lose their descriptors or may not write on: the file is good, and the program knows
// nothing.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/tracer/killed_recording.h"
#include "tests/tracer/spool_testing.h"

#if defined(__SANITIZE_THREAD__)
#define SLIPSTREAM_UNDER_TSAN 1
#else
#define SLIPSTREAM_UNDER_TSAN 0
#endif

namespace slipstream::tracer {
namespace {

constexpr int kSkipped = 77;

class RecorderProcessTest : public SpoolTest {
 protected:
  // What `body` does in a process of its own; its wait status. Leaves without destructors or exit handlers.
  template <typename Body>
  static int InChild(const Body& body) {
    const pid_t child = fork();
    if (child == 0) {
      body();
      _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status;
  }
  RecorderOptions Options() const { return {.directory = directory_}; }
  // Never deleted, as in the library.
  static Recorder* Start(const RecorderOptions& options) {
    SpoolFailure why;
    Recorder* const recorder = Recorder::Start(options, &why);
    EXPECT_NE(recorder, nullptr) << NameOf(why.problem) << " " << why.error;
    if (recorder == nullptr) _exit(1);
    return recorder;
  }
  static void RecordCalls(Recorder* recorder, uint64_t count, uint64_t thread = 0) {
    for (uint64_t i = 0; i < count; ++i) recorder->Record(NumberedCall(i, thread));
  }
};

// That the system has put the writer thread of this process to sleep.
bool WriterSleeps() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    const std::string stat = Slurp(task.path() / "stat");
    if (stat.find("(slipstream-rec) S") != std::string::npos) return true;
  }
  return false;
}

// S58.
TEST_F(RecorderProcessTest, S58_KilledAtAnyMoment) {
  constexpr int kRounds = SLIPSTREAM_UNDER_TSAN ? 20 : 60;  // there one takes more than a second
  constexpr int kThreads = 4;
  std::mt19937 random(7);
  uint64_t records = 0;
  uint64_t drops = 0;
  int with_records = 0;
  for (int round = 0; round < kRounds; ++round) {
    RecorderOptions options = {.directory = directory_ + "/" + std::to_string(round)};
    options.ring_records = 256;
    options.period_ns = 1'000'000;
    KilledRecording killed;
    ASSERT_NO_FATAL_FAILURE(RecordUntilKilled(options, kThreads, 1600, &random, &killed));
    const Spool& spool = killed.spool;
    CheckThreads(spool);
    EXPECT_FALSE(spool.end().complete);
    EXPECT_GT(spool.end().last_pass_ns, 0U);
    const size_t calls = spool.Of(RecordKind::kCall).size();
    records += calls;
    drops += spool.end().dropped;
    if (calls > 0) ++with_records;
  }
  EXPECT_GT(with_records, kRounds / 2);
  RecordProperty("records", std::to_string(records));
  RecordProperty("drops", std::to_string(drops));
}

TEST_F(RecorderProcessTest, WithoutFinishTheEndIsMissing) {
  const int status = InChild([&] {
    RecorderOptions options = Options();
    options.ring_records = 64;
    options.period_ns = 60'000'000'000;  // it has to be called
    Recorder* const recorder = Start(options);
    while (!WriterSleeps()) std::this_thread::yield();
    RecordCalls(recorder, 33);  // half of the ring and one: the writer comes
    // Until its round is in the file.
    while (ReadSpool(OnlySpool()).Of(RecordKind::kCall).size() < 33) std::this_thread::yield();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  });
  EXPECT_EQ(status, 0);
  const Spool spool = ReadSpool(OnlySpool());
  EXPECT_EQ(spool.Of(RecordKind::kCall).size(), 33U);
  EXPECT_FALSE(spool.end().complete);
  EXPECT_EQ(spool.end().left_bytes, 0U);
  for (const auto& [number, thread] : spool.reader->threads()) EXPECT_FALSE(thread.ended);
}

// S51. While the parent's threads record, a child that leaves, and one that records on its own.
TEST_F(RecorderProcessTest, S51_AForkedChildRecordsNothingAndItsParentsFileIsUnharmed) {
  if (SLIPSTREAM_UNDER_TSAN) GTEST_SKIP() << "ThreadSanitizer has no threads after a fork of a process with threads";
  const int status = InChild([&] {
    RecorderOptions options = Options();
    options.ring_records = 1024;
    options.period_ns = 1'000'000;
    Recorder* const recorder = Start(options);
    std::atomic<bool> stop{false};
    std::atomic<int> started{0};
    std::vector<std::thread> threads;
    std::vector<uint64_t> made(3);
    for (uint64_t t = 0; t < made.size(); ++t) {
      threads.emplace_back([&, t] {
        uint64_t i = 0;
        for (; !stop.load() || i < 10; ++i) {
          recorder->Record(NumberedCall(i, t));
          if (i == 0) ++started;
        }
        made[t] = i;
      });
    }
    while (started.load() != 3) std::this_thread::yield();
    RecordCalls(recorder, 10, 50);  // this thread has a ring too, which the children inherit
    const std::string file = OnlySpool();

    for (int round = 0; round < 5; ++round) {
      // A child that goes on with what it has, and exits as programs do.
      EXPECT_EQ(InChild([&] {
                  if (recorder->recording()) _exit(2);
                  RecordCalls(recorder, 5000, 666);
                  if (recorder->Finish(kForeverNs)) _exit(3);
                  if (recorder->failure().problem != SpoolProblem::kNone) _exit(4);
                  std::thread([&] { RecordCalls(recorder, 100, 667); }).join();
                }),
                0);
      // One that the C library knows nothing of.
      const auto cloned = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
      if (cloned == 0) {
        RecordCalls(recorder, 5000, 668);
        _exit(recorder->recording() ? 2 : 0);
      }
      int cloned_status = -1;
      EXPECT_EQ(waitpid(cloned, &cloned_status, 0), cloned);
      EXPECT_EQ(cloned_status, 0);
    }
    // One that starts its own.
    EXPECT_EQ(InChild([&] {
                Recorder* const own = Start(options);
                RecordCalls(own, 500, 70);
                RecordCalls(recorder, 500, 666);
                std::thread([&] { RecordCalls(own, 300, 71); }).join();
                if (!own->Finish(kForeverNs)) _exit(2);
              }),
              0);
    stop.store(true);
    for (std::thread& thread : threads) thread.join();
    recorder->Record(NumberedCall(10, 50));
    EXPECT_TRUE(recorder->Finish(kForeverNs));
    const Spool spool = ReadSpool(file);
    EXPECT_TRUE(spool.end().complete);
    auto calls = CheckThreads(spool);
    EXPECT_EQ(calls.size(), 4U);
    for (uint64_t t = 0; t < made.size(); ++t) EXPECT_EQ(calls[t], made[t]);
    EXPECT_EQ(calls[50], 11U);
  });
  EXPECT_EQ(status, 0);

  const std::vector<std::string> paths = Spools();
  ASSERT_EQ(paths.size(), 2U);
  int children = 0;
  for (const std::string& path : paths) {
    const Spool spool = ReadSpool(path);
    EXPECT_TRUE(spool.end().complete);
    const auto calls = CheckThreads(spool);
    if (calls.count(70) == 0) continue;
    ++children;
    EXPECT_EQ(calls.size(), 2U);
    EXPECT_EQ(calls.at(70), 500U);
    EXPECT_EQ(calls.at(71), 300U);
  }
  EXPECT_EQ(children, 1);
}

// What a file size limit does to whoever writes past it: SIGXFSZ, which ends the process.
TEST_F(RecorderProcessTest, AFileSizeLimitEndsTheRecordingAndNotTheProgram) {
  const int status = InChild([&] {
    signal(SIGXFSZ, SIG_DFL);
    const rlimit limit = {150'000, 150'000};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    Recorder* const recorder = Start(Options());
    uint64_t made = 0;
    while (recorder->recording()) recorder->Record(NumberedCall(made++));
    EXPECT_TRUE(recorder->Finish(kForeverNs));
    EXPECT_EQ(recorder->failure().error, EFBIG);
    sigset_t pending;
    sigpending(&pending);
    EXPECT_EQ(sigismember(&pending, SIGXFSZ), 0) << "it waits for the program";
  });
  EXPECT_EQ(status, 0);
  const Spool spool = ReadSpool(OnlySpool());
  CheckThreads(spool);
  EXPECT_GT(spool.Of(RecordKind::kCall).size(), 0U);
  EXPECT_EQ(spool.end().left_bytes, 0U);
  EXPECT_TRUE(spool.end().complete);
  EXPECT_EQ(spool.end().error, EFBIG);
}

TEST_F(RecorderProcessTest, AFullFileSystemEndsTheRecordingAndNotTheProgram) {
  const int status = InChild([&] {
    // In a mount namespace of our own.
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", directory_.c_str(), "tmpfs", 0, "size=262144,mode=0700") != 0) {
      _exit(kSkipped);
    }
    Recorder* const recorder = Start(Options());
    uint64_t made = 0;
    while (recorder->recording()) recorder->Record(NumberedCall(made++));
    EXPECT_TRUE(recorder->Finish(kForeverNs));
    EXPECT_EQ(recorder->failure().error, ENOSPC);
    const Spool spool = ReadSpool(OnlySpool());
    CheckThreads(spool);
    EXPECT_GT(spool.Of(RecordKind::kCall).size(), 0U);
    EXPECT_EQ(spool.end().left_bytes, 0U);
    // And one that finds it full from the start: the file is made, and nothing fits.
    std::ofstream(directory_ + "/filler") << std::string(300'000, 'x');
    SpoolFailure why;
    EXPECT_EQ(Recorder::Start(Options(), &why), nullptr);
    EXPECT_EQ(why.problem, SpoolProblem::kWriting);
    EXPECT_EQ(why.error, ENOSPC);
  });
  if (WIFEXITED(status) && WEXITSTATUS(status) == kSkipped) GTEST_SKIP() << "may not mount a small file system here";
  EXPECT_EQ(status, 0);
}

TEST_F(RecorderProcessTest, AReadOnlyFileSystemMeansNoRecording) {
  const int status = InChild([&] {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", directory_.c_str(), "tmpfs", MS_RDONLY, "mode=0700") != 0) {
      _exit(kSkipped);
    }
    SpoolFailure why;
    EXPECT_EQ(Recorder::Start(Options(), &why), nullptr);
    EXPECT_EQ(why.problem, SpoolProblem::kNoFile);
    EXPECT_EQ(why.error, EROFS);
  });
  if (WIFEXITED(status) && WEXITSTATUS(status) == kSkipped) GTEST_SKIP() << "may not mount a file system here";
  EXPECT_EQ(status, 0);
}

// Programs that become daemons close whatever there is, and get the same numbers again.
TEST_F(RecorderProcessTest, AProgramThatClosesEveryDescriptorGetsNothingOfOurs) {
  constexpr int kFiles = 20;
  const int status = InChild([&] {
    RecorderOptions options = Options();
    options.period_ns = 1'000'000;
    Recorder* const recorder = Start(options);
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code error;
      const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
      EXPECT_EQ(target.find(kSpoolSuffix), std::string::npos) << target;
    }
    RecordCalls(recorder, 100, 1);
    syscall(SYS_close_range, 3, ~0U, 0);
    for (int i = 0; i < kFiles; ++i) {
      const std::string path = directory_ + "/mine" + std::to_string(i);
      if (open(path.c_str(), O_RDWR | O_CREAT, 0600) < 0) _exit(2);
    }
    std::thread([&] { RecordCalls(recorder, 20'000, 2); }).join();
    if (!recorder->Finish(kForeverNs)) _exit(3);
  });
  EXPECT_EQ(status, 0);
  for (int i = 0; i < kFiles; ++i) EXPECT_EQ(Slurp(directory_ + "/mine" + std::to_string(i)), "");
  const Spool spool = ReadSpool(OnlySpool());
  EXPECT_TRUE(spool.end().complete);
  const auto calls = CheckThreads(spool);
  EXPECT_EQ(calls.at(1), 100U);
  EXPECT_EQ(calls.at(2), 20'000U);
}

// 8 threads make 100 MB of records for a file that takes none.
std::atomic<bool> g_stuck{false};
ssize_t StuckPwrite(int fd, const void* bytes, size_t size, off_t offset) {
  g_stuck.wait(true);
  return pwrite(fd, bytes, size, offset);
}

TEST_F(RecorderProcessTest, MemoryIsBoundedWhateverIsRecorded) {
  const int status = InChild([&] {
    RecorderOptions options = Options();
    options.ring_records = 4096;
    options.calls.pwrite = StuckPwrite;
    Recorder* const recorder = Start(options);
    g_stuck.store(true);
    const auto resident = [] {
      long pages = 0;
      long total = 0;
      std::ifstream("/proc/self/statm") >> total >> pages;
      return pages * sysconf(_SC_PAGESIZE);
    };
    const auto run = [&] {
      std::vector<std::thread> threads;
      for (uint64_t t = 0; t < 8; ++t) threads.emplace_back([&, t] { RecordCalls(recorder, 200'000, t); });
      for (std::thread& thread : threads) thread.join();
    };
    const long before = resident();
    run();
    constexpr long kRings = 8L * (4096 * 64 + 4096);
    EXPECT_LT(resident() - before, kRings + (SLIPSTREAM_UNDER_TSAN ? 64L << 20 : 16L << 20));
    g_stuck.store(false);
    g_stuck.notify_all();
    if (!recorder->Finish(kForeverNs)) _exit(2);
  });
  EXPECT_EQ(status, 0);
  const Spool spool = ReadSpool(OnlySpool());
  uint64_t made = 0;
  for (const auto& [thread, calls] : CheckThreads(spool)) made += calls;
  EXPECT_EQ(made, 8 * 200'000U);
  EXPECT_GT(spool.end().dropped, 8 * 150'000U);
}

}  // namespace
}  // namespace slipstream::tracer
