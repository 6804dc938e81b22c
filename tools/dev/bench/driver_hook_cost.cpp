// What a hook of the driver's costs: calls through the dynamic linker into a libcuda whose functions return at once
// (bench/null_driver), and by the address that dlsym gives. hook_cost.py --driver runs it bare and under the preload.

#include <benchmark/benchmark.h>
#include <cuda.h>
#include <dlfcn.h>

namespace {

void EventQuery(benchmark::State& state) {
  while (state.KeepRunning()) benchmark::DoNotOptimize(cuEventQuery(nullptr));
}

// As a static runtime calls it.
void EventQueryLookedUp(benchmark::State& state) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  auto* const query =
      driver != nullptr ? reinterpret_cast<CUresult (*)(CUevent)>(dlsym(driver, "cuEventQuery")) : nullptr;
  if (query == nullptr) {
    state.SkipWithError("no driver");
    return;
  }
  while (state.KeepRunning()) benchmark::DoNotOptimize(query(nullptr));
}

// Eleven arguments, four of them on the stack.
void LaunchKernel(benchmark::State& state) {
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  }
}

// Zero bytes: nothing moves.
void MemcpyHtoDAsync(benchmark::State& state) {
  char host[16] = {};
  while (state.KeepRunning()) benchmark::DoNotOptimize(cuMemcpyHtoDAsync(0, host, 0, nullptr));
}

}  // namespace

BENCHMARK(EventQuery)->ThreadRange(1, 16)->UseRealTime();
BENCHMARK(EventQueryLookedUp)->UseRealTime();
BENCHMARK(LaunchKernel)->ThreadRange(1, 16)->UseRealTime();
BENCHMARK(MemcpyHtoDAsync)->UseRealTime();

BENCHMARK_MAIN();
