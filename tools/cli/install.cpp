#include "tools/cli/install.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

namespace slipstream::cli {

std::string OwnExecutable() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) return path.string();
  // Without /proc: what the kernel was given, which may be a name from the working directory.
  const auto* const given = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  const std::filesystem::path found = given == nullptr ? "" : std::filesystem::canonical(given, error);
  return error ? std::string() : found.string();
}

std::string FindLibrary(std::vector<std::string>* tried) {
  const std::string own = OwnExecutable();
  if (own.empty()) {  // never in the working directory
    tried->emplace_back("nowhere: /proc does not say where this command is");
    return {};
  }
  const std::filesystem::path bin = std::filesystem::path(own).parent_path();
  const std::filesystem::path prefix = bin.parent_path();
  const std::filesystem::path places[] = {bin, prefix / "libexec"};
  for (const std::filesystem::path& place : places) {
    const std::filesystem::path library = place / "libslipstream.so";
    if (access(library.c_str(), R_OK) == 0) return library.string();
    tried->push_back(library.string());
  }
  return {};
}

std::string FindShared(const std::string& name) {
  const std::string own = OwnExecutable();
  if (own.empty()) return {};
  const std::filesystem::path bin = std::filesystem::path(own).parent_path();
  for (const std::filesystem::path& place : {bin, bin.parent_path()}) {
    const std::filesystem::path folder = place / "share" / "slipstream" / name;
    if (access(folder.c_str(), R_OK | X_OK) == 0) return folder.string();
  }
  return {};
}

}  // namespace slipstream::cli
