#include "allocator/pinned_pool.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <utility>

#include "allocator/clock.h"
#include "allocator/host_memory.h"
#include "allocator/numa.h"

namespace slipstream::allocator {

PinnedPool::PinnedPool(const policy::Allocator& policy, const Surroundings& surroundings, int threads,
                       CountDecision count)
    : policy_(policy),
      surroundings_(surroundings),
      threads_(threads),
      count_(count),
      trimmer_(surroundings, "slipstream-unpin", std::chrono::milliseconds(policy.decay * 1000) / 4,
               {.pool = this,
                .trim = [](void* self) { static_cast<PinnedPool*>(self)->Trim(); },
                .idle = [](void* self) { return static_cast<PinnedPool*>(self)->idle_bytes_.load() != 0; }}) {}

// ---- allocations

// 0: the driver gives none, or the memory is nobody's.
unsigned long long PinnedPool::IdOf(const char* address) const {
  unsigned long long id = 0;
  const CUresult result =
      driver_.cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, reinterpret_cast<CUdeviceptr>(address));
  return result == CUDA_SUCCESS ? id : 0;
}

// Whether everything that was submitted before the block's free has run.
bool PinnedPool::Passed(PinnedBlock* block, bool* broken) {
  if (block->passed || Broken(Mutant::kS42)) return true;
  const Fences::State state = block->fences.Ask(contexts_);
  *broken = state == Fences::State::kBroken;
  block->passed = state == Fences::State::kPassed;
  return block->passed;
}

// The newest that is known to have passed, so that what is not needed grows old; else the oldest: behind it nothing has
// passed.
PinnedBlock* PinnedPool::TakeIdle(size_t bytes, const PinnedKey& key) {
  const size_t most = LargestFor(bytes);
  const size_t last = SizeClassOf(most);
  const std::lock_guard lock(mutex_);
  for (size_t index = SizeClassOf(bytes); index <= last; ++index) {
    std::vector<PinnedBlock*>& list = idle_[index];
    size_t found = list.size();
    for (size_t i = 0; i < list.size(); ++i) {
      PinnedKey its = list[i]->key;
      if (Broken(Mutant::kS42Flags)) its.flags = key.flags;
      if (list[i]->bytes < bytes || list[i]->bytes > most || !(its == key)) continue;
      if (found == list.size() || list[i]->passed) found = i;
    }
    if (found == list.size()) continue;
    PinnedBlock* const block = list[found];
    list.erase(list.begin() + static_cast<ptrdiff_t>(found));
    block->state = PinnedState::kTaken;
    idle_bytes_.fetch_sub(block->bytes, std::memory_order_relaxed);
    return block;
  }
  return nullptr;
}

// False: no memory for the list. A block that was idle before stays out of it for good then.
bool PinnedPool::PutIdle(PinnedBlock* block, bool newest) {
  const std::lock_guard lock(mutex_);
  std::vector<PinnedBlock*>& list = idle_[SizeClassOf(block->bytes)];
  try {
    list.insert(newest ? list.end() : list.begin(), block);
  } catch (...) {
    return false;
  }
  block->state = PinnedState::kIdle;
  idle_bytes_.fetch_add(block->bytes, std::memory_order_seq_cst);
  return true;
}

// An idle block may have been released by somebody who does not come through here, and its address be another
// allocation's by now.
bool PinnedPool::IsWhatItWas(const PinnedBlock& block) const {
  if (block.id != 0) return IdOf(block.address) == block.id;
  unsigned type = 0;
  return driver_.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                       reinterpret_cast<CUdeviceptr>(block.address)) == CUDA_SUCCESS &&
         type == CU_MEMORYTYPE_HOST;
}

PinnedPool::Found PinnedPool::Find(size_t bytes, const PinnedKey& key) {
  Found found;
  while (PinnedBlock* const block = TakeIdle(bytes, key)) {
    if (!Passed(block, &found.broken)) {
      (void)PutIdle(block, false);
      found.pending = true;
      return found;
    }
    if (IsWhatItWas(*block)) {
      found.block = block;
      return found;
    }
    Forget(block);
  }
  return found;
}

