// Finds the CPython of this process without linking to it: the functions and types that a stack is read with.
//
// Threading: any thread. Takes the loader's lock, as dlsym does: once, when the library sets itself up, and never in a
//   callback of the loader.
// Hazard: of the functions found, only those are called that neither need nor take the GIL, and that change nothing.
#pragma once

#include <cstdint>
#include <string>

#include "tracer/python/python_layout.h"

namespace slipstream::tracer {

// Why there is no stack, or that there is one.
enum class PythonStatus : uint8_t {
  kOk,
  // For now: ask again at the next call.
  kNotInitialized,  // Python is loaded, and has not started, or is on its way out or gone
  kFinalizing,      // the moment before: next it frees other threads' stacks under them
  kNoThread,        // this thread has never run Python; autograd's device threads, for example
  // For good.
  kNoPython,        // no CPython in the process
  kIncomplete,      // one without the functions that this needs
  kUnknownVersion,  // older than 3.9, newer than 3.15, or an alpha or beta
  kFreeThreaded,    // no GIL: objects are laid out in another way
  kDebugBuild,      // Py_DEBUG: the same
  kBadLayout,       // it is not laid out as its version is
};

// "ok", "no_python" and so on.
const char* NameOf(PythonStatus status);
// Whether asking again can give another answer.
bool IsFinal(PythonStatus status);

// PyThreadState and PyInterpreterState are addresses here.
struct PythonProcess {
  uint32_t version = 0;  // PY_VERSION_HEX; 0: not known. Known of most that FindPython refuses, too.

  // Each of them reads a flag, a thread-local or a field. (CPython, Python/pystate.c, Python/pylifecycle.c,
  // Objects/codeobject.c)
  int (*is_initialized)() = nullptr;
  int (*is_finalizing)() = nullptr;
  uintptr_t (*this_thread)() = nullptr;              // PyGILState_GetThisThreadState
  uintptr_t (*interpreter_of)(uintptr_t) = nullptr;  // PyThreadState_GetInterpreter
  int (*line_of)(uintptr_t, int) = nullptr;          // PyCode_Addr2Line

  // Addresses of type objects.
  uintptr_t code_type = 0;
  uintptr_t frame_type = 0;
  uintptr_t bytes_type = 0;

  PythonLayout layout;
};

// kOk, or a reason that is final; then nothing of *process but the version is to be used. Calls nothing of Python's
// but, up to 3.10, Py_GetVersion. A libpython that is found stays loaded.
PythonStatus FindPython(PythonProcess* process);

// The fact that says whether lines can be told (tracer/base/python_lines.h). `status` is kOk, or final.
std::string LinesFact(PythonStatus status, uint32_t version);
// The same of this process, as FindPython would find it now. Leaves what is loaded as it is. Empty: no CPython is here.
std::string LinesFactOfThisProcess();

// "3.10.13 (main, ..." as a PY_VERSION_HEX of a release; 0 when it is no such text.
uint32_t ParsePythonVersion(const char* text);

}  // namespace slipstream::tracer
