// A file of bounded size that lines are appended to, opened so that nobody can redirect it.
//
// Purpose: what the log writes to. Knows nothing of levels or formats.
// Threading: one thread at a time (log.cpp has the mutex). Several processes may append to one file.
// Errors: reported by return value; nothing throws after construction.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace slipstream::policy {

// Writes all of it at once to a descriptor, keeping SIGPIPE and SIGXFSZ from the process: a reader of our log that goes
// away must not end a training. False if it could not be written whole. Preserves errno.
bool WriteQuietly(int fd, std::string_view text) noexcept;

class LogFile {
 public:
  // `path` is absolute. Opens nothing yet. `max_size` in bytes: neither the file nor the one before it, `path`.1, holds
  // more, except one line of each other process that writes while one rotates the file.
  LogFile(std::string path, std::uint64_t max_size);
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  // Appends one line. False if the line is lost: the disk is full, or the file could not be rotated. Only the first
  // call can fail because the file cannot be opened; error() then says why.
  bool Append(std::string_view line) noexcept;

  // Why the file could not be opened, as a phrase with static lifetime; empty where it could. `error_number` is
  // an errno or 0.
  std::string_view error() const noexcept { return error_; }
  int error_number() const noexcept { return error_number_; }

  const std::string& path() const noexcept { return path_; }

 private:
  bool Open() noexcept;
  bool TurnOver() noexcept;
  void Close() noexcept;

  const std::string path_;
  const std::string path_before_;
  const std::uint64_t max_size_;
  int fd_ = -1;
  // Which file that is. A program may close descriptors that it did not open, and reuse the number for another file.
  dev_t device_ = 0;
  ino_t inode_ = 0;
  bool failed_ = false;
  std::string_view error_;
  int error_number_ = 0;
};

}  // namespace slipstream::policy
