// What a hook costs: calls through the dynamic linker into a libcudart whose functions return at once
//   (bench/null; another libcudart.so.13 named by LD_LIBRARY_PATH takes its place). Run it bare and under the
//   preload and compare; hook_cost.py does. The same as a library, whose RunBenchmarks python_stack.py calls from deep
//   in Python, for what the program's lines cost.

#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

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

// Calls as a program makes them, in bursts with other things in between: what is recorded of them must not come faster
// than it can be written, for then it is the dropping that is measured.
void Paced(benchmark::State& state) {
  constexpr int kBurst = 256;
  char host[16] = {};
  while (state.KeepRunning()) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kBurst; ++i) {
      benchmark::DoNotOptimize(cudaMemcpyAsync(host, host, 0, cudaMemcpyHostToHost, nullptr));
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    state.SetIterationTime(took.count() / kBurst);
    std::this_thread::sleep_for(std::chrono::microseconds(250));
  }
}

}  // namespace

BENCHMARK(PeekAtLastError)->ThreadRange(1, 16)->UseRealTime();
BENCHMARK(EventQuery)->UseRealTime();
BENCHMARK(MemcpyAsync)->ThreadRange(1, 16)->UseRealTime();
BENCHMARK(Paced)->Threads(1)->Threads(4)->UseManualTime()->Iterations(400);

extern "C" [[gnu::visibility("default")]] int RunBenchmarks(int argc, char** argv) {
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

int main(int argc, char** argv) { return RunBenchmarks(argc, argv); }
