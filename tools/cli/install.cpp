#include "tools/cli/install.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

namespace slipstream::cli {

std::string OwnExecutable() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::string() : path.string();
}

std::string FindLibrary(std::vector<std::string>* tried) {
  const std::filesystem::path bin = std::filesystem::path(OwnExecutable()).parent_path();
  const std::filesystem::path prefix = bin.parent_path();
  const std::filesystem::path places[] = {bin, prefix / "lib" / "x86_64-linux-gnu", prefix / "lib64", prefix / "lib"};
  for (const std::filesystem::path& place : places) {
    const std::filesystem::path library = place / "libslipstream.so";
    if (access(library.c_str(), R_OK) == 0) return library.string();
    tried->push_back(library.string());
  }
  return {};
}

}  // namespace slipstream::cli
