#include "tools/trace/top/run_watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "tools/trace/top/counter_rates.h"
#include "tracer/base/clock.h"
#include "tracer/spool/process_facts.h"
#include "tracer/spool/spool_format.h"

namespace slipstream::top {
namespace {

// Of one trace in one go: some tenths of a second.
constexpr uint64_t kReadBytes = uint64_t{8} << 20;
// Ranks whose median steps differ by less are as fast as each other.
constexpr double kSlower = 1.01;

std::vector<std::string> NamesIn(const std::string& directory, std::string* error) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(directory.c_str()), closedir);
  if (dir == nullptr) {
    *error = std::strerror(errno);
    return names;
  }
  while (const dirent* entry = readdir(dir.get())) names.emplace_back(entry->d_name);
  std::sort(names.begin(), names.end());
  return names;
}

uint64_t Apart(uint64_t a, uint64_t b) { return a < b ? b - a : a - b; }

// In a job whose ranks wait for each other all steps take as long as the slowest one's, or nearly.
void MarkSlowest(std::vector<ProcessView>* processes) {
  ProcessView* slowest = nullptr;
  uint64_t slowest_ns = 0;
  uint64_t fastest_ns = std::numeric_limits<uint64_t>::max();
  size_t known = 0;
  for (ProcessView& process : *processes) {
    if (!process.alive || !process.trace || !process.trace->steps) continue;
    ++known;
    const uint64_t median = process.trace->steps->median_ns;
    fastest_ns = std::min(fastest_ns, median);
    if (slowest != nullptr && median <= slowest_ns) continue;
    slowest = &process;
    slowest_ns = median;
  }
  if (known < 2 || slowest == nullptr) return;
  slowest->slowest = static_cast<double>(slowest_ns) > static_cast<double>(fastest_ns) * kSlower;
}

}  // namespace

RunWatch::RunWatch(RunWatchOptions options) : options_(std::move(options)), host_(tracer::HostName()) {}

void RunWatch::Complain(const std::string& problem) {
  if (std::find(problems_.begin(), problems_.end(), problem) == problems_.end()) problems_.push_back(problem);
}

RunWatch::File::~File() { close(fd); }

bool RunWatch::IsOurs(const std::string& path, const struct stat& facts, bool directory) {
  if (directory ? !S_ISDIR(facts.st_mode) : !S_ISREG(facts.st_mode)) {
    Complain(path + ": not a " + (directory ? "directory" : "file") + "; left out");
    return false;
  }
  if (facts.st_uid == options_.owner.value_or(geteuid()) || facts.st_uid == 0) return true;
  Complain(path + ": belongs to another user; left out");
  return false;
}

std::unique_ptr<RunWatch::File> RunWatch::OpenOurs(const std::string& path) {
  // O_NONBLOCK: what is put in the place of a file may be a pipe that nobody writes to.
  const int fd = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    if (errno != ENOENT) Complain(path + ": " + std::strerror(errno) + "; left out");
    return nullptr;
  }
  auto file = std::make_unique<File>(fd);
  struct stat facts {};
  if (fstat(fd, &facts) != 0 || !IsOurs(path, facts, false)) file.reset();
  return file;
}

RunWatch::Process& RunWatch::ProcessFor(const std::string& directory, int32_t pid, uint64_t start_unix_ns,
                                        bool counters) {
  Process* nearest = nullptr;
  for (const auto& process : processes_) {
    const bool has_one = counters ? !process->counter_path.empty() : process->tail != nullptr;
    if (process->directory != directory || process->pid != pid || has_one) continue;
    if (nearest == nullptr ||
        Apart(process->start_unix_ns, start_unix_ns) < Apart(nearest->start_unix_ns, start_unix_ns)) {
      nearest = process.get();
    }
  }
  if (nearest == nullptr) {
    nearest = processes_.emplace_back(std::make_unique<Process>()).get();
    nearest->directory = directory;
    nearest->pid = pid;
    nearest->start_unix_ns = start_unix_ns;
  }
  return *nearest;
}

void RunWatch::OpenCounters(const std::string& directory, const std::string& path) {
  if (by_path_.count(path) != 0) return;
  std::unique_ptr<File> file = OpenOurs(path);
  if (file == nullptr) return;
  tracer::ProcessCounts counts;
  std::string error;
  if (!tracer::ReadCounterFile(file->fd, path, &counts, &error)) {
    Complain(error);  // it may just be being made: tried again
    return;
  }
  Process& process = ProcessFor(directory, counts.pid, counts.start_unix_ns, true);
  process.counter_path = path;
  process.counter_file = std::move(file);
  process.start_unix_ns = counts.start_unix_ns;
  by_path_[path] = &process;
}

void RunWatch::ReadCounters(Process* process, uint64_t now_ns) {
  tracer::ProcessCounts counts;
  std::string error;
  if (!tracer::ReadCounterFile(process->counter_file->fd, process->counter_path, &counts, &error)) {
    Complain(error);
    return;
  }
  process->before = std::move(process->now);
  process->before_ns = process->now_ns;
  process->now = std::move(counts);
  process->now_ns = now_ns;
  // It had ended before this reading: there will be nothing new.
  if (!process->alive) process->counter_file.reset();
}

