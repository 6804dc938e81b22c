// Rules that need what was at work on the host, and what copies carried.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/advise/rules_testing.h"
#include "tools/trace/advise/sums.h"

namespace slipstream::advise {
namespace {

TEST_F(RulesTest, LoaderWait) {
  Site(kUpload, 3 * kMs);
  ExpectAbstains("loader-wait");
  Calls("cudaMemcpyAsync", kUpload, 1, 8 * kMiB, 5 * kUs);
  ExpectAbstains("loader-wait");  // the copies stay on the device
  Upload(8 * kMiB, kUs);
  ExpectAdvice("loader-wait", 3 * kMs);
  const std::string both = Of("loader-wait").advice.change;
  EXPECT_NE(both.find("if there are none"), std::string::npos) << both;
  ExpectAbstains("loader-in-process");
  process().sites[0].gap = 0;
  ExpectNothing("loader-wait");
  ExpectNothing("loader-in-process");
}

TEST_F(RulesTest, TheLoaderRunsInTheProcess) {
  Site(kUpload, 3 * kMs);
  ExpectAbstains("loader-in-process");
  Calls("cudaMemcpyAsync", kUpload, 1, 8 * kMiB, 5 * kUs);
  Upload(8 * kMiB, kUs);
  Workers(0);
  facts_.processors = 5;
  ExpectAdvice("loader-in-process", 3 * kMs);
  ExpectNothing("loader-wait");
  EXPECT_NE(Of("loader-in-process").advice.snippet.find("num_workers=4,"), std::string::npos);
  EXPECT_EQ(Of("loader-in-process").advice.places, std::vector<Place>{kUpload});
  Workers(3);
  ExpectNothing("loader-in-process");
  ExpectAdvice("loader-wait", 3 * kMs);
  EXPECT_NE(Of("loader-wait").advice.evidence.back().find("3 worker processes"), std::string::npos);
  EXPECT_NE(Of("loader-wait").advice.snippet.find("num_workers=6,"), std::string::npos);
  // Where each processor has a worker already, more of them are no advice.
  Workers(5);
  EXPECT_EQ(Of("loader-wait").advice.snippet.find("num_workers"), std::string::npos);
}

// With workers that have nothing to do, whoever ran before the upload made the batch.
TEST_F(RulesTest, TheTrainingThreadWorksOnTheBatch) {
  Site(kUpload, 3 * kMs);
  Calls("cudaMemcpyAsync", kUpload, 1, 8 * kMiB, 5 * kUs);
  Upload(8 * kMiB, kUs);
  ExpectAbstains("batch-on-step-thread");
  Workers(4, 0.2);
  ExpectAbstains("batch-on-step-thread");
  StepThread(0, 0.9);  // of 10 ms it slept for 1
  ExpectAdvice("batch-on-step-thread", 3 * kMs);
  ExpectNothing("loader-wait");
  EXPECT_EQ(Of("batch-on-step-thread").advice.places, std::vector<Place>{kUpload});
  EXPECT_NE(Of("batch-on-step-thread").advice.evidence[1].find("of which 0.20 had work"), std::string::npos);
  // For more than half of the gap it slept.
  StepThread(0, 0.8);
  ExpectNothing("batch-on-step-thread");
  ExpectAdvice("loader-wait", 3 * kMs);
  // It was ready to run, and had no processor.
  StepThread(0.2, 0.7);
  ExpectAdvice("batch-on-step-thread", 3 * kMs);
  // Without workers it is the loader that it runs.
  Workers(0);
  StepThread(0, 0.9);
  ExpectNothing("batch-on-step-thread");
  ExpectAdvice("loader-in-process", 3 * kMs);
}

// Neither they nor the training want a processor: more workers, though there are fewer processors.
TEST_F(RulesTest, WorkersThatWaitForStorage) {
  Site(kUpload, 3 * kMs);
  Calls("cudaMemcpyAsync", kUpload, 1, 8 * kMiB, 5 * kUs);
  Upload(8 * kMiB, kUs);
  facts_.processors = 4;
  Workers(8, 0.5);
  StepThread(0, 0.5);
  ExpectAdvice("loader-wait", 3 * kMs);
  EXPECT_NE(Of("loader-wait").advice.finding.find("workers wait too"), std::string::npos);
  EXPECT_NE(Of("loader-wait").advice.snippet.find("num_workers=32,"), std::string::npos);
  ExpectNothing("too-many-workers");
  // For less of a step, they may be ahead, and the hand-over is what takes time.
  process().sites[0].gap = static_cast<int64_t>(kSteps) * 2 * kMs;
  EXPECT_EQ(Of("loader-wait").advice.snippet.find("num_workers"), std::string::npos);
  EXPECT_EQ(Of("loader-wait").advice.confidence, Confidence::kLow);
  process().sites[0].gap = static_cast<int64_t>(kSteps) * 3 * kMs;
  // With work for all of them, they are too many.
  Workers(8, 4, 4);
  EXPECT_EQ(Of("loader-wait").advice.finding.find("workers wait too"), std::string::npos);
  EXPECT_EQ(Of("loader-wait").advice.snippet.find("num_workers"), std::string::npos);
  ExpectStake("too-many-workers", 3 * kMs);
  // Of those that ended meanwhile nobody knows.
  Workers(8, 0.5);
  facts_.tasks.workers->began = 8;
  EXPECT_EQ(Of("loader-wait").advice.finding.find("workers wait too"), std::string::npos);
  EXPECT_EQ(Of("loader-wait").advice.snippet.find("num_workers"), std::string::npos);
}

// Each tenth step begins an epoch, and is late for its batch.
TEST_F(RulesTest, ALoaderThatIsMadeAnew) {
  Calls("cudaMemcpyAsync", kUpload, 1, 8 * kMiB, 5 * kUs);
  Upload(8 * kMiB, kUs);
  for (size_t i = 0; i < kSteps; i += 10) facts_.step_times[i] = 60 * kMs;
  SlowStepFacts slow;
  slow.step.number = 11;
  slow.step.time = 60 * kMs;
  slow.step.grew = 50 * kMs;
  slow.step.part = report::Part::kOutside;
  slow.step.place =
      report::Place{.file = kUpload.file, .line = kUpload.line, .function = kUpload.function, .before = true};
  facts_.slow_steps = {slow};
  ExpectAbstains("loader-remade");
  ExpectAdvice("stalls", 5 * kMs);
  Workers(4, 1);
  facts_.tasks.workers->began = 7;
  ExpectNothing("loader-remade");
  ExpectAdvice("stalls", 5 * kMs);
  facts_.tasks.workers->began = 8;
  ExpectAdvice("loader-remade", 5 * kMs);
  ExpectNothing("stalls");
  EXPECT_NE(Of("loader-remade").advice.snippet.find("persistent_workers=True"), std::string::npos);
  // What it is late for is no batch.
  facts_.slow_steps[0].step.place->line = kStep.line;
  ExpectNothing("loader-remade");
  ExpectAdvice("stalls", 5 * kMs);
  // No step is late: forking takes no time that counts.
  facts_.slow_steps[0].step.place->line = kUpload.line;
  facts_.step_times.assign(kSteps, 10 * kMs);
  ExpectNothing("loader-remade");
}

// Where the usual step is late for its batch too, what the slow ones lose on top has the same cause.
TEST_F(RulesTest, SlowStepsThatAreLateForTheirBatch) {
  facts_.step_times.assign(kSteps, 10 * kMs);
  for (size_t i = 0; i < 10; ++i) facts_.step_times[10 * i] = 60 * kMs;  // 5 ms more of each step
  SlowStepFacts slow;
  slow.step.grew = 50 * kMs;
  slow.step.part = report::Part::kOutside;
  slow.step.place =
      report::Place{.file = kUpload.file, .line = kUpload.line, .function = kUpload.function, .before = true};
  facts_.slow_steps = {slow, slow, slow};
  Calls("cudaMemcpyAsync", kUpload, 1, 8 * kMiB, 5 * kUs);
  Upload(8 * kMiB, kUs);
  Site(kUpload, 8 * kMs);
  Workers(4, 3);
  StepThread(0, 0.2);
  ExpectNothing("stalls");
  EXPECT_EQ(Of("loader-wait").advice.of_slow_steps, 5 * kMs);
  EXPECT_NE(Of("loader-wait").advice.evidence[1].find("10 of 100 steps"), std::string::npos);
  // In the usual step nobody waits.
  process().sites[0].gap = static_cast<int64_t>(kSteps) * 5 * kMs;
  ExpectAdvice("stalls", 5 * kMs);
  EXPECT_EQ(Of("loader-wait").advice.of_slow_steps, 0);
  // Most of them are late for something else.
  process().sites[0].gap = static_cast<int64_t>(kSteps) * 8 * kMs;
  facts_.slow_steps[0].step.place->line = facts_.slow_steps[1].step.place->line = kStep.line;
  ExpectAdvice("stalls", 5 * kMs);
  EXPECT_EQ(Of("loader-wait").advice.of_slow_steps, 0);
  // Loaders that are made anew are late once in an epoch: what is left is the others'.
  facts_.slow_steps = {slow, slow, slow};
  facts_.tasks.workers->began = 8;
  ExpectAdvice("loader-remade", 5 * kMs);
  EXPECT_EQ(Of("loader-wait").advice.evidence[0].substr(0, 7), "3.00 ms");
  EXPECT_EQ(Of("loader-wait").advice.of_slow_steps, 0);
  process().sites[0].gap = static_cast<int64_t>(kSteps) * 5 * kMs;
  ExpectNothing("loader-wait");
}

TEST_F(RulesTest, FewerWorkersAreAnyRanksShare) {
  Workers(16);
  facts_.machine.resize(2);
  EXPECT_EQ(FewerWorkers(facts_, 10), "DataLoader(..., num_workers=3)");
  EXPECT_EQ(FewerWorkers(facts_, 2.5), "DataLoader(..., num_workers=1)");
  EXPECT_EQ(FewerWorkers(facts_, 96), "DataLoader(..., num_workers=16)") << "no more than there are";
}

// The thread that makes the steps has no processor for a tenth of the time.
TEST_F(RulesTest, TooManyWorkers) {
  ExpectAbstains("too-many-workers");
  Workers(16, 6.0, 3.0);
  ExpectAbstains("too-many-workers");
  facts_.processors = 8;
  StepThread(0.1);
  ExpectAdvice("too-many-workers", kMs);
  ExpectNothing("cpu-oversubscribed");
  // Few enough, and nobody waits.
  StepThread(0.01);
  ExpectNothing("too-many-workers");
  Workers(7, 6.0, 0.0);
  ExpectNothing("too-many-workers");
  // Few enough, and yet the training waits for them.
  Workers(7, 7.5, 0.0);
  StepThread(0.2);
  ExpectAdvice("too-many-workers", 2 * kMs);
  // Or for something else: they leave processors free.
  Workers(7, 5.0, 0.0);
  ExpectNothing("too-many-workers");
  // The training's own threads are to blame.
  Threads(20, 9.0);
  ExpectNothing("too-many-workers");
  ExpectAdvice("cpu-oversubscribed", 2 * kMs);
}

// Of workers that share processors, and whose batches come late, nobody knows how much sooner they would come.
TEST_F(RulesTest, TooManyWorkersThatAreWaitedFor) {
  Workers(16, 6.0, 3.0);
  facts_.processor_limit = 8;
  StepThread(0);
  ExpectNothing("too-many-workers");
  Site(kUpload, 3 * kMs);
  Calls("cudaMemcpyAsync", kUpload, 1, 8 * kMiB, 5 * kUs);
  Upload(8 * kMiB, kUs);
  ExpectStake("too-many-workers", 3 * kMs);
  Workers(8, 6.0, 3.0);
  ExpectNothing("too-many-workers");
}

TEST_F(RulesTest, FewProcessors) {
  ExpectAbstains("cpu-oversubscribed");
  facts_.processors = 2;
  ExpectNothing("cpu-oversubscribed");
  facts_.processors = 1;
  ExpectStake("cpu-oversubscribed", 0);
}

// With the threads' own times in the trace, the number of processors alone says nothing.
TEST_F(RulesTest, ThreadsThatWaitForProcessors) {
  facts_.processors = 1;
  Threads(20, 0.5);
  StepThread(0.02);
  ExpectNothing("cpu-oversubscribed");
  Threads(64, 30.0);
  StepThread(0.25);
  EXPECT_NE(Of("cpu-oversubscribed").advice.finding.find("More threads"), std::string::npos);
  ExpectAdvice("cpu-oversubscribed", 2 * kMs + kMs / 2);
  const std::string evidence = Of("cpu-oversubscribed").advice.evidence[0];
  EXPECT_NE(evidence.find("30 threads and workers of 1 process"), std::string::npos) << evidence;
  EXPECT_EQ(Of("cpu-oversubscribed").advice.confidence, Confidence::kMedium);
  // What the loader is waited for is the loader's.
  Site(kUpload, 4 * kMs);
  Calls("cudaMemcpyAsync", kUpload, 1, 8 * kMiB, 5 * kUs);
  Upload(8 * kMiB, kUs);
  ExpectAdvice("cpu-oversubscribed", 2 * kMs);
  // With processors left, it is something else that has them.
  facts_.processors = 64;
  ExpectAdvice("cpu-oversubscribed", 2 * kMs);
  EXPECT_NE(Of("cpu-oversubscribed").advice.finding.find("something else"), std::string::npos);
}

TEST_F(RulesTest, ALimitThatStopsAllThreads) {
  Threads(4, 3.0);
  facts_.processors = 64;
  facts_.processor_limit = 2;
  facts_.tasks.throttled = 0;
  ExpectNothing("cpu-oversubscribed");
  facts_.tasks.throttled = 12;
  ExpectStake("cpu-oversubscribed", 0);
  EXPECT_EQ(Of("cpu-oversubscribed").advice.confidence, Confidence::kHigh);
  StepThread(0.3);
  ExpectAdvice("cpu-oversubscribed", 3 * kMs);
}

// A mask of 4 MiB, which takes 200 us of the host and, without a kernel beside, 300 us of the device.
TEST_F(RulesTest, SameDataAgain) {
  ExpectAbstains("same-data-again");
  facts_.fingerprinted = 2 * kSteps;
  ExpectNothing("same-data-again");
  Upload(4 * kMiB, 300 * kUs);
  Calls("cudaMemcpyAsync", kUpload, 1, 4 * kMiB, 200 * kUs, "transfer.h2d.promoted.large");
  Calls("cudaMemcpyAsync", kUpload, 1, 4 * kMiB, 900 * kUs, "transfer.d2h.promoted");  // no upload
  device().times.copies_alone = static_cast<int64_t>(kSteps) * 400 * kUs;
  ExpectAdvice("exposed-copies", 400 * kUs);
  ExpectNothing("same-data-again");
  Same(kUpload);
  ExpectAdvice("same-data-again", 200 * kUs + 300 * kUs);
  EXPECT_EQ(Of("same-data-again").advice.places, std::vector<Place>{kUpload});
  EXPECT_NE(Of("same-data-again").advice.evidence[1].find("samples"), std::string::npos);
  ExpectNothing("exposed-copies");
  device().times.copies_alone = static_cast<int64_t>(kSteps) * 700 * kUs;
  ExpectAdvice("exposed-copies", 400 * kUs);
  EXPECT_TRUE(Of("exposed-copies").advice.places.empty()) << "what need not be copied is not said twice";
  // A line that uploads as much again that differs, also where the program's own call was made.
  Upload(4 * kMiB, 300 * kUs);
  Calls("cudaMemcpyAsync", kUpload, 1, 4 * kMiB, 400 * kUs, "transfer.h2d.declined.full");
  facts_.same_uploads[0].share = 0.5;
  ExpectAdvice("same-data-again", 300 * kUs + 300 * kUs);
  // What is known of a quarter of the steps is enough.
  facts_.same_uploads[0].steps = facts_.same_uploads[0].known_steps = 25;
  ExpectAdvice("same-data-again", 300 * kUs + 300 * kUs);
  facts_.same_uploads[0].known_steps = 24;
  ExpectNothing("same-data-again");
  facts_.step_times.assign(4, 10 * kMs);
  ExpectAbstains("same-data-again");
}

TEST_F(RulesTest, ALittleOfTheSameIsNotWorthAChange) {
  facts_.fingerprinted = kSteps;
  Calls("cudaMemcpyAsync", kUpload, 1, (64 << 10) - 1, 20 * kUs);
  Same(kUpload);
  ExpectNothing("same-data-again");
  Calls("cudaMemcpyAsync", kUpload, 1, 4, 20 * kUs);
  ExpectAdvice("same-data-again", 40 * kUs);
}

TEST_F(RulesTest, OneLineHasOneFinding) {
  facts_.fingerprinted = kSteps;
  constexpr int64_t kImages = int64_t{32} * 3 * 224 * 224 * 4;
  Upload(kImages, kMs);
  Calls("cudaMemcpyAsync", kUpload, 1, kImages, 50 * kUs);
  device().times.copies_alone = static_cast<int64_t>(kSteps) * kMs;
  ExpectAdvice("float-images", kMs * 3 / 4);
  Same(kUpload);
  ExpectNothing("float-images");
  // Eight lines that build something on the host, of which one makes the same 20 times.
  for (int64_t line = 100; line < 108; ++line) Calls("cudaMemcpyAsync", {"/job/train.py", line, "main"}, 1, 8, kUs);
  ExpectAdvice("built-on-the-host", 8 * kUs);
  const Place small = {"/job/train.py", 107, "main"};
  Calls("cudaMemcpyAsync", small, 20, 4096, kUs);
  ExpectAdvice("many-small-copies", 28 * kUs);
  Same(small);
  ExpectNothing("built-on-the-host");
  ExpectNothing("many-small-copies");
}

}  // namespace
}  // namespace slipstream::advise
