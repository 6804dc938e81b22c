// What one record costs the thread that makes it, while the writer thread runs and writes: the copy into the ring, and
// whatever the writer does to it.
//
//   record_cost [Google Benchmark's options]; the files go to a directory of its own under TMPDIR, and away again.
//
// full_speed   record after record. The writer cannot keep up on a machine with few cores, so most are dropped and
//              counted: "dropped" is the share. The real time of all threads together is what counts here.
// kept         bursts that fit the ring, and between them, untimed, as long as the writer needs: what a program pays,
//              whose calls take microseconds. Counters: p50_ns and p99_ns of a record over the bursts, "dropped" is 0.
// two_clocks   the clock readings that a call's record needs beside it.
// Exit status: 0, 1 when there could be no recorder.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tracer/base/clock.h"
#include "tracer/spool/recorder.h"

namespace {

using slipstream::tracer::NowNs;
using slipstream::tracer::Recorder;
using slipstream::tracer::RecorderOptions;
using slipstream::tracer::RecordKind;
using slipstream::tracer::SpoolFailure;
using slipstream::tracer::t_recorder_place;
using slipstream::tracer::TraceRecord;

Recorder* g_recorder = nullptr;

TraceRecord Call(uint64_t number) {
  return {.start_ns = number, .end_ns = number + 1, .bytes = 4096, .site = 7, .hook = 3, .kind = RecordKind::kCall};
}

// Whether the writer has come by all that this thread recorded.
bool IsTaken() { return t_recorder_place.ring->Available() == 0; }

uint64_t DroppedHere() { return t_recorder_place.ring != nullptr ? t_recorder_place.ring->dropped() : 0; }

void FullSpeed(benchmark::State& state) {
  uint64_t number = 0;
  g_recorder->Record(Call(0));
  const uint64_t before = DroppedHere();
  while (state.KeepRunning()) g_recorder->Record(Call(++number));
  const auto dropped = static_cast<double>(DroppedHere() - before);
  state.counters["dropped"] =
      benchmark::Counter(dropped / static_cast<double>(number), benchmark::Counter::kAvgThreads);
}

void Kept(benchmark::State& state) {
  constexpr uint64_t kBurst = 1024;  // of a ring of 4096: the writer comes by itself
  std::vector<double> bursts;
  g_recorder->Record(Call(0));
  const uint64_t before = DroppedHere();
  uint64_t number = 0;
  while (state.KeepRunning()) {
    while (!IsTaken()) std::this_thread::yield();
    const uint64_t start = NowNs();
    for (uint64_t i = 0; i < kBurst; ++i) g_recorder->Record(Call(++number));
    const auto each = static_cast<double>(NowNs() - start) / kBurst;
    state.SetIterationTime(each * 1e-9);
    bursts.push_back(each);
  }
  std::sort(bursts.begin(), bursts.end());
  const auto mean = benchmark::Counter::kAvgThreads;
  state.counters["p50_ns"] = benchmark::Counter(bursts[bursts.size() / 2], mean);
  state.counters["p99_ns"] = benchmark::Counter(bursts[bursts.size() * 99 / 100], mean);
  state.counters["dropped"] = benchmark::Counter(static_cast<double>(DroppedHere() - before), mean);
}

void TwoClocks(benchmark::State& state) {
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(NowNs());
    benchmark::DoNotOptimize(NowNs());
  }
}

void StartRecorder(const std::string& directory) {
  SpoolFailure why;
  RecorderOptions options = {.directory = directory};
  options.max_file_bytes = uint64_t{4} << 30;
  options.period_ns = 1'000'000;
  g_recorder = Recorder::Start(options, &why);
  if (g_recorder == nullptr) std::fprintf(stderr, "record_cost: no recorder: %s, %d\n", NameOf(why.problem), why.error);
}

}  // namespace

// A short while: at full speed sixteen threads make gigabytes a second, and somebody's disk has to take its share.
BENCHMARK(FullSpeed)->Name("full_speed")->Threads(1)->Threads(8)->Threads(16)->UseRealTime()->MinTime(0.02);
BENCHMARK(Kept)->Name("kept")->Threads(1)->Threads(8)->Threads(16)->UseManualTime()->Iterations(200);
BENCHMARK(TwoClocks)->Name("two_clocks");

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  std::string directory = (std::filesystem::temp_directory_path() / "slipstream-bench-XXXXXX").string();
  if (mkdtemp(directory.data()) == nullptr) return 1;
  StartRecorder(directory);
  if (g_recorder != nullptr) benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  const bool good = g_recorder != nullptr && g_recorder->recording();
  if (g_recorder != nullptr && !good)
    std::fprintf(stderr, "record_cost: the recording ended before the benchmark did\n");
  delete g_recorder;
  std::filesystem::remove_all(directory);
  return good ? 0 : 1;
}