// What is known of the address is out of date: the system does not give out one address twice. Null: no memory.
PinnedBlock* PinnedPool::Insert(const PinnedBlock& block) {
  try {
    auto made = std::make_unique<PinnedBlock>(block);
    const std::lock_guard lock(mutex_);
    PinnedBlock*& place = blocks_[block.address];
    // One that is idle or taken stays until somebody finds that it is not what it was.
    if (place != nullptr && place->state == PinnedState::kLive) delete place;
    place = made.release();
    return place;
  } catch (...) {
    return nullptr;
  }
}

// Registered memory must be all that an allocation is: reached by every device, at the address that the host uses.
bool PinnedPool::MayMake(size_t bytes, unsigned flags) {
  if (policy_.pinned_fill_from == 0 || bytes < policy_.pinned_fill_from) return false;
  if ((flags & cudaHostAllocWriteCombined) != 0) return false;
  int may = may_register_.load(std::memory_order_relaxed);
  if (may < 0) {
    may = 1;
    for (CUdevice device = 0; device < contexts_.device_count(); ++device) {
      const auto has = [this, device](CUdevice_attribute attribute) {
        int value = 0;
        return driver_.cuDeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS && value != 0;
      };
      // By the host's page tables nothing is pinned by registering it.
      if (!has(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED) ||
          !has(CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM) ||
          has(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES)) {
        may = 0;
      }
    }
    may_register_.store(may, std::memory_order_relaxed);
  }
  return may == 1 && bytes <= AvailableHostMemory() / 2;
}

// An allocation is reached by every context and by kernels, whatever its flags (cuda.h, unified addressing): so is
// this.
PinnedBlock* PinnedPool::Make(size_t bytes, const PinnedKey& key) {
  char* const memory = MapFilledHost(bytes, threads_, surroundings_.start_thread);
  if (memory == nullptr) return nullptr;
  const InContext in(driver_, key.context);
  if (driver_.cuMemHostRegister(memory, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP) !=
      CUDA_SUCCESS) {
    UnmapHost(memory, bytes);
    return nullptr;
  }
  PinnedBlock block;
  block.address = memory;
  block.bytes = bytes;
  block.key = key;
  block.id = IdOf(memory);
  block.registered = true;
  if (PinnedBlock* const made = Insert(block)) return made;
  if (driver_.cuMemHostUnregister(memory) == CUDA_SUCCESS) UnmapHost(memory, bytes);
  return nullptr;
}

// While memory is idle here, the driver is asked by us: an error of the program's own call would stay its last error
// even where a second call succeeds with what was idle (S36).
PinnedBlock* PinnedPool::AllocateHere(size_t bytes, const PinnedKey& key) {
  const InContext in(driver_, key.context);
  void* memory = nullptr;
  if (driver_.cuMemHostAlloc(&memory, bytes, key.flags) != CUDA_SUCCESS) return nullptr;
  PinnedBlock block;
  block.address = static_cast<char*>(memory);
  block.bytes = bytes;
  block.key = key;
  block.id = IdOf(block.address);
  if (PinnedBlock* const made = block.id != 0 ? Insert(block) : nullptr) return made;
  driver_.cuMemFreeHost(memory);
  return nullptr;
}

void* PinnedPool::HandOut(PinnedBlock* block, Decision how) {
  Count(how, block->bytes);
  char* const address = block->address;
  const std::lock_guard lock(mutex_);
  block->state = PinnedState::kLive;  // from here on the program may free it
  return address;
}

