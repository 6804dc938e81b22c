// Each rule on facts that it is about, and on facts that differ in what matters; those about devices are in
// device_rules_test.cpp.

#include "tools/trace/advise/rules.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/advise/rules_testing.h"
#include "tools/trace/advise/advice.h"
#include "tools/trace/advise/text.h"
#include "tools/trace/report/report.h"

namespace slipstream::advise {
namespace {

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
  EXPECT_NE(Of("pageable-copies").advice.snippet.find("host.copy_(x"), std::string::npos) << "to the host";
  // Numbers are what .item() reads.
  facts_.calls.back().most = facts_.calls.back().least = 8;
  ExpectNothing("pageable-copies");
}

// With the transfer engine switched off nothing is decided, and the devices' records say of which memory copies are.
TEST_F(RulesTest, PageableCopiesWithoutADecision) {
  Calls("cudaMemcpyAsync", kUpload, 1, kMiB, kMs);
  Upload(kMiB, 100 * kUs);
  ExpectNothing("pageable-copies");  // from pinned memory
  facts_.work.back().pageable = true;
  ExpectAdvice("pageable-copies", kMs);
  EXPECT_EQ(Of("pageable-copies").advice.places, std::vector<Place>{kUpload});
  EXPECT_NE(Of("pageable-copies").advice.snippet.find("pin_memory=True)\nx = x.to("), std::string::npos);
  // A small one to the device does not wait.
  facts_.work.back().most = 64 << 10;
  ExpectNothing("pageable-copies");
  facts_.work.back().copy_kind = 2;
  ExpectAdvice("pageable-copies", kMs);
  EXPECT_NE(Of("pageable-copies").advice.snippet.find("host.copy_(x"), std::string::npos);
  // What was decided is known better.
  facts_.calls.back().decision = "transfer.h2d.promoted.large";
  ExpectNothing("pageable-copies");
  // Of other threads only those count that the steps wait for.
  facts_.calls.back().decision = "";
  facts_.calls.back().of_step_thread = false;
  ExpectNothing("pageable-copies");
  facts_.calls.back().of_backward = true;
  ExpectAdvice("pageable-copies", kMs);
}

// A copy to the host is left alone where its memory is pinned, too.
TEST_F(RulesTest, CopiesToPinnedMemoryAreNotPageable) {
  Calls("cudaMemcpyAsync", kUpload, 1, kMiB, kMs, "transfer.d2h.declined.memory");
  Upload(kMiB, 100 * kUs);
  facts_.work.back().copy_kind = 2;
  ExpectNothing("pageable-copies");
  facts_.work.back().pageable = true;
  ExpectAdvice("pageable-copies", kMs);
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
  facts_.calls.back().of_step_thread = false;
  ExpectNothing("blocking-copies");
  facts_.calls.back().of_backward = true;
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

// All that is done at their line for each copy is gone with it, and the time before; kernels are not.
TEST_F(RulesTest, WhatIsGoneWithManySmallCopies) {
  Calls("cudaStreamIsCapturing", kUpload, 40, 0, kUs);
  Calls("cudaMemcpyAsync", kUpload, 40, 4096, 10 * kUs);
  Calls("cudaStreamSynchronize", kUpload, 40, 0, 10 * kUs);
  Calls("cudaLaunchKernel", kUpload, 40, 0, 10 * kUs);
  Calls("cudaMemcpyAsync", kUpload, 1, kMiB, 10 * kUs);
  Calls("cudaMemcpyAsync", kLoss, 1, kMiB, 10 * kUs);
  const WhatIf what_if = Of("many-small-copies").advice.what_if;
  constexpr auto kGone = CallChange::kGone;
  constexpr auto kStays = CallChange::kStays;
  EXPECT_EQ(what_if.calls, (std::vector<CallChange>{kGone, kGone, kGone, kStays, kStays, kStays}));
  ASSERT_EQ(what_if.gaps.size(), 6U);
  EXPECT_GT(what_if.gaps[0], 0);
  EXPECT_GT(what_if.gaps[1], 0);
  EXPECT_EQ(what_if.gaps[3], 0);
  EXPECT_EQ(what_if.gaps[5], 0);
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

// Of 3 ms of copies a third is exposed. What is uploaded comes a step ahead, and nobody waits for it; what goes to the
// host is waited for as before.
TEST_F(RulesTest, WhatMovesWithExposedCopies) {
  device().times.copies_alone = static_cast<int64_t>(kSteps) * kMs;
  Upload(4 * kMiB, 2 * kMs);
  Upload(4 * kMiB, kMs);
  facts_.work[1].copy_kind = 2;
  facts_.work[1].place = kLoss;
  Kernels("gemm", kStep, 1, kMs);
  Calls("cudaMemcpyAsync", kUpload, 1, 4 * kMiB, 10 * kUs);
  Calls("cudaStreamSynchronize", kUpload, 1, 0, 10 * kUs);
  Calls("cudaMemcpyAsync", kLoss, 1, 4 * kMiB, 10 * kUs);
  Calls("cudaStreamSynchronize", kLoss, 1, 0, 10 * kUs);
  Calls("cudaStreamSynchronize", kUpload, 1, 0, 10 * kUs).of_step_thread = false;
  constexpr auto kReturns = CallChange::kReturns;
  constexpr auto kStays = CallChange::kStays;
  const Advice advice = Of("exposed-copies").advice;
  EXPECT_EQ(advice.what_if.streams,
            (std::vector<StreamChange>{StreamChange::kAhead, StreamChange::kAside, StreamChange::kStays}));
  EXPECT_EQ(advice.what_if.calls, (std::vector<CallChange>{kReturns, kReturns, kStays, kStays, kStays}));
  EXPECT_TRUE(advice.what_if.work.empty());
  ASSERT_EQ(advice.no_more.work.size(), 3U);
  EXPECT_DOUBLE_EQ(advice.no_more.work[0], 2.0 / 3);
  // A line whose bytes need not be copied at all.
  facts_.fingerprinted = kSteps;
  Same(kUpload);
  device().times.copies_alone = static_cast<int64_t>(kSteps) * 3 * kMs;
  EXPECT_EQ(Of("exposed-copies").advice.what_if.streams[0], StreamChange::kStays);
  EXPECT_EQ(Of("exposed-copies").advice.what_if.calls[0], kStays);
}

TEST_F(RulesTest, ExposedCopies) {
  ExpectNothing("exposed-copies");
  device().times.copies_alone = static_cast<int64_t>(kSteps) * kMs;
  ExpectAdvice("exposed-copies", kMs);
  report_.device_copies_recorded = false;
  ExpectAbstains("exposed-copies");
}

TEST_F(RulesTest, ItemSynchronize) {
  Calls("cudaMemcpyAsync", kLoss, 1, 4, 5 * kUs);
  Calls("cudaStreamSynchronize", kLoss, 1, 0, 3 * kMs, "transfer.sync.skipped");
  ExpectNothing("item-synchronize");
  Calls("cudaStreamSynchronize", kLoss, 1, 0, 3 * kMs);
  ExpectAdvice("item-synchronize", 3 * kMs + 5 * kUs);  // and the copy
  Calls("cudaLaunchKernel", kLoss, 1, 0, 5 * kUs);
  const WhatIf what_if = Of("item-synchronize").advice.what_if;
  EXPECT_EQ(what_if.gaps, (std::vector<int64_t>{50 * kUs, 0, 50 * kUs, 0})) << "what .item() does before its calls";
  ExpectNothing("explicit-synchronize");
  ExpectNothing("copy-then-synchronize");
}

// One byte behind each function of the backward pass.
TEST_F(RulesTest, AnomalyDetection) {
  const auto ask = [this](uint64_t times, int64_t bytes) {
    facts_.calls.clear();
    for (const char* const function : {"cudaMemcpyAsync", "cudaStreamSynchronize"}) {
      const bool is_copy = std::string_view(function) == "cudaMemcpyAsync";
      CallGroup& group = Calls(function, kLoss, times, is_copy ? bytes : 0, is_copy ? 5 * kUs : 95 * kUs);
      group.of_step_thread = false;
      group.of_backward = true;
    }
  };
  ask(7, 1);
  ExpectNothing("anomaly-detection");
  ExpectAdvice("item-synchronize", 700 * kUs);
  ask(20, 1);
  ExpectAdvice("anomaly-detection", 2 * kMs);
  ExpectNothing("item-synchronize");
  EXPECT_EQ(Of("anomaly-detection").advice.places, std::vector<Place>{kLoss});
  // With what the questions take besides their waits, and the stack traces of the forward pass.
  CallGroup& launches = Calls("cudaLaunchKernel", kLoss, 60, 0, 5 * kUs);
  launches.of_step_thread = false;
  launches.of_backward = true;
  Calls("cudaLaunchKernel", kUpload, 30, 0, 5 * kUs).ids[1] = 7;
  Calls("cudaLaunchKernel", kStep, 30, 0, 5 * kUs).ids[1] = 8;
  facts_.anomalies = {.questions = 20 * kSteps,
                      .backward_stays = 0.5,
                      .forward_sites = {7},
                      .forward_stays = 0.25,
                      .backward_launch = 10 * kUs,
                      .forward_launch = 40 * kUs};
  EXPECT_EQ(Of("anomaly-detection").advice.what_if.host, (std::vector<double>{1, 1, 0.5, 0.25, 1}));
  EXPECT_NE(Of("anomaly-detection").advice.evidence[2].find("40.0 us for a launch of the forward pass, and 10.0 us"),
            std::string::npos);
  facts_.calls.resize(2);
  for (CallGroup& group : facts_.calls) group.of_backward = false;  // an unrelated thread's
  ExpectNothing("anomaly-detection");
  for (CallGroup& group : facts_.calls) group.of_step_thread = true;  // the loop's own questions
  ExpectNothing("anomaly-detection");
  ExpectAdvice("item-synchronize", 2 * kMs);
  ask(20, 4);
  ExpectNothing("anomaly-detection");
  ExpectAdvice("item-synchronize", 2 * kMs);
}

// In the backward pass autograd's thread waits, and the one that makes the steps for it.
TEST_F(RulesTest, WaitsOfTheBackwardPassHoldTheStep) {
  Calls("cudaMemcpyAsync", kLoss, 1, 4, 5 * kUs).of_step_thread = false;
  Calls("cudaStreamSynchronize", kLoss, 1, 0, 3 * kMs).of_step_thread = false;
  Calls("cudaDeviceSynchronize", kStep, 1, 0, 2 * kMs).of_step_thread = false;
  ExpectNothing("item-synchronize");
  ExpectNothing("explicit-synchronize");
  for (CallGroup& group : facts_.calls) group.of_backward = true;
  ExpectAdvice("item-synchronize", 3 * kMs + 5 * kUs);
  ExpectAdvice("explicit-synchronize", 2 * kMs);
  // Copies of the backward pass's own at its line stay.
  Calls("cudaMemcpyAsync", kLoss, 1, kMiB, 5 * kUs, "transfer.d2d").of_step_thread = false;
  facts_.calls.back().of_backward = true;
  ExpectAdvice("item-synchronize", 3 * kMs + 5 * kUs);
  constexpr auto kGone = CallChange::kGone;
  constexpr auto kStays = CallChange::kStays;
  EXPECT_EQ(Of("item-synchronize").advice.what_if.calls, (std::vector<CallChange>{kGone, kGone, kStays, kStays}));
}

TEST_F(RulesTest, ACopyOfTheBackwardPassIsWaitedFor) {
  Calls("cudaMemcpyAsync", kLoss, 1, 8 * kMiB, 5 * kUs).of_step_thread = false;
  Calls("cudaStreamSynchronize", kLoss, 1, 0, kMs).of_step_thread = false;
  ExpectNothing("copy-then-synchronize");
  for (CallGroup& group : facts_.calls) group.of_backward = true;
  ExpectAdvice("copy-then-synchronize", kMs);
  constexpr auto kGone = CallChange::kGone;
  constexpr auto kReturns = CallChange::kReturns;
  EXPECT_EQ(Of("copy-then-synchronize").advice.what_if.calls, (std::vector<CallChange>{kReturns, kGone}));
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

// Through staging memory: the copy is over when it returns.
TEST_F(RulesTest, CopiesToTheHostThatWaitThemselves) {
  Calls("cudaMemcpyAsync", kLoss, 1, 8 * kMiB, 2 * kMs, "transfer.d2h.promoted");
  Calls("cudaStreamSynchronize", kLoss, 1, 0, kUs, "transfer.sync.skipped");
  ExpectAdvice("copy-then-synchronize", 2 * kMs);
  const WhatIf what_if = Of("copy-then-synchronize").advice.what_if;
  EXPECT_EQ(what_if.calls, (std::vector<CallChange>{CallChange::kGone, CallChange::kStays}));
  facts_.calls[0].decision = "transfer.h2d.promoted.large";
  ExpectNothing("copy-then-synchronize");
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
  EXPECT_TRUE(Of("fragmentation").advice.places.empty());
  EXPECT_EQ(Of("fragmentation").advice.evidence.back(),
            "by the recorded allocations expandable segments would have reserved 10.0 GiB at most, 3.00 GiB less");
  EXPECT_EQ(Of("fragmentation").advice.snippet, "[allocator]\nmode = \"expandable\"");
  report::HeldReport& held = process().held.emplace_back();
  held.device = 0;
  report::HolderReport& holder = held.holders.emplace_back();
  holder.known = true;
  holder.file = kLoss.file;
  holder.line = kLoss.line;
  holder.function = kLoss.function;
  holder.sum.bytes = 4 * kGiB;
  held.holders.emplace_back();  // of no line
  EXPECT_EQ(Of("fragmentation").advice.places, std::vector<Place>{kLoss});
  held.device = 1;
  EXPECT_TRUE(Of("fragmentation").advice.places.empty());
}

TEST_F(RulesTest, MallocInSteadyState) {
  Calls("cudaMalloc", kStep, 1, kGiB, kMs, "allocator.reused");
  Calls("cudaFree", kStep, 1, 0, kMs, "allocator.parked");
  ExpectNothing("malloc-in-steady-state");
  Calls("cudaMalloc", kStep, 1, kGiB, kMs);
  ExpectNothing("malloc-in-steady-state");  // it grows, and nothing is given back
  Calls("cudaFree", kStep, 1, 0, kMs);
  ExpectAdvice("malloc-in-steady-state", 2 * kMs);
  for (CallGroup& group : facts_.calls) group.calls = 1;
  ExpectNothing("malloc-in-steady-state");
}

TEST_F(RulesTest, EmptyCacheInTheLoop) {
  Calls("cudaFree", kLoss, 2, 0, 100 * kUs);
  ExpectNothing("empty-cache-in-loop");
  Calls("cudaFree", kLoss, 8, 0, 100 * kUs);
  Calls("cudaMalloc", kStep, 10, kGiB, 100 * kUs);
  ExpectAdvice("empty-cache-in-loop", 2 * kMs);
  // A program without a cache frees at every line, and gets memory there.
  Calls("cudaFree", kStep, 10, 0, 100 * kUs);
  ExpectNothing("empty-cache-in-loop");
  facts_.calls.back().calls = kSteps;
  ExpectAdvice("empty-cache-in-loop", 2 * kMs);
  Calls("cudaMalloc", kLoss, 8, kGiB, 100 * kUs);
  ExpectNothing("empty-cache-in-loop");
}

TEST_F(RulesTest, DataParallel) {
  ExpectNothing("data-parallel");
  process().devices.push_back(device());
  process().devices[1].device = 1;
  ExpectAbstains("data-parallel");
  Kernels("ncclDevKernel_Broadcast_RING_LL", kStep, 2, kMs);
  Kernels("ncclDevKernel_AllReduce_Sum_f32_RING_LL", kLoss, 2, kMs);
  ExpectAdvice("data-parallel", kMs);
  EXPECT_EQ(Of("data-parallel").advice.places, std::vector<Place>{kStep});
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

// Where its time is more than the other's: not where it waits, and not where both spend the same.
TEST_F(RulesTest, WhereAStragglerIsLate) {
  Site(kUpload, kMs);
  Site(kStep, 2 * kMs).time = static_cast<int64_t>(kSteps) * kMs;
  report_.processes.push_back(process());
  facts_.process = report_.processes.data();
  report::ProcessReport& late = report_.processes[1];
  late.sites[0].gap += static_cast<int64_t>(kSteps) * 2 * kMs;
  late.sites[1].time += static_cast<int64_t>(kSteps) * kMs;
  Site(kLoss, 0).time = static_cast<int64_t>(kSteps) * 5 * kMs;  // of the one that waits
  report_.spread = report::Spread{.shortest = 0, .longest = 1, .difference = 3 * kMs};
  ExpectAdvice("stragglers", 3 * kMs);
  EXPECT_EQ(Of("stragglers").advice.places, (std::vector<Place>{kUpload, kStep}));
  // A wait for the others is not what the others wait for.
  late.sites[1].waiting = 1;
  EXPECT_EQ(Of("stragglers").advice.places, std::vector<Place>{kUpload});
}

// What has no number, or is a guess, may weigh most and does not come first.
TEST(OrderTest, WhatIsKnownLeads) {
  const auto found = [](const char* name, std::optional<int64_t> cost, int64_t at_stake, Confidence confidence) {
    Advice advice;
    advice.finding = name;
    advice.cost = cost;
    advice.at_stake = at_stake;
    advice.confidence = confidence;
    return advice;
  };
  const auto order = [](std::vector<Advice> all) {
    PutInOrder(&all, [](const Advice& one) -> const Advice& { return one; });
    std::string names;
    for (const Advice& one : all) names += one.finding;
    return names;
  };
  const Advice unknown = found("u", std::nullopt, 100, Confidence::kMedium);
  const Advice guess = found("g", 40, 0, Confidence::kLow);
  const Advice large = found("l", 20, 0, Confidence::kHigh);
  const Advice small = found("s", 10, 0, Confidence::kMedium);
  const Advice no_more = found("n", 0, 0, Confidence::kHigh);
  EXPECT_EQ(order({no_more, small, guess, unknown, large}), "lugsn");
  EXPECT_EQ(order({no_more, guess, unknown}), "ugn") << "none that could lead";
  EXPECT_EQ(order({large, found("h", 90, 0, Confidence::kMedium)}), "hl");
  EXPECT_EQ(order({}), "");
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

// A rank that waits for another in such kernels: 2 ms of the 3 are the late one's.
TEST_F(RulesTest, WaitingForALateRankIsCountedOnce) {
  Kernels("ncclDevKernel_AllReduce_Sum_f32_RING_LL", kStep, 4, kMs);
  device().times.communication_alone = static_cast<int64_t>(kSteps) * 3 * kMs;
  device().times.idle.fill(0);
  report_.processes.push_back(process());
  report_.spread = report::Spread{.shortest = 0, .longest = 1, .difference = 0};
  report_.communication = report::Communication{.waited_for = 0, .waits_most = 1, .wait = 2 * kMs};
  facts_.process = &report_.processes[1];
  ExpectAdvice("stragglers", 2 * kMs);
  ExpectAdvice("exposed-communication", 3 * kMs);
  std::map<std::string, int64_t> costs;
  for (const RuleVerdict& found : Advise(facts_).advice) {
    costs[found.rule->name] = found.verdict.advice.cost.value_or(0);
  }
  EXPECT_EQ(costs, (std::map<std::string, int64_t>{{"stragglers", 2 * kMs}, {"exposed-communication", kMs}}));
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

// Where no steps were found, what is found is of all of the time.
TEST_F(RulesTest, WithoutStepsNothingIsSaidOfAStep) {
  Calls("cudaDeviceSynchronize", kStep, 1, 0, kMs);
  Calls("cudaMemcpyAsync", kUpload, 1, 32 * kMiB, 3 * kMs, "transfer.d2h.declined.off");
  Calls("cudaMemcpyAsync", kLoss, 40, 4096, 10 * kUs);
  Kernels("ampere_sgemm_128x64_tn", kLoss, 4, kMs);
  device().kernels = 400 * kSteps;
  Calls("cudaLaunchKernel", kLoss, 10, 0, kUs);
  const std::string with = FormatFindings(facts_, Advise(facts_));
  process().has_steps = false;
  const std::string without = FormatFindings(facts_, Advise(facts_));
  for (const char* const words : {" per step", " of a step"})
    EXPECT_EQ(without.find(words), std::string::npos) << without;
  for (const char* const words :
       {"4,000 copies of at most 64 KiB in all", "idle for 400 ms in all while the host was"}) {
    EXPECT_NE(without.find(words), std::string::npos) << without;
  }
  EXPECT_NE(with.find("40 copies of at most 64 KiB per step"), std::string::npos) << with;
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
  EXPECT_NE(text.find(" 1. pageable-copies: about 3.00 ms per step (30.0 %), confidence high\n"), std::string::npos)
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
