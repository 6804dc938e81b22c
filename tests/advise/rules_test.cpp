// Each rule on facts that it is about, and on facts that differ in what matters.

#include "tools/trace/advise/rules.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tools/trace/advise/advice.h"
#include "tools/trace/advise/text.h"

namespace slipstream::advise {
namespace {

constexpr int64_t kUs = 1000;
constexpr int64_t kMs = 1'000'000;
constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;
constexpr uint64_t kSteps = 100;
const Place kUpload = {"/job/train.py", 10, "main"};
const Place kLoss = {"/job/train.py", 20, "main"};
const Place kStep = {"/job/train.py", 30, "main"};

// A hundred steps of 10 ms on one device, of which the device is idle for 4 ms while the host launches and for 2 while
// it is outside CUDA calls.
class RulesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    report_.has_own_tables = true;
    report_.kernels_recorded = report_.device_copies_recorded = true;
    report::ProcessReport& process = report_.processes.emplace_back();
    process.has_steps = true;
    process.measured_steps = kSteps;
    process.measured_time = static_cast<int64_t>(kSteps) * 10 * kMs;
    process.step_time.median = 10 * kMs;
    report::DeviceReport& device = process.devices.emplace_back();
    device.kernels = 40 * kSteps;
    device.kernel_time = static_cast<int64_t>(kSteps) * 4 * kMs;
    device.times.kernels = device.kernel_time;
    device.times.idle[static_cast<size_t>(report::CallKind::kLaunch)] = static_cast<int64_t>(kSteps) * 4 * kMs;
    device.times.idle[report::kHostOutside] = static_cast<int64_t>(kSteps) * 2 * kMs;
    device.sm_efficiency = 0.9;
    facts_.report = &report_;
    facts_.process = &process;
    facts_.devices_recorded = true;
    facts_.device_memory = 80 * kGiB;
    facts_.step_times.assign(kSteps, 10 * kMs);
  }

  report::ProcessReport& process() { return report_.processes[0]; }
  report::DeviceReport& device() { return process().devices[0]; }
  report::SiteReport& Site(const Place& place, int64_t gap = 0) {
    report::SiteReport& site = process().sites.emplace_back();
    site.known = true;
    site.file = place.file;
    site.line = place.line;
    site.function = place.function;
    site.gap = gap * static_cast<int64_t>(kSteps);
    return site;
  }
  // Of every step: so many calls of so many bytes, which take so long each.
  CallGroup& Calls(const std::string& function, const Place& place, uint64_t calls, int64_t bytes, int64_t time,
                   const std::string& decision = "") {
    CallGroup& group = facts_.calls.emplace_back();
    group.function = function;
    group.place = place;
    group.decision = decision;
    group.calls = calls * kSteps;
    group.bytes = static_cast<int64_t>(group.calls) * bytes;
    group.time = static_cast<int64_t>(group.calls) * time;
    group.least = group.most = bytes;
    return group;
  }
  WorkGroup& Kernels(const std::string& name, const Place& place, uint64_t count, int64_t time) {
    WorkGroup& group = facts_.work.emplace_back();
    group.kernel = name;
    group.place = place;
    group.count = count * kSteps;
    group.time = static_cast<int64_t>(group.count) * time;
    return group;
  }
  void Upload(int64_t bytes, int64_t time) {
    WorkGroup& group = facts_.work.emplace_back();
    group.copy_kind = 1;
    group.place = kUpload;
    group.count = kSteps;
    group.bytes = static_cast<int64_t>(kSteps) * bytes;
    group.time = static_cast<int64_t>(kSteps) * time;
    group.least = group.most = bytes;
  }
  // Of every step: so many copies of the same bytes.
  void Same(const Place& place, uint64_t copies, int64_t bytes, int64_t time) {
    facts_.same_uploads.push_back({.place = place,
                                   .bytes = bytes,
                                   .copies = copies * kSteps,
                                   .steps = kSteps,
                                   .time = static_cast<int64_t>(copies * kSteps) * time});
  }
  // Of this process, which is alone on its machine: in a second of looks, so many processors' worth of time.
  void Workers(int64_t most, double ran = 0, double waited = 0) { facts_.tasks.workers = Tasks(most, ran, waited); }
  void Threads(int64_t most, double ran, double waited = 0) { facts_.tasks.threads = Tasks(most, ran, waited); }
  void StepThread(double waited) { facts_.tasks.step_thread = Tasks(1, 0.5, waited); }
  static TaskSum Tasks(int64_t most, double ran, double waited) {
    constexpr double kSecond = 1e9;
    return {.most = most,
            .time = static_cast<int64_t>(kSecond),
            .ran = static_cast<int64_t>(ran * kSecond),
            .waited = static_cast<int64_t>(waited * kSecond)};
  }
  report::MemoryReport& Pool(int64_t live, int64_t idle) {
    report::MemoryReport& pool = process().memory.emplace_back();
    pool.peak_live = live;
    pool.peak_idle = idle;
    pool.peak = live + idle;
    pool.peak_point = {.time = 0, .live = live, .idle = idle};
    return pool;
  }

