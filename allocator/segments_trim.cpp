// Idle memory that goes back to the driver: because it has none left, or because nobody has wanted it for a while
// (S36, S36b).

#include <chrono>
#include <utility>

#include "allocator/segments.h"

namespace slipstream::allocator {
namespace {

uint64_t NowNs() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

}  // namespace

// The block's memory is the driver's again, or was never ours.
void Segments::Delete(Block* block) {
  if (!block->fences.empty()) {
    try {
      block->pool->GiveEvents(std::move(block->fences));
    } catch (...) {
      // A few events are not used again.
    }
  }
  blocks_.Delete(block);
}

// Releases idle blocks of before the time until `enough_bytes` are released. Returns how many bytes were.
size_t Segments::Reclaim(DevicePool& pool, uint64_t older_than_ns, size_t enough_bytes, Decision why) {
  const DevicePool::Move move(pool);
  const InContext in(driver_, pool.context());
  size_t released = 0;
  while (released < enough_bytes) {
    Block* const block = pool.TakeOlderThan(older_than_ns);
    if (block == nullptr) break;
    const CUdeviceptr address = block->address;
    const size_t bytes = block->bytes;
    const bool ours = IsWhatItWas(*block);
    Delete(block);  // first: the driver may give the address out again at once
    if (!ours) continue;
    if (driver_.cuMemFree(address) != CUDA_SUCCESS) continue;
    released += bytes;
    if (why == Decision::kTrimmed) pool.CountTrim();
    Count(why, bytes);
  }
  if (released != 0) pool.Moved(1);
  return released;
}

// After the driver gave memory: whether enough is left for those who do not come through here.
void Segments::KeepReserve(DevicePool& pool) {
  size_t free = 0;
  size_t total = 0;
  if (driver_.cuMemGetInfo(&free, &total) != CUDA_SUCCESS) return;
  pool.driver_free.store(free, std::memory_order_relaxed);
  if (free >= policy_.keep_free || pool.idle_bytes() == 0 || Broken(Mutant::kS36Reserve)) return;
  trim_now_.store(true, std::memory_order_relaxed);
  WakeTrimmer();
}

// False: the system gives no thread, so nobody would look after idle memory.
bool Segments::StartTrimmer() {
  const std::lock_guard lock(trim_mutex_);
  if (trimmer_started_.load(std::memory_order_relaxed)) return true;
  const bool started = surroundings_.start_thread("slipstream-trim", TrimMain, this);
  trimmer_started_.store(started, std::memory_order_release);
  return started;
}

// The lock is held by the trimmer and by other callers for moments only, never around a driver call.
void Segments::WakeTrimmer() {
  const std::lock_guard lock(trim_mutex_);
  trimmer_waits_.store(false, std::memory_order_seq_cst);
  trim_wanted_.notify_one();
}

// Gives back what has been idle for the policy's time, and what the driver lacks.
void Segments::Trim() {
  if (!WithoutCapture([] {})) return;  // with the next round (S37)
  const uint64_t decay_ns = static_cast<uint64_t>(policy_.decay) * 1'000'000'000;
  ForEachPool([this, decay_ns](DevicePool& pool) {
    if (pool.context() == nullptr || pool.idle_bytes() == 0) return;
    const InContext in(driver_, pool.context());
    pool.Refresh([this](Block* block) {
      bool broken = false;
      return Passed(block, &broken);
    });
    size_t free = 0;
    size_t total = 0;
    if (driver_.cuMemGetInfo(&free, &total) != CUDA_SUCCESS) return;
    const bool reserve = free < policy_.keep_free && !Broken(Mutant::kS36Reserve);
    if (reserve) Reclaim(pool, UINT64_MAX, policy_.keep_free - free, Decision::kTrimmed);
    const uint64_t now = NowNs();
    if (now > decay_ns && !Broken(Mutant::kS36Decay)) Reclaim(pool, now - decay_ns, SIZE_MAX, Decision::kTrimmed);
    if (driver_.cuMemGetInfo(&free, &total) == CUDA_SUCCESS) pool.driver_free.store(free, std::memory_order_relaxed);
    Report(pool, true);
  });
}

void* Segments::TrimMain(void* argument) {
  auto* const segments = static_cast<Segments*>(argument);
  const auto tick = std::chrono::milliseconds(segments->policy_.decay * 1000) / 4;
  std::unique_lock lock(segments->trim_mutex_);
  for (;;) {
    segments->trim_wanted_.wait_for(
        lock, tick, [segments] { return segments->trim_now_.exchange(false, std::memory_order_relaxed); });
    lock.unlock();
    segments->trimming_.store(1, std::memory_order_seq_cst);
    if (segments->Alive() && !segments->paused_.load(std::memory_order_seq_cst)) segments->Trim();
    segments->trimming_.store(0, std::memory_order_seq_cst);
    segments->trimming_.notify_all();
    lock.lock();
    // Said before looking: whoever makes a block idle after that sees it, and wakes this thread.
    segments->trimmer_waits_.store(true, std::memory_order_seq_cst);
    size_t idle = 0;
    segments->ForEachPool([&idle](const DevicePool& pool) { idle += pool.idle_bytes(); });
    if (idle != 0 && segments->Alive()) {
      segments->trimmer_waits_.store(false, std::memory_order_seq_cst);
      continue;
    }
    segments->trim_wanted_.wait(lock, [segments] { return !segments->trimmer_waits_.load(std::memory_order_seq_cst); });
  }
}

void Segments::AwaitTrimmer() {
  while (trimming_.load(std::memory_order_seq_cst) != 0) trimming_.wait(1);
}

void Segments::Stop() {
  stopped_.store(true, std::memory_order_seq_cst);
  AwaitTrimmer();  // before the driver's own exit handlers run
  ForEachPool([this](DevicePool& pool) { Report(pool, true); });
}

}  // namespace slipstream::allocator
