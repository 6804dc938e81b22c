// The line of a program that a call is put down to.
//
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace slipstream::tracer {

struct CallSite {
  std::string_view file;      // as Python has it, UTF-8
  std::string_view function;  // qualified ("Trainer.step") where Python has that: 3.11 and later
  int32_t line = 0;           // kNoLine: the compiler's own instruction; 1 is the first line
};

// Whether a frame of this file is passed over: PyTorch, what PyTorch generates (FX graphs, Inductor's kernels),
// Python's standard library, and what is frozen into Python. Other packages are not passed over: their line that calls
// PyTorch is worth knowing. PyTorch is in a folder torch of site-packages or dist-packages, or in `pytorch`, a folder
// with its slash (pytorch_folder.h); empty: no such folder is known.
bool IsLibraryFile(std::string_view file, std::string_view pytorch = {});

// Whether a frame of this file and function is PyTorch's own on its way into the autograd engine. That frame is on a
// thread's stack from the program's call of backward() or grad() until the call is done.
bool IsBackwardCall(std::string_view file, std::string_view function, std::string_view pytorch = {});

// Which of the files, innermost frame first, is the site of the call: the first that is not a library's. None: all are.
std::optional<size_t> ChooseSite(std::span<const std::string_view> files);

// file:line (function)
std::string ToString(const CallSite& site);

}  // namespace slipstream::tracer
