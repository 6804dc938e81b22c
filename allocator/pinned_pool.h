// The pool under cudaHostAlloc, cudaMallocHost and cudaFreeHost: pinned memory is kept when the program frees it and
// handed out again, and large memory is filled first and registered then. docs/pinned-memory.md says it for
// users.
//
// The processor writes pinned memory without asking anybody, so a block goes back to the program only when everything
// that was submitted before its free is seen to have run (S42): its fences are asked on the host, and no wait of the
// device will do. A block of the program's that is not in the pool's hands yet comes into them at its first free.
//
// Memory of our own is ordinary memory, filled and then registered (host_memory.h). The driver tells it from
// an allocation in three ways, which are answered here: its flags, its free, and that it can be unregistered.
//
// Threading: every function from any thread, before or after a context exists (S56). No lock is held while calling the
//   driver (S55).
// Ownership: never destroyed. Real functions come as arguments; nothing here calls upward but through Surroundings.
// Errors: an error that the program sees comes from the real call, so that the runtime's last error is what it would
// be.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "allocator/contexts.h"
#include "allocator/decision.h"
#include "allocator/driver.h"
#include "allocator/mutant.h"
#include "allocator/pinned_block.h"
#include "allocator/size_class.h"
#include "allocator/surroundings.h"
#include "allocator/trimmer.h"
#include "policy/policy.h"

namespace slipstream::allocator {

class PinnedPool {
 public:
  using CountDecision = void (*)(Decision decision, uint64_t bytes);

  // Makes no CUDA call and starts no thread. `threads`: that fill large memory, the calling one included (at least 1).
  // Never destroyed.
  PinnedPool(const policy::Allocator& policy, const Surroundings& surroundings, int threads, CountDecision count);
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  // cudaHostAlloc, and cudaMallocHost with no flags. `real()` makes the program's call.
  template <typename Real>
  cudaError_t Allocate(const Real& real, void** address, size_t bytes, unsigned flags) {
    if (address == nullptr || bytes == 0 || !Pools(flags)) return real();
    if (void* const block = Take(bytes, flags)) {
      *address = block;
      return cudaSuccess;
    }
    const cudaError_t result = real();
    if (result == cudaSuccess) Adopt(*address, bytes, flags);
    return result;
  }

  // cudaFreeHost. `real(address)` makes the program's call.
  template <typename Real>
  cudaError_t Free(const Real& real, void* address) {
    if (address == nullptr) return real(address);
    switch (Park(static_cast<char*>(address))) {
      case Freed::kDone:
        return cudaSuccess;
      case Freed::kTwice:
        // No allocation begins in the middle of an idle block, so the answer is that of any bad pointer (S34).
        return real(static_cast<char*>(address) + 1);
      case Freed::kNot:
        break;
    }
    return real(address);
  }

  // Before cudaHostGetDevicePointer: the block is not used again (S42).
  void TakesDeviceAddress(const void* address);

  // cudaHostGetFlags. `real(flags, address)` makes a call.
  template <typename Real>
  cudaError_t GetFlags(const Real& real, unsigned* flags, void* address) {
    void* const like = LikeAllocation(address, true);
    return real(flags, like != nullptr ? like : address);
  }

  // cudaHostUnregister, of what the program did not register. `real(address)` makes a call.
  template <typename Real>
  cudaError_t Unregister(const Real& real, void* address) {
    void* const like = LikeAllocation(address, false);
    return real(like != nullptr ? like : address);
  }

  // Around the reset of the current device, or of the one that is named, which `real()` makes: its blocks are gone
  // (S35).
  template <typename Real>
  cudaError_t DeviceReset(const Real& real, CUdevice device = kCurrentDevice) {
    const Trimmer::Pause pause(trimmer_);
    std::vector<PinnedBlock*> forgotten = ForgetDevice(&device);
    const cudaError_t result = real();
    if (device >= 0) contexts_.EndReset(device);
    // Where the reset failed, the device may still use the memory.
    DeleteAll(&forgotten, result == cudaSuccess);
    return result;
  }

  // The process is exiting: no CUDA call is made any more (S53), but a free of our own memory still has to succeed.
  void Stop();

 private:
  enum class Freed : uint8_t {
    kDone,
    kTwice,
    kNot,  // the real call is to do it
  };

  // What a request found among idle blocks.
  struct Found {
    PinnedBlock* block = nullptr;  // to be handed out
    bool pending = false;          // there is one that has not passed
    bool broken = false;           // the driver answers with an error
  };

  // Mapped memory is there to be used through its device address.
  static bool Pools(unsigned flags) {
    return (flags & ~(unsigned{cudaHostAllocPortable} | unsigned{cudaHostAllocWriteCombined})) == 0;
  }
  bool Alive() const { return !stopped_.load(std::memory_order_acquire); }
  void Count(Decision decision, size_t bytes) const { count_(decision, bytes); }

  // -- allocations
  void* Take(size_t bytes, unsigned flags);
  void Adopt(void* address, size_t bytes, unsigned flags);
  Found Find(size_t bytes, const PinnedKey& key);
  PinnedBlock* TakeIdle(size_t bytes, const PinnedKey& key);
  PinnedBlock* Make(size_t bytes, const PinnedKey& key);
  bool MayMake(size_t bytes, unsigned flags);
  PinnedBlock* AllocateHere(size_t bytes, const PinnedKey& key);
  PinnedBlock* Insert(const PinnedBlock& block);
  void* HandOut(PinnedBlock* block, Decision how);
  unsigned long long IdOf(const char* address) const;
  bool IsWhatItWas(const PinnedBlock& block) const;
  bool Passed(PinnedBlock* block, bool* broken);

  // -- frees
  Freed Park(char* address);
  Freed FreeWhileExiting(char* address);
  Decision WhyNotPark(size_t bytes, bool device_address_taken);
  bool WaitForDevice();
  bool Fence(PinnedBlock* block);
  bool PutIdle(PinnedBlock* block, bool newest);

  // -- memory that goes back to the system (pinned_pool_release.cpp)
  bool ReleaseRegistered(PinnedBlock* block, UnderCapture capture);
  size_t ReleaseIdle(PinnedBlock* block, Decision why);
  PinnedBlock* TakeOlderThan(uint64_t time_ns);
  void ReclaimAll();
  void Forget(PinnedBlock* block);
  void Trim();
  // `of`: kCurrentDevice, or a device; kCurrentDevice comes back where nothing was forgotten.
  std::vector<PinnedBlock*> ForgetDevice(CUdevice* of);
  static void DeleteAll(std::vector<PinnedBlock*>* blocks, bool unmap);

  // A page that the driver allocated with the flags of the memory at the address, if that is registered memory of ours:
  // what it answers of the page it would answer of an allocation. Null: it is not, or there is no page to be had.
  void* LikeAllocation(void* address, bool anywhere_inside);

  const policy::Allocator policy_;
  const Surroundings surroundings_;
  const int threads_;
  const CountDecision count_;
  std::atomic<bool> stopped_{false};
  Contexts contexts_;
  const Driver& driver_ = contexts_.driver();
  std::atomic<int> may_register_{-1};  // whether every device reaches registered memory by its host address

  std::mutex mutex_;
  std::map<const char*, PinnedBlock*> blocks_;                // owns them, but for a taken or idle one that it lacks
  std::array<std::vector<PinnedBlock*>, kSizeClasses> idle_;  // the newest last
  std::vector<Fences> spare_fences_;
  std::array<void*, 2> like_{};  // by whether it is portable
  std::atomic<size_t> idle_bytes_{0};
  Trimmer trimmer_;
};

}  // namespace slipstream::allocator
