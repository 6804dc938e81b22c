// The variables that make PyTorch keep its tensors in expandable segments, for allocator.mode = "expandable".
//
// Source: PyTorch's notes on CUDA semantics, "Optimizing memory usage with PYTORCH_ALLOC_CONF": a list of key:value
// pairs with commas between them, spaces ignored, and the last pair of a key counts. PYTORCH_ALLOC_CONF outranks
// PYTORCH_CUDA_ALLOC_CONF, which is the only one that releases before 2.10 read. Both are read once, when PyTorch is
// first used.
// Threading: pure functions, but for WhyNotExpandable, which makes a system call.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace slipstream::cli {

struct ExpandableSegments {
  // Variables to set, with their whole values: what the user has in them, and expandable_segments:True.
  std::map<std::string, std::string> variables;
  // What was added, or why nothing was; a line for people. Empty: the user's own variables ask for them.
  std::string message;
  // The user's own variables decide otherwise, and stay.
  bool refused = false;
};

ExpandableSegments AskForExpandableSegments(const std::map<std::string, std::string>& environment);

// One device, as far as expandable segments are concerned.
struct MapsMemory {
  int device = 0;
  bool by_hand = false;  // CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
};

// Where PyTorch's expandable segments do not work on this machine, in whole or in part; a line for people each.
// `pytorch`: its version, such as "2.11.0+cu130"; one that cannot be read is taken for a new one.
std::vector<std::string> WhyNotExpandable(const std::string& pytorch, const std::vector<MapsMemory>& devices);

}  // namespace slipstream::cli
