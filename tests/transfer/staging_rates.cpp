// How fast the host alone is at what a copy through staging memory asks of it: the bound on such copies that no DMA is
// to blame for.
//
//   staging_rates [Google Benchmark's options]
//
// stage   from pageable memory that was just written into a few slots that are used again and again, as a copy to the
//         device is, by the engine's own threads
// refill  from such slots into memory that has its pages, as a copy to the host is
// fill    the same into memory that was never touched and may have huge pages
// make    the pages of such memory alone
//
// Each as NAME/MiB:S/threads:N/idle_ms:I/streaming:A, where S is 4, 16, 64 and 256, N 1 and as many as the engine takes
// (half of the processors, 8 at most), I for how long all threads sleep before each copy, the workers besides the time
// in which the caller writes the source, and A whether non-temporal stores write. Counters: p50_ns of a copy, and bytes
// a ns by that. Threads are started, and one copy is made, before any is timed. No CUDA. Exit status: 0, 1 where bytes
// were wrong.
#include <benchmark/benchmark.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "cuda/clock.h"
#include "transfer/copy_workers.h"
#include "transfer/host_pages.h"
#include "transfer/pieces.h"
#include "transfer/ring.h"

namespace {

using slipstream::cuda::NowNs;
using slipstream::transfer::AskForHugePages;
using slipstream::transfer::CopyJob;
using slipstream::transfer::CopyWorkers;
using slipstream::transfer::kPiecesAhead;
using slipstream::transfer::PieceBytesOf;
using slipstream::transfer::PieceWork;
using slipstream::transfer::Ring;
using slipstream::transfer::Stores;

constexpr int64_t kSizes[] = {4, 16, 64, 256};  // MiB
constexpr int64_t kIdleMs[] = {0, 10};
constexpr size_t kMiB = size_t{1} << 20;
constexpr int kMostThreads = 8;
constexpr int kCopies = 9;

int ProcessorsOfProcess() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

int MostThreads() { return std::min(std::max(1, ProcessorsOfProcess() / 2), kMostThreads); }

size_t BytesOf(const benchmark::State& state) { return static_cast<size_t>(state.range(0)) * kMiB; }
int ThreadsOf(const benchmark::State& state) { return static_cast<int>(state.range(1)); }
Stores StoresOf(const benchmark::State& state) { return state.range(3) != 0 ? Stores::kStreaming : Stores::kCached; }
void Idle(const benchmark::State& state) { std::this_thread::sleep_for(std::chrono::milliseconds(state.range(2))); }

// Fresh memory, of which no page is there.
class Fresh {
 public:
  explicit Fresh(size_t bytes)
      : bytes_(bytes),
        memory_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (memory_ == MAP_FAILED) {
      std::perror("staging_rates: mmap");
      std::exit(1);
    }
  }
  ~Fresh() { munmap(memory_, bytes_); }
  Fresh(const Fresh&) = delete;
  Fresh& operator=(const Fresh&) = delete;
  char* data() const { return static_cast<char*>(memory_); }

 private:
  const size_t bytes_;
  void* const memory_;
};

// Never destroyed: its threads go on until the process is gone.
CopyWorkers& WorkersFor(int threads) {
  static CopyWorkers* const none = new CopyWorkers;
  static CopyWorkers* const all = [] {
    auto* const workers = new CopyWorkers;
    workers->Start(MostThreads() - 1);
    return workers;
  }();
  return threads == 1 ? *none : *all;
}

// A place for every piece that may be on its way, as the engine would have them, and pieces of a slot's bytes at most.
void Copy(PieceWork work, Stores stores, char* memory, size_t bytes, int threads, const std::vector<char>& slots) {
  const size_t piece = work == PieceWork::kIn ? PieceBytesOf(bytes) : slipstream::policy::FetchedPieceBytesOf(bytes);
  const auto ahead = kPiecesAhead * static_cast<uint32_t>(threads);
  CopyJob job(work, stores, memory, bytes, piece, ahead);
  const size_t places = slots.size() / piece;
  const auto place = [&](uint32_t number, bool) { return const_cast<char*>(slots.data()) + number % places * piece; };
  WorkersFor(threads).Run(job, threads == 1, place, [](uint32_t, uint32_t) { return true; });
}

void Check(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "staging_rates: wrong bytes after %s\n", what);
  std::exit(1);
}

