// Says what a process sees of itself and of what is around it, and what reaches it: bare and under `slipstream run`.
//
//   probe facts            one fact a line, none of which differs from one start to the next
//   probe count            "ready", then the name of each signal that comes; ends with 7 at SIGQUIT
//   probe checkpoint FILE  "ready"; SIGTERM has it write the file in many pieces and end with 0, another kills it
//   probe input            "ready" as a group that has the terminal; each line that comes; ends at SIGINT
//   probe crash            ends at the signal that comes, with the system's own handling
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

void Say(const std::string& text) {
  const std::string line = text + "\n";
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0) _exit(90);
}

std::string Whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// What `slipstream run` sets by default (docs/effects.md).
bool IsOfTheRun(const std::string& variable) {
  return variable.starts_with("SLIPSTREAM_") || variable.starts_with("LD_PRELOAD=") ||
         variable.starts_with("NVTX_INJECTION64_PATH=") || variable == "THP_MEM_ALLOC_ENABLE=1";
}

int Facts() {
  Say("parent " + std::to_string(getppid()));
  Say(std::string("leads its group ") + (getpgrp() == getpid() ? "yes" : "no"));
  Say("group " + std::to_string(getpgrp() == getpid() ? 0 : getpgrp()));
  Say("session " + std::to_string(getsid(0) == getpid() ? 0 : getsid(0)));
  Say("terminal " + std::to_string(tcgetpgrp(0) == getpid() ? 0 : tcgetpgrp(0)));
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    for (const char* key : {"Name:", "Umask:", "Threads:", "SigQ:", "SigPnd:", "ShdPnd:", "SigBlk:", "SigIgn:",
                            "SigCgt:", "CapEff:", "NoNewPrivs:", "Seccomp:", "Uid:", "Gid:"}) {
      // How many signals the user has waiting anywhere: only the limit is the process's own.
      if (line.starts_with(key)) Say(line.starts_with("SigQ:") ? line.substr(line.find('/')) : line);
    }
  }
  Say(Whole("/proc/self/limits"));
  Say("oom " + Whole("/proc/self/oom_score_adj"));
  Say("nice " + std::to_string(getpriority(PRIO_PROCESS, 0)));
  Say("children " + Whole("/proc/self/task/" + std::to_string(getpid()) + "/children"));
  rusage children{};
  getrusage(RUSAGE_CHILDREN, &children);
  Say("used by children " + std::to_string(children.ru_maxrss) + " " + std::to_string(children.ru_minflt));
  std::string command = Whole("/proc/self/cmdline");
  std::replace(command.begin(), command.end(), '\0', ' ');
  Say("command " + command);
  Say("directory " + std::filesystem::current_path().string());
  std::string descriptors;
  for (int descriptor = 0; descriptor < 256; ++descriptor) {
    const int flags = fcntl(descriptor, F_GETFD);
    if (flags >= 0) descriptors += " " + std::to_string(descriptor) + (flags != 0 ? "c" : "");
  }
  Say("descriptors" + descriptors);
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!IsOfTheRun(*variable)) Say(std::string("variable ") + *variable);
  }
  return 0;
}

sigset_t Watched() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH, SIGCONT}) {
    sigaddset(&signals, number);
  }
  return signals;
}

int Count() {
  const sigset_t signals = Watched();
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  Say("ready");
  while (true) {
    int number = 0;
    sigwait(&signals, &number);
    Say(sigabbrev_np(number));
    if (number == SIGQUIT) return 7;
  }
}

volatile sig_atomic_t g_asked = 0;

int Checkpoint(const char* path) {
  constexpr int kPieces = 200;
  struct sigaction action {};
  action.sa_handler = [](int) { g_asked = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigset_t term;
  sigset_t before;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  sigprocmask(SIG_BLOCK, &term, &before);
  sigaction(SIGTERM, &action, nullptr);
  Say("ready");
  while (g_asked == 0) sigsuspend(&before);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  for (int piece = 0; piece < kPieces; ++piece) {
    if (write(file, "piece\n", 6) != 6) return 91;
    sched_yield();
  }
  close(file);
  return 0;
}

int Input() {
  // Its own group, as `timeout` makes one, which then takes the terminal.
  struct sigaction ignored {};
  ignored.sa_handler = SIG_IGN;
  sigaction(SIGTTOU, &ignored, nullptr);
  setpgid(0, 0);
  if (tcsetpgrp(STDIN_FILENO, getpid()) != 0) return 92;
  struct sigaction action {};
  action.sa_handler = [](int) {
    Say("interrupted");
    _exit(8);
  };
  sigaction(SIGINT, &action, nullptr);
  Say("ready");
  char line[256];
  while (std::fgets(line, sizeof(line), stdin) != nullptr) Say(std::string("line ") + line);
  return 9;
}

int Crash() {
  Say("ready");
  while (true) pause();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "facts") return Facts();
  if (what == "count") return Count();
  if (what == "checkpoint" && argc > 2) return Checkpoint(argv[2]);
  if (what == "input") return Input();
  if (what == "crash") return Crash();
  return 99;
}