  Verdict Of(std::string_view rule) {
    for (const Rule& one : Rules()) {
      if (one.name != rule) continue;
      facts_.machine = {facts_.tasks};
      return one.look(facts_);
    }
    ADD_FAILURE() << rule << " is no rule";
    return Verdict::Nothing();
  }
  // What it says is worth so much of a step.
  void ExpectAdvice(std::string_view rule, int64_t cost) {
    const Verdict verdict = Of(rule);
    ASSERT_EQ(verdict.kind, Verdict::Kind::kAdvice) << rule << " " << verdict.why;
    ASSERT_TRUE(verdict.advice.cost) << rule;
    EXPECT_EQ(*verdict.advice.cost, cost) << rule;
    ExpectWhole(verdict.advice);
  }
  void ExpectStake(std::string_view rule, int64_t at_stake) {
    const Verdict verdict = Of(rule);
    ASSERT_EQ(verdict.kind, Verdict::Kind::kAdvice) << rule << " " << verdict.why;
    EXPECT_FALSE(verdict.advice.cost) << rule;
    EXPECT_NE(verdict.advice.why_unknown, "") << rule;
    EXPECT_EQ(verdict.advice.at_stake, at_stake) << rule;
    ExpectWhole(verdict.advice);
  }
  static void ExpectWhole(const Advice& advice) {
    EXPECT_TRUE(advice.finding.ends_with(".")) << advice.finding;
    EXPECT_FALSE(advice.evidence.empty());
    EXPECT_NE(advice.change, "");
    EXPECT_NE(advice.snippet, "");
  }
  void ExpectNothing(std::string_view rule) {
    const Verdict verdict = Of(rule);
    EXPECT_EQ(verdict.kind, Verdict::Kind::kNothing) << rule << ": " << verdict.advice.finding << verdict.why;
  }
  void ExpectAbstains(std::string_view rule) {
    const Verdict verdict = Of(rule);
    EXPECT_EQ(verdict.kind, Verdict::Kind::kAbstains) << rule;
    EXPECT_NE(verdict.why, "") << rule;
  }

  report::Report report_;
  Facts facts_;
};

TEST_F(RulesTest, AWellTunedProgramIsLeftAlone) {
  device().times.idle.fill(0);
  Calls("cudaMemcpyAsync", kUpload, 1, 64 * kMiB, 20 * kUs, "transfer.h2d.promoted.large");
  Calls("cudaStreamSynchronize", kUpload, 1, 0, kUs, "transfer.sync.skipped");
  Calls("cudaLaunchKernel", kStep, 40, 0, 3 * kUs);
  Calls("cudaMalloc", kStep, 2, kMiB, kUs, "allocator.reused");
  Kernels("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1", kStep, 20, 400 * kUs);
  Kernels("vectorized_elementwise_kernel", kStep, 20, 30 * kUs);
  Pool(40 * kGiB, kGiB / 2);
  EXPECT_TRUE(Advise(facts_).advice.empty()) << FormatFindings(facts_, Advise(facts_));
}

TEST_F(RulesTest, EveryRuleIsDescribedAndHasOneName) {
  std::set<std::string> names;
  for (const Rule& rule : Rules()) {
    EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
    EXPECT_NE(FormatRules().find(rule.title), std::string::npos);
  }
  EXPECT_GE(names.size(), 20U);
}

TEST_F(RulesTest, TheDocumentHasASectionOnEachRuleAndNoOther) {
  std::ifstream file(SLIPSTREAM_ADVISE_DOCUMENT);
  ASSERT_TRUE(file.good()) << SLIPSTREAM_ADVISE_DOCUMENT;
  std::vector<std::string> described;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("### `") && line.ends_with("`")) described.push_back(line.substr(5, line.size() - 6));
  }
  std::vector<std::string> rules;
  for (const Rule& rule : Rules()) rules.emplace_back(rule.name);
  EXPECT_EQ(described, rules);
}

