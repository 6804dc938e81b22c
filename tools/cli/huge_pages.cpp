#include "tools/cli/huge_pages.h"

#include <fstream>

namespace slipstream::cli {
namespace {

constexpr const char* kFile = "/sys/kernel/mm/transparent_hugepage/enabled";
constexpr const char* kVariable = "THP_MEM_ALLOC_ENABLE";

}  // namespace

std::string HugePagesHere() {
  std::ifstream file(kFile);
  std::string text;
  std::getline(file, text);
  return text;
}

std::map<std::string, std::string> AskForHugePages(const std::map<std::string, std::string>& environment,
                                                   const std::string& huge_pages_here) {
  const bool can =
      huge_pages_here.find("[madvise]") != std::string::npos || huge_pages_here.find("[always]") != std::string::npos;
  if (!can || environment.contains(kVariable)) return {};
  return {{kVariable, "1"}};
}

}  // namespace slipstream::cli
