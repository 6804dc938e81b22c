#include "allocator/segments.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <utility>

#include "allocator/device_use.h"
#include "cuda/clock.h"
#include "cuda/own_work.h"

namespace slipstream::allocator {
namespace {

constexpr uint64_t kReportNs = 10'000'000;
// Every further round means that another thread has moved memory.
constexpr int kMostRounds = 64;

}  // namespace

Segments::Segments(const policy::Allocator& policy, cuda::Ledger& ledger, const Reports& reports)
    : policy_(policy),
      ledger_(ledger),
      reports_(reports),
      trimmer_("slipstream-trim", std::chrono::milliseconds(policy.decay * 1000) / 4,
               {.pool = this,
                .trim = [](void* self) { static_cast<Segments*>(self)->Trim(); },
                .idle = [](void* self) { return static_cast<Segments*>(self)->AnythingIdle(); }}) {}

// ---- contexts

DevicePool* Segments::PoolOf(CUdevice device) const { return pools_[device].load(std::memory_order_acquire); }

// Null: the calling thread has no context, or one of its own making.
DevicePool* Segments::PoolOfCurrent() {
  CUcontext context = nullptr;
  if (driver_.cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == nullptr) return nullptr;
  for (int device = 0; device < contexts_.device_count(); ++device) {
    DevicePool* const pool = PoolOf(device);
    if (pool != nullptr && pool->context() == context) return pool;
  }
  CUdevice device = 0;
  context = contexts_.Current(&device);
  if (context == nullptr) return nullptr;
  const cuda::InContext in(driver_, context);
  size_t free = 0;
  size_t total = 0;
  if (driver_.cuMemGetInfo(&free, &total) != CUDA_SUCCESS) return nullptr;
  DevicePool* pool = PoolOf(device);
  if (pool != nullptr) {
    pool->SetContext(context);  // the device was reset
    return pool;
  }
  auto* const made = new (std::nothrow) DevicePool(driver_, device, context, total);
  if (made == nullptr) return nullptr;
  made->DriverSaid(free, cuda::NowNs());
  if (pools_[device].compare_exchange_strong(pool, made, std::memory_order_acq_rel)) return made;
  delete made;
  return pool;
}

// A copy between two devices runs in the context of either, and a kernel reaches a peer's memory: every context that
// exists may have used the block. False: one cannot be told.
bool Segments::ContextsWithAccess(const DevicePool& pool, cuda::Contexts::Set* contexts) {
  const CUcontext own = pool.context();
  if (own == nullptr) return false;
  if (Broken(Mutant::kS30Access)) {
    contexts->count = 0;
    contexts->Add(own, pool.device());
    return !contexts_.others();
  }
  return contexts_.Active(pool.device(), own, contexts);
}

// ---- allocations

// A block that nobody else can use until it is freed again is a waste only where memory is short.
size_t Segments::MostFor(const DevicePool& pool, size_t bytes) const {
  if (Broken(Mutant::kS31)) return SIZE_MAX;
  const bool short_of_memory = pool.driver_free() < pool.total_bytes() / kShort;
  return short_of_memory ? bytes : LargestFor(bytes);
}

// Whether everything that was submitted before the block's free has run.
bool Segments::Passed(Block* block, bool* broken) {
  if (block->passed) return true;
  const Fences::State state = Broken(Mutant::kS30) ? Fences::State::kPassed : block->fences.Ask(contexts_);
  *broken = state == Fences::State::kBroken;
  block->passed = state == Fences::State::kPassed;
  return block->passed;
}

// An idle block may have been released by somebody who does not come through here (cuMemFree), and its address be
// another allocation's by now.
bool Segments::IsWhatItWas(const Block& block) {
  unsigned long long id = 0;
  return driver_.cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, block.address) == CUDA_SUCCESS &&
         id == block.id;
}

