// Makes slipstream the tool of the program's own NVTX calls. At its first call, every library with NVTX compiled in
// looks for the tool that NVTX_INJECTION64_PATH names, and hands its functions over (NVTX 3, nvtxInit.h).
//
// The handles of domains and registered strings are numbers of their names.
//
// Threading: any thread; Attach for one library at a time (NVTX sees to it).
// Hazard: Attach runs wherever a library first names a range, before CUDA is used and in processes that never use it.
//   It reserves what it needs, and does nothing else.
#pragma once

#include "tracer/ranges/program_ranges.h"

namespace slipstream::tracer {

// The process's; made at the first call, of this or of AttachToNvtx. Null: there is no memory.
ProgramRanges* MakeProgramRanges();

// Takes over a library's NVTX functions. `get_table`: NVTX's NvtxGetExportTableFunc_t. False: the library's calls do
// nothing from then on, as without a tool.
bool AttachToNvtx(const void* (*get_table)(unsigned));

// While this lives, the calling thread's first call of NVTX is slipstream's own (nvtx_domain.h): slipstream must not be
// its own tool.
class OwnNvtxCall {
 public:
  OwnNvtxCall();
  ~OwnNvtxCall();
  OwnNvtxCall(const OwnNvtxCall&) = delete;
  OwnNvtxCall& operator=(const OwnNvtxCall&) = delete;
};

}  // namespace slipstream::tracer
