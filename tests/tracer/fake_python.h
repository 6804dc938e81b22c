// CPython's objects as bytes in our own memory, laid out as PythonLayout says: tests of what reads Python need none.
//
// Threading: none of its own; objects may be read from any thread once they are made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "tracer/python/python_layout.h"

namespace slipstream::tracer {

// The line table of a Python 3.11 function with one line: one instruction on the first line.
inline constexpr std::string_view kOneLine("\xe8\0", 2);

// For the names of tests of each version.
inline std::string PythonVersionName(uint32_t version_hex) {
  return "Python3_" + std::to_string((version_hex >> 16) & 0xff);
}

class FakePython {
 public:
  explicit FakePython(uint32_t version_hex) : layout_(*FindPythonLayout(version_hex)) {
    text_type_ = New(256);
    Put<uint64_t>(text_type_ + kTypeFlags, kTypeFlagText);
    bytes_type_ = New(256);
    code_type_ = New(256);
    frame_type_ = New(256);
  }

  // Room for an object: zeros, at an address that stays.
  uintptr_t New(size_t size) {
    auto& words = memory_.emplace_back(size / 16 + 1);
    return reinterpret_cast<uintptr_t>(words.data());
  }

  template <typename T>
  static void Put(uintptr_t address, T value) {
    std::memcpy(reinterpret_cast<void*>(address), &value, sizeof(T));
  }

  // Of code points, in the narrowest width that takes them all, as Python does it.
  uintptr_t Text(std::u32string_view points) {
    char32_t highest = 0;
    for (const char32_t point : points) highest = point > highest ? point : highest;
    const uint32_t width = highest < 0x100 ? 1 : highest < 0x10000 ? 2 : 4;
    const bool ascii = highest < 0x80;
    const uint32_t at = ascii ? layout_.ascii_text : layout_.wide_text;
    const uintptr_t object = New(at + (points.size() + 1) * width);
    PutTextHead(object, points.size(), width, /*compact=*/true, ascii);
    PutPoints(object + at, points, width);
    return object;
  }

  uintptr_t Text(std::string_view ascii) { return Text(std::u32string(ascii.begin(), ascii.end())); }

  // As of a subclass of str: the characters are somewhere else.
  uintptr_t DistantText(std::u32string_view points, uint32_t width) {
    const uintptr_t object = New(layout_.wide_text + sizeof(uintptr_t));
    PutTextHead(object, points.size(), width, /*compact=*/false, /*ascii=*/false);
    const uintptr_t characters = New((points.size() + 1) * width);
    PutPoints(characters, points, width);
    Put(object + layout_.wide_text, characters);
    return object;
  }

  uintptr_t Bytes(std::string_view bytes) {
    const uintptr_t object = New(kBytesData + bytes.size() + 1);
    Put(object + kObjectType, bytes_type_);
    Put(object + kObjectSize, bytes.size());
    bytes.copy(reinterpret_cast<char*>(object + kBytesData), bytes.size());
    return object;
  }

  struct Code {
    std::string_view file = "train.py";
    std::string_view name = "step";
    int32_t first_line = 1;
    std::string_view table;
    uint32_t version = 0;  // where the layout has one
    size_t instructions = 64;
  };

  static constexpr size_t kCodeBytes = 512;

  // Into memory of kCodeBytes, so that a test can put another one where one was.
  void PutCode(uintptr_t object, const Code& code) {
    Put(object + kObjectType, code_type_);
    Put(object + layout_.code_file, Text(code.file));
    Put(object + layout_.code_name, Text(code.name));
    if (layout_.code_qualified_name != kAbsent) Put(object + layout_.code_qualified_name, Text(code.name));
    Put(object + layout_.code_first_line, code.first_line);
    Put(object + layout_.code_line_table, Bytes(code.table));
    if (layout_.code_version != kAbsent) Put(object + layout_.code_version, code.version);
    if (layout_.code_instructions_bytes != kAbsent) {
      Put(object + layout_.code_instructions_bytes, Bytes(std::string(code.instructions * 2, '\0')));
    } else {
      Put(object + kObjectSize, code.instructions);
    }
  }

  uintptr_t NewCode(const Code& code) {
    const uintptr_t object = New(kCodeBytes);
    PutCode(object, code);
    return object;
  }

  // A frame that runs `code` at an instruction, called by `previous`.
  uintptr_t NewFrame(uintptr_t code, int32_t instruction, uintptr_t previous, uint8_t owner = 0) {
    const uintptr_t frame = New(128);
    if (layout_.frame_owner != kAbsent) {
      Put(frame + layout_.frame_owner, owner);
    } else {
      Put(frame + kObjectType, frame_type_);
    }
    Put(frame + layout_.frame_code, code | layout_.frame_code_tags);
    Put(frame + layout_.frame_previous, previous);
    if (layout_.instruction_form == InstructionForm::kPointer) {
      Put(frame + layout_.frame_instruction, code + layout_.code_instructions + static_cast<intptr_t>(instruction));
    } else {
      const int unit = layout_.instruction_form == InstructionForm::kUnitIndex ? 2 : 1;
      Put(frame + layout_.frame_instruction, instruction / unit);
    }
    return frame;
  }

  // A thread state; ask SetFrame for its innermost frame.
  uintptr_t NewThread(uintptr_t interpreter) {
    const uintptr_t thread = New(128);
    Put(thread + layout_.thread_interpreter, interpreter);
    if (layout_.holder_frame != kAbsent) Put(thread + layout_.thread_frame, New(64));
    return thread;
  }

  void SetFrame(uintptr_t thread, uintptr_t frame) {
    uintptr_t at = thread + layout_.thread_frame;
    if (layout_.holder_frame != kAbsent) {
      std::memcpy(&at, reinterpret_cast<const void*>(at), sizeof(at));
      at += layout_.holder_frame;
    }
    Put(at, frame);
  }

  const PythonLayout& layout() const { return layout_; }
  uintptr_t code_type() const { return code_type_; }
  uintptr_t frame_type() const { return frame_type_; }
  uintptr_t bytes_type() const { return bytes_type_; }

 private:
  struct alignas(16) Chunk {
    char bytes[16] = {};
  };

  void PutTextHead(uintptr_t object, size_t length, uint32_t width, bool compact, bool ascii) {
    Put(object + kObjectType, text_type_);
    Put(object + kTextLength, length);
    constexpr uint32_t kReady = 1U << 7;  // up to 3.11
    Put<uint32_t>(object + kTextState, width << 2 | (compact ? 1U << 5 : 0) | (ascii ? 1U << 6 : 0) | kReady);
  }

  static void PutPoints(uintptr_t at, std::u32string_view points, uint32_t width) {
    for (const char32_t point : points) {
      std::memcpy(reinterpret_cast<void*>(at), &point, width);  // little-endian
      at += width;
    }
  }

  PythonLayout layout_;
  std::deque<std::vector<Chunk>> memory_;
  uintptr_t text_type_ = 0;
  uintptr_t bytes_type_ = 0;
  uintptr_t code_type_ = 0;
  uintptr_t frame_type_ = 0;
};

// One of each that has a row.
inline constexpr uint32_t kPythonVersions[] = {0x030912f0, 0x030a0df0, 0x030b07f0, 0x030c01f0,
                                               0x030d00f0, 0x030e00f0, 0x030f00f0};

}  // namespace slipstream::tracer