Segments::Found Segments::Find(DevicePool& pool, size_t bytes) {
  const DevicePool::Move move(pool);
  Found found;
  const size_t most = MostFor(pool, bytes);
  for (size_t shard = 0; shard < DevicePool::kShards && found.block == nullptr && !found.broken; ++shard) {
    FindIn(pool, shard, bytes, most, &found);
  }
  return found;
}

// Until a block will do, or is the oldest of its shard and has not passed.
void Segments::FindIn(DevicePool& pool, size_t shard, size_t bytes, size_t most, Found* found) {
  while (Block* const block = pool.Take(shard, bytes, most)) {
    if (!Passed(block, &found->broken)) {
      pool.PutBack(block);
      pool.Moved();
      ++found->pending;
      return;
    }
    if (IsWhatItWas(*block)) {
      found->block = block;
      return;
    }
    Delete(block);
  }
}

// Puts all later work of the device behind all earlier work that could have used the block, which the program may then
// use at once. Where other devices are, or a network adapter reaches memory, there is something that such a wait cannot
// hold, now or later; and work of one device must not be held behind another's, which may wait for it (S12), nor
// another thread's behind what is none of its business (S65). Null then.
Block* Segments::TakeBehind(DevicePool& pool, size_t bytes) {
  if (contexts_.device_count() != 1 || ledger_.ReachedFromOutside()) return nullptr;
  if (ledger_.OthersHaveWork()) return nullptr;
  const CUcontext context = pool.context();
  const DevicePool::Move move(pool);
  while (Block* const block = pool.Take(bytes, MostFor(pool, bytes))) {
    if (!Broken(Mutant::kS30Wait) && (context == nullptr || !block->fences.HoldBehind(contexts_, context))) {
      pool.PutBack(block);
      return nullptr;
    }
    if (IsWhatItWas(*block)) return block;
    Delete(block);
  }
  return nullptr;
}

CUresult Segments::Grow(DevicePool& pool, size_t bytes, Block** made, uint64_t* time_ns) {
  const cuda::InContext in(driver_, pool.context());
  CUdeviceptr address = 0;
  const uint64_t start = cuda::NowNs();
  if (const CUresult result = driver_.cuMemAlloc(&address, bytes); result != CUDA_SUCCESS) return result;
  *time_ns = cuda::NowNs() - start;
  allocations_.Took(*time_ns);
  try {
    auto block = std::make_unique<Block>();
    block->address = address;
    block->bytes = bytes;
    block->pool = &pool;
    *made = block.get();
    const CUresult named = driver_.cuPointerGetAttribute(&block->id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address);
    if (named == CUDA_SUCCESS) {
      blocks_.Insert(std::move(block));
      pool.GotFromDriver(TakenFromDriver(bytes));
      KeepReserve(pool);
      return CUDA_SUCCESS;
    }
  } catch (...) {
    // No memory to remember it with.
  }
  driver_.cuMemFree(address);
  return CUDA_ERROR_UNKNOWN;
}

// What the program will want: while it builds its model it waits for the driver anyway.
void Segments::Reserve(DevicePool& pool) {
  const size_t bytes = policy_.pre_reserve_block;
  if (policy_.pre_reserve < bytes || !trimmer_.Start()) return;
  const DevicePool::Move move(pool);
  const size_t taken = TakenFromDriver(bytes);
  for (size_t count = policy_.pre_reserve / bytes; count != 0; --count) {
    if (pool.idle_bytes() + taken > MostIdle(pool) || pool.driver_free() < KeepFree(pool) + taken) break;
    Block* block = nullptr;
    uint64_t driver_ns = 0;
    if (Grow(pool, bytes, &block, &driver_ns) != CUDA_SUCCESS) break;
    block->state.store(BlockState::kIdle, std::memory_order_release);
    block->passed = true;
    block->idle_since_ns = Block::kNeverOld;
    Count(Decision::kReserved, bytes);
    pool.Put(block);
  }
  pool.Moved();
  trimmer_.MemoryIsIdle();
}

