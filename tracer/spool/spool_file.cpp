#include "tracer/spool/spool_file.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "tracer/spool/spool_format.h"

namespace slipstream::tracer {
namespace {

int Close(int file) { return static_cast<int>(syscall(SYS_close, file)); }

SpoolFailure OpenDirectory(const char* path, const FileCalls& calls, int* directory) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  *directory = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, kFlags));
  if (*directory < 0) return {SpoolProblem::kNoDirectory, errno};
  struct stat facts {};
  if (calls.fstat(*directory, &facts) != 0) return {SpoolProblem::kNoDirectory, errno};
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

SpoolFailure SpoolFile::Create(const std::string& directory, const std::string& name) {
  path_ = directory + "/" + name;
  return Do([&] { return CreateHere(directory.c_str(), name.c_str()); });
}

int SpoolFile::Append(const void* bytes, size_t size) {
  return Do([=, this] { return AppendHere(bytes, size); });
}

int SpoolFile::GiveBack(uint64_t from, uint64_t to) {
  return Do([=, this] { return GiveBackHere(from, to); });
}

SpoolFailure SpoolFile::CreateHere(const char* directory, const char* name) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  int parent = -1;
  SpoolFailure failure = OpenDirectory(directory, calls_, &parent);
  if (failure.problem == SpoolProblem::kNone) {
    fd_ = static_cast<int>(syscall(SYS_openat, parent, name, kFlags, S_IRUSR | S_IWUSR));
    if (fd_ < 0) failure = {SpoolProblem::kNoFile, errno};
    if (fd_ >= 0) syscall(SYS_fchmod, fd_, S_IRUSR | S_IWUSR);  // whatever the program's umask
  }
  if (parent >= 0) tracer::Close(parent);
  return failure;
}

int SpoolFile::AppendHere(const void* bytes, size_t size) {
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

int SpoolFile::GiveBackHere(uint64_t from, uint64_t to) {
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
  if (fd_ < 0) return;
  Do([this] {
    tracer::Close(fd_);
    // A file without even its beginning would be taken for a damaged trace.
    if (size_ == 0) syscall(SYS_unlinkat, AT_FDCWD, path_.c_str(), 0);
  });
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
