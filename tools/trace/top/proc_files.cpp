#include "tools/trace/top/proc_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "policy/environment.h"
#include "policy/number.h"

namespace slipstream::top {
namespace {

constexpr std::string_view kLibrary = "libslipstream.so";

}  // namespace

std::optional<int32_t> ProcFiles::PidIn(std::string_view text) {
  const auto number = policy::NumberIn<int32_t>(text);
  return number.value_or(0) > 0 ? number : std::nullopt;
}

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
    if (const auto pid = PidIn(entry->path().filename().string())) all.push_back(*pid);
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
  return PidIn(rest.substr(0, rest.find(' ')));
}

std::string ProcFiles::NameOf(int32_t pid) const {
  std::string name = Read(pid, "comm").value_or("");
  while (!name.empty() && name.back() == '\n') name.pop_back();
  return name;
}

std::vector<std::string> ProcFiles::CommandOf(int32_t pid) const {
  const std::string text = Read(pid, "cmdline").value_or("");
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\0', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

std::optional<uid_t> ProcFiles::OwnerOf(int32_t pid) const {
  struct stat facts {};
  if (stat((root_ + "/" + std::to_string(pid)).c_str(), &facts) != 0) return std::nullopt;
  return facts.st_uid;
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
