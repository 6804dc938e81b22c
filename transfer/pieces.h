// Into which pieces a copy through staging memory is cut.
//
// Threading: constants and a pure function.
#pragma once

#include <cstddef>
#include <cstdint>

#include "policy/transfer_plan.h"
#include "transfer/copy_workers.h"
#include "transfer/ring.h"

namespace slipstream::transfer {

inline constexpr uint32_t kPiecesAhead = 3;  // for each thread: one that it copies, and what it takes next
// How long a piece is, `slipstream policy explain` says too.
using policy::kSmallCopyBytes;
using policy::PieceBytesOf;
static_assert(Ring::kSlotBytes % policy::kShortestPieceBytes == 0 &&
              Ring::kSlotBytes % policy::kLongestPieceBytes == 0);

// Pieces that lie side by side go to the device in one DMA of so many bytes at least, unless they are the last: each
// costs the thread that sends it 2 us (measured on an H200).
inline constexpr size_t kLeastSent = size_t{512} << 10;
static_assert(Ring::kSlotBytes % kLeastSent == 0);
// A job knows a piece's place until so many further ones were given: of the most threads that the policy knows, and
// what is not sent yet.
static_assert(size_t{64} * kPiecesAhead + kLeastSent / policy::kShortestPieceBytes <= CopyJob::kMostAhead);

}  // namespace slipstream::transfer