TEST_F(RulesTest, PageableCopies) {
  Calls("cudaMemcpyAsync", kUpload, 2, 32 * kMiB, kMs, "transfer.h2d.promoted.large");
  ExpectNothing("pageable-copies");
  Calls("cudaMemcpyAsync", kUpload, 2, 32 * kMiB, kMs, "transfer.d2h.declined.off");
  ExpectAdvice("pageable-copies", 2 * kMs);
  EXPECT_EQ(Of("pageable-copies").advice.places, std::vector<Place>{kUpload});
}

// The host's time is no loss while the device is at work.
TEST_F(RulesTest, NoMoreIsWonThanTheDeviceIsIdle) {
  Calls("cudaMemcpyAsync", kUpload, 1, 32 * kMiB, 9 * kMs, "transfer.d2h.declined.off");
  ExpectAdvice("pageable-copies", 6 * kMs);
  facts_.devices_recorded = false;
  ExpectAdvice("pageable-copies", 9 * kMs);
}

TEST_F(RulesTest, BlockingCopies) {
  Calls("cudaMemcpyAsync", kUpload, 1, kMiB, kMs);
  Calls("cudaMemcpy", kLoss, 1, 4, kMs);  // too small to be worth a stream
  ExpectNothing("blocking-copies");
  Calls("cudaMemcpy", kUpload, 1, kMiB, kMs);
  ExpectAdvice("blocking-copies", kMs);
}

TEST_F(RulesTest, ManySmallCopies) {
  Calls("cudaMemcpyAsync", kUpload, 19, 4096, 10 * kUs);
  ExpectNothing("many-small-copies");
  Calls("cudaMemcpyAsync", kUpload, 1, 4096, 10 * kUs);
  ExpectAdvice("many-small-copies", 200 * kUs);
  // What is done between them is theirs as well, and not Python's in general.
  ExpectAdvice("host-bound", 2 * kMs);
  Site(kUpload, kMs);
  ExpectAdvice("many-small-copies", 1200 * kUs);
  ExpectAdvice("host-bound", kMs);
  // So is the device's time that no kernel hides.
  Upload(4096, 2 * kMs);
  device().times.copies_alone = static_cast<int64_t>(kSteps) * 3 * kMs / 2;
  ExpectAdvice("many-small-copies", 1200 * kUs + 1500 * kUs);
  ExpectNothing("exposed-copies");
  device().times.copies_alone = static_cast<int64_t>(kSteps) * 3 * kMs;
  ExpectAdvice("many-small-copies", 1200 * kUs + 2 * kMs);
  ExpectAdvice("exposed-copies", kMs);
}

TEST_F(RulesTest, ManyScalarsAreNoCopiesToBePutTogether) {
  Calls("cudaMemcpyAsync", kLoss, 40, 4, 5 * kUs);
  ExpectAdvice("many-small-copies", 200 * kUs);
  Calls("cudaStreamSynchronize", kLoss, 40, 0, 10 * kUs);
  ExpectNothing("many-small-copies");
  ExpectAdvice("item-synchronize", 600 * kUs);
}

TEST_F(RulesTest, FloatImages) {
  constexpr int64_t kImage = int64_t{3} * 224 * 224 * 4;
  device().times.copies_alone = static_cast<int64_t>(kSteps) * kMs;
  Upload(128 * kImage + 4, 2 * kMs);
  ExpectNothing("float-images");
  facts_.work.clear();
  Upload(128 * kImage, 2 * kMs);
  ExpectAdvice("float-images", kMs * 3 / 4);
  EXPECT_EQ(Of("float-images").advice.confidence, Confidence::kLow);
  facts_.devices_recorded = false;
  ExpectAbstains("float-images");
}

TEST_F(RulesTest, ExposedCopies) {
  ExpectNothing("exposed-copies");
  device().times.copies_alone = static_cast<int64_t>(kSteps) * kMs;
  ExpectAdvice("exposed-copies", kMs);
  report_.device_copies_recorded = false;
  ExpectAbstains("exposed-copies");
}

