// What a process has at work: from a tree of files like /proc's, of real processes, and on its way through a spool.

#include "tracer/spool/task_sampler.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/tracer/spool_testing.h"
#include "tracer/spool/task_record.h"

namespace slipstream::tracer {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kBegin = 50 * kMs;

class TaskSamplerTest : public SpoolTest {
 protected:
  void Put(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = directory_ + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    Spit(file.string(), text);
  }
  void Remove(const std::string& path) const { std::filesystem::remove_all(directory_ + "/" + path); }
  void Threads(int count) const { Put("proc/self/status", "Name:\tpython\nThreads:\t" + std::to_string(count) + "\n"); }
  void Thread(uint32_t tid, uint64_t ran_ns, uint64_t waited_ns, const std::string& children = "") const {
    const std::string folder = "proc/self/task/" + std::to_string(tid);
    Put(folder + "/schedstat", std::to_string(ran_ns) + " " + std::to_string(waited_ns) + " 7\n");
    Put(folder + "/children", children);
  }
  void Process(uint32_t pid, const std::string& name, const std::string& command, uint64_t ran_ns = 0,
               uint64_t waited_ns = 0) const {
    const std::string folder = "proc/" + std::to_string(pid);
    Put(folder + "/comm", name + "\n");
    Put(folder + "/cmdline", command);
    Put(folder + "/schedstat", std::to_string(ran_ns) + " " + std::to_string(waited_ns) + " 7\n");
  }
  TaskSampler Sampler() { return TaskSampler(&files_, directory_ + "/proc", directory_ + "/cgroup"); }
  // A process of one thread, without children or limits.
  void SetUp() override {
    SpoolTest::SetUp();
    int error = 0;
    ASSERT_EQ(files_.Start(&error), OwnFiles::Started::kYes) << error;
    Threads(1);
    Thread(100, 0, 0);
    Put("proc/self/cmdline", Command());
    Put("proc/self/cgroup", "0::/\n");
  }
  static std::string Command() { return std::string("python3\0train.py\0", 17); }

  static const TaskSample* Of(const std::vector<TaskSample>& samples, TasksOf of) {
    for (const TaskSample& sample : samples) {
      if (sample.of == of) return &sample;
    }
    return nullptr;
  }
  // How many workers there are now; -1: it cannot be told.
  static int64_t Workers(TaskSampler* sampler, uint64_t now_ns = kBegin) {
    const std::vector<TaskSample> samples = sampler->Look(now_ns, {});
    const TaskSample* const workers = Of(samples, TasksOf::kWorkers);
    return workers != nullptr ? int64_t{workers->count} : -1;
  }

