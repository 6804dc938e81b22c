// The file that a process records into. It is made where no other user can interfere, and is only appended to.
//
// Its descriptor is where the program cannot reach it (own_files.h).
// Threading: one thread.
// Errors: as values; nothing throws but Create without memory. Writing past RLIMIT_FSIZE sends SIGXFSZ to the thread
//   that writes: it must have that signal blocked, and then sees EFBIG.
// Source of the rules: S58, S59.
#pragma once

#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "tracer/spool/own_files.h"

namespace slipstream::tracer {

// Why nothing is recorded; shown to people with the errno.
enum class SpoolProblem : uint8_t {
  kNone,
  kBadOptions,  // a size or number out of its range
  kNoMemory,
  kNoThread,           // the system gives no thread, or no thread-specific key
  kNoForkGuard,        // no memory that is empty in a forked child (before Linux 4.14)
  kSharedDescriptors,  // no table of descriptors of our own: forbidden
  kNoDirectory,        // it is not there, cannot be opened, is no directory, or is a symbolic link
  kForeignDirectory,   // it belongs to another user
  kOpenDirectory,      // others may write to it
  kNoFile,             // the file cannot be made
  kWriting,            // it cannot be written
  kTooSlow,            // making it takes longer than a program should wait
};
// "no_directory" and so on.
const char* NameOf(SpoolProblem problem);

struct SpoolFailure {
  SpoolProblem problem = SpoolProblem::kNone;
  int error = 0;  // an errno, or 0
};

// The system's calls, so that tests can fail and stall them; not the C library's functions, which another preload may
// have wrapped.
struct FileCalls {
  ssize_t (*pwrite)(int, const void*, size_t, off_t) = [](int file, const void* bytes, size_t size, off_t at) {
    return static_cast<ssize_t>(syscall(SYS_pwrite64, file, bytes, size, at));
  };
  int (*ftruncate)(int, off_t) = [](int file, off_t size) {
    return static_cast<int>(syscall(SYS_ftruncate, file, size));
  };
  int (*fstat)(int, struct stat*) = [](int file, struct stat* facts) {
    return static_cast<int>(syscall(SYS_fstat, file, facts));
  };
  int (*fallocate)(int, int, off_t, off_t) = [](int file, int mode, off_t at, off_t size) {
    return static_cast<int>(syscall(SYS_fallocate, file, mode, at, size));
  };
};

class SpoolFile {
 public:
  // Everything happens on the thread of `files`, which lives longer; null: on the calling one.
  explicit SpoolFile(const FileCalls& calls, OwnFiles* files = nullptr) : calls_(calls), files_(files) {}
  SpoolFile(const SpoolFile&) = delete;
  SpoolFile& operator=(const SpoolFile&) = delete;
  ~SpoolFile() { Close(); }

  // Makes the file (0600) in the directory, which is not made: a process may outlive its run. The file must be
  // new. Neither is reached through a symbolic link.
  SpoolFailure Create(const std::string& directory, const std::string& name);

  // Appends all of it, or returns an errno; then the file keeps its length, if the system lets it. EIDRM: the file was
  // removed, so that nothing could ever read it.
  int Append(const void* bytes, size_t size);
  // Gives the bytes from `from` up to `to` back to the file system: they read as zeros, and the file keeps its length.
  // Where they end within a block of the file system, that block stays. 0, or an errno.
  int GiveBack(uint64_t from, uint64_t to);
  // Whether the file system can do that: 0, or an errno.
  int CanGiveBack();
  // Removes a file to which nothing could be appended.
  void Close();

  uint64_t size() const { return size_; }  // what was appended

 private:
  template <typename Work>
  auto Do(Work work) {
    return files_ != nullptr ? files_->Do(work) : work();
  }
  SpoolFailure CreateHere(const char* directory, const char* name);
  int AppendHere(const void* bytes, size_t size);
  int GiveBackHere(uint64_t from, uint64_t to);

  const FileCalls calls_;
  OwnFiles* const files_;
  int fd_ = -1;
  std::string path_;
  uint64_t size_ = 0;
};

// "<host>-<pid>-<start>.spool"; of the host's name, only characters that any file system takes.
std::string SpoolName(const std::string& host, int64_t pid, uint64_t start_unix_ns);

}  // namespace slipstream::tracer
