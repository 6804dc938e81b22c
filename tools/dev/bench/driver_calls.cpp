// What the driver calls cost that the pool of device memory decides by (docs/allocator.md): fences of a whole context,
// what an idle block is asked for, and memory itself.
//
//   driver_calls [--calls N] [--piece BYTES] [Google Benchmark's options]
//
// record              cuCtxRecordEvent, on a context whose work has run
// record/pending      behind work that has not: copies of BYTES (default 2 GiB) on the device
// record/new          the same, each behind a small memset that has just been put there too (not in the time)
// ask/fresh           cuEventQuery of an event that has passed, on a context that has had no work
// ask/passed          the same behind work that has run
// ask/pending         behind work that has not
// wait                cuCtxWaitEvent
// buffer_id           cuPointerGetAttribute(CU_POINTER_ATTRIBUTE_BUFFER_ID)
// memory_info         cuMemGetInfo
// allocate/SIZE, free/SIZE
// record_ask/threads:N  cuCtxRecordEvent and cuEventQuery of its own event by each of N threads at once, on an idle
//                     device: less than this no pair of pooled calls can take. The counter "ns" is a pair's mean time.
// Times are means of N calls (default 2000; 20 where memory comes and goes).
// Runs with whatever libcudart.so.13 LD_LIBRARY_PATH has and the libcuda.so.1 that it loads; the runtime that this is
// linked to does nothing, and is refused.
// Exit status: 0, 1 a call failed or the device was idle where it should not have been, 2 wrong usage or no runtime.
#include <benchmark/benchmark.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

#include "tools/dev/bench/device_program.h"

namespace {

using bench::Clock;
using bench::kMiB;
using bench::kSizes;
using bench::Size;

constexpr size_t kAllocations = 20;
// Fewer than a stream takes before a call waits for room.
constexpr size_t kBehindNewWork = 200;
// Pieces that are pending while the driver is asked: about a millisecond each on an H200.
constexpr int kPieces = 64;

struct Options {
  size_t calls = 2000;
  size_t piece = 2048 * kMiB;
};

Options options;
bool failed = false;

struct Driver {
  decltype(&cuCtxGetCurrent) ctx_get_current;
  decltype(&cuCtxRecordEvent) ctx_record_event;
  decltype(&cuCtxWaitEvent) ctx_wait_event;
  decltype(&cuEventCreate) event_create;
  decltype(&cuEventQuery) event_query;
  decltype(&cuMemAlloc) mem_alloc;
  decltype(&cuMemFree) mem_free;
  decltype(&cuMemGetInfo) mem_get_info;
  decltype(&cuPointerGetAttribute) pointer_get_attribute;

