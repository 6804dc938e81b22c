// The pool underneath the program's own allocator: whole driver allocations, kept when the program frees them and
// handed out again. Start reading here; docs/allocator.md says it for users.
//
// A block goes back to the program only behind everything that was submitted before its free: a free records an event
// of every context that could have used the block (S30), and an allocation takes blocks whose events have passed; else
// it asks the driver; else it makes all later work of those contexts wait for a block's events. Nobody waits on the
// host. What cannot be kept to goes the program's own way: the real call.
//
// The rules have numbers (S30 to S37); each stands beside the code that keeps it, with its mutant (mutant.h).
//
// Threading: every function from any thread, before or after a context exists (S56). No lock is held while calling
//   anything that may wait for the device (S55).
// Ownership: never destroyed. Real functions come as arguments; nothing here calls upward.
// Errors: an error that the program sees comes from the real call, so that the runtime's last error is what it would
// be.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/block_map.h"
#include "allocator/decision.h"
#include "allocator/device_pool.h"
#include "allocator/driver_times.h"
#include "allocator/reports.h"
#include "allocator/trimmer.h"
#include "cuda/clock.h"
#include "cuda/contexts.h"
#include "cuda/driver.h"
#include "cuda/ledger.h"
#include "cuda/mutant.h"
#include "policy/policy.h"

namespace slipstream::allocator {

class Segments {
 public:
  // Makes no CUDA call and starts no thread. Never destroyed, nor is `ledger`.
  Segments(const policy::Allocator& policy, cuda::Ledger& ledger, const Reports& reports);
  Segments(const Segments&) = delete;
  Segments& operator=(const Segments&) = delete;

  // cudaMalloc. `real(address, bytes)` makes the program's call. *by_driver: the driver may have less now.
  template <typename Real>
  cudaError_t Allocate(const Real& real, void** address, size_t bytes, bool* by_driver) {
    *by_driver = true;
    if (address == nullptr || bytes == 0) return real(address, bytes);
    if (void* const block = Take(bytes, by_driver)) {
      *address = block;
      return cudaSuccess;
    }
    const cudaError_t result = real(address, bytes);
    if (result == cudaSuccess) Adopt(*address, bytes);
    return result;
  }

  // cudaFree. `real(address)` makes the program's call.
  template <typename Real>
  cudaError_t Free(const Real& real, void* address) {
    if (address == nullptr) return real(address);
    switch (Park(address)) {
      case Freed::kParked:
        return cudaSuccess;
      case Freed::kTwice:
        // S34: no allocation begins in the middle of an idle block, so the answer is that of any bad pointer.
        return real(static_cast<char*>(address) + 1);
      case Freed::kNot:
        break;
    }
    const uint64_t start = cuda::NowNs();
    const cudaError_t result = real(address);
    if (result == cudaSuccess) frees_.Took(cuda::NowNs() - start);
    return result;
  }

  // An allocation that does not come from the pool found no memory on the device: the driver gets back what is idle
  // (S36). False: there was nothing, so that another attempt ends as the first.
  bool GiveBack(CUdevice device = cuda::kCurrentDevice);

  // The driver is about to take memory of the current device where no call could be made again: it gets what is idle.
  void MakeRoom();

  // The driver will take so many bytes of the current device by itself, for what `kind` says (a cudaLimit below 3):
  // they are left to it, besides what the policy leaves.
  void SetAside(int kind, size_t bytes);

  // After a cudaMemGetInfo that succeeded: idle memory is free for the program (S32).
  void AddIdle(size_t* free, const size_t* total);

  // Before memory is exported to another process; the address may lie inside an allocation (S33).
  void Exports(const void* address);

  // Around the reset of the current device, or of the one that is named, which `real()` makes: its blocks are gone with
  // it (S35).
  template <typename Real>
  cudaError_t DeviceReset(const Real& real, CUdevice device = cuda::kCurrentDevice) {
    // The thread that gives memory back uses the device unknown to the program.
    const Trimmer::Pause pause(trimmer_);
    const DevicePool* const pool = ForgetDevice(device);
    const cudaError_t result = real();
    if (pool != nullptr) contexts_.EndReset(pool->device());
    return result;
  }