// A mask of 4 MiB, which takes 200 us of the host and, without a kernel beside, 300 us of the device.
TEST_F(RulesTest, SameDataAgain) {
  ExpectAbstains("same-data-again");
  facts_.fingerprinted = 2 * kSteps;
  ExpectNothing("same-data-again");
  Upload(4 * kMiB, 300 * kUs);
  device().times.copies_alone = static_cast<int64_t>(kSteps) * 400 * kUs;
  ExpectAdvice("exposed-copies", 400 * kUs);
  Same(kUpload, 1, 4 * kMiB, 200 * kUs);
  ExpectAdvice("same-data-again", 200 * kUs + 300 * kUs);
  EXPECT_EQ(Of("same-data-again").advice.places, std::vector<Place>{kUpload});
  EXPECT_NE(Of("same-data-again").advice.evidence[1].find("samples"), std::string::npos);
  ExpectNothing("exposed-copies");
  device().times.copies_alone = static_cast<int64_t>(kSteps) * 700 * kUs;
  ExpectAdvice("exposed-copies", 400 * kUs);
  EXPECT_TRUE(Of("exposed-copies").advice.places.empty()) << "what need not be copied is not said twice";
  // Of a line that uploads as much again that differs, half of the device's time counts: of 600 us.
  Upload(4 * kMiB, 300 * kUs);
  ExpectAdvice("same-data-again", 200 * kUs + 300 * kUs);
  facts_.step_times.assign(4, 10 * kMs);
  ExpectAbstains("same-data-again");
}

TEST_F(RulesTest, ALittleOfTheSameIsNotWorthAChange) {
  facts_.fingerprinted = kSteps;
  Same(kUpload, 1, (64 << 10) - 1, 20 * kUs);
  ExpectNothing("same-data-again");
  Same(kUpload, 1, 4, 20 * kUs);
  ExpectAdvice("same-data-again", 40 * kUs);
}

TEST_F(RulesTest, OneLineHasOneFinding) {
  facts_.fingerprinted = kSteps;
  constexpr int64_t kImages = 32 * 3 * 224 * 224 * 4;
  Upload(kImages, kMs);
  device().times.copies_alone = static_cast<int64_t>(kSteps) * kMs;
  ExpectAdvice("float-images", kMs * 3 / 4);
  Same(kUpload, 1, kImages, 50 * kUs);
  ExpectNothing("float-images");
  // Eight lines that build something on the host, of which one makes the same 20 times.
  for (int64_t line = 100; line < 108; ++line) Calls("cudaMemcpyAsync", {"/job/train.py", line, "main"}, 1, 8, kUs);
  ExpectAdvice("built-on-the-host", 8 * kUs);
  const Place small = {"/job/train.py", 107, "main"};
  Calls("cudaMemcpyAsync", small, 20, 4096, kUs);
  ExpectAdvice("many-small-copies", 28 * kUs);
  Same(small, 20, 4096, kUs);
  ExpectNothing("built-on-the-host");
  ExpectNothing("many-small-copies");
}

TEST_F(RulesTest, ItemSynchronize) {
  Calls("cudaMemcpyAsync", kLoss, 1, 4, 5 * kUs);
  Calls("cudaStreamSynchronize", kLoss, 1, 0, 3 * kMs, "transfer.sync.skipped");
  ExpectNothing("item-synchronize");
  Calls("cudaStreamSynchronize", kLoss, 1, 0, 3 * kMs);
  ExpectAdvice("item-synchronize", 3 * kMs + 5 * kUs);  // and the copy
  ExpectNothing("explicit-synchronize");
  ExpectNothing("copy-then-synchronize");
}

TEST_F(RulesTest, ExplicitSynchronize) {
  Calls("cudaDeviceSynchronize", kStep, 1, 0, 2 * kMs);
  ExpectAdvice("explicit-synchronize", 2 * kMs);
  ExpectNothing("item-synchronize");
  facts_.calls[0].calls = 1;  // at the end of an epoch
  ExpectNothing("explicit-synchronize");
}

TEST_F(RulesTest, CopyThenSynchronize) {
  Calls("cudaMemcpyAsync", kUpload, 1, 8 * kMiB, 5 * kUs);
  ExpectNothing("copy-then-synchronize");
  Calls("cudaStreamSynchronize", kUpload, 1, 0, kMs);
  ExpectAdvice("copy-then-synchronize", kMs);
  ExpectNothing("explicit-synchronize");
}