void RunWatch::OpenTail(const std::string& directory, const std::string& path) {
  if (by_path_.count(path) != 0) return;
  auto waiting = nameless_.find(path);
  if (waiting == nameless_.end()) {
    if (OpenOurs(path) == nullptr) return;
    std::string error;
    auto tail = SpoolTail::Open(path, &error);
    if (tail == nullptr) {
      Complain(error);  // it may just be being made: tried again
      return;
    }
    waiting = nameless_.emplace(path, std::move(tail)).first;
  }
  waiting->second->ReadOn(kReadBytes);
  const int32_t pid = waiting->second->pid();
  if (pid == 0) return;
  Process& process = ProcessFor(directory, pid, waiting->second->start_unix_ns(), false);
  process.spool_path = path;
  process.tail = std::move(waiting->second);
  const std::string host = process.tail->Fact(tracer::kFactHost);
  process.is_here = host.empty() || host == host_;
  by_path_[path] = &process;
  nameless_.erase(waiting);
}

void RunWatch::ReadDirectory(const std::string& directory) {
  // A link in its place is followed: the user named it.
  struct stat facts {};
  if (stat(directory.c_str(), &facts) != 0 || !IsOurs(directory, facts, true)) return;
  std::string error;
  const std::vector<std::string> names = NamesIn(directory, &error);
  if (!error.empty() && access(directory.c_str(), F_OK) == 0) Complain(directory + ": " + error);
  for (const std::string& name : names) {
    if (name.ends_with(tracer::kCounterSuffix)) OpenCounters(directory, directory + "/" + name);
    if (name.ends_with(tracer::kSpoolSuffix)) OpenTail(directory, directory + "/" + name);
  }
}

// A process that executed another program has gone on as another one of the same number.
void RunWatch::FindEnded() {
  std::map<std::pair<std::string, int32_t>, const Process*> newest;
  for (const auto& process : processes_) {
    const Process*& known = newest[{process->directory, process->pid}];
    if (known == nullptr || process->start_unix_ns > known->start_unix_ns) known = process.get();
  }
  for (const auto& process : processes_) {
    if (!process->alive) continue;
    const bool replaced = newest[{process->directory, process->pid}] != process.get();
    // Of another host's processes only their traces tell.
    process->alive = process->is_here ? !replaced && options_.is_alive(process->pid)
                                      : process->tail == nullptr || !process->tail->ended();
    if (!process->alive && process->tail != nullptr) process->tail->End();
  }
}

void RunWatch::Read(uint64_t now_ns) {
  problems_.clear();
  // Before, so that what is read of them is all; and behind, because of those that were not known.
  FindEnded();
  for (const std::string& directory : options_.directories) ReadDirectory(directory);
  for (const auto& process : processes_) {
    if (process->counter_file != nullptr) ReadCounters(process.get(), now_ns);
  }
  ReadOn();
  FindEnded();
  const bool any = std::any_of(processes_.begin(), processes_.end(), [](const auto& each) { return each->alive; });
  ended_ = !any && std::none_of(options_.directories.begin(), options_.directories.end(), options_.is_in_use);
}

bool RunWatch::ReadOn() {
  bool all = true;
  for (const auto& process : processes_) {
    if (process->tail != nullptr) all = process->tail->ReadOn(kReadBytes) && all;
  }
  return all;
}

ProcessView RunWatch::LookAt(const Process& process, uint64_t now_ns) const {
  ProcessView view = {.pid = process.pid, .start_unix_ns = process.start_unix_ns, .alive = process.alive};
  view.directory = process.directory;
  if (!process.is_here) view.host = process.tail->Fact(tracer::kFactHost);
  if (process.tail != nullptr) {
    view.rank = process.tail->rank();
    const std::string executable = process.tail->Fact(tracer::kFactExecutable);
    view.executable = executable.substr(executable.rfind('/') + 1);
    view.memory = process.tail->Memory();
    const bool runs_here = process.is_here && process.alive;
    view.trace = process.tail->Look(runs_here ? std::optional(now_ns) : std::nullopt);
  }
  if (!process.now) {
    view.no_counters = "no counters: tracer.counters = \"off\"";
    return view;
  }
  view.rank = process.now->rank;
  view.executable = process.now->executable;
  view.recording = process.now->record_state;
  const std::vector<tracer::MemoryCounts> memory = process.now->LastMemory();
  if (!memory.empty()) view.memory.clear();
  for (const tracer::MemoryCounts& sample : memory) view.memory.push_back(sample.figures);
  if (!process.before) {
    view.no_counters = "not known yet: one reading so far";
    return view;
  }
  view.counters = RatesBetween(*process.before, *process.now, process.now_ns - process.before_ns);
  if (!view.counters) view.no_counters = "not known: its counters do not go on where they were";
  return view;
}

View RunWatch::Look(uint64_t now_ns) {
  View view = {
      .unix_ns = tracer::UnixNs(), .directories = options_.directories, .problems = problems_, .ended = ended_};
  for (const auto& process : processes_) view.processes.push_back(LookAt(*process, now_ns));
  std::stable_sort(view.processes.begin(), view.processes.end(), [](const ProcessView& a, const ProcessView& b) {
    if (a.alive != b.alive) return a.alive;
    return std::tie(a.rank, a.start_unix_ns, a.pid) < std::tie(b.rank, b.start_unix_ns, b.pid);
  });
  MarkSlowest(&view.processes);
  return view;
}

}  // namespace slipstream::top
