// What a native stack costs: the walk, and the number for it, by how many functions are on it beside a few of the
// benchmark's own. The counter "frame" is the time of one frame.
//
//   native_stack [Google Benchmark's options]
//
// walk      of a stack whose functions are known, as nearly all are
// whole     that, and the number of a stack that was seen before
// changing  the same of stacks that are new to what a thread remembers of whole ones: their inner half differs
// first     of a stack none of whose functions is known yet
// unwinder  the compiler's own unwinder, which every C++ program has

#include "tracer/python/native_stack.h"

#include <benchmark/benchmark.h>
#include <unwind.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "tracer/python/native_frames.h"
#include "tracer/python/stack_tree.h"

namespace {

using slipstream::tracer::InternNativeStack;
using slipstream::tracer::kDeepestNative;
using slipstream::tracer::NativeFrames;
using slipstream::tracer::NativeMemo;
using slipstream::tracer::NativeWalk;
using slipstream::tracer::StackTree;
using slipstream::tracer::WalkNativeStack;

NativeFrames* g_frames = nullptr;
StackTree* g_stacks = nullptr;
volatile int g_left = 0;

// Each with a place of its own, as in a program: of one place the caches would be warm.
template <int kDepth, typename Call>
[[gnu::noinline]] void Below(const Call& call) {
  if constexpr (kDepth == 0) {
    call();
  } else {
    Below<kDepth - 1>(call);
  }
  g_left = g_left + kDepth;
}

using Addresses = std::array<uint32_t, kDeepestNative>;

void SayFrames(benchmark::State& state, size_t frames) {
  using benchmark::Counter;
  state.counters["frames"] = static_cast<double>(frames);
  state.counters["frame"] = Counter(static_cast<double>(frames), Counter::kIsIterationInvariantRate | Counter::kInvert);
}

template <int kDepth>
void Walk(benchmark::State& state) {
  Below<kDepth>([&] {
    Addresses addresses;
    NativeWalk walked;
    while (state.KeepRunning()) walked = WalkNativeStack(g_frames, addresses);
    if (walked.cut) state.SkipWithError("the stack could not be followed");
    SayFrames(state, walked.frames);
  });
}

template <int kDepth>
void First(benchmark::State& state) {
  Below<kDepth>([&] {
    Addresses addresses;
    NativeWalk walked;
    while (state.KeepRunning()) {
      const std::unique_ptr<NativeFrames> frames(NativeFrames::Create({}, NativeFrames::Own::kKeep));
      walked = WalkNativeStack(frames.get(), addresses);
    }
    SayFrames(state, walked.frames);
  });
}

template <int kDepth>
void Whole(benchmark::State& state) {
  Below<kDepth>([&] {
    Addresses addresses;
    NativeWalk walked;
    while (state.KeepRunning()) {
      walked = WalkNativeStack(g_frames, addresses);
      benchmark::DoNotOptimize(InternNativeStack(std::span(addresses).first(walked.frames), walked.cut, g_stacks));
    }
    SayFrames(state, walked.frames);
  });
}

// More of them than a thread remembers, each seen before.
template <int kDepth>
void Changing(benchmark::State& state) {
  Below<kDepth>([&] {
    constexpr uint32_t kStacks = 16 * NativeMemo::kStacks;
    Addresses addresses;
    NativeWalk walked;
    uint32_t stack = 0;
    while (state.KeepRunning()) {
      walked = WalkNativeStack(g_frames, addresses);
      stack = (stack + 1) % kStacks;
      for (size_t i = 0; i < walked.frames / 2; ++i) addresses[i] ^= stack << 12;
      benchmark::DoNotOptimize(InternNativeStack(std::span(addresses).first(walked.frames), walked.cut, g_stacks));
    }
    if (g_stacks->refused() != 0) state.SkipWithError("there was no room for all stacks");
    SayFrames(state, walked.frames);
  });
}

template <int kDepth>
void Unwinder(benchmark::State& state) {
  Below<kDepth>([&] {
    size_t frames = 0;
    while (state.KeepRunning()) {
      frames = 0;
      _Unwind_Backtrace(
          [](_Unwind_Context* context, void* count) {
            benchmark::DoNotOptimize(_Unwind_GetIP(context));
            ++*static_cast<size_t*>(count);
            return _URC_NO_REASON;
          },
          &frames);
    }
    SayFrames(state, frames);
  });
}

}  // namespace

BENCHMARK(Walk<5>)->Name("walk/5");
BENCHMARK(Walk<30>)->Name("walk/30");
BENCHMARK(Walk<80>)->Name("walk/80");
BENCHMARK(First<80>)->Name("first/80");
BENCHMARK(Whole<5>)->Name("whole/5");
BENCHMARK(Whole<30>)->Name("whole/30");
BENCHMARK(Whole<80>)->Name("whole/80");
BENCHMARK(Changing<30>)->Name("changing/30");
BENCHMARK(Changing<80>)->Name("changing/80");
BENCHMARK(Unwinder<30>)->Name("unwinder/30");

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  g_frames = NativeFrames::Create({}, NativeFrames::Own::kKeep);
  g_stacks = StackTree::Create({});
  if (g_frames == nullptr || g_stacks == nullptr) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