TEST_F(RulesTest, LoaderWait) {
  Site(kUpload, 3 * kMs);
  ExpectAbstains("loader-wait");
  Calls("cudaMemcpyAsync", kUpload, 1, 8 * kMiB, 5 * kUs);
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
  ExpectStake("too-many-workers", 3 * kMs);
  Workers(8, 6.0, 3.0);
  ExpectNothing("too-many-workers");
}

// What the loader is to blame for is not said of Python too.
TEST_F(RulesTest, HostBound) {
  Site(kStep, kMs);
  ExpectAdvice("host-bound", 2 * kMs);
  Site(kUpload, 2 * kMs);
  Calls("cudaMemcpyAsync", kUpload, 1, 8 * kMiB, 5 * kUs);
  ExpectNothing("host-bound");
  facts_.devices_recorded = false;
  device().kernels = 0;
  ExpectAbstains("host-bound");
}

TEST_F(RulesTest, LaunchBound) {
  ExpectNothing("launch-bound");  // kernels of 100 us
  device().kernels = 400 * kSteps;
  ExpectAdvice("launch-bound", 4 * kMs);
  device().times.idle.fill(0);
  ExpectNothing("launch-bound");
}

TEST_F(RulesTest, NoTensorCores) {
  Kernels("sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize64x64x64_stage3_warpsize2x2x1_tensor16x8x8", kStep, 1,
          4 * kMs);
  ExpectNothing("no-tensor-cores");
  Kernels("ampere_sgemm_128x64_tn", kLoss, 2, kMs);
  ExpectStake("no-tensor-cores", 2 * kMs);
  EXPECT_EQ(Of("no-tensor-cores").advice.places, std::vector<Place>{kLoss});
}

TEST_F(RulesTest, UnfusedPointwise) {
  Kernels("vectorized_elementwise_kernel", kStep, 100, 10 * kUs);
  ExpectNothing("unfused-pointwise");
  Kernels("unrolled_elementwise_kernel", kLoss, 100, 10 * kUs);
  ExpectStake("unfused-pointwise", 2 * kMs);
}

TEST_F(RulesTest, LoopOverTensors) {
  Kernels("vectorized_elementwise_kernel", kStep, 500, 4 * kUs);
  Calls("cudaLaunchKernel", kStep, 500, 0, 5 * kUs);
  ExpectAdvice("loop-over-tensors", 2500 * kUs);
  ExpectNothing("unfused-pointwise");
  Site(kStep, kMs);
  ExpectAdvice("loop-over-tensors", 3500 * kUs);
  ExpectAdvice("host-bound", kMs);
  facts_.work[0].kernel = "multi_tensor_apply_kernel";
  ExpectNothing("loop-over-tensors");
}

TEST_F(RulesTest, ZeroGradMemsets) {
  Calls("cudaMemsetAsync", kStep, 29, kMiB, 10 * kUs);
  ExpectNothing("zero-grad-memsets");
  Calls("cudaMemsetAsync", kStep, 1, kMiB, 10 * kUs);
  ExpectAdvice("zero-grad-memsets", 300 * kUs);
}

TEST_F(RulesTest, IdleSms) {
  Pool(10 * kGiB, 0);
  device().times.kernels = static_cast<int64_t>(kSteps) * 8 * kMs;
  ExpectNothing("idle-sms");
  device().sm_efficiency = 0.25;
  ExpectStake("idle-sms", 6 * kMs);
  process().memory[0].peak = 60 * kGiB;
  ExpectNothing("idle-sms");
  device().sm_efficiency.reset();
  ExpectAbstains("idle-sms");
}

TEST_F(RulesTest, NearTheLimit) {
  Pool(60 * kGiB, 0);
  ExpectNothing("near-memory-limit");
  process().memory[0].retries = 1;
  ExpectStake("near-memory-limit", 0);
  process().memory[0].retries = 0;
  process().memory[0].peak_live = 79 * kGiB;
  ExpectStake("near-memory-limit", 0);
  process().memory.clear();
  ExpectAbstains("near-memory-limit");
}

TEST_F(RulesTest, Fragmentation) {
  Pool(10 * kGiB, 2 * kGiB);
  ExpectNothing("fragmentation");
  Pool(10 * kGiB, 3 * kGiB);
  ExpectStake("fragmentation", 0);
}

TEST_F(RulesTest, MallocInSteadyState) {
  Calls("cudaMalloc", kStep, 1, kGiB, kMs, "allocator.reused");
  Calls("cudaFree", kStep, 1, 0, kMs, "allocator.parked");
  ExpectNothing("malloc-in-steady-state");
  Calls("cudaMalloc", kStep, 1, kGiB, kMs);
  ExpectAdvice("malloc-in-steady-state", kMs);
  facts_.calls.back().calls = 1;
  ExpectNothing("malloc-in-steady-state");
}

