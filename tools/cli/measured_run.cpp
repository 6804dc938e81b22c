#include "tools/cli/measured_run.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "policy/environment.h"
#include "tools/cli/child.h"
#include "tools/cli/private_umask.h"
#include "tracer/base/clock.h"

// Weak: older than glibc 2.32 has none.
extern "C" [[gnu::weak]] const char* sigabbrev_np(int number) noexcept;  // NOLINT(readability-redundant-declaration)

namespace slipstream::cli {
namespace {

constexpr double kKillAfterSeconds = 3;
constexpr double kTickSeconds = 0.25;
constexpr std::array<int, 4> kEnding = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

bool IsIgnored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

double SecondsSince(uint64_t start_ns) { return static_cast<double>(tracer::NowNs() - start_ns) / 1e9; }

timespec Timespec(double seconds) {
  timespec time{};
  time.tv_sec = static_cast<time_t>(seconds);
  time.tv_nsec = static_cast<long>((seconds - static_cast<double>(time.tv_sec)) * 1e9);
  return time;
}

// While a command runs.
class Watch {
 public:
  Watch(pid_t child, const sigset_t& watched, const MeasureOptions& options, uint64_t start_ns)
      : child_(child), watched_(watched), options_(options), start_ns_(start_ns) {}

  void UntilItEnds(MeasuredRun* run) {
    while (!Ended(run)) {
      siginfo_t info{};
      const timespec wait = Timespec(WaitSeconds());
      const int number = sigtimedwait(&watched_, &info, &wait);
      const double now = SecondsSince(start_ns_);
      if (number == SIGTSTP) {
        StopWithIt(run);
      } else if (number > 0 && number != SIGCHLD) {
        // The first may be caught, and files be put in order; the second means it.
        kill(-child_, run->signal == 0 ? number : SIGKILL);
        run->signal = number;
        kill_at_ = now + kKillAfterSeconds;
      }
      if (kill_at_ > 0 && now >= kill_at_) kill(-child_, SIGKILL);
      if (options_.limit_seconds > 0 && now >= options_.limit_seconds && !run->timed_out) {
        run->timed_out = true;
        kill(-child_, SIGKILL);
      }
      if (options_.tick) options_.tick(now);
    }
  }

  // What is left of the group, when the command has ended.
  void ClearGroup(MeasuredRun* run) const {
    const bool failed = run->signal != 0 || run->timed_out || run->wanted_terminal;
    const uint64_t since = tracer::NowNs();
    const timespec pause = Timespec(0.01);
    while (GroupLives()) {
      if (failed || IsAskedToEnd() || SecondsSince(since) >= kGraceSeconds) {
        run->left_processes = !failed;
        kill(-child_, SIGKILL);
      }
      nanosleep(&pause, nullptr);
      if (SecondsSince(since) >= 2 * kGraceSeconds) return;  // what not even SIGKILL ends
    }
  }

 private:
  double WaitSeconds() const {
    // Whoever does not look on leaves the command alone: not one wake-up, where none is needed.
    double seconds = options_.tick || kill_at_ > 0 ? kTickSeconds : 3600;
    if (options_.limit_seconds > 0) {
      seconds = std::min(seconds, std::max(0.001, options_.limit_seconds - SecondsSince(start_ns_)));
    }
    return seconds;
  }

  bool Ended(MeasuredRun* run) {
    int status = 0;
    while (waitpid(child_, &status, WNOHANG | WUNTRACED) == child_) {
      if (!WIFSTOPPED(status)) {
        run->seconds = SecondsSince(start_ns_);
        run->wait_status = status;
        return true;
      }
      run->disturbed = true;
      if (WSTOPSIG(status) == SIGTTIN || WSTOPSIG(status) == SIGTTOU) {
        run->wanted_terminal = true;
        kill(-child_, SIGKILL);
      }
    }
    return false;
  }

  // A signal that comes when the command has ended is for whoever unblocks it.
  static bool IsAskedToEnd() {
    sigset_t pending;
    sigpending(&pending);
    return std::any_of(kEnding.begin(), kEnding.end(), [&](int number) { return sigismember(&pending, number) == 1; });
  }

