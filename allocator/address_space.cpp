#include "allocator/address_space.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

namespace slipstream::allocator {

// Zeroed pages of the system's, which take no memory until they are written.
void BitTree::Release::operator()(uint64_t* words) const { std::free(words); }
void AddressSpace::Release::operator()(BlockId* ids) const { std::free(ids); }

bool BitTree::Init(size_t bits) {
  for (auto& level : words_) {
    bits = (bits + 63) / 64;
    level.reset(static_cast<uint64_t*>(std::calloc(bits, sizeof(uint64_t))));
    if (level == nullptr) return false;
  }
  return true;
}

void BitTree::Set(size_t bit) {
  for (const auto& level : words_) {
    uint64_t& word = level[bit / 64];
    const bool known = word != 0;
    word |= uint64_t{1} << (bit % 64);
    if (known) return;
    bit /= 64;
  }
}

void BitTree::Clear(size_t bit) {
  for (const auto& level : words_) {
    uint64_t& word = level[bit / 64];
    word &= ~(uint64_t{1} << (bit % 64));
    if (word != 0) return;
    bit /= 64;
  }
}

size_t BitTree::LastUpTo(size_t bit) const {
  // Up, until there is a word with one at or before the place; then down to it.
  for (size_t level = 0; level < kLevels; ++level) {
    size_t at = bit / 64;
    if (uint64_t word = words_[level][at] & (~uint64_t{0} >> (63 - bit % 64)); word != 0) {
      for (;; word = words_[--level][at]) {
        at = at * 64 + 63 - static_cast<unsigned>(std::countl_zero(word));
        if (level == 0) return at;
      }
    }
    if (at == 0) break;
    bit = at - 1;
  }
  return SIZE_MAX;
}

bool AddressSpace::Init(uint64_t bytes) {
  const uint64_t windows = bytes >> kWindowBits;
  windows_.reset(static_cast<BlockId*>(std::calloc(windows, sizeof(BlockId))));
  if (windows_ == nullptr || !begins_.Init(windows) || !Spare(2 * kForWhatGoesBack) || !Add(kHoles) || !Add(kNobodys)) {
    return false;
  }
  size_ = bytes;
  const BlockId all = New();
  blocks_[all].bytes = bytes;
  first_ = last_ = all;
  Index(all);
  Link(all);
  return true;
}

// -- records

bool AddressSpace::Spare(size_t blocks) {
  try {
    if (blocks_.empty()) blocks_.resize(1);  // 0 is no block
    if (unused_count_ + blocks_.capacity() - blocks_.size() < blocks) blocks_.reserve(2 * blocks_.size() + blocks);
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

bool AddressSpace::Add(Owner owner) {
  if (owner < bins_.size() && bins_[owner] != nullptr) return true;
  try {
    if (owner >= bins_.size()) {
      bytes_.resize(owner + size_t{1});
      bins_.resize(owner + size_t{1});
    }
    bins_[owner] = std::make_unique<FreeBins>();
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

// There is a spare one.
BlockId AddressSpace::New() {
  if (unused_ != 0) {
    const BlockId id = unused_;
    unused_ = blocks_[id].next;
    --unused_count_;
    blocks_[id] = Block{};
    return id;
  }
  blocks_.emplace_back();
  return static_cast<BlockId>(blocks_.size() - 1);
}

void AddressSpace::Delete(BlockId id) {
  blocks_[id] = Block{};
  blocks_[id].next = unused_;
  unused_ = id;
  ++unused_count_;
}

// -- by address

void AddressSpace::Index(BlockId id) {
  const size_t window = blocks_[id].offset >> kWindowBits;
  BlockId& first = windows_[window];
  if (first == 0) {
    begins_.Set(window);
  } else if (blocks_[first].offset < blocks_[id].offset) {
    return;
  }
  first = id;
}

void AddressSpace::Unindex(BlockId id) {
  const Block& block = blocks_[id];
  const size_t window = block.offset >> kWindowBits;
  if (windows_[window] != id) return;
  const bool another = block.after != 0 && blocks_[block.after].offset >> kWindowBits == window;
  windows_[window] = another ? block.after : 0;
  if (!another) begins_.Clear(window);
}

BlockId AddressSpace::Containing(uint64_t offset) const {
  if (offset >= size_) return 0;
  const size_t window = offset >> kWindowBits;
  BlockId id = windows_[window];
  if (id == 0 || blocks_[id].offset > offset) {
    // The last one that begins in a window before; there is one, because the first block begins at 0.
    id = windows_[begins_.LastUpTo(window - 1)];
  }
  while (blocks_[id].end() <= offset) id = blocks_[id].after;
  return id;
}

BlockId AddressSpace::LiveAt(uint64_t offset) const {
  if (offset >= size_) return 0;
  const size_t window = offset >> kWindowBits;
  for (BlockId id = windows_[window]; id != 0 && blocks_[id].offset <= offset; id = blocks_[id].after) {
    if (blocks_[id].offset == offset) return blocks_[id].live ? id : 0;
  }
  return 0;
}

// -- by size

void AddressSpace::Link(BlockId id) {
  Block& block = blocks_[id];
  FreeBins& bins = *bins_[block.owner];
  const size_t bin = FreeBins::Of(block.bytes);
  block.previous = 0;
  block.next = bins.head(bin);
  if (block.next != 0) blocks_[block.next].previous = id;
  bins.SetHead(bin, id);
  bytes_[block.owner] += block.bytes;
}

void AddressSpace::Unlink(BlockId id) {
  Block& block = blocks_[id];
  if (block.next != 0) blocks_[block.next].previous = block.previous;
  if (block.previous != 0) {
    blocks_[block.previous].next = block.next;
  } else {
    bins_[block.owner]->SetHead(FreeBins::Of(block.bytes), block.next);
  }
  bytes_[block.owner] -= block.bytes;
}

BlockId AddressSpace::Find(Owner owner, uint64_t bytes) const {
  if (owner >= bins_.size() || bins_[owner] == nullptr) return 0;
  const FreeBins& bins = *bins_[owner];
  const size_t own = FreeBins::Of(bytes);
  BlockId best = 0;
  BlockId id = bins.head(own);
  for (unsigned looks = 0; id != 0 && looks < kLook; id = blocks_[id].next, ++looks) {
    const Block& block = blocks_[id];
    if (block.bytes < bytes || (best != 0 && block.bytes >= blocks_[best].bytes)) continue;
    best = id;
    if (block.bytes == bytes) break;
  }
  if (best != 0) return best;
  if (const size_t larger = bins.Next(own + 1); larger != FreeBins::kNone) return bins.head(larger);
  while (id != 0 && blocks_[id].bytes < bytes) id = blocks_[id].next;
  return id;
}

// -- blocks

// The first bytes of a block that is in no bin become a block of their own, which is the one that keeps the name; the
// rest is new, and in no bin either. There is a spare record.
BlockId AddressSpace::SplitOff(BlockId id, uint64_t bytes) {
  const BlockId rest = New();
  Block& block = blocks_[id];
  Block& behind = blocks_[rest];
  behind = block;
  behind.offset += bytes;
  behind.bytes -= bytes;
  behind.before = id;
  block.bytes = bytes;
  block.after = rest;
  (behind.after != 0 ? blocks_[behind.after].before : last_) = rest;
  Index(rest);
  return rest;
}

BlockId AddressSpace::MakeLive(BlockId id) {
  Block& block = blocks_[id];
  block.live = true;
  block.asked = 0;
  live_bytes_ += block.bytes;
  return id;
}

BlockId AddressSpace::Take(Owner owner, uint64_t bytes) {
  const BlockId id = Find(owner, bytes);
  if (id == 0 || !Spare(1 + kForWhatGoesBack)) return 0;
  Unlink(id);
  if (blocks_[id].bytes - bytes >= kLeast) Link(SplitOff(id, bytes));
  return MakeLive(id);
}

BlockId AddressSpace::TakeAt(uint64_t offset, uint64_t bytes) {
  BlockId id = Containing(offset);
  if (id == 0 || blocks_[id].live || blocks_[id].end() - offset < bytes || !Spare(2)) return 0;
  Unlink(id);
  if (blocks_[id].offset < offset) {
    const BlockId rest = SplitOff(id, offset - blocks_[id].offset);
    Link(id);
    id = rest;
  }
  if (blocks_[id].bytes > bytes) Link(SplitOff(id, bytes));
  return MakeLive(id);
}

// Two neighbours that are in no bin become one, under the name of the one before.
BlockId AddressSpace::Join(BlockId before, BlockId after) {
  Block& block = blocks_[before];
  const Block& behind = blocks_[after];
  Unindex(after);
  block.bytes += behind.bytes;
  block.after = behind.after;
  block.owner = std::max(block.owner, behind.owner);
  block.freed_at = std::max(block.freed_at, behind.freed_at);
  (block.after != 0 ? blocks_[block.after].before : last_) = before;
  Delete(after);
  return before;
}

// A block that is in no bin becomes the owner's, and one with those of its neighbours that it may be one with.
void AddressSpace::MakeFree(BlockId id, Owner owner, uint64_t freed_at) {
  Block& block = blocks_[id];
  block.owner = owner;
  block.freed_at = freed_at;
  const auto joins = [this, owner](BlockId neighbour) {
    if (neighbour == 0 || blocks_[neighbour].live) return false;
    const Owner whose = blocks_[neighbour].owner;
    return whose == owner || (whose == kNobodys && owner >= kFirstStream);
  };
  // Behind nobody's there may be another one of the owner's.
  while (joins(blocks_[id].after)) {
    Unlink(blocks_[id].after);
    Join(id, blocks_[id].after);
  }
  while (joins(blocks_[id].before)) {
    Unlink(blocks_[id].before);
    id = Join(blocks_[id].before, id);
  }
  Link(id);
}

void AddressSpace::Free(BlockId id, Owner owner, uint64_t freed_at) {
  Block& block = blocks_[id];
  live_bytes_ -= block.bytes;
  block.live = false;
  block.asked = 0;
  MakeFree(id, owner, freed_at);
}

void AddressSpace::Pass(Owner from, uint64_t up_to) {
  if (from >= bins_.size() || bins_[from] == nullptr) return;
  const FreeBins& bins = *bins_[from];
  for (size_t bin = bins.Next(0); bin != FreeBins::kNone; bin = bins.Next(bin + 1)) {
    for (BlockId id = bins.head(bin); id != 0;) {
      const BlockId next = blocks_[id].next;
      if (blocks_[id].freed_at <= up_to) {
        Unlink(id);
        // What it may become one with is nobody's, and so in other bins.
        MakeFree(id, kNobodys, 0);
      }
      id = next;
    }
  }
}

}  // namespace slipstream::allocator
