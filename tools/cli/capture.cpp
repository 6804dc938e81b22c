#include "tools/cli/capture.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
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

// Reads until every writer has closed the pipe, the time is up or `stop` is true. False: it was not read to its end.
bool ReadUntil(int fd, uint64_t deadline_ns, const std::atomic<bool>* stop, std::string& text) {
  constexpr uint64_t kLook = 100'000'000;  // ns between looks at `stop`: its signal may go to another thread
  char buffer[4096];
  while (true) {
    const uint64_t now = tracer::NowNs();
    if (now >= deadline_ns || (stop != nullptr && stop->load())) return false;
    const uint64_t left = stop != nullptr ? std::min(deadline_ns - now, kLook) : deadline_ns - now;
    pollfd waiting = {fd, POLLIN, 0};
    const int ready = poll(&waiting, 1, static_cast<int>(left / 1'000'000) + 1);
    if (ready < 0 && errno != EINTR) return true;
    if (ready <= 0) continue;
    const ssize_t got = read(fd, buffer, sizeof(buffer));
    if (got == 0) return true;
    if (got > 0) text.append(buffer, static_cast<size_t>(got));
  }
}

}  // namespace

Captured Capture(const std::vector<std::string>& command, const std::vector<std::string>& environment, int seconds,
                 const std::atomic<bool>* stop) {
  Captured captured;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return captured;
  const pid_t child = fork();
  if (child == 0) BecomeCaptured(command, environment, ends[1]);
  close(ends[1]);
  if (child > 0) {
    const uint64_t deadline = tracer::NowNs() + static_cast<uint64_t>(seconds) * 1'000'000'000u;
    const bool in_time = ReadUntil(ends[0], deadline, stop, captured.output);
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
