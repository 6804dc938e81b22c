// RMM's pool as an allocator of a replay: a module of its own, libreplay_rmm.so, so that a process that replays through
// another allocator has neither RMM nor the static CUDA runtime inside it.
//
// Threading: as ReplayCalls.
// Ownership: the pools stay until the process ends.
// Errors: RMM's exceptions end in the module, as CUDA error codes.
#pragma once

#include "tools/dev/bench/replay_turns.h"

namespace bench {

inline constexpr char kReplayRmmLibrary[] = "libreplay_rmm.so";
// The name of a ReplayRmmFunction in it.
inline constexpr char kReplayRmmSymbol[] = "ReplayRmmCalls";
using ReplayRmmFunction = const ReplayCalls*();

}  // namespace bench
