// Replays the device allocations of a recorded run (allocation_trace.h) through one allocator, and prints as JSON what
// a call takes and how much memory it needs.
//
//   replay_allocations TRACE [--api malloc|async|rmm] [--work none|touch] [--turns N] [--warm-up N] [--threads]
//                      [--check] [--device N]
//
// --api      malloc (default): cudaMalloc and cudaFree; async: cudaMallocAsync and cudaFreeAsync, the pool keeping what
//            is freed, as PyTorch sets it; rmm: RMM's pool over cudaMalloc, where the build has it (replay_rmm.h)
// --work     touch (default): up to 64 KiB of a block are set behind its allocation, in its stream; none: nothing is
// --turns    timed turns (3), behind --warm-up others (1)
// --threads  a host thread for each recorded one; else one makes all calls, in the order of the file
// --check    every byte of a block is written at its allocation and compared at its free, both in stream order
// --device   where the trace of one device is played; by default on the device that it names
//
// A free in another stream than the allocation's is put behind that one's work, by an event: how the program itself
// ordered them is not in the trace. What the trace never frees is freed behind the last line, untimed. Times are of the
// calls alone, with two readings of the clock: "clock_ns" says how much that is. "reserved" is what the allocator says
// that it had from the driver at most, "driver_used" what NVML says of the device, with all processes. The same program
// is run bare and under the library: tools/dev/bench/replay.py does. Runs with whatever libcudart.so.13 LD_LIBRARY_PATH
// has; the one it is linked to does nothing, and is refused. Exit status: 0, 1 memory ended, a CUDA call failed or a
// check did (the JSON says which), 2 wrong usage, a trace that cannot be read, or no runtime.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tools/dev/bench/allocation_trace.h"
#include "tools/dev/bench/device_program.h"
#include "tools/dev/bench/replay_rmm.h"
#include "tools/dev/bench/replay_turns.h"

namespace {

using bench::AllocationTrace;
using bench::ReplayCalls;
using bench::ReplayOptions;
using bench::ReplayResult;

constexpr char kUsage[] =
    "usage: replay_allocations TRACE [--api malloc|async|rmm] [--work none|touch] [--turns N] [--warm-up N] "
    "[--threads] "
    "[--check] [--device N]\n";
// Each recorded thread has one of the host.
constexpr size_t kMostThreads = 512;
constexpr uint32_t kMostTurns = 100000;

cudaMemPool_t PoolOf(int device) {
  cudaMemPool_t pool = nullptr;
  return cudaDeviceGetDefaultMemPool(&pool, device) == cudaSuccess ? pool : nullptr;
}

// Or a stream-ordered free would give the memory back at every synchronization.
bool KeepWhatIsFreed(int device) {
  uint64_t everything = UINT64_MAX;
  const cudaMemPool_t pool = PoolOf(device);
  return pool != nullptr && cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &everything) == cudaSuccess;
}

std::optional<uint64_t> ReservedOfPool(int device) {
  uint64_t bytes = 0;
  const cudaMemPool_t pool = PoolOf(device);
  if (pool == nullptr || cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &bytes) != cudaSuccess) {
    return std::nullopt;
  }
  return bytes;
}

constexpr ReplayCalls kMalloc = {
    .name = "malloc",
    .allocate = [](int, void** memory, size_t bytes, cudaStream_t) { return cudaMalloc(memory, bytes); },
    .free = [](int, void* memory, size_t, cudaStream_t) { return cudaFree(memory); },
    .prepare = [](int) { return true; },
    .reserved = [](int) { return std::optional<uint64_t>(); },
};

constexpr ReplayCalls kAsync = {
    .name = "async",
    .allocate = [](int, void** memory, size_t bytes,
                   cudaStream_t stream) { return cudaMallocAsync(memory, bytes, stream); },
    .free = [](int, void* memory, size_t, cudaStream_t stream) { return cudaFreeAsync(memory, stream); },
    .prepare = KeepWhatIsFreed,
    .reserved = ReservedOfPool,
};

struct Arguments {
  std::string trace{};
  std::string api = "malloc";
  ReplayOptions options{.touch = true};
};

bool TakeInteger(const char* text, int least, int most, int* number) {
  const char* const end = text + std::strlen(text);
  const auto [last, error] = std::from_chars(text, end, *number);
  return error == std::errc() && last == end && *number >= least && *number <= most;
}