  // From here on the program's own calls are made (S66). What is idle goes back to the driver in its time.
  void StandAside() { contexts_.ServeNoMore(); }

  // The process is exiting: no CUDA call is made any more (S53).
  void Stop();

 private:
  enum class Freed : uint8_t {
    kParked,
    kTwice,
    kNot,  // the real call is to do it
  };

  // What a request found among idle blocks.
  struct Found {
    Block* block = nullptr;  // to be handed out
    uint32_t pending = 0;    // so many were looked at that have not passed, and put back
    bool broken = false;     // the driver answers with an error
  };

  bool Alive() const { return !stopped_.load(std::memory_order_acquire); }
  template <typename Visit>
  void ForEachPool(const Visit& visit) {
    for (const std::atomic<DevicePool*>& place : pools_) {
      if (DevicePool* const pool = place.load(std::memory_order_acquire)) visit(*pool);
    }
  }
  void Count(Decision decision, size_t bytes) const { reports_.decided(decision, bytes); }
  // The driver was spared a call of this sort.
  void CountSpared(Decision decision, const DriverTimes& sort) const {
    if (const uint64_t fastest = sort.FastestNs(); fastest != 0) CountTime(decision, fastest);
  }
  void CountTime(Decision decision, uint64_t time_ns) const {
    if (reports_.timed != nullptr) reports_.timed(decision, time_ns);
  }
  void Report(DevicePool& pool, bool at_once);

  // -- allocations
  void* Take(size_t bytes, bool* by_driver);
  void Adopt(void* address, size_t bytes);
  DevicePool* PoolOfCurrent();
  DevicePool* PoolOf(CUdevice device) const;
  Found Find(DevicePool& pool, size_t bytes);
  void FindIn(DevicePool& pool, size_t shard, size_t bytes, size_t most, Found* found);
  Block* TakeBehind(DevicePool& pool, size_t bytes);
  // `time_ns`: how long the driver took.
  CUresult Grow(DevicePool& pool, size_t bytes, Block** block, uint64_t* time_ns);
  void Reserve(DevicePool& pool);
  void* HandOut(DevicePool& pool, Block* block, Decision how, uint64_t driver_ns = 0);
  bool IsWhatItWas(const Block& block);
  // Of a device's memory, one part in so many is little.
  static constexpr size_t kShort = 8;
  size_t MostFor(const DevicePool& pool, size_t bytes) const;

  // -- frees
  Freed Park(void* address);
  Decision WhyNotPark(const DevicePool& pool, const Block& block);
  size_t MostIdle(const DevicePool& pool) const;
  // Memory of the device that idle blocks leave to the driver.
  size_t KeepFree(const DevicePool& pool) const { return policy_.keep_free + pool.set_aside(); }
  bool Fence(DevicePool& pool, Block* block);
  bool Passed(Block* block, bool* broken);

  DevicePool* ForgetDevice(CUdevice device);
  bool ContextsWithAccess(const DevicePool& pool, cuda::Contexts::Set* contexts);

  // -- memory that goes back to the driver (segments_trim.cpp)
  bool GiveBack(DevicePool& pool);
  size_t Reclaim(DevicePool& pool, uint64_t older_than_ns, size_t enough_bytes, Decision why,
                 DevicePool::Which which = DevicePool::Which::kAll);
  void Delete(Block* block);
  void Trim();
  bool AnythingIdle();
  void KeepReserve(DevicePool& pool);

  const policy::Allocator policy_;
  cuda::Ledger& ledger_;
  const Reports reports_;
  std::atomic<bool> stopped_{false};
  cuda::Contexts contexts_;
  const cuda::Driver& driver_ = contexts_.driver();

  DriverTimes allocations_;
  DriverTimes frees_;
  BlockMap blocks_;
  std::array<std::atomic<DevicePool*>, cuda::Contexts::kMostDevices> pools_{};
  Trimmer trimmer_;
};

}  // namespace slipstream::allocator
