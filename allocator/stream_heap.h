// The memory of one device in the order of its streams: what cudaMallocAsync and cudaFreeAsync mean, on the host.
//
// Bookkeeping is in two spaces of one reserved range of addresses: slabs of small slots first, then blocks. A request
// is served, in this order, from what the same stream freed (at once: its work runs in order), from what nobody's work
// is on any more, from new memory, from what another stream freed behind a wait for it, and when the driver has no
// memory left, behind everything: the host waits for the device, and idle memory goes back.
//
// What is new to a place need not come from the driver: the range has addresses enough, and memory that is idle
// elsewhere, in pieces too small for the request, is moved to where it is one piece. That keeps what is reserved next
// to what is used, and costs calls of the driver; so it is done where much is idle, as long as little has been moved,
// and where the driver has nothing left.
//
// No event is recorded for a free. Frees are numbered; a fence is an event of the whole context and the number of the
// last free before it, and it is recorded when a stream looks for what another one freed.
//
// The rules have numbers (S30, S36 to S39); each stands beside the code that keeps it, with its mutant (mutant.h).
//
// Threading: any thread. The lock is never held while calling the driver (S55). What a thread frees and allocates again
// at once passes by the lock (magazines.h).
// Ownership: never destroyed while the program may use its memory.
// Errors: no block is the answer to everything that goes wrong; the caller makes the program's own call.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "allocator/address_space.h"
#include "allocator/magazines.h"
#include "allocator/physical_memory.h"
#include "allocator/slabs.h"
#include "allocator/spinning_mutex.h"
#include "allocator/stream_name.h"
#include "cuda/driver.h"
#include "cuda/ledger.h"
#include "cuda/mutant.h"

namespace slipstream::allocator {

// Where a block came from.
enum class Source : uint8_t {
  kReused,  // memory that was free in the stream's order, or that work is done with
  kGrown,   // new memory
  kMoved,   // idle memory of other places, of which no piece was large enough, put together
  kBehind,  // another stream's, behind a wait on the device
  kWaited,  // the same, and the host waited for it
};

// Figures of a heap, in bytes; what is used is what was asked for, in units of 512 bytes.
struct HeapFigures {
  uint64_t used = 0;
  uint64_t most_used = 0;
  uint64_t reserved = 0;  // of the device's memory
  uint64_t most_reserved = 0;
};

class StreamHeap {
 public:
  // The context is the device's primary one; `total_bytes` is the device's memory.
  StreamHeap(const cuda::Driver& driver, cuda::Ledger& ledger, CUdevice device, CUcontext context, size_t total_bytes)
      : driver_(driver),
        ledger_(ledger),
        device_(device),
        context_(context),
        total_bytes_(total_bytes),
        memory_(driver) {}
  StreamHeap(const StreamHeap&) = delete;
  StreamHeap& operator=(const StreamHeap&) = delete;

  // Reserves addresses. False: the device or the system has none to give, and nothing else may be called.
  bool Init();

  CUdevice device() const { return device_; }
  CUcontext context() const { return context_; }
  size_t total_bytes() const { return total_bytes_; }
  // Whether the address lies in the range, in use or not.
  bool Owns(CUdeviceptr address) const { return address - memory_.base() < memory_.size(); }
  // All addresses that it may hand out. Nothing outside the process and its devices' contexts can reach them: they were
  // made without a handle to export.
  cuda::AddressRange range() const {
    return cuda::AddressRange::Of(reinterpret_cast<const void*>(memory_.base()), memory_.size());
  }

  // Memory for work of the stream, which is of this device, is not capturing, and is alive; `bytes` is at least 1.
  // 0: there is none. Aligned to 512 bytes (S31). *how says where it came from.
  CUdeviceptr Allocate(const StreamName& stream, size_t bytes, Source* how);

  // The block goes back behind what was submitted to the stream so far. False: no block of the program's begins there
  // (S34), and nothing has happened. *bytes is what was asked for.
  bool Free(CUdeviceptr address, const StreamName& stream, size_t* bytes);
  // The same for a block on which all work has run: the caller has waited for it.
  bool FreeDone(CUdeviceptr address, size_t* bytes);

  // Waits for all work of the device so far. False: the thread may not wait, or the driver answers with an error.
  bool WaitForAll() { return PassBehindAll(); }

  // Where the live block that holds the address begins, and what was asked for. False: none does.
  bool RangeOf(CUdeviceptr address, CUdeviceptr* begin, size_t* bytes);

  // Before the stream is destroyed: what it had is nobody's, once its work has run (S38).
  void StreamEnds(const StreamName& stream);

  // The number of the last free so far; and that all up to a number have run, as a wait for the whole device showed
  // that began behind it.
  uint64_t Frees() {
    const std::lock_guard lock(mutex_);
    DrainAll();
    return clock_;
  }
  void HaveRun(uint64_t frees) {
    const std::lock_guard lock(mutex_);
    if (frees > passed_) PassAll(frees);
  }

  // Gives memory back to the driver that nobody's work is on, as far as fences tell (S39), as long as so much stays
  // reserved. How much went back, in bytes.
  size_t Trim(size_t keep_bytes);
  // The same behind all work of the device, which the calling thread waits for. False in *waited: it may not wait.
  size_t TrimBehindAll(size_t keep_bytes, bool* waited);

  // The device may use the heap's memory, now and later.
  CUresult Open(CUdevice device) {
    const cuda::InContext in(driver_, context_);
    return memory_.Open(device);
  }