// False: `problem` says why.
bool Parse(int count, char** words, Arguments* arguments, std::string* problem) {
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    const bool has_value = i + 1 < count;
    int number = 0;
    if (word == "--threads") {
      arguments->options.threads = true;
    } else if (word == "--check") {
      arguments->options.check = true;
    } else if (word == "--api" && has_value) {
      arguments->api = words[++i];
    } else if (word == "--work" && has_value) {
      const std::string_view work = words[++i];
      if (work != "none" && work != "touch") {
        *problem = "--work is none or touch, not " + std::string(work);
        return false;
      }
      arguments->options.touch = work == "touch";
    } else if ((word == "--turns" || word == "--warm-up") && has_value) {
      if (!TakeInteger(words[++i], word == "--turns" ? 1 : 0, kMostTurns, &number)) {
        *problem = std::string(word) + " takes a number, not " + words[i];
        return false;
      }
      (word == "--turns" ? arguments->options.turns : arguments->options.warm_up) = static_cast<uint32_t>(number);
    } else if (word == "--device" && has_value) {
      if (!TakeInteger(words[++i], 0, 1024, &number)) {
        *problem = std::string("--device takes the ordinal of a device, not ") + words[i];
        return false;
      }
      arguments->options.device = number;
    } else if (word.substr(0, 1) == "-" || !arguments->trace.empty()) {
      *problem = std::string(word) + (has_value ? " is no option" : " is no option, or lacks its value");
      return false;
    } else {
      arguments->trace = word;
    }
  }
  if (arguments->trace.empty()) *problem = "no trace is named";
  return problem->empty();
}

const ReplayCalls* CallsOf(const std::string& api, std::string* problem) {
  for (const ReplayCalls* const calls : {&kMalloc, &kAsync}) {
    if (api == calls->name) return calls;
  }
  if (api != "rmm") {
    *problem = "--api is malloc, async or rmm, not " + api;
    return nullptr;
  }
  void* const library = dlopen(bench::kReplayRmmLibrary, RTLD_NOW | RTLD_LOCAL);
  auto* const get = library == nullptr
                        ? nullptr
                        : reinterpret_cast<bench::ReplayRmmFunction*>(dlsym(library, bench::kReplayRmmSymbol));
  if (get != nullptr) return get();
  *problem = std::string("RMM is not here (") + dlerror() +
             "); `pip install --target DIR librmm-cu13`, and configure the build with -DSLIPSTREAM_RMM=DIR";
  return nullptr;
}

// False: calls succeed and nothing happens, as in the runtime of bench/null.
bool RuntimeIsReal() {
  void* memory = nullptr;
  uint32_t read = 0;
  if (cudaMalloc(&memory, sizeof read) != cudaSuccess || memory == nullptr) return false;
  const bool good = cudaMemset(memory, 0x5a, sizeof read) == cudaSuccess &&
                    cudaMemcpy(&read, memory, sizeof read, cudaMemcpyDeviceToHost) == cudaSuccess;
  return cudaFree(memory) == cudaSuccess && good && read == 0x5a5a5a5a;
}

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    // What else a path may have is shown, not kept.
    quoted += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  }
  return quoted + '"';
}

std::string Number(const std::optional<uint64_t>& number) { return number ? std::to_string(*number) : "null"; }

std::string Share(uint64_t live, const std::optional<uint64_t>& had) {
  if (!had || *had == 0) return "null";
  return std::to_string(static_cast<double>(live) / static_cast<double>(*had));
}

std::string Distribution(std::vector<double>& values) {
  if (values.empty()) return "null";
  std::ostringstream out;
  out << "{\"p50\": " << bench::Percentile(values, 0.50) << ", \"p99\": " << bench::Percentile(values, 0.99)
      << ", \"max\": " << values.back() << '}';
  return out.str();
}

// What the devices' peaks add up to. Nothing where one of them is not known.
struct Peaks {
  uint64_t live = 0;
  std::optional<uint64_t> reserved = 0;
  std::optional<uint64_t> driver_used = 0;  // more than before the first turn
  uint64_t live_then = 0;                   // when the driver was asked
};

Peaks SumOf(const ReplayResult& result) {
  Peaks sum;
  if (result.devices.empty()) return {0, std::nullopt, std::nullopt, 0};
  for (const bench::ReplayedDevice& device : result.devices) {
    sum.live += device.peak_live;
    sum.live_then += device.live_at_peak;
    sum.reserved = sum.reserved && device.reserved ? std::optional(*sum.reserved + *device.reserved) : std::nullopt;
    const bool known = sum.driver_used && device.driver_used_before && device.driver_used_at_peak &&
                       *device.driver_used_at_peak >= *device.driver_used_before;
    sum.driver_used = known ? std::optional(*sum.driver_used + *device.driver_used_at_peak - *device.driver_used_before)
                            : std::nullopt;
  }
  return sum;
}

const char* StatusOf(const ReplayResult& result) {
  if (result.failure) return result.failure->out_of_memory ? "out_of_memory" : "failed";
  return result.check.overlapping + result.check.wrong != 0 ? "wrong_bytes" : "ok";
}

size_t Count(const AllocationTrace& trace, bench::TraceCall call) {
  size_t count = 0;
  for (const bench::TraceLine& line : trace.lines) count += line.call == call ? 1 : 0;
  return count;
}

