// Device memory where a copy's bytes wait for their turn, so that their DMA need not wait for the caller's stream.
//
// Blocks of kBlockBytes, leased to a copy and used again when its fence passed, and the stream that fills them. Memory
// is taken from what the device has free, never from what it is short of, and once it was wanted back none is taken
// again.
//
// Threading: any thread; Grow by one at a time. No lock is held while memory is made, freed or waited for (S55).
// Ownership: blocks belong to the context that they were made in; a reset of the device takes them along.
// Errors: what fails leaves less staging memory, or none. Grow alone needs memory of the host (std::bad_alloc, and
// nothing was taken): without any, what was taken still goes back.
// Source of the rules: S07 (the destination is written in the caller's order), S36 (no allocation fails because of it).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "policy/transfer_plan.h"
#include "transfer/driver.h"
#include "transfer/fence.h"
#include "transfer/ring.h"

namespace slipstream::transfer {

class DeviceStaging {
 public:
  static constexpr size_t kBlockBytes = size_t{8} << 20;
  static constexpr size_t kSegmentBytes = policy::kDeviceSegmentBytes;
  static_assert(kBlockBytes % Ring::kSlotBytes == 0);

  explicit DeviceStaging(const Driver& driver) : driver_(driver) {}

  // Whether the device has so little free memory that none is taken, and what was taken goes back.
  static bool IsShort(size_t free, size_t total);
  // Takes a segment more, in the calling thread's context; false: the device is short of memory, or a call failed, and
  // there will be none.
  bool Grow();
  // Whether there is, or may be, any.
  bool closed() const { return closed_.load(std::memory_order_acquire); }
  // Bytes in all, which GiveBack would free.
  size_t bytes() const { return bytes_.load(std::memory_order_acquire); }
  // Fills blocks; waits for nobody's work but what the whole context is made to wait for. Null before Grow.
  CUstream stream() const { return stream_.load(std::memory_order_acquire); }

  // A free block; 0: none. Waits for nothing.
  CUdeviceptr Take();
  // The blocks are read up to `fence`; an empty one: nobody can say, and they are not used again.
  void Commit(const std::vector<CUdeviceptr>& blocks, const FenceRef& fence);

  // Waits for what is in flight, and gives all memory back to the driver that no copy holds at this moment; none is
  // taken again. Whether there was any. Where fences do not tell, `all_has_run` is called, without a lock: it waits for
  // all work of the context so far, or says that it cannot.
  bool GiveBack(const std::function<bool()>& all_has_run);
  // The device was reset: its memory is gone.
  void Forget();

 private:
  struct Block {
    CUdeviceptr memory;
    FenceRef fence;     // empty: free, but for what the next line says
    uint64_t unfenced;  // not 0: nobody could say when it has been read; the number of that commit
  };

  // Waits for every fence that a block had, one after the other.
  void WaitForFences();
  void ClearUnfenced(const std::function<bool()>& all_has_run);
  // A segment of which every block is free, which is the caller's then; 0: there is none.
  CUdeviceptr TakeIdleSegment();

  const Driver& driver_;
  std::atomic<CUstream> stream_{nullptr};
  std::atomic<size_t> bytes_{0};
  std::atomic<bool> closed_{false};
  std::mutex mutex_;
  std::vector<CUdeviceptr> segments_;
  std::vector<Block> blocks_;  // those that nobody holds; the one that was used last is taken first
  uint64_t unfenced_ = 0;      // of the last commit without a fence
};

}  // namespace slipstream::transfer
