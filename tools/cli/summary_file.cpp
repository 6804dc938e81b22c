#include "tools/cli/summary_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace slipstream::cli {
namespace {

constexpr mode_t kMode = S_IRUSR | S_IWUSR;

bool IsOurs(const struct stat& facts) { return facts.st_uid == geteuid() || facts.st_uid == 0; }

// Why what stands under the name is not written to; null: it may be.
const char* Refused(const struct stat& named) {
  if (IsOurs(named)) return nullptr;
  if (S_ISLNK(named.st_mode)) return "is a symbolic link of another user";
  if (S_ISFIFO(named.st_mode)) return "is another user's";
  return nullptr;
}

// Of what was opened in the end.
const char* RefusedFile(const struct stat& facts) {
  if (!S_ISREG(facts.st_mode)) return nullptr;
  if (!IsOurs(facts)) return "is another user's";
  if (facts.st_nlink > 1) return "has a second hard link";
  return nullptr;
}

}  // namespace

int OpenSummaryFile(const std::string& path, std::string* error) {
  int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kMode);
  if (fd >= 0) {
    fchmod(fd, kMode);
    return fd;
  }
  struct stat facts {};
  if (errno == EEXIST && lstat(path.c_str(), &facts) == 0) {
    if (const char* const why = Refused(facts)) {
      *error = why;
      return -1;
    }
    // A link of one's own may lead to where there is no file yet.
    fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, kMode);
  }
  if (fd < 0 || fstat(fd, &facts) != 0) {
    *error = std::strerror(errno);
  } else if (const char* const why = RefusedFile(facts)) {
    *error = why;
  } else if (S_ISREG(facts.st_mode) && ftruncate(fd, 0) != 0) {
    *error = std::strerror(errno);
  } else {
    return fd;
  }
  if (fd >= 0) close(fd);
  return -1;
}

}  // namespace slipstream::cli
