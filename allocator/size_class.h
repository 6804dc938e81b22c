// Which free list a block of a size is in, and which ones may serve a request.
//
// Eight classes to a power of two, so a class holds sizes that differ by an eighth at most.
// Threading: pure functions.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace slipstream::allocator {

inline constexpr size_t kClassesPerPower = 8;
inline constexpr size_t kSizeClasses = 64 * kClassesPerPower;

// The class of a block of `bytes` (at least 1).
constexpr size_t SizeClassOf(size_t bytes) {
  const auto power = static_cast<size_t>(std::bit_width(bytes | 1) - 1);
  const size_t above = bytes - (size_t{1} << power);
  const size_t step = power >= 3 ? above >> (power - 3) : above << (3 - power);
  return power * kClassesPerPower + step;
}

// A large block may be larger than what was asked for by an eighth, and by no more than kMostWaste: what is not asked
// for cannot be used by anybody while the block is live. Sizes below kExactBelow come again as they were, and there a
// program's access behind the end of its memory stays the error that it was.
inline constexpr size_t kExactBelow = size_t{2} << 20;
inline constexpr size_t kMostWaste = size_t{32} << 20;

// What a block takes of the device's memory: the driver makes those of more than 1 MiB of pieces of 2 MiB that they
// share with nobody (measured on an H200; tests/conformance/queries_test.cpp holds it against the device at hand).
// Smaller ones share a piece, and count as what they are.
constexpr size_t TakenFromDriver(size_t bytes) {
  constexpr size_t kPiece = size_t{2} << 20;
  return bytes > kPiece / 2 ? (bytes + kPiece - 1) / kPiece * kPiece : bytes;
}

constexpr size_t LargestFor(size_t bytes) {
  return bytes < kExactBelow ? bytes : bytes + std::min(bytes / 8, kMostWaste);
}

}  // namespace slipstream::allocator
