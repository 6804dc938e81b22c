// How staging memory grows, and how it goes back.

#include <algorithm>
#include <utility>

#include "cuda/contexts.h"
#include "cuda/pinned_memory.h"
#include "policy/helper_thread.h"
#include "policy/log.h"
#include "policy/memory_left.h"
#include "transfer/confidential.h"
#include "transfer/engine.h"
#include "transfer/host_pages.h"

namespace slipstream::transfer {
namespace {

// Of a copy that is longer, this much is in flight at a time: its DMA keeps up with the threads that stage it.
constexpr size_t kLongestInFlight = size_t{128} << 20;
// One copy on its way, and one for each of the two synchronizations that may be deferred (S23).
constexpr size_t kCopiesInFlight = 3;

// While this lives a thread is in the driver, or about to be, and the process's exit waits for it.
class InDriver {
 public:
  explicit InDriver(std::atomic<uint32_t>& flag) : flag_(flag) { flag_.store(1, std::memory_order_seq_cst); }
  ~InDriver() { flag_.store(0, std::memory_order_seq_cst); }
  InDriver(const InDriver&) = delete;
  InDriver& operator=(const InDriver&) = delete;

 private:
  std::atomic<uint32_t>& flag_;
};

}  // namespace

bool Engine::MayBegin() {
  if (!begun_.load(std::memory_order_acquire) && !growth_failed_.load(std::memory_order_relaxed)) AskForGrowth();
  return begun_.load(std::memory_order_acquire);
}

// Called by a copy that staging memory of the present size does not serve well. Waits for nobody; where the policy says
// that memory is made at once, the calling thread makes it.
void Engine::WantStaging(size_t bytes) {
  if (growth_failed_.load(std::memory_order_relaxed)) return;
  const size_t by_policy =
      std::max(policy_.max_pinned / Ring::kSegmentBytes * Ring::kSegmentBytes, Ring::kSegmentBytes);
  const size_t most = std::min(by_policy, most_ring_.load(std::memory_order_relaxed));
  const size_t useful = RoundUp(kCopiesInFlight * std::min(bytes, kLongestInFlight), Ring::kSegmentBytes);
  const size_t wanted = std::min(useful, most);
  if (wanted <= ring_.capacity()) return;
  size_t before = wanted_bytes_.load(std::memory_order_relaxed);
  while (before < wanted && !wanted_bytes_.compare_exchange_weak(before, wanted)) {
  }

  AskForGrowth();
}

size_t Engine::SegmentFor(size_t bytes) const {
  if (bytes == 0 || device_staging_.closed() || device_staging_.TooLong(bytes)) return 0;
  const size_t most = policy::DeviceStagingBytes(policy_);
  const size_t there = device_staging_.bytes();
  const size_t wanted = RoundUp(kCopiesInFlight * bytes, DeviceStaging::kSegmentBytes);
  const bool enough = device_staging_.largest() >= bytes && there >= wanted;
  const size_t segment = std::min(wanted, most - std::min(there, most));
  return enough || segment < bytes ? 0 : segment;
}

CUdeviceptr Engine::TakeDeviceStaging(const Request& request) {
  if (request.in.context != ledger_.context()) return 0;
  if (!growth_failed_.load(std::memory_order_relaxed) && SegmentFor(request.bytes) != 0) {
    size_t before = wanted_device_bytes_.load(std::memory_order_relaxed);
    while (before < request.bytes && !wanted_device_bytes_.compare_exchange_weak(before, request.bytes)) {
    }
    AskForGrowth();
  }
  return device_staging_.Take(request.bytes);
}

// kH2dDeclinedStarting: it is not there yet.
Decision Engine::WhyNoLease(const Request& request) const {
  if (request.in.context != ledger_.context() || device_staging_.closed()) return Decision::kH2dDeclinedDevice;
  if (device_staging_.largest() >= request.bytes) return Decision::kH2dDeclinedFull;
  const bool comes = !growth_failed_.load(std::memory_order_relaxed) && SegmentFor(request.bytes) != 0;
  return comes ? Decision::kH2dDeclinedStarting : Decision::kH2dDeclinedDevice;
}

void Engine::AskForGrowth() {
  const std::unique_lock lock(grow_mutex_, std::try_to_lock);
  if (!lock) return;  // it is at work, and looks at wanted_bytes_ before it ends; else the next copy asks again
  if (policy_.start == policy::TransferStart::kNow) {
    Grow();
    return;
  }
  if (!grower_started_) {
    grower_started_ = policy::StartHelperThread("slipstream-pin", GrowMain, this);
    if (!grower_started_) growth_failed_.store(true, std::memory_order_relaxed);
  }
  grow_wanted_.notify_one();
}

bool Engine::AskToLook() {
  const std::unique_lock lock(grow_mutex_, std::try_to_lock);
  if (!lock || !grower_started_ || growth_failed_.load(std::memory_order_relaxed)) return false;
  look_wanted_ = true;
  grow_wanted_.notify_one();
  return true;
}

bool Engine::StagingIsShort() const {
  return ring_.capacity() < std::min(wanted_bytes_.load(), most_ring_.load()) ||
         SegmentFor(wanted_device_bytes_.load()) != 0 || mirrors_.AnyWanted();
}

// Whether so much more is little of what the machine and the container have left (S67).
bool Engine::MayPin(size_t bytes) const {
  if (Broken(Mutant::kS67)) return true;
  const size_t pinned = ring_.capacity() + mirrors_.pinned();
  try {
    return pinned + bytes <= policy::MostPinned(policy::MemoryLeft(), pinned, ranks_here_);
  } catch (...) {
    return false;  // there is not even enough to find out
  }
}

char* Engine::Pin(size_t bytes) {
  char* memory = nullptr;
  {
    const InDriver in_driver(growing_);
    if (Alive()) memory = cuda::PinSegment(driver_, bytes, cuda::NumaNodeOf(driver_, ledger_.device()));
  }
  // Meanwhile the program may have found that it could pin no more (S36).
  if (memory != nullptr && growth_failed_.load(std::memory_order_seq_cst)) {
    (void)cuda::UnpinSegment(driver_, memory, bytes);
    return nullptr;
  }
  return memory;
}

// Makes one piece more; false: there is enough, or no more to have. grow_mutex_ is held, for which nobody ever waits.
bool Engine::GrowStep() {
  if (growth_failed_.load(std::memory_order_relaxed) || !StagingIsShort()) return false;
  // Copies of any length go through one segment of the ring, but none without device memory.
  if (ring_.capacity() != 0 && GrowDeviceStep()) return true;
  if (ring_.capacity() >= std::min(wanted_bytes_.load(), most_ring_.load())) return GrowMirrorStep();
  constexpr size_t kBytes = Ring::kSegmentBytes;
  if (!MayPin(kBytes)) {
    most_ring_.store(ring_.capacity());
    policy::LogWarn(
        "transfer: no more memory is pinned for staging: little is left of the machine's or the container's");
    return true;
  }
  char* const memory = Pin(kBytes);
  if (memory == nullptr) {
    const bool known = growth_failed_.exchange(true, std::memory_order_relaxed);
    if (!known && Alive()) policy::LogWarn("transfer: no more memory can be pinned for staging");
    return false;
  }
  if (ring_.capacity() == 0) workers_.Start(threads_ - 1);
  ring_.Add(memory);
  return true;
}

bool Engine::GrowMirrorStep() {
  const size_t bytes = mirrors_.TakeWanted();
  if (bytes == 0) return false;
  // Staging memory is pinned in shorter pieces, for which there may be room yet.
  char* const memory = MayPin(bytes) ? Pin(bytes) : nullptr;
  if (memory == nullptr) {
    mirrors_.NoMore();
  } else {
    mirrors_.Add(memory, bytes);
  }
  return true;
}

bool Engine::GrowDeviceStep() {
  const InDriver in_driver(growing_);
  size_t wanted = wanted_device_bytes_.load();
  const size_t segment = SegmentFor(wanted);
  if (!Alive()) return false;
  if (segment != 0 && device_staging_.Grow(RoundUp(wanted, DeviceStaging::kSegmentBytes), segment)) return true;
  // There is enough for it, or it is too long: shorter ones ask for themselves.
  wanted_device_bytes_.compare_exchange_strong(wanted, 0);
  return false;
}

// An engine that has gone off still has its memory.
bool Engine::GiveBackDeviceStaging(CUdevice device) {
  if (device_staging_.bytes() == 0 || !Alive() || Broken(Mutant::kS36)) return false;
  if (device == cuda::kCurrentDevice && driver_.cuCtxGetDevice(&device) != CUDA_SUCCESS) device = ledger_.device();
  if (device != ledger_.device()) return false;
  const cuda::InContext ours(driver_, ledger_.context());
  bool any = false;
  const auto all_has_run = [&] {
    cuda::FenceRef all;
    captures_.Without([&] { all = fences_.RecordContext(ledger_.context()); });
    return all && all.Wait() == CUDA_SUCCESS;
  };
  OrTurnOff([&] { any = device_staging_.GiveBack(all_has_run); });
  if (any) Count(Decision::kGaveBack);
  return any;
}

bool Engine::GiveBackHostStaging() {
  if (!begun_.load(std::memory_order_relaxed) || !Alive() || Broken(Mutant::kS36host)) return false;
  growth_failed_.store(true, std::memory_order_seq_cst);
  const cuda::InContext ours(driver_, ledger_.context());
  bool any = false;
  OrTurnOff([&] {
    // As for the device's: without the engine the program would not have to wait here, but would have its memory.
    for (const cuda::FenceRef& fence : ring_.InFlight()) (void)fence.Wait();
    for (char* const segment : ring_.TakeIdleSegments())
      any |= cuda::UnpinSegment(driver_, segment, Ring::kSegmentBytes);
    mirrors_.GiveBack([&](char* memory, size_t bytes) { any |= cuda::UnpinSegment(driver_, memory, bytes); });
  });
  if (any) Count(Decision::kUnpinned);
  return any;
}

void Engine::AfterAllocation() {
  if (device_staging_.bytes() == 0 || !Alive()) return;
  size_t free = 0;
  size_t total = 0;
  CUdevice device = 0;
  if (driver_.cuCtxGetDevice(&device) != CUDA_SUCCESS || device != ledger_.device()) return;
  if (driver_.cuMemGetInfo(&free, &total) != CUDA_SUCCESS || !DeviceStaging::IsShort(free, total)) return;
  const cuda::InContext ours(driver_, ledger_.context());
  OrTurnOff([this] {
    if (device_staging_.GiveBackIdle()) Count(Decision::kGaveBack);
  });
}

void Engine::AddDeviceStaging(size_t* free, const size_t* total) {
  const size_t bytes = device_staging_.bytes();
  CUdevice device = 0;
  if (bytes == 0 || !Alive() || free == nullptr) return;
  if (driver_.cuCtxGetDevice(&device) != CUDA_SUCCESS || device != ledger_.device()) return;
  *free += total != nullptr ? std::min(bytes, *total - *free) : bytes;
}

void Engine::Grow() {
  const bool is_now = policy_.start == policy::TransferStart::kNow;
  const bool first = !begun_.load(std::memory_order_relaxed);
  if (first && (is_now ? confidential_ : ConfidentialComputing()) && !Broken(Mutant::kS14)) {
    growth_failed_.store(true, std::memory_order_relaxed);
    ledger_.TurnOff(cuda::Off::kNoPinning);  // S14: pinned memory is something else there
    return;
  }
  begun_.store(true, std::memory_order_release);
  // A capture that somebody else has open in global mode would be broken by the driver calls of pinning (S05).
  CUstreamCaptureMode mode =
      Broken(Mutant::kS05Growth) ? CU_STREAM_CAPTURE_MODE_GLOBAL : CU_STREAM_CAPTURE_MODE_RELAXED;
  driver_.cuThreadExchangeStreamCaptureMode(&mode);
  OrTurnOff([this] {
    while (GrowStep()) {
    }
  });
  driver_.cuThreadExchangeStreamCaptureMode(&mode);
}

void* Engine::GrowMain(void* argument) {
  auto* const engine = static_cast<Engine*>(argument);
  if (engine->driver_.cuCtxSetCurrent(engine->ledger_.context()) != CUDA_SUCCESS) {
    engine->growth_failed_.store(true, std::memory_order_relaxed);
    return nullptr;
  }
  std::unique_lock lock(engine->grow_mutex_);
  for (;;) {
    engine->Grow();
    if (engine->growth_failed_.load(std::memory_order_relaxed)) return nullptr;
    engine->grow_wanted_.wait(lock, [engine] { return engine->look_wanted_ || engine->StagingIsShort(); });
    if (std::exchange(engine->look_wanted_, false)) {
      // Not under the lock: a copy that wants more staging memory would be told that the thread is at work.
      lock.unlock();
      engine->ledger_.LookForTransports();
      lock.lock();
    }
  }
}

}  // namespace slipstream::transfer
