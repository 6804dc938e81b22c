// The file that a process records into. It is made where no other user can interfere, and is only appended to.
//
// Hazard: the program may close descriptors that are not its own, and their numbers are reused at once: we would then
// write into a file of the program's. So the descriptors are in a table of the writer thread's own (see
// LeaveDescriptors): the program's threads cannot reach them, children do not inherit them, and exec has nothing to
// close.
// Threading: one thread, which has called LeaveDescriptors.
// Errors: as values; nothing throws. Writing past RLIMIT_FSIZE sends SIGXFSZ to the thread that writes: it must have
//   that signal blocked, and then sees EFBIG.
// Source of the rules: S58, S59.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

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

// The system's functions, so that tests can fail and stall them.
struct FileCalls {
  ssize_t (*pwrite)(int, const void*, size_t, off_t) = ::pwrite;
  int (*ftruncate)(int, off_t) = ::ftruncate;
  int (*fstat)(int, struct stat*) = ::fstat;
  int (*fallocate)(int, int, off_t, off_t) = ::fallocate;
};

// Gives the calling thread an empty table of descriptors of its own. 0 or an errno: then it may have a table of its own
// that is not empty. Linux, close_range(2), CLOSE_RANGE_UNSHARE; unshare(2), CLONE_FILES.
int LeaveDescriptors();

class SpoolFile {
 public:
  explicit SpoolFile(const FileCalls& calls) : calls_(calls) {}
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
  const FileCalls calls_;
  int fd_ = -1;
  std::string path_;
  uint64_t size_ = 0;
};

// "<host>-<pid>-<start>.spool"; of the host's name, only characters that any file system takes.
std::string SpoolName(const std::string& host, int64_t pid, uint64_t start_unix_ns);

}  // namespace slipstream::tracer
