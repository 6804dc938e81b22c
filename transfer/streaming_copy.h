// A copy whose destination is written past the processors' caches, by non-temporal stores: for memory that the device,
// or nobody for now, reads next. A DMA out of memory whose lines some other core has just written waits for each of
// them (4 MiB at 14 GB/s on an H100's host, 48 when they were streamed), and a line that is written whole need not be
// read before.
//
// Threading: any thread. When it returns every store is ordered before whatever the thread stores next: a flag that
// tells another thread, which then enqueues a DMA, is enough.
// Hazard: as memcpy: the ranges do not overlap, a bad address faults here. For processors with AVX alone (CanStream).
#pragma once

#include <cstddef>

namespace slipstream::transfer {

// Whether this processor has what it takes.
bool CanStream();

void CopyStreaming(char* to, const char* from, size_t bytes);

}  // namespace slipstream::transfer
