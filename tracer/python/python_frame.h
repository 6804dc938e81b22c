// One frame of a Python stack, as it is read: two words, no text.
//
// Threading: plain data. Members have no defaults: a walk fills only a part of a large array.
// Hazard: the address of a code object is good for as long as the frame runs, and is then reused.
#pragma once

#include <cstdint>

namespace slipstream::tracer {

struct PythonFrame {
  uintptr_t code;       // the code object
  int32_t instruction;  // in bytes from the first one, as f_lasti is; negative: the function has not begun
};

}  // namespace slipstream::tracer