  // Gives back everything: the device is being reset, and no work is left. False: the driver refuses; may be tried
  // again, and nothing else may be called.
  bool Clear() { return memory_.Clear(); }

  HeapFigures Figures();
  // The most that was used since this was asked last.
  size_t UsedSinceLastAsked();
  void ResetMostUsed();
  void ResetMostReserved();

 private:
  static constexpr Owner kNoOwner = UINT16_MAX;

  // All frees up to `at` have run when the event has.
  struct Fence {
    CUevent event = nullptr;
    uint64_t at = 0;
  };
  struct Hash {
    size_t operator()(const StreamName& name) const {
      return std::hash<CUstream>()(name.stream) ^ (name.id * 0x9E3779B97F4A7C15U);
    }
  };

  struct Named {
    StreamName name;
    Owner owner = kNoOwner;
  };
  // A stream that has ended, and the last free of its time: what it owns is not another's before that has run.
  struct Ended {
    Owner owner = 0;
    uint64_t at = 0;
  };
  // The memory of one handle, live and not the program's: in the hands of the thread that gives it back or moves it.
  struct Piece {
    AddressSpace* space = nullptr;
    BlockId block = 0;
    PhysicalMemory::Handle handle = {};
  };
  static constexpr Owner kMostOwners = 4096;
  static constexpr Owner kOrphans = kFirstStream;  // no stream's: its blocks are anybody's when they have passed
  static constexpr size_t kPiecesAtOnce = 256;     // of idle memory that go back without new memory of the host
  static constexpr size_t kMostFences = 8;
  static constexpr size_t kLastNamed = 32;
  // Memory is moved before the driver has none left where more than this share of what is reserved is idle, and as
  // long as what has been moved is at most so many times what is reserved: a loop whose requests are of ever new sizes
  // comes to its end with that.
  static constexpr uint64_t kIdleShare = 33;
  static constexpr uint64_t kMostMoved = 4;

  AddressSpace& SpaceFor(uint64_t bytes) { return bytes <= Slabs::kMost ? small_ : large_; }
  // Where a space begins in the range.
  uint64_t StartOf(const AddressSpace& space) const { return &space == &large_ ? small_.size() : 0; }

  // Under the lock:
  Owner OwnerOf(const StreamName& stream);
  CUdeviceptr TakeReady(Owner owner, uint64_t bytes);
  CUdeviceptr TakeFrom(Owner owner, Owner whose, uint64_t bytes, uint64_t freed_by);
  CUdeviceptr TakeFree(Owner owner, uint64_t bytes);
  void DrainAll();
  void DrainMine();
  void TakeBack(const Magazines::Freed& freed);
  bool OthersHave(Owner owner, uint64_t bytes);
  BlockId TakeHole(Owner owner, uint64_t bytes, bool* beside);
  // False: memory of the host, or records, ran out before all was taken. What was taken by then is in `pieces`.
  bool TakeIdle(uint64_t most, std::vector<Piece>* pieces);
  // Bytes that went back. *all: no other call would find more.
  size_t TrimOnce(size_t keep_bytes, bool* all);
  bool IsWorthMoving(uint64_t bytes);
  void PutDown(const Piece& piece, bool gone);
  void PassAll(uint64_t up_to);
  bool FreeAs(CUdeviceptr address, Owner owner, uint64_t freed_at, size_t* bytes);
  void Keep(CUevent event);

  // Without it:
  void CountUsed(uint64_t bytes);
  CUdeviceptr AllocateSlowly(const StreamName& stream, Owner owner, uint64_t bytes, Source* how);
  bool Poll();
  // What new memory is made of: memory of the driver's, or, first, idle memory from elsewhere in the range.
  enum class From : uint8_t { kDriver, kIdleIfMuch, kIdle };
  CUresult Grow(Owner owner, uint64_t bytes, From from, Source* how);
  CUdeviceptr TakeBehind(const StreamName& stream, Owner owner, uint64_t bytes);
  bool PassBehindAll();
  bool Record(Fence* fence);

  const cuda::Driver& driver_;
  cuda::Ledger& ledger_;
  const CUdevice device_;
  const CUcontext context_;
  const size_t total_bytes_;
  PhysicalMemory memory_;

  SpinningMutex mutex_;
  AddressSpace small_;
  AddressSpace large_;
  Slabs slabs_{};
  uint64_t clock_ = 0;   // of frees
  uint64_t passed_ = 0;  // all up to here have run
  std::unordered_map<StreamName, Owner, Hash> owners_;
  std::array<Named, kLastNamed> last_named_{};  // those that were asked for last, each in the place of its name
  Owner next_owner_ = kOrphans + 1;
  std::vector<Ended> ended_;
  std::vector<Owner> unused_owners_;
  std::vector<Fence> fences_;  // recorded, the oldest first
  std::vector<CUevent> spare_events_;
  // With room that is made once: where the host has no memory left, the device's still goes back.
  std::vector<BlockId> idle_;
  std::vector<Piece> spare_pieces_;
  Magazines magazines_;
  std::atomic<uint64_t> used_{0};
  std::atomic<uint64_t> most_used_{0};
  std::atomic<uint64_t> used_lately_{0};
  uint64_t most_reserved_ = 0;
  uint64_t moved_ = 0;  // bytes, so far
};

}  // namespace slipstream::allocator
