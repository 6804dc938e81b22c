// The policy of a run as it was when the run began, in a variable. Every process of the run has the same one, even if
// the files change, and even if it cannot read them.
//
// It holds what `slipstream run` read, file by file, as text. If SLIPSTREAM_POLICY of a process is not the one recorded
// there, the process was given another policy, and gets that one.
//
// Threading: pure functions; they allocate.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/layers.h"

namespace slipstream::policy {

// The longest value that every process can pass on; execve refuses one of 128 KiB.
inline constexpr std::size_t kMostRunPolicy = std::size_t{64} << 10;

struct FileText {
  LayerFile file{};
  std::string text{};
};

struct RunPolicy {
  std::string list{};  // the value of SLIPSTREAM_POLICY that belongs to it
  std::vector<FileText> files{};
};

// One line: line breaks are written "\n", and a backslash as two, because scripts read the environment line by line.
// Empty where it would be too long, or a name has a line break in it.
std::string FormatRunPolicy(const RunPolicy& policy);

// Nothing where the text is not what FormatRunPolicy() makes.
std::optional<RunPolicy> ParseRunPolicy(std::string_view line);

}  // namespace slipstream::policy
