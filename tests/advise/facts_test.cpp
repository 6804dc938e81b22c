// What the rules look at, against a trace whose every figure is known (report_testing.h).

#include "tools/trace/advise/facts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "tests/report/report_testing.h"
#include "tools/trace/advise/advice.h"
#include "tools/trace/advise/changes.h"
#include "tools/trace/advise/replay.h"
#include "tools/trace/advise/replay_reader.h"
#include "tools/trace/advise/sums.h"
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

// Two milliseconds before line 10's copy are a pause, if no other thread is in a call meanwhile.
TEST_F(FactsTest, PausesOfTheHost) {
  constexpr uint64_t kLong = kPause + 1000;
  // From 900, where each step's last call ends, to the next step's copy at 2'001'000; before the last, a call is there.
  StepsAlone(12, kLong,
             {report::Call(report::kLaunchHook, kBegin + kLong * 10 + 950, kBegin + kLong * 11 - 10, report::kNoSite)});
  BuildWell();
  Read();
  ASSERT_EQ(facts_.process->measured_steps, 12U);
  const CallGroup* const copies = Group("cudaMemcpyAsync", 10);
  ASSERT_NE(copies, nullptr);
  EXPECT_EQ(copies->pauses, 10U) << "not before the first, and not before the last";
  EXPECT_EQ(copies->pause_time, 10 * (kPause + 100));
  EXPECT_EQ(Group("cudaLaunchKernel", 20)->pauses, 0U);
}

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

// The other thread is in a call from 400 to 500, while the one that makes the steps is in none.
TEST_F(FactsTest, ThreadsThatTheStepsWaitForInBackward) {
  StepsAlone(20, kStep);
  BuildWell();
  const auto launches = [&] {
    const CallGroup* const group = Group("cudaLaunchKernel", 0);
    return group == nullptr ? CallGroup{} : *group;
  };
  const auto named = [&](const std::string& name) {
    report::Execute(database_, "UPDATE SLIPSTREAM_THREADS SET name = '" + name + "' WHERE thread = 2");
    Read();
  };
  for (const char* const name : {"python3", "pin_memory", "pt_autograd_", "my_pt_autograd_0"}) {
    named(name);
    EXPECT_FALSE(launches().of_backward) << name;
    EXPECT_TRUE(facts_.backward_threads.empty()) << name;
  }
  named("pt_autograd_0");
  EXPECT_EQ(facts_.backward_threads, std::vector<int64_t>{2});
  EXPECT_TRUE(launches().of_backward);
  EXPECT_FALSE(launches().of_step_thread);
  EXPECT_EQ(launches().calls, 20U);
  EXPECT_FALSE(Group("cudaLaunchKernel", 20)->of_backward) << "the step thread's";
  // In a few steps it ends when the other one is in a call again, or begins before that one is out of it: for somebody
  // else, or by chance.
  const std::string begin = One("SELECT min(start) FROM SLIPSTREAM_STEPS");
  const auto moved = [&](const char* how, int64_t from, int64_t to) {
    report::Execute(database_, std::string("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET ") + how +
                                   " WHERE correlationId IN (SELECT correlationId FROM SLIPSTREAM_CALLS WHERE thread = "
                                   "2) AND start >= " +
                                   begin + " + " + std::to_string(from * static_cast<int64_t>(kStep)) +
                                   " AND start < " + begin + " + " + std::to_string(to * static_cast<int64_t>(kStep)));
    Read();
  };
  moved("\"end\" = \"end\" + 201", 0, 1);
  moved("start = start - 51", 1, 2);
  EXPECT_TRUE(launches().of_backward) << "two of twenty";
  moved("\"end\" = \"end\" + 201", 2, 3);
  EXPECT_FALSE(launches().of_backward);
  EXPECT_EQ(launches().calls, 20U);
}

