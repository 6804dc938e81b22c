// Names of operators as PyTorch's emit_nvtx makes them: "aten::addmm, seq = 7, op_id = 9". The numbers make each name
// another one, so that a table of names would be full after a few steps; a range is named by the rest.
//
// Threading: pure functions; nothing is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace slipstream::tracer {

struct OperatorName {
  std::string_view name;             // of the text itself, or of `room`
  std::optional<uint64_t> sequence;  // "seq": by it a backward operator finds its forward one
};

// `room`: for what is left of the text, whose rest is cut off. (torch/csrc/autograd/profiler_legacy.cpp, getNvtxStr.)
OperatorName WithoutNumbers(std::string_view text, std::span<char> room);

}  // namespace slipstream::tracer
