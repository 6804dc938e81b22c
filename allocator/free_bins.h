// Free blocks of one owner by size: a two-level segregated fit. A bin holds blocks whose sizes differ by a 32nd at
// most; two words of bits find the next bin with a block in it, whatever the sizes.
//
// Sizes are in units of 512 bytes, the alignment of every block (S31). What a bin holds is a list of the user's: here
// is which bins there are and which of them have a first block.
// Threading: none of its own.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace slipstream::allocator {

class FreeBins {
 public:
  using Head = uint32_t;  // the first block of a bin; 0: there is none

  static constexpr unsigned kSubBits = 5;
  static constexpr unsigned kSubBins = 1U << kSubBits;
  static constexpr unsigned kLevels = 32;
  static constexpr size_t kUnit = 512;
  static constexpr size_t kBins = size_t{kLevels} * kSubBins;
  static constexpr size_t kNone = kBins;

  // The bin of blocks of `bytes`, a multiple of kUnit from kUnit to 2^44: one of exact sizes below 16 KiB, and of a
  // 32nd above.
  static constexpr size_t Of(uint64_t bytes) {
    const uint64_t units = bytes / kUnit;
    if (units < kSubBins) return units;
    const auto power = static_cast<unsigned>(std::bit_width(units)) - 1;
    const size_t level = power - kSubBits + 1;
    return level * kSubBins + ((units >> (power - kSubBits)) & (kSubBins - 1));
  }

  // The first bin from `bin` on that has a block; kNone: no bin.
  size_t Next(size_t bin) const {
    if (bin >= kBins) return kNone;
    const size_t level = bin / kSubBins;
    if (const uint32_t in_level = filled_[level] & (~uint32_t{0} << (bin % kSubBins)); in_level != 0) {
      return level * kSubBins + static_cast<unsigned>(std::countr_zero(in_level));
    }
    const uint64_t above = level + 1 < kLevels ? levels_ & (~uint64_t{0} << (level + 1)) : 0;
    if (above == 0) return kNone;
    const auto found = static_cast<unsigned>(std::countr_zero(above));
    return found * size_t{kSubBins} + static_cast<unsigned>(std::countr_zero(filled_[found]));
  }

  Head head(size_t bin) const { return heads_[bin]; }
  void SetHead(size_t bin, Head head) {
    heads_[bin] = head;
    const size_t level = bin / kSubBins;
    const uint32_t bit = uint32_t{1} << (bin % kSubBins);
    filled_[level] = head != 0 ? filled_[level] | bit : filled_[level] & ~bit;
    levels_ = filled_[level] != 0 ? levels_ | uint64_t{1} << level : levels_ & ~(uint64_t{1} << level);
  }

 private:
  uint64_t levels_ = 0;
  std::array<uint32_t, kLevels> filled_{};
  std::array<Head, kBins> heads_{};
};

}  // namespace slipstream::allocator
