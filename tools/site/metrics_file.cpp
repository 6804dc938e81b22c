#include "tools/site/metrics_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tools/site/open_file.h"

namespace slipstream::site {
namespace {

std::string Why() { return std::strerror(errno); }

}  // namespace

std::string MetricsFile::Write(const std::string& text) {
  // A rename would replace a device or a pipe, and as root /dev/null too.
  struct stat there {};
  if (lstat(path_.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) return "it is there, and is no regular file";
  std::string beside = path_ + ".XXXXXX";
  const int file = mkostemp(beside.data(), O_CLOEXEC);
  if (file < 0) return Why();
  struct stat facts {};
  std::string error = fchmod(file, 0644) != 0 || fstat(file, &facts) != 0 ? Why() : WriteAll(file, text);
  if (close(file) != 0 && error.empty()) error = Why();
  if (error.empty() && rename(beside.c_str(), path_.c_str()) != 0) error = Why();
  if (!error.empty()) {
    unlink(beside.c_str());
    return error;
  }
  device_ = facts.st_dev;
  inode_ = facts.st_ino;
  written_ = true;
  return {};
}

void MetricsFile::Remove() {
  struct stat facts {};
  if (!written_ || lstat(path_.c_str(), &facts) != 0 || facts.st_dev != device_ || facts.st_ino != inode_) return;
  unlink(path_.c_str());
  written_ = false;
}

}  // namespace slipstream::site
