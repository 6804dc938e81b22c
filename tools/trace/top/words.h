// Figures and names of the live view as words that fit their places, and lines that fit a window.
//
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/trace/top/lines.h"
#include "tools/trace/top/view.h"

namespace slipstream::top {

// Three digits: "0.12", "12.3", "1,234".
std::string Three(double value);
std::string PerSecond(uint64_t count, double seconds);
std::string BytesPerSecond(uint64_t bytes, double seconds);
// Of 1.
std::string Percent(double share);
// Of `seconds`, as a part of 1.
double Share(uint64_t ns, double seconds);
// The busiest device's share of the time, and that for which it ran on; below what is possible (kUnknown): not known.
inline constexpr double kUnknown = -2;
double BusiestShare(const ProcessView& process);

// "2 h 05 min", "3 min 07 s", "42 s"
std::string Duration(uint64_t ns);
// Six columns at the most, below a hundred days: "3d02h", "2h05m", "3m07s", "42s".
std::string ShortDuration(uint64_t ns);
// Five columns at the most: "3.00G", "512M".
std::string ShortBytes(uint64_t bytes);
// "12:34:56" here; empty: not known.
std::string ClockTime(uint64_t unix_ns);

// How times went, a character each, of those of blocks or, without `utf8`, of ASCII: from half of the median of them to
// one and a half times it.
std::string Trend(const std::vector<uint64_t>& times_ns, bool utf8);

// The beginning, of at most `columns`, with "..." where something is cut off.
std::string CutTo(const std::string& text, size_t columns);
std::string PadTo(const std::string& text, size_t columns);

// "python3 (pid 17, rank 0)"
std::string NameOf(const ProcessView& process);
// "train.py:42 (step)"; the file without its folders where it would be too long.
std::string LineLabel(const LineView& line, size_t columns);
// What the program was started with, in a line: without the folders of the program, and of Python what it runs. Empty:
// not known.
std::string CommandLabel(const std::vector<std::string>& words);

// Cuts what is wider than the window.
void FitTo(std::vector<Line>* lines, size_t columns);

}  // namespace slipstream::top
