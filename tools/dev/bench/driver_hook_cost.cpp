// What a hook of the driver's costs: calls through the dynamic linker into a libcuda whose functions return at once
// (bench/null_driver), and by the address that dlsym gives; and what the look-ups cost. hook_cost.py --driver runs it
// bare and under the preload.
//
//   HOOK_COST_START_RUNTIME=FILE    calls this libcudart first, so that slipstream's engines are there

#include <benchmark/benchmark.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdlib>

namespace {

void* Driver() { return dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD); }

void EventQuery(benchmark::State& state) {
  while (state.KeepRunning()) benchmark::DoNotOptimize(cuEventQuery(nullptr));
}

// As a static runtime calls it.
void EventQueryLookedUp(benchmark::State& state) {
  void* const driver = Driver();
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

// Of libcuda two that are hooked, the second of them late in the table, and one that is not; one of the C library, and
// one of nobody.
void LookUp(benchmark::State& state) {
  static constexpr const char* kNames[] = {"cuEventQuery", "cuLaunchKernel", "cuGetErrorString", "malloc",
                                           "nothing_has_this_name"};
  const auto which = static_cast<size_t>(state.range(0));
  void* const library = which < 3 ? Driver() : RTLD_DEFAULT;
  state.SetLabel(kNames[which]);
  while (state.KeepRunning()) benchmark::DoNotOptimize(dlsym(library, kNames[which]));
}

void GetProcAddress(benchmark::State& state) {
  void* found = nullptr;
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(
        cuGetProcAddress_v2("cuLaunchKernel", &found, 13000, CU_GET_PROC_ADDRESS_DEFAULT, nullptr));
  }
}

bool StartRuntime(const char* path) {
  void* const runtime = dlopen(path, RTLD_NOW);
  auto* const set =
      runtime != nullptr ? reinterpret_cast<cudaError_t (*)(int)>(dlsym(runtime, "cudaSetDevice")) : nullptr;
  return set != nullptr && set(0) == cudaSuccess;
}

}  // namespace

BENCHMARK(EventQuery)->ThreadRange(1, 16)->UseRealTime();
BENCHMARK(EventQueryLookedUp)->UseRealTime();
BENCHMARK(LaunchKernel)->ThreadRange(1, 16)->UseRealTime();
BENCHMARK(MemcpyHtoDAsync)->UseRealTime();
BENCHMARK(GetProcAddress)->UseRealTime();
BENCHMARK(LookUp)->DenseRange(0, 4)->UseRealTime();

int main(int argc, char** argv) {
  const char* const runtime = std::getenv("HOOK_COST_START_RUNTIME");
  if (runtime != nullptr && !StartRuntime(runtime)) return 1;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
