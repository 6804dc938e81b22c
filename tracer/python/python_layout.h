// The layout of CPython's structures that a stack is read from, by version: offsets in bytes from the start of each.
//
// Threading: plain data and pure functions.
// Hazard: a wrong row would be read as addresses. PythonStack compares a row with the process before it uses it.
// Source of the rule: the headers of CPython 3.9 to 3.15 (cpython/pystate.h, cpython/code.h, cpython/unicodeobject.h,
//   internal/pycore_frame.h, from 3.14 on internal/pycore_interpframe_structs.h and pycore_stackref.h), and
//   _Py_DebugOffsets (internal/pycore_runtime.h, later pycore_debug_offsets.h), which 3.13 and later carry in
//   themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tracer/python/line_table.h"

namespace slipstream::tracer {

inline constexpr uint32_t kAbsent = UINT32_MAX;  // of an offset: this version has no such thing

// The head of every object, the same in all versions that a row exists for.
inline constexpr uint32_t kObjectType = 8;
inline constexpr uint32_t kObjectSize = 16;  // of what has a length: bytes, code from 3.11 on
inline constexpr uint32_t kBytesData = 32;
inline constexpr uint32_t kTextLength = 16;  // in code points
inline constexpr uint32_t kTextState = 32;
inline constexpr uint32_t kTypeFlags = 168;
inline constexpr uint32_t kTypeFlagText = 1U << 28;  // Py_TPFLAGS_UNICODE_SUBCLASS

// How a frame says where it is.
enum class InstructionForm : uint8_t {
  kByteIndex,  // 3.9: int, in bytes
  kUnitIndex,  // 3.10: int, in instructions of two bytes
  kPointer,    // 3.11 and later: into the code object's own, specialized instructions
};

struct PythonLayout {
  uint32_t version = 0;  // major and minor as in PY_VERSION_HEX: 0x030b

  uint32_t thread_interpreter = 16;
  uint32_t thread_frame = 0;
  uint32_t holder_frame = kAbsent;  // 3.11, 3.12: thread_frame leads to a holder, and this is where that has the frame

  uint32_t frame_code = 0;
  uintptr_t frame_code_tags = 0;  // bits of the pointer to the code that say how it is counted (3.14: _PyStackRef)
  uint32_t frame_previous = 0;
  uint32_t frame_instruction = 0;
  InstructionForm instruction_form = InstructionForm::kPointer;
  uint32_t frame_owner = kAbsent;  // one byte

  uint32_t code_file = 0;
  uint32_t code_name = 0;
  uint32_t code_qualified_name = kAbsent;
  uint32_t code_first_line = 0;
  uint32_t code_line_table = 0;
  uint32_t code_instructions = kAbsent;        // in the code object, or
  uint32_t code_instructions_bytes = kAbsent;  // in a bytes object of its own
  uint32_t code_first_traceable = kAbsent;     // int, in instructions: before it a frame is not there yet
  uint32_t code_version = kAbsent;  // a number that no other code object of an interpreter has had; 0 is none
  LineTableFormat line_table = LineTableFormat::kLocations;

  uint32_t ascii_text = 0;  // the characters of a compact ASCII string
  uint32_t wide_text = 0;   // those of any other compact one; elsewhere the pointer to them
};

// A frame with such an owner, or a higher one, stands for the C code between two Python frames.
inline constexpr uint8_t kOwnerIsC = 3;
inline constexpr uint8_t kOwnerIsGenerator = 1;

// The row for a PY_VERSION_HEX. Null if there is none, and for alphas and betas, which differ among themselves.
const PythonLayout* FindPythonLayout(uint32_t version_hex);

enum class DebugOffsetsVerdict : uint8_t { kTaken, kNotThem, kFreeThreaded };

// Puts what _Py_DebugOffsets says in the place of the row's own offsets; `offsets` is where _PyRuntime starts. If they
// differ from the row, what they do not tell (code_version) is left out. Each minor version has its own order of them.
DebugOffsetsVerdict TakeDebugOffsets(std::span<const uint64_t> offsets, uint32_t version_hex, PythonLayout* layout);
// How many words of it are read: as many as the version with the most has. Behind them _PyRuntime goes on.
inline constexpr size_t kDebugOffsetsWords = 93;

}  // namespace slipstream::tracer