void* Segments::HandOut(DevicePool& pool, Block* block, Decision how, uint64_t driver_ns) {
  pool.CountLive(static_cast<int64_t>(block->bytes));
  Count(how, block->bytes);
  if (how == Decision::kGrown) {
    CountTime(Decision::kDriverAllocated, driver_ns);
  } else {
    CountSpared(Decision::kSparedAllocation, allocations_);
  }
  auto* const address = reinterpret_cast<void*>(block->address);
  // From here on the program may free it.
  block->state.store(BlockState::kLive, std::memory_order_release);
  if (how != Decision::kReused) Report(pool, false);
  return address;
}

// What the pool holds, at most every kReportNs unless it is to be said at once.
void Segments::Report(DevicePool& pool, bool at_once) {
  const uint64_t now = cuda::NowNs();
  uint64_t before = pool.reported_ns.load(std::memory_order_relaxed);
  if (!at_once && now - before < kReportNs) return;
  if (!pool.reported_ns.compare_exchange_strong(before, now, std::memory_order_relaxed)) return;
  PoolFigures figures = pool.Figures();
  if (Alive() && reports_.wants_more(pool.device())) {
    figures.device_used = AskDeviceUse(driver_, ledger_, pool.context());
    figures.largest_idle = pool.LargestIdle();
  }
  reports_.holds(pool.device(), figures);
}

// Completed blocks first, then the driver, then a block behind a wait of the device, then what the driver has when it
// has got back what is idle here.
void* Segments::Take(size_t bytes, bool* by_driver) {
  if (!Alive()) return nullptr;
  if (!contexts_.Find()) {
    if (contexts_.driver_is_old()) Count(Decision::kPassedDriver, bytes);
    return nullptr;
  }
  DevicePool* const pool = PoolOfCurrent();
  if (pool == nullptr || contexts_.others()) {
    Count(Decision::kPassedContext, bytes);
    return nullptr;
  }
  // Again where memory has moved meanwhile: what one thread has in its hands, to look at it or to give it back, is not
  // found by another, and a third may take what was given back.
  for (int round = 0; round < kMostRounds; ++round) {
    const uint32_t seen = pool->moves();
    uint32_t own = 0;
    Found found;
    if (!ledger_.WithoutCapture([&] { found = Find(*pool, bytes); })) {
      Count(Decision::kPassedCapture, bytes);
      return nullptr;
    }
    if (found.block != nullptr) {
      *by_driver = round != 0;
      return HandOut(*pool, found.block, Decision::kReused);
    }
    if (found.broken) return nullptr;  // the program's call finds out
    own += found.pending;
    if (policy_.pre_reserve != 0 && pool->FirstUse()) {
      Reserve(*pool);
      continue;
    }
    Block* block = nullptr;
    uint64_t driver_ns = 0;
    CUresult grown = Grow(*pool, bytes, &block, &driver_ns);
    if (grown == CUDA_SUCCESS) return HandOut(*pool, block, Decision::kGrown, driver_ns);
    if (grown != CUDA_ERROR_OUT_OF_MEMORY) return nullptr;
    if (found.pending != 0) {
      ledger_.WithoutCapture([&] { block = TakeBehind(*pool, bytes); });
      if (block != nullptr) return HandOut(*pool, block, Decision::kReusedBehind);
    }
    // S36: the driver gets back what is idle here, and is asked again.
    if (Broken(Mutant::kS36)) break;
    if (Reclaim(*pool, UINT64_MAX, SIZE_MAX, Decision::kReclaimed) != 0) {
      ++own;
      pool->CountRetry();
      Count(Decision::kRetried, bytes);
      grown = Grow(*pool, bytes, &block, &driver_ns);
      if (grown == CUDA_SUCCESS) return HandOut(*pool, block, Decision::kGrown, driver_ns);
    }
    if (!pool->AwaitMove(seen + own)) break;
  }
  Count(Decision::kPassedMemory, bytes);
  return nullptr;
}

