#include "tracer/python/python_layout.h"

#include <bit>
#include <cstring>

namespace slipstream::tracer {
namespace {

constexpr PythonLayout kLayouts[] = {
    {.version = 0x0309,
     .thread_frame = 24,
     .frame_code = 32,
     .frame_previous = 24,
     .frame_instruction = 104,
     .instruction_form = InstructionForm::kByteIndex,
     .code_file = 104,
     .code_name = 112,
     .code_first_line = 40,
     .code_line_table = 120,
     .code_instructions_bytes = 48,
     .line_table = LineTableFormat::kPairs,
     .ascii_text = 48,
     .wide_text = 72},
    {.version = 0x030a,
     .thread_frame = 24,
     .frame_code = 32,
     .frame_previous = 24,
     .frame_instruction = 96,
     .instruction_form = InstructionForm::kUnitIndex,
     .code_file = 104,
     .code_name = 112,
     .code_first_line = 40,
     .code_line_table = 120,
     .code_instructions_bytes = 48,
     .line_table = LineTableFormat::kRanges,
     .ascii_text = 48,
     .wide_text = 72},
    {.version = 0x030b,
     .thread_frame = 56,
     .holder_frame = 8,
     .frame_code = 32,
     .frame_previous = 48,
     .frame_instruction = 56,
     .frame_owner = 69,
     .code_file = 112,
     .code_name = 120,
     .code_qualified_name = 128,
     .code_first_line = 72,
     .code_line_table = 136,
     .code_instructions = 184,
     .code_first_traceable = 168,
     .ascii_text = 48,
     .wide_text = 72},
    {.version = 0x030c,
     .thread_frame = 56,
     .holder_frame = 0,
     .frame_code = 0,
     .frame_previous = 8,
     .frame_instruction = 56,
     .frame_owner = 70,
     .code_file = 112,
     .code_name = 120,
     .code_qualified_name = 128,
     .code_first_line = 68,
     .code_line_table = 136,
     .code_instructions = 192,
     .code_first_traceable = 176,
     .code_version = 92,
     .ascii_text = 40,
     .wide_text = 56},
    {.version = 0x030d,
     .thread_frame = 72,
     .frame_code = 0,
     .frame_previous = 8,
     .frame_instruction = 56,
     .frame_owner = 70,
     .code_file = 112,
     .code_name = 120,
     .code_qualified_name = 128,
     .code_first_line = 68,
     .code_line_table = 136,
     .code_instructions = 200,
     .code_first_traceable = 184,
     .code_version = 92,
     .ascii_text = 40,
     .wide_text = 56},
};

// Words of 3.13's _Py_DebugOffsets.
enum DebugWord : size_t {
  kCookie = 0,
  kVersion = 1,
  kFreeThreaded = 2,
  kThreadInterpreter = 22,
  kThreadFrame = 23,
  kFramePrevious = 29,
  kFrameCode = 30,
  kFrameInstruction = 31,
  kFrameOwner = 33,
  kCodeFile = 35,
  kCodeName = 36,
  kCodeQualifiedName = 37,
  kCodeLineTable = 38,
  kCodeFirstLine = 39,
  kCodeInstructions = 43,
  kType = 45,
  kTypeFlagsWord = 49,
  kBytesSize = 65,
  kBytesDataWord = 66,
  kTextStateWord = 68,
  kTextLengthWord = 69,
  kAsciiText = 70,
};

}  // namespace

const PythonLayout* FindPythonLayout(uint32_t version_hex) {
  constexpr uint32_t kReleaseCandidate = 0xc;  // its layout is the release's
  // Rows are for 64 bits, and for the order in which this one puts bit fields.
  if (sizeof(void*) != 8 || std::endian::native != std::endian::little) return nullptr;
  if (((version_hex >> 4) & 0xf) < kReleaseCandidate) return nullptr;
  for (const PythonLayout& layout : kLayouts) {
    if (layout.version == version_hex >> 16) return &layout;
  }
  return nullptr;
}

DebugOffsetsVerdict TakeDebugOffsets(std::span<const uint64_t> offsets, uint32_t version_hex, PythonLayout* layout) {
  constexpr uint64_t kFarthest = 4096;  // in no release is one above 800
  if (offsets.size() < kDebugOffsetsWords || std::memcmp(offsets.data(), "xdebugpy", 8) != 0 ||
      offsets[kVersion] != version_hex) {
    return DebugOffsetsVerdict::kNotThem;
  }
  if (offsets[kFreeThreaded] != 0) return DebugOffsetsVerdict::kFreeThreaded;
  // What is the same everywhere must be so here.
  if (offsets[kType] != kObjectType || offsets[kTypeFlagsWord] != kTypeFlags || offsets[kBytesSize] != kObjectSize ||
      offsets[kBytesDataWord] != kBytesData || offsets[kTextStateWord] != kTextState ||
      offsets[kTextLengthWord] != kTextLength) {
    return DebugOffsetsVerdict::kNotThem;
  }
  const struct {
    DebugWord word;
    uint32_t PythonLayout::*member;
  } kTaken[] = {
      {kThreadInterpreter, &PythonLayout::thread_interpreter},
      {kThreadFrame, &PythonLayout::thread_frame},
      {kFramePrevious, &PythonLayout::frame_previous},
      {kFrameCode, &PythonLayout::frame_code},
      {kFrameInstruction, &PythonLayout::frame_instruction},
      {kFrameOwner, &PythonLayout::frame_owner},
      {kCodeFile, &PythonLayout::code_file},
      {kCodeName, &PythonLayout::code_name},
      {kCodeQualifiedName, &PythonLayout::code_qualified_name},
      {kCodeLineTable, &PythonLayout::code_line_table},
      {kCodeFirstLine, &PythonLayout::code_first_line},
      {kCodeInstructions, &PythonLayout::code_instructions},
      {kAsciiText, &PythonLayout::ascii_text},
  };
  PythonLayout taken = *layout;
  bool as_the_row = true;
  for (const auto& [word, member] : kTaken) {
    if (offsets[word] > kFarthest) return DebugOffsetsVerdict::kNotThem;
    as_the_row = as_the_row && taken.*member == offsets[word];
    taken.*member = static_cast<uint32_t>(offsets[word]);
  }
  // From 3.11 to 3.13 only co_extra stands between the two.
  taken.code_first_traceable = taken.code_instructions - 16;
  // A compact string that is not ASCII has its UTF-8 length and pointer in between.
  taken.wide_text = taken.ascii_text + 16;
  if (!as_the_row) taken.code_version = kAbsent;
  *layout = taken;
  return DebugOffsetsVerdict::kTaken;
}

}  // namespace slipstream::tracer