  OwnFiles files_;
};

TEST_F(TaskSamplerTest, TimesAreThoseSinceTheLookBefore) {
  Threads(3);
  Thread(100, 1000 * kMs, 10 * kMs);
  Thread(101, 5 * kMs, 0);
  Thread(102, 0, 0);
  TaskSampler sampler = Sampler();
  const std::vector<TaskSampler::Thread> main = {{.number = 1, .tid = 100}};
  std::vector<TaskSample> samples = sampler.Look(kBegin, main);
  ASSERT_EQ(samples.size(), 2U) << "there is no time yet that a thread could have run for";
  EXPECT_EQ(samples[0].of, TasksOf::kProcess);
  EXPECT_EQ(samples[0].start_ns, kBegin);
  EXPECT_EQ(samples[0].end_ns, kBegin);
  EXPECT_EQ(samples[0].count, 3U);
  EXPECT_FALSE(samples[0].has_times);
  EXPECT_EQ(samples[1].of, TasksOf::kWorkers);
  EXPECT_EQ(samples[1].count, 0U);

  // In 100 ms: one runs for 60 and waits for 30, one runs for 9, which is no tenth, and one is new.
  Threads(4);
  Thread(100, 1060 * kMs, 40 * kMs);
  Thread(101, 14 * kMs, 0);
  Thread(103, 20 * kMs, 5 * kMs);
  samples = sampler.Look(kBegin + 100 * kMs, main);
  ASSERT_EQ(samples.size(), 3U);
  EXPECT_EQ(samples[0].start_ns, kBegin);
  EXPECT_EQ(samples[0].end_ns, kBegin + 100 * kMs);
  EXPECT_EQ(samples[0].count, 4U);
  EXPECT_TRUE(samples[0].has_times);
  EXPECT_EQ(samples[0].busy, 2U);
  EXPECT_EQ(samples[0].ran_ns, (60 + 9 + 20) * kMs);
  EXPECT_EQ(samples[0].waited_ns, (30 + 5) * kMs);
  EXPECT_FALSE(samples[0].has_throttled);
  EXPECT_EQ(samples[2].of, TasksOf::kThread);
  EXPECT_EQ(samples[2].thread, 1U);
  EXPECT_EQ(samples[2].ran_ns, 60 * kMs);
  EXPECT_EQ(samples[2].waited_ns, 30 * kMs);
  EXPECT_EQ(samples[2].busy, 1U);

  // The number 101 was given to another thread, and 102 has ended.
  Threads(3);
  Remove("proc/self/task/102");
  Thread(101, 2 * kMs, 1 * kMs);
  samples = sampler.Look(kBegin + 200 * kMs, main);
  EXPECT_EQ(samples.at(0).ran_ns, 2 * kMs);
  EXPECT_EQ(samples.at(0).waited_ns, 1 * kMs);
}

TEST_F(TaskSamplerTest, WorkersAreCopiesOfTheProcessAndWhatPythonCallsSo) {
  TaskSampler sampler = Sampler();
  EXPECT_EQ(Workers(&sampler), 0);
  Process(201, "python3", Command(), 10 * kMs, 2 * kMs);
  Process(202, "pt_data_worker", "something else", 20 * kMs, 4 * kMs);
  Process(203, "python3", std::string("python3\0-c\0spawn_main(...)\0--multiprocessing-fork\0", 49));
  Process(204, "python3", std::string("python3\0compile_worker\0--parent=100\0", 36));
  Process(205, "nvcc", "nvcc");
  Process(206, "python3", "");  // it has ended
  Threads(2);
  Thread(100, 0, 0, "201 202 203 ");
  Thread(101, 0, 0, "204 205 206 999 ");
  EXPECT_EQ(Workers(&sampler), 3);
}

TEST_F(TaskSamplerTest, WorkersOfAServerThatForks) {
  Process(300, "python3", "python3 -c from multiprocessing.forkserver import main");
  Process(301, "python3", "python3 -c from multiprocessing.forkserver import main");
  Process(302, "python3", "python3 -c from multiprocessing.resource_tracker import main");
  Put("proc/300/task/300/children", "301 ");
  Thread(100, 0, 0, "300 302 ");
  TaskSampler sampler = Sampler();
  EXPECT_EQ(Workers(&sampler), 1);
}

TEST_F(TaskSamplerTest, TimesOfWorkers) {
  Process(201, "python3", Command(), 10 * kMs, 2 * kMs);
  Process(202, "python3", Command(), 20 * kMs, 4 * kMs);
  Thread(100, 0, 0, "201 202 ");
  TaskSampler sampler = Sampler();
  EXPECT_FALSE(Of(sampler.Look(kBegin, {}), TasksOf::kWorkers) == nullptr);
  Process(201, "python3", Command(), 70 * kMs, 32 * kMs);
  Process(202, "python3", Command(), 21 * kMs, 4 * kMs);
  const std::vector<TaskSample> samples = sampler.Look(kBegin + 100 * kMs, {});
  const TaskSample* const workers = Of(samples, TasksOf::kWorkers);
  ASSERT_NE(workers, nullptr);
  EXPECT_EQ(workers->count, 2U);
  EXPECT_TRUE(workers->has_times);
  EXPECT_EQ(workers->busy, 1U);
  EXPECT_EQ(workers->ran_ns, 61 * kMs);
  EXPECT_EQ(workers->waited_ns, 30 * kMs);
  EXPECT_TRUE(workers->has_began);
  EXPECT_EQ(workers->began, 0U);
}

TEST_F(TaskSamplerTest, WorkersThatBegan) {
  Process(201, "python3", Command(), 10 * kMs);
  Process(202, "python3", Command(), 20 * kMs);
  Process(203, "python3", Command(), 30 * kMs);
  Thread(100, 0, 0, "201 202 203 ");
  TaskSampler sampler = Sampler();
  const std::vector<TaskSample> first = sampler.Look(kBegin, {});
  EXPECT_FALSE(Of(first, TasksOf::kWorkers)->has_began) << "they may have been there before";
  // One stays, the number of one was given to another, one has ended, and two are new.
  Process(202, "python3", Command(), 2 * kMs);
  Process(204, "python3", Command(), 0);
  Process(205, "python3", Command(), 5 * kMs);
  Thread(100, 0, 0, "201 202 204 205 ");
  const std::vector<TaskSample> samples = sampler.Look(kBegin + 100 * kMs, {});
  EXPECT_EQ(Of(samples, TasksOf::kWorkers)->count, 4U);
  EXPECT_EQ(Of(samples, TasksOf::kWorkers)->began, 3U);
}

TEST_F(TaskSamplerTest, WhatCannotBeReadIsNotKnown) {
  Remove("proc/self/task/100/children");  // a kernel without it
  TaskSampler sampler = Sampler();
  EXPECT_EQ(Workers(&sampler), -1);
  Remove("proc/self/task/100/schedstat");
  const std::vector<TaskSample> samples = sampler.Look(kBegin + kMs, {});
  ASSERT_EQ(samples.size(), 1U);
  EXPECT_FALSE(samples[0].has_times);
  EXPECT_EQ(samples[0].count, 1U);
  Remove("proc/self");
  EXPECT_TRUE(sampler.Look(kBegin + 2 * kMs, {}).empty());
}

TEST_F(TaskSamplerTest, OfTooManyThreadsOnlyTheNumberIsKnown) {
  Threads(TaskSampler::kMostThreads + 1);
  TaskSampler sampler = Sampler();
  const std::vector<TaskSample> samples = sampler.Look(kBegin, {});
  ASSERT_EQ(samples.size(), 1U);
  EXPECT_EQ(samples[0].count, TaskSampler::kMostThreads + 1);
}

TEST_F(TaskSamplerTest, TheLowestLimitOfAllGroupsHolds) {
  EXPECT_EQ(Sampler().LimitThousandths(), std::nullopt);
  Put("proc/self/cgroup", "1:name=systemd:/x\n0::/jobs/one\n");
  Put("cgroup/jobs/cpu.max", "400000 100000\n");
  Put("cgroup/jobs/one/cpu.max", "max 100000\n");
  EXPECT_EQ(Sampler().LimitThousandths(), 4000U);
  Put("cgroup/jobs/one/cpu.max", "250000 100000\n");
  EXPECT_EQ(Sampler().LimitThousandths(), 2500U);
  // Of a container that sees its own group as the outermost.
  Put("proc/self/cgroup", "0::/not/there\n");
  Put("cgroup/cpu.max", "150000 100000\n");
  EXPECT_EQ(Sampler().LimitThousandths(), 1500U);
}

TEST_F(TaskSamplerTest, LimitsOfTheFirstVersion) {
  Put("proc/self/cgroup", "3:cpuset:/\n2:cpu,cpuacct:/docker/abc\n");
  Put("cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  Put("cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Sampler().LimitThousandths(), std::nullopt);
  Put("cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n");
  EXPECT_EQ(Sampler().LimitThousandths(), 500U);
  Put("cgroup/cpu,cpuacct/cpu.stat", "nr_periods 9\nnr_throttled 4\nthrottled_time 100\n");
  TaskSampler sampler = Sampler();
  EXPECT_FALSE(sampler.Look(kBegin, {}).at(0).has_throttled);
  Put("cgroup/cpu,cpuacct/cpu.stat", "nr_periods 19\nnr_throttled 7\nthrottled_time 5100\n");
  const std::vector<TaskSample> samples = sampler.Look(kBegin + kMs, {});
  EXPECT_TRUE(samples.at(0).has_throttled);
  EXPECT_EQ(samples[0].throttled, 3U);
  EXPECT_EQ(samples[0].throttled_ns, 5000U);
}

TEST_F(TaskSamplerTest, ThrottledOfTheSecondVersion) {
  Put("cgroup/cpu.max", "200000 100000\n");
  Put("cgroup/cpu.stat", "usage_usec 1\nnr_periods 9\nnr_throttled 1\nthrottled_usec 10\n");
  TaskSampler sampler = Sampler();
  EXPECT_FALSE(sampler.Look(kBegin, {}).at(0).has_throttled);
  Put("cgroup/cpu.stat", "usage_usec 1\nnr_periods 9\nnr_throttled 3\nthrottled_usec 25\n");
  const std::vector<TaskSample> samples = sampler.Look(kBegin + kMs, {});
  EXPECT_EQ(samples.at(0).throttled, 2U);
  EXPECT_EQ(samples[0].throttled_ns, 15'000U);
}

TEST_F(TaskSamplerTest, LooksBecomeRare) {
  TaskSampler sampler = Sampler();
  std::vector<uint64_t> ms;
  uint64_t now = kBegin;
  for (int i = 0; i < 40; ++i) {
    EXPECT_FALSE(sampler.Look(now, {}).empty());
    now += sampler.PeriodNs();
    ms.push_back((now - kBegin) / kMs);
  }
  EXPECT_EQ(std::vector<uint64_t>(ms.begin(), ms.begin() + 8),
            (std::vector<uint64_t>{50, 100, 200, 400, 800, 1600, 2600, 3600}));
  EXPECT_EQ(ms[39] - ms[38], 5000U);
}

// ---- real processes

// A child of the calling thread, a copy of this process, until it is told to end.
pid_t ForkWaiting() {
  const pid_t child = fork();
  if (child == 0) {
    while (true) pause();
  }
  return child;
}

void EndChild(pid_t child) {
  ASSERT_GT(child, 0);
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

TEST_F(TaskSamplerTest, OfThisProcess) {
  TaskSampler sampler(&files_);
  if (Workers(&sampler, kBegin) < 0) GTEST_SKIP() << "this kernel does not list children (CONFIG_PROC_CHILDREN)";
  EXPECT_EQ(Workers(&sampler, kBegin + 1), 0);
  const pid_t child = ForkWaiting();
  pid_t of_thread = 0;
  // Its parent thread lives on: a child of one that has ended belongs to another thread.
  std::atomic<bool> forked{false};
  std::atomic<bool> done{false};
  std::thread other([&] {
    of_thread = ForkWaiting();
    forked.store(true);
    while (!done.load()) std::this_thread::yield();
  });
  while (!forked.load()) std::this_thread::yield();
  EXPECT_EQ(Workers(&sampler, kBegin + 2), 2);
  const std::vector<TaskSample> samples = sampler.Look(kBegin + 3, {});
  ASSERT_FALSE(samples.empty());
  EXPECT_GE(samples[0].count, 2U) << "threads";
  done.store(true);
  other.join();
  EndChild(child);
  EXPECT_EQ(Workers(&sampler, kBegin + 4), 1);
  EndChild(of_thread);
  EXPECT_EQ(Workers(&sampler, kBegin + 5), 0);
}

// Files of /proc go away under the reader.
TEST_F(TaskSamplerTest, WhileTheProgramForksAndThreadsEnd) {
  TaskSampler sampler(&files_);
  if (Workers(&sampler, kBegin) < 0) GTEST_SKIP() << "this kernel does not list children (CONFIG_PROC_CHILDREN)";
  std::atomic<bool> done{false};
  std::thread forks([&] {
    while (!done.load()) EndChild(ForkWaiting());
  });
  std::thread threads([&] {
    while (!done.load()) std::thread([] {}).join();
  });
  for (uint64_t look = 1; look <= 200; ++look) {
    const std::vector<TaskSample> samples = sampler.Look(kBegin + look * kMs, {});
    ASSERT_FALSE(samples.empty());
    EXPECT_GE(samples[0].count, 3U);
    const TaskSample* const workers = Of(samples, TasksOf::kWorkers);
    if (workers == nullptr) continue;
    EXPECT_LE(workers->count, 1U);
  }
  done.store(true);
  forks.join();
  threads.join();
  EXPECT_EQ(Workers(&sampler, kBegin + 900 * kMs), 0);
}

// ---- through a spool

TEST_F(TaskSamplerTest, ARecordKeepsEveryField) {
  const TaskSample all = {.start_ns = 11,
                          .end_ns = 22,
                          .of = TasksOf::kThread,
                          .thread = 0xfffffff0,
                          .count = 0xfffffff1,
                          .busy = 0xfffffff2,
                          .has_times = true,
                          .ran_ns = ~uint64_t{3},
                          .waited_ns = ~uint64_t{4},
                          .has_throttled = true,
                          .throttled = 0xfffffff3,
                          .throttled_ns = ~uint64_t{5}};
  const TaskSample read = TasksIn(RecordOf(all));
  EXPECT_EQ(read.start_ns, all.start_ns);
  EXPECT_EQ(read.end_ns, all.end_ns);
  EXPECT_EQ(read.of, all.of);
  EXPECT_EQ(read.thread, all.thread);
  EXPECT_EQ(read.count, all.count);
  EXPECT_EQ(read.busy, all.busy);
  EXPECT_EQ(read.has_times, all.has_times);
  EXPECT_EQ(read.ran_ns, all.ran_ns);
  EXPECT_EQ(read.waited_ns, all.waited_ns);
  EXPECT_EQ(read.has_throttled, all.has_throttled);
  EXPECT_EQ(read.throttled, all.throttled);
  EXPECT_EQ(read.throttled_ns, all.throttled_ns);
  EXPECT_FALSE(read.has_began);
  EXPECT_EQ(read.began, 0U);

  const TaskSample workers = TasksIn(RecordOf({.of = TasksOf::kWorkers, .has_began = true, .began = 0xfffffff6}));
  EXPECT_TRUE(workers.has_began);
  EXPECT_EQ(workers.began, 0xfffffff6);
  EXPECT_FALSE(workers.has_throttled);
  EXPECT_EQ(workers.throttled, 0U);
}

TEST_F(TaskSamplerTest, ARecorderLooksAtTheBeginningAndAtTheEnd) {
  RecorderOptions options = {.directory = directory_};
  options.samples_tasks = true;
  auto recorder = StartRecorder(options);
  ASSERT_NE(recorder, nullptr);
  recorder->Record(NumberedCall(0));
  // One that ends before its thread has come to look has the last look only.
  while (ReadSpool(OnlySpool()).Of(RecordKind::kTasks).empty()) std::this_thread::yield();
  ASSERT_TRUE(recorder->Finish(kForeverNs));
  std::vector<TaskSample> looks;
  const Spool spool = ReadSpool(OnlySpool());
  for (const SpoolRecord& record : spool.Of(RecordKind::kTasks)) {
    EXPECT_EQ(record.thread, 0U);
    const TaskSample sample = TasksIn(record.record);
    if (sample.of == TasksOf::kProcess) looks.push_back(sample);
    if (sample.of == TasksOf::kThread) {
      EXPECT_EQ(sample.thread, 1U);
    }
  }
  ASSERT_GE(looks.size(), 2U);
  EXPECT_EQ(looks.front().start_ns, looks.front().end_ns);
  EXPECT_GE(looks.front().count, 2U) << "this thread and the recorder's";
  for (size_t i = 1; i < looks.size(); ++i) EXPECT_EQ(looks[i].start_ns, looks[i - 1].end_ns);
  EXPECT_EQ(spool.end().skipped_records, 0U);
}

TEST_F(TaskSamplerTest, ARecorderThatIsNotToldToDoesNotLook) {
  auto recorder = StartRecorder({.directory = directory_});
  ASSERT_NE(recorder, nullptr);
  recorder->Record(NumberedCall(0));
  ASSERT_TRUE(recorder->Finish(kForeverNs));
  EXPECT_TRUE(ReadSpool(OnlySpool()).Of(RecordKind::kTasks).empty());
}

TEST_F(TaskSamplerTest, ARecorderThatIsPausedDoesNotLook) {
  RecorderOptions options = {.directory = directory_};
  options.samples_tasks = true;
  options.turned_off = true;
  auto recorder = StartRecorder(options);
  ASSERT_NE(recorder, nullptr);
  ASSERT_TRUE(recorder->Finish(kForeverNs));
  EXPECT_TRUE(ReadSpool(OnlySpool()).Of(RecordKind::kTasks).empty());
}

}  // namespace
}  // namespace slipstream::tracer
