#include "allocator/stream_heap.h"

#include <algorithm>
#include <new>
#include <tuple>
#include <utility>

namespace slipstream::allocator {
namespace {

// Every further round means that another thread has taken what this one had found.
constexpr int kMostRounds = 16;

constexpr uint64_t Up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

bool StreamHeap::Init() {
  const cuda::InContext in(driver_, context_);
  // Holes cost addresses only: as many for slabs as the device has bytes, and twice as many for blocks, so that memory
  // which comes again in one piece finds room beside what is in use.
  const uint64_t unit = PhysicalMemory::kMostPages * (uint64_t{2} << 20);
  const uint64_t small = Up(total_bytes_, unit);
  const uint64_t large = 2 * small;
  if (memory_.Reserve(device_, small + large) != CUDA_SUCCESS) return false;
  try {
    idle_.reserve(kPiecesAtOnce);
    spare_pieces_.reserve(kPiecesAtOnce);
  } catch (const std::bad_alloc&) {
    return false;
  }
  return small_.Init(small) && large_.Init(large) && slabs_.Init(small_) && small_.Add(kOrphans) &&
         large_.Add(kOrphans) && slabs_.Add(kOrphans);
}

// ---- streams

Owner StreamHeap::OwnerOf(const StreamName& stream) {
  Named& last = last_named_[Hash()(stream) / 64 % kLastNamed];
  if (last.owner != kNoOwner && stream == last.name) return last.owner;
  Owner owner = kNoOwner;
  if (const auto known = owners_.find(stream); known != owners_.end()) {
    owner = known->second;
  } else {
    try {
      const bool again = !unused_owners_.empty();
      const Owner free = again ? unused_owners_.back() : next_owner_;
      if (free >= kMostOwners || !small_.Add(free) || !large_.Add(free) || !slabs_.Add(free)) return kNoOwner;
      owners_.emplace(stream, free);
      if (again) {
        unused_owners_.pop_back();
      } else {
        ++next_owner_;
      }
      owner = free;
    } catch (const std::bad_alloc&) {
      return kNoOwner;
    }
  }
  last = {.name = stream, .owner = owner};
  return owner;
}

void StreamHeap::StreamEnds(const StreamName& stream) {
  const std::lock_guard lock(mutex_);
  DrainAll();
  const auto known = owners_.find(stream);
  if (known == owners_.end()) return;
  if (Broken(Mutant::kS38Destroy)) return;
  try {
    ended_.push_back({.owner = known->second, .at = clock_});
  } catch (const std::bad_alloc&) {
    // The owner is nobody's for good, as its blocks are once they have passed.
  }
  owners_.erase(known);
  last_named_.fill({});
}

// Behind what the frees up to then were behind.
void StreamHeap::PassAll(uint64_t up_to) {
  passed_ = std::max(passed_, up_to);
  for (Owner owner = kFirstStream; owner < next_owner_; ++owner) {
    slabs_.Pass(owner, passed_);
    small_.Pass(owner, passed_);
    large_.Pass(owner, passed_);
  }
  std::erase_if(ended_, [this](const Ended& ended) {
    if (ended.at > passed_) return false;
    try {
      unused_owners_.push_back(ended.owner);
    } catch (const std::bad_alloc&) {
      return false;
    }
    return true;
  });
}

// ---- what is there

namespace {

void Raise(std::atomic<uint64_t>& most, uint64_t to) {
  uint64_t now = most.load(std::memory_order_relaxed);
  while (now < to && !most.compare_exchange_weak(now, to, std::memory_order_relaxed)) {
  }
}

}  // namespace

// `bytes` more are the program's.
void StreamHeap::CountUsed(uint64_t bytes) {
  const uint64_t used = used_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  Raise(most_used_, used);
  Raise(used_lately_, used);
}

// Of what `whose` freed up to a number, for the owner's use. 0: nothing fits.
CUdeviceptr StreamHeap::TakeFrom(Owner owner, Owner whose, uint64_t bytes, uint64_t freed_by) {
  AddressSpace& space = SpaceFor(bytes);
  const bool slab = &space == &small_;
  const BlockId block = space.Take(whose, slab ? Slabs::kSlabBytes : Up(bytes, FreeBins::kUnit));
  if (block == 0) return 0;
  const uint64_t freed_at = space[block].freed_at;
  if (freed_at > freed_by || (slab && !slabs_.AddSlab(owner, bytes, block, clock_))) {
    space.Free(block, whose, freed_at);
    return 0;
  }
  if (slab) return memory_.base() + slabs_.Take(owner, bytes);
  space.SetAsked(block, Up(bytes, FreeBins::kUnit));
  return memory_.base() + StartOf(space) + space[block].offset;
}

// What the calling thread freed last is looked at first.
CUdeviceptr StreamHeap::TakeReady(Owner owner, uint64_t bytes) {
  DrainMine();
  return TakeFree(owner, bytes);
}

CUdeviceptr StreamHeap::TakeFree(Owner owner, uint64_t bytes) {
  if (bytes <= Slabs::kMost) {
    if (const uint64_t offset = slabs_.Take(owner, bytes); offset != Slabs::kNowhere) return memory_.base() + offset;
  }
  // S38: its own at once, in the order of its work; others' when their work has run.
  if (const CUdeviceptr own = TakeFrom(owner, owner, bytes, UINT64_MAX); own != 0) return own;
  if (const CUdeviceptr done = TakeFrom(owner, kNobodys, bytes, UINT64_MAX); done != 0) return done;
  if (!Broken(Mutant::kS38)) return 0;
  for (Owner other = kFirstStream; other < next_owner_; ++other) {
    if (const CUdeviceptr taken = TakeFrom(owner, other, bytes, UINT64_MAX); taken != 0) return taken;
  }
  return 0;
}

bool StreamHeap::OthersHave(Owner owner, uint64_t bytes) {
  AddressSpace& space = SpaceFor(bytes);
  const uint64_t wanted = &space == &small_ ? Slabs::kSlabBytes : Up(bytes, FreeBins::kUnit);
  for (Owner other = kFirstStream; other < next_owner_; ++other) {
    if (other != owner && space.Has(other, wanted)) return true;
  }
  return false;
}

CUdeviceptr StreamHeap::Allocate(const StreamName& stream, size_t bytes, Source* how) {
  *how = Source::kReused;
  const uint64_t asked = Up(bytes, FreeBins::kUnit);
  CUdeviceptr address = magazines_.Take(stream, asked);
  if (address == 0) {
    Owner owner = kNoOwner;
    {
      const std::lock_guard lock(mutex_);
      owner = OwnerOf(stream);
      if (owner == kNoOwner || bytes > large_.size()) return 0;
      address = TakeReady(owner, bytes);
    }
    if (address == 0) address = AllocateSlowly(stream, owner, bytes, how);
    if (address == 0) return 0;
    magazines_.HandedOut(address, asked);
  }
  CountUsed(asked);
  return address;
}

// ---- what is not there yet

CUdeviceptr StreamHeap::AllocateSlowly(const StreamName& stream, Owner owner, uint64_t bytes, Source* how) {
  const auto ready = [&] {
    const std::lock_guard lock(mutex_);
    DrainAll();
    return TakeFree(owner, bytes);
  };
  if (const CUdeviceptr address = ready(); address != 0) return address;
  {
    // No slab can be made: all memory of the device would be of no use here, and missing elsewhere.
    const std::lock_guard lock(mutex_);
    if (bytes <= Slabs::kMost && !slabs_.CanAdd(bytes)) return 0;
  }
  const auto grow = [&](From from) {
    const CUresult grown = Grow(owner, bytes, from, how);
    return std::pair(grown, grown == CUDA_SUCCESS ? ready() : 0);
  };
  for (int round = 0; round < kMostRounds; ++round) {
    if (Poll()) {
      *how = Source::kReused;
      if (const CUdeviceptr address = ready(); address != 0) return address;
    }
    auto [grown, fresh] = grow(From::kIdleIfMuch);
    // Where moving fails, new memory may do.
    if (grown != CUDA_SUCCESS && grown != CUDA_ERROR_OUT_OF_MEMORY) std::tie(grown, fresh) = grow(From::kDriver);
    if (fresh != 0) return fresh;
    if (grown == CUDA_SUCCESS) continue;
    if (grown != CUDA_ERROR_OUT_OF_MEMORY) return 0;
    *how = Source::kBehind;
    if (const CUdeviceptr address = TakeBehind(stream, owner, bytes); address != 0) return address;
    if (const CUdeviceptr address = grow(From::kIdle).second; address != 0) return address;
    // S36: everything that is idle, in one piece.
    if (Broken(Mutant::kS36) || !PassBehindAll()) return 0;
    *how = Source::kWaited;
    if (const CUdeviceptr address = ready(); address != 0) return address;
    if (const CUdeviceptr address = grow(From::kIdle).second; address != 0) return address;
    if (Trim(0) == 0) return 0;
  }
  return 0;
}

// Makes nobody's what has passed, and records a fence behind what was freed since the last one. Whether there is more
// to find now.
bool StreamHeap::Poll() {
  std::vector<Fence> fences;
  Fence next;
  {
    const std::lock_guard lock(mutex_);
    fences.swap(fences_);
    next.at = clock_;
    if (next.at == passed_) return false;
  }
  uint64_t passed = 0;
  std::vector<Fence> done;
  try {
    if ((fences.empty() || fences.back().at < next.at) && fences.size() < kMostFences && Record(&next)) {
      fences.push_back(next);
    }
    const cuda::InContext in(driver_, context_);
    while (!fences.empty() &&
           (Broken(Mutant::kS38Fence) || driver_.cuEventQuery(fences.front().event) == CUDA_SUCCESS)) {
      passed = fences.front().at;
      done.push_back(fences.front());
      fences.erase(fences.begin());
    }
  } catch (const std::bad_alloc&) {
    // Those that are left are asked another time.
  }
  const std::lock_guard lock(mutex_);
  for (const Fence& fence : done) Keep(fence.event);
  try {
    fences_.insert(fences_.end(), fences.begin(), fences.end());
    std::sort(fences_.begin(), fences_.end(), [](const Fence& a, const Fence& b) { return a.at < b.at; });
  } catch (const std::bad_alloc&) {
    for (const Fence& fence : fences) Keep(fence.event);
  }
  if (passed <= passed_) return false;
  PassAll(passed);
  return true;
}

// An event behind all work of the context so far; fence->at was read before. False: a capture is live, or the driver
// has none to give.
bool StreamHeap::Record(Fence* fence) {
  {
    const std::lock_guard lock(mutex_);
    if (!spare_events_.empty()) {
      fence->event = spare_events_.back();
      spare_events_.pop_back();
    }
  }
  const cuda::InContext in(driver_, context_);
  if (fence->event == nullptr && driver_.cuEventCreate(&fence->event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
    return false;
  }
  bool recorded = false;
  ledger_.WithoutCapture([&] { recorded = driver_.cuCtxRecordEvent(context_, fence->event) == CUDA_SUCCESS; });
  if (recorded) return true;
  const std::lock_guard lock(mutex_);
  Keep(fence->event);
  fence->event = nullptr;
  return false;
}

void StreamHeap::Keep(CUevent event) {
  try {
    spare_events_.push_back(event);
  } catch (const std::bad_alloc&) {
    // One event is lost.
  }
}

// A hole that is as large as what is missing, live and not the program's. *beside: what is before it is the owner's,
// and counts. 0: there is no such hole.
BlockId StreamHeap::TakeHole(Owner owner, uint64_t bytes, bool* beside) {
  AddressSpace& space = SpaceFor(bytes);
  const uint64_t page = memory_.page();
  const uint64_t wanted = Up(&space == &small_ ? Slabs::kSlabBytes : bytes, page);
  const BlockId hole = space.Take(kHoles, wanted);
  *beside = false;
  if (hole == 0 || &space == &small_) return hole;
  const BlockId before = space[hole].before;
  if (before == 0 || space[before].live || (space[before].owner != owner && space[before].owner != kNobodys))
    return hole;
  *beside = space[before].owner == owner;
  const uint64_t missing = Up(bytes - std::min(bytes - 1, space[before].bytes), page);
  const uint64_t offset = space[hole].offset;
  if (missing == space[hole].bytes) return hole;
  space.Free(hole, kHoles, 0);
  return space.TakeAt(offset, missing);
}

// Takes memory out of nobody's, whole handles and so many bytes at most, of the smallest blocks first: what is left of
// a large one may still be of use.
bool StreamHeap::TakeIdle(uint64_t most, std::vector<Piece>* pieces) {
  slabs_.GiveBackEmpty();
  PassAll(passed_);
  bool all = true;
  for (AddressSpace* const space : {&large_, &small_}) {
    idle_.clear();
    try {
      for (Owner owner = kNobodys; owner < (Broken(Mutant::kS39) ? next_owner_ : kFirstStream); ++owner) {
        space->ForEachOf(owner, [this](BlockId id) { idle_.push_back(id); });
      }
    } catch (const std::bad_alloc&) {
      all = false;
    }
    for (const BlockId id : idle_) {
      const uint64_t start = StartOf(*space);
      const uint64_t end = start + (*space)[id].end();
      uint64_t at = start + (*space)[id].offset;
      while (most > 0) {
        const PhysicalMemory::Handle handle = memory_.NextHandle(at, end);
        if (handle.bytes == 0) break;
        at = handle.offset + handle.bytes;
        if (handle.bytes > most) continue;
        try {
          // By more than one at a time, as push_back would; but before the block is taken, which would be lost.
          if (pieces->size() == pieces->capacity()) pieces->reserve(2 * pieces->size() + 1);
        } catch (const std::bad_alloc&) {
          return false;
        }
        const BlockId block = space->TakeAt(handle.offset - start, handle.bytes);
        if (block == 0) {
          all = false;  // no record is left to cut it out with; what goes back brings some
          break;
        }
        pieces->push_back({.space = space, .block = block, .handle = handle});
        most -= handle.bytes;
      }
    }
  }
  return all;
}

// `gone`: there is no memory at its place any more.
void StreamHeap::PutDown(const Piece& piece, bool gone) { piece.space->Free(piece.block, gone ? kHoles : kNobodys, 0); }

bool StreamHeap::IsWorthMoving(uint64_t bytes) {
  const uint64_t reserved = memory_.mapped_bytes();
  const uint64_t idle = small_.BytesOf(kNobodys) + large_.BytesOf(kNobodys);
  return idle > reserved / kIdleShare && moved_ + bytes <= kMostMoved * reserved;
}

CUresult StreamHeap::Grow(Owner owner, uint64_t bytes, From from, Source* how) {
  AddressSpace& space = SpaceFor(bytes);
  BlockId hole = 0;
  bool beside = false;
  uint64_t offset = 0;
  uint64_t size = 0;
  std::vector<Piece> pieces;
  std::vector<PhysicalMemory::Handle> handles;
  {
    const std::lock_guard lock(mutex_);
    hole = TakeHole(owner, bytes, &beside);
    if (hole == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    offset = StartOf(space) + space[hole].offset;
    size = space[hole].bytes;
    try {
      if (from == From::kIdle || (from == From::kIdleIfMuch && IsWorthMoving(size))) (void)TakeIdle(size, &pieces);
      for (const Piece& piece : pieces) handles.push_back(piece.handle);
    } catch (const std::bad_alloc&) {
      // New memory is as good; the pieces stay where they are.
      handles.clear();
    }
  }
  CUresult result = CUDA_SUCCESS;
  {
    const cuda::InContext in(driver_, context_);
    result = memory_.Map(offset, size, handles);
  }
  const std::lock_guard lock(mutex_);
  for (const Piece& piece : pieces) {
    const PhysicalMemory::Handle there =
        memory_.NextHandle(piece.handle.offset, piece.handle.offset + piece.handle.bytes);
    PutDown(piece, there.bytes == 0);
    if (there.bytes == 0) moved_ += piece.handle.bytes;
  }
  if (result != CUDA_SUCCESS) {
    space.Free(hole, kHoles, 0);
    return result;
  }
  most_reserved_ = std::max(most_reserved_, memory_.mapped_bytes());
  space.Free(hole, beside ? owner : kNobodys, 0);
  *how = handles.empty() ? Source::kGrown : Source::kMoved;
  return CUDA_SUCCESS;
}

// What other streams freed, for a stream that waits for all of the device's work up to now.
CUdeviceptr StreamHeap::TakeBehind(const StreamName& stream, Owner owner, uint64_t bytes) {
  Fence fence;
  {
    const std::lock_guard lock(mutex_);
    DrainAll();
    if (!OthersHave(owner, bytes)) return 0;
    fence.at = clock_;
  }
  if (!Record(&fence)) return 0;
  bool waits = Broken(Mutant::kS38Wait);
  if (!waits) {
    const cuda::InContext in(driver_, context_);
    waits = driver_.cuStreamWaitEvent(stream.stream, fence.event, 0) == CUDA_SUCCESS;
  }
  const std::lock_guard lock(mutex_);
  Keep(fence.event);
  if (!waits) return 0;
  for (Owner other = kFirstStream; other < next_owner_; ++other) {
    if (other == owner) continue;
    if (const CUdeviceptr address = TakeFrom(owner, other, bytes, fence.at); address != 0) return address;
  }
  return 0;
}

// The calling thread waits for all work of the device so far, and what was freed behind it is nobody's. False: it may
// not wait, or the driver answers with an error.
bool StreamHeap::PassBehindAll() {
  Fence fence;
  {
    const std::lock_guard lock(mutex_);
    DrainAll();
    fence.at = clock_;
  }
  if (!Record(&fence)) return false;
  bool done = false;
  {
    const cuda::InContext in(driver_, context_);
    done = driver_.cuEventSynchronize(fence.event) == CUDA_SUCCESS;
  }
  const std::lock_guard lock(mutex_);
  Keep(fence.event);
  if (done) PassAll(fence.at);
  return done;
}

// ---- frees

bool StreamHeap::FreeAs(CUdeviceptr address, Owner owner, uint64_t freed_at, size_t* bytes) {
  const uint64_t offset = address - memory_.base();
  if (offset < small_.size()) {
    *bytes = slabs_.AskedAt(offset);
    if (*bytes == 0) return false;
    slabs_.Free(offset, owner, freed_at);
  } else {
    const BlockId block = large_.LiveAt(offset - small_.size());
    if (block == 0 || large_[block].asked == 0) return false;
    *bytes = large_[block].asked;
    large_.Free(block, owner, freed_at);
  }
  magazines_.Forget(address);
  return true;
}

// What a slot held: freed now, for all that fences know, which is later than it was.
void StreamHeap::TakeBack(const Magazines::Freed& freed) {
  const Owner owner = OwnerOf(freed.stream);
  size_t bytes = 0;
  (void)FreeAs(freed.address, owner != kNoOwner ? owner : kOrphans, ++clock_, &bytes);
}

void StreamHeap::DrainAll() {
  magazines_.DrainAll([this](const Magazines::Freed& freed) { TakeBack(freed); });
}

void StreamHeap::DrainMine() {
  magazines_.DrainMine([this](const Magazines::Freed& freed) { TakeBack(freed); });
}

bool StreamHeap::Free(CUdeviceptr address, const StreamName& stream, size_t* bytes) {
  if (uint64_t asked = 0; magazines_.Keep(address, stream, &asked)) {
    *bytes = asked;
    used_.fetch_sub(asked, std::memory_order_relaxed);
    return true;
  }
  {
    const std::lock_guard lock(mutex_);
    const Owner owner = OwnerOf(stream);
    if (owner != kNoOwner) {
      if (magazines_.MineIsFull()) DrainMine();
      if (magazines_.MayHold(address)) DrainAll();
      if (!FreeAs(address, owner, ++clock_, bytes)) return false;
      used_.fetch_sub(*bytes, std::memory_order_relaxed);
      return true;
    }
  }
  // More streams than there are owners: this one's work is waited for.
  const cuda::InContext in(driver_, context_);
  return driver_.cuStreamSynchronize(stream.stream) == CUDA_SUCCESS && FreeDone(address, bytes);
}

bool StreamHeap::FreeDone(CUdeviceptr address, size_t* bytes) {
  const std::lock_guard lock(mutex_);
  if (magazines_.MayHold(address)) DrainAll();
  if (!FreeAs(address, kNobodys, 0, bytes)) return false;
  used_.fetch_sub(*bytes, std::memory_order_relaxed);
  return true;
}

bool StreamHeap::RangeOf(CUdeviceptr address, CUdeviceptr* begin, size_t* bytes) {
  const std::lock_guard lock(mutex_);
  DrainAll();
  uint64_t offset = address - memory_.base();
  if (offset < small_.size()) {
    offset = slabs_.BeginOf(offset);
    if (offset == Slabs::kNowhere) return false;
    *begin = memory_.base() + offset;
    *bytes = slabs_.AskedAt(offset);
    return true;
  }
  const BlockId block = large_.Containing(offset - small_.size());
  if (block == 0 || !large_[block].live || large_[block].asked == 0) return false;
  *begin = memory_.base() + small_.size() + large_[block].offset;
  *bytes = large_[block].asked;
  return true;
}

// ---- memory that goes back

size_t StreamHeap::Trim(size_t keep_bytes) {
  Poll();
  size_t bytes = 0;
  for (bool all = false; !all;) {
    const size_t more = TrimOnce(keep_bytes, &all);
    if (more == 0) break;
    bytes += more;
  }
  return bytes;
}

size_t StreamHeap::TrimOnce(size_t keep_bytes, bool* all) {
  std::vector<Piece> pieces;
  {
    const std::lock_guard lock(mutex_);
    DrainAll();
    pieces.swap(spare_pieces_);
    const uint64_t reserved = memory_.mapped_bytes();
    *all = reserved <= keep_bytes || TakeIdle(reserved - keep_bytes, &pieces);
  }
  size_t bytes = 0;
  {
    const cuda::InContext in(driver_, context_);
    for (const Piece& piece : pieces) {
      const uint64_t end = piece.handle.offset + piece.handle.bytes;
      // What the driver does not take back stays memory of nobody's.
      const bool gone = memory_.Unmap(piece.handle.offset, piece.handle.bytes);
      const std::lock_guard lock(mutex_);
      PutDown(piece, gone || memory_.NextHandle(piece.handle.offset, end).bytes == 0);
      if (gone) bytes += piece.handle.bytes;
    }
  }
  pieces.clear();
  const std::lock_guard lock(mutex_);
  if (spare_pieces_.capacity() < pieces.capacity()) spare_pieces_.swap(pieces);
  return bytes;
}

size_t StreamHeap::TrimBehindAll(size_t keep_bytes, bool* waited) {
  *waited = PassBehindAll();
  return Trim(keep_bytes);
}

// ---- figures

HeapFigures StreamHeap::Figures() {
  const std::lock_guard lock(mutex_);
  return {.used = used_.load(std::memory_order_relaxed),
          .most_used = most_used_.load(std::memory_order_relaxed),
          .reserved = memory_.mapped_bytes(),
          .most_reserved = std::max(most_reserved_, memory_.mapped_bytes())};
}

size_t StreamHeap::UsedSinceLastAsked() {
  return used_lately_.exchange(used_.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

void StreamHeap::ResetMostUsed() { most_used_.store(used_.load(std::memory_order_relaxed), std::memory_order_relaxed); }

void StreamHeap::ResetMostReserved() {
  const std::lock_guard lock(mutex_);
  most_reserved_ = memory_.mapped_bytes();
}

}  // namespace slipstream::allocator
