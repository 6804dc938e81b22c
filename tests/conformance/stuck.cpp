#include "tests/conformance/stuck.h"

#include <dirent.h>
#include <execinfo.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace conformance {
namespace {

constexpr int kSignal = SIGUSR2;
constexpr int kMostFrames = 64;
sem_t printed;

void PrintStack(int /*signal*/) {
  std::array<void*, kMostFrames> frames;
  backtrace_symbols_fd(frames.data(), backtrace(frames.data(), kMostFrames), STDERR_FILENO);
  sem_post(&printed);
}

std::vector<pid_t> Threads() {
  std::vector<pid_t> threads;
  DIR* const folder = opendir("/proc/self/task");
  if (folder == nullptr) return threads;
  while (const dirent* const entry = readdir(folder)) {
    const pid_t thread = std::atoi(entry->d_name);
    if (thread > 0 && thread != gettid()) threads.push_back(thread);
  }
  closedir(folder);
  return threads;
}

std::string NameOf(pid_t thread) {
  std::string name;
  std::getline(std::ifstream("/proc/self/task/" + std::to_string(thread) + "/comm"), name);
  return name;
}

void PrintAll() {
  for (const pid_t thread : Threads()) {
    std::fprintf(stderr, "thread %d (%s)\n", thread, NameOf(thread).c_str());
    // One that does not take signals has no stack here.
    timespec until = {};
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    if (syscall(SYS_tgkill, getpid(), thread, kSignal) == 0) sem_timedwait(&printed, &until);
  }
}

}  // namespace

void EndIfStuck() {
  sem_init(&printed, 0, 0);
  std::array<void*, 1> frame;
  (void)backtrace(frame.data(), 1);  // loads what it needs, which a handler may not
  struct sigaction action = {};
  action.sa_handler = PrintStack;
  action.sa_flags = SA_RESTART;
  sigaction(kSignal, &action, nullptr);
  const char* const seconds = std::getenv("CONFORMANCE_SECONDS");
  std::thread([limit = std::chrono::seconds(seconds != nullptr ? std::atoi(seconds) : 100)] {
    std::this_thread::sleep_for(limit);
    std::fputs("stuck\n", stderr);
    PrintAll();
    _exit(1);
  }).detach();
}

}  // namespace conformance
