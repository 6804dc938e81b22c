// Runs programs and functions in processes of their own, and keeps what they did; files and folders for them.
//
// Threading: InChild forks, so the test has one thread by then. The others: any thread.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace slipstream::test {

struct Finished {
  int status = 0;  // exit status, or 128 + signal
  std::string out;
  std::string err;
};

using Variables = std::map<std::string, std::string>;

// Runs the command with this process's variables, changed by `variables` (an empty value removes one) and so that no
// policy of this machine's is found, standard input from `input`. Killed after `limit` (then status is 137).
Finished RunProgram(const std::vector<std::string>& command, const Variables& variables = {},
                    const std::string& input = "", std::chrono::seconds limit = std::chrono::minutes(2));

// LD_PRELOAD for the library, with the sanitizer runtime in front where this build has one.
Variables Preload(const std::string& library);

// A folder of its own, 0755, removed with everything in it.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A new empty directory, removed with all that is in it at the end of the test program.
std::string NewDirectory();

std::string ReadFile(const std::string& path);
// Throws where it cannot.
void WriteFile(const std::string& path, const std::string& text, mode_t mode = 0644);

// Its lines, or parts with another separator between them; a last empty one is none.
std::vector<std::string> Split(const std::string& text, char separator = '\n');
// Lines that were wrapped in one: those that begin with eight spaces or more belong to the one before.
std::string Unwrapped(const std::string& text);

// Permission bits; 0: there is no such file.
mode_t ModeOf(const std::string& path);

// Names in a directory, sorted.
std::vector<std::string> NamesIn(const std::string& directory);

// What waitpid gave, as Finished has it.
inline int StatusOf(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

// Runs `body` in a forked child, with what it writes to the standard streams caught, and returns how it ended: with the
// number that `body` returns, unless a signal came first. State of the process that `body` changes stays in the child.
template <typename Body>
Finished InChild(Body body) {
  const Folder folder;
  const std::string out = folder / "out";
  const std::string err = folder / "err";
  std::fflush(nullptr);  // or the child would write it again
  const pid_t child = fork();
  if (child == 0) {
    dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), STDOUT_FILENO);
    dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return {StatusOf(status), ReadFile(out), ReadFile(err)};
}

// Gives up root where the tests run as root, so that permissions mean something. For use in a child.
bool BecomeNobody();

}  // namespace slipstream::test
