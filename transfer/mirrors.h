// Mirrors: pinned copies of sources that do not change.
//
// Weights that lie in the host's memory and are used on the device are copied there at every step, the same bytes each
// time. From the third copy on such a source gets a mirror in pinned memory, and as long as the kernel says that none
// of its pages has been written since before the mirror was filled, a copy is one DMA out of the mirror (S80). Where
// some have been, those alone are read again, if the device has read the mirror; where more than a quarter has, twice
// in a row, the source changes too often, and is left alone for sixteen times as many copies as before.
//
// The kernel's account is of whole pages: what lies in front of the first one and behind the last one is compared. And
// it does not see writes through pages that were pinned before (policy/write_watch.h): no mirror is filled where a
// transport or an io_uring could have some, and samples of the source are compared at every copy. Should they differ
// where the kernel says that nothing was written, there are no mirrors any more.
//
// Threading: any thread. A mirror is held by one copy at a time; another one of the same source goes without, and
//   nobody waits for it. The other lock is held for a few steps, while the driver is asked whether fences have passed,
//   and while the process's mappings are read. Nothing is waited for, but by GiveBack, without a lock.
// Ownership: never destroyed. Pinned memory is the owner's, who brings it (Add) and takes it back (GiveBack).
// Errors: std::bad_alloc. What the kernel has told may be lost then: no mirror may be asked for any more.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda/fence.h"
#include "policy/write_watch.h"

namespace slipstream::transfer {

class Mirrors {
 public:
  // Of less there is little to gain.
  static constexpr size_t kLeastBytes = size_t{1} << 20;

  // Copies memory of the program's into a mirror.
  using CopyIn = std::function<void(char* to, const char* from, size_t bytes)>;
  // Whether somebody may have pages pinned by which it writes: then there are no mirrors any more.
  using MayWriteByPage = std::function<bool()>;

  // `most_bytes`: pinned in all, 0: there are none.
  explicit Mirrors(uint64_t most_bytes) : most_bytes_(most_bytes) {}
  Mirrors(const Mirrors&) = delete;
  Mirrors& operator=(const Mirrors&) = delete;

  bool Considers(size_t bytes) const {
    return bytes >= kLeastBytes && bytes <= most_bytes_ && !closed_.load(std::memory_order_acquire);
  }

 private:
  static constexpr uint64_t kFirstAt = 3;

  struct Block {
    char* memory = nullptr;  // pinned; null: there is none
    size_t bytes = 0;
    cuda::FenceRef last;  // of the copy that read it last
  };
  // Of one source. With `mutex` but where it says otherwise.
  struct Mirror {
    Mirror(const char* memory, size_t size) : source(memory), bytes(size) {}

    std::mutex mutex;
    const char* const source;
    const size_t bytes;
    Block block;
    bool asked = false;           // for a block, which was not there
    bool filled = false;          // the block has what the source had when its pages were protected, which are watched
    uint64_t samples = 0;         // of what the block has
    uint32_t often = 0;           // times in a row that more than a quarter was written
    uint64_t seen = 0;            // samples of the source, at the copy before
    uint64_t in_a_row = 0;        // copies with these samples
    uint64_t since = 0;           // the number of the first of them
    uint64_t next_at = kFirstAt;  // so many of them, and it gets a block
    std::atomic<uint64_t> used{0};  // the number of the last copy; without the lock
  };

 public:
  // What a copy holds while it sends. Empty: it goes without a mirror.
  class Held {
   public:
    Held() = default;
    explicit operator bool() const { return mirror_ != nullptr; }
    const char* memory() const { return mirror_->block.memory; }

   private:
    friend class Mirrors;
    Held(std::shared_ptr<Mirror> mirror, std::unique_lock<std::mutex> lock)
        : mirror_(std::move(mirror)), lock_(std::move(lock)) {}
    std::shared_ptr<Mirror> mirror_;
    std::unique_lock<std::mutex> lock_;
  };

  // A copy of the source is about to be made, of which Considers has said yes, and which no unfinished work writes.
  // What is held has all of its bytes. `samples`: of them (fingerprint.h).
  Held Find(const char* source, size_t bytes, uint64_t samples, const CopyIn& copy_in,
            const MayWriteByPage& may_write_by_page);

  // The mirror is read up to `fence`; an empty one: nobody can say, and its memory is never used again.
  void Sent(Held held, const cuda::FenceRef& fence);

  // Whether a block is wanted; and how long one that is wanted no longer then, 0: none.
  bool AnyWanted() const { return any_wanted_.load(std::memory_order_acquire); }
  size_t TakeWanted();
  // A block that was wanted, in pinned memory.
  void Add(char* memory, size_t bytes);
  // Bytes of all blocks that were brought.
  size_t pinned() const { return pinned_.load(std::memory_order_acquire); }
  // No more memory can be pinned; those that are there stay.
  void NoMore();

  // There are none any more. Waits for the copies that read them; `unpin` gets every block that nobody holds.
  void GiveBack(const std::function<void(char* memory, size_t bytes)>& unpin);

 private:
  static constexpr size_t kMostSources = 4096;
  static constexpr uint64_t kLongerEachTime = 16;
  static constexpr uint32_t kMostOften = 2;

  using Key = std::pair<const char*, size_t>;

  void Close(const char* why);
  std::shared_ptr<Mirror> Of(const char* source, size_t bytes);
  // With the mirror's lock held. Whether it has a block now.
  bool GetBlock(Mirror& mirror, const MayWriteByPage& may_write_by_page);
  Block TakeFree(size_t bytes);
  Block TakeFromIdle(const Mirror& mirror);
  bool Watch(Mirror& mirror);
  void Unwatch(Mirror& mirror);
  // The block is free for others. For long: it takes more copies for another one than it took for this one.
  void LetGo(Mirror& mirror);
  void LetGoForLong(Mirror& mirror);
  // Whether the process's memory may be read for later: false, and there are no mirrors any more.
  bool MayRead(const MayWriteByPage& may_write_by_page);
  // Brings what was written since it was read last, or all, into the block. False: not all of it is watched any more,
  // or it may not be read.
  bool Read(Mirror& mirror, bool all, const CopyIn& copy_in, const MayWriteByPage& may_write_by_page);
  // Whether the block has the source's bytes.
  bool Fill(Mirror& mirror, const CopyIn& copy_in, const MayWriteByPage& may_write_by_page);
  bool Refresh(Mirror& mirror, const CopyIn& copy_in, const MayWriteByPage& may_write_by_page);

  const uint64_t most_bytes_;
  std::atomic<bool> closed_{false};
  std::atomic<uint64_t> copies_{0};
  std::atomic<size_t> pinned_{0};
  std::mutex mutex_;  // of what follows; taken behind a mirror's
  policy::WriteWatch watch_;
  std::map<Key, std::shared_ptr<Mirror>> sources_;
  std::map<uintptr_t, Mirror*> watched_;  // those that are filled, by the end of their pages
  std::vector<Block> free_;
  std::vector<size_t> wanted_;
  std::atomic<bool> any_wanted_{false};
  bool no_more_ = false;
};

}  // namespace slipstream::transfer
