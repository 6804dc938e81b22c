#include "tracer/spool/spool_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "tracer/spool/spool_format.h"

namespace slipstream::tracer {
namespace {

// Above those that a library might print to, wherever it is called. ThreadSanitizer knows one table of descriptors a
// process: to it, a low number would be the program's descriptor of that number.
#if defined(__SANITIZE_THREAD__)
constexpr int kFirstDescriptor = 1000;
#else
constexpr int kFirstDescriptor = 3;
#endif

int MovedUp(int fd) {
  if (fd < 0 || fd >= kFirstDescriptor) return fd;
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, kFirstDescriptor);
  const int error = errno;
  close(fd);
  errno = error;
  return moved;
}

// Every descriptor of the calling thread's own table. False: nobody says which there are.
bool CloseAll() {
  DIR* const list = opendir("/proc/thread-self/fd");
  if (list == nullptr) return false;
  std::vector<int> open;
  while (const dirent* const entry = readdir(list)) {
    if (entry->d_name[0] != '.') open.push_back(std::atoi(entry->d_name));
  }
  closedir(list);  // it is one of them: closing it again does nothing
  for (const int fd : open) close(fd);
  return true;
}

SpoolFailure OpenDirectory(const std::string& path, int* directory) {
  *directory = MovedUp(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (*directory < 0) return {SpoolProblem::kNoDirectory, errno};
  struct stat facts {};
  if (fstat(*directory, &facts) != 0) return {SpoolProblem::kNoDirectory, errno};
  if (facts.st_uid != geteuid()) return {SpoolProblem::kForeignDirectory, 0};
  if ((facts.st_mode & (S_IWGRP | S_IWOTH)) != 0) return {SpoolProblem::kOpenDirectory, 0};
  return {};
}

}  // namespace

const char* NameOf(SpoolProblem problem) {
  switch (problem) {
    case SpoolProblem::kNone:
      return "none";
    case SpoolProblem::kBadOptions:
      return "bad_options";
    case SpoolProblem::kNoMemory:
      return "no_memory";
    case SpoolProblem::kNoThread:
      return "no_thread";
    case SpoolProblem::kNoForkGuard:
      return "no_fork_guard";
    case SpoolProblem::kSharedDescriptors:
      return "shared_descriptors";
    case SpoolProblem::kNoDirectory:
      return "no_directory";
    case SpoolProblem::kForeignDirectory:
      return "foreign_directory";
    case SpoolProblem::kOpenDirectory:
      return "open_directory";
    case SpoolProblem::kNoFile:
      return "no_file";
    case SpoolProblem::kWriting:
      return "writing";
    case SpoolProblem::kTooSlow:
      return "too_slow";
  }
  return "unknown";
}

// In one call where that can be: a copy of the table, even for a moment, keeps the program's pipes open. Before Linux
// 5.9, and where a filter forbids it, it does for as long as that takes.
int LeaveDescriptors() {
  if (syscall(SYS_close_range, 0, ~0U, CLOSE_RANGE_UNSHARE) == 0) return 0;
  const int error = errno;
  return unshare(CLONE_FILES) == 0 && CloseAll() ? 0 : error;
}

SpoolFailure SpoolFile::Create(const std::string& directory, const std::string& name) {
  int parent = -1;
  SpoolFailure failure = OpenDirectory(directory, &parent);
  if (failure.problem == SpoolProblem::kNone) {
    const int made =
        openat(parent, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
    fd_ = MovedUp(made);
    if (fd_ < 0) {
      failure = {SpoolProblem::kNoFile, errno};
      if (made >= 0) unlinkat(parent, name.c_str(), 0);
    }
    if (fd_ >= 0) fchmod(fd_, S_IRUSR | S_IWUSR);  // whatever the program's umask
    path_ = directory + "/" + name;
  }
  if (parent >= 0) close(parent);
  return failure;
}

int SpoolFile::Append(const void* bytes, size_t size) {
  if (fd_ < 0) return EBADF;
  struct stat facts {};
  if (calls_.fstat(fd_, &facts) == 0 && facts.st_nlink == 0) return EIDRM;
  const auto* at = static_cast<const char*>(bytes);
  uint64_t end = size_;
  while (end - size_ < size) {
    const size_t done = end - size_;
    const ssize_t wrote = calls_.pwrite(fd_, at + done, size - done, static_cast<off_t>(end));
    if (wrote > 0) {
      end += static_cast<uint64_t>(wrote);
    } else if (wrote == 0 || errno != EINTR) {
      const int error = wrote == 0 ? EIO : errno;
      // A part of a chunk at the end would be read as damage. Where it cannot be cut off, a reader stops there too.
      if (end != size_) calls_.ftruncate(fd_, static_cast<off_t>(size_));
      return error;
    }
  }
  size_ = end;
  return 0;
}

int SpoolFile::GiveBack(uint64_t from, uint64_t to) {
  if (fd_ < 0) return EBADF;
  if (from >= to) return 0;
  while (calls_.fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(from),
                          static_cast<off_t>(to - from)) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

// Behind its end, where nothing is.
int SpoolFile::CanGiveBack() { return GiveBack(size_, size_ + 1); }

void SpoolFile::Close() {
  if (fd_ >= 0) {
    close(fd_);
    // A file without even its beginning would be taken for a damaged trace.
    if (size_ == 0) unlink(path_.c_str());
  }
  fd_ = -1;
}

std::string SpoolName(const std::string& host, int64_t pid, uint64_t start_unix_ns) {
  constexpr size_t kMaxHost = 64;
  std::string name = host.substr(0, std::min(host.size(), kMaxHost));
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (!plain) c = '_';
  }
  if (name.empty()) name = "host";
  return name + "-" + std::to_string(pid) + "-" + std::to_string(start_unix_ns) + kSpoolSuffix;
}

}  // namespace slipstream::tracer
