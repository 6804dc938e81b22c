// The Python frames of the calling thread, read where they are: no GIL, no reference count, no allocation, no lock.
//
// That is sound because only the thread itself changes its chain of frames, it is in C while we look, and every running
// frame keeps its code object alive.
//
// Walk compares a layout with the process once, at the first stack, before it uses it. It cannot ask Python for the
// whole stack: sys._getframe and PyFrame_GetBack make frame objects, which may run the garbage collector and with it
// the program's own code, and PyGILState_Ensure may deadlock in a program that holds a lock of its own. So every
// address is checked before it is read, each object must have the type that it should have, the instruction must be
// inside its code, and PyCode_Addr2Line, which only reads, must give the same line.
//
// Like Python itself, it leaves out frames that stand for C code between Python's (3.12 on), and frames that have not
// reached their first traceable instruction. A specialized call of a class puts such frames around __init__. (CPython,
// internal/pycore_frame.h, _PyFrame_IsIncomplete.)
//
// Sub-interpreters: from 3.12 on the stack is that of the interpreter that runs. Before, PyGILState_* knows one
//   interpreter a thread, so a thread that runs another one shows the frames that lead into it.
// Threading: Find once; Walk from any thread.
// Hazard: a daemon thread reads freed memory if it is inside Walk at the very moment at which Python, while finalizing,
//   frees its stack. Walk looks at Python's finalizing flag first, but Python frees the other threads' states right
//   after it has set that (Py_FinalizeEx). The window is one Walk long, a microsecond at most, once in a process, for a
//   thread that calls CUDA while the interpreter ends. Every address is checked before it is read, so that call may get
//   a wrong line, or none.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tracer/python/python_frame.h"
#include "tracer/python/python_process.h"

namespace slipstream::tracer {

class PythonStack {
 public:
  // Null where there can be no stacks in this process, and *why says why. Leaked by the library; tests may delete it.
  static PythonStack* Find(PythonStatus* why);
  explicit PythonStack(const PythonProcess& process) : process_(process) {}

  struct Walked {
    size_t frames = 0;  // how many were written
    PythonStatus status = PythonStatus::kOk;
    bool cut = false;  // there are more frames, further out
  };
  // The innermost frames first. kOk with no frames: a thread that Python knows, outside of Python.
  Walked Walk(std::span<PythonFrame> frames);

  const PythonLayout& layout() const { return process_.layout; }
  uint32_t version() const { return process_.version; }  // PY_VERSION_HEX

 private:
  enum class Trust : uint8_t { kUnknown, kGood, kBad };

  uintptr_t FirstFrame(uintptr_t thread) const;
  bool IsAsItShouldBe(uintptr_t thread, bool* has_frames) const;
  bool IsFrame(uintptr_t frame) const;
  bool IsCode(uintptr_t code, int32_t instruction) const;
  uintptr_t CodeOf(uintptr_t frame) const;
  int32_t InstructionOf(uintptr_t frame, uintptr_t code) const;
  bool IsOfC(uintptr_t frame) const;
  bool HasBegun(uintptr_t frame, const PythonFrame& as_read) const;

  const PythonProcess process_;
  std::atomic<Trust> trust_{Trust::kUnknown};
};

}  // namespace slipstream::tracer
