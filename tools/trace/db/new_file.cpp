#include "tools/trace/db/new_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <string_view>

namespace slipstream::trace_db {
namespace {

constexpr std::string_view kNewSuffix = ".new-";
constexpr size_t kRandomCharacters = 6;  // mkostemp(3)
constexpr time_t kAbandonedSeconds = 3600;

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

std::string FolderOf(const std::string& place) {
  std::string folder = std::filesystem::path(place).parent_path().string();
  return folder.empty() ? "." : folder;
}

NewFile::~NewFile() {
  if (!path_.empty()) unlink(path_.c_str());
}

int NewFile::Create() {
  std::string name = place_ + std::string(kNewSuffix) + std::string(kRandomCharacters, 'X');
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

int NewFile::Publish(bool replace, bool durable) {
  if (durable) {
    if (const int error = Synchronize(path_, O_RDWR); error != 0) return error;
  }
  const int error = !replace ? RenameToNew(path_, place_) : rename(path_.c_str(), place_.c_str()) == 0 ? 0 : errno;
  if (error != 0) return error;
  path_.clear();
  // The name is as safe as the file system makes it; one that cannot synchronize directories is no failure.
  if (durable) Synchronize(FolderOf(place_), O_RDONLY | O_DIRECTORY);
  return 0;
}

void NewFile::RemoveAbandoned(const std::string& place) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(FolderOf(place).c_str()), closedir);
  if (dir == nullptr) return;
  const std::string prefix = std::filesystem::path(place).filename().string() + std::string(kNewSuffix);
  const time_t now = time(nullptr);
  while (const dirent* const entry = readdir(dir.get())) {
    const std::string_view name(entry->d_name);
    if (!name.starts_with(prefix) || name.size() != prefix.size() + kRandomCharacters) continue;
    struct stat facts {};
    if (fstatat(dirfd(dir.get()), entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(facts.st_mode) &&
        facts.st_uid == geteuid() && now - facts.st_mtim.tv_sec > kAbandonedSeconds) {
      unlinkat(dirfd(dir.get()), entry->d_name, 0);
    }
  }
}

}  // namespace slipstream::trace_db
