#include "tools/cli/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace slipstream::cli {
namespace {

// False, with errno, where the file exists or cannot be written whole (then nothing is left of it).
bool WriteNewFile(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd < 0) return false;
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t count = ::write(fd, rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    rest.remove_prefix(static_cast<std::size_t>(count));
  }
  int error = rest.empty() ? 0 : errno;
  if (::close(fd) != 0 && error == 0) error = errno;
  if (error == 0) return true;
  ::unlink(path.c_str());
  errno = error;
  return false;
}

}  // namespace

std::string WriteTextFile(const std::string& path, const std::string& text, bool force) {
  // Replacing goes through a file beside it, which would take the place of a device or a pipe too.
  struct stat there {};
  if (force && ::stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode))
    return "is no regular file: name another";
  const std::string fresh = force ? path + ".new." + std::to_string(::getpid()) : path;
  if (!WriteNewFile(fresh, text)) {
    if (errno == EEXIST && !force) return "exists; --force replaces it";
    return std::string("cannot be written: ") + std::strerror(errno);
  }
  if (force && ::rename(fresh.c_str(), path.c_str()) != 0) {
    std::string error = std::string("cannot be replaced: ") + std::strerror(errno);
    ::unlink(fresh.c_str());
    return error;
  }
  return "";
}

}  // namespace slipstream::cli
