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

inline constexpr uint32_t kPiecesAhead = 3;               // for each thread: one that it copies, and what it takes next
static_assert(64 * kPiecesAhead <= CopyJob::kMostAhead);  // of the most threads that the policy knows

// How long a piece is, `slipstream policy explain` says too.
using policy::PieceBytesOf;
static_assert(Ring::kSlotBytes % policy::kPieceBytes == 0 && Ring::kSlotBytes % policy::kLongPieceBytes == 0);

}  // namespace slipstream::transfer
