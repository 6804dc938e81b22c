#include "tracer/python/python_layout.h"

#include <bit>
#include <cstring>
#include <iterator>

namespace slipstream::tracer {
namespace {

// 3.14 has one such bit, 3.15 two. Code objects are aligned to 16 bytes. (pycore_stackref.h, Py_TAG_BITS)
constexpr uintptr_t kStackReferenceTags = 3;

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
    {.version = 0x030e,
     .thread_frame = 72,
     .frame_code = 0,
     .frame_code_tags = kStackReferenceTags,
     .frame_previous = 8,
     .frame_instruction = 56,
     .frame_owner = 74,
     .code_file = 112,
     .code_name = 120,
     .code_qualified_name = 128,
     .code_first_line = 68,
     .code_line_table = 136,
     .code_instructions = 208,
     .code_first_traceable = 192,
     .code_version = 92,
     .ascii_text = 40,
     .wide_text = 56},
    {.version = 0x030f,
     .thread_frame = 72,
     .frame_code = 0,
     .frame_code_tags = kStackReferenceTags,
     .frame_previous = 8,
     .frame_instruction = 56,
     .frame_owner = 74,
     .code_file = 112,
     .code_name = 120,
     .code_qualified_name = 128,
     .code_first_line = 68,
     .code_line_table = 136,
     .code_instructions = 208,
     .code_first_traceable = 192,
     .code_version = 92,
     .ascii_text = 40,
     .wide_text = 56},
};

// Where the words of _Py_DebugOffsets are. A version moves whole groups; in them the order has stayed.
struct DebugWords {
  uint32_t version;
  size_t thread;  // interpreter, frame
  size_t frame;   // previous, code, instruction, (locals), owner
  size_t code;    // file, name, qualified name, line table, first line, (3), instructions
  size_t type;    // of an object; its type's flags are four on
  size_t bytes;   // size, data, (size of a str), state, length, size of an ASCII head
};
constexpr DebugWords kDebugWords[] = {
    {.version = 0x030d, .thread = 22, .frame = 29, .code = 35, .type = 45, .bytes = 65},
    {.version = 0x030e, .thread = 25, .frame = 32, .code = 40, .type = 51, .bytes = 75},
    {.version = 0x030f, .thread = 25, .frame = 40, .code = 48, .type = 59, .bytes = 87},
};
constexpr size_t kCookieWord = 0;
constexpr size_t kVersionWord = 1;
constexpr size_t kFreeThreadedWord = 2;

constexpr size_t LastWord(const DebugWords& words) { return words.bytes + 5; }
static_assert(LastWord(std::end(kDebugWords)[-1]) + 1 == kDebugOffsetsWords);

const DebugWords* FindDebugWords(uint32_t version) {
  for (const DebugWords& words : kDebugWords) {
    if (words.version == version) return &words;
  }
  return nullptr;
}

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
  const DebugWords* const words = FindDebugWords(layout->version);
  if (words == nullptr || offsets.size() <= LastWord(*words) ||
      std::memcmp(&offsets[kCookieWord], "xdebugpy", 8) != 0 || offsets[kVersionWord] != version_hex) {
    return DebugOffsetsVerdict::kNotThem;
  }
  if (offsets[kFreeThreadedWord] != 0) return DebugOffsetsVerdict::kFreeThreaded;
  // What is the same everywhere must be so here.
  const struct {
    size_t word;
    uint32_t expected;
  } kFixed[] = {{words->type, kObjectType},     {words->type + 4, kTypeFlags},  {words->bytes, kObjectSize},
                {words->bytes + 1, kBytesData}, {words->bytes + 3, kTextState}, {words->bytes + 4, kTextLength}};
  for (const auto& [word, expected] : kFixed) {
    if (offsets[word] != expected) return DebugOffsetsVerdict::kNotThem;
  }
  const struct {
    size_t word;
    uint32_t PythonLayout::*member;
  } kTaken[] = {
      {words->thread, &PythonLayout::thread_interpreter},
      {words->thread + 1, &PythonLayout::thread_frame},
      {words->frame, &PythonLayout::frame_previous},
      {words->frame + 1, &PythonLayout::frame_code},
      {words->frame + 2, &PythonLayout::frame_instruction},
      {words->frame + 4, &PythonLayout::frame_owner},
      {words->code, &PythonLayout::code_file},
      {words->code + 1, &PythonLayout::code_name},
      {words->code + 2, &PythonLayout::code_qualified_name},
      {words->code + 3, &PythonLayout::code_line_table},
      {words->code + 4, &PythonLayout::code_first_line},
      {words->code + 8, &PythonLayout::code_instructions},
      {words->bytes + 5, &PythonLayout::ascii_text},
  };
  PythonLayout taken = *layout;
  bool as_the_row = true;
  for (const auto& [word, member] : kTaken) {
    if (offsets[word] > kFarthest) return DebugOffsetsVerdict::kNotThem;
    as_the_row = as_the_row && taken.*member == offsets[word];
    taken.*member = static_cast<uint32_t>(offsets[word]);
  }
  // From 3.11 on only co_extra stands between the two.
  taken.code_first_traceable = taken.code_instructions - 16;
  // A compact string that is not ASCII has its UTF-8 length and pointer in between.
  taken.wide_text = taken.ascii_text + 16;
  if (!as_the_row) taken.code_version = kAbsent;
  *layout = taken;
  return DebugOffsetsVerdict::kTaken;
}

}  // namespace slipstream::tracer
