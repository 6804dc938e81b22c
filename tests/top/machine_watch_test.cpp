// All runs of a machine, from a /proc made by hand: they come and go.

#include "tools/trace/top/machine_watch.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/top/top_testing.h"
#include "tests/tracer/spool_testing.h"
#include "tracer/counters/counter_file.h"

namespace slipstream::top {
namespace {

using namespace std::string_literals;
using tracer::CounterFile;

class MachineWatchTest : public tracer::SpoolTest {
 protected:
  void SetUp() override {
    SpoolTest::SetUp();
    root_ = directory_ + "/proc";
    std::filesystem::create_directory(root_);
    for (const int number : {1, 2}) {
      std::filesystem::create_directory(Run(number));
      chmod(Run(number).c_str(), 0700);
    }
  }
  std::string Run(int number) const { return directory_ + "/run" + std::to_string(number); }
  void Process(int32_t pid, int32_t parent, int run, const std::string& command = "python3\0train.py\0"s,
               char state = 'S') {
    const std::string place = root_ + "/" + std::to_string(pid);
    std::filesystem::create_directory(place);
    tracer::Spit(place + "/stat",
                 std::to_string(pid) + " (python3) " + state + " " + std::to_string(parent) + " 1 1 0 -1");
    tracer::Spit(place + "/comm", "python3\n");
    tracer::Spit(place + "/environ",
                 run == 0 ? "LD_PRELOAD=/x/libslipstream.so\0"s : "SLIPSTREAM_RUN_DIRECTORY="s + Run(run) + "\0"s);
    tracer::Spit(place + "/cmdline", command);
  }
  // The counters of a process of a run. One file is made, and copied with other numbers.
  void Counters(int32_t pid, int run) {
    static const std::string bytes = [] {
      std::string place = (std::filesystem::temp_directory_path() / "slipstream-counters-XXXXXX").string();
      EXPECT_NE(mkdtemp(place.data()), nullptr);
      std::string error;
      // Never destroyed; kept here, so that the leak checker finds it.
      static const CounterFile* const kept = CounterFile::Create(place, 2, {.rank = -1}, &error);
      EXPECT_NE(kept, nullptr) << error;
      std::string text;
      for (const auto& entry : std::filesystem::directory_iterator(place)) text = tracer::Slurp(entry.path());
      std::filesystem::remove_all(place);
      return text;
    }();
    std::string own = bytes;
    std::memcpy(own.data() + offsetof(tracer::FileHeader, pid), &pid, sizeof(pid));
    tracer::Spit(Run(run) + "/" + std::to_string(pid) + "-1.counters", own);
  }
  MachineWatch Watch() const { return {ProcFiles(root_), false}; }
  static View Look(MachineWatch* watch, uint64_t now_ns) {
    watch->Read(now_ns);
    return watch->Look(now_ns);
  }
  static std::vector<int32_t> Pids(const View& view) {
    std::vector<int32_t> pids;
    for (const ProcessView& process : view.processes) pids.push_back(process.pid);
    return pids;
  }

