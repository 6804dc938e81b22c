// The tracer as the shim uses it: what is asked for is recorded, and without a counter file nothing is.

#include "tracer/tracer.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "tracer/counter_reader.h"

namespace slipstream::tracer {
namespace {

constexpr const char* kDecisions[] = {"transfer.promoted.small", "transfer.skipped"};

// Tracers are never destroyed; kept here, so that the leak checker finds them.
Tracer* Start(const policy::Tracer& policy, const std::string& run_directory) {
  static auto* const kept = new std::vector<Tracer*>;
  std::string problem;
  Tracer* tracer = kept->emplace_back(Tracer::Start(policy, run_directory, {}, &problem));
  EXPECT_EQ(problem, "");
  return tracer;
}

TEST(TracerTest, DecisionsReachTheCounterFile) {
  std::string directory = (std::filesystem::temp_directory_path() / "slipstream-test-XXXXXX").string();
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  Tracer* tracer = Start({.nvtx = false}, directory);
  ASSERT_NE(tracer, nullptr);
  tracer->NameDecisions(kDecisions);
  tracer->CountDecision(1, 10, 100, CallShare::kOutcome);
  std::vector<std::string> problems;
  const auto processes = ReadRunDirectory(directory, &problems);
  std::filesystem::remove_all(directory);
  ASSERT_EQ(processes.size(), 1U);
  ASSERT_EQ(processes[0].decisions.size(), 2U);
  EXPECT_EQ(processes[0].decisions[0].count, 0U);
  EXPECT_EQ(processes[0].decisions[1].name, "transfer.skipped");
  EXPECT_EQ(processes[0].decisions[1].count, 1U);
  EXPECT_EQ(processes[0].decisions[1].bytes, 10U);
  EXPECT_EQ(processes[0].decisions[1].time_ns, 100U);
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
