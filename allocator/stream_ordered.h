// Stream-ordered memory: cudaMallocAsync and cudaFreeAsync answered by slipstream's own heaps, one a device, in place
// of the driver's default pools. Start reading here, then stream_heap.h; docs/allocator.md says it for users.
//
// A call is left to the driver where the heap cannot keep what it means: while its stream is being captured (S37),
// where the device's current pool is not its default one, in contexts of the program's own making, and where there is
// no memory, so that the error is the driver's (S36). Addresses that no heap knows go to the driver too, so memory of
// both kinds lives side by side; what the default pool says of itself is the sum of the two (S40).
//
// Threading: every function from any thread, before or after a context exists (S56). No lock is held while calling the
//   driver (S55).
// Ownership: never destroyed.
// Errors: those of the real calls.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/decision.h"
#include "allocator/known_streams.h"
#include "allocator/reports.h"
#include "allocator/stream_heap.h"
#include "allocator/trimmer.h"
#include "cuda/contexts.h"
#include "cuda/ledger.h"
#include "policy/policy.h"

namespace slipstream::allocator {

class StreamOrdered {
 public:
  // Makes no CUDA call and starts no thread. Never destroyed.
  StreamOrdered(const policy::Allocator& policy, cuda::Ledger& ledger, const Reports& reports);
  StreamOrdered(const StreamOrdered&) = delete;
  StreamOrdered& operator=(const StreamOrdered&) = delete;

  // cudaMallocAsync, of the device's current pool; `per_thread`: the function is of the per-thread kind. `real()` makes
  // the program's call.
  template <typename Real>
  cudaError_t Allocate(const Real& real, void** address, size_t bytes, cudaStream_t stream, bool per_thread) {
    if (address == nullptr || bytes == 0) return real();
    if (void* const block = Take(bytes, stream, per_thread, nullptr)) {
      *address = block;
      return cudaSuccess;
    }
    return real();
  }
  // cudaMallocFromPoolAsync.
  template <typename Real>
  cudaError_t AllocateFrom(const Real& real, void** address, size_t bytes, cudaMemPool_t pool, cudaStream_t stream,
                           bool per_thread) {
    if (address == nullptr || bytes == 0 || pool == nullptr) return real();
    if (void* const block = Take(bytes, stream, per_thread, pool)) {
      *address = block;
      return cudaSuccess;
    }
    return real();
  }

  // cudaFreeAsync.
  template <typename Real>
  cudaError_t Free(const Real& real, void* address, cudaStream_t stream, bool per_thread) {
    return GiveTo(address, stream, per_thread) ? cudaSuccess : real();
  }
  // cudaFree, which waits for the device.
  template <typename Real>
  cudaError_t FreeNow(const Real& real, void* address) {
    return GiveBehindAll(address) ? cudaSuccess : real();
  }

  // Around questions and orders to a pool, of which the default one of a device is ours too (S40).
  template <typename Real>
  cudaError_t GetAttribute(const Real& real, cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
    const cudaError_t result = real();
    if (result == cudaSuccess) AddAttribute(pool, attribute, value);
    return result;
  }
  template <typename Real>
  cudaError_t SetAttribute(const Real& real, cudaMemPool_t pool, cudaMemPoolAttr attribute, const void* value) {
    const cudaError_t result = real();
    if (result == cudaSuccess) TakeAttribute(pool, attribute, value);
    return result;
  }
  template <typename Real>
  cudaError_t TrimTo(const Real& real, cudaMemPool_t pool, size_t keep_bytes) {
    const cudaError_t result = real();
    if (result == cudaSuccess) TrimOf(pool, keep_bytes);
    return result;
  }
  template <typename Real>
  cudaError_t SetAccess(const Real& real, cudaMemPool_t pool, const cudaMemAccessDesc* access, size_t count) {
    const cudaError_t result = real();
    return result == cudaSuccess ? OpenAs(pool, access, count) : result;
  }
  // After a device's current pool was set.
  void PoolIsSet(int device, cudaMemPool_t pool);
  // After the current device was given access to the memory of another one (S33).
  void PeerEnabled(int peer);

