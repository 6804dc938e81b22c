// Small blocks: slots of one size in slabs, which are pieces of an AddressSpace. A model's many small tensors live
// long, and one of them in the middle of a large free range would split it for as long.
//
// A slab is one stream's. What that stream frees in it the stream has again at once (S38); what another stream frees
// waits until that stream's work has run up to then (Pass), and until then its slab stays.
//
// Threading: one thread at a time, the same as the AddressSpace's.
// Ownership: the space is the user's and outlives this.
// Errors: what would need memory that cannot be had answers that there is no slot; a free never fails.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "allocator/address_space.h"

namespace slipstream::allocator {

class Slabs {
 public:
  // Larger blocks are the space's own.
  static constexpr uint64_t kMost = uint64_t{32} << 10;
  static constexpr uint64_t kSlabBytes = uint64_t{256} << 10;
  static constexpr uint64_t kNowhere = UINT64_MAX;

  // Slots are at offsets of the space, all of whose blocks are to be slabs. False: there is no memory for bookkeeping.
  bool Init(AddressSpace& space);
  // Before the owner's first slab. False: there is no memory for it.
  bool Add(Owner owner);

  // The offset of a slot of at least `bytes` (1 to kMost) in a slab of the owner's. kNowhere: there is none; another
  // slab is needed.
  uint64_t Take(Owner owner, uint64_t bytes);
  // Whether the host has the memory that AddSlab needs.
  bool CanAdd(uint64_t bytes);
  // Makes the block, a live one of kSlabBytes, a slab of the owner's for slots of at least `bytes`; `freed_at`: work
  // before free number so much may still be on it, in front of the owner's. False: there is no memory for the
  // bookkeeping, and the block stays the caller's.
  bool AddSlab(Owner owner, uint64_t bytes, BlockId block, uint64_t freed_at);

  // What the program asked for at the offset. 0: nothing of its begins there.
  uint64_t AskedAt(uint64_t offset) const;
  // Where the slot begins that is in use and holds the offset. kNowhere: none does.
  uint64_t BeginOf(uint64_t offset) const;
  // The slot at the offset, which AskedAt knows, was freed on the owner's stream, as free number `freed_at`; or by
  // nobody, when its work has run. Slabs without a slot in use go back to the space, but for the last of its size and
  // owner.
  void Free(uint64_t offset, Owner owner, uint64_t freed_at);
  // What `from` freed up to then in slabs of others may be used again.
  void Pass(Owner from, uint64_t up_to);
  // The last ones too.
  void GiveBackEmpty();

  uint64_t live_bytes() const { return live_bytes_; }

  // The size of the slots that serve `bytes`.
  static uint64_t SlotFor(uint64_t bytes);

 private:
  using SlabId = uint32_t;
  static constexpr unsigned kSlabBits = 18;
  static constexpr size_t kSlotUnit = 512;
  static constexpr size_t kWords = kSlabBytes / kSlotUnit / 64;
  // Sizes of slots, in units: steps of a half or a third, so that a class wastes a third at most.
  static constexpr std::array<uint16_t, 12> kClasses{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};

  struct Slab {
    uint64_t offset = 0;
    BlockId block = 0;  // of the space
    SlabId next = 0;    // with a free slot, of the same class and owner; or unused
    SlabId previous = 0;
    Owner owner = kNobodys;
    uint8_t slot_class = 0;
    uint16_t slots = 0;
    uint16_t used = 0;                    // in the program's hands, and freed by others
    uint64_t last_free = 0;               // by its owner's clock
    std::array<uint64_t, kWords> free{};  // a bit a slot
    std::unique_ptr<uint8_t[]> asked;     // a slot each, in units; 0: it is not the program's
  };
  struct Away {
    uint64_t offset;
    Owner owner;
    uint64_t freed_at;
  };
  struct Release {
    void operator()(SlabId* ids) const;
  };

  static size_t ClassOf(uint64_t bytes);
  SlabId& Partial(Owner owner, size_t slot_class) { return partial_[owner * kClasses.size() + slot_class]; }
  void Link(SlabId id);
  void Unlink(SlabId id);
  void Return(uint64_t offset, uint64_t freed_at);
  void GiveBack(SlabId id);
  size_t SlotOf(const Slab& slab, uint64_t offset) const;

  AddressSpace* space_ = nullptr;
  std::vector<Slab> slabs_;
  SlabId unused_ = 0;
  std::vector<SlabId> partial_;  // the first slab with a free slot, by owner and class
  std::vector<Away> away_;
  std::unique_ptr<SlabId[], Release> at_;  // by offset, in slabs
  size_t places_ = 0;
  uint64_t live_bytes_ = 0;
};

}  // namespace slipstream::allocator
