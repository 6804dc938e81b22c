// The rules of a report, each by itself: kinds of calls, which steps count, ranks, kernel names.

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "tools/trace/db/api_names.h"
#include "tools/trace/report/call_kind.h"
#include "tools/trace/report/decision_text.h"
#include "tools/trace/report/distribution.h"
#include "tools/trace/report/kernel_name.h"
#include "tools/trace/report/steps.h"
#include "tracer/base/hook_id.h"

namespace slipstream::report {
namespace {

using tracer::HookGroup;
using tracer::HookId;

// Every hooked function, by the name that a database has for it, is of the kind that its group says.
TEST(CallKindTest, AgreesWithTheHookTable) {
  for (size_t i = 0; i < tracer::kHookCount; ++i) {
    const auto hook = static_cast<HookId>(i);
    const std::string function = NameOf(hook);
    const HookGroup group = GroupOf(hook);
    CallKind expected = CallKind::kOther;
    if (group == HookGroup::kCopy) expected = CallKind::kCopy;
    if (group == HookGroup::kSynchronize) expected = CallKind::kSynchronize;
    if (group == HookGroup::kLaunch) expected = CallKind::kLaunch;
    if (group == HookGroup::kAllocate || group == HookGroup::kFree || group == HookGroup::kHostMemory) {
      expected = CallKind::kAllocator;
    }
    // Nodes of a graph allocate when the graph runs; the others only ask. A graph's launch is a launch.
    for (const char* const asks : {"cudaGraphAdd", "cudaHostGet", "cuGraphAdd", "cuMemHostGet"}) {
      if (function.starts_with(asks)) expected = CallKind::kOther;
    }
    if (function.starts_with("cudaGraphLaunch") || function.starts_with("cuGraphLaunch")) expected = CallKind::kLaunch;
    EXPECT_EQ(KindOf(trace_db::ApiName(function)), expected) << function;
    EXPECT_EQ(KindOf(function), expected) << function;
  }
}

TEST(CallKindTest, TheDriversFunctions) {
  EXPECT_EQ(KindOf("cuMemcpyHtoDAsync_v2"), CallKind::kCopy);
  EXPECT_EQ(KindOf("cuLaunchKernelEx"), CallKind::kLaunch);
  EXPECT_EQ(KindOf("cuGraphLaunch"), CallKind::kLaunch);
  EXPECT_EQ(KindOf("cuStreamSynchronize"), CallKind::kSynchronize);
  EXPECT_EQ(KindOf("cuCtxSynchronize"), CallKind::kSynchronize);
  EXPECT_EQ(KindOf("cuMemAlloc_v2"), CallKind::kAllocator);
  EXPECT_EQ(KindOf("cuMemFreeHost"), CallKind::kAllocator);
  EXPECT_EQ(KindOf("cuMemCreate"), CallKind::kAllocator);
  EXPECT_EQ(KindOf("cuEventRecord"), CallKind::kOther);
  EXPECT_EQ(KindOf("unknown function 7"), CallKind::kOther);
  EXPECT_EQ(KindOf(""), CallKind::kOther);
}

TEST(CallKindTest, PlainNames) {
  EXPECT_EQ(PlainName("cudaMemcpyAsync_v3020"), "cudaMemcpyAsync");
  EXPECT_EQ(PlainName("cudaMemcpyAsync_ptsz_v7000"), "cudaMemcpyAsync");
  EXPECT_EQ(PlainName("cudaMemPrefetchAsync_v2_v12020"), "cudaMemPrefetchAsync_v2");
  EXPECT_EQ(PlainName("cuda_value"), "cuda_value");
  EXPECT_EQ(PlainName("cudaFree_v"), "cudaFree_v");
}

TEST(CallKindTest, WhatWaits) {
  for (const char* const name : {"cudaStreamSynchronize_v3020", "cudaDeviceSynchronize", "cudaMemcpy_v3020",
                                 "cudaMemcpy2D_ptds_v7000", "cudaMemcpyToSymbol", "cuMemcpyHtoD_v2"}) {
    EXPECT_TRUE(Waits(name)) << name;
  }
  for (const char* const name :
       {"cudaMemcpyAsync_v3020", "cudaMemcpyPeer_v4000", "cudaMemsetAsync", "cudaLaunchKernel", "cudaStreamQuery"}) {
    EXPECT_FALSE(Waits(name)) << name;
  }
}

TEST(DistributionTest, RanksAreValuesThatThereWere) {
  const Distribution none = DistributionOf({});
  EXPECT_EQ(none.count, 0U);
  EXPECT_EQ(none.mean(), 0);
  const Distribution one = DistributionOf({7});
  EXPECT_EQ(one.min + one.p10 + one.median + one.p90 + one.max, 35);
  const Distribution four = DistributionOf({40, 10, 30, 20});
  EXPECT_EQ(four.median, 20);
  EXPECT_EQ(four.p10, 10);
  EXPECT_EQ(four.p90, 40);
  EXPECT_EQ(four.total, 100);
  std::vector<int64_t> hundred;
  for (int64_t i = 100; i >= 1; --i) hundred.push_back(i);
  const Distribution many = DistributionOf(hundred);
  EXPECT_EQ(many.p10, 10);
  EXPECT_EQ(many.median, 50);
  EXPECT_EQ(many.p90, 90);
  EXPECT_EQ(many.max, 100);
  EXPECT_EQ(hundred[IndexOfMedian(hundred)], 50);
  EXPECT_EQ(IndexOfMedian({5, 5, 5}), 0U);
}

TEST(DistributionTest, DifferBeyondTheirSpread) {
  const Distribution wide = DistributionOf({10, 20, 30, 40});  // p10 10, median 20, p90 40
  EXPECT_FALSE(Differ(wide, wide));
  EXPECT_FALSE(Differ(wide, DistributionOf({40, 40, 40})));
  EXPECT_TRUE(Differ(wide, DistributionOf({41, 41, 41})));
  EXPECT_TRUE(Differ(DistributionOf({9, 9}), wide));
  EXPECT_FALSE(Differ(DistributionOf({5, 41, 60, 70}), wide));  // its median is beyond, but 20 lies from 5 to 70
}

TEST(DistributionTest, SumsEndAtTheLargestNumber) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(Sum(kMost, 1), kMost);
  EXPECT_EQ(Sum(-kMost, -kMost), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(Sum(2, -3), -1);
}

std::vector<Step> BackToBack(const std::vector<int64_t>& times) {
  std::vector<Step> steps;
  int64_t at = 1000;
  for (const int64_t time : times) {
    Step& step = steps.emplace_back();
    step.start = at;
    step.end = at += time;
  }
  return steps;
}

std::string Uses(const std::vector<Step>& steps) {
  std::string uses;
  for (const Step& step : steps) uses += "mwdue"[static_cast<size_t>(step.use)];
  return uses;
}

TEST(ChooseStepsTest, SlowStepsAtTheBeginningAreWarmUp) {
  std::vector<Step> steps = BackToBack({10, 21, 10, 10, 10, 10, 40, 10});
  EXPECT_FALSE(ChooseSteps({}, {}, &steps).drops_everywhere);
  EXPECT_EQ(Uses(steps), "wwmmmmmm");
  // Exactly twice the median is no warm-up.
  steps = BackToBack({10, 20, 10, 10, 10, 10, 10, 10});
  EXPECT_FALSE(ChooseSteps({}, {}, &steps).drops_everywhere);
  EXPECT_EQ(Uses(steps), "mmmmmmmm");
  // Not more than a quarter.
  steps = BackToBack({90, 10, 90, 10, 10, 10, 10, 10});
  EXPECT_FALSE(ChooseSteps({}, {}, &steps).drops_everywhere);
  EXPECT_EQ(Uses(steps), "wmmmmmmm");
  steps = BackToBack({90, 10, 10});
  EXPECT_FALSE(ChooseSteps({}, {}, &steps).drops_everywhere);
  EXPECT_EQ(Uses(steps), "mmm");
  // Nor more than ten.
  std::vector<int64_t> times(100, 10);
  times[9] = times[10] = 30;
  steps = BackToBack(times);
  EXPECT_FALSE(ChooseSteps({}, {}, &steps).drops_everywhere);
  EXPECT_EQ(Uses(steps), std::string(10, 'w') + std::string(90, 'm'));
  steps.clear();
  EXPECT_FALSE(ChooseSteps({}, {}, &steps).drops_everywhere);
}

TEST(ChooseStepsTest, StepsWithDropsAreLeftOut) {
  std::vector<Step> steps = BackToBack({10, 10, 10, 10, 10});
  // One across the border of two steps, and one that is a moment at the beginning of another.
  EXPECT_FALSE(ChooseSteps(std::vector<Interval>{{1040, 1040}, {1015, 1022}}, {}, &steps).drops_everywhere);
  EXPECT_EQ(Uses(steps), "mddmd");
  steps = BackToBack({10, 10, 10});
  EXPECT_FALSE(ChooseSteps(std::vector<Interval>{{0, 999}, {1030, 1031}}, {}, &steps).drops_everywhere);
  EXPECT_EQ(Uses(steps), "mmm");
  // A long one hides behind a short one that begins later.
  steps = BackToBack({10, 10, 10, 10});
  EXPECT_FALSE(ChooseSteps(std::vector<Interval>{{1000, 1025}, {1001, 1002}}, {}, &steps).drops_everywhere);
  EXPECT_EQ(Uses(steps), "dddm");
}

TEST(ChooseStepsTest, StepsWhoseDevicesWereNotRecordedAreLeftOut) {
  std::vector<Step> steps = BackToBack({10, 10, 10, 10});
  const std::vector<Interval> drops = {{1000, 1001}};
  Chosen chosen = ChooseSteps(drops, std::vector<Interval>{{1015, 1022}}, &steps);
  EXPECT_FALSE(chosen.drops_everywhere);
  EXPECT_FALSE(chosen.unwatched_everywhere);
  EXPECT_EQ(Uses(steps), "duum");
  // All that the drops leave: then these count.
  steps = BackToBack({10, 10, 10, 10});
  chosen = ChooseSteps(drops, std::vector<Interval>{{1010, 5000}}, &steps);
  EXPECT_TRUE(chosen.unwatched_everywhere);
  EXPECT_EQ(Uses(steps), "dmmm");
}

TEST(ChooseStepsTest, StepsWithoutAnEndAreLeftOut) {
  std::vector<Step> steps = BackToBack({90, 10, 10, 10, 10, 10, 10, 10});
  steps[0].use = steps[7].use = StepUse::kUnfinished;
  EXPECT_FALSE(ChooseSteps({}, {}, &steps).drops_everywhere);
  EXPECT_EQ(Uses(steps), "emmmmmme") << "and none of them is warm-up";
  // They say nothing about how long a step takes: 30 is more than twice the median of 10, 10 and 30.
  steps = BackToBack({30, 10, 10, 90, 90, 90, 90, 90});
  for (size_t i = 3; i < 8; ++i) steps[i].use = StepUse::kUnfinished;
  EXPECT_FALSE(ChooseSteps({}, {}, &steps).drops_everywhere);
  EXPECT_EQ(Uses(steps), "wmmeeeee");
  // Where there are no others, they count.
  steps = BackToBack({10, 10});
  for (Step& step : steps) step.use = StepUse::kUnfinished;
  EXPECT_FALSE(ChooseSteps({}, {}, &steps).drops_everywhere);
  EXPECT_EQ(Uses(steps), "mm");
}

TEST(IsSlowTest, FarAboveTheMedianAndTheSpreadBelowIt) {
  Distribution of = {.count = 10, .total = 0, .min = 90, .p10 = 90, .median = 100, .p90 = 100, .max = 100};
  EXPECT_FALSE(IsSlow(150, of));
  EXPECT_TRUE(IsSlow(151, of));
  of.p10 = 83;  // 3 * 17 are 51
  EXPECT_FALSE(IsSlow(151, of));
  EXPECT_TRUE(IsSlow(152, of));
  of.count = 3;
  EXPECT_FALSE(IsSlow(1000, of));
}

TEST(ChooseStepsTest, WhereAllHaveDropsAllCount) {
  std::vector<Step> steps = BackToBack({10, 10, 10});
  EXPECT_TRUE(ChooseSteps(std::vector<Interval>{{0, 5000}}, {}, &steps).drops_everywhere);
  EXPECT_EQ(Uses(steps), "mmm");
}

TEST(MeasuredTimeTest, IsAUnion) {
  std::vector<Step> steps(5);
  steps[0] = {.number = 0, .start = 0, .end = 10};
  steps[1] = {.number = 1, .start = 5, .end = 8};
  steps[2] = {.number = 2, .start = 10, .end = 20};
  steps[3] = {.number = 3, .start = 20, .end = 30, .use = StepUse::kDropped};
  steps[4] = {.number = 4, .start = 30, .end = 40};
  const std::vector<Interval> measured = MeasuredTime(steps);
  ASSERT_EQ(measured.size(), 2U);
  EXPECT_EQ(measured[0].start, 0);
  EXPECT_EQ(measured[0].end, 20);
  EXPECT_EQ(measured[1].start, 30);
  EXPECT_EQ(measured[1].end, 40);
}

TEST(KernelNameTest, TensorCores) {
  for (const char* const name :
       {"ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_tn", "sm80_xmma_fprop_implicit_gemm",
        "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT", "void cutlass::Kernel<cutlass_80_tensorop_s16816gemm>",
        "volta_h884gemm_128x128", "void pytorch_flash::flash_fwd_kernel<Traits>"}) {
    EXPECT_TRUE(NamesTensorCores(name)) << name;
  }
  for (const char* const name :
       {"vectorized_elementwise_kernel", "ampere_sgemm_128x64_nn", "reduce_kernel", "", "layer_norm_16812",
        "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4_execute_"
        "kernel",
        "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>"}) {
    EXPECT_FALSE(NamesTensorCores(name)) << name;
  }
}

TEST(KernelNameTest, Communication) {
  for (const char* const name :
       {"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", "multimem_all_reduce_kernel", "nvshmemi_proxy_kernel"}) {
    EXPECT_TRUE(NamesCommunication(name)) << name;
  }
  for (const char* const name : {"reduce_kernel", "all_reduce_in_my_model", "", "nccl"}) {
    EXPECT_FALSE(NamesCommunication(name)) << name;
  }
}

TEST(DecisionTextTest, MakesItReturn) {
  EXPECT_TRUE(MakesItReturn("transfer.sync.skipped"));
  EXPECT_TRUE(MakesItReturn("transfer.h2d.promoted.small"));
  EXPECT_FALSE(MakesItReturn("transfer.sync.skipped.rest"));
  EXPECT_FALSE(MakesItReturn("transfer.sync.kept.off"));
}

}  // namespace
}  // namespace slipstream::report