// A thread of the backward pass at the forward pass's line 20: not where that line only asked for the backward pass,
// and not at a line that no one else calls CUDA from.
TEST_F(FactsTest, WhatActivationCheckpointsComputeAgain) {
  Sample("0.spool", 0);
  BuildWell();
  AddDevices(/*limits=*/true);
  report::Execute(database_,
                  "UPDATE SLIPSTREAM_THREADS SET name = 'pt_autograd_0' WHERE thread = 2;"
                  "UPDATE SLIPSTREAM_CALLS SET siteIsBackward = 0, siteId = (SELECT siteId FROM SLIPSTREAM_SITES WHERE "
                  "line = 20) WHERE thread = 2;"
                  "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET correlationId = (SELECT min(correlationId) FROM "
                  "SLIPSTREAM_CALLS WHERE thread = 2) WHERE shortName = 900002");
  const auto expect = [this](bool recomputes) {
    Read();
    ASSERT_EQ(facts_.backward_threads, std::vector<int64_t>{2});
    uint64_t calls = 0;
    for (const CallGroup& group : facts_.calls) calls += group.recomputes ? group.calls : 0;
    EXPECT_EQ(calls, recomputes ? kSteps : 0);
    ASSERT_FALSE(facts_.work.empty());
    for (const WorkGroup& group : facts_.work) {
      EXPECT_EQ(group.recomputes, recomputes && group.kernel == "gemm") << group.kernel;
    }
  };
  expect(true);
  report::Execute(database_, "UPDATE SLIPSTREAM_CALLS SET siteIsBackward = 1 WHERE thread = 2");
  expect(false);
  report::Execute(database_,
                  "UPDATE SLIPSTREAM_CALLS SET siteIsBackward = 0, siteId = 900 WHERE thread = 2;"
                  "INSERT INTO SLIPSTREAM_SITES VALUES (900, '/job/train.py', 77, 'hook', 0)");
  expect(false);
}

// The last fill before a kernel of an embedding's gradient, of one stream.
TEST_F(FactsTest, FillsOfAnEmbeddingsGradient) {
  Sample("0.spool", 0);
  BuildWell();
  AddDevices(/*limits=*/true);
  const auto expect = [this](uint64_t fills, uint64_t gradients) {
    Read();
    uint64_t all = 0;
    for (const WorkGroup& group : facts_.work) {
      all += group.fills;
      EXPECT_EQ(group.fills, group.kernel == "gemm" ? fills : 0);
      EXPECT_EQ(group.gradient_fills, group.kernel == "gemm" ? gradients : 0);
      EXPECT_EQ(group.gradient_fill_time, static_cast<int64_t>(200 * group.gradient_fills));
      EXPECT_EQ(group.fill_time, static_cast<int64_t>(200 * group.fills));
    }
    EXPECT_EQ(all, fills);
  };
  expect(0, 0);
  report::Execute(database_,
                  "UPDATE StringIds SET value = 'void at::gemm<at::native::FillFunctor<float> >()' WHERE id = "
                  "900001");
  expect(kSteps, 0);
  report::Execute(database_, "UPDATE StringIds SET value = 'compute_grad_weight' WHERE id = 900003");
  expect(kSteps, kSteps);
  report::Execute(database_, "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET streamId = 8 WHERE shortName = 900003");
  expect(kSteps, 0);
}

// Two threads of the engine, of which one works beside the steps: each has its calls in its own group.
TEST_F(FactsTest, OnlyThreadsThatTheStepsWaitForAreOfBackward) {
  {
    trace_db::HandSpool spool(run_, "0.spool");
    Introduce(&spool, 0);
    spool.Thread(3, 102, "pt_autograd_1");
    std::vector<tracer::TraceRecord> main;
    std::vector<tracer::TraceRecord> other;
    std::vector<tracer::TraceRecord> beside;
    for (uint64_t i = 0; i < kSteps; ++i) {
      AddStep(kBegin + kStep * i, kStep, i, &main, &other);
      beside.push_back(
          report::Call(report::kLaunchHook, kBegin + kStep * i + 720, kBegin + kStep * i + 790, report::kNoSite));
      beside.push_back(
          report::Call(report::kLaunchHook, kBegin + kStep * i + 800, kBegin + kStep * i + 820, report::kNoSite));
    }
    spool.Pass(kBegin);
    spool.Records(1, main);
    spool.Records(2, other);
    spool.Records(3, beside);
    spool.End();
  }
  BuildWell();
  report::Execute(database_, "UPDATE SLIPSTREAM_THREADS SET name = 'pt_autograd_0' WHERE thread = 2");
  Read();
  EXPECT_EQ(facts_.backward_threads, std::vector<int64_t>{2});
  uint64_t of_backward = 0;
  uint64_t of_others = 0;
  for (const CallGroup& group : facts_.calls) {
    if (group.of_step_thread) continue;
    (group.of_backward ? of_backward : of_others) += group.calls;
  }
  EXPECT_EQ(of_backward, kSteps);
  EXPECT_EQ(of_others, 2 * kSteps);
  report::Execute(database_, "UPDATE SLIPSTREAM_THREADS SET name = 'python3' WHERE thread = 2");
  Read();
  const CallGroup* const all = Group("cudaLaunchKernel", 0);
  ASSERT_NE(all, nullptr);
  EXPECT_EQ(all->calls, 3 * kSteps) << "one group, of all that are nobody's";
  EXPECT_EQ(all->time, static_cast<int64_t>((100 + 70 + 20) * kSteps));
}