TEST_F(RulesTest, EmptyCacheInTheLoop) {
  Calls("cudaFree", kLoss, 2, 0, 100 * kUs);
  ExpectNothing("empty-cache-in-loop");
  Calls("cudaFree", kLoss, 8, 0, 100 * kUs);
  Calls("cudaMalloc", kStep, 10, kGiB, 100 * kUs);
  ExpectAdvice("empty-cache-in-loop", 2 * kMs);
}

TEST_F(RulesTest, DataParallel) {
  ExpectNothing("data-parallel");
  process().devices.push_back(device());
  process().devices[1].device = 1;
  ExpectAbstains("data-parallel");
  Kernels("ncclDevKernel_Broadcast_RING_LL", kStep, 2, kMs);
  ExpectAdvice("data-parallel", kMs);
  process().world_size = 2;
  ExpectNothing("data-parallel");
}

TEST_F(RulesTest, Stragglers) {
  ExpectAbstains("stragglers");
  report_.processes.push_back(process());
  facts_.process = report_.processes.data();
  report_.processes[1].step_time.median = 12 * kMs;
  report_.spread = report::Spread{.shortest = 0, .longest = 1, .difference = 2 * kMs};
  ExpectAdvice("stragglers", 2 * kMs);
  report_.spread->difference = kMs / 10;
  ExpectNothing("stragglers");
  // Steps that are alike.
  report_.communication = report::Communication{.waited_for = 1, .waits_most = 0, .wait = 3 * kMs};
  ExpectAdvice("stragglers", 3 * kMs);
  report_.communication->wait = kMs / 10;
  ExpectNothing("stragglers");
}

TEST_F(RulesTest, Stalls) {
  ExpectNothing("stalls");
  facts_.step_times[7] = 110 * kMs;
  ExpectAdvice("stalls", kMs);
  facts_.step_times.resize(19);
  ExpectAbstains("stalls");
}

TEST_F(RulesTest, ExposedCommunication) {
  Kernels("ncclDevKernel_AllReduce_Sum_f32_RING_LL", kStep, 4, kMs);
  ExpectNothing("exposed-communication");
  device().times.communication_alone = static_cast<int64_t>(kSteps) * kMs;
  ExpectAdvice("exposed-communication", kMs);
  facts_.devices_recorded = false;
  ExpectAbstains("exposed-communication");
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

TEST_F(RulesTest, SmallSharedMemory) {
  ExpectAbstains("small-shared-memory");
  facts_.shared_memory = 64 * kMiB;
  ExpectNothing("small-shared-memory");
  Calls("cudaMemcpyAsync", kUpload, 1, 4 * kMiB, kUs);
  ExpectNothing("small-shared-memory");
  Calls("cudaMemcpyAsync", kUpload, 1, kMiB, kUs);
  ExpectStake("small-shared-memory", 0);
}

TEST_F(RulesTest, TheCostlyStandsFirst) {
  Calls("cudaDeviceSynchronize", kStep, 1, 0, kMs);
  Calls("cudaMemcpyAsync", kUpload, 1, 32 * kMiB, 3 * kMs, "transfer.d2h.declined.off");
  Calls("cudaMemcpy", kUpload, 1, kMiB, 20 * kUs);  // not worth saying
  Kernels("ampere_sgemm_128x64_tn", kLoss, 4, kMs);
  device().times.idle[report::kHostOutside] = 0;
  const Findings findings = Advise(facts_);
  std::vector<std::string> names;
  for (const RuleVerdict& found : findings.advice) names.emplace_back(found.rule->name);
  EXPECT_EQ(names, (std::vector<std::string>{"pageable-copies", "no-tensor-cores", "explicit-synchronize"}))
      << "4 ms of which nobody knows what can be won count as 2";
  const std::string text = FormatFindings(facts_, findings);
  EXPECT_NE(text.find(" 1. pageable-copies: up to 3.00 ms per step (30.0 %), confidence high\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("gain not known, about 4.00 ms per step"), std::string::npos) << text;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    EXPECT_LE(end - at, 112U) << text.substr(at, end - at);
    at = end + 1;
  }
}

}  // namespace
}  // namespace slipstream::advise
