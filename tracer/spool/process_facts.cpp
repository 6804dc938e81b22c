#include "tracer/spool/process_facts.h"

#include <sched.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <string_view>

#include "tracer/spool/spool_format.h"

namespace slipstream::tracer {
namespace {

// `files` null: the calling thread reads it.
std::string FirstBytes(OwnFiles* files, const char* path) {
  char bytes[kMaxSpoolText];
  const ssize_t used = files != nullptr ? files->Read(path, bytes) : ReadFile(path, bytes);
  return used > 0 ? std::string(bytes, static_cast<size_t>(used)) : std::string();
}

// Field 22; the second one, the program's name in brackets, may hold anything.
std::string StartTicks(OwnFiles* files) {
  const std::string stat = FirstBytes(files, "/proc/self/stat");
  size_t at = stat.rfind(") ");
  if (at == std::string::npos) return {};
  ++at;
  for (int field = 3; field < 22 && at != std::string::npos; ++field) at = stat.find(' ', at + 1);
  if (at == std::string::npos) return {};
  return stat.substr(at + 1, stat.find(' ', at + 1) - at - 1);
}

std::string LinkedTo(const char* link) {
  char path[kMaxSpoolText];
  const ssize_t length = readlink(link, path, sizeof(path));
  return length > 0 ? std::string(path, static_cast<size_t>(length)) : std::string();
}

std::string BootId(OwnFiles* files) {
  const std::string line = FirstBytes(files, "/proc/sys/kernel/random/boot_id");
  return line.substr(0, line.find('\n'));
}

int64_t Processors() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : -1;
}

int64_t SharedMemoryBytes() {
  struct statvfs place {};
  if (statvfs("/dev/shm", &place) != 0) return -1;
  return static_cast<int64_t>(place.f_blocks) * static_cast<int64_t>(place.f_frsize);
}

void AddText(Facts* facts, const char* key, std::string text) {
  if (!text.empty()) facts->emplace_back(key, std::move(text));
}

void AddNumber(Facts* facts, const char* key, int64_t number) {
  if (number >= 0) facts->emplace_back(key, std::to_string(number));
}

}  // namespace

std::string HostName() {
  utsname name{};
  return uname(&name) == 0 ? name.nodename : "";
}

std::string CommandLine() { return FirstBytes(nullptr, "/proc/self/cmdline"); }

Facts ProcessFacts(OwnFiles* files, const JobIdentity& job) {
  Facts facts;
  AddNumber(&facts, kFactPid, getpid());
  AddNumber(&facts, kFactParentPid, getppid());
  AddText(&facts, kFactHost, HostName());
  AddText(&facts, kFactBootId, BootId(files));
  AddText(&facts, kFactTimeNamespace, LinkedTo("/proc/self/ns/time"));
  AddText(&facts, kFactStartTicks, StartTicks(files));
  AddText(&facts, kFactExecutable, LinkedTo("/proc/self/exe"));
  AddNumber(&facts, kFactProcessors, Processors());
  AddNumber(&facts, kFactSharedMemory, SharedMemoryBytes());
  AddText(&facts, kFactLauncher, job.launcher);
  AddText(&facts, kFactJob, job.job);
  AddNumber(&facts, kFactRank, job.rank);
  AddNumber(&facts, kFactLocalRank, job.local_rank);
  AddNumber(&facts, kFactWorldSize, job.world_size);
  return facts;
}

}  // namespace slipstream::tracer
