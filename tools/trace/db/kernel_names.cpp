#include "tools/trace/db/kernel_names.h"

#include <libiberty/demangle.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace slipstream::trace_db {

std::string DemangledName(const std::string& name) {
  if (!name.starts_with("_Z")) return name;
  const std::unique_ptr<char, void (*)(void*)> text(cplus_demangle_v3(name.c_str(), DMGL_PARAMS | DMGL_TYPES),
                                                    std::free);
  return text != nullptr ? text.get() : name;
}

std::string ShortName(const std::string& demangled) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  std::string name = demangled;
  for (size_t at = name.find(kAnonymous); at != std::string::npos; at = name.find(kAnonymous)) {
    name.erase(at, kAnonymous.size());
  }
  name.resize(std::min(name.size(), name.find_first_of("<(")));
  const size_t space = name.rfind(' ');
  if (space != std::string::npos) name.erase(0, space + 1);
  const size_t scope = name.rfind("::");
  if (scope != std::string::npos) name.erase(0, scope + 2);
  return name.empty() ? demangled : name;
}

}  // namespace slipstream::trace_db
