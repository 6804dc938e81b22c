#include "tracer/python/python_text.h"

#include <algorithm>
#include <cstring>

#include "tracer/python/raw_memory.h"

namespace slipstream::tracer {
namespace {

constexpr uint32_t kReplacement = 0xfffd;

uint32_t CodePointAt(const PythonText& text, size_t index) {
  switch (text.width) {
    case 1:
      return Load<uint8_t>(text.characters + index);
    case 2:
      return Load<uint16_t>(text.characters + index * 2);
    default:
      return Load<uint32_t>(text.characters + index * 4);
  }
}

// Returns the bytes written, one to four.
size_t Encode(uint32_t point, char* out) {
  if (point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) point = kReplacement;
  if (point < 0x80) {
    out[0] = static_cast<char>(point);
    return 1;
  }
  const size_t size = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
  for (size_t i = size - 1; i > 0; --i, point >>= 6) out[i] = static_cast<char>(0x80 | (point & 0x3f));
  constexpr uint8_t kFirstByte[] = {0, 0, 0xc0, 0xe0, 0xf0};
  out[0] = static_cast<char>(kFirstByte[size] | point);
  return size;
}

}  // namespace

bool ReadText(const PythonLayout& layout, uintptr_t object, PythonText* text) {
  if (object == 0) return false;
  const auto type = Load<uintptr_t>(object + kObjectType);
  if ((Load<uint64_t>(type + kTypeFlags) & kTypeFlagText) == 0) return false;
  *text = ReadKnownText(layout, object);
  return (text->width == 1 || text->width == 2 || text->width == 4) && text->characters != 0;
}

PythonText ReadKnownText(const PythonLayout& layout, uintptr_t object) {
  // The bits of the state: 2 of interning, 3 of width, compact, ascii.
  const auto state = Load<uint32_t>(object + kTextState);
  PythonText text;
  text.width = static_cast<uint8_t>((state >> 2) & 7);
  const bool compact = (state & (1U << 5)) != 0;
  text.ascii = (state & (1U << 6)) != 0;
  text.length = Load<size_t>(object + kTextLength);
  if (compact) {
    text.characters = object + (text.ascii ? layout.ascii_text : layout.wide_text);
  } else {
    text.characters = Load<uintptr_t>(object + layout.wide_text);
  }
  return text;
}

size_t WriteUtf8(const PythonText& text, std::span<char> out) {
  if (text.ascii) {
    const size_t size = std::min(text.length, out.size());
    std::memcpy(out.data(), reinterpret_cast<const void*>(text.characters), size);
    return size;
  }
  size_t used = 0;
  for (size_t i = 0; i < text.length; ++i) {
    char bytes[4];
    const size_t size = Encode(CodePointAt(text, i), bytes);
    if (size > out.size() - used) break;
    std::memcpy(&out[used], bytes, size);
    used += size;
  }
  return used;
}

bool EqualsUtf8(const PythonText& text, std::string_view utf8, size_t limit) {
  if (text.ascii) {
    return utf8.size() == std::min(text.length, limit) &&
           std::memcmp(reinterpret_cast<const void*>(text.characters), utf8.data(), utf8.size()) == 0;
  }
  size_t used = 0;
  for (size_t i = 0; i < text.length; ++i) {
    char bytes[4];
    const size_t size = Encode(CodePointAt(text, i), bytes);
    if (size > limit - used) break;
    if (utf8.substr(used, size) != std::string_view(bytes, size)) return false;
    used += size;
  }
  return used == utf8.size();
}

}  // namespace slipstream::tracer
