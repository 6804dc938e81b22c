#include "tools/trace/db/new_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

namespace slipstream::trace_db {
namespace {

int Synchronize(const std::string& path, int flags) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC);
  if (fd < 0) return errno;
  const int error = fsync(fd) == 0 ? 0 : errno;
  close(fd);
  return error;
}

// Some file systems cannot refuse to replace (FUSE, old NFS), and some have no links either.
int RenameToNew(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  if (link(from.c_str(), to.c_str()) == 0) return unlink(from.c_str()) == 0 ? 0 : errno;
  if (errno == EEXIST) return errno;
  struct stat ignored {};
  if (lstat(to.c_str(), &ignored) == 0) return EEXIST;
  return rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

}  // namespace

NewFile::~NewFile() {
  if (!path_.empty()) unlink(path_.c_str());
}

int NewFile::Create() {
  std::string name = place_ + ".new-XXXXXX";
  const int fd = mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) return errno;
  fchmod(fd, S_IRUSR | S_IWUSR);  // whatever the umask
  close(fd);
  path_ = name;
  return 0;
}

int NewFile::TryToLengthen() {
  const int fd = open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd < 0) return errno;
  // The file may end where a limit or a last free block does not: one write is cut there and the next one refused.
  const char bytes[64 << 10] = {};
  int error = 0;
  for (int i = 0; i < 2 && error == 0; ++i) error = write(fd, bytes, sizeof(bytes)) < 0 ? errno : 0;
  close(fd);
  return error;
}

int NewFile::Publish(bool replace) {
  if (const int error = Synchronize(path_, O_RDWR); error != 0) return error;
  const int error = !replace ? RenameToNew(path_, place_) : rename(path_.c_str(), place_.c_str()) == 0 ? 0 : errno;
  if (error != 0) return error;
  path_.clear();
  // The name is as safe as the file system makes it; one that cannot synchronize directories is no failure.
  const std::string folder = std::filesystem::path(place_).parent_path().string();
  Synchronize(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY);
  return 0;
}

}  // namespace slipstream::trace_db
