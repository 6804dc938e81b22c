#include "policy/environment.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

extern char** environ;  // NOLINT(readability-redundant-declaration): unistd.h declares it only for GNU sources.

namespace slipstream::policy {

Environment Environment::FromProcess() noexcept {
  Environment result;
  try {
    if (environ == nullptr) return result;  // After clearenv().
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string_view text = *entry;
      const std::size_t equals = text.find('=');
      if (equals == std::string_view::npos || equals == 0) continue;
      result.variables_.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    }
    // Stable, so that the first of two equal names stays first and unique() keeps it.
    std::stable_sort(result.variables_.begin(), result.variables_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
    result.variables_.erase(std::unique(result.variables_.begin(), result.variables_.end(), same),
                            result.variables_.end());
  } catch (...) {
    result.variables_.clear();
    result.complete_ = false;
  }
  return result;
}

Environment::Environment(const std::map<std::string, std::string>& variables)
    : variables_(variables.begin(), variables.end()) {}

std::optional<std::string_view> Environment::Get(std::string_view name) const noexcept {
  const auto found = std::lower_bound(variables_.begin(), variables_.end(), name,
                                      [](const auto& variable, std::string_view key) { return variable.first < key; });
  if (found == variables_.end() || found->first != name) return std::nullopt;
  return found->second;
}

char** ProcessVariables() noexcept { return environ; }

const char* ValueIn(char* const* variables, const char* name) noexcept {
  if (variables == nullptr) return nullptr;
  const std::size_t length = std::strlen(name);
  for (char* const* entry = variables; *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, name, length) == 0 && (*entry)[length] == '=') return *entry + length + 1;
  }
  return nullptr;
}

const char* EnvironmentValue(const char* name) noexcept { return ValueIn(environ, name); }

bool DisabledByEnvironment() noexcept { return DisabledIn(environ); }

bool DisabledIn(char* const* variables) noexcept {
  const char* value = ValueIn(variables, kDisableVariable);
  return value != nullptr && value[0] != '\0' && std::strcmp(value, "0") != 0;
}

}  // namespace slipstream::policy