void Print(const Arguments& arguments, const AllocationTrace& trace, ReplayResult& result) {
  const ReplayOptions& options = arguments.options;
  const Peaks peaks = SumOf(result);
  const size_t frees = Count(trace, bench::TraceCall::kFree);
  const size_t waits = Count(trace, bench::TraceCall::kStreamWait) + Count(trace, bench::TraceCall::kDeviceWait);
  std::ostringstream out;
  out.precision(15);
  out << "{\"program\": \"replay_allocations\", \"status\": \"" << StatusOf(result) << "\",\n"
      << " \"problem\": " << (result.failure ? Quoted(result.failure->what) : "null") << ",\n"
      << " \"trace\": " << Quoted(arguments.trace) << ", \"api\": \"" << arguments.api << "\", \"work\": \""
      << (options.check   ? "check"
          : options.touch ? "touch"
                          : "none")
      << "\",\n"
      << " \"host_threads\": " << (options.threads ? trace.threads.size() : 1)
      << ", \"recorded_threads\": " << trace.threads.size() << ", \"streams\": " << trace.streams.size() << ",\n"
      << " \"allocations\": " << trace.blocks.size() << ", \"frees\": " << frees
      << ", \"freed_at_end\": " << trace.blocks.size() - frees << ", \"waits\": " << waits << ",\n"
      << " \"clock_ns\": " << bench::ClockCost() << ", \"warm_up\": " << options.warm_up << ", \"turn_seconds\": [";
  for (size_t i = 0; i < result.turn_seconds.size(); ++i) out << (i == 0 ? "" : ", ") << result.turn_seconds[i];
  out << "],\n \"timed_allocations\": " << result.allocate_ns.size() << ", \"timed_frees\": " << result.free_ns.size()
      << ",\n"
      << " \"allocation_ns\": " << Distribution(result.allocate_ns) << ",\n"
      << " \"free_ns\": " << Distribution(result.free_ns) << ",\n"
      << " \"peak_live_bytes\": " << peaks.live << ", \"reserved_bytes\": " << Number(peaks.reserved)
      << ", \"live_of_reserved\": " << Share(peaks.live, peaks.reserved) << ",\n"
      << " \"live_at_peak_bytes\": " << peaks.live_then << ", \"driver_used_bytes\": " << Number(peaks.driver_used)
      << ", \"live_of_driver_used\": " << Share(peaks.live_then, peaks.driver_used);
  out << ",\n \"devices\": [";
  for (size_t i = 0; i < result.devices.size(); ++i) {
    const bench::ReplayedDevice& device = result.devices[i];
    out << (i == 0 ? "" : ",\n  ") << "{\"device\": " << device.ordinal << ", \"peak_live_bytes\": " << device.peak_live
        << ", \"reserved_bytes\": " << Number(device.reserved)
        << ", \"driver_used_before\": " << Number(device.driver_used_before)
        << ", \"driver_used_at_peak\": " << Number(device.driver_used_at_peak) << '}';
  }
  out << "],\n \"check\": ";
  if (options.check) {
    out << "{\"blocks\": " << result.check.blocks << ", \"bytes\": " << result.check.bytes
        << ", \"overlapping\": " << result.check.overlapping << ", \"wrong\": " << result.check.wrong
        << ", \"first\": " << (result.check.first.empty() ? "null" : Quoted(result.check.first)) << '}';
  } else {
    out << "null";
  }
  out << "}\n";
  std::fputs(out.str().c_str(), stdout);
}

int Refuse(const std::string& problem) {
  std::fprintf(stderr, "replay_allocations: %s\n", problem.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  std::string problem;
  const ReplayCalls* calls = nullptr;
  if (!Parse(argc, argv, &arguments, &problem) || (calls = CallsOf(arguments.api, &problem)) == nullptr) {
    return Refuse(problem + "\n" + kUsage);
  }
  std::ifstream file(arguments.trace);
  if (!file) return Refuse(arguments.trace + " cannot be opened (" + std::strerror(errno) + "); name another file");
  AllocationTrace trace;
  if (!bench::ReadAllocationTrace(file, arguments.trace, &trace, &problem)) return Refuse(problem);
  if (arguments.options.device && trace.devices.size() != 1) {
    return Refuse("--device is for the trace of one device; this one has " + std::to_string(trace.devices.size()));
  }
  if (arguments.options.threads && trace.threads.size() > kMostThreads) {
    return Refuse("the trace has " + std::to_string(trace.threads.size()) + " threads, and at most " +
                  std::to_string(kMostThreads) + " can be replayed as such; leave out --threads");
  }
  if (!RuntimeIsReal()) {
    return Refuse("no CUDA device, or a libcudart.so.13 that does nothing: set LD_LIBRARY_PATH");
  }
  ReplayResult result = bench::Replay(trace, *calls, arguments.options);
  Print(arguments, trace, result);
  if (result.failure) std::fprintf(stderr, "replay_allocations: %s\n", result.failure->what.c_str());
  if (!result.check.first.empty()) std::fprintf(stderr, "replay_allocations: %s\n", result.check.first.c_str());
  return std::strcmp(StatusOf(result), "ok") == 0 ? 0 : 1;
}
