#include "tools/dev/bench/replay_turns.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "tools/dev/bench/device_program.h"
#include "tools/dev/bench/driver_memory.h"

namespace bench {
namespace {

constexpr size_t kTouched = size_t{64} << 10;

// As NVML knows it, or "".
std::string BusId(int device) {
  // The runtime that does nothing, to which the benchmarks are linked, has no such function.
  auto* const get = reinterpret_cast<decltype(&cudaDeviceGetPCIBusId)>(dlsym(RTLD_DEFAULT, "cudaDeviceGetPCIBusId"));
  char text[32] = "";
  return get != nullptr && get(text, sizeof text, device) == cudaSuccess ? text : "";
}

// How far a block is that one thread allocates and another frees.
enum BlockState : uint8_t { kNotYet, kAllocated, kNever };

// What the players of a replay share.
struct Stage {
  const AllocationTrace& trace;
  const ReplayCalls& calls;
  const ReplayOptions& options;
  std::vector<int> ordinals{};          // of the trace's devices, here
  std::vector<cudaStream_t> streams{};  // of the trace's
  std::vector<LivePeak> peaks{};
  std::vector<DriverMemory> driver{};
  std::vector<std::optional<uint64_t>> used_at_peak{};
  std::vector<uint64_t> live_at_peak{};

  std::vector<void*> memory{};  // of the trace's blocks; null: not live
  std::vector<std::atomic<uint8_t>> states{};
  std::vector<std::atomic<uint64_t>> live{};  // with threads; of the trace's devices
  std::vector<std::atomic<uint64_t>> peak_live{};
  LiveRanges ranges{};

  std::atomic<bool> stopped{false};
  std::mutex mutex{};
  std::optional<ReplayFailure> failure{};

  void Fail(cudaError_t error, const std::string& what) {
    const std::scoped_lock lock(mutex);
    stopped.store(true);
    if (failure) return;
    const std::string number = std::to_string(static_cast<int>(error));
    failure = {error == cudaErrorMemoryAllocation, what + ": CUDA error " + number};
  }
};

struct TurnKind {
  uint32_t number = 0;
  bool timed = false;
  bool sampled = false;  // the driver's memory is asked for at the peaks
};

// Plays the lines of one recorded thread, or of all.
class Player {
 public:
  Player(Stage* stage, std::optional<uint32_t> thread) : stage_(stage), thread_(thread) {}
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;
  ~Player() {
    for (const cudaEvent_t event : events_) {
      if (event != nullptr) cudaEventDestroy(event);
    }
  }

  bool Prepare();
  void Play(const TurnKind& turn);
  // What the trace never frees; behind all players' lines.
  void FreeRest(const TurnKind& turn);
  void CompareAll();
  // Every call of this thread is on this device from now on.
  bool SetDevice(uint32_t device);

  // Where it begins.
  uint32_t FirstDevice() const;
  const std::vector<std::unique_ptr<BlockCheck>>& checks() const { return checks_; }
  std::vector<double>& allocate_ns() { return allocate_ns_; }
  std::vector<double>& free_ns() { return free_ns_; }
  void ForgetDevice() { device_ = kNoDevice; }

 private:
  static constexpr uint32_t kNoDevice = UINT32_MAX;

  bool Ok(cudaError_t result, const char* what, const TraceBlock* block = nullptr);
  bool Mine(const TraceLine& line) const { return !thread_ || line.thread == *thread_; }
  bool Allocate(const TraceLine& line, const TurnKind& turn);
  bool Free(uint32_t place, uint32_t stream, const TurnKind& turn, bool timed);
  bool Order(uint32_t first, uint32_t second);
  void CountLive(const TraceBlock& block);
  void Step(size_t at, const TurnKind& turn);