  std::string root_;
};

TEST_F(MachineWatchTest, AllProcessesOfAllRuns) {
  Process(20, 1, 2);
  Process(11, 1, 1, "/opt/solver\0in.txt\0"s);
  Process(12, 11, 1);
  Process(30, 1, 0);
  for (const int32_t pid : {11, 12}) Counters(pid, 1);
  Counters(20, 2);
  MachineWatch watch = Watch();
  View view = Look(&watch, 10 * kSecond);
  EXPECT_EQ(Pids(view), (std::vector<int32_t>{11, 12, 20}));
  EXPECT_EQ(view.processes[0].command, "solver in.txt");
  EXPECT_EQ(view.processes[1].command, "train.py");
  EXPECT_EQ(view.processes[0].directory, Run(1));
  EXPECT_EQ(view.processes[2].directory, Run(2));
  EXPECT_FALSE(view.processes[0].user.empty());
  EXPECT_EQ(view.directories, (std::vector<std::string>{Run(1), Run(2)}));
  EXPECT_EQ(view.uncounted, std::vector<int32_t>{30});
  EXPECT_FALSE(view.ended);
  EXPECT_TRUE(view.problems.empty()) << view.problems[0];
  view = Look(&watch, 12 * kSecond);
  ASSERT_TRUE(view.processes[2].counters);
  EXPECT_EQ(view.processes[2].counters->seconds, 2);
}

TEST_F(MachineWatchTest, OneThatEndsStaysForAWhileAndGoes) {
  Process(11, 1, 1);
  Process(20, 1, 2);
  Counters(11, 1);
  Counters(20, 2);
  MachineWatch watch = Watch();
  ASSERT_EQ(Pids(Look(&watch, 10 * kSecond)).size(), 2U);
  Process(11, 1, 1, "", 'Z');
  const View at_end = Look(&watch, 12 * kSecond);
  ASSERT_EQ(Pids(at_end), (std::vector<int32_t>{11, 20})) << "it keeps its place";
  EXPECT_FALSE(at_end.processes[0].alive);
  EXPECT_EQ(at_end.processes[0].command, "train.py");
  EXPECT_TRUE(at_end.processes[1].alive);
  EXPECT_FALSE(at_end.ended);
  EXPECT_EQ(Pids(Look(&watch, 12 * kSecond + MachineWatch::kEndedShownNs)), (std::vector<int32_t>{11, 20}));
  EXPECT_EQ(Pids(Look(&watch, 13 * kSecond + MachineWatch::kEndedShownNs)), std::vector<int32_t>{20});
  Process(20, 1, 2, "", 'Z');
  EXPECT_TRUE(Look(&watch, 30 * kSecond).ended);
  EXPECT_TRUE(Pids(Look(&watch, 50 * kSecond)).empty());
}

// Of a run that goes on, too; and what had ended before anybody looked is not shown.
TEST_F(MachineWatchTest, AProcessOfARunThatGoesOn) {
  for (const int32_t pid : {11, 12}) Process(pid, 1, 1);
  for (const int32_t pid : {10, 11, 12}) Counters(pid, 1);
  MachineWatch watch = Watch();
  ASSERT_EQ(Pids(Look(&watch, 10 * kSecond)), (std::vector<int32_t>{11, 12}));
  Process(12, 1, 1, "", 'Z');
  ASSERT_EQ(Pids(Look(&watch, 12 * kSecond)), (std::vector<int32_t>{11, 12}));
  EXPECT_EQ(Pids(Look(&watch, 13 * kSecond + MachineWatch::kEndedShownNs)), std::vector<int32_t>{11});
}

TEST_F(MachineWatchTest, NewRunsAppearBehindThoseThatAreKnown) {
  Process(20, 1, 2);
  Counters(20, 2);
  MachineWatch watch = Watch();
  EXPECT_EQ(Pids(Look(&watch, 10 * kSecond)), std::vector<int32_t>{20});
  Process(11, 1, 1);
  Counters(11, 1);
  EXPECT_EQ(Pids(Look(&watch, 10 * kSecond + 1)), std::vector<int32_t>{20}) << "it is not looked for at every look";
  EXPECT_EQ(Pids(Look(&watch, 11 * kSecond)), (std::vector<int32_t>{20, 11}));
}

TEST_F(MachineWatchTest, BeforeTheFirstCallItIsTheProcessThatTheOthersComeFrom) {
  Process(11, 1, 1, "bash\0job.sh\0"s);
  Process(12, 11, 1);
  MachineWatch watch = Watch();
  View view = Look(&watch, 10 * kSecond);
  ASSERT_EQ(Pids(view), std::vector<int32_t>{11});
  EXPECT_EQ(view.processes[0].command, "bash job.sh");
  EXPECT_TRUE(view.processes[0].alive);
  EXPECT_FALSE(view.processes[0].counters);
  EXPECT_FALSE(view.processes[0].recording);
  Counters(12, 1);
  view = Look(&watch, 11 * kSecond);
  ASSERT_EQ(Pids(view), std::vector<int32_t>{12});
  EXPECT_EQ(view.processes[0].recording, tracer::RecordState::kNone);
}

TEST_F(MachineWatchTest, NobodyIsHere) {
  MachineWatch watch = Watch();
  const View view = Look(&watch, 10 * kSecond);
  EXPECT_TRUE(view.ended);
  EXPECT_TRUE(view.processes.empty());
}

}  // namespace
}  // namespace slipstream::top
