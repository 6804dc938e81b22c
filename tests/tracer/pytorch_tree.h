// A folder that looks like PyTorch's own from outside, as after `pip install -e`.
//
// Threading: none of its own.
#pragma once

#include <filesystem>
#include <fstream>
#include <initializer_list>

namespace slipstream::tracer {

// The files by which PyTorch is known, and empty.
inline void MakePyTorchTree(const std::filesystem::path& folder) {
  for (const char* const file : {"_tensor.py", "nn/modules/module.py", "autograd/function.py"}) {
    std::filesystem::create_directories((folder / file).parent_path());
    std::ofstream made(folder / file);
  }
}

}  // namespace slipstream::tracer
