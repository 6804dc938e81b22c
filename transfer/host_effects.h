// Work of the device that the host can see the results of without asking: copies to pinned memory, host functions,
// graphs that hold such, and the like, of every stream of the process (S10, S03, S04).
//
// What one thread submits to one stream runs in order, so of each kind its newest fence stands for the older ones, with
// a range that covers them all.
// Threading: any thread. The lock is held while the driver is asked whether a fence has passed; nothing that
// synchronizes is called under it (S55).
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "transfer/address_range.h"
#include "transfer/fence.h"
#include "transfer/stream_ref.h"

namespace slipstream::transfer {

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

  // Drops what is finished; true: something is left.
  bool Prune();

  std::atomic<uint32_t> count_{0};
  std::mutex mutex_;
  std::vector<Entry> entries_;
  static constexpr size_t kMany = 64;
  size_t many_ = kMany;  // at so many, those that are done are looked for
};

}  // namespace slipstream::transfer
