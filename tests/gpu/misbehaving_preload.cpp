// Preloads that break a promise on purpose, so that the suite's checks of inert processes are seen to fail. Built once
// for each MISBEHAVIOR: 0 keeps the promises, 1 starts a thread, 2 creates a file, 3 leaves a file open, 4 prints, 5
// changes the exit status.

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

namespace {

struct Misbehave {
  Misbehave() {
    if constexpr (MISBEHAVIOR == 1) {
      std::thread([] { pause(); }).detach();
    } else if constexpr (MISBEHAVIOR == 2) {
      close(open("left-behind", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    } else if constexpr (MISBEHAVIOR == 3) {
      open("/etc/passwd", O_RDONLY);
    } else if constexpr (MISBEHAVIOR == 4) {
      if (write(STDERR_FILENO, "hello\n", 6) != 6) std::abort();
    } else if constexpr (MISBEHAVIOR == 5) {
      std::atexit([] { _exit(9); });
    }
  }
} g_misbehave;

}  // namespace
