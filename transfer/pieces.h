// Into which pieces a copy through staging memory is cut.
//
// Threading: constants and a pure function.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transfer/copy_workers.h"
#include "transfer/ring.h"

namespace slipstream::transfer {

inline constexpr uint32_t kPiecesAhead = 3;               // for each thread: one that it copies, and what it takes next
static_assert(64 * kPiecesAhead <= CopyJob::kMostAhead);  // of the most threads that the policy knows

// Small enough that a copy of a few MiB has some for every thread; a long copy is faster in longer ones (measured on an
// H200's host: 256 MiB at 32 GB/s, not 24).
inline constexpr size_t kPieceBytes = size_t{512} << 10;
inline constexpr size_t kLongPieceBytes = size_t{1} << 20;
inline constexpr size_t kLongCopyBytes = size_t{32} << 20;
static_assert(Ring::kSlotBytes % kLongPieceBytes == 0);

constexpr size_t PieceBytesOf(size_t bytes) { return bytes < kLongCopyBytes ? kPieceBytes : kLongPieceBytes; }

}  // namespace slipstream::transfer