// The program's own call has succeeded: its memory may come back to us.
void Segments::Adopt(void* address, size_t bytes) {
  if (!Alive() || !contexts_.Find()) return;
  DevicePool* const pool = PoolOfCurrent();
  if (pool == nullptr) return;
  try {
    auto block = std::make_unique<Block>();
    block->address = reinterpret_cast<CUdeviceptr>(address);
    block->bytes = bytes;
    block->pool = pool;
    if (driver_.cuPointerGetAttribute(&block->id, CU_POINTER_ATTRIBUTE_BUFFER_ID, block->address) != CUDA_SUCCESS) {
      return;
    }
    blocks_.Insert(std::move(block));
    pool->CountLive(static_cast<int64_t>(bytes));
    Report(*pool, false);
  } catch (...) {
    // No memory to remember it with: its free is the real one.
  }
}

// ---- frees

bool Segments::Fence(DevicePool& pool, Block* block) {
  cuda::Contexts::Set contexts;
  if (!ContextsWithAccess(pool, &contexts)) return false;
  if (block->fences.empty()) block->fences = pool.TakeFences();
  if (!block->fences.Record(contexts_, contexts)) return false;
  block->passed = false;
  return true;
}

size_t Segments::MostIdle(const DevicePool& pool) const {
  if (Broken(Mutant::kS36Cap)) return SIZE_MAX;
  return policy_.max_idle != 0 ? policy_.max_idle : pool.total_bytes() / 4;
}

// kParked: no reason not to.
Decision Segments::WhyNotPark(const DevicePool& pool, const Block& block) {
  if (block.shared.load(std::memory_order_relaxed) && !Broken(Mutant::kS33)) return Decision::kFreedShared;
  if (pool.idle_bytes() + TakenFromDriver(block.bytes) > MostIdle(pool)) return Decision::kFreedCap;
  if (pool.driver_free() < KeepFree(pool) && !Broken(Mutant::kS36Reserve)) {
    return Decision::kFreedReserve;
  }
  if (!trimmer_.Start()) return Decision::kFreedThread;
  // S30b: a free that waits for the device is leaned on by programs that look at host memory next.
  if (Broken(Mutant::kS30b)) return Decision::kParked;
  if (policy_.free_synchronizes) {
    const cuda::InContext in(driver_, pool.context());
    const cuda::OwnWork own;
    return driver_.cuCtxSynchronize() == CUDA_SUCCESS ? Decision::kParked : Decision::kFreedContext;
  }
  return ledger_.WaitForHostEffects(pool.context()) ? Decision::kParked : Decision::kFreedHostEffect;
}

Segments::Freed Segments::Park(void* memory) {
  if (!Alive() || !contexts_.there()) return Freed::kNot;
  const auto address = reinterpret_cast<CUdeviceptr>(memory);
  bool was_idle = false;
  Block* const block = blocks_.Free(address, &was_idle);
  if (was_idle) return Broken(Mutant::kS34) ? Freed::kParked : Freed::kTwice;
  if (block == nullptr) {
    Count(Decision::kFreedForeign, 0);
    return Freed::kNot;
  }
  DevicePool* pool = block->pool;
  if (Broken(Mutant::kS35)) {
    DevicePool* const current = PoolOfCurrent();
    if (current != nullptr) pool = block->pool = current;
  }
  const size_t bytes = block->bytes;
  pool->CountLive(-static_cast<int64_t>(bytes));
  Decision decision = WhyNotPark(*pool, *block);
  if (decision == Decision::kParked) {
    bool fenced = false;
    const bool no_capture = ledger_.WithoutCapture([&] { fenced = Fence(*pool, block); });
    if (!no_capture)
      decision = Decision::kFreedCapture;
    else if (!fenced)
      decision = Decision::kFreedContext;
  }
  Count(decision, bytes);
  if (decision != Decision::kParked) {
    Delete(block);
    return Freed::kNot;
  }
  CountSpared(Decision::kSparedFree, frees_);
  block->idle_since_ns = cuda::CoarseNowNs();
  pool->Put(block);
  pool->Moved();
  trimmer_.MemoryIsIdle();
  return Freed::kParked;
}