std::vector<char> SlotsFor(int threads) {
  return std::vector<char>((static_cast<size_t>(threads) * kPiecesAhead + 2) * Ring::kSlotBytes, 'x');
}

// The times of a benchmark's copies. Some other process's turn makes one of them long: the median is what counts.
class Times {
 public:
  explicit Times(benchmark::State* state) : state_(*state) {}
  void Add(uint64_t ns) {
    times_.push_back(static_cast<double>(ns));
    state_.SetIterationTime(times_.back() * 1e-9);
  }
  void Report(size_t bytes) {
    if (times_.empty()) return;
    std::sort(times_.begin(), times_.end());
    state_.counters["p50_ns"] = times_[times_.size() / 2];
    state_.counters["p50_GBps"] = static_cast<double>(bytes) / times_[times_.size() / 2];
  }

 private:
  benchmark::State& state_;
  std::vector<double> times_;
};

void Stage(benchmark::State& state) {
  const size_t bytes = BytesOf(state);
  const int threads = ThreadsOf(state);
  std::vector<char> slots = SlotsFor(threads);
  std::vector<char> source(bytes);
  Times times(&state);
  char value = 0;
  Copy(PieceWork::kIn, StoresOf(state), source.data(), bytes, threads, slots);
  while (state.KeepRunning()) {
    std::memset(source.data(), ++value, bytes);
    Idle(state);
    const uint64_t start = NowNs();
    Copy(PieceWork::kIn, StoresOf(state), source.data(), bytes, threads, slots);
    times.Add(NowNs() - start);
  }
  Check(slots[0] == value, "stage");
  times.Report(bytes);
}

void Refill(benchmark::State& state) {
  const size_t bytes = BytesOf(state);
  const int threads = ThreadsOf(state);
  const std::vector<char> slots = SlotsFor(threads);
  std::vector<char> memory(bytes);
  Times times(&state);
  while (state.KeepRunning()) {
    memory[0] = memory[bytes - 1] = '\0';
    Idle(state);
    const uint64_t start = NowNs();
    Copy(PieceWork::kFill, StoresOf(state), memory.data(), bytes, threads, slots);
    times.Add(NowNs() - start);
    Check(memory[0] == 'x' && memory[bytes - 1] == 'x', "refill");
  }
  times.Report(bytes);
}

void FillFresh(benchmark::State& state, PieceWork work) {
  const size_t bytes = BytesOf(state);
  const int threads = ThreadsOf(state);
  std::vector<char> slots = SlotsFor(threads);
  Times times(&state);
  while (state.KeepRunning()) {
    const Fresh memory(bytes);
    Idle(state);
    const uint64_t start = NowNs();
    AskForHugePages(memory.data(), bytes);
    Copy(work, StoresOf(state), memory.data(), bytes, threads, slots);
    times.Add(NowNs() - start);
    const char expected = work == PieceWork::kFill ? 'x' : '\0';
    Check(memory.data()[0] == expected && memory.data()[bytes - 1] == expected, "fill");
  }
  times.Report(bytes);
}

void Fill(benchmark::State& state) { FillFresh(state, PieceWork::kFill); }
void Make(benchmark::State& state) { FillFresh(state, PieceWork::kTouch); }

void Every(benchmark::internal::Benchmark* benchmark, const std::vector<int64_t>& ways) {
  benchmark->ArgNames({"MiB", "threads", "idle_ms", "streaming"})
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond)
      ->Iterations(kCopies);
  const int most = MostThreads();
  for (const int threads : most == 1 ? std::vector<int>{1} : std::vector<int>{1, most}) {
    for (const int64_t mib : kSizes) {
      for (const int64_t idle_ms : kIdleMs) {
        for (const int64_t way : ways) benchmark->Args({mib, threads, idle_ms, way});
      }
    }
  }
}

void BothWays(benchmark::internal::Benchmark* benchmark) { Every(benchmark, {0, 1}); }
void OneWay(benchmark::internal::Benchmark* benchmark) { Every(benchmark, {0}); }

BENCHMARK(Stage)->Name("stage")->Apply(BothWays);
BENCHMARK(Refill)->Name("refill")->Apply(BothWays);
BENCHMARK(Fill)->Name("fill")->Apply(BothWays);
BENCHMARK(Make)->Name("make")->Apply(OneWay);

}  // namespace

BENCHMARK_MAIN();
