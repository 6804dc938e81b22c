#include "tools/cli/capture.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "tools/cli/child.h"
#include "tools/cli/exit_codes.h"
#include "tracer/base/clock.h"

namespace slipstream::cli {
namespace {

constexpr int kTimedOut = 124;  // as timeout(1)

[[noreturn]] void BecomeCaptured(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                                 int output) {
  setpgid(0, 0);
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  ExecCommand(command, environment);
  _exit(kNotFound);
}

// Reads until every writer has closed the pipe or the time is up. False: time is up.
bool ReadUntil(int fd, uint64_t deadline_ns, std::string& text) {
  char buffer[4096];
  while (true) {
    const uint64_t now = tracer::NowNs();
    if (now >= deadline_ns) return false;
    pollfd waiting = {fd, POLLIN, 0};
    const int ready = poll(&waiting, 1, static_cast<int>((deadline_ns - now) / 1'000'000) + 1);
    if (ready < 0 && errno != EINTR) return true;
    if (ready <= 0) continue;
    const ssize_t got = read(fd, buffer, sizeof(buffer));
    if (got == 0) return true;
    if (got > 0) text.append(buffer, static_cast<size_t>(got));
  }
}

}  // namespace

Captured Capture(const std::vector<std::string>& command, const std::vector<std::string>& environment, int seconds) {
  Captured captured;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return captured;
  const pid_t child = fork();
  if (child == 0) BecomeCaptured(command, environment, ends[1]);
  close(ends[1]);
  if (child > 0) {
    const uint64_t deadline = tracer::NowNs() + static_cast<uint64_t>(seconds) * 1'000'000'000u;
    const bool in_time = ReadUntil(ends[0], deadline, captured.output);
    if (!in_time) kill(-child, SIGKILL);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    captured.exit_status = !in_time ? kTimedOut : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  close(ends[0]);
  return captured;
}

}  // namespace slipstream::cli