// Four launches of the forward pass, each a microsecond behind what came before. Then eight functions of the backward
// pass, each with a launch of its own and the question for a NaN: from the end of that launch to the answer 700 ns.
TEST_F(FactsTest, WhatAnomalyDetectionAdds) {
  constexpr uint64_t kLong = 100'000;
  const auto make = [&](uint64_t bytes) {
    trace_db::HandSpool spool(run_, "0.spool");
    Introduce(&spool, 0);
    spool.Thread(3, 102, "pt_autograd_0");
    std::vector<tracer::TraceRecord> main;
    std::vector<tracer::TraceRecord> backward;
    for (uint64_t i = 0; i < kSteps; ++i) {
      const uint64_t at = kBegin + kLong * i;
      main.push_back(report::Call(report::kMemcpyHook, at, at + 100, report::kCopySite, 4096));
      for (uint64_t launch = 1; launch <= 4; ++launch) {
        main.push_back(
            report::Call(report::kLaunchHook, at + 1000 * launch, at + 1000 * launch + 100, report::kLaunchSite));
      }
      for (uint64_t function = 10; function < 18; ++function) {
        const uint64_t begin = at + 1000 * function;
        for (const uint64_t launch : {100, 300, 500}) {
          backward.push_back(
              report::Call(report::kLaunchHook, begin + launch, begin + launch + 100, report::kWaitSite));
        }
        backward.push_back(report::Call(report::kMemcpyHook, begin + 650, begin + 700, report::kWaitSite, bytes));
        backward.push_back(report::Call(report::kSynchronizeHook, begin + 700, begin + 900, report::kWaitSite));
      }
      main.push_back(report::Call(report::kLaunchHook, at + 90'000, at + 90'100, report::kNoSite));
      main.push_back(tracer::StepRecord(at, at + kLong, i));
    }
    spool.Pass(kBegin);
    spool.Records(1, main);
    spool.Records(3, backward);
    spool.End();
  };
  make(1);
  BuildWell();
  Read();
  const Anomalies& found = facts_.anomalies;
  EXPECT_EQ(found.questions, 8 * kSteps);
  // From the first launch to the last answer it is 7,800 ns, of which 5,600 are the questions. Their copies and waits
  // are 2,400, with what comes before them.
  EXPECT_DOUBLE_EQ(found.backward_stays, 2200.0 / 5400.0);
  EXPECT_EQ(found.backward_launch, 2200 / 8);
  EXPECT_EQ(found.forward_launch, 1000);
  EXPECT_DOUBLE_EQ(found.forward_stays, 0.275);
  ASSERT_EQ(found.forward_sites.size(), 1U);
  EXPECT_EQ(found.forward_sites[0], Group("cudaLaunchKernel", 20)->ids[1]);
  // Four bytes are numbers that a hook of the program's own reads.
  report::Execute(database_, "UPDATE SLIPSTREAM_CALLS SET bytes = 4 WHERE bytes = 1");
  Read();
  EXPECT_EQ(facts_.anomalies.questions, 0U);
  EXPECT_TRUE(facts_.anomalies.forward_sites.empty());
}

