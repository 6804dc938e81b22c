// Work of the device that the host can see the results of without asking: copies to pinned memory, host functions,
// graphs that hold such, and the like, of every stream of the process (S10, S03, S04).
//
// What one thread submits to one stream runs in order, so of each kind its newest fence stands for the older ones, with
// a range that covers them all.
//
// Threading: any thread. What a thread adds lies behind a lock of its own, so threads that add meet in none; who asks
//   looks into one after the other, and takes the locks of those that hold something. Work that another thread enqueues
//   meanwhile may be in the answer or not, as it may run before the question or behind it. A lock is held while the
//   driver is asked whether a fence has passed; nothing that synchronizes is called under it (S55).
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "cuda/address_range.h"
#include "cuda/fence.h"
#include "cuda/sharded.h"
#include "cuda/stream_ref.h"

namespace slipstream::cuda {

enum class HostEffectKind : uint8_t {
  kHostCode,  // a host function may run: it may write anything
  kWrite,     // the device writes the range
  kRead,      // the device reads the range
};

class HostEffects {
 public:
  // `fence` is behind the work on its stream, recorded by `thread`; what the default streams are called is not enough,
  // for every context has its own. Without a fence (the driver refused one) it counts as unfinished for good.
  void Add(const StreamKey& stream, uint64_t thread, HostEffectKind kind, const AddressRange& range, FenceRef fence);

  // Whether unfinished work of the kind may write the range.
  bool MayWrite(HostEffectKind kind, const AddressRange& range);

  // False: some other stream than `stream` has unfinished effects. Else the fences of those of `stream`.
  bool OnlyOn(const StreamKey& stream, std::vector<FenceRef>* fences);

  // False: something unfinished has no fence. Else the fences of all that is unfinished, on every stream of the
  // context; null: of every context.
  bool All(CUcontext context, std::vector<FenceRef>* fences);

  // The fences of what is unfinished on `stream`, whatever the other ones do. Only the broken rule S10other asks.
  void On(const StreamKey& stream, std::vector<FenceRef>* fences);

  // The stream is being destroyed: its handle may come back as another stream.
  void Retire(CUstream handle);

 private:
  struct Entry {
    StreamKey stream;
    uint64_t thread;
    HostEffectKind kind;
    AddressRange range;
    FenceRef fence;
  };

  // What the threads of one shard have added.
  struct Shard {
    static constexpr size_t kMany = 64;

    std::atomic<uint32_t> count{0};
    std::mutex mutex;
    std::vector<Entry> entries;
    size_t many = kMany;  // at so many, those that are done are looked for

    bool Empty() const { return count.load(std::memory_order_acquire) == 0; }
    // With the lock held: drops what is finished.
    void Prune();
    void SetCount() { count.store(static_cast<uint32_t>(entries.size()), std::memory_order_release); }
  };

  // Whether all_are(entry) is true of everything unfinished.
  template <typename AllAre>
  bool AllUnfinished(const AllAre& all_are);

  Sharded<Shard> shards_;
};

}  // namespace slipstream::cuda
