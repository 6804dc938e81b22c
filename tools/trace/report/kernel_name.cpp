#include "tools/trace/report/kernel_name.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace slipstream::report {

bool NamesTensorCores(std::string_view name) {
  constexpr std::array<std::string_view, 18> kSigns = {"h884",     "s884",  "d884",      "h1688",     "s1688", "i8816",
                                                       "16816",    "16832", "hmma",      "imma_",     "wgmma", "gmma",
                                                       "tensorop", "xmma",  "flash_fwd", "flash_bwd", "fmha",  "nvjet"};
  // Of the same families, with ordinary multiplications: single precision where TF32 is off, and double.
  constexpr std::array<std::string_view, 3> kOthers = {"_ffma_", "_dfma_", "_simt_"};
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto is_in_name = [&](std::string_view sign) { return lower.find(sign) != std::string::npos; };
  return std::any_of(kSigns.begin(), kSigns.end(), is_in_name) &&
         std::none_of(kOthers.begin(), kOthers.end(), is_in_name);
}

bool NamesCommunication(std::string_view name) {
  constexpr std::array<std::string_view, 4> kSigns = {"ncclDevKernel", "ncclKernel", "nvshmem", "multimem_all_"};
  return std::any_of(kSigns.begin(), kSigns.end(),
                     [&](std::string_view sign) { return name.find(sign) != std::string_view::npos; });
}

}  // namespace slipstream::report