void* PinnedPool::Take(size_t bytes, unsigned flags) {
  if (!Alive() || !contexts_.Find()) return nullptr;
  CUdevice device = 0;
  PinnedKey key;
  key.context = contexts_.Current(&device);
  key.flags = flags;
  key.node = CurrentNode();
  if (key.context == nullptr || contexts_.others()) {
    Count(Decision::kPassedContext, bytes);
    return nullptr;
  }
  Found found;
  if (!surroundings_.WithoutCapture([&] { found = Find(bytes, key); })) {
    Count(Decision::kPassedCapture, bytes);
    return nullptr;
  }
  if (found.block != nullptr) return HandOut(found.block, Decision::kPinnedReused);
  if (found.broken) return nullptr;  // the program's call finds out
  try {
    PinnedBlock* const block = MayMake(bytes, flags) ? Make(bytes, key) : nullptr;
    if (block != nullptr) return HandOut(block, Decision::kPinnedMade);
  } catch (...) {
    // No memory to find out whether there is memory: the program's call.
  }
  const Decision passed = found.pending ? Decision::kPinnedPending : Decision::kPinnedPassed;
  if (idle_bytes_.load(std::memory_order_relaxed) != 0) {
    PinnedBlock* const block = AllocateHere(bytes, key);
    if (block != nullptr) return HandOut(block, passed);
    ReclaimAll();
    Count(Decision::kRetried, bytes);
  }
  Count(passed, bytes);
  return nullptr;
}

// The program's own call has succeeded: its memory may come back to us.
void PinnedPool::Adopt(void* address, size_t bytes, unsigned flags) {
  if (!Alive() || !contexts_.Find()) return;
  CUdevice device = 0;
  PinnedBlock block;
  block.key.context = contexts_.Current(&device);
  if (block.key.context == nullptr) return;
  block.address = static_cast<char*>(address);
  block.bytes = bytes;
  block.key.flags = flags;
  block.key.node = CurrentNode();
  block.id = IdOf(block.address);
  block.state = PinnedState::kLive;
  if (block.id != 0) (void)Insert(block);
}

// ---- frees

bool PinnedPool::WaitForDevice() {
  Contexts::Set contexts;
  if (!contexts_.Active(-1, nullptr, &contexts)) return false;
  for (size_t i = 0; i < contexts.count; ++i) {
    const InContext in(driver_, contexts.entries[i].context);
    if (driver_.cuCtxSynchronize() != CUDA_SUCCESS) return false;
  }
  return true;
}

bool PinnedPool::Fence(PinnedBlock* block) {
  Contexts::Set contexts;
  if (!contexts_.Active(-1, nullptr, &contexts)) return false;
  if (Broken(Mutant::kS42Contexts)) {
    CUdevice device = 0;
    const CUcontext current = contexts_.Current(&device);
    contexts.count = 0;
    contexts.Add(current, device);
  }
  if (block->fences.empty()) {
    const std::lock_guard lock(mutex_);
    if (!spare_fences_.empty()) {
      block->fences = std::move(spare_fences_.back());
      spare_fences_.pop_back();
    }
  }
  if (!block->fences.Record(contexts_, contexts)) return false;
  block->passed = false;
  return true;
}

// kPinnedParked: no reason not to.
Decision PinnedPool::WhyNotPark(size_t bytes, bool device_address_taken) {
  if (device_address_taken && !Broken(Mutant::kS42Mapped)) return Decision::kPinnedFreedMapped;
  if (!surroundings_.WithoutCapture([] {})) return Decision::kFreedCapture;
  if (idle_bytes_.load(std::memory_order_relaxed) + bytes > policy_.max_idle_pinned && !Broken(Mutant::kS36Cap)) {
    return Decision::kPinnedFreedCap;
  }
  if (!trimmer_.Start()) return Decision::kFreedThread;
  // S30b: a free that waits for the device is leaned on by programs that look at host memory next.
  if (Broken(Mutant::kS30b)) return Decision::kPinnedParked;
  if (policy_.free_synchronizes) return WaitForDevice() ? Decision::kPinnedParked : Decision::kFreedContext;
  return surroundings_.wait_for_host_effects(nullptr) ? Decision::kPinnedParked : Decision::kFreedHostEffect;
}

