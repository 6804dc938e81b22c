// Numbers and names of a report as people read them, on the screen and on the page alike.
//
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tools/text/columns.h"
#include "tools/trace/report/report.h"

namespace slipstream::report {

// Columns of a table: of what a row is about, where figures follow it, and of a figure.
inline constexpr size_t kRowLabel = 41;
inline constexpr size_t kFigure = 10;

// To the right of its column.
std::string Figure(const std::string& text);

// Of a mean, or of a difference: "1.23 ms", "-4.50 us".
std::string Time(double ns);
std::string Time(int64_t ns);
// Three digits: "0.25", "12.3", "1,234".
std::string Number(double number);
// "12.3 %"; "-" of nothing.
std::string Percent(double part, double whole);
// "1 step", "7 steps"
std::string Counted(uint64_t count, const char* one, const char* many);

// A line that goes on in the next one behind six spaces; each of at most kColumns, and with its end.
std::string Wrapped(const std::string& first, const std::string& rest);

// "copies", "outside CUDA calls"
const char* Label(Part part);
// Of Sweep's host states.
const char* HostLabel(size_t host);
// "train.py:42 (step)", of at most `columns`: where it is longer, the file without its folders, with less of the
// function, without the beginning of its name. The line stays.
std::string SiteLabel(const SiteReport& site, size_t columns);
// "before train.py:42 (step)", likewise.
std::string PlaceLabel(const Place& place, size_t columns);
// The same of who asked for memory; without a line the file whose code did: "libnccl.so.2 (no line known)".
std::string HolderLabel(const HolderReport& holder, size_t columns);
// "default stream", "stream 0x55d0"
std::string StreamLabel(int64_t handle);
// "cudaMemcpyAsync, cudaStreamSynchronize, 2 more"
std::string FunctionsLabel(const SiteReport& site, size_t columns);
using text::Cut;
// "python3 (pid 7, rank 3)"
std::string FullName(const ProcessReport& process);
// "rank 3", else as above.
std::string ShortName(const ProcessReport& process);
// "2026-11-22 17:01:02 UTC"; empty: not known.
std::string WallTime(int64_t unix_ns);
// "at 12.3 s, step 7": since the recording began.
std::string PlaceOf(const ProcessReport& process, int64_t time);
// What is missing of a process; empty: nothing.
std::string Missing(const ProcessReport& process);

}  // namespace slipstream::report
