#include "tools/trace/top/proc_files.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>

#include "policy/environment.h"

namespace slipstream::top {
namespace {

constexpr std::string_view kLibrary = "libslipstream.so";

std::optional<int32_t> NumberOf(std::string_view text) {
  int32_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || problem != std::errc() || end != text.data() + text.size() || number <= 0) return std::nullopt;
  return number;
}

}  // namespace

std::optional<std::string> ProcFiles::Read(int32_t pid, const char* name) const {
  std::ifstream file(root_ + "/" + std::to_string(pid) + "/" + name, std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  // A process that ends meanwhile makes reading fail, as does one of another user.
  return file.bad() ? std::nullopt : std::optional(text.str());
}

std::vector<int32_t> ProcFiles::All() const {
  std::vector<int32_t> all;
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(root_, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (const auto pid = NumberOf(entry->path().filename().string())) all.push_back(*pid);
  }
  std::sort(all.begin(), all.end());
  return all;
}

bool ProcFiles::Exists(int32_t pid) const {
  std::error_code ignored;
  return std::filesystem::exists(root_ + "/" + std::to_string(pid), ignored);
}

std::optional<std::string> ProcFiles::Stat(int32_t pid) const {
  const std::optional<std::string> text = Read(pid, "stat");
  if (!text) return std::nullopt;
  const size_t close = text->rfind(") ");
  return close == std::string::npos ? std::nullopt : std::optional(text->substr(close + 2));
}

bool ProcFiles::IsAlive(int32_t pid) const {
  const std::optional<std::string> stat = Stat(pid);
  return stat && !stat->empty() && stat->front() != 'Z' && stat->front() != 'X';
}

std::optional<int32_t> ProcFiles::ParentOf(int32_t pid) const {
  const std::optional<std::string> stat = Stat(pid);
  if (!stat || stat->size() < 2) return std::nullopt;
  const std::string_view rest = std::string_view(*stat).substr(2);
  return NumberOf(rest.substr(0, rest.find(' ')));
}

std::string ProcFiles::NameOf(int32_t pid) const {
  std::string name = Read(pid, "comm").value_or("");
  while (!name.empty() && name.back() == '\n') name.pop_back();
  return name;
}

ProcFiles::Variables ProcFiles::VariablesOf(int32_t pid) const {
  Variables variables;
  const std::optional<std::string> text = Read(pid, "environ");
  // Of a process whose variables may not be read the file opens or does not, and has nothing in it either way; so has a
  // thread of the kernel and a zombie.
  variables.readable = text.has_value();
  const std::string directory = std::string(policy::kRunDirectoryVariable) + "=";
  std::string_view rest = text ? std::string_view(*text) : std::string_view();
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find('\0'));
    if (entry.starts_with(directory)) variables.run_directory = entry.substr(directory.size());
    if (entry.starts_with("LD_PRELOAD=") && entry.find(kLibrary) != std::string_view::npos) {
      variables.has_library = true;
    }
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
  }
  return variables;
}

}  // namespace slipstream::top
