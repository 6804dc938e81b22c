#include "tools/cli/still_running.h"

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <string>
#include <string_view>

#include "policy/run_variable.h"
#include "tools/cli/run_state.h"

namespace slipstream::cli {
namespace {

std::string InProc(int64_t pid, const char* name) { return "/proc/" + std::to_string(pid) + "/" + name; }

// 0: there is none, or it has ended and waits for its parent.
uint64_t StartedTicks(int64_t pid) {
  const std::string stat = WholeFile(InProc(pid, "stat"));
  const size_t name = stat.rfind(") ");
  if (name == std::string::npos || stat.size() < name + 3 || stat[name + 2] == 'Z' || stat[name + 2] == 'X') return 0;
  return policy::StartedOf(stat);
}

uint64_t Now(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<uint64_t>(now.tv_nsec);
}

bool HasName(int64_t pid, std::string_view name) {
  char path[PATH_MAX];
  const ssize_t length = readlink(InProc(pid, "exe").c_str(), path, sizeof(path));
  const std::string_view file(path, length > 0 ? static_cast<size_t>(length) : 0);
  return file.substr(file.rfind('/') + 1) == name;
}

bool IsInThisNamespace(int64_t pid) {
  struct stat facts {};
  return stat(InProc(pid, "ns/pid").c_str(), &facts) == 0 && facts.st_ino == PidNamespace();
}

}  // namespace

bool StillRuns(const tracer::SpoolOutcome& file) {
  std::string boot = Boot();
  boot.resize(std::min(boot.size(), boot.find('\n')));
  if (file.pid <= 0 || file.started_ticks == 0 || file.boot.empty() || file.boot != boot) return false;
  return StartedTicks(file.pid) == file.started_ticks;
}

bool StillRuns(const tracer::ProcessCounts& process) {
  const uint64_t ticks = StartedTicks(process.pid);
  if (ticks == 0 || !IsInThisNamespace(process.pid) || !HasName(process.pid, process.executable)) return false;
  const uint64_t tick_ns = 1'000'000'000U / static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
  const uint64_t age_ns = Now(CLOCK_BOOTTIME) - ticks * tick_ns;
  return Now(CLOCK_REALTIME) - age_ns < process.start_unix_ns + tick_ns;
}

}  // namespace slipstream::cli
