// Pinned memory that goes back to the system: because nobody has wanted it for a while, because the driver has none
// left, because it may not be kept, or because its device was reset.

#include <utility>

#include "allocator/clock.h"
#include "allocator/host_memory.h"
#include "allocator/pinned_pool.h"

namespace slipstream::allocator {

// The end of a taken block, whose memory is the system's again, or was never ours.
void PinnedPool::Forget(PinnedBlock* block) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(block->address);
  if (found != blocks_.end() && found->second == block) blocks_.erase(found);
  if (!block->fences.empty()) {
    try {
      spare_fences_.push_back(std::move(block->fences));
    } catch (...) {
      // A few events are not used again.
    }
  }
  delete block;
}

// Waits for the device, as a free of the driver's does (measured). False: the driver refuses, and nothing has changed.
bool PinnedPool::ReleaseRegistered(PinnedBlock* block, UnderCapture capture) {
  const InContext in(driver_, block->key.context, capture);
  const CUresult result = driver_.cuMemHostUnregister(block->address);
  // Somebody else has unregistered it; the mapping is ours all the same.
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED) return false;
  char* const address = block->address;
  const size_t bytes = block->bytes;
  Forget(block);  // first: the system may give the address out again at once
  UnmapHost(address, bytes);
  return true;
}

// The block is taken out of its list. Returns how many bytes the system got.
size_t PinnedPool::ReleaseIdle(PinnedBlock* block, Decision why) {
  const size_t bytes = block->bytes;
  char* const address = block->address;
  const InContext in(driver_, block->key.context);
  const bool ours = IsWhatItWas(*block);
  if (block->registered && ours) {
    if (!ReleaseRegistered(block, UnderCapture::kNo)) {
      Forget(block);  // and leave the memory: the device may still use it
      return 0;
    }
  } else {
    Forget(block);
    if (!ours || driver_.cuMemFreeHost(address) != CUDA_SUCCESS) return 0;
  }
  Count(why, bytes);
  return bytes;
}

PinnedBlock* PinnedPool::TakeOlderThan(uint64_t time_ns) {
  const std::lock_guard lock(mutex_);
  for (std::vector<PinnedBlock*>& list : idle_) {
    for (size_t i = 0; i < list.size(); ++i) {
      PinnedBlock* const block = list[i];
      if (block->idle_since_ns >= time_ns) continue;
      list.erase(list.begin() + static_cast<ptrdiff_t>(i));
      block->state = PinnedState::kTaken;
      idle_bytes_.fetch_sub(block->bytes, std::memory_order_relaxed);
      return block;
    }
  }
  return nullptr;
}

// S36: the system gets back what is idle here.
void PinnedPool::ReclaimAll() {
  while (PinnedBlock* const block = TakeOlderThan(UINT64_MAX)) {
    (void)ReleaseIdle(block, Decision::kReclaimed);
  }
}

// Gives back what has been idle for the policy's time. What the device may still use stays for a later round: this
// thread would wait for it inside the driver.
void PinnedPool::Trim() {
  if (!Alive() || !surroundings_.WithoutCapture([] {})) return;  // with the next round (S37)
  const uint64_t decay_ns = static_cast<uint64_t>(policy_.decay) * 1'000'000'000;
  const uint64_t now = NowNs();
  if (now <= decay_ns || Broken(Mutant::kS36Decay)) return;
  PinnedBlock* pending = nullptr;
  while (Alive() && pending == nullptr) {
    PinnedBlock* const block = TakeOlderThan(now - decay_ns);
    if (block == nullptr) return;
    bool broken = false;
    bool passed = false;
    {
      const InContext in(driver_, block->key.context);
      passed = Passed(block, &broken);
    }
    if (passed || broken) {
      (void)ReleaseIdle(block, Decision::kPinnedTrimmed);
    } else {
      pending = block;
    }
  }
  if (pending != nullptr) (void)PutIdle(pending, false);
}

// Of the current device. What is returned is in nobody's hands any more, and registered memory among it must not be
// unmapped before the device is reset. `*of` is set where there is one.
std::vector<PinnedBlock*> PinnedPool::ForgetDevice(CUdevice* of) {
  std::vector<PinnedBlock*> forgotten;
  CUdevice device = *of;
  *of = kCurrentDevice;
  if (!Alive() || !contexts_.there() || device >= contexts_.device_count()) return forgotten;
  const CUcontext context = device == kCurrentDevice ? contexts_.Current(&device) : contexts_.Known(device);
  if (context == nullptr) return forgotten;
  contexts_.BeginReset(device);
  *of = device;
  try {
    const std::lock_guard lock(mutex_);
    forgotten.reserve(blocks_.size());
    for (auto next = blocks_.begin(); next != blocks_.end();) {
      PinnedBlock* const block = next->second;
      const bool taken = block->state == PinnedState::kTaken;  // whoever has it finds that it is gone
      if (block->key.context == context) {
        if (!taken) forgotten.push_back(block);
        next = blocks_.erase(next);
        continue;
      }
      ++next;
    }
    for (std::vector<PinnedBlock*>& list : idle_) {
      std::erase_if(list, [this, context](PinnedBlock* block) {
        if (block->key.context != context) return false;
        block->state = PinnedState::kTaken;
        idle_bytes_.fetch_sub(block->bytes, std::memory_order_relaxed);
        return true;
      });
    }
    like_ = {};
  } catch (...) {
    // Out of memory before anything was changed; no block is what it was afterwards.
  }
  return forgotten;
}

void PinnedPool::DeleteAll(std::vector<PinnedBlock*>* blocks, bool unmap) {
  for (PinnedBlock* const block : *blocks) {
    if (unmap && block->registered) UnmapHost(block->address, block->bytes);
    delete block;
  }
  blocks->clear();
}

}  // namespace slipstream::allocator
