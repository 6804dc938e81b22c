#include "policy/log_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

namespace slipstream::policy {
namespace {

// Blocks the two signals that write() may raise in this thread, and takes back the one that came.
class WriteSignals {
 public:
  WriteSignals() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGPIPE);
    sigaddset(&signals_, SIGXFSZ);
    sigset_t pending;
    sigpending(&pending);
    for (const int signal : {SIGPIPE, SIGXFSZ}) {
      if (sigismember(&pending, signal) == 1) sigdelset(&signals_, signal);  // Not ours to take back.
    }
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }

  ~WriteSignals() {
    const timespec now = {};
    while (sigtimedwait(&signals_, nullptr, &now) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

  WriteSignals(const WriteSignals&) = delete;
  WriteSignals& operator=(const WriteSignals&) = delete;

 private:
  sigset_t signals_;
  sigset_t before_;
};

}  // namespace

bool WriteQuietly(int fd, std::string_view text) noexcept {
  const int error = errno;
  const WriteSignals signals;
  bool written = true;
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      written = false;
      break;
    }
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  errno = error;
  return written;
}

LogFile::LogFile(std::string path, std::uint64_t max_size)
    : path_(std::move(path)), path_before_(path_ + ".1"), max_size_(max_size) {}

LogFile::~LogFile() { Close(); }

void LogFile::Close() noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

bool LogFile::Open() noexcept {
  const auto fail = [this](std::string_view why, int error) {
    Close();
    failed_ = true;
    error_ = why;
    error_number_ = error;
    return false;
  };
  // O_NONBLOCK: a FIFO without a reader must not hang the process; for a regular file it means nothing.
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  fd_ = ::open(path_.c_str(), kFlags | O_EXCL, 0600);
  if (fd_ >= 0) {
    ::fchmod(fd_, 0600);  // Whatever the program's umask.
  } else if (errno == EEXIST) {
    fd_ = ::open(path_.c_str(), kFlags, 0600);
  }
  if (fd_ < 0) return errno == ELOOP ? fail("is a symbolic link", 0) : fail("cannot be opened", errno);
  struct stat status = {};
  if (::fstat(fd_, &status) != 0) return fail("cannot be examined", errno);
  // In a shared folder (/tmp) somebody else may have put a file there first, to read along or to have us write into
  // another file of ours.
  if (!S_ISREG(status.st_mode)) return fail("is not a regular file", 0);
  if (status.st_uid != ::geteuid()) return fail("belongs to another user", 0);
  if (status.st_nlink > 1) return fail("has a second hard link", 0);
  device_ = status.st_dev;
  inode_ = status.st_ino;
  return true;
}

bool LogFile::TurnOver() noexcept {
  // The lock makes one process turn the file over. The others lose what they have to say in that moment: to write on
  // would break the limit by as much as they write until the one is scheduled again, and to wait could be for ever.
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) return false;
  struct stat ours = {};
  struct stat named = {};
  const bool same = ::fstat(fd_, &ours) == 0 && ::lstat(path_.c_str(), &named) == 0 && ours.st_ino == named.st_ino &&
                    ours.st_dev == named.st_dev;
  // Not the same: another process has turned it over already.
  if (same && ::rename(path_.c_str(), path_before_.c_str()) != 0) {
    ::flock(fd_, LOCK_UN);
    return false;
  }
  Close();  // Lets go of the lock as well.
  return Open();
}

bool LogFile::Append(std::string_view line) noexcept {
  struct stat status = {};
  if (fd_ >= 0 && (::fstat(fd_, &status) != 0 || status.st_dev != device_ || status.st_ino != inode_)) {
    fd_ = -1;  // The program's own by now: not ours to write to, nor to close.
  }
  if (fd_ < 0) {
    if (failed_ || !Open() || ::fstat(fd_, &status) != 0) return false;
  }
  if (static_cast<std::uint64_t>(status.st_size) + line.size() > max_size_) {
    if (!TurnOver()) return false;
  }
  return WriteQuietly(fd_, line);
}

}  // namespace slipstream::policy