  CUcontext context = nullptr;
  CUevent event = nullptr;
};

Driver driver;

template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

// False: no device, or calls succeed and nothing happens, as in the runtime of bench/null.
bool Start() {
  void* memory = nullptr;
  if (cudaMalloc(&memory, 2 * kMiB) != cudaSuccess || memory == nullptr || cudaFree(memory) != cudaSuccess)
    return false;
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return library != nullptr && Find(library, "cuCtxGetCurrent", &driver.ctx_get_current) &&
         Find(library, "cuCtxRecordEvent", &driver.ctx_record_event) &&
         Find(library, "cuCtxWaitEvent", &driver.ctx_wait_event) &&
         Find(library, "cuEventCreate", &driver.event_create) && Find(library, "cuEventQuery", &driver.event_query) &&
         Find(library, "cuMemAlloc_v2", &driver.mem_alloc) && Find(library, "cuMemFree_v2", &driver.mem_free) &&
         Find(library, "cuMemGetInfo_v2", &driver.mem_get_info) &&
         Find(library, "cuPointerGetAttribute", &driver.pointer_get_attribute) &&
         driver.ctx_get_current(&driver.context) == CUDA_SUCCESS &&
         driver.event_create(&driver.event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS &&
         driver.ctx_record_event(driver.context, driver.event) == CUDA_SUCCESS;
}

bool Ok(benchmark::State& state, bool good, const char* what) {
  if (good) return true;
  failed = true;
  std::fprintf(stderr, "driver_calls: %s\n", what);
  state.SkipWithError(what);
  return false;
}
#define OK(good) Ok(state, good, #good)

// `call` again and again, between `before` and `after`.
void Loop(benchmark::State& state, const std::function<bool(benchmark::State&)>& before,
          const std::function<CUresult()>& call, CUresult answer, const std::function<bool(benchmark::State&)>& after) {
  const bool good = before(state);
  CUresult last = answer;
  while (state.KeepRunning()) {
    if (!good || last != answer) break;
    last = call();
  }
  if (good && after(state)) (void)Ok(state, last == answer, "a call did not answer as expected");
}

bool Nothing(benchmark::State&) { return true; }

void Register(const char* name, const std::function<bool(benchmark::State&)>& before,
              const std::function<CUresult()>& call, CUresult answer = CUDA_SUCCESS,
              const std::function<bool(benchmark::State&)>& after = Nothing) {
  benchmark::RegisterBenchmark(name, [=](benchmark::State& state) { Loop(state, before, call, answer, after); })
      ->Iterations(static_cast<int64_t>(options.calls))
      ->UseRealTime();
}

// Allocations in one benchmark, their frees in another.
void RegisterMemory(const Size& size) {
  for (const bool frees : {false, true}) {
    const std::string name = std::string(frees ? "free/" : "allocate/") + size.name;
    benchmark::RegisterBenchmark(name.c_str(),
                                 [frees, size](benchmark::State& state) {
                                   while (state.KeepRunning()) {
                                     CUdeviceptr memory = 0;
                                     const auto start = Clock::now();
                                     const CUresult allocated = driver.mem_alloc(&memory, size.bytes);
                                     const auto middle = Clock::now();
                                     if (!OK(allocated == CUDA_SUCCESS) || !OK(driver.mem_free(memory) == CUDA_SUCCESS))
                                       return;
                                     const auto time = frees ? Clock::now() - middle : middle - start;
                                     state.SetIterationTime(std::chrono::duration<double>(time).count());
                                   }
                                 })
        ->Iterations(static_cast<int64_t>(std::min(options.calls, kAllocations)))
        ->UseManualTime();
  }
}

// Copies on the device, none of which is waited for.
class Backlog {
 public:
  bool Begin(benchmark::State& state) {
    if (stream_ == nullptr && (!OK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) == cudaSuccess) ||
                               !OK(cudaMalloc(&from_, options.piece) == cudaSuccess) ||
                               !OK(cudaMalloc(&to_, options.piece) == cudaSuccess))) {
      return false;
    }
    for (int i = 0; i < kPieces; ++i) {
      if (!OK(cudaMemcpyAsync(to_, from_, options.piece, cudaMemcpyDeviceToDevice, stream_) == cudaSuccess))
        return false;
    }
    return OK(driver.ctx_record_event(driver.context, driver.event) == CUDA_SUCCESS);
  }
  // Behind all of it.
  bool Add(benchmark::State& state) { return OK(cudaMemsetAsync(to_, 0, 4, stream_) == cudaSuccess); }
  static bool Run(benchmark::State& state) {
    return OK(cudaDeviceSynchronize() == cudaSuccess) && OK(cudaEventSynchronize(driver.event) == cudaSuccess);
  }

 private:
  cudaStream_t stream_ = nullptr;
  void* from_ = nullptr;
  void* to_ = nullptr;
};

Backlog backlog;

