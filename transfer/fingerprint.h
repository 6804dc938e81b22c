// A fingerprint of what a copy carries: two copies of the same bytes have the same one. It is of samples, so copies of
// different bytes may have the same one too.
//
// It reads at most kPieces pieces of kPieceBytes, spread over the memory, with its first and its last bytes; memory of
// no more than that it reads whole. That is 0.2 us where it is in the processor's caches, and some 2 us where none is.
//
// Threading: a pure function of memory that nobody writes meanwhile.
// Hazard: only for memory that the calling thread has just read, as the copy's own bytes: pinned memory that is copied
//   later may be written by the program at any time, and what looks like pageable memory may be none at all.
#pragma once

#include <cstddef>
#include <cstdint>

namespace slipstream::transfer {

inline constexpr size_t kFingerprintPieceBytes = 64;
inline constexpr size_t kFingerprintPieces = 16;

// Where a piece begins.
constexpr size_t FingerprintPieceAt(size_t bytes, size_t piece) {
  return (bytes - kFingerprintPieceBytes) / (kFingerprintPieces - 1) * piece +
         (piece == kFingerprintPieces - 1 ? (bytes - kFingerprintPieceBytes) % (kFingerprintPieces - 1) : 0);
}

// Never 0.
uint64_t FingerprintOf(const char* memory, size_t bytes);

}  // namespace slipstream::transfer
