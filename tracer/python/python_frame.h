// One frame of a Python stack, as it is read: two words, no text.
//
// Threading: plain data. Nothing is set by itself: many of them are room that a walk fills in part.
// Hazard: the address of a code object is good for as long as the frame runs, and is then reused.
#pragma once

#include <cstdint>

namespace slipstream::tracer {

struct PythonFrame {
  uintptr_t code;       // the code object
  int32_t instruction;  // in bytes from the first one, as f_lasti is; negative: the function has not begun
};

}  // namespace slipstream::tracer
