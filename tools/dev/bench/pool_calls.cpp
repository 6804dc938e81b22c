// What a pair of an allocation and its free costs (T7): cudaMalloc and cudaFree of 2 MiB to 1 GiB, and the
// stream-ordered cudaMallocAsync and cudaFreeAsync beside them.
//
//   pool_calls [--pairs N] [--piece BYTES] [Google Benchmark's options]
//
// malloc/idle/SIZE/threads:N   the device has nothing to do; N threads at once
// malloc/behind/SIZE           a copy of BYTES (default 2 GiB) is put on a stream before every pair, and is pending
// then async/...                    the same with the stream-ordered calls, whose pool keeps what is freed
//
// Every pair is timed by itself. Counters of a benchmark: p50_ns and p99_ns of a pair (means over the threads), and
// pairs. The two clock readings are in them: "clock_ns" in the context says how much that is. Run it bare, under the
// library, and under the library with the pool; tests/gpu/suite/allocator.py does.
// Runs with whatever libcudart.so.13 LD_LIBRARY_PATH has; the one it is linked to does nothing, and is refused.
// Exit status: 0, 1 a CUDA call failed or the device was idle where it should not have been, 2 wrong usage or no
// runtime.
#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "tools/dev/bench/device_program.h"

namespace {

using bench::Clock;
using bench::kMiB;
using bench::kSizes;
using bench::Size;

// A pool that hands out only what the device is done with needs a few blocks until one always is.
constexpr size_t kWarmUp = 64;
// Pairs between two synchronizations, where work is pending.
constexpr size_t kBatch = 16;

struct Options {
  size_t pairs = 500;
  size_t piece = 2048 * kMiB;
};

Options options;
std::atomic<bool> failed{false};

bool Ok(benchmark::State& state, cudaError_t result, const char* call) {
  if (result == cudaSuccess) return true;
  failed.store(true);
  std::fprintf(stderr, "pool_calls: %s: error %d\n", call, static_cast<int>(result));
  state.SkipWithError(call);
  return false;
}
#define OK(call) Ok(state, call, #call)

struct Malloc {
  static cudaError_t Allocate(void** memory, size_t bytes, cudaStream_t) { return cudaMalloc(memory, bytes); }
  static cudaError_t Free(void* memory, cudaStream_t) { return cudaFree(memory); }
};
struct Async {
  static cudaError_t Allocate(void** memory, size_t bytes, cudaStream_t stream) {
    return cudaMallocAsync(memory, bytes, stream);
  }
  static cudaError_t Free(void* memory, cudaStream_t stream) { return cudaFreeAsync(memory, stream); }
};

// One pair; its time in ns, or less than 0 when a call failed.
template <typename Calls>
double Pair(benchmark::State& state, size_t bytes, cudaStream_t stream) {
  void* memory = nullptr;
  const auto start = Clock::now();
  const cudaError_t allocated = Calls::Allocate(&memory, bytes, stream);
  const cudaError_t freed = allocated == cudaSuccess ? Calls::Free(memory, stream) : cudaSuccess;
  const auto end = Clock::now();
  if (!Ok(state, allocated, "allocation") || !Ok(state, freed, "free")) return -1;
  return bench::Nanoseconds(end - start);
}

void Report(benchmark::State& state, std::vector<double>& pairs) {
  if (pairs.empty()) return;
  const auto mean = benchmark::Counter::kAvgThreads;
  state.counters["p50_ns"] = benchmark::Counter(bench::Percentile(pairs, 0.50), mean);
  state.counters["p99_ns"] = benchmark::Counter(bench::Percentile(pairs, 0.99), mean);
  state.counters["pairs"] = benchmark::Counter(static_cast<double>(pairs.size()), mean);
}

template <typename Calls>
void Idle(benchmark::State& state, size_t bytes) {
  std::vector<double> pairs;
  cudaStream_t stream = nullptr;
  bool good = OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (size_t i = 0; good && i < std::min(kWarmUp, options.pairs); ++i) good = Pair<Calls>(state, bytes, stream) >= 0;
  // Every thread comes to this loop, or the others would wait for it.
  while (state.KeepRunning()) {
    const double ns = Pair<Calls>(state, bytes, stream);
    if (ns < 0) break;
    state.SetIterationTime(ns * 1e-9);
    pairs.push_back(ns);
  }
  Report(state, pairs);
  if (stream != nullptr) cudaStreamDestroy(stream);
}

template <typename Calls>
void Behind(benchmark::State& state, size_t bytes) {
  cudaStream_t stream = nullptr;
  void* from = nullptr;
  void* to = nullptr;
  if (!OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)) || !OK(cudaMalloc(&from, options.piece)) ||
      !OK(cudaMalloc(&to, options.piece))) {
    return;
  }
  std::vector<double> pairs;
  int idle = 0;
  const auto pair = [&] {
    if (!OK(cudaMemcpyAsync(to, from, options.piece, cudaMemcpyDeviceToDevice, stream))) return -1.0;
    if (cudaStreamQuery(stream) == cudaSuccess) ++idle;
    return Pair<Calls>(state, bytes, stream);
  };
  bool good = true;
  for (size_t i = 0; good && i < kBatch; ++i) good = pair() >= 0;
  good = good && OK(cudaDeviceSynchronize());
  while (state.KeepRunning()) {
    const double ns = pair();
    if (ns < 0) break;
    state.SetIterationTime(ns * 1e-9);
    pairs.push_back(ns);
    if (pairs.size() % kBatch == 0 && !OK(cudaDeviceSynchronize())) break;
  }
  if (idle > 0 && !failed.load()) {
    failed.store(true);
    std::fprintf(stderr, "pool_calls: %d of %zu times no work was pending\n", idle, pairs.size());
    state.SkipWithError("no work was pending");
  }
  Report(state, pairs);
  cudaDeviceSynchronize();
  cudaFree(from);
  cudaFree(to);
  cudaStreamDestroy(stream);
}

