#include "tools/cli/bounded_task.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>

#include "tools/cli/close_from.h"
#include "tracer/base/clock.h"

namespace slipstream::cli {
namespace {

constexpr uint64_t kMillisecond = 1'000'000;  // ns

// Keeps the descriptor `answer` alone. Files that may not grow, and a reader that is gone, are errors like others.
[[noreturn]] void DoAndAnswer(const std::function<std::string()>& task, int answer) {
  signal(SIGXFSZ, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  constexpr int kAnswer = 3;
  const int above = fcntl(answer, F_DUPFD_CLOEXEC, kAnswer + 1);
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int stream = 0; stream < kAnswer; ++stream) {
    if (nothing < 0 || dup2(nothing, stream) < 0) close(stream);
  }
  dup2(above, kAnswer);
  CloseFrom(kAnswer + 1);
  std::string text = task();
  text.resize(std::min<size_t>(text.size(), PIPE_BUF));
  [[maybe_unused]] const ssize_t written = write(kAnswer, text.data(), text.size());
  _exit(0);
}

// Up to the end of what comes. False: it did not end in time.
bool ReadAnswer(int file, uint64_t end_ns, std::string* text) {
  while (true) {
    const uint64_t now = tracer::NowNs();
    pollfd ready = {.fd = file, .events = POLLIN, .revents = 0};
    const int left = now < end_ns ? static_cast<int>((end_ns - now) / kMillisecond) + 1 : 0;
    const int polled = poll(&ready, 1, left);
    if (polled < 0 && errno == EINTR) continue;
    if (polled <= 0) return false;
    char part[PIPE_BUF];
    const ssize_t got = read(file, part, sizeof(part));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    text->append(part, static_cast<size_t>(got));
  }
}

}  // namespace

std::string DoWithin(int milliseconds, const std::string& late, const std::function<std::string()>& task) {
  const uint64_t end_ns = tracer::NowNs() + static_cast<uint64_t>(milliseconds) * kMillisecond;
  int answer[2];
  if (pipe2(answer, O_CLOEXEC) != 0) return std::strerror(errno);
  const pid_t child = fork();
  if (child == 0) DoAndAnswer(task, answer[1]);
  const int error = child < 0 ? errno : 0;
  close(answer[1]);
  std::string text;
  const bool answered = child > 0 && ReadAnswer(answer[0], end_ns, &text);
  close(answer[0]);
  if (child < 0) return std::strerror(error);
  if (!answered) return late;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (text.empty() && WIFSIGNALED(status)) return "killed by signal " + std::to_string(WTERMSIG(status));
  return text;
}

}  // namespace slipstream::cli
