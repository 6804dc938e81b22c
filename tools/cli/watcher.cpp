#include "tools/cli/watcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "tools/cli/close_from.h"
#include "tools/cli/run_end.h"

namespace slipstream::cli {
namespace {

// Where the watcher has its two descriptors; 2 is the lock's as well, so that nothing that is opened later is taken for
// standard error.
constexpr int kRoot = 0;
constexpr int kLock = 1;
constexpr int kFirstOther = 3;

// Moves them there, whatever the two had. False where there is no room.
bool KeepOnly(int root, int lock) {
  const int root_above = fcntl(root, F_DUPFD_CLOEXEC, kFirstOther);
  const int lock_above = fcntl(lock, F_DUPFD_CLOEXEC, kFirstOther);
  if (root_above < 0 || lock_above < 0) return false;
  if (dup2(root_above, kRoot) < 0 || dup2(lock_above, kLock) < 0 || dup2(lock_above, kLock + 1) < 0) return false;
  CloseFrom(kFirstOther);
  return true;
}

// In the order of main's arguments, which lie one behind the other.
char* g_arguments = nullptr;
size_t g_argument_bytes = 0;

void TakeOwnName() {
  constexpr char kName[] = "slipstream-watcher";
  prctl(PR_SET_NAME, "slipstream-wa");
  if (g_argument_bytes == 0) return;
  std::memset(g_arguments, 0, g_argument_bytes);
  std::memcpy(g_arguments, kName, std::min(sizeof(kName), g_argument_bytes) - 1);
}

// The last of the process's descriptors, which KeepOnly closes, is the one that StartWatcher waits for: the command
// does not begin before the watcher has nothing of its any more.
[[noreturn]] void Watch(const std::string& directory, int root, int lock) {
  TakeOwnName();
  if (chdir("/") != 0 || !KeepOnly(root, lock)) _exit(1);
  pollfd ended = {.fd = kRoot, .events = POLLIN, .revents = 0};
  while (poll(&ended, 1, -1) < 0 && errno == EINTR) {
  }
  EndRun(directory, {.wait = true});
  _exit(0);
}

// Children that end leave no trace at their parent's, while it lives.
class UnseenChildren {
 public:
  UnseenChildren() {
    struct sigaction ignored {};
    ignored.sa_handler = SIG_IGN;
    sigaction(SIGCHLD, &ignored, &before_);
  }
  ~UnseenChildren() { sigaction(SIGCHLD, &before_, nullptr); }
  UnseenChildren(const UnseenChildren&) = delete;
  UnseenChildren& operator=(const UnseenChildren&) = delete;

 private:
  struct sigaction before_ {};
};

// In the process between: ends, so that the watcher is nobody's child here.
[[noreturn]] void Detach(const std::string& directory, int root, int lock, int report) {
  setsid();
  const pid_t watcher = fork();
  if (watcher == 0) Watch(directory, root, lock);
  const int error = watcher < 0 ? errno : 0;
  if (error != 0) [[maybe_unused]]
    const ssize_t written = write(report, &error, sizeof(error));
  _exit(0);
}

}  // namespace

bool InitCollects() {
  std::ifstream status("/proc/1/status");
  constexpr uint64_t kChild = uint64_t{1} << (SIGCHLD - 1);
  bool seen = false;
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("SigBlk:") && !line.starts_with("SigIgn:") && !line.starts_with("SigCgt:")) continue;
    seen = true;
    if ((std::strtoull(line.c_str() + std::strlen("SigBlk:"), nullptr, 16) & kChild) != 0) return true;
  }
  return !seen;
}

void KnowArguments(int count, char** arguments) {
  if (count < 1) return;
  g_arguments = arguments[0];
  const char* const last = arguments[count - 1];
  g_argument_bytes = static_cast<size_t>(last + std::strlen(last) + 1 - g_arguments);
}

std::string StartWatcher(const std::string& directory, int directory_lock) {
  const auto failed = [](const char* what, int error) { return std::string(what) + ": " + std::strerror(error); };
  const int root = static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0));
  if (root < 0) return failed("pidfd_open", errno);
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) {
    const int error = errno;
    close(root);
    return failed("pipe", error);
  }
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);  // the watcher's for good
  int error = 0;
  {
    const UnseenChildren unseen;
    const pid_t between = fork();
    if (between == 0) Detach(directory, root, directory_lock, report[1]);
    error = between < 0 ? errno : 0;
    close(report[1]);
    if (between > 0) {
      while (read(report[0], &error, sizeof(error)) < 0 && errno == EINTR) {
      }
      waitpid(between, nullptr, 0);  // ECHILD, once it is gone
    }
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);
  close(report[0]);
  close(root);
  return error == 0 ? "" : failed("fork", error);
}

}  // namespace slipstream::cli
