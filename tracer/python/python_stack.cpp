#include "tracer/python/python_stack.h"

#include <new>

#include "tracer/python/python_text.h"
#include "tracer/python/raw_memory.h"

namespace slipstream::tracer {
namespace {

constexpr uintptr_t kWord = 8;

// The word that has the byte, or the aligned int, at an address.
bool IsReadableAt(uintptr_t address) { return IsReadable(address & ~(kWord - 1)); }

bool HasType(uintptr_t object, uintptr_t type) {
  return IsReadableAt(object + kObjectType) && Load<uintptr_t>(object + kObjectType) == type;
}

bool IsText(const PythonLayout& layout, uintptr_t object) {
  PythonText text;
  if (!IsReadable(object) || !IsReadable(object + kObjectType) || !IsReadable(object + layout.wide_text)) return false;
  const auto type = Load<uintptr_t>(object + kObjectType);
  if (!IsReadable(type + kTypeFlags) || !ReadText(layout, object, &text)) return false;
  return text.length == 0 ||
         (IsReadableAt(text.characters) && IsReadableAt(text.characters + text.length * text.width - 1));
}

}  // namespace

PythonStack* PythonStack::Find(PythonStatus* why) {
  PythonProcess process;
  *why = FindPython(&process);
  return *why == PythonStatus::kOk ? new (std::nothrow) PythonStack(process) : nullptr;
}

PythonStack::Walked PythonStack::Walk(std::span<PythonFrame> frames) {
  const Trust trust = trust_.load(std::memory_order_relaxed);
  if (trust == Trust::kBad) return {.status = PythonStatus::kBadLayout};
  if (process_.is_initialized() == 0) return {.status = PythonStatus::kNotInitialized};
  if (process_.is_finalizing() != 0) return {.status = PythonStatus::kFinalizing};
  const uintptr_t thread = process_.this_thread();
  if (thread == 0) return {.status = PythonStatus::kNoThread};
  if (trust == Trust::kUnknown) [[unlikely]] {
    // Two threads may come here at once, and find the same.
    bool has_frames = false;
    if (!IsAsItShouldBe(thread, &has_frames)) {
      trust_.store(Trust::kBad, std::memory_order_relaxed);
      return {.status = PythonStatus::kBadLayout};
    }
    if (has_frames) trust_.store(Trust::kGood, std::memory_order_relaxed);
  }

  Walked walked;
  uintptr_t frame = FirstFrame(thread);
  // Before each frame no more than two are left out, one of C and one that has not begun: a longer chain is none.
  for (size_t steps = 0; frame != 0 && steps <= 3 * frames.size() + 2; ++steps) {
    if (!IsOfC(frame)) {
      const uintptr_t code = CodeOf(frame);
      const PythonFrame as_read = {.code = code, .instruction = InstructionOf(frame, code)};
      if (HasBegun(frame, as_read)) {
        if (walked.frames == frames.size()) {
          walked.cut = true;
          break;
        }
        frames[walked.frames++] = as_read;
      }
    }
    frame = Load<uintptr_t>(frame + process_.layout.frame_previous);
  }
  return walked;
}

uintptr_t PythonStack::FirstFrame(uintptr_t thread) const {
  const auto first = Load<uintptr_t>(thread + process_.layout.thread_frame);
  if (process_.layout.holder_frame == kAbsent || first == 0) return first;
  return Load<uintptr_t>(first + process_.layout.holder_frame);
}

uintptr_t PythonStack::CodeOf(uintptr_t frame) const {
  return Load<uintptr_t>(frame + process_.layout.frame_code) & ~process_.layout.frame_code_tags;
}

bool PythonStack::IsOfC(uintptr_t frame) const {
  return process_.layout.frame_owner != kAbsent && Load<uint8_t>(frame + process_.layout.frame_owner) >= kOwnerIsC;
}

bool PythonStack::HasBegun(uintptr_t frame, const PythonFrame& as_read) const {
  const PythonLayout& layout = process_.layout;
  return layout.code_first_traceable == kAbsent ||
         as_read.instruction >= Load<int32_t>(as_read.code + layout.code_first_traceable) * 2 ||
         Load<uint8_t>(frame + layout.frame_owner) == kOwnerIsGenerator;
}

int32_t PythonStack::InstructionOf(uintptr_t frame, uintptr_t code) const {
  const uintptr_t address = frame + process_.layout.frame_instruction;
  switch (process_.layout.instruction_form) {
    case InstructionForm::kByteIndex:
      return Load<int32_t>(address);
    case InstructionForm::kUnitIndex:
      return static_cast<int32_t>(Load<uint32_t>(address) * 2);  // unsigned: until it is checked it may be anything
    case InstructionForm::kPointer:
      break;
  }
  const auto offset = static_cast<int64_t>(Load<uintptr_t>(address) - (code + process_.layout.code_instructions));
  return offset == static_cast<int32_t>(offset) ? static_cast<int32_t>(offset) : INT32_MIN;
}

// Reads nothing that it has not asked for. *has_frames is false where there was nothing to compare with.
bool PythonStack::IsAsItShouldBe(uintptr_t thread, bool* has_frames) const {
  constexpr int kEnough = 64;
  const PythonLayout& layout = process_.layout;
  if (!IsReadable(thread + layout.thread_interpreter) || !IsReadable(thread + layout.thread_frame) ||
      Load<uintptr_t>(thread + layout.thread_interpreter) != process_.interpreter_of(thread)) {
    return false;
  }
  if (layout.holder_frame != kAbsent) {
    const auto holder = Load<uintptr_t>(thread + layout.thread_frame);
    if (holder == 0) return true;
    if (!IsReadable(holder + layout.holder_frame)) return false;
  }
  uintptr_t frame = FirstFrame(thread);
  for (int i = 0; i < kEnough && frame != 0; ++i) {
    if (!IsFrame(frame)) return false;
    if (!IsOfC(frame)) {
      const uintptr_t code = CodeOf(frame);
      const PythonFrame as_read = {.code = code, .instruction = InstructionOf(frame, code)};
      // A frame that has not begun stands before the first instruction.
      if (!HasType(code, process_.code_type) || as_read.instruction < -2) return false;
      if (layout.code_first_traceable != kAbsent && !IsReadableAt(code + layout.code_first_traceable)) return false;
      if (HasBegun(frame, as_read)) {
        if (!IsCode(code, as_read.instruction)) return false;
        *has_frames = true;
      }
    }
    frame = Load<uintptr_t>(frame + layout.frame_previous);
  }
  return true;
}

bool PythonStack::IsFrame(uintptr_t frame) const {
  const PythonLayout& layout = process_.layout;
  // Up to 3.10 a frame is an object.
  if (layout.frame_owner == kAbsent && !HasType(frame, process_.frame_type)) return false;
  return IsReadable(frame + layout.frame_code) && IsReadable(frame + layout.frame_previous) &&
         IsReadableAt(frame + layout.frame_instruction) &&
         (layout.frame_owner == kAbsent || IsReadableAt(frame + layout.frame_owner));
}

// Its type has been looked at.
bool PythonStack::IsCode(uintptr_t code, int32_t instruction) const {
  const PythonLayout& layout = process_.layout;
  if (!IsReadable(code + layout.code_file) || !IsReadable(code + layout.code_name) ||
      !IsReadable(code + layout.code_line_table) || !IsReadableAt(code + layout.code_first_line)) {
    return false;
  }
  const auto table = Load<uintptr_t>(code + layout.code_line_table);
  if (!IsText(layout, Load<uintptr_t>(code + layout.code_file)) ||
      !IsText(layout, Load<uintptr_t>(code + layout.code_name)) || !HasType(table, process_.bytes_type) ||
      !IsReadable(table + kObjectSize)) {
    return false;
  }
  if (layout.code_qualified_name != kAbsent && (!IsReadable(code + layout.code_qualified_name) ||
                                                !IsText(layout, Load<uintptr_t>(code + layout.code_qualified_name)))) {
    return false;
  }

  size_t code_bytes = 0;
  if (layout.code_instructions_bytes != kAbsent) {
    if (!IsReadable(code + layout.code_instructions_bytes)) return false;
    const auto bytes = Load<uintptr_t>(code + layout.code_instructions_bytes);
    if (!HasType(bytes, process_.bytes_type) || !IsReadable(bytes + kObjectSize)) return false;
    code_bytes = Load<size_t>(bytes + kObjectSize);
  } else {
    if (!IsReadable(code + kObjectSize)) return false;
    code_bytes = Load<size_t>(code + kObjectSize) * 2;
  }
  if (instruction >= 0 && static_cast<size_t>(instruction) >= code_bytes) return false;

  const std::span lines(reinterpret_cast<const uint8_t*>(table + kBytesData), Load<size_t>(table + kObjectSize));
  if (!lines.empty() && (!IsReadableAt(reinterpret_cast<uintptr_t>(lines.data())) ||
                         !IsReadableAt(reinterpret_cast<uintptr_t>(lines.data()) + lines.size() - 1))) {
    return false;
  }
  const int32_t line = LineOf(layout.line_table, lines, Load<int32_t>(code + layout.code_first_line), instruction);
  const int expected = process_.line_of(code, instruction);
  return line == expected || (line == kNoLine && expected <= 0);
}

}  // namespace slipstream::tracer