// In each step kernels from 350 to 650, copies from 50 to 150 and a set from 600 to 700.
TEST_F(FactsTest, WorkOfTheDevices) {
  Sample("0.spool", 0);
  BuildWell();
  AddDevices(/*limits=*/true);
  Read();
  EXPECT_TRUE(facts_.devices_recorded);
  EXPECT_EQ(facts_.compute_capability, 90);
  uint64_t kernels = 0;
  uint64_t copies = 0;
  for (const WorkGroup& group : facts_.work) {
    if (group.kernel == "gemm") {
      EXPECT_EQ(group.time, static_cast<int64_t>(200 * kSteps));
    }
    EXPECT_EQ(group.double_time, 0);
    (group.kernel.empty() ? copies : kernels) += group.count;
  }
  EXPECT_EQ(kernels, 2 * kSteps);
  EXPECT_GE(copies, 2 * kSteps);
  // That a name ends so is none.
  report::Execute(database_, "UPDATE StringIds SET value = 'sm90_xmma_wgradgemm_f16' WHERE id = 900001");
  Read();
  for (const WorkGroup& group : facts_.work) EXPECT_EQ(group.double_time, 0);
  // In its whole name alone.
  report::Execute(database_, "UPDATE StringIds SET value = 'void gemm<double>(double*)' WHERE id = 900001");
  Read();
  for (const WorkGroup& group : facts_.work) EXPECT_EQ(group.double_time, group.kernel == "gemm" ? group.time : 0);
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

// Steps of 1000, with the calls of ReportTest::AddStep.
TEST_F(FactsTest, TheMeasuredStepsCanBeReplayed) {
  Sample("0.spool", 0);
  BuildWell();
  Read();
  EXPECT_EQ(facts_.replay, nullptr) << "nobody knows what the device did";
  AddDevices(/*limits=*/true);
  Read();
  ASSERT_NE(facts_.replay, nullptr);
  WhatIf none_of_it;
  ShrinkWork(
      facts_, [](const WorkGroup&) { return true; }, 0, &none_of_it);
  EXPECT_EQ(facts_.replay->Saved(none_of_it), 0) << "a call before the steps asked for it";
  // Now nobody knows which call it was; and each piece has a stream of its own, since what is usual between two of one
  // stream is more than a step takes here.
  const char* const tables[] = {"KERNEL", "MEMCPY", "MEMSET"};
  for (size_t i = 0; i < std::size(tables); ++i) {
    report::Execute(database_, std::string("UPDATE CUPTI_ACTIVITY_KIND_") + tables[i] +
                                   " SET correlationId = 987654321, streamId = 3 * rowid + " + std::to_string(i));
  }
  Read();
  ASSERT_NE(facts_.replay, nullptr);
  EXPECT_EQ(facts_.replay->Recorded(), static_cast<int64_t>(kStep));
  const auto at_line = [](int64_t line) {
    return [line](const CallGroup& group) { return group.place.line.value_or(0) == line; };
  };
  WhatIf no_launches;
  ChangeCalls(
      facts_, [&](const CallGroup& group) { return at_line(20)(group) && IsLaunchCall(group); }, CallChange::kGone,
      &no_launches);
  EXPECT_EQ(facts_.replay->Saved(no_launches), 40);
  WhatIf no_gap;
  TakeGaps(facts_, at_line(30), &no_gap);
  EXPECT_EQ(facts_.replay->Saved(no_gap), 200) << "from 500, where the other thread's call ends, to 700";
  WhatIf nobody_else;
  ChangeCalls(
      facts_, [](const CallGroup& group) { return !group.of_step_thread; }, CallChange::kGone, &nobody_else);
  EXPECT_EQ(facts_.replay->Saved(nobody_else), 100);
  report::Execute(database_, "UPDATE SLIPSTREAM_THREADS SET name = 'pt_autograd_0' WHERE thread = 2");
  Read();
  WhatIf no_backward;
  ChangeCalls(
      facts_, [](const CallGroup& group) { return group.of_backward; }, CallChange::kGone, &no_backward);
  EXPECT_EQ(facts_.replay->Saved(no_backward), 100) << "the other thread is autograd's now";
  WhatIf shorter;
  ShrinkWork(
      facts_, [](const WorkGroup& group) { return group.kernel == "elementwise"; }, 0.5, &shorter);
  EXPECT_EQ(facts_.replay->Saved(shorter), 0) << "the host waits for none of them";
  // The kernel from 500 on goes on until 850, and the synchronization of line 30 from 700 until 900.
  report::Execute(database_, "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = end + 200 WHERE shortName = 900003");
  Read();
  EXPECT_EQ(facts_.replay->Recorded(), static_cast<int64_t>(kStep));
  EXPECT_EQ(facts_.replay->Saved(shorter), 150) << "over at 675, the call takes its last 50";
}

// Ten steps of 1 ms, with a kernel that the host waits for until 600'010. The last one takes 0.4 ms more: it copies for
// 1.1 ms, and its kernel runs for 0.2 ms behind that. Asked for where the step before begins, the copy ends 100 us
// after its own step does.
TEST_F(FactsTest, CopiesAreReplayedAStepAhead) {
  constexpr uint64_t kLong = 1'000'000;
  StepsAlone(10, kLong);
  BuildWell();
  AddDevices(/*limits=*/false);
  const std::string last = "(SELECT max(start) FROM SLIPSTREAM_STEPS)";
  const auto calls = [](const std::string& function, int64_t at) {
    return " FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN SLIPSTREAM_CALLS c ON c.correlationId = r.correlationId AND "
           "c.thread "
           "= 1 JOIN SLIPSTREAM_STEPS s ON r.start = s.start + " +
           std::to_string(at) + " JOIN StringIds n ON n.id = r.nameId AND n.value LIKE '" + function + "%'";
  };
  report::Execute(
      database_,
      "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL; DELETE FROM CUPTI_ACTIVITY_KIND_MEMCPY; DELETE FROM "
      "CUPTI_ACTIVITY_KIND_MEMSET;"
      "UPDATE SLIPSTREAM_STEPS SET \"end\" = start + 1400000 WHERE start = " +
          last + ";INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT s.start + iif(s.start = " + last +
          ", 1100020, 310), s.start + iif(s.start = " + last +
          ", 1300000, 600000), 0, 7, r.correlationId, NULL, 900001, 900002, 33, 2, 1, 256, 1, 1, 32, 0, 0" +
          calls("cudaLaunchKernel", 300) +
          ";INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY SELECT s.start + 10, s.start + 1100010, 0, 7, r.correlationId, "
          "NULL, "
          "4096, 1" +
          calls("cudaMemcpyAsync", 0) + " WHERE s.start = " + last +
          ";UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET \"end\" = (SELECT s.start + iif(s.start = " + last +
          ", 1300010, 600010) FROM SLIPSTREAM_STEPS s WHERE s.start = CUPTI_ACTIVITY_KIND_RUNTIME.start - 700) "
          "WHERE start - 700 IN (SELECT start FROM SLIPSTREAM_STEPS)");
  Read();
  ASSERT_NE(facts_.replay, nullptr);
  EXPECT_EQ(facts_.replay->Recorded(), static_cast<int64_t>(kLong) + 40'000);
  WhatIf ahead;
  MoveCopies(
      facts_, [](const WorkGroup& group) { return group.copy_kind == kHostToDevice; }, StreamChange::kAhead, &ahead);
  EXPECT_EQ(facts_.replay->Saved(ahead), 100'000) << "the kernel begins at 100'020 of its step, of ten";
}

// Thirty steps without their devices, in which launches take 15 ns less and waits 40, and then as many with them.
TEST_F(FactsTest, WhatARecordingOfTheDevicesAddsToCalls) {
  constexpr uint64_t kHalf = 30;
  StepsAlone(2 * kHalf, kStep);
  BuildWell();
  AddDevices(/*limits=*/false);
  const char* const tables[] = {"KERNEL", "MEMCPY", "MEMSET"};
  for (size_t i = 0; i < std::size(tables); ++i) {
    report::Execute(database_, std::string("UPDATE CUPTI_ACTIVITY_KIND_") + tables[i] +
                                   " SET correlationId = 987654321, streamId = 3 * rowid + " + std::to_string(i) +
                                   ", start = start + " + std::to_string(kHalf * kStep) + ", end = end + " +
                                   std::to_string(kHalf * kStep));
  }
  const int64_t begin = std::stoll(One("SELECT min(start) FROM SLIPSTREAM_STEPS"));
  const std::string half = std::to_string(begin + static_cast<int64_t>(kHalf * kStep));
  const auto shorter = [&](const std::string& function, int64_t time, const std::string& also) {
    report::Execute(database_, "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET \"end\" = \"end\" - " + std::to_string(time) +
                                   " WHERE start < " + half + " AND nameId IN (SELECT id FROM StringIds WHERE value " +
                                   "LIKE '" + function + "%')" + also);
  };
  shorter("cudaLaunchKernel", 15, "");
  shorter("cudaStreamSynchronize", 40, "");
  const auto added = [&](const std::string& function, int64_t line, const std::string& decision = "") {
    const CallGroup* const group = Group(function, line, decision);
    return group == nullptr ? -1 : group->recording;
  };
  Read();
  EXPECT_EQ(added("cudaLaunchKernel", 20), 0) << "the devices were recorded all the time";
  ASSERT_NE(facts_.replay, nullptr);
  EXPECT_EQ(facts_.recording, 0);
  const std::string insert = "INSERT INTO SLIPSTREAM_DEVICE_PERIODS VALUES (1, ";
  report::Execute(database_, insert + "1, 2)," + insert.substr(insert.find(" (") + 1) + half + ", 9000000000000)");
  Read();
  EXPECT_EQ(added("cudaLaunchKernel", 20), 0) << "CUPTI was there before the loop";
  report::Execute(database_, "DELETE FROM SLIPSTREAM_DEVICE_PERIODS; " + insert + half + ", 9000000000000)");
  Read();
  EXPECT_EQ(facts_.process->step_time_before_devices.count, kHalf);
  EXPECT_EQ(added("cudaLaunchKernel", 20), 15);
  EXPECT_EQ(added("cudaLaunchKernel", 0), 15) << "of the other thread";
  EXPECT_EQ(added("cudaMalloc", 20), 0) << "no longer than without";
  EXPECT_EQ(added("cudaStreamSynchronize", 30, "transfer.sync.settled.query"), 0) << "it waits";
  EXPECT_EQ(added("cudaStreamSynchronize", 10, "transfer.sync.skipped"), 40) << "this one does not";
  ASSERT_NE(facts_.replay, nullptr);
  EXPECT_EQ(facts_.replay->Recorded(), static_cast<int64_t>(kStep));
  EXPECT_EQ(facts_.recording, 15 + 15 + 40) << "launches of both threads, one beside the other";
  EXPECT_EQ(facts_.replay->Unrecorded(), static_cast<int64_t>(kStep) - facts_.recording);
  // Too few to tell: in 19 of the steps without devices alone.
  report::Execute(database_,
                  "DELETE FROM SLIPSTREAM_CALLS WHERE correlationId IN (SELECT r.correlationId FROM "
                  "CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id = r.nameId WHERE s.value LIKE "
                  "'cudaLaunchKernel%' AND r.start < " +
                      half + " - 19 * " + std::to_string(kStep) + ")");
  Read();
  EXPECT_EQ(added("cudaLaunchKernel", 20), 0);
  EXPECT_EQ(added("cudaStreamSynchronize", 10, "transfer.sync.skipped"), 40);
}

// Kernels of names that ran before the measured time only, beside those of convolutions that go on.
TEST_F(FactsTest, ASearchForConvolutions) {
  Sample("0.spool", 0);
  BuildWell();
  AddDevices(/*limits=*/false);
  report::Execute(
      database_,
      "UPDATE StringIds SET value = 'implicit_convolve_sgemm' WHERE id = 900002;"
      "INSERT INTO StringIds VALUES (900010, 'winograd_a'), (900011, 'winograd_b'), (900012, 'cutlass_fprop'), "
      "(900013, 'elementwise_once')");
  const auto before = [this](int64_t name) {
    const std::string at = std::to_string(FirstMeasured() - 1000);
    report::Execute(database_, "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT " + at + ", " + at +
                                   " + 10, 0, 7, 1, globalPid, " + std::to_string(name) + ", " + std::to_string(name) +
                                   ", 1, 1, 1, 32, 1, 1, 32, 0, 0 FROM SLIPSTREAM_PROCESSES WHERE processId = 1");
  };
  Read();
  EXPECT_FALSE(facts_.convolutions.begin_recorded);
  EXPECT_EQ(facts_.convolutions.tried, 0U);
  before(900002);
  before(900013);
  Read();
  EXPECT_TRUE(facts_.convolutions.begin_recorded);
  EXPECT_EQ(facts_.convolutions.tried, 0U);
  for (const int64_t name : {900010, 900011, 900012}) before(name);
  Read();
  EXPECT_EQ(facts_.convolutions.tried, 3U);
}

TEST_F(FactsTest, HowCallsWait) {
  const auto waits = [](const std::string& function, const std::string& decision = "") {
    CallGroup group;
    group.function = function;
    group.decision = decision;
    return WaitsOf(group);
  };
  EXPECT_EQ(waits("cudaDeviceSynchronize"), Replay::Waits::kForTheDevice);
  EXPECT_EQ(waits("cuCtxSynchronize"), Replay::Waits::kForTheDevice);
  EXPECT_EQ(waits("cudaStreamSynchronize"), Replay::Waits::kForItsStream);
  EXPECT_EQ(waits("cudaStreamSynchronize", "transfer.sync.kept.event"), Replay::Waits::kForItsStream);
  EXPECT_EQ(waits("cudaStreamSynchronize", "transfer.sync.skipped"), Replay::Waits::kNever);
  EXPECT_EQ(waits("cudaEventSynchronize"), Replay::Waits::kForAnEvent);
  EXPECT_EQ(waits("cudaMemcpyAsync"), Replay::Waits::kForItsOwnWork);
  EXPECT_EQ(waits("cudaMemcpyAsync", "transfer.h2d.promoted.small"), Replay::Waits::kNever);
  EXPECT_EQ(waits("cudaMemcpyAsync", "transfer.d2h.promoted"), Replay::Waits::kForItsOwnWork);
  EXPECT_EQ(waits("cudaFree"), Replay::Waits::kForTheDevice);
  EXPECT_EQ(waits("cudaFree", "allocator.parked"), Replay::Waits::kNever);
  EXPECT_EQ(waits("cudaLaunchKernel"), Replay::Waits::kNever);
  EXPECT_EQ(waits("cudaStreamWaitEvent"), Replay::Waits::kNever);
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
  EXPECT_EQ(facts_.compute_capability, std::nullopt);
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

// In each step one decision at line 10, and one at line 30.
TEST_F(FactsTest, UploadsOfTheSameBytes) {
  Sample("0.spool", 0);
  BuildWell();
  Read();
  EXPECT_EQ(facts_.fingerprinted, 0U);
  const std::string events = "UPDATE SLIPSTREAM_DECISION_EVENTS SET ";
  const std::string of = " WHERE decisionId = (SELECT id FROM StringIds WHERE value = 'transfer.sync.";
  report::Execute(database_, events + "contents = -77, bytes = 4096" + of + "skipped')");
  report::Execute(database_, events + "contents = rowid, bytes = 4096" + of + "settled.query')");
  Read();
  EXPECT_EQ(facts_.fingerprinted, 2 * kSteps);
  ASSERT_EQ(facts_.same_uploads.size(), 1U);
  const SameUpload& upload = facts_.same_uploads[0];
  EXPECT_EQ(upload.place.line, 10);
  EXPECT_EQ(upload.steps, kSteps);
  EXPECT_EQ(upload.known_steps, kSteps);
  EXPECT_EQ(upload.share, 1);
  // The same bytes, and another size in one step of eight: that is less than nine of ten.
  report::Execute(database_, events +
                                 "bytes = 5 WHERE rowid = (SELECT max(rowid) FROM SLIPSTREAM_DECISION_EVENTS "
                                 "WHERE contents = -77)");
  Read();
  EXPECT_TRUE(facts_.same_uploads.empty());
  // A copy of which nothing is known is neither for it nor against it.
  report::Execute(database_, events + "contents = NULL WHERE bytes = 5");
  Read();
  ASSERT_EQ(facts_.same_uploads.size(), 1U);
  EXPECT_EQ(facts_.same_uploads[0].steps, kSteps - 1);
  EXPECT_EQ(facts_.same_uploads[0].known_steps, kSteps - 1);
  // One in each step of either kind, of a quarter and three quarters of the line's bytes.
  report::Execute(database_,
                  "UPDATE SLIPSTREAM_CALLS SET siteId = (SELECT siteId FROM SLIPSTREAM_SITES WHERE line = 10)");
  report::Execute(database_, events + "bytes = 12288" + of + "settled.query')");
  report::Execute(database_, events + "contents = -77" + of + "skipped')");
  Read();
  ASSERT_EQ(facts_.same_uploads.size(), 0U) << "the size of one of them is still another";
  report::Execute(database_, events + "bytes = 4096" + of + "skipped')");
  Read();
  ASSERT_EQ(facts_.same_uploads.size(), 1U);
  EXPECT_EQ(facts_.same_uploads[0].share, 0.25);
  report::Execute(database_, "ALTER TABLE SLIPSTREAM_DECISION_EVENTS DROP COLUMN contents");
  Read();
  EXPECT_EQ(facts_.fingerprinted, 0U) << "an older database";
}

// Looks while the measured steps ran count, and times of looks of which at least half is theirs.
TEST_F(FactsTest, WhatIsAtWork) {
  Sample("0.spool", 0);
  Sample("1.spool", 1);
  BuildWell();
  const int64_t begin = FirstMeasured();
  const int64_t end = begin + static_cast<int64_t>(kSteps * kStep);
  const auto look = [&](int64_t start, int64_t at, int process, int kind, const std::string& rest) {
    report::Execute(database_,
                    "INSERT INTO SLIPSTREAM_TASKS (start, end, processId, kind, thread, count, busy, ranNs, "
                    "waitedNs, throttled, throttledNs, began) VALUES (" +
                        std::to_string(start) + ", " + std::to_string(at) + ", " + std::to_string(process) + ", " +
                        std::to_string(kind) + ", " + rest + (kind == 1 ? ", 2)" : ", NULL)"));
  };
  Read();
  EXPECT_FALSE(facts_.tasks.workers) << "an older trace";
  EXPECT_FALSE(facts_.tasks.threads);
  ASSERT_EQ(facts_.machine.size(), 2U);
  look(begin - 900, begin - 500, 1, 0, "NULL, 99, 9, 9999, 9999, 9, 9");  // before
  look(begin - 500, begin + 500, 1, 0, "NULL, 20, 3, 2500, 500, 1, 70");
  look(begin + 500, end, 1, 0, "NULL, 30, 3, 5000, 1000, 2, 30");
  look(end - 400, end + 600, 1, 0, "NULL, 90, 3, 1000, 1000, 9, 9");
  look(begin - 500, begin + 500, 1, 1, "NULL, 4, NULL, NULL, NULL, NULL, NULL");
  look(begin + 500, end, 1, 1, "NULL, 6, 2, 7500, 7500, NULL, NULL");
  look(end, end + 1000, 1, 1, "NULL, 0, 0, 0, 0, NULL, NULL");
  look(begin + 500, end, 1, 2, "1, 1, 1, 1000, 750, NULL, NULL");
  look(begin + 500, end, 1, 2, "2, 1, 1, 77, 77, NULL, NULL");  // of another thread than the steps'
  look(end, end + 1000, 2, 1, "NULL, 8, 0, 0, 0, NULL, NULL");
  Read();
  ASSERT_TRUE(facts_.tasks.threads);
  EXPECT_EQ(facts_.tasks.threads->most, 30);
  EXPECT_EQ(facts_.tasks.threads->time, 1000 + 7500);
  EXPECT_EQ(facts_.tasks.threads->ran, 2500 + 5000);
  EXPECT_EQ(facts_.tasks.threads->waited, 500 + 1000);
  EXPECT_EQ(facts_.tasks.throttled, 3);
  EXPECT_EQ(facts_.tasks.throttled_time, 100);
  ASSERT_TRUE(facts_.tasks.workers);
  EXPECT_EQ(facts_.tasks.workers->most, 6);
  EXPECT_EQ(facts_.tasks.workers->time, 7500);
  EXPECT_DOUBLE_EQ(facts_.tasks.workers->wanted(), 2.0);
  EXPECT_EQ(facts_.tasks.workers->began, 4) << "not of the look that was taken behind the loop";
  EXPECT_DOUBLE_EQ(facts_.tasks.step_thread->slept(), 1 - 1750.0 / 7500);
  ASSERT_TRUE(facts_.tasks.step_thread);
  EXPECT_DOUBLE_EQ(facts_.tasks.step_thread->waiting(), 0.1);
  ASSERT_EQ(facts_.machine.size(), 2U);
  EXPECT_EQ(facts_.machine[0].threads->most, 30);
  EXPECT_FALSE(facts_.machine[1].workers) << "nobody looked while that one's steps ran";
  report::Execute(database_, "ALTER TABLE SLIPSTREAM_TASKS DROP COLUMN began");
  Read();
  EXPECT_EQ(facts_.tasks.workers->most, 6);
  EXPECT_EQ(facts_.tasks.workers->began, 0) << "an older trace";
  report::Execute(database_, "DROP TABLE SLIPSTREAM_TASKS");
  Read();
  EXPECT_FALSE(facts_.tasks.workers);
}

TEST_F(FactsTest, ALimitOfProcessors) {
  {
    trace_db::HandSpool spool(run_, "0.spool");
    Introduce(&spool, 0);
    spool.Facts({{"processors", "6"}, {"processor_limit", "2500"}});
    spool.Pass(kBegin);
    spool.Records(1, {report::Call(report::kLaunchHook, kBegin, kBegin + 10, report::kLaunchSite)});
    spool.End();
  }
  BuildWell();
  Read();
  EXPECT_EQ(facts_.processor_limit, 2.5);
  EXPECT_EQ(facts_.ProcessorsToUse(), 2.5);
  EXPECT_EQ(ProcessorsText(*facts_.ProcessorsToUse()), "2.50 processors");
  facts_.processor_limit = 12;
  EXPECT_EQ(facts_.ProcessorsToUse(), 6);
  facts_.processors.reset();
  EXPECT_EQ(facts_.ProcessorsToUse(), 12);
  facts_.processor_limit.reset();
  EXPECT_EQ(facts_.ProcessorsToUse(), std::nullopt);
  EXPECT_EQ(ProcessorsText(1), "1 processor");
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
