// The variables that make PyTorch take its tensors from cudaMallocAsync, which allocator.mode = "stream_ordered"
// serves. They name the backend of its allocator, which is fixed when the library is loaded.
//
// Source: PyTorch's notes on CUDA semantics, "Optimizing memory usage with PYTORCH_ALLOC_CONF": a list of key:value
// with commas between, spaces ignored; PYTORCH_ALLOC_CONF outranks PYTORCH_CUDA_ALLOC_CONF, the only one of older
// releases.
// Threading: pure functions.
#pragma once

#include <map>
#include <string>

namespace slipstream::cli {

struct TensorAllocator {
  // Variables to set, with their whole values: what the user has said, and the backend.
  std::map<std::string, std::string> variables;
  // What was said to PyTorch, or why not; a line for people.
  std::string message;
  bool refused = false;  // the user's own variable names another backend, and stays
};

TensorAllocator TellPyTorch(const std::map<std::string, std::string>& environment);

}  // namespace slipstream::cli
