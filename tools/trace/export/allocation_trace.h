// What a process did to memory of devices, as text that can be replayed through any allocator. A line each, in the
// order of time, fields apart by one space:
//
//   slipstream-allocations 1               the first line
//   # ...                                  a remark
//   m THREAD DEVICE STREAM BLOCK BYTES     a block was allocated: in this stream, where the call has one
//   f THREAD DEVICE STREAM BLOCK           it was freed
//   s THREAD DEVICE STREAM                 the host waited for the stream
//   d THREAD DEVICE                        the host waited for the device
//
// Threads and streams are numbers from 0 as they came; the stream 0 is the default stream, also where a call has none.
// Blocks are numbers from 1, each of one allocation. What was allocated before the recording is not there, and neither
// are managed and physical memory. A block that was not freed has no f.
//
// Threading: one thread.
// Memory: the blocks that are there at one time.
// Errors: the reader's and the file's own.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tools/trace/db/database_reader.h"
#include "tools/trace/export/export_file.h"
#include "tools/trace/export/trace_rows.h"

namespace slipstream::trace_export {

// The processes of `facts` that allocated any, by their places there.
std::vector<size_t> ProcessesWithAllocations(trace_db::DatabaseReader& database, const TraceFacts& facts);

// `progress` as that of TraceRows::Visit. Of the counts, `blocks`, `frees` and `waits`.
RowCounts WriteAllocations(trace_db::DatabaseReader& database, const TraceProcess& process, ExportFile* file,
                           const std::function<bool(uint64_t, uint64_t)>& progress);

}  // namespace slipstream::trace_export
