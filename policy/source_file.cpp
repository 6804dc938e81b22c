#include "policy/source_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "policy/text.h"
#include "policy/value.h"

namespace slipstream::policy {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

std::string FolderOf(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Whether everybody may put another file in the place of one in this folder. In a sticky folder (/tmp)
// only the owner may.
bool AnyoneMayReplaceIn(const std::string& folder) {
  struct stat status = {};
  if (::stat(folder.c_str(), &status) != 0) return false;
  return (status.st_mode & S_IWOTH) != 0 && (status.st_mode & S_ISVTX) == 0;
}

bool IsOurs(const struct stat& status) { return status.st_uid == ::geteuid() || status.st_uid == 0; }

void CheckOwners(const std::string& path, const struct stat& status, std::vector<Problem>& problems) {
  const auto foreign = [&](const char* what, uid_t owner) {
    problems.push_back({.file = path,
                        .what = std::string(what) + " user " + std::to_string(owner) + ", who is neither you (" +
                                std::to_string(::geteuid()) + ") nor root; refused: use a copy of your own"});
  };
  if (!IsOurs(status)) return foreign("belongs to", status.st_uid);
  struct stat named = {};
  if (::lstat(path.c_str(), &named) == 0 && !IsOurs(named)) foreign("is a symbolic link of", named.st_uid);
}

void CheckWriters(const std::string& path, const struct stat& status, std::vector<Problem>& problems) {
  if ((status.st_mode & S_IWOTH) != 0) {
    problems.push_back({.file = path, .what = "everybody may write it; refused until \"chmod o-w\" is done"});
  }
  const std::string named = FolderOf(path);
  std::string folder = named;
  if (!AnyoneMayReplaceIn(named)) {
    // The folder that the path leads to in the end, past symbolic links.
    const std::unique_ptr<char, decltype(&std::free)> resolved(::realpath(path.c_str(), nullptr), &std::free);
    if (resolved == nullptr) return;
    folder = FolderOf(resolved.get());
    if (!AnyoneMayReplaceIn(folder)) return;
  }
  problems.push_back({.file = path,
                      .what = "everybody may replace it, because everybody may write its folder " + Quote(folder, 200) +
                              "; refused until \"chmod o-w\" or \"chmod +t\" is done there"});
}

}  // namespace

std::string ErrorText(int error) {
  char buffer[128] = "";
  return strerror_r(error, buffer, sizeof(buffer));
}

// Not std::filesystem: a name is kept as it stands but for where it begins.
std::string Absolute(const std::string& path) {
  if (path.starts_with('/')) return path;
  const std::unique_ptr<char, decltype(&std::free)> here(::realpath(".", nullptr), &std::free);
  return here == nullptr ? path : std::string(here.get()) + "/" + path;
}

std::optional<std::string> ReadPolicyFile(const std::string& path, std::size_t largest,
                                          std::vector<Problem>& problems) {
  const auto refuse = [&](std::string what) {
    problems.push_back({.file = path, .what = std::move(what)});
    return std::nullopt;
  };
  // O_NONBLOCK: a FIFO must not hang the process that asks what it is.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (file.get() < 0) return refuse("cannot be opened: " + ErrorText(errno));
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) return refuse("cannot be examined: " + ErrorText(errno));
  if (S_ISDIR(status.st_mode)) return refuse("is a directory, expected a policy file");
  if (!S_ISREG(status.st_mode)) return refuse("is not a regular file");
  const std::size_t before = problems.size();
  CheckOwners(path, status, problems);
  CheckWriters(path, status, problems);
  if (problems.size() > before) return std::nullopt;

  std::string text;
  char buffer[16384];
  while (text.size() <= largest) {
    const ssize_t count = ::read(file.get(), buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return refuse("cannot be read: " + ErrorText(errno));
    if (count == 0) break;
    text.append(buffer, static_cast<std::size_t>(count));
  }
  if (text.size() > largest) {
    return refuse("is larger than " + FormatSize(static_cast<std::int64_t>(largest)) + ", the most that is read");
  }
  return text;
}

}  // namespace slipstream::policy
