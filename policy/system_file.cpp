#include "policy/system_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace slipstream::policy {
namespace {

constexpr size_t kMost = size_t{1} << 20;

}  // namespace

std::string ReadSystemFile(const std::string& path) {
  std::string text;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  char part[4096];
  try {
    while (text.size() < kMost) {
      const ssize_t bytes = read(file, part, sizeof(part));
      if (bytes < 0 && errno == EINTR) continue;
      if (bytes <= 0) break;
      text.append(part, static_cast<size_t>(bytes));
    }
  } catch (...) {
    close(file);
    throw;
  }
  close(file);
  return text;
}

}  // namespace slipstream::policy
