// What a Python stack costs: the walk, and the numbers for its frames. python_stack.py loads it and calls from so deep.

#include "tracer/python/python_stack.h"

#include <benchmark/benchmark.h>

#include <cstdio>
#include <vector>

#include "tracer/python/code_sites.h"
#include "tracer/python/program_sites.h"
#include "tracer/python/stack_tree.h"

namespace {

using slipstream::tracer::CodeSites;
using slipstream::tracer::NameOf;
using slipstream::tracer::ProgramSites;
using slipstream::tracer::PythonFrame;
using slipstream::tracer::PythonStack;
using slipstream::tracer::PythonStatus;
using slipstream::tracer::StackTree;

PythonStack* g_stack = nullptr;
CodeSites* g_sites = nullptr;
StackTree* g_stacks = nullptr;

void Walk(benchmark::State& state) {
  std::vector<PythonFrame> frames(static_cast<size_t>(state.range(0)));
  while (state.KeepRunning()) {
    if (g_stack->Walk(frames).frames != frames.size()) state.SkipWithError("the stack is not so deep");
    benchmark::DoNotOptimize(frames.data());
  }
}

// Of frames that are known, as nearly all are.
void Intern(benchmark::State& state) {
  std::vector<PythonFrame> frames(static_cast<size_t>(state.range(0)));
  if (g_stack->Walk(frames).frames != frames.size()) state.SkipWithError("the stack is not so deep");
  std::vector<uint32_t> sites(frames.size());
  while (state.KeepRunning()) {
    for (size_t i = 0; i < frames.size(); ++i) sites[i] = g_sites->Intern(frames[i]);
    benchmark::DoNotOptimize(sites.data());
  }
  if (g_sites->unknown() != 0) state.SkipWithError("a frame has no site");
}

// What a call pays to be put down to its line, and to its whole stack of 28 functions and a few more of what loads this
// library.
void Line(benchmark::State& state) {
  while (state.KeepRunning()) benchmark::DoNotOptimize(ProgramSites::Place());
}
void WholeStack(benchmark::State& state) {
  if (ProgramSites::PlaceIn(g_stacks).stack == StackTree::kNone) state.SkipWithError("there is no stack");
  while (state.KeepRunning()) benchmark::DoNotOptimize(ProgramSites::PlaceIn(g_stacks));
}

// The same where every frame is looked at for the line only.
void WalkInternChoose(benchmark::State& state) {
  std::vector<PythonFrame> frames(static_cast<size_t>(state.range(0)));
  std::vector<uint32_t> sites(frames.size());
  while (state.KeepRunning()) {
    const size_t count = g_stack->Walk(frames).frames;
    for (size_t i = 0; i < count; ++i) sites[i] = g_sites->Intern(frames[i]);
    benchmark::DoNotOptimize(g_sites->Choose(std::span(sites).first(count)));
  }
}

}  // namespace

// The innermost 8 of a stack cost what a stack of 8 costs.
BENCHMARK(Walk)->Arg(8)->Arg(28);
BENCHMARK(Intern)->Arg(8)->Arg(28);
BENCHMARK(WalkInternChoose)->Arg(8)->Arg(28);
BENCHMARK(Line);
BENCHMARK(WholeStack);

// Runs on the caller's stack. 0, or 1 where there are no stacks to measure.
extern "C" __attribute__((visibility("default"))) int RunBenchmarks(int argc, char** argv) {
  PythonStatus why = PythonStatus::kOk;
  g_stack = PythonStack::Find(&why);
  if (g_stack != nullptr) g_sites = CodeSites::Create(g_stack->layout(), {});
  g_stacks = StackTree::Create({});
  if (g_sites == nullptr || g_stacks == nullptr) {
    std::fprintf(stderr, "no Python stacks here: %s\n", NameOf(why));
    return 1;
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
