// Which bytes of a reserved range of addresses are whose. Bookkeeping alone: no CUDA call is made here, and what lies
// behind the addresses is the user's business.
//
// The range is divided into blocks without gaps. A block is live (the program's) or has an owner: a stream that freed
// it and may use it again at once, because its work runs in order (S38); kNobodys, when all work on it has run; kHoles,
// when there is no memory behind it. Blocks of one owner that touch are one block. Nobody's memory joins what a stream
// frees beside it: it can be used in that stream's order too, and a loop on one stream leaves no borders behind.
//
// A free is numbered by its owner's clock, so that one event of a stream tells of all of its frees up to a number:
// Pass.
//
// Threading: one thread at a time.
// Errors: what would need memory that cannot be had answers that there is no block.
// Costs: taking, freeing and finding a block do not depend on how many there are. Pass looks at what `from` has freed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "allocator/free_bins.h"

namespace slipstream::allocator {

// Of a block; good until the block is free. 0: no block.
using BlockId = uint32_t;

using Owner = uint16_t;
inline constexpr Owner kHoles = 0;
inline constexpr Owner kNobodys = 1;
inline constexpr Owner kFirstStream = 2;

// Bits by number, and which is the last one set at or before a place.
class BitTree {
 public:
  // At most 2^30. False: there is no memory for so many.
  bool Init(size_t bits);
  void Set(size_t bit);
  void Clear(size_t bit);
  // SIZE_MAX: none.
  size_t LastUpTo(size_t bit) const;

 private:
  static constexpr size_t kLevels = 5;
  struct Release {
    void operator()(uint64_t* words) const;
  };
  std::array<std::unique_ptr<uint64_t[], Release>, kLevels> words_;
};

class AddressSpace {
 public:
  // A live block has at least this many bytes, so that no two begin in one window of the index.
  static constexpr uint64_t kLeast = uint64_t{32} << 10;

  struct Block {
    uint64_t offset = 0;  // in the range
    uint64_t bytes = 0;
    BlockId before = 0;  // its neighbours by address
    BlockId after = 0;
    BlockId next = 0;  // in its owner's bin
    BlockId previous = 0;
    bool live = false;
    Owner owner = kHoles;   // while it is not live
    uint64_t freed_at = 0;  // by its owner's clock: nothing on it was freed later
    uint64_t asked = 0;     // of a live block: as SetAsked said

    uint64_t end() const { return offset + bytes; }
  };

  // A range of `bytes`, a multiple of kLeast and at most 2^44, all of it a hole. False: there is no memory for the
  // bookkeeping.
  bool Init(uint64_t bytes);
  // Before the owner's first free. kHoles and kNobodys are there from the beginning. False: there is no memory for it.
  bool Add(Owner owner);

  uint64_t size() const { return size_; }
  const Block& operator[](BlockId id) const { return blocks_[id]; }

  // A live block of `bytes` (a multiple of FreeBins::kUnit, at least kLeast) out of the owner's: of those that fit, one
  // that is hardly larger. What is left over stays the owner's, unless it is too little to be a block. 0: none fits.
  BlockId Take(Owner owner, uint64_t bytes);
  // Whether Take would find one.
  bool Has(Owner owner, uint64_t bytes) const { return Find(owner, bytes) != 0; }
  // The same of exactly these bytes, which lie in one free block of whatever owner. 0: they do not.
  BlockId TakeAt(uint64_t offset, uint64_t bytes);

  // A live block becomes the owner's.
  void Free(BlockId block, Owner owner, uint64_t freed_at);
  // What `from` freed up to then becomes nobody's.
  void Pass(Owner from, uint64_t up_to);

  // The block that holds the offset, live or not. 0: outside the range.
  BlockId Containing(uint64_t offset) const;
  // The live block that begins there; 0: none does.
  BlockId LiveAt(uint64_t offset) const;
  BlockId First() const { return first_; }
  BlockId Last() const { return last_; }

  // All blocks of an owner, in no order. `visit` changes nothing.
  template <typename Visit>
  void ForEachOf(Owner owner, const Visit& visit) const {
    if (owner >= bins_.size() || bins_[owner] == nullptr) return;
    const FreeBins& bins = *bins_[owner];
    for (size_t bin = bins.Next(0); bin != FreeBins::kNone; bin = bins.Next(bin + 1)) {
      for (BlockId id = bins.head(bin); id != 0; id = blocks_[id].next) visit(id);
    }
  }

  // Bytes of the owner's blocks, and of live ones.
  uint64_t BytesOf(Owner owner) const { return owner < bytes_.size() ? bytes_[owner] : 0; }
  uint64_t live_bytes() const { return live_bytes_; }

  // What the program asked for; 0, as it is at first: the block is live, and not the program's.
  void SetAsked(BlockId block, uint64_t bytes) { blocks_[block].asked = bytes; }

 private:
  static constexpr unsigned kWindowBits = 15;
  // A bin's blocks of different sizes that are looked at before larger ones are taken.
  static constexpr unsigned kLook = 8;

  struct Release {
    void operator()(BlockId* ids) const;
  };

  // Records that an allocation leaves for memory that goes back, which has none to make where the host has no memory.
  static constexpr size_t kForWhatGoesBack = 64;

  bool Spare(size_t blocks);
  BlockId New();
  void Delete(BlockId id);
  void Index(BlockId id);
  void Unindex(BlockId id);
  void Link(BlockId id);
  void Unlink(BlockId id);
  BlockId Find(Owner owner, uint64_t bytes) const;
  BlockId SplitOff(BlockId id, uint64_t bytes);
  BlockId MakeLive(BlockId id);
  BlockId Join(BlockId before, BlockId after);
  void MakeFree(BlockId id, Owner owner, uint64_t freed_at);

  uint64_t size_ = 0;
  std::vector<Block> blocks_;
  BlockId unused_ = 0;  // records that may be used again, linked by `next`
  size_t unused_count_ = 0;
  BlockId first_ = 0;
  BlockId last_ = 0;
  std::vector<std::unique_ptr<FreeBins>> bins_;
  std::vector<uint64_t> bytes_;
  uint64_t live_bytes_ = 0;
  std::unique_ptr<BlockId[], Release> windows_;  // the first block that begins in the window
  BitTree begins_;                               // windows in which one does
};

}  // namespace slipstream::allocator
