// The tracer as the shim uses it: what is asked for is recorded, and without a counter file nothing is.

#include "tracer/tracer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "tracer/counters/counter_reader.h"

namespace slipstream::tracer {
namespace {

constexpr const char* kDecisions[] = {"transfer.h2d.promoted.small", "transfer.sync.skipped"};

// Tracers are never destroyed; kept here, so that the leak checker finds them.
Tracer* Start(const policy::Tracer& policy, const std::string& run_directory) {
  static auto* const kept = new std::vector<Tracer*>;
  std::string problem;
  Tracer* tracer = kept->emplace_back(Tracer::Start(policy, run_directory, {}, &problem));
  EXPECT_EQ(problem, "");
  return tracer;
}

class TracerDecisions : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(mkdtemp(directory_.data()), nullptr); }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  // The decisions of the one process that has counted there.
  std::vector<DecisionCounts> Read() const {
    std::vector<std::string> problems;
    const auto processes = ReadRunDirectory(directory_, &problems);
    EXPECT_EQ(processes.size(), 1U);
    return processes.size() == 1 ? processes[0].decisions : std::vector<DecisionCounts>();
  }

  std::string directory_ = (std::filesystem::temp_directory_path() / "slipstream-test-XXXXXX").string();
};

TEST_F(TracerDecisions, ReachTheCounterFile) {
  Tracer* tracer = Start({.nvtx = false}, directory_);
  ASSERT_NE(tracer, nullptr);
  std::thread([tracer] {
    tracer->CountDecision(0, 1, 1, CallShare::kOutcome);  // before it has a name
    tracer->NameDecisions(kDecisions);
    tracer->CountDecision(1, 10, 100, CallShare::kOutcome);
    tracer->CountDecision(std::size(kDecisions), 1, 1, CallShare::kOutcome);
    tracer->CountDecision(~size_t{0}, 1, 1, CallShare::kOutcome);
  }).join();
  const std::vector<DecisionCounts> decisions = Read();
  ASSERT_EQ(decisions.size(), 2U);
  EXPECT_EQ(decisions[0].count, 0U);
  EXPECT_EQ(decisions[1].name, "transfer.sync.skipped");
  EXPECT_EQ(decisions[1].count, 1U);
  EXPECT_EQ(decisions[1].bytes, 10U);
  EXPECT_EQ(decisions[1].time_ns, 100U);
}

TEST_F(TracerDecisions, OfNoThreadAreLost) {
  // More threads than there are blocks of their own.
  Tracer* tracer = Start({.nvtx = false, .max_threads = 2}, directory_);
  ASSERT_NE(tracer, nullptr);
  tracer->NameDecisions(kDecisions);
  constexpr int kThreads = 5;
  constexpr uint64_t kEach = 20'000;
  std::atomic<int> waiting{kThreads};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      --waiting;
      while (waiting.load() != 0) std::this_thread::yield();  // all at once
      for (uint64_t i = 0; i < kEach; ++i) tracer->CountDecision(i % 2, 3, 5, CallShare::kOutcome);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<DecisionCounts> decisions = Read();
  ASSERT_EQ(decisions.size(), 2U);
  for (const DecisionCounts& decision : decisions) {
    EXPECT_EQ(decision.count, kThreads * kEach / 2);
    EXPECT_EQ(decision.bytes, kThreads * kEach / 2 * 3);
    EXPECT_EQ(decision.time_ns, kThreads * kEach / 2 * 5);
  }
}

TEST(TracerTest, WithoutACounterFileDecisionsGoNowhere) {
  Tracer* tracer = Start({.nvtx = false}, "");
  ASSERT_NE(tracer, nullptr);
  ASSERT_FALSE(tracer->has_counter_file());
  tracer->NameDecisions(kDecisions);
  tracer->CountDecision(0, 1, 1, CallShare::kOutcome);
  EXPECT_EQ(tracer->recording(), kRecordNothing);
}

}  // namespace
}  // namespace slipstream::tracer