  void StopWithIt(MeasuredRun* run) const {
    run->disturbed = true;
    kill(-child_, SIGSTOP);
    raise(SIGSTOP);  // goes on when whoever stopped us says so
    kill(-child_, SIGCONT);
  }

  // Reaps what has ended.
  bool GroupLives() const {
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    return kill(-child_, 0) == 0;
  }

  const pid_t child_;
  const sigset_t watched_;
  const MeasureOptions& options_;
  const uint64_t start_ns_;
  double kill_at_ = 0;
};

}  // namespace

OutputFile::OutputFile() {
  const PrivateUmask only_ours;
  const char* const place = policy::EnvironmentValue("TMPDIR");
  std::string path = std::string(place == nullptr || *place == '\0' ? "/tmp" : place) + "/slipstream-XXXXXX";
  fd_ = mkostemp(path.data(), O_APPEND | O_CLOEXEC);
  if (fd_ < 0) {
    error_ = errno;
  } else {
    unlink(path.c_str());
  }
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) close(fd_);
}

std::string OutputFile::Read(bool* more) const {
  std::string text;
  std::array<char, 65536> buffer{};
  while (true) {
    const ssize_t got = pread(fd_, buffer.data(), buffer.size(), static_cast<off_t>(text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    if (text.size() + static_cast<size_t>(got) > kMostRead) {
      *more = true;
      return text;
    }
    text.append(buffer.data(), static_cast<size_t>(got));
  }
}

MeasuredRun Measure(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                    const MeasureOptions& options) {
  MeasuredRun run;
  const OutputFile output;
  const OutputFile errors;
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (output.fd() < 0 || errors.fd() < 0 || null < 0) {
    run.start_errno = output.error() != 0 ? output.error() : errors.error() != 0 ? errors.error() : errno;
    if (null >= 0) close(null);
    return run;
  }
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t watched;
  sigemptyset(&watched);
  sigaddset(&watched, SIGCHLD);
  if (!IsIgnored(SIGTSTP)) sigaddset(&watched, SIGTSTP);
  for (const int number : kEnding) {
    if (!IsIgnored(number)) sigaddset(&watched, number);
  }
  sigset_t before;
  sigprocmask(SIG_BLOCK, &watched, &before);
  {
    const WaitableChildren children;
    const uint64_t start_ns = tracer::NowNs();
    const StartedCommand started = StartCommand(command, environment, before, children, [&] {
      setpgid(0, 0);
      dup2(null, STDIN_FILENO);
      dup2(output.fd(), STDOUT_FILENO);
      dup2(errors.fd(), STDERR_FILENO);
    });
    run.started = started.pid > 0;
    run.start_errno = started.start_errno;
    if (run.started) {
      Watch watch(started.pid, watched, options, start_ns);
      watch.UntilItEnds(&run);
      watch.ClearGroup(&run);
    }
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);
  close(null);
  run.output = output.Read(&run.printed_too_much);
  run.errors = errors.Read(&run.printed_too_much);
  return run;
}

std::string TroubleOf(const MeasuredRun& run, const MeasureOptions& options) {
  if (!run.started) return std::string("cannot be started: ") + std::strerror(run.start_errno);
  if (run.signal != 0) return "stopped";
  if (run.wanted_terminal) return "it wants to read from the terminal, which nobody can who is compared";
  if (run.timed_out) {
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), "still ran after %g s (--timeout), and was killed", options.limit_seconds);
    return text.data();
  }
  if (WIFSIGNALED(run.wait_status)) {
    const int number = WTERMSIG(run.wait_status);
    const char* const name = sigabbrev_np != nullptr ? sigabbrev_np(number) : nullptr;
    return std::string("killed by ") +
           (name == nullptr ? "signal " + std::to_string(number) : std::string("SIG") + name) + " (" +
           strsignal(number) + ")";
  }
  const int status = WEXITSTATUS(run.wait_status);
  if (status != 0) return "exit status " + std::to_string(status);
  return run.disturbed ? "it was stopped and continued, which its time would show" : "";
}

}  // namespace slipstream::cli