void Segments::MakeRoom() {
  if (!Alive() || !contexts_.there() || Broken(Mutant::kS36Others) || Broken(Mutant::kS36)) return;
  if (DevicePool* const pool = PoolOfCurrent()) (void)Reclaim(*pool, UINT64_MAX, SIZE_MAX, Decision::kReclaimed);
}

void Segments::SetAside(int kind, size_t bytes) {
  if (!Alive() || !contexts_.there()) return;
  if (DevicePool* const pool = PoolOfCurrent()) pool->SetAside(kind, bytes);
}

bool Segments::GiveBack(CUdevice device) {
  if (!Alive() || !contexts_.there() || Broken(Mutant::kS36Others) || Broken(Mutant::kS36)) return false;
  if (device != cuda::kCurrentDevice) {
    DevicePool* const pool = device >= 0 && device < contexts_.device_count() ? PoolOf(device) : nullptr;
    return pool != nullptr && GiveBack(*pool);
  }
  // During a capture too: memory may be released then by a thread in relaxed mode, as Reclaim's is, and idle blocks
  // were freed before.
  CUcontext context = nullptr;
  if (driver_.cuCtxGetCurrent(&context) == CUDA_SUCCESS) {
    DevicePool* const pool = PoolOfCurrent();
    return pool != nullptr && GiveBack(*pool);
  }
  // Nobody says which device has run out.
  bool any = false;
  for (int each = 0; each < contexts_.device_count(); ++each) {
    DevicePool* const pool = PoolOf(each);
    if (pool != nullptr && GiveBack(*pool)) any = true;
  }
  return any;
}

bool Segments::GiveBack(DevicePool& pool) {
  if (Reclaim(pool, UINT64_MAX, SIZE_MAX, Decision::kReclaimed) == 0) return false;
  pool.CountRetry();
  Count(Decision::kRetried, 0);
  Report(pool, true);
  return true;
}

// ---- questions and facts

void Segments::AddIdle(size_t* free, const size_t* total) {
  if (free == nullptr || !Alive() || !contexts_.there() || Broken(Mutant::kS32)) return;
  const DevicePool* const pool = PoolOfCurrent();
  if (pool == nullptr) return;
  const size_t most = total != nullptr ? *total : pool->total_bytes();
  const size_t idle = pool->idle_bytes();
  *free = idle >= most - std::min(*free, most) ? most : *free + idle;
}

void Segments::Exports(const void* address) {
  if (!Alive() || !contexts_.there()) return;
  CUdeviceptr begin = 0;
  if (driver_.cuMemGetAddressRange(&begin, nullptr, reinterpret_cast<CUdeviceptr>(address)) != CUDA_SUCCESS) return;
  const Block* const block = blocks_.MarkShared(begin);
  if (block == nullptr || block->passed) return;
  // It was handed out behind a wait of the device, which another process's work is not behind: what is pending on it
  // has to run first, as the free before would have waited for it.
  const cuda::InContext in(driver_, block->pool->context());
  (void)block->fences.Wait(contexts_);
}

DevicePool* Segments::ForgetDevice(CUdevice device) {
  if (!Alive() || !contexts_.there()) return nullptr;
  if (device >= contexts_.device_count()) return nullptr;  // which is the driver's to refuse
  CUcontext context = nullptr;
  DevicePool* pool = device == cuda::kCurrentDevice ? PoolOfCurrent() : PoolOf(device);
  // A thread that has used no device resets the first.
  if (device == cuda::kCurrentDevice && pool == nullptr && driver_.cuCtxGetCurrent(&context) == CUDA_SUCCESS &&
      context == nullptr)
    pool = PoolOf(0);
  if (pool == nullptr) return nullptr;
  pool->SetContext(nullptr);
  contexts_.BeginReset(pool->device());
  pool->Clear();
  blocks_.RemoveAllOf(pool);
  return pool;
}

}  // namespace slipstream::allocator
