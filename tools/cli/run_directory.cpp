#include "tools/cli/run_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

namespace slipstream::cli {
namespace {

constexpr std::string_view kPrefix = "slipstream-run-";

// Ours are flat: files only.
void RemoveFlatDirectory(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(fdopendir(fd), closedir);
  if (dir == nullptr) {
    close(fd);
    return;
  }
  while (const dirent* entry = readdir(dir.get())) {
    const std::string_view name(entry->d_name);
    if (name != "." && name != "..") unlinkat(dirfd(dir.get()), entry->d_name, 0);
  }
  rmdir(path.c_str());
}

// Removes what runs of this user left in `place` when they were killed: nobody holds their lock any more.
void SweepAbandoned(const std::string& place) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(place.c_str()), closedir);
  if (dir == nullptr) return;
  while (const dirent* entry = readdir(dir.get())) {
    if (std::string_view(entry->d_name).substr(0, kPrefix.size()) != kPrefix) continue;
    const std::string path = place + "/" + entry->d_name;
    const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) continue;
    struct stat status {};
    if (fstat(fd, &status) == 0 && status.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0) {
      RemoveFlatDirectory(path);
    }
    close(fd);
  }
}

}  // namespace

RunDirectory::~RunDirectory() { Remove(); }

void RunDirectory::Remove() {
  if (!path_.empty()) RemoveFlatDirectory(path_);
  if (lock_ >= 0) close(lock_);
  path_.clear();
  lock_ = -1;
}

bool RunDirectory::Create(const std::vector<std::string>& places, std::string* error) {
  for (const std::string& place : places) {
    SweepAbandoned(place);
    // Between mkdtemp and flock another run's sweep may take the empty directory for abandoned; then try again.
    for (int attempt = 0; attempt < 8; ++attempt) {
      std::string name = place + "/" + std::string(kPrefix) + "XXXXXX";
      if (mkdtemp(name.data()) == nullptr) {
        *error += (error->empty() ? "" : "; ") + place + ": " + std::strerror(errno);
        break;
      }
      const int fd = open(name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
      struct stat held {};
      struct stat named {};
      if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) == 0 && fstat(fd, &held) == 0 && held.st_nlink != 0 &&
          stat(name.c_str(), &named) == 0 && named.st_ino == held.st_ino) {
        path_ = name;
        lock_ = fd;
        error->clear();
        return true;
      }
      if (fd >= 0) close(fd);
      rmdir(name.c_str());
    }
  }
  return false;
}

std::vector<std::string> RunDirectoryPlaces(const std::string& tmpdir) {
  std::vector<std::string> places = {"/dev/shm"};
  if (!tmpdir.empty()) places.push_back(tmpdir);
  places.emplace_back("/tmp");
  return places;
}

}  // namespace slipstream::cli
