#include "tools/trace/report/kernel_name.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace slipstream::report {

bool NamesTensorCores(std::string_view name) {
  constexpr std::array<std::string_view, 18> kSigns = {"h884",     "s884",  "d884",      "h1688",     "s1688", "i8816",
                                                       "16816",    "16832", "hmma",      "imma_",     "wgmma", "gmma",
                                                       "tensorop", "xmma",  "flash_fwd", "flash_bwd", "fmha",  "nvjet"};
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::any_of(kSigns.begin(), kSigns.end(),
                     [&](std::string_view sign) { return lower.find(sign) != std::string::npos; });
}

bool NamesCommunication(std::string_view name) {
  constexpr std::array<std::string_view, 4> kSigns = {"ncclDevKernel", "ncclKernel", "nvshmem", "multimem_all_"};
  return std::any_of(kSigns.begin(), kSigns.end(),
                     [&](std::string_view sign) { return name.find(sign) != std::string_view::npos; });
}

}  // namespace slipstream::report
