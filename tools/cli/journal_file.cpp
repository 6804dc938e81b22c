#include "tools/cli/journal_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace slipstream::cli {

JournalFile::~JournalFile() {
  if (fd_ >= 0) close(fd_);
}

std::string JournalFile::Open(size_t bytes) {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd_ < 0 || ftruncate(fd_, static_cast<off_t>(bytes)) != 0 || lseek(fd_, 0, SEEK_END) < 0) {
    return std::strerror(errno);
  }
  return "";
}

void JournalFile::Append(std::string_view line) const {
  while (fd_ >= 0 && !line.empty()) {
    const ssize_t count = write(fd_, line.data(), line.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return;
    line.remove_prefix(static_cast<size_t>(count));
  }
}

void JournalFile::Remove() const { unlink(path_.c_str()); }

}  // namespace slipstream::cli
