// Reads Python's str objects in place and writes them as UTF-8. No call into Python: nothing is cached in the object.
//
// Threading: any thread for which the object stays alive; str objects do not change.
// Source of the rule: CPython, cpython/unicodeobject.h (PyASCIIObject, PyCompactUnicodeObject, PyUnicodeObject).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tracer/python/python_layout.h"

namespace slipstream::tracer {

struct PythonText {
  uintptr_t characters = 0;
  size_t length = 0;   // in code points
  uint8_t width = 1;   // bytes a code point: 1, 2 or 4
  bool ascii = false;  // then the characters are UTF-8 as they stand
};

// False if it is not a str, or is one whose characters were never laid out (possible up to 3.11).
bool ReadText(const PythonLayout& layout, uintptr_t object, PythonText* text);

// The same for an object that is known to be a readable str.
PythonText ReadKnownText(const PythonLayout& layout, uintptr_t object);

// Writes at most out.size() bytes of UTF-8, whole code points, and returns how many. A lone surrogate, as in a file
// name that is no valid text, becomes U+FFFD.
size_t WriteUtf8(const PythonText& text, std::span<char> out);

// Whether WriteUtf8 into `limit` bytes would give `utf8`.
bool EqualsUtf8(const PythonText& text, std::string_view utf8, size_t limit);

}  // namespace slipstream::tracer
