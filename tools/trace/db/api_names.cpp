#include "tools/trace/db/api_names.h"

#include <cctype>
#include <charconv>
#include <map>

namespace slipstream::trace_db {
namespace {

constexpr std::string_view kCuptiNames[] = {
#include "generated/cupti_runtime_names.inc"
};

struct Newest {
  int version = 0;
  std::string_view name;
};

// By the function's own name.
const std::map<std::string_view, Newest>& Names() {
  static const auto* const kNames = [] {
    auto* const names = new std::map<std::string_view, Newest>;
    for (const std::string_view name : kCuptiNames) {
      const size_t at = name.rfind("_v");
      int version = 0;
      std::from_chars(name.data() + at + 2, name.data() + name.size(), version);
      Newest& newest = (*names)[name.substr(0, at)];
      if (version >= newest.version) newest = {version, name};
    }
    return names;
  }();
  return *kNames;
}

// "cudaMemPrefetchAsync_ptsz" of "cudaMemPrefetchAsync_v2_ptsz"; the name itself where it has no version.
std::string WithoutVersion(std::string_view function) {
  std::string name(function);
  const size_t at = name.find("_v");
  size_t end = at == std::string::npos ? 0 : at + 2;
  while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])) != 0) ++end;
  const bool is_version = at != std::string::npos && end > at + 2 && (end == name.size() || name[end] == '_');
  return is_version ? name.erase(at, end - at) : name;
}

}  // namespace

std::string ApiName(std::string_view function) {
  // CUPTI calls __cudaLaunchKernel, by which CUDA 13 compiles <<<>>>, what it calls it in CUDA 12.
  const std::string_view plain = function.starts_with("__") ? function.substr(2) : function;
  auto found = Names().find(plain);
  if (found == Names().end()) found = Names().find(WithoutVersion(plain));
  return std::string(found != Names().end() ? found->second.name : function);
}

bool IsDriverFunction(std::string_view function) {
  return function.size() > 2 && function.starts_with("cu") &&
         std::isupper(static_cast<unsigned char>(function[2])) != 0;
}

}  // namespace slipstream::trace_db