template <typename Calls>
void Register(const std::string& name) {
  for (const Size& size : kSizes) {
    const size_t bytes = size.bytes;
    benchmark::RegisterBenchmark((name + "/idle/" + size.name).c_str(),
                                 [bytes](benchmark::State& state) { Idle<Calls>(state, bytes); })
        ->Iterations(static_cast<int64_t>(options.pairs))
        ->ThreadRange(1, 16)
        ->UseManualTime();
    // Not many: each adds work for the device.
    benchmark::RegisterBenchmark((name + "/behind/" + size.name).c_str(),
                                 [bytes](benchmark::State& state) { Behind<Calls>(state, bytes); })
        ->Iterations(static_cast<int64_t>(std::min(options.pairs, 4 * kBatch)))
        ->UseManualTime();
  }
}

// False: calls succeed and nothing happens, as in the runtime of bench/null.
bool RuntimeIsReal() {
  void* memory = nullptr;
  if (cudaMalloc(&memory, 2 * kMiB) != cudaSuccess || memory == nullptr) return false;
  cudaMemPool_t pool = nullptr;
  uint64_t everything = UINT64_MAX;
  // Or a stream-ordered free would give the memory back at every synchronization.
  return cudaFree(memory) == cudaSuccess && cudaDeviceGetDefaultMemPool(&pool, 0) == cudaSuccess &&
         cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &everything) == cudaSuccess;
}

}  // namespace

int main(int argc, char** argv) {
  if (!bench::TakeNumber(&argc, argv, "--pairs", &options.pairs) ||
      !bench::TakeNumber(&argc, argv, "--piece", &options.piece)) {
    std::fprintf(stderr, "pool_calls: --pairs and --piece take a number of 1 or more\n");
    return 2;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  if (!RuntimeIsReal()) {
    std::fprintf(stderr, "pool_calls: no CUDA device, or a libcudart.so.13 that does nothing: set LD_LIBRARY_PATH\n");
    return 2;
  }
  benchmark::AddCustomContext("clock_ns", std::to_string(bench::ClockCost()));
  Register<Malloc>("malloc");
  Register<Async>("async");
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return failed.load() ? 1 : 0;
}
