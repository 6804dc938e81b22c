// How long the host is in a copy between its memory and the device, whose stream has nothing else to do.
//
//   copy_calls [--calls N] [--bytes N] [--one-stream 1] [Google Benchmark's options]
//
// h2d/blocking/SIZE/threads:N      cudaMemcpyAsync from pageable memory and cudaStreamSynchronize, as `.cuda()` does
// h2d/nonblocking/...              cudaMemcpyAsync from pageable memory alone
// h2d/pinned/...                   cudaMemcpyAsync from pinned memory alone: the least
// h2d/memcpy/...                   cudaMemcpy from pageable memory
// d2h/blocking/..., d2h/memcpy/... the same back, into pageable memory that was written before
// event/record/threads:N           cudaEventRecord
//
// SIZE is 4 B to 256 MiB. Each of 1, 4 and 8 threads has memory of its own, and a stream of its own unless --one-stream
// is given: then all threads share one. At most --calls (1000) of each are timed, and no more than --bytes (8 GiB) are
// copied, but for the first three. Counters of a benchmark, means over the threads: mean_ns, p50_ns and p99_ns of a
// copy, which include two clock readings ("clock_ns" in the context), and bytes a ns by the median. After each, one
// more copy is made whose bytes are looked at. Runs with whatever libcudart.so.13 LD_LIBRARY_PATH has; the one it is
// linked to does nothing, and is refused. Exit status: 0, 1 a CUDA call failed or bytes were wrong, 2 wrong usage or no
// runtime.
#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "tools/dev/bench/device_program.h"

namespace {

using bench::Clock;
using bench::kMiB;

constexpr bench::Size kCopySizes[] = {
    {4, "4B"},          {4 << 10, "4KiB"},    {64 << 10, "64KiB"},  {256 << 10, "256KiB"}, {kMiB, "1MiB"},
    {4 * kMiB, "4MiB"}, {16 * kMiB, "16MiB"}, {64 * kMiB, "64MiB"}, {256 * kMiB, "256MiB"}};
// Untimed, of each benchmark: the first ones find staging memory not there yet.
constexpr size_t kWarmUp = 16;
constexpr size_t kLeastCalls = 3;

enum class Way { kBlocking, kNonblocking, kPinned, kMemcpy, kEvent };
struct Kind {
  const char* name;
  cudaMemcpyKind direction;
  Way way;
};
constexpr Kind kKinds[] = {
    {"h2d/blocking", cudaMemcpyHostToDevice, Way::kBlocking},
    {"h2d/nonblocking", cudaMemcpyHostToDevice, Way::kNonblocking},
    {"h2d/pinned", cudaMemcpyHostToDevice, Way::kPinned},
    {"h2d/memcpy", cudaMemcpyHostToDevice, Way::kMemcpy},
    {"d2h/blocking", cudaMemcpyDeviceToHost, Way::kBlocking},
    {"d2h/memcpy", cudaMemcpyDeviceToHost, Way::kMemcpy},
};

constexpr Kind kEventRecord = {"event/record", cudaMemcpyHostToDevice, Way::kEvent};

struct Options {
  size_t calls = 1000;
  size_t bytes = 8192 * kMiB;
  size_t one_stream = 0;
};

Options options;
std::atomic<bool> failed{false};

size_t CallsOf(size_t bytes) { return std::min(options.calls, std::max(kLeastCalls, options.bytes / bytes)); }

bool Ok(benchmark::State& state, cudaError_t result, const char* call) {
  if (result == cudaSuccess) return true;
  failed.store(true);
  std::fprintf(stderr, "copy_calls: %s: error %d\n", call, static_cast<int>(result));
  state.SkipWithError(call);
  return false;
}
#define OK(call) Ok(state, call, #call)

// Differs from place to place and from thread to thread, and is never what memory that was forgotten holds.
unsigned char ByteAt(size_t place, int thread) {
  return static_cast<unsigned char>((place ^ place >> 8 ^ place >> 16) % 127 + 1 + static_cast<size_t>(thread));
}

// Of all threads; null: it could not be made.
cudaStream_t SharedStream() {
  static cudaStream_t const stream = [] {
    cudaStream_t made = nullptr;
    return cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking) == cudaSuccess ? made : nullptr;
  }();
  return stream;
}