// Threads meet in the driver: what that costs them.
void RegisterRecordAndAsk() {
  benchmark::RegisterBenchmark(
      "record_ask",
      [](benchmark::State& state) {
        CUevent event = nullptr;
        bool good = OK(cudaSetDevice(0) == cudaSuccess) &&
                    OK(driver.event_create(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
        Clock::duration all{};
        // Every thread comes to this loop, or the others would wait for it.
        while (state.KeepRunning()) {
          const auto start = Clock::now();
          good = good && OK(driver.ctx_record_event(driver.context, event) == CUDA_SUCCESS);
          const CUresult answer = driver.event_query(event);  // an event of another thread's work may be behind
          good = good && OK(answer == CUDA_SUCCESS || answer == CUDA_ERROR_NOT_READY);
          all += Clock::now() - start;
          if (!good) break;
        }
        const double pairs = static_cast<double>(std::max<int64_t>(1, state.iterations()));
        state.counters["ns"] = benchmark::Counter(std::chrono::duration<double, std::nano>(all).count() / pairs,
                                                  benchmark::Counter::kAvgThreads);
      })
      ->Iterations(static_cast<int64_t>(options.calls))
      ->ThreadRange(1, 16)
      ->UseRealTime();
}

void RegisterRecordBehindNewWork() {
  benchmark::RegisterBenchmark("record/new",
                               [](benchmark::State& state) {
                                 bool good = backlog.Begin(state);
                                 while (state.KeepRunning()) {
                                   good = good && backlog.Add(state);
                                   if (!good) break;
                                   const auto start = Clock::now();
                                   good = OK(driver.ctx_record_event(driver.context, driver.event) == CUDA_SUCCESS);
                                   const auto time = Clock::now() - start;
                                   state.SetIterationTime(std::chrono::duration<double>(time).count());
                                 }
                                 // All of them behind work that had not run, or the figure says nothing.
                                 if (good && OK(driver.event_query(driver.event) == CUDA_ERROR_NOT_READY))
                                   (void)Backlog::Run(state);
                               })
      ->Iterations(static_cast<int64_t>(std::min(options.calls, kBehindNewWork)))
      ->UseManualTime();
}

}  // namespace

int main(int argc, char** argv) {
  if (!bench::TakeNumber(&argc, argv, "--calls", &options.calls) ||
      !bench::TakeNumber(&argc, argv, "--piece", &options.piece)) {
    std::fprintf(stderr, "driver_calls: --calls and --piece take a number of 1 or more\n");
    return 2;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  if (!Start()) {
    std::fprintf(stderr, "driver_calls: no CUDA device, or a libcudart.so.13 that does nothing: set LD_LIBRARY_PATH\n");
    return 2;
  }
  static CUdeviceptr memory = 0;
  const auto record = [] { return driver.ctx_record_event(driver.context, driver.event); };
  const auto ask = [] { return driver.event_query(driver.event); };
  const auto wait = [] { return driver.ctx_wait_event(driver.context, driver.event); };
  const auto behind_work = [](benchmark::State& state) { return backlog.Begin(state) && Backlog::Run(state); };
  const auto pending = [](benchmark::State& state) { return backlog.Begin(state); };
  Register("ask/fresh", Backlog::Run, ask);  // first: no work was there
  Register("record", behind_work, record);
  Register("record/pending", pending, record, CUDA_SUCCESS, Backlog::Run);
  RegisterRecordBehindNewWork();
  Register("ask/passed", behind_work, ask);
  Register("ask/pending", pending, ask, CUDA_ERROR_NOT_READY, Backlog::Run);
  Register("wait", behind_work, wait);
  Register(
      "buffer_id", [](benchmark::State& state) { return OK(driver.mem_alloc(&memory, 2 * kMiB) == CUDA_SUCCESS); },
      [] {
        unsigned long long id = 0;
        return driver.pointer_get_attribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, memory);
      },
      CUDA_SUCCESS, [](benchmark::State& state) { return OK(driver.mem_free(memory) == CUDA_SUCCESS); });
  Register("memory_info", Nothing, [] {
    size_t free = 0;
    size_t total = 0;
    return driver.mem_get_info(&free, &total);
  });
  RegisterRecordAndAsk();
  for (const Size& size : kSizes) RegisterMemory(size);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return failed ? 1 : 0;
}