  // Around a wait for all work of the current device: what was freed before it is anybody's, and a pool that is trimmed
  // next gives all of it back, as PyTorch's empty_cache counts on.
  template <typename Real>
  cudaError_t Synchronize(const Real& real) {
    StreamHeap* const heap = HeapOfThread();
    const uint64_t frees = heap != nullptr ? heap->Frees() : 0;
    const cudaError_t result = real();
    if (result == cudaSuccess && heap != nullptr) heap->HaveRun(frees);
    return result;
  }

  // After a stream was created, and before one is destroyed (S38).
  void StreamBegins(cudaStream_t stream);
  void StreamEnds(cudaStream_t stream);

  // An allocation that does not come from here found no memory on the current device: what is idle goes back (S36).
  // False: there was nothing, or the thread may not wait.
  bool GiveBack();

  // After a cudaMemGetInfo that succeeded: memory is free for the program that the driver's own pool would have given
  // back at a synchronization (S32).
  void AddIdle(size_t* free, const size_t* total);

  // Where the program's block that holds the address begins, and its bytes. False: it is none of ours (S31).
  bool RangeOf(const void* address, void** begin, size_t* bytes);

  // Around the reset of the current device, or of the one that is named (S35).
  template <typename Real>
  cudaError_t DeviceReset(const Real& real, CUdevice device = cuda::kCurrentDevice) {
    const Trimmer::Pause pause(trimmer_);
    StreamHeap* const heap = ForgetDevice(device);
    const cudaError_t result = real();
    if (heap != nullptr) EndReset(heap);
    return result;
  }

  // From here on the program's own calls are made (S66).
  void StandAside() { contexts_.ServeNoMore(); }

  // The process is exiting: no CUDA call is made any more (S53).
  void Stop();

 private:
  struct Device {
    std::atomic<StreamHeap*> heap{nullptr};
    std::atomic<CUmemoryPool> pool{nullptr};  // the driver's default one
    std::atomic<uint64_t> peers{0};           // a bit for each device that was given access to this one's memory
    std::atomic<bool> other_pool{false};      // the program allocates from a pool of its own
    std::atomic<bool> refused{false};         // no heap could be made
    std::atomic<uint64_t> threshold{0};       // cudaMemPoolAttrReleaseThreshold
  };

  // A stream, and where it is. No context: the driver does not say.
  struct Found {
    CUcontext context = nullptr;
    StreamName name;
  };

  bool Alive() const { return !stopped_.load(std::memory_order_acquire); }
  void Count(Decision decision, size_t bytes) const { reports_.decided(decision, bytes); }
  void Report(StreamHeap& heap);
  bool GiveBack(StreamHeap& heap);

  void* Take(size_t bytes, cudaStream_t stream, bool per_thread, cudaMemPool_t pool);
  bool GiveTo(void* address, cudaStream_t stream, bool per_thread);
  bool GiveBehindAll(void* address);
  StreamHeap* HeapOfContext(CUcontext context);
  StreamHeap* HeapOfThread();
  void OpenToPeers(StreamHeap& heap, CUmemoryPool pool);
  StreamHeap* MakeHeap(CUdevice device, CUcontext context);
  StreamHeap* HeapOfAddress(CUdeviceptr address);
  Device* DeviceOfPool(cudaMemPool_t pool);
  // `unless_known`: the answer where the driver has none.
  bool Capturing(CUstream stream, bool unless_known);
  Found Find(CUstream stream);

  void AddAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value);
  void TakeAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, const void* value);
  void TrimOf(cudaMemPool_t pool, size_t keep_bytes);
  cudaError_t OpenAs(cudaMemPool_t pool, const cudaMemAccessDesc* access, size_t count);
  StreamHeap* ForgetDevice(CUdevice device);
  void EndReset(StreamHeap* heap);
  uint64_t Kept(int device, StreamHeap& heap, uint64_t wanted) const;
  void Decay();
  bool AnythingIdle();

  const policy::Allocator policy_;
  cuda::Ledger& ledger_;
  const Reports reports_;
  std::atomic<bool> stopped_{false};
  cuda::Contexts contexts_;
  KnownStreams streams_;
  const cuda::Driver& driver_ = contexts_.driver();
  std::array<Device, cuda::Contexts::kMostDevices> devices_{};
  Trimmer trimmer_;
};

}  // namespace slipstream::allocator
