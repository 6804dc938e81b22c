#include "allocator/slabs.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

namespace slipstream::allocator {

void Slabs::Release::operator()(SlabId* ids) const { std::free(ids); }

bool Slabs::Init(AddressSpace& space) {
  places_ = space.size() >> kSlabBits;
  at_.reset(static_cast<SlabId*>(std::calloc(places_, sizeof(SlabId))));
  if (at_ == nullptr) return false;
  space_ = &space;
  try {
    slabs_.resize(1);  // 0 is no slab
  } catch (const std::bad_alloc&) {
    return false;
  }
  return Add(kNobodys);
}

bool Slabs::Add(Owner owner) {
  const size_t needed = (owner + size_t{1}) * kClasses.size();
  try {
    if (partial_.size() < needed) partial_.resize(needed);
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

size_t Slabs::ClassOf(uint64_t bytes) {
  const uint64_t units = (bytes + kSlotUnit - 1) / kSlotUnit;
  return static_cast<size_t>(std::lower_bound(kClasses.begin(), kClasses.end(), units) - kClasses.begin());
}

uint64_t Slabs::SlotFor(uint64_t bytes) { return kClasses[ClassOf(bytes)] * kSlotUnit; }

void Slabs::Link(SlabId id) {
  Slab& slab = slabs_[id];
  SlabId& first = Partial(slab.owner, slab.slot_class);
  slab.previous = 0;
  slab.next = first;
  if (first != 0) slabs_[first].previous = id;
  first = id;
}

void Slabs::Unlink(SlabId id) {
  const Slab& slab = slabs_[id];
  if (slab.next != 0) slabs_[slab.next].previous = slab.previous;
  (slab.previous != 0 ? slabs_[slab.previous].next : Partial(slab.owner, slab.slot_class)) = slab.next;
}

size_t Slabs::SlotOf(const Slab& slab, uint64_t offset) const {
  const uint64_t inside = offset - slab.offset;
  const uint64_t slot = kClasses[slab.slot_class] * kSlotUnit;
  return inside % slot == 0 && inside / slot < slab.slots ? inside / slot : SIZE_MAX;
}

uint64_t Slabs::Take(Owner owner, uint64_t bytes) {
  const size_t slot_class = ClassOf(bytes);
  const SlabId id = Partial(owner, slot_class);
  if (id == 0) return kNowhere;
  Slab& slab = slabs_[id];
  const auto word = std::find_if(slab.free.begin(), slab.free.end(), [](uint64_t bits) { return bits != 0; });
  const auto bit = static_cast<unsigned>(std::countr_zero(*word));
  *word &= *word - 1;
  const size_t slot = static_cast<size_t>(word - slab.free.begin()) * 64 + bit;
  const uint64_t units = (bytes + kSlotUnit - 1) / kSlotUnit;
  slab.asked[slot] = static_cast<uint8_t>(units);
  live_bytes_ += units * kSlotUnit;
  if (++slab.used == slab.slots) Unlink(id);
  return slab.offset + slot * kClasses[slot_class] * kSlotUnit;
}

bool Slabs::CanAdd(uint64_t bytes) {
  const uint64_t slots = kSlabBytes / kSlotUnit / kClasses[ClassOf(bytes)];
  const std::unique_ptr<uint8_t[]> asked(new (std::nothrow) uint8_t[slots]);
  if (asked == nullptr) return false;
  try {
    if (unused_ == 0 && slabs_.size() == slabs_.capacity()) slabs_.reserve(2 * slabs_.size());
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

bool Slabs::AddSlab(Owner owner, uint64_t bytes, BlockId block, uint64_t freed_at) {
  const size_t slot_class = ClassOf(bytes);
  const auto slots = static_cast<uint16_t>(kSlabBytes / kSlotUnit / kClasses[slot_class]);
  std::unique_ptr<uint8_t[]> asked(new (std::nothrow) uint8_t[slots]());
  if (asked == nullptr) return false;
  SlabId id = unused_;
  if (id == 0) {
    try {
      slabs_.emplace_back();
    } catch (const std::bad_alloc&) {
      return false;
    }
    id = static_cast<SlabId>(slabs_.size() - 1);
  } else {
    unused_ = slabs_[id].next;
  }
  Slab& slab = slabs_[id];
  slab = Slab{};
  slab.offset = (*space_)[block].offset;
  slab.block = block;
  slab.owner = owner;
  slab.slot_class = static_cast<uint8_t>(slot_class);
  slab.slots = slots;
  slab.last_free = freed_at;
  slab.asked = std::move(asked);
  for (size_t slot = 0; slot < slots; ++slot) slab.free[slot / 64] |= uint64_t{1} << (slot % 64);
  at_[slab.offset >> kSlabBits] = id;
  Link(id);
  return true;
}

uint64_t Slabs::AskedAt(uint64_t offset) const {
  if (offset >> kSlabBits >= places_) return 0;
  const SlabId id = at_[offset >> kSlabBits];
  if (id == 0) return 0;
  const size_t slot = SlotOf(slabs_[id], offset);
  return slot == SIZE_MAX ? 0 : slabs_[id].asked[slot] * kSlotUnit;
}

uint64_t Slabs::BeginOf(uint64_t offset) const {
  if (offset >> kSlabBits >= places_) return kNowhere;
  const SlabId id = at_[offset >> kSlabBits];
  if (id == 0) return kNowhere;
  const Slab& slab = slabs_[id];
  const uint64_t slot = kClasses[slab.slot_class] * kSlotUnit;
  const uint64_t begin = slab.offset + (offset - slab.offset) / slot * slot;
  return AskedAt(begin) != 0 ? begin : kNowhere;
}

void Slabs::Free(uint64_t offset, Owner owner, uint64_t freed_at) {
  Slab& slab = slabs_[at_[offset >> kSlabBits]];
  uint8_t& asked = slab.asked[SlotOf(slab, offset)];
  live_bytes_ -= asked * kSlotUnit;
  asked = 0;
  if (slab.owner == owner || owner == kNobodys) {
    Return(offset, freed_at);
    return;
  }
  try {
    away_.push_back({.offset = offset, .owner = owner, .freed_at = freed_at});
  } catch (const std::bad_alloc&) {
    // The slot is never used again, which is right for any work that may still be on it.
  }
}

// A slot whose work is the slab's owner's or has run may be used again.
void Slabs::Return(uint64_t offset, uint64_t freed_at) {
  const SlabId id = at_[offset >> kSlabBits];
  Slab& slab = slabs_[id];
  const size_t slot = SlotOf(slab, offset);
  slab.free[slot / 64] |= uint64_t{1} << (slot % 64);
  slab.last_free = std::max(slab.last_free, freed_at);
  if (slab.used-- == slab.slots) Link(id);
  const bool another = slab.next != 0 || slab.previous != 0;
  if (slab.used == 0 && another) GiveBack(id);
}

void Slabs::GiveBack(SlabId id) {
  Unlink(id);
  Slab& slab = slabs_[id];
  at_[slab.offset >> kSlabBits] = 0;
  space_->Free(slab.block, slab.owner, slab.last_free);
  slab.asked.reset();
  slab.next = unused_;
  unused_ = id;
}

void Slabs::Pass(Owner from, uint64_t up_to) {
  // Those that may be used again come last, and leave.
  const auto passed = std::partition(away_.begin(), away_.end(), [from, up_to](const Away& away) {
    return away.owner != from || away.freed_at > up_to;
  });
  for (auto away = passed; away != away_.end(); ++away) Return(away->offset, 0);
  away_.erase(passed, away_.end());
}

void Slabs::GiveBackEmpty() {
  for (SlabId& first : partial_) {
    for (SlabId id = first; id != 0;) {
      const SlabId next = slabs_[id].next;
      if (slabs_[id].used == 0) GiveBack(id);
      id = next;
    }
  }
}

}  // namespace slipstream::allocator
