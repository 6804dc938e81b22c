#include "policy/environment.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdlib>
#include <cstring>

extern char** environ;  // NOLINT(readability-redundant-declaration): unistd.h declares it only for GNU sources.

namespace slipstream::policy {
namespace {

// Lies in pages of its own, which also hold what it points to.
struct Remembered {
  const char* directory;  // empty: it cannot be found
  char* const* variables;
};

constinit std::atomic<const Remembered*> g_remembered{nullptr};

// Of the process's beginning, as far as they are known.
char* const* VariablesAtStart() noexcept {
  const Remembered* const remembered = g_remembered.load(std::memory_order_acquire);
  return remembered != nullptr ? remembered->variables : environ;
}

}  // namespace

Environment Environment::FromProcess() noexcept { return From(environ); }

Environment Environment::AtStart() noexcept {
  RememberVariables();
  const Remembered* const remembered = g_remembered.load(std::memory_order_acquire);
  if (remembered == nullptr) return FromProcess();
  Environment result = From(remembered->variables);
  try {
    result.directory_ = remembered->directory;
  } catch (...) {
    result.complete_ = false;
  }
  return result;
}

Environment Environment::From(char* const* variables) noexcept {
  Environment result;
  try {
    if (variables == nullptr) return result;  // After clearenv().
    for (char* const* entry = variables; *entry != nullptr; ++entry) {
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

void RememberVariables() noexcept {
  if (g_remembered.load(std::memory_order_acquire) != nullptr || environ == nullptr) return;
  std::size_t count = 0;
  std::size_t bytes = 0;
  for (; environ[count] != nullptr; ++count) bytes += std::strlen(environ[count]) + 1;
  // A table, and behind it the texts. By system calls: mmap has a hook, which would look itself up.
  const std::size_t table = sizeof(Remembered) + (count + 1) * sizeof(char*);
  const std::size_t size = table + bytes + PATH_MAX;
  const long pages = syscall(SYS_mmap, nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1L, 0L);
  if (pages < 0) return;
  auto* const remembered = reinterpret_cast<Remembered*>(pages);
  auto** const variables = reinterpret_cast<char**>(remembered + 1);
  char* text = reinterpret_cast<char*>(pages) + table;
  char* const end = text + bytes;
  // Where another thread changes them meanwhile, which it may not, no more is copied than there is room for.
  for (std::size_t i = 0; i < count && environ[i] != nullptr; ++i) {
    const std::size_t length = std::strlen(environ[i]) + 1;
    if (length > static_cast<std::size_t>(end - text)) break;
    variables[i] = text;
    std::memcpy(text, environ[i], length - 1);
    text += length;
  }
  // "(unreachable)/..." is none.
  if (syscall(SYS_getcwd, end, PATH_MAX) < 0 || *end != '/') *end = '\0';
  *remembered = {.directory = end, .variables = variables};
  const Remembered* nobody = nullptr;
  if (!g_remembered.compare_exchange_strong(nobody, remembered, std::memory_order_acq_rel)) {
    syscall(SYS_munmap, remembered, size);
  }
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

bool DisabledByEnvironment() noexcept { return DisabledIn(VariablesAtStart()); }

bool FreedMemoryIsFilled() noexcept {
  const char* const alone = ValueIn(VariablesAtStart(), "MALLOC_PERTURB_");
  if (alone != nullptr && std::atoi(alone) != 0) return true;
  constexpr const char* kTunable = "glibc.malloc.perturb=";
  const char* const tunables = ValueIn(VariablesAtStart(), "GLIBC_TUNABLES");
  const char* const found = tunables != nullptr ? std::strstr(tunables, kTunable) : nullptr;
  return found != nullptr && std::atoi(found + std::strlen(kTunable)) != 0;
}

bool DisabledIn(char* const* variables) noexcept {
  const char* value = ValueIn(variables, kDisableVariable);
  return value != nullptr && value[0] != '\0' && std::strcmp(value, "0") != 0;
}

}  // namespace slipstream::policy
