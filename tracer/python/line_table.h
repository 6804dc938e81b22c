// From an instruction to its line, as CPython's compiler wrote it down; three formats in seven versions.
//
// Threading: pure functions.
// Source of the rule: CPython, Objects/lnotab_notes.txt (3.9, 3.10), Objects/locations.md (3.11 and later).
#pragma once

#include <cstdint>
#include <span>

namespace slipstream::tracer {

enum class LineTableFormat : uint8_t {
  kPairs,      // 3.9, co_lnotab: (bytes of code, signed lines), where a line begins
  kRanges,     // 3.10, co_linetable: (bytes of code, signed lines), what a line covers; -128 is "no line"
  kLocations,  // 3.11 and later: one entry a run of instructions, with columns, which are skipped here
};

// What an instruction has that the compiler made up, such as the clean-up behind a with statement.
inline constexpr int32_t kNoLine = 0;

// The line of the instruction that is `offset` bytes into the code; `first_line` for a negative one, as of a frame that
// has not begun. kNoLine where the table says so, ends early or cannot be one.
int32_t LineOf(LineTableFormat format, std::span<const uint8_t> table, int32_t first_line, int32_t offset);

}  // namespace slipstream::tracer
