// Numbers and names of a report as people read them, on the screen and on the page alike.
//
// Threading: pure functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tools/text/columns.h"
#include "tools/trace/report/report.h"

namespace slipstream::report {

// Columns of a figure in a table.
inline constexpr size_t kFigure = 10;
// And of what a row is about, where figures follow it.
constexpr size_t RowLabel(size_t columns) {
  return std::clamp<size_t>(columns - std::min<size_t>(columns, 69), 41, 60);
}

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

// A line that goes on in the next one behind six spaces; each of at most `columns`, and with its end.
std::string Wrapped(size_t columns, const std::string& text);
// In a column of so many; where it is longer, it stands on a line of its own.
std::string Labeled(const std::string& label, size_t width);
// Figures and what they are about, with the end of the line: behind them, in lines below each other; where there is
// little room, below.
std::string Described(const std::string& figures, const std::string& text, size_t columns);

// "copies", "outside CUDA calls"
const char* Label(Part part);
// Of at most 20 columns.
const char* ShortLabel(Part part);
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
// "cudaMemcpyAsync, cudaStreamSynchronize, 2 more"; with room for one name at least.
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
