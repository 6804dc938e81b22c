#include "tools/trace/advise/convolutions.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>
#include <string>

#include "tools/trace/report/steps.h"

namespace slipstream::advise {

bool IsConvolution(std::string_view kernel) {
  // Those of PyTorch's own (depthwise) have no algorithms to choose from.
  constexpr std::array<std::string_view, 9> kNames = {"fprop",  "dgrad",         "wgrad",    "convolve", "conv2d",
                                                      "conv3d", "implicit_gemm", "winograd", "scudnn"};
  std::string lower(kernel);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower.find("depthwise") == std::string::npos &&
         std::any_of(kNames.begin(), kNames.end(),
                     [&](std::string_view name) { return lower.find(name) != std::string::npos; });
}

Convolutions FindConvolutions(const report::ProcessReport& process, std::span<const KernelsOfLine> kernels) {
  Convolutions found;
  const auto measured = std::find_if(process.steps.begin(), process.steps.end(),
                                     [](const report::Step& step) { return step.use == report::StepUse::kMeasured; });
  if (measured == process.steps.end()) return found;
  struct Line {
    std::set<std::string_view> tried;
    bool still = false;  // it has convolutions in the measured time
  };
  std::map<int64_t, Line> lines;
  bool any_before = false;
  for (const KernelsOfLine& kernel : kernels) {
    any_before = any_before || kernel.first < measured->start;
    if (IsConvolution(kernel.name)) lines[kernel.site].tried.insert(kernel.name);
  }
  for (const KernelsOfLine& kernel : kernels) {
    if (kernel.last < measured->start || !IsConvolution(kernel.name)) continue;
    lines[kernel.site].tried.erase(kernel.name);
    lines[kernel.site].still = true;
  }
  for (const auto& [site, line] : lines) {
    if (line.still) found.tried = std::max(found.tried, line.tried.size());
  }
  // Nothing of the beginning was given up, and the devices were watched all the time.
  found.begin_recorded = any_before && !process.kept_from && process.unwatched_steps == 0 && process.pauses == 0;
  return found;
}

}  // namespace slipstream::advise
