// Device memory where a copy's bytes wait for their turn: those on their way to the device, so that their DMA need not
// wait for the caller's stream, and those on their way to the host, as they were when it was their turn. Each copy has
// one lease in one piece, so that the caller's stream sees one operation (S62).
//
// Leases are cut from segments and used again when their fence passed. Memory is taken from what the device has free,
// never from what it is short of, and once it was wanted back none is taken again.
//
// Threading: any thread; Grow by one at a time. No lock is held while memory is made, freed or waited for (S55); it is
//   while the driver is asked whether fences have passed.
// Ownership: segments belong to the context that they were made in; a reset of the device takes them along.
// Errors: what fails leaves less staging memory, or none. Grow alone needs memory of the host (std::bad_alloc, and
// nothing was taken): without any, what was taken still goes back.
// Source of the rules: S07 (the destination is written in the caller's order), S36 (no allocation fails because of it).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda/driver.h"
#include "cuda/fence.h"
#include "cuda/quiet_free.h"
#include "policy/transfer_plan.h"

namespace slipstream::transfer {

class DeviceStaging {
 public:
  static constexpr size_t kGranuleBytes = size_t{1} << 20;  // leases are whole ones
  static constexpr size_t kSegmentBytes = policy::kDeviceSegmentBytes;
  static_assert(kSegmentBytes % kGranuleBytes == 0);

  explicit DeviceStaging(const cuda::Driver& driver) : driver_(driver), quiet_free_(driver) {}

  // Whether the device has so little free memory that none is taken, and what was taken goes back.
  static bool IsShort(size_t free, size_t total);
  // Takes a segment more, in the calling thread's context: `most` bytes, or as many as are free, and `least` at least;
  // both multiples of kSegmentBytes. False: there are not so many (TooLong), or the device is short of memory or a call
  // failed, and there will be none (closed).
  bool Grow(size_t least, size_t most);
  // Whether there is, or may be, any.
  bool closed() const { return closed_.load(std::memory_order_acquire); }
  // Whether Grow found no room for so many in one piece.
  bool TooLong(size_t bytes) const { return bytes > longest_.load(std::memory_order_acquire); }
  // Bytes in all, which GiveBack would free; and of the largest segment.
  size_t bytes() const { return bytes_.load(std::memory_order_acquire); }
  size_t largest() const { return largest_.load(std::memory_order_acquire); }
  // Fills leases; and brings them to the host. Each waits for nobody's work but what the whole context is made to wait
  // for. Null before Grow.
  CUstream stream() const { return stream_.load(std::memory_order_acquire); }
  CUstream fetch_stream() const { return fetch_stream_.load(std::memory_order_acquire); }

  // Memory for so many bytes, in one piece; 0: none is free. Waits for nothing.
  CUdeviceptr Take(size_t bytes);
  // The lease is in use up to `fence`; an empty one: nobody can say, and it is not used again.
  void Commit(CUdeviceptr lease, const cuda::FenceRef& fence);
  // It was not used.
  void Cancel(CUdeviceptr lease);

  // Waits for what is in flight, and gives all memory back to the driver that no copy holds at this moment; none is
  // taken again. Whether there was any. Where fences do not tell, `all_has_run` is called, without a lock: it waits for
  // all work of the context so far, or says that it cannot.
  bool GiveBack(const std::function<bool()>& all_has_run);
  // The same of what no copy is in flight in, waiting for nothing.
  bool GiveBackIdle();
  // The device was reset: its memory is gone.
  void Forget();

 private:
  struct Range {
    CUdeviceptr memory = 0;
    size_t bytes = 0;
    CUdeviceptr segment = 0;
    bool held = false;      // by a copy
    cuda::FenceRef fence;   // empty: free, but for what the next line says
    uint64_t unfenced = 0;  // not 0: nobody could say when it is free; the number of that commit

    bool IsFree() const { return !held && !fence && unfenced == 0; }
  };

  bool MakeStreams();
  // With the lock held: asks what is in flight, and puts free neighbors together.
  void Collect();
  CUdeviceptr Cut(size_t index, size_t bytes);
  Range* FindHeld(CUdeviceptr lease);
  // Waits for every fence that a range had, one after the other.
  void WaitForFences();
  void ClearUnfenced(const std::function<bool()>& all_has_run);
  // A segment of which everything is free, which is the caller's then; 0: there is none.
  CUdeviceptr TakeIdleSegment();

  bool FreeIdleSegments();

  const cuda::Driver& driver_;
  cuda::QuietFree quiet_free_;
  std::atomic<CUstream> stream_{nullptr};
  std::atomic<CUstream> fetch_stream_{nullptr};
  std::atomic<size_t> bytes_{0};
  std::atomic<size_t> largest_{0};
  std::atomic<size_t> longest_{SIZE_MAX};
  std::atomic<bool> closed_{false};
  std::mutex mutex_;
  std::vector<Range> ranges_;  // segment by segment, in the order of addresses; room for as many as there can be
  CUdeviceptr next_ = 0;       // behind the last lease: what lies there is the oldest
  uint64_t unfenced_ = 0;      // of the last commit without a fence
};

// Memory of device staging that one copy has; 0: none. Without End, as where memory of the host ran out, nobody can say
// when it is free.
class DeviceLease {
 public:
  DeviceLease(DeviceStaging& staging, CUdeviceptr memory) : staging_(staging), memory_(memory) {}
  ~DeviceLease() { End({}); }
  DeviceLease(const DeviceLease&) = delete;
  DeviceLease& operator=(const DeviceLease&) = delete;

  CUdeviceptr memory() const { return memory_; }
  // In use up to the fence.
  void End(const cuda::FenceRef& fence) {
    if (memory_ != 0) staging_.Commit(std::exchange(memory_, 0), fence);
  }
  // It was not used.
  void Cancel() {
    if (memory_ != 0) staging_.Cancel(std::exchange(memory_, 0));
  }

 private:
  DeviceStaging& staging_;
  CUdeviceptr memory_;
};

}  // namespace slipstream::transfer
