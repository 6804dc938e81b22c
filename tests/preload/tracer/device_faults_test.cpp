// Recordings of devices while something fails: the program has its bare run's output and status, and what is missing
// from the trace is counted.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/preload/tracer/trace_testing.h"
#include "tracer/spool/activity_record.h"

namespace slipstream::test {
namespace {

using tracer::ActivityKind;
using tracer::EndReason;

class DeviceFaultsTest : public ::testing::Test {
 protected:
  // 20 rounds, a graph and a kernel that nobody sees, without engines: 45 kernels, 40 copies and 20 memsets.
  static constexpr uint64_t kWork = 105;

  // Bare and recorded, and the trace of the only process that has one.
  Trace Run(const std::vector<std::string>& arguments, Variables more) {
    const std::string directory = NewDirectory();
    std::vector<std::string> command = {DEVICE_WORK};
    command.insert(command.end(), arguments.begin(), arguments.end());
    Variables alone = Preload("");
    alone["SIMCUDA_SEED"] = "0";
    const Finished bare = RunProgram(command, alone);
    more["SLIPSTREAM_TRACER_DEVICE"] = "cupti";
    more["SLIPSTREAM_TRANSFER_H2D"] = "off";
    more["SLIPSTREAM_TRANSFER_D2H"] = "off";
    const Finished traced = RunTraced(command, directory, more);
    EXPECT_EQ(traced.status, bare.status);
    EXPECT_EQ(traced.out, bare.out);
    EXPECT_EQ(traced.err, bare.err);
    return ReadOnlyTrace(directory);
  }
  Trace RunWithFault(const std::string& fault) { return Run({"20", "0"}, {{"SIMCUPTI_FAULT", fault}}); }

  static uint64_t Work(const Trace& trace) {
    return trace.Activities(ActivityKind::kKernel).size() + trace.Activities(ActivityKind::kCopy).size() +
           trace.Activities(ActivityKind::kSet).size();
  }
};

TEST_F(DeviceFaultsTest, RecordsOfOtherKindsAreSkipped) {
  const Trace trace = RunWithFault("unknown");
  ASSERT_NE(trace.reader, nullptr);
  EXPECT_EQ(Work(trace), kWork);
  EXPECT_EQ(trace.end().dropped, 0U);
}

TEST_F(DeviceFaultsTest, ABufferThatCannotBeReadToItsEndIsCounted) {
  const Trace trace = RunWithFault("broken");
  ASSERT_NE(trace.reader, nullptr);
  EXPECT_EQ(Work(trace), kWork);
  EXPECT_GE(trace.end().dropped, 1U);
}

TEST_F(DeviceFaultsTest, WorkWithoutAnEndIsCounted) {
  const Trace trace = RunWithFault("zero");
  ASSERT_NE(trace.reader, nullptr);
  EXPECT_GE(trace.end().dropped, 1U);
  EXPECT_EQ(Work(trace) + trace.end().dropped, kWork);
  for (const auto& record : trace.Activities(ActivityKind::kKernel)) EXPECT_LE(record.start_ns, record.end_ns);
}

// No buffer comes back that CUPTI could be asked with.
TEST_F(DeviceFaultsTest, WhatCuptiDropsForWantOfABufferIsCounted) {
  const Trace whole = RunWithFault("");
  ASSERT_NE(whole.reader, nullptr);
  const uint64_t waits = whole.Activities(ActivityKind::kSynchronization).size();
  EXPECT_GE(waits, 20U);
  EXPECT_EQ(Work(whole), kWork);
  const Trace trace = RunWithFault("starved");
  ASSERT_NE(trace.reader, nullptr);
  EXPECT_EQ(Work(trace), 0U);
  EXPECT_EQ(trace.end().dropped, kWork + waits);
}

TEST_F(DeviceFaultsTest, AFlushThatNeverReturnsDoesNotKeepTheProcess) {
  const Trace trace = RunWithFault("stuck");
  ASSERT_NE(trace.reader, nullptr);
  EXPECT_TRUE(trace.end().complete);
  EXPECT_EQ(trace.Calls().at("cudaMemsetAsync"), 20U);
}

TEST_F(DeviceFaultsTest, BuffersThatComeBackAfterTheEndDoNoHarm) {
  const Trace trace = RunWithFault("late");
  ASSERT_NE(trace.reader, nullptr);
  EXPECT_TRUE(trace.end().complete);
  EXPECT_EQ(trace.Calls().at("cudaMemsetAsync"), 20U);
}

TEST_F(DeviceFaultsTest, AFileThatIsFullCountsWhatHasNoRoom) {
  const Trace trace = Run({"2000", "2"}, {{"SLIPSTREAM_TRACER_MAX_FILE", "100000"}});
  ASSERT_NE(trace.reader, nullptr);
  EXPECT_EQ(trace.end().reason, EndReason::kLimit);
  EXPECT_GT(trace.end().dropped, 0U);
  EXPECT_TRUE(trace.end().later_calls_known);
}

// Of several threads, while their work is fetched: no child hangs or has a trace, and the parent's is whole.
TEST_F(DeviceFaultsTest, S51_ForksWhileKernelsAreRecorded) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "sanitizers do not support forks while threads allocate";
#endif
  const Trace trace = Run({"60", "3", "forks"}, {});
  ASSERT_NE(trace.reader, nullptr);
  EXPECT_TRUE(trace.end().complete);
  EXPECT_EQ(trace.end().dropped, 0U);
  EXPECT_EQ(trace.Kernels(), (CallCounts{{"_Z6hookedIfEvPT_", 180}, {"unhooked", 180}}));
}

}  // namespace
}  // namespace slipstream::test