// One thread's stream and memory.
class Copier {
 public:
  Copier(benchmark::State& state, const Kind& kind, size_t bytes) : kind_(kind), bytes_(bytes) {
    good_ = options.one_stream != 0 ? (stream_ = SharedStream()) != nullptr
                                    : OK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    good_ = good_ && OK(cudaMalloc(&device_, bytes)) && OK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    if (kind.way == Way::kPinned) {
      good_ = good_ && OK(cudaHostAlloc(&pinned_, bytes, cudaHostAllocDefault));
    } else {
      pageable_.resize(bytes);
    }
    if (good_) std::memset(host(), 0, bytes);
  }
  ~Copier() {
    if (stream_ != nullptr) cudaStreamSynchronize(stream_);
    cudaFree(device_);
    cudaFreeHost(pinned_);
    if (stream_ != nullptr && options.one_stream == 0) cudaStreamDestroy(stream_);
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  bool good() const { return good_; }

  // The calls that are timed.
  cudaError_t Copy() {
    if (kind_.way == Way::kEvent) return cudaEventRecord(event_, stream_);
    const bool to_device = kind_.direction == cudaMemcpyHostToDevice;
    void* to = to_device ? device_ : host();
    const void* from = to_device ? host() : device_;
    if (kind_.way == Way::kMemcpy) return cudaMemcpy(to, from, bytes_, kind_.direction);
    const cudaError_t result = cudaMemcpyAsync(to, from, bytes_, kind_.direction, stream_);
    return result == cudaSuccess && kind_.way == Way::kBlocking ? cudaStreamSynchronize(stream_) : result;
  }

  // ns of one copy, begun with nothing left to do on the stream; less than 0 when a call failed.
  double Time(benchmark::State& state) {
    if (!OK(cudaStreamSynchronize(stream_))) return -1;
    const auto start = Clock::now();
    const cudaError_t result = Copy();
    const auto end = Clock::now();
    return Ok(state, result, "copy") ? bench::Nanoseconds(end - start) : -1;
  }

  // One more copy, of bytes that are known.
  void Verify(benchmark::State& state) {
    if (kind_.way == Way::kEvent) return;
    const int thread = state.thread_index();
    std::vector<unsigned char> known(bytes_);
    for (size_t i = 0; i < bytes_; ++i) known[i] = ByteAt(i, thread);
    std::vector<unsigned char> arrived(bytes_);
    if (kind_.direction == cudaMemcpyHostToDevice) {
      if (!OK(cudaMemsetAsync(device_, 0, bytes_, stream_)) || !OK(cudaStreamSynchronize(stream_))) return;
      std::memcpy(host(), known.data(), bytes_);
      if (!OK(Copy())) return;
      // Pageable memory may be written again when the call is back; pinned memory the device reads by itself.
      if (kind_.way == Way::kPinned && !OK(cudaStreamSynchronize(stream_))) return;
      std::memset(host(), 0, bytes_);
      if (!OK(cudaStreamSynchronize(stream_)) ||
          !OK(cudaMemcpy(arrived.data(), device_, bytes_, cudaMemcpyDeviceToHost))) {
        return;
      }
    } else {
      if (!OK(cudaMemcpy(device_, known.data(), bytes_, cudaMemcpyHostToDevice)) || !OK(cudaDeviceSynchronize()))
        return;
      std::memset(host(), 0, bytes_);
      if (!OK(Copy())) return;
      std::memcpy(arrived.data(), host(), bytes_);
    }
    if (arrived == known) return;
    failed.store(true);
    std::fprintf(stderr, "copy_calls: %s of %zu bytes: wrong bytes\n", kind_.name, bytes_);
    state.SkipWithError("wrong bytes");
  }

 private:
  void* host() { return pinned_ != nullptr ? pinned_ : pageable_.data(); }

  const Kind& kind_;
  const size_t bytes_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t event_ = nullptr;
  void* device_ = nullptr;
  void* pinned_ = nullptr;
  std::vector<unsigned char> pageable_;
  bool good_ = false;
};

void Run(benchmark::State& state, const Kind& kind, size_t bytes) {
  Copier copier(state, kind, bytes);
  bool good = copier.good();
  for (size_t i = 0; good && i < std::min(kWarmUp, CallsOf(bytes)); ++i) good = copier.Time(state) >= 0;
  std::vector<double> times;
  // Every thread comes to this loop, or the others would wait for it.
  while (state.KeepRunning()) {
    const double ns = good ? copier.Time(state) : -1;
    if (ns < 0) break;
    state.SetIterationTime(ns * 1e-9);
    times.push_back(ns);
  }
  if (times.empty()) return;
  copier.Verify(state);
  const auto mean = benchmark::Counter::kAvgThreads;
  const double sum = std::accumulate(times.begin(), times.end(), 0.0);
  state.counters["mean_ns"] = benchmark::Counter(sum / static_cast<double>(times.size()), mean);
  const double median = bench::Percentile(times, 0.50);
  state.counters["p50_ns"] = benchmark::Counter(median, mean);
  state.counters["p99_ns"] = benchmark::Counter(bench::Percentile(times, 0.99), mean);
  state.counters["bytes_per_ns"] = benchmark::Counter(static_cast<double>(bytes) / median, mean);
}

// False: calls succeed and nothing happens, as in the runtime of bench/null.
bool RuntimeIsReal() {
  void* memory = nullptr;
  return cudaMalloc(&memory, kMiB) == cudaSuccess && memory != nullptr && cudaFree(memory) == cudaSuccess;
}

}  // namespace

int main(int argc, char** argv) {
  if (!bench::TakeNumber(&argc, argv, "--calls", &options.calls) ||
      !bench::TakeNumber(&argc, argv, "--bytes", &options.bytes) ||
      !bench::TakeNumber(&argc, argv, "--one-stream", &options.one_stream)) {
    std::fprintf(stderr, "copy_calls: --calls, --bytes and --one-stream take a number of 1 or more\n");
    return 2;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  if (!RuntimeIsReal()) {
    std::fprintf(stderr, "copy_calls: no CUDA device, or a libcudart.so.13 that does nothing: set LD_LIBRARY_PATH\n");
    return 2;
  }
  benchmark::AddCustomContext("clock_ns", std::to_string(bench::ClockCost()));
  for (const Kind& kind : kKinds) {
    for (const bench::Size& size : kCopySizes) {
      const size_t bytes = size.bytes;
      benchmark::RegisterBenchmark((std::string(kind.name) + "/" + size.name).c_str(),
                                   [&kind, bytes](benchmark::State& state) { Run(state, kind, bytes); })
          ->Iterations(static_cast<int64_t>(CallsOf(bytes)))
          ->Threads(1)
          ->Threads(4)
          ->Threads(8)
          ->UseManualTime();
    }
  }
  benchmark::RegisterBenchmark(kEventRecord.name, [](benchmark::State& state) { Run(state, kEventRecord, 4); })
      ->Iterations(static_cast<int64_t>(CallsOf(4)))
      ->Threads(1)
      ->Threads(4)
      ->Threads(8)
      ->UseManualTime();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return failed.load() ? 1 : 0;
}
