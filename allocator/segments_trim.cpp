// Idle memory that goes back to the driver: because it has none left, or because nobody has wanted it for a while
// (S36, S36b).

#include <mutex>
#include <utility>

#include "allocator/segments.h"
#include "cuda/clock.h"

namespace slipstream::allocator {
namespace {

// How long the driver's answer, with our own changes, is good enough while there is plenty.
constexpr uint64_t kAskNs = 100'000'000;

}  // namespace

// The block's memory is the driver's again, or was never ours.
void Segments::Delete(Block* block) {
  if (!block->fences.empty()) {
    try {
      block->pool->GiveFences(std::move(block->fences));
    } catch (...) {
      // A few events are not used again.
    }
  }
  blocks_.Delete(block);
}

// Releases idle blocks of before the time until `enough_bytes` are released. Returns how many bytes were.
//
// Nothing here waits for more than the program's own free of the block would have (S73): for the work up to that free,
// and not even for that where only blocks that are known to have passed are wanted.
size_t Segments::Reclaim(DevicePool& pool, uint64_t older_than_ns, size_t enough_bytes, Decision why,
                         DevicePool::Which which) {
  const DevicePool::Move move(pool);
  const cuda::InContext in(driver_, pool.context());
  const bool trims = why == Decision::kTrimmed;
  size_t released = 0;
  while (released < enough_bytes) {
    Block* const block = pool.TakeOlderThan(older_than_ns, which);
    if (block == nullptr) break;
    const CUdeviceptr address = block->address;
    const size_t bytes = block->bytes;
    const bool ours = IsWhatItWas(*block) && (block->passed || block->fences.Wait(contexts_));
    Delete(block);  // first: the driver may give the address out again at once
    if (!ours) continue;
    // S55: no lock is held here.
    std::unique_lock<std::mutex> held;
    if (Broken(Mutant::kS55)) held = pool.LockFences();
    if (!pool.quiet_free().Free(address)) continue;
    released += TakenFromDriver(bytes);
    pool.GaveToDriver(TakenFromDriver(bytes));
    if (trims) pool.CountTrim();
    Count(why, bytes);
  }
  if (released == 0) return 0;
  pool.quiet_free().Finish();
  pool.Moved();
  return released;
}

// After the driver gave memory: whether enough is left for those who do not come through here. While there is plenty
// the driver is not asked every time: a program that builds its model allocates often, and the answer takes the driver
// some time.
void Segments::KeepReserve(DevicePool& pool) {
  const uint64_t now = cuda::NowNs();
  const bool plenty = pool.driver_free() / 2 > KeepFree(pool) + pool.total_bytes() / kShort;
  if (plenty && now - pool.asked_ns() < kAskNs) return;
  size_t free = 0;
  size_t total = 0;
  if (driver_.cuMemGetInfo(&free, &total) != CUDA_SUCCESS) return;
  pool.DriverSaid(free, now);
  if (free >= KeepFree(pool) || pool.idle_bytes() == 0 || Broken(Mutant::kS36Reserve)) return;
  trimmer_.TrimNow();
}

// Gives back what has been idle for the policy's time, and what the driver lacks.
void Segments::Trim() {
  if (!Alive() || !ledger_.WithoutCapture([] {})) return;  // with the next round (S37)
  const uint64_t decay_ns = static_cast<uint64_t>(policy_.decay) * 1'000'000'000;
  ForEachPool([this, decay_ns](DevicePool& pool) {
    if (pool.context() == nullptr || pool.idle_bytes() == 0) return;
    const cuda::InContext in(driver_, pool.context());
    pool.Refresh([this](Block* block) {
      bool broken = false;
      return Passed(block, &broken);
    });
    size_t free = 0;
    size_t total = 0;
    if (driver_.cuMemGetInfo(&free, &total) != CUDA_SUCCESS) return;
    const bool reserve = free < KeepFree(pool) && !Broken(Mutant::kS36Reserve);
    if (reserve) Reclaim(pool, UINT64_MAX, KeepFree(pool) - free, Decision::kTrimmed);
    const uint64_t now = cuda::NowNs();
    if (now > decay_ns && !Broken(Mutant::kS36Decay))
      Reclaim(pool, now - decay_ns, SIZE_MAX, Decision::kTrimmed, DevicePool::Which::kPassed);
    if (driver_.cuMemGetInfo(&free, &total) == CUDA_SUCCESS) pool.DriverSaid(free, cuda::NowNs());
    Report(pool, true);
  });
}

bool Segments::AnythingIdle() {
  size_t idle = 0;
  ForEachPool([&idle](const DevicePool& pool) { idle += pool.idle_bytes(); });
  return idle != 0;
}

void Segments::Stop() {
  stopped_.store(true, std::memory_order_seq_cst);
  trimmer_.Stop();
  ForEachPool([this](DevicePool& pool) { Report(pool, true); });
}

}  // namespace slipstream::allocator
