#include "tracer/python/pytorch_folder.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

namespace slipstream::tracer {
namespace {

constexpr std::string_view kOwnFiles[] = {"_tensor.py", "nn/modules/module.py", "autograd/function.py"};

bool HasPyTorchsFiles(std::string_view folder) {
  std::array<char, PATH_MAX> path;
  for (const std::string_view file : kOwnFiles) {
    if (folder.size() + file.size() >= path.size()) return false;
    std::memcpy(path.data(), folder.data(), folder.size());
    std::memcpy(&path[folder.size()], file.data(), file.size());
    path[folder.size() + file.size()] = '\0';
    if (access(path.data(), F_OK) != 0) return false;
  }
  return true;
}

}  // namespace

std::string_view PyTorchFolderOf(std::string_view file) {
  constexpr std::string_view kName = "/torch/";
  if (!file.starts_with('/')) return {};
  const int kept = errno;
  std::string_view found;
  for (size_t at = 0; found.empty() && (at = file.find(kName, at)) != std::string_view::npos; ++at) {
    const std::string_view folder = file.substr(0, at + kName.size());
    if (HasPyTorchsFiles(folder)) found = folder;
  }
  errno = kept;
  return found;
}

}  // namespace slipstream::tracer