  Stage* stage_;
  std::optional<uint32_t> thread_;
  uint32_t device_ = kNoDevice;
  std::vector<cudaEvent_t> events_{};  // of the trace's devices
  std::vector<double> allocate_ns_{};
  std::vector<double> free_ns_{};
  std::vector<std::unique_ptr<BlockCheck>> checks_{};  // of the trace's devices, where all is checked
};

bool Player::Ok(cudaError_t result, const char* what, const TraceBlock* block) {
  if (result == cudaSuccess) return true;
  const std::string of =
      block == nullptr ? "" : " of block " + std::to_string(block->id) + ", " + std::to_string(block->bytes) + " bytes";
  stage_->Fail(result, what + of);
  cudaGetLastError();
  return false;
}

uint32_t Player::FirstDevice() const {
  for (const TraceLine& line : stage_->trace.lines) {
    if (Mine(line)) return line.device;
  }
  return 0;
}

bool Player::Prepare() {
  const AllocationTrace& trace = stage_->trace;
  size_t allocations = 0;
  size_t frees = 0;
  for (const TraceLine& line : trace.lines) {
    if (!Mine(line)) continue;
    if (line.call == TraceCall::kAllocate) ++allocations;
    if (line.call == TraceCall::kFree) ++frees;
  }
  // Or a list would grow between two calls.
  allocate_ns_.reserve(allocations * stage_->options.turns);
  free_ns_.reserve(frees * stage_->options.turns);
  events_.resize(trace.devices.size());
  for (uint32_t device = 0; device < trace.devices.size(); ++device) {
    if (!SetDevice(device) ||
        !Ok(cudaEventCreateWithFlags(&events_[device], cudaEventDisableTiming), "cudaEventCreateWithFlags")) {
      return false;
    }
    if (!stage_->options.check) continue;
    checks_.push_back(std::make_unique<BlockCheck>());
    if (!Ok(checks_.back()->Prepare(), "memory for the check")) return false;
  }
  return true;
}

bool Player::SetDevice(uint32_t device) {
  if (device == device_) return true;
  if (!Ok(cudaSetDevice(stage_->ordinals[device]), "cudaSetDevice")) return false;
  device_ = device;
  return true;
}

// What is put on the second stream from now on runs behind the work of the first.
bool Player::Order(uint32_t first, uint32_t second) {
  const uint32_t device = stage_->trace.streams[first].device;
  return SetDevice(device) && Ok(cudaEventRecord(events_[device], stage_->streams[first]), "cudaEventRecord") &&
         Ok(cudaStreamWaitEvent(stage_->streams[second], events_[device], 0), "cudaStreamWaitEvent");
}

void Player::CountLive(const TraceBlock& block) {
  if (!stage_->options.threads) return;
  const uint64_t live = stage_->live[block.device].fetch_add(block.bytes) + block.bytes;
  std::atomic<uint64_t>& peak = stage_->peak_live[block.device];
  uint64_t most = peak.load();
  while (most < live && !peak.compare_exchange_weak(most, live)) {
  }
}

bool Player::Allocate(const TraceLine& line, const TurnKind& turn) {
  const TraceBlock& block = stage_->trace.blocks[line.block];
  if (block.bytes == 0) return true;
  if (!SetDevice(line.device)) return false;
  const int ordinal = stage_->ordinals[line.device];
  const cudaStream_t stream = stage_->streams[line.stream];
  void* memory = nullptr;
  const auto start = Clock::now();
  const cudaError_t result = stage_->calls.allocate(ordinal, &memory, block.bytes, stream);
  const auto end = Clock::now();
  if (!Ok(result, "allocation", &block)) return false;
  if (turn.timed) allocate_ns_.push_back(Nanoseconds(end - start));
  stage_->memory[line.block] = memory;
  CountLive(block);
  if (stage_->options.check) {
    if (const uint64_t other = stage_->ranges.Add(memory, block.bytes, block.id); other != 0) {
      checks_[line.device]->Overlaps(block.id, other, turn.number);
    }
    return Ok(checks_[line.device]->Fill(memory, block.bytes, block.id, turn.number, stream), "cudaMemsetAsync",
              &block);
  }
  return !stage_->options.touch ||
         Ok(cudaMemsetAsync(memory, 0, std::min<size_t>(block.bytes, kTouched), stream), "cudaMemsetAsync", &block);
}

bool Player::Free(uint32_t place, uint32_t stream, const TurnKind& turn, bool timed) {
  const TraceBlock& block = stage_->trace.blocks[place];
  void* const memory = stage_->memory[place];
  if (memory == nullptr) return true;
  // The program had its own way to order the two, which is not in the trace.
  if (stream != block.stream && !Order(block.stream, stream)) return false;
  const uint32_t device = stage_->trace.streams[stream].device;
  if (!SetDevice(device)) return false;
  if (stage_->options.check) {
    if (!Ok(checks_[device]->SetAside(memory, block.bytes, block.id, turn.number, stage_->streams[stream]),
            "cudaMemcpyAsync", &block)) {
      return false;
    }
    stage_->ranges.Remove(memory);
  }
  if (stage_->options.threads) stage_->live[block.device].fetch_sub(block.bytes);
  stage_->memory[place] = nullptr;
  const auto start = Clock::now();
  const cudaError_t result = stage_->calls.free(stage_->ordinals[device], memory, block.bytes, stage_->streams[stream]);
  const auto end = Clock::now();
  if (!Ok(result, "free", &block)) return false;
  if (timed) free_ns_.push_back(Nanoseconds(end - start));
  return true;
}

void Player::Step(size_t at, const TurnKind& turn) {
  const TraceLine& line = stage_->trace.lines[at];
  const bool stopped = stage_->stopped.load(std::memory_order_relaxed);
  switch (line.call) {
    case TraceCall::kAllocate: {
      const bool good = !stopped && Allocate(line, turn);
      if (stage_->options.threads && stage_->trace.blocks[line.block].freed_elsewhere) {
        std::atomic<uint8_t>& state = stage_->states[line.block];
        state.store(good ? kAllocated : kNever, std::memory_order_release);
        state.notify_all();
      }
      if (good && turn.sampled && stage_->peaks[line.device].line == at) {
        stage_->live_at_peak[line.device] =
            stage_->options.threads ? stage_->live[line.device].load() : stage_->peaks[line.device].bytes;
        stage_->used_at_peak[line.device] = stage_->driver[line.device].UsedBytes();
      }
      break;
    }
    case TraceCall::kFree:
      if (stage_->options.threads && stage_->trace.blocks[line.block].freed_elsewhere) {
        // Every player comes to all of its lines, even when one has failed.
        stage_->states[line.block].wait(kNotYet, std::memory_order_acquire);
        if (stage_->states[line.block].load(std::memory_order_acquire) == kNever) break;
      }
      if (!stopped) Free(line.block, line.stream, turn, turn.timed);
      break;
    case TraceCall::kStreamWait:
      if (!stopped && SetDevice(line.device)) {
        Ok(cudaStreamSynchronize(stage_->streams[line.stream]), "cudaStreamSynchronize");
      }
      break;
    case TraceCall::kDeviceWait:
      if (!stopped && SetDevice(line.device)) Ok(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      break;
  }
}

void Player::Play(const TurnKind& turn) {
  for (size_t at = 0; at < stage_->trace.lines.size(); ++at) {
    if (Mine(stage_->trace.lines[at])) Step(at, turn);
  }
}

void Player::FreeRest(const TurnKind& turn) {
  for (uint32_t place = 0; place < stage_->memory.size(); ++place) {
    if (stage_->memory[place] != nullptr) Free(place, stage_->trace.blocks[place].stream, turn, false);
  }
}

void Player::CompareAll() {
  for (uint32_t device = 0; device < checks_.size(); ++device) {
    if (!SetDevice(device) || !Ok(checks_[device]->Compare(), "comparing")) return;
  }
}

class Performance {
 public:
  Performance(const AllocationTrace& trace, const ReplayCalls& calls, const ReplayOptions& options)
      : options_(options), stage_{trace, calls, options_} {}
  Performance(const Performance&) = delete;
  Performance& operator=(const Performance&) = delete;
  ~Performance() {
    players_.clear();
    for (const cudaStream_t stream : stage_.streams) {
      if (stream != nullptr) cudaStreamDestroy(stream);
    }
  }

  ReplayResult Run();

 private:
  bool Prepare();
  void Turn(const TurnKind& turn);
  Clock::time_point PlayAlone(const TurnKind& turn);
  Clock::time_point PlayTogether(const TurnKind& turn);
  bool WaitForDevices();
  ReplayResult Result();

  ReplayOptions options_;
  Stage stage_;
  std::vector<std::unique_ptr<Player>> players_{};
  std::vector<double> turn_seconds_{};
  std::vector<std::optional<uint64_t>> used_before_{};
};

bool Performance::Prepare() {
  const AllocationTrace& trace = stage_.trace;
  const size_t devices = trace.devices.size();
  for (const uint64_t device : trace.devices) {
    stage_.ordinals.push_back(options_.device.value_or(static_cast<int>(device)));
  }
  for (const int device : stage_.ordinals) {
    const cudaError_t result = cudaSetDevice(device);
    if (result != cudaSuccess) {
      stage_.Fail(result, "device " + std::to_string(device) +
                              " is not here; --device N plays the trace of one device on another");
      return false;
    }
    if (!stage_.calls.prepare(device)) {
      stage_.Fail(cudaErrorNotSupported, std::string("the allocator ") + stage_.calls.name + " cannot be set up");
      return false;
    }
  }
  for (const TraceStream& recorded : trace.streams) {
    cudaStream_t stream = nullptr;
    cudaError_t result = cudaSetDevice(stage_.ordinals[recorded.device]);
    if (result == cudaSuccess && recorded.number != 0)
      result = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    stage_.streams.push_back(stream);
    if (result != cudaSuccess) {
      stage_.Fail(result, "cudaStreamCreateWithFlags");
      return false;
    }
  }
  stage_.peaks = LivePeaks(trace);
  stage_.memory.resize(trace.blocks.size());
  stage_.states = std::vector<std::atomic<uint8_t>>(options_.threads ? trace.blocks.size() : 0);
  stage_.live = std::vector<std::atomic<uint64_t>>(devices);
  stage_.peak_live = std::vector<std::atomic<uint64_t>>(devices);
  stage_.used_at_peak.resize(devices);
  stage_.live_at_peak.resize(devices);
  for (uint32_t thread = 0; thread < (options_.threads ? trace.threads.size() : 1); ++thread) {
    players_.push_back(
        std::make_unique<Player>(&stage_, options_.threads ? std::optional<uint32_t>(thread) : std::nullopt));
    if (!players_.back()->Prepare()) return false;
  }
  for (const int device : stage_.ordinals) {
    stage_.driver.emplace_back(BusId(device));
    used_before_.push_back(stage_.driver.back().UsedBytes());
  }
  return true;
}

// Both return when the first line began.
Clock::time_point Performance::PlayAlone(const TurnKind& turn) {
  const auto start = Clock::now();
  players_[0]->Play(turn);
  return start;
}

Clock::time_point Performance::PlayTogether(const TurnKind& turn) {
  Clock::time_point start;
  std::barrier ready(static_cast<std::ptrdiff_t>(players_.size()), [&start]() noexcept { start = Clock::now(); });
  std::vector<std::thread> threads;
  threads.reserve(players_.size());
  try {
    for (const std::unique_ptr<Player>& player : players_) {
      threads.emplace_back([&ready, &turn, &player] {
        // A new thread has no current device yet.
        player->ForgetDevice();
        player->SetDevice(player->FirstDevice());
        ready.arrive_and_wait();
        player->Play(turn);
        player->ForgetDevice();
      });
    }
  } catch (const std::system_error& error) {
    stage_.Fail(cudaErrorUnknown, std::string("a host thread could not be started (") + error.what() + ")");
    // Those that are there pass their lines by. Whoever waits for a block of the others is told.
    for (size_t i = threads.size(); i < players_.size(); ++i) ready.arrive_and_drop();
    for (size_t i = threads.size(); i < players_.size(); ++i) players_[i]->Play(turn);
  }
  for (std::thread& thread : threads) thread.join();
  return start;
}

bool Performance::WaitForDevices() {
  for (const int device : stage_.ordinals) {
    cudaError_t result = cudaSetDevice(device);
    if (result == cudaSuccess) result = cudaDeviceSynchronize();
    if (result == cudaSuccess) continue;
    stage_.Fail(result, "cudaDeviceSynchronize");
    return false;
  }
  return true;
}

void Performance::Turn(const TurnKind& turn) {
  for (std::atomic<uint8_t>& state : stage_.states) state.store(kNotYet, std::memory_order_relaxed);
  const auto start = options_.threads ? PlayTogether(turn) : PlayAlone(turn);
  const bool done = WaitForDevices();
  const auto end = Clock::now();
  if (turn.timed && done && !stage_.stopped.load()) turn_seconds_.push_back(Nanoseconds(end - start) * 1e-9);
  // Also when a call has failed: the memory of the others is given back.
  players_[0]->ForgetDevice();
  players_[0]->FreeRest(turn);
  for (const std::unique_ptr<Player>& player : players_) player->CompareAll();
  for (const std::unique_ptr<Player>& player : players_) player->ForgetDevice();
  WaitForDevices();
}

ReplayResult Performance::Run() {
  if (Prepare()) {
    // One more, in which the driver is asked: an answer takes longer than many calls.
    const uint32_t turns = options_.warm_up + options_.turns + 1;
    for (uint32_t turn = 0; turn < turns && !stage_.stopped.load(); ++turn) {
      Turn({.number = turn, .timed = turn >= options_.warm_up && turn + 1 < turns, .sampled = turn + 1 == turns});
    }
  }
  return Result();
}

ReplayResult Performance::Result() {
  ReplayResult result;
  result.failure = stage_.failure;
  result.turn_seconds = std::move(turn_seconds_);
  for (const std::unique_ptr<Player>& player : players_) {
    result.allocate_ns.insert(result.allocate_ns.end(), player->allocate_ns().begin(), player->allocate_ns().end());
    result.free_ns.insert(result.free_ns.end(), player->free_ns().begin(), player->free_ns().end());
    for (const std::unique_ptr<BlockCheck>& one : player->checks()) {
      const CheckResult& check = one->result();
      result.check.blocks += check.blocks;
      result.check.bytes += check.bytes;
      result.check.overlapping += check.overlapping;
      result.check.wrong += check.wrong;
      if (result.check.first.empty()) result.check.first = check.first;
    }
  }
  for (size_t device = 0; device < stage_.peak_live.size() && device < stage_.driver.size(); ++device) {
    ReplayedDevice played{.ordinal = stage_.ordinals[device]};
    played.peak_live = options_.threads ? stage_.peak_live[device].load() : stage_.peaks[device].bytes;
    played.reserved = stage_.calls.reserved(played.ordinal);
    played.driver_used_before = used_before_[device];
    played.driver_used_at_peak = stage_.used_at_peak[device];
    played.live_at_peak = stage_.live_at_peak[device];
    result.devices.push_back(played);
  }
  return result;
}

}  // namespace

ReplayResult Replay(const AllocationTrace& trace, const ReplayCalls& calls, const ReplayOptions& options) {
  Performance performance(trace, calls, options);
  return performance.Run();
}

}  // namespace bench
