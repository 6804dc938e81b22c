// What a hook costs: calls through the dynamic linker into a libcudart whose functions return at once
//   (bench/null; another libcudart.so.13 named by LD_LIBRARY_PATH takes its place). Run it bare and under the
//   preload and compare; hook_cost.py does.

#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace {

void PeekAtLastError(benchmark::State& state) {
  while (state.KeepRunning()) benchmark::DoNotOptimize(cudaPeekAtLastError());
}

void EventQuery(benchmark::State& state) {
  cudaEvent_t event = nullptr;
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  while (state.KeepRunning()) benchmark::DoNotOptimize(cudaEventQuery(event));
  cudaEventDestroy(event);
}

// Five arguments, and a row with bytes and direction. Zero bytes: nothing moves in a real runtime either.
void MemcpyAsync(benchmark::State& state) {
  char host[16] = {};
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(cudaMemcpyAsync(host, host, 0, cudaMemcpyHostToHost, nullptr));
  }
}

}  // namespace

BENCHMARK(PeekAtLastError)->ThreadRange(1, 16)->UseRealTime();
BENCHMARK(EventQuery)->UseRealTime();
BENCHMARK(MemcpyAsync)->ThreadRange(1, 16)->UseRealTime();

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  // Another libcudart in the process, as torchvision brings one.
  const char* const second = std::getenv("HOOK_COST_SECOND_RUNTIME");
  if (second != nullptr && dlopen(second, RTLD_NOW | RTLD_LOCAL) == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
