// Helpers for tests about files, descriptors and other processes.

#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

namespace slipstream::policy::testing {

using Variables = std::map<std::string, std::string>;

// A folder of its own, 0755, removed with everything in it.
class Folder {
 public:
  Folder() {
    std::string pattern = ::testing::TempDir() + "slipstream_policy_XXXXXX";
    path_ = ::mkdtemp(pattern.data());
    ::chmod(path_.c_str(), 0755);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline void WriteFile(const std::string& path, const std::string& text, mode_t mode = 0644) {
  std::ofstream(path, std::ios::binary) << text;
  ASSERT_EQ(::chmod(path.c_str(), mode), 0);
}

inline std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline mode_t ModeOf(const std::string& path) {
  struct stat status = {};
  return ::lstat(path.c_str(), &status) == 0 ? status.st_mode & 07777U : 0;
}

struct Finished {
  int status = -1;  // As waitpid() gives it.
  std::string out;
  std::string err;

  int exit_code() const { return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status); }
};

// Runs `body` in a forked child, with what it writes to the standard streams caught, and returns how it ended: with the
// number that `body` returns, unless a signal came first. State of the process that `body` changes stays in the child.
template <typename Body>
Finished InChild(Body body) {
  const Folder folder;
  const std::string out = folder / "out";
  const std::string err = folder / "err";
  std::fflush(nullptr);  // Or the child would write it again.
  const pid_t child = ::fork();
  if (child == 0) {
    const int out_fd = ::open(out.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    const int err_fd = ::open(err.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(out_fd, STDOUT_FILENO);
    ::dup2(err_fd, STDERR_FILENO);
    ::_exit(body());
  }
  Finished finished;
  ::waitpid(child, &finished.status, 0);
  finished.out = ReadFile(out);
  finished.err = ReadFile(err);
  return finished;
}

// Gives up root where the tests run as root, so that permissions mean something. For use in a child.
inline bool BecomeNobody() {
  constexpr id_t kNobody = 65534;
  if (::geteuid() != 0) return true;
  return ::setgid(kNobody) == 0 && ::setuid(kNobody) == 0;
}

}  // namespace slipstream::policy::testing