PinnedPool::Freed PinnedPool::Park(char* address) {
  if (!contexts_.there()) return Freed::kNot;
  if (!Alive()) return FreeWhileExiting(address);
  PinnedBlock* block = nullptr;
  bool device_address_taken = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(address);
    if (found != blocks_.end()) {
      block = found->second;
      if (block->state != PinnedState::kLive) return Broken(Mutant::kS34) ? Freed::kDone : Freed::kTwice;
      block->state = PinnedState::kTaken;
      device_address_taken = block->device_address_taken;
    }
  }
  if (block == nullptr) {
    Count(Decision::kFreedForeign, 0);
    return Freed::kNot;
  }
  const size_t bytes = block->bytes;
  Decision decision = WhyNotPark(bytes, device_address_taken);
  if (decision == Decision::kPinnedParked) {
    bool fenced = false;
    const bool no_capture = surroundings_.WithoutCapture([&] { fenced = Fence(block); });
    if (!no_capture)
      decision = Decision::kFreedCapture;
    else if (!fenced)
      decision = Decision::kFreedContext;
  }
  if (decision == Decision::kPinnedParked) {
    block->idle_since_ns = CoarseNowNs();
    if (!PutIdle(block, true)) decision = Decision::kPinnedFreedCap;
  }
  Count(decision, bytes);
  if (decision == Decision::kPinnedParked) {
    trimmer_.MemoryIsIdle();
    return Freed::kDone;
  }
  if (block->registered) {
    if (ReleaseRegistered(block, UnderCapture::kAsTheProgram)) return Freed::kDone;
    // The driver refuses, and says why when the program's call asks: it is still the program's.
    const std::lock_guard lock(mutex_);
    block->state = PinnedState::kLive;
    return Freed::kNot;
  }
  Forget(block);  // first: the system may give the address out again at once
  return Freed::kNot;
}

// The driver would refuse to free what it did not allocate; nobody needs it back any more.
PinnedPool::Freed PinnedPool::FreeWhileExiting(char* address) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return Freed::kNot;
  const auto found = blocks_.find(address);
  if (found == blocks_.end() || !found->second->registered || found->second->state != PinnedState::kLive) {
    return Freed::kNot;
  }
  found->second->state = PinnedState::kTaken;
  return Freed::kDone;
}

// ---- questions and facts

void PinnedPool::TakesDeviceAddress(const void* address) {
  if (!Alive() || !contexts_.there()) return;
  const auto* const inside = static_cast<const char*>(address);
  const std::lock_guard lock(mutex_);
  auto next = blocks_.upper_bound(inside);
  if (next == blocks_.begin()) return;
  PinnedBlock& block = *std::prev(next)->second;
  if (static_cast<size_t>(inside - block.address) < block.bytes) block.device_address_taken = true;
}

void* PinnedPool::LikeAllocation(void* address, bool anywhere_inside) {
  if (!Alive() || !contexts_.there()) return nullptr;
  const auto* const inside = static_cast<const char*>(address);
  PinnedKey key;
  {
    const std::lock_guard lock(mutex_);
    auto next = blocks_.upper_bound(inside);
    if (next == blocks_.begin()) return nullptr;
    const PinnedBlock& block = *std::prev(next)->second;
    const auto offset = static_cast<size_t>(inside - block.address);
    if (!block.registered || offset >= block.bytes || (offset != 0 && !anywhere_inside)) return nullptr;
    key = block.key;
    if (void* const like = like_[key.flags & cudaHostAllocPortable]) return like;
  }
  const InContext in(driver_, key.context);
  void* page = nullptr;
  if (driver_.cuMemHostAlloc(&page, 1, key.flags) != CUDA_SUCCESS) return nullptr;
  const std::lock_guard lock(mutex_);
  void*& like = like_[key.flags & cudaHostAllocPortable];
  if (like == nullptr) like = page;  // else another thread was faster, and the page stays unused
  return like;
}

void PinnedPool::Stop() {
  stopped_.store(true, std::memory_order_seq_cst);
  trimmer_.Stop();
}

}  // namespace slipstream::allocator
