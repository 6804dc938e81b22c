#include "tools/trace/db/kernel_names.h"

#include <libiberty/demangle.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace slipstream::trace_db {
namespace {

// CUTLASS launches all that it computes by one of these, which has what it is as its first template argument.
constexpr std::array<std::string_view, 3> kLaunchers = {"cutlass::Kernel<", "cutlass::Kernel2<",
                                                        "cutlass::device_kernel<"};

// Behind the "<" of the launcher; empty: it is none.
std::string_view LaunchedBy(std::string_view demangled) {
  for (const std::string_view launcher : kLaunchers) {
    const size_t at = demangled.find(launcher);
    if (at == std::string_view::npos || at > demangled.find('<')) continue;
    const std::string_view arguments = demangled.substr(at + launcher.size());
    return arguments.substr(0, arguments.find_first_of("<>,("));
  }
  return {};
}

}  // namespace

std::string DemangledName(const std::string& name) {
  if (!name.starts_with("_Z")) return name;
  const std::unique_ptr<char, void (*)(void*)> text(cplus_demangle_v3(name.c_str(), DMGL_PARAMS | DMGL_TYPES),
                                                    std::free);
  return text != nullptr ? text.get() : name;
}

std::string ShortName(const std::string& demangled) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  const std::string_view launched = LaunchedBy(demangled);
  std::string name = launched.empty() ? demangled : std::string(launched);
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
