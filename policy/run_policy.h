// The policy of a run as it was when the run began, in a variable: every process of the run has the same, whatever
// becomes of the files meanwhile, and whether or not it could read them.
//
// What `slipstream run` read, file by file, as text. A process whose SLIPSTREAM_POLICY is not the one that stands there
// has been given another policy by somebody, and gets that one.
//
// Threading: pure functions; they allocate.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/layers.h"

namespace slipstream::policy {

// Most of what a variable may hold for every process; execve refuses one of 128 KiB.
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
