#include "tools/cli/summary_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "tools/cli/private_umask.h"

namespace slipstream::cli {
namespace {

constexpr mode_t kMode = S_IRUSR | S_IWUSR;

bool IsOurs(const struct stat& facts) { return facts.st_uid == geteuid() || facts.st_uid == 0; }

// Why what stands under the name is not written to; null: it may be.
const char* Refused(const struct stat& named) {
  if (IsOurs(named)) return nullptr;
  if (S_ISLNK(named.st_mode)) return "is a symbolic link of another user";
  if (S_ISFIFO(named.st_mode)) return "is another user's";
  return nullptr;
}

// Of what was opened in the end.
const char* RefusedFile(const struct stat& facts) {
  if (!S_ISREG(facts.st_mode)) return nullptr;
  if (!IsOurs(facts)) return "is another user's";
  if (facts.st_nlink > 1) return "has a second hard link";
  return nullptr;
}

std::string LastError() { return std::strerror(errno); }

// Where the name leads to, through links of one's own; the name itself where there is nothing yet.
std::string Target(const std::string& path) {
  const std::unique_ptr<char, decltype(&::free)> target(::realpath(path.c_str(), nullptr), &::free);
  return target == nullptr ? path : target.get();
}

// A pipe or a terminal that nobody reads is waited for no longer than that.
constexpr int kPatienceMs = 5000;

std::string WriteWhole(int file, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = write(file, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) {
      pollfd ready = {.fd = file, .events = POLLOUT, .revents = 0};
      if (const int polled = poll(&ready, 1, kPatienceMs); polled > 0 || (polled < 0 && errno == EINTR)) continue;
      return "nobody reads it";
    }
    if (written <= 0) return LastError();
    done += static_cast<size_t>(written);
  }
  return {};
}

// A file beside the target, that then takes its name. False where none can be made there.
bool Replace(const std::string& target, mode_t mode, const std::string& text, std::string* error) {
  std::string beside = target + ".XXXXXX";
  const PrivateUmask only_ours;
  const int file = mkostemp(beside.data(), O_CLOEXEC);
  if (file < 0) return false;
  fchmod(file, mode);
  *error = WriteWhole(file, text);
  if (close(file) != 0 && error->empty()) *error = LastError();
  if (error->empty() && rename(beside.c_str(), target.c_str()) != 0) *error = LastError();
  if (!error->empty()) unlink(beside.c_str());
  return true;
}

}  // namespace

std::string WhySummaryFileRefused(const std::string& path) {
  struct stat facts {};
  if (lstat(path.c_str(), &facts) == 0) {
    if (const char* const why = Refused(facts)) return why;
    // A link of one's own may lead to where there is no file yet.
    if (stat(path.c_str(), &facts) == 0) {
      if (const char* const why = RefusedFile(facts)) return why;
      if (S_ISDIR(facts.st_mode)) return std::strerror(EISDIR);
      return access(path.c_str(), W_OK) == 0 ? std::string() : LastError();
    }
  }
  if (errno != ENOENT) return LastError();
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) == 0 ? std::string() : LastError();
}

std::string WriteSummaryFile(const std::string& path, const std::string& text) {
  if (std::string why = WhySummaryFileRefused(path); !why.empty()) return why;
  struct stat facts {};
  const std::string target = Target(path);
  const bool there = stat(target.c_str(), &facts) == 0;
  struct stat link {};
  const bool leads_nowhere = !there && lstat(target.c_str(), &link) == 0;
  std::string error;
  if (!leads_nowhere && (!there || S_ISREG(facts.st_mode))) {
    if (Replace(target, there ? facts.st_mode & 07777 : kMode, text, &error)) return error;
  }
  // A pipe or a terminal, or a file in a folder that takes no other.
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, kMode);
  if (file < 0) return errno == ENXIO ? "nobody reads it" : LastError();
  if (fstat(file, &facts) != 0) {
    error = LastError();
  } else if (const char* const why = RefusedFile(facts)) {
    error = why;
  } else if (S_ISREG(facts.st_mode) && ftruncate(file, 0) != 0) {
    error = LastError();
  } else {
    error = WriteWhole(file, text);
  }
  close(file);
  return error;
}

}  // namespace slipstream::cli
