// What the rules look at, against a trace whose every figure is known (report_testing.h).

#include "tools/trace/advise/facts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/report/report_testing.h"
#include "tools/trace/advise/advice.h"
#include "tools/trace/advise/text.h"

namespace slipstream::advise {
namespace {

class FactsTest : public report::ReportTest {
 protected:
  void Read(size_t process = 0) {
    reader_ = std::make_unique<trace_db::DatabaseReader>(database_);
    report_ = report::MakeReport(reader_.get(), {});
    facts_ = ReadFacts(reader_.get(), report_, process);
    EXPECT_TRUE(reader_->ok()) << reader_->error().text;
  }
  const CallGroup* Group(const std::string& function, int64_t line, const std::string& decision = "") const {
    const auto at = std::find_if(facts_.calls.begin(), facts_.calls.end(), [&](const CallGroup& group) {
      return group.function == function && group.place.line.value_or(0) == line && group.decision == decision;
    });
    return at == facts_.calls.end() ? nullptr : &*at;
  }

  std::unique_ptr<trace_db::DatabaseReader> reader_;
  report::Report report_;
  Facts facts_;
};

// Of measured steps alone: the first one is slow, and left out.
TEST_F(FactsTest, CallsByFunctionLineAndDecision) {
  Sample("0.spool", 0);
  BuildWell();
  Read();
  const CallGroup* const copies = Group("cudaMemcpyAsync", 10);
  ASSERT_NE(copies, nullptr);
  EXPECT_EQ(copies->calls, kSteps);
  EXPECT_EQ(copies->bytes, static_cast<int64_t>(4096 * kSteps));
  EXPECT_EQ(copies->time, static_cast<int64_t>(100 * kSteps));
  EXPECT_EQ(copies->least, 4096);
  EXPECT_EQ(copies->most, 4096);
  EXPECT_TRUE(copies->of_step_thread);
  EXPECT_EQ(copies->place.file, "/job/train.py");
  const CallGroup* const skipped = Group("cudaStreamSynchronize", 10, "transfer.sync.skipped");
  ASSERT_NE(skipped, nullptr);
  EXPECT_EQ(skipped->time, static_cast<int64_t>(50 * kSteps));
  ASSERT_NE(Group("cudaStreamSynchronize", 30, "transfer.sync.settled.query"), nullptr);
  const CallGroup* const elsewhere = Group("cudaLaunchKernel", 0);
  ASSERT_NE(elsewhere, nullptr);
  EXPECT_FALSE(elsewhere->of_step_thread);
  EXPECT_FALSE(elsewhere->place.known());
  EXPECT_EQ(facts_.step_times, std::vector<int64_t>(kSteps, kStep));
  EXPECT_FALSE(facts_.devices_recorded);
  EXPECT_EQ(facts_.IdlePerStep(), std::nullopt);
}

// In each step kernels from 350 to 650, copies from 50 to 150 and a set from 600 to 700.
TEST_F(FactsTest, WorkOfTheDevices) {
  Sample("0.spool", 0);
  BuildWell();
  AddDevices(/*limits=*/true);
  Read();
  EXPECT_TRUE(facts_.devices_recorded);
  uint64_t kernels = 0;
  uint64_t copies = 0;
  for (const WorkGroup& group : facts_.work) {
    if (group.kernel == "gemm") {
      EXPECT_EQ(group.time, static_cast<int64_t>(200 * kSteps));
    }
    (group.kernel.empty() ? copies : kernels) += group.count;
  }
  EXPECT_EQ(kernels, 2 * kSteps);
  EXPECT_GE(copies, 2 * kSteps);
  // 1000 less the kernels' 300, the copies' 100 before and the set's 50 behind them.
  EXPECT_EQ(facts_.IdlePerStep(), 550);
  EXPECT_EQ(facts_.process->communication(), 0);
  // The first of the two becomes one of NCCL's: alone until the other begins.
  report::Execute(database_,
                  "UPDATE StringIds SET value = 'ncclDevKernel_AllReduce_Sum_f32_RING_LL' WHERE id = 900002");
  Read();
  EXPECT_EQ(facts_.process->communication(), static_cast<int64_t>(200 * kSteps));
  EXPECT_EQ(facts_.process->communication_alone(), static_cast<int64_t>(150 * kSteps));
}

TEST_F(FactsTest, DeviceWorkWhoseCallIsNotInTheTrace) {
  Sample("0.spool", 0);
  Sample("1.spool", 1);
  BuildWell();
  AddDevices(/*limits=*/false);
  report::Execute(database_, "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET correlationId = 987654321");
  const auto kernels = [this] {
    uint64_t count = 0;
    for (const WorkGroup& group : facts_.work) {
      if (group.kernel.empty()) continue;
      count += group.count;
      EXPECT_FALSE(group.place.known());
    }
    return count;
  };
  Read();
  EXPECT_EQ(kernels(), 2 * kSteps);
  Read(1);
  EXPECT_EQ(kernels(), 0U) << "of the other process";
}

TEST_F(FactsTest, WhatTheMachineHas) {
  {
    trace_db::HandSpool spool(run_, "0.spool");
    Introduce(&spool, 0);
    spool.Facts({{"processors", "6"}, {"shared_memory", "67108864"}});
    spool.Pass(kBegin);
    spool.Records(1, {report::Call(report::kLaunchHook, kBegin, kBegin + 10, report::kLaunchSite)});
    spool.End();
  }
  BuildWell();
  Read();
  EXPECT_EQ(facts_.processors, 6);
  EXPECT_EQ(facts_.shared_memory, int64_t{64} << 20);
  report::Execute(database_, "UPDATE SLIPSTREAM_FACTS SET value = 'many' WHERE key = 'processors'");
  Read();
  EXPECT_EQ(facts_.processors, std::nullopt);
}

TEST_F(FactsTest, OfADatabaseWithoutLines) {
  Sample("0.spool", 0);
  BuildWell();
  report::Execute(database_, "DROP TABLE SLIPSTREAM_DECISIONS");
  Read();
  EXPECT_TRUE(facts_.calls.empty());
  EXPECT_NE(FormatFindings(facts_, Advise(facts_)), "");
}

}  // namespace
}  // namespace slipstream::advise
