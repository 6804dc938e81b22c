// Each rule about devices on facts that it is about, and on facts that differ in what matters.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/advise/replay_testing.h"
#include "tests/advise/rules_testing.h"
#include "tools/trace/advise/advice.h"
#include "tools/trace/advise/convolutions.h"
#include "tools/trace/report/report.h"

namespace slipstream::advise {
namespace {

// What the loader is to blame for is not said of Python too.
TEST_F(RulesTest, HostBound) {
  Site(kStep, kMs);
  ExpectAdvice("host-bound", 2 * kMs);
  Site(kUpload, 2 * kMs);
  Calls("cudaMemcpyAsync", kUpload, 1, 8 * kMiB, 5 * kUs);
  ExpectAdvice("host-bound", 2 * kMs);  // the copies stay on the device
  Upload(8 * kMiB, kUs);
  ExpectNothing("host-bound");
  facts_.devices_recorded = false;
  device().kernels = 0;
  ExpectAbstains("host-bound");
  // Nobody knows whether the device worked meanwhile; but a fifth of a step is no nothing.
  Site(kLoss, 2 * kMs);
  ExpectStake("host-bound", 2 * kMs);
  EXPECT_EQ(Of("host-bound").advice.places, std::vector<Place>{kLoss});
  EXPECT_EQ(Of("host-bound").advice.confidence, Confidence::kLow);
  process().sites.back().of_step_thread = false;
  ExpectAbstains("host-bound");
}

// Three times 490 us between calls, and one pause, which is 4.49 of 5.96 ms, or 2.49 of 3.96.
TEST_F(RulesTest, HostBoundInAFewLongPauses) {
  Site(kStep, 4 * kMs);
  Site(kLoss, 2 * kMs);
  Calls("cudaLaunchKernel", kStep, 1, 0, 10 * kUs);
  Calls("cudaLaunchKernel", kLoss, 4, 0, 10 * kUs).of_step_thread = false;
  const auto step = [this](int64_t pause) {
    StepEvents events(10'000);
    int64_t now = 0;
    for (int i = 0; i < 4; ++i, now += 500) events.Work(now + 20, now + 30, 0, events.Call(now, now + 10, 1));
    now += pause;
    events.Work(now + 20, 10'000, 0, events.Call(now, now + 10, 0));
    facts_.replay = std::make_shared<const Replay>(events.Made());
  };
  const auto places = [this] { return Of("host-bound").advice.places; };
  step(4000);
  facts_.calls[0].pauses = kSteps;
  facts_.calls[0].pause_time = static_cast<int64_t>(kSteps) * 4 * kMs;
  EXPECT_EQ(places(), (std::vector<Place>{kStep}));
  const Advice advice = Of("host-bound").advice;
  ExpectAdvice("host-bound", 2 * kMs);
  EXPECT_EQ(advice.evidence[1], "4.00 ms in 1 pause per step, of 4.00 ms on average");
  EXPECT_NE(advice.change.find("It is not lost call by call"), std::string::npos);
  EXPECT_EQ(advice.snippet.find("lengths"), std::string::npos) << "no kernel here prepares itself";
  Kernels("cudnn_generated_fort_native_sdpa_sm90_flash_fprop", kStep, 1, kUs);
  EXPECT_NE(Of("host-bound").advice.snippet.find("pad to few lengths"), std::string::npos);
  Workers(16);
  facts_.processors = 4;
  EXPECT_EQ(Of("host-bound").advice.snippet, "DataLoader(..., num_workers=2)");
  facts_.tasks.workers.reset();
  step(2000);
  EXPECT_EQ(places(), (std::vector<Place>{kStep, kLoss})) << "by the time before them";
  EXPECT_NE(Of("host-bound").advice.change.find("compile the model"), std::string::npos);
  // Most of it before the batch, which is another rule's.
  step(4000);
  Calls("cudaMemcpyAsync", kUpload, 1, 8 * kMiB, 5 * kUs);
  Upload(8 * kMiB, kUs);
  facts_.calls[0].place = kUpload;
  EXPECT_EQ(places(), (std::vector<Place>{kStep, kLoss}));
}

TEST_F(RulesTest, LaunchBound) {
  ExpectNothing("launch-bound");  // kernels of 100 us
  device().kernels = 400 * kSteps;
  Calls("cudaLaunchKernel", kLoss, 10, 0, kUs);
  Calls("cuLaunchKernelEx", kStep, 390, 0, kUs);
  Calls("cudaMalloc", kUpload, 1, 0, kMs);
  ExpectAdvice("launch-bound", 4 * kMs);
  EXPECT_EQ(Of("launch-bound").advice.places, (std::vector<Place>{kStep, kLoss}));
  device().times.idle.fill(0);
  ExpectNothing("launch-bound");
}

// With the launches goes what is between them, for up to 200 us; copies, waits and memory are no part of it.
TEST_F(RulesTest, WhatIsGoneWithLaunches) {
  device().kernels = 400 * kSteps;
  Calls("cudaLaunchKernel", kStep, 400, 0, kUs);
  Calls("cudaGetLastError", kStep, 400, 0, kUs);
  Calls("cudaMemcpyAsync", kUpload, 1, kMiB, kUs);
  Calls("cudaStreamSynchronize", kUpload, 1, 0, kUs);
  Calls("cudaMalloc", kUpload, 1, kMiB, kUs);
  const WhatIf what_if = Of("launch-bound").advice.what_if;
  constexpr auto kGone = CallChange::kGone;
  constexpr auto kStays = CallChange::kStays;
  EXPECT_EQ(what_if.calls, (std::vector<CallChange>{kGone, kGone, kStays, kStays, kStays}));
  EXPECT_EQ(what_if.gaps, (std::vector<int64_t>{200 * kUs, 200 * kUs, 0, 0, 0}));
}

// Launches that are one for each tensor, and what belongs to them.
TEST_F(RulesTest, WhatIsGoneWithALoopOverTensors) {
  Kernels("vectorized_elementwise_kernel", kStep, 500, 4 * kUs);
  Calls("cudaLaunchKernel", kStep, 500, 0, 5 * kUs);
  Calls("cudaGetLastError", kStep, 500, 0, kUs);
  Calls("cudaLaunchKernel", kLoss, 1, 0, 5 * kUs);
  const WhatIf what_if = Of("loop-over-tensors").advice.what_if;
  constexpr auto kGone = CallChange::kGone;
  EXPECT_EQ(what_if.calls, (std::vector<CallChange>{kGone, kGone, CallChange::kStays}));
  EXPECT_GT(what_if.gaps[0], 0);
  EXPECT_EQ(what_if.gaps[2], 0);
  EXPECT_EQ(what_if.work, std::vector<double>{0.5}) << "2 us of 4";
}

TEST_F(RulesTest, NoTensorCores) {
  Kernels("sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize64x64x64_stage3_warpsize2x2x1_tensor16x8x8", kStep, 1,
          4 * kMs);
  ExpectNothing("no-tensor-cores");
  // No tensor core does the channels of a convolution one by one.
  for (const char* const name : {"conv_depthwise2d_backward_kernel", "dgrad2d_c1_k1_nhwc_kernel_specialized_window"}) {
    Kernels(name, kLoss, 2, kMs);
  }
  ExpectNothing("no-tensor-cores");
  Kernels("ampere_sgemm_128x64_tn", kLoss, 2, kMs);
  ExpectStake("no-tensor-cores", 2 * kMs);
  EXPECT_EQ(Of("no-tensor-cores").advice.places, std::vector<Place>{kLoss});
}

// Three quarters of products of 32-bit floats, where the device's tensor cores are that much faster.
TEST_F(RulesTest, WhatTensorCoresGain) {
  Kernels("ampere_sgemm_128x64_tn", kLoss, 2, kMs);
  for (const int64_t capability : {80, 90, 100}) {
    facts_.compute_capability = capability;
    ExpectAdvice("no-tensor-cores", 1500 * kUs);
    EXPECT_EQ(Of("no-tensor-cores").advice.gains, Gains::kBusy);
  }
  for (const int64_t capability : {70, 75, 86, 89}) {
    facts_.compute_capability = capability;
    ExpectStake("no-tensor-cores", 2 * kMs);
  }
  // Some are of another type: a fifth at the most.
  facts_.compute_capability = 90;
  Kernels("cutlass_80_simt_dgemm_64x64_8x5_nn_align1", kLoss, 1, kMs / 2);
  ExpectAdvice("no-tensor-cores", 1500 * kUs);
  Kernels("cutlass_80_simt_dgemm_64x64_8x5_nn_align1", kLoss, 1, kMs / 4);
  ExpectStake("no-tensor-cores", 2750 * kUs);
}

// No kernel takes less than 5 us: of 8, three are gained, and of 4 nothing is.
TEST_F(RulesTest, ShortProductsGainLessOnTensorCores) {
  facts_.compute_capability = 90;
  Kernels("sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4", kLoss, 100,
          8 * kUs);
  ExpectAdvice("no-tensor-cores", 300 * kUs);
  Kernels("ampere_sgemm_32x32_sliced1x4_tn", kStep, 100, 4 * kUs);
  ExpectAdvice("no-tensor-cores", 300 * kUs);
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

// A deep network's layers launch as many, and products beside them.
TEST_F(RulesTest, AForwardPassIsNoLoopOverTensors) {
  Kernels("vectorized_elementwise_kernel", kStep, 500, 4 * kUs);
  Calls("cudaLaunchKernel", kStep, 500, 0, 5 * kUs);
  Kernels("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", kStep, 50, 4 * kUs);
  ExpectAdvice("loop-over-tensors", 2500 * kUs);
  Kernels("layer_norm_kernel", kStep, 1, 4 * kUs);
  ExpectNothing("loop-over-tensors");
}

TEST_F(RulesTest, ZeroGradMemsets) {
  Calls("cudaMemsetAsync", kStep, 29, kMiB, 10 * kUs);
  ExpectNothing("zero-grad-memsets");
  Calls("cudaMemsetAsync", kStep, 1, kMiB, 10 * kUs);
  ExpectAdvice("zero-grad-memsets", 300 * kUs);
  // The counters of a library's kernels.
  for (CallGroup& group : facts_.calls) group.most = group.least = 4;
  ExpectNothing("zero-grad-memsets");
}

TEST_F(RulesTest, ChannelsLast) {
  Kernels("void cudnn::engines_precompiled::nchwToNhwcKernel<float, float, float, false, true>", kLoss, 4, 100 * kUs);
  ExpectNothing("channels-last");  // 4 % of a step
  Kernels("void cudnn::engines_precompiled::nhwcToNchwKernel<float, float, float, true, false>", kStep, 2, 300 * kUs);
  ExpectAdvice("channels-last", kMs);
  EXPECT_EQ(Of("channels-last").advice.places, (std::vector<Place>{kStep, kLoss}));
  facts_.devices_recorded = false;
  ExpectAbstains("channels-last");
}

TEST_F(RulesTest, DoublePrecision) {
  Kernels("vectorized_elementwise_kernel", kLoss, 10, 100 * kUs);
  ExpectNothing("double-precision");
  facts_.work.back().double_time = facts_.work.back().time * 8 / 10;
  ExpectAdvice("double-precision", 400 * kUs);
  EXPECT_EQ(Of("double-precision").advice.places, std::vector<Place>{kLoss});
  EXPECT_DOUBLE_EQ(Of("double-precision").advice.what_if.work.back(), 0.6);
  // How much faster a product is depends on the device.
  WorkGroup& product = Kernels("cutlass_80_tensorop_d884gemm_64x64_16x4_tn_align1", kLoss, 1, 300 * kUs);
  product.double_time = product.time;
  ExpectStake("double-precision", 1100 * kUs);
  facts_.devices_recorded = false;
  ExpectAbstains("double-precision");
}

TEST_F(RulesTest, FilledBeforeUse) {
  std::vector<Place> lines;
  for (int64_t line = 50; line < 56; ++line) lines.push_back({"/job/train.py", line, "forward"});
  int64_t site = 0;
  const auto line_with = [&](const Place& place, uint64_t kernels, uint64_t fills) {
    WorkGroup& group = Kernels("vectorized_elementwise_kernel", place, kernels, 40 * kUs);
    group.ids[1] = ++site;
    group.fills = fills * kSteps;
    group.fill_time = group.time / static_cast<int64_t>(kernels) * static_cast<int64_t>(fills) / 4;
    Calls("cudaLaunchKernel", place, kernels, 0, 5 * kUs).ids[1] = site;
  };
  for (const Place& place : lines) line_with(place, 10, 4);
  // A fill takes a fourth of the others' time. The host's is by launches.
  ExpectAdvice("filled-before-use", 240 * kUs);
  const WhatIf what_if = Of("filled-before-use").advice.what_if;
  EXPECT_DOUBLE_EQ(what_if.work.back(), 0.9);
  EXPECT_DOUBLE_EQ(what_if.host.back(), 0.6);
  Kernels("gemm", kLoss, 150, 10 * kUs).ids[1] = 20;
  ExpectNothing("filled-before-use");  // 24 of 210
  facts_.work.pop_back();
  // A program that wants many zeros wants them at a few lines.
  for (int64_t line = 60; line < 67; ++line) line_with({"/job/train.py", line, "forward"}, 1, 0);
  ExpectNothing("filled-before-use");
  facts_.devices_recorded = false;
  ExpectAbstains("filled-before-use");
}

TEST_F(RulesTest, DenseEmbeddingGradient) {
  WorkGroup& fill = Kernels("vectorized_elementwise_kernel", kLoss, 10, 100 * kUs);
  fill.gradient_fills = kSteps;
  fill.gradient_fill_time = static_cast<int64_t>(kSteps) * 200 * kUs;
  Kernels("compute_grad_weight", kLoss, 1, 50 * kUs);
  ExpectNothing("dense-embedding-gradient");  // no optimizer
  Kernels("multi_tensor_apply_kernel", kStep, 2, kMs);
  // Of two milliseconds, seven times the fill's 0.2 are the rows'.
  ExpectStake("dense-embedding-gradient", 1600 * kUs);
  EXPECT_EQ(Of("dense-embedding-gradient").advice.places, (std::vector<Place>{kLoss, kStep}));
  facts_.work.back().time /= 2;  // no more than there is
  ExpectStake("dense-embedding-gradient", 1200 * kUs);
  facts_.work.front().gradient_fill_time /= 5;  // a small table
  ExpectNothing("dense-embedding-gradient");
  facts_.devices_recorded = false;
  ExpectAbstains("dense-embedding-gradient");
}

TEST_F(RulesTest, RecomputedActivations) {
  Kernels("gemm", kLoss, 4, 100 * kUs);
  ExpectNothing("recomputed-activations");
  Kernels("gemm", kLoss, 12, 100 * kUs).recomputes = true;
  Calls("cudaLaunchKernel", kLoss, 12, 0, 5 * kUs).recomputes = true;
  ExpectAbstains("recomputed-activations");  // nobody knows the memory
  Pool(30 * kGiB, 0);
  ExpectAdvice("recomputed-activations", 1200 * kUs);
  EXPECT_EQ(Of("recomputed-activations").advice.what_if.work, (std::vector<double>{1, 0}));
  EXPECT_EQ(Of("recomputed-activations").advice.what_if.host, std::vector<double>{0});
  process().memory[0].peak_live = 41 * kGiB;
  ExpectNothing("recomputed-activations");  // they may not fit
  process().memory[0].peak_live = 30 * kGiB;
  facts_.work.back().time /= 3;
  ExpectNothing("recomputed-activations");  // 4 % of a step
  facts_.devices_recorded = false;
  ExpectAbstains("recomputed-activations");
}

TEST_F(RulesTest, OddSizes) {
  for (const char* const name : {
           "cutlass_80_simt_sgemm_128x256_8x4_nt_align1",           // not on tensor cores
           "cutlass_80_tensorop_s1688gemm_128x128_16x4_tn_align4",  // of four bytes each
           "cutlass_80_tensorop_bf16_s16816gemm_bf16_128x256_32x3_tn_align8",
       }) {
    Kernels(name, kStep, 1, kMs);
  }
  ExpectNothing("odd-sizes");
  Kernels("cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align2", kLoss, 1, 400 * kUs);
  ExpectNothing("odd-sizes");
  Kernels("cutlass_75_tensorop_f16_s1688gemm_f16_64x64_tn_align1", kLoss, 1, 200 * kUs);
  ExpectStake("odd-sizes", 600 * kUs);
  EXPECT_EQ(Of("odd-sizes").advice.places, std::vector<Place>{kLoss});
}

TEST_F(RulesTest, IdleSms) {
  Pool(10 * kGiB, 0);
  device().times.kernels = static_cast<int64_t>(kSteps) * 8 * kMs;
  ExpectNothing("idle-sms");
  device().sm_efficiency = 0.25;
  Kernels("small_kernel", kLoss, 1, kMs);
  Kernels("smaller_kernel", kStep, 1, kUs);
  Kernels("of_another_device", kUpload, 1, 2 * kMs).device = 1;
  ExpectStake("idle-sms", 6 * kMs);
  EXPECT_EQ(Of("idle-sms").advice.places, (std::vector<Place>{kLoss, kStep}));
  // It is about the device that the report's first line names: kernels beside each other make none of another.
  report::DeviceReport second = device();
  second.device = 1;
  second.kernel_time *= 2;
  second.times.kernels /= 2;
  second.sm_efficiency = 0.9;
  process().devices.push_back(second);
  ExpectStake("idle-sms", 6 * kMs);
  process().memory[0].peak = 60 * kGiB;
  ExpectNothing("idle-sms");
  device().sm_efficiency.reset();
  ExpectAbstains("idle-sms");
}

TEST_F(RulesTest, CudnnHeuristics) {
  const char* const name = "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64";
  Kernels(name, kStep, 2, kMs / 10);
  ExpectNothing("cudnn-heuristics");  // 2 % of a step
  Kernels(name, kStep, 2, kMs);
  ExpectAbstains("cudnn-heuristics");  // nothing is uploaded
  CallGroup& upload = Calls("cudaMemcpyAsync", kUpload, 1, 8 * kMiB, kUs);
  ExpectAbstains("cudnn-heuristics");  // a copy on the device is no upload
  EXPECT_NE(Of("cudnn-heuristics").why.find("uploads"), std::string::npos);
  Upload(8 * kMiB, kUs);
  ExpectAbstains("cudnn-heuristics");  // nobody knows what was tried at first
  facts_.convolutions.begin_recorded = true;
  facts_.convolutions.tried = 2;
  ExpectStake("cudnn-heuristics", 2200 * kUs);
  EXPECT_EQ(Of("cudnn-heuristics").advice.places, std::vector<Place>{kStep});
  EXPECT_EQ(Of("cudnn-heuristics").advice.confidence, Confidence::kLow);
  facts_.convolutions.tried = 3;
  ExpectNothing("cudnn-heuristics");
  facts_.convolutions.tried = 0;
  upload.least = 4 * kMiB;  // shapes change
  ExpectNothing("cudnn-heuristics");
}

TEST_F(RulesTest, WhatIsAConvolution) {
  EXPECT_TRUE(IsConvolution("implicit_convolve_sgemm"));
  EXPECT_TRUE(IsConvolution("sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32"));
  EXPECT_TRUE(IsConvolution("cudnn_winograd_3x3"));
  EXPECT_TRUE(IsConvolution("ImplicitGemmConvolution_Conv2dWgradOptimized"));
  EXPECT_FALSE(IsConvolution("conv_depthwise2d_forward_kernel"));
  EXPECT_FALSE(IsConvolution("cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26"));
  EXPECT_FALSE(IsConvolution("convert_kernel"));
  EXPECT_FALSE(IsConvolution("ampere_sgemm_128x64_tn"));
  EXPECT_FALSE(IsConvolution(""));
}

}  // namespace
}  // namespace slipstream::advise
