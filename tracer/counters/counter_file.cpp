#include "tracer/counters/counter_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <new>

#include "tracer/base/clock.h"

namespace slipstream::tracer {
namespace {

// Bounded copy that always terminates; the destination is zeroed memory of a fresh file.
void CopyText(char* to, size_t capacity, std::string_view from) {
  const size_t length = from.size() < capacity ? from.size() : capacity - 1;
  std::memcpy(to, from.data(), length);
  to[length] = '\0';
}

void ReadExecutableName(char* to, size_t capacity) {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  if (length <= 0) return;
  const std::string_view whole(path, static_cast<size_t>(length));
  const size_t slash = whole.rfind('/');
  CopyText(to, capacity, slash == std::string_view::npos ? whole : whole.substr(slash + 1));
}

std::string Describe(const char* what, const std::string& path, int error_number) {
  return std::string(what) + " " + path + ": " + std::strerror(error_number);
}

// The directory, if nobody else may put or replace a file in it. Below 0, with *error filled, where there is none;
// `path` is of the file that is to be made.
int OpenOwn(const std::string& directory, const std::string& path, std::string* error) {
  const int parent = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat facts {};
  if (parent < 0 || fstat(parent, &facts) != 0) {
    *error = Describe("cannot create", path, errno);
  } else if (facts.st_uid != geteuid()) {
    *error = directory + " belongs to another user";
  } else if ((facts.st_mode & S_IWOTH) != 0) {
    *error = "everybody may write to " + directory;
  } else {
    return parent;
  }
  if (parent >= 0) close(parent);
  return -1;
}

// A new file. Below 0, with *error filled, where there is none.
int CreateIn(const std::string& directory, const std::string& path, std::string* error) {
  const int parent = OpenOwn(directory, path, error);
  if (parent < 0) return -1;
  const char* const name = path.c_str() + directory.size() + 1;
  const int fd = openat(parent, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (fd < 0) *error = Describe("cannot create", path, errno);
  if (fd >= 0) fchmod(fd, S_IRUSR | S_IWUSR);  // whatever the program's umask
  close(parent);
  return fd;
}

// So that whoever reads the directory does not take it that this process called nothing. Fails where the process may
// not write there at all.
void LeaveReason(const std::string& directory, const std::string& name, const std::string& error) {
  char executable[64] = {};
  ReadExecutableName(executable, sizeof(executable));
  const size_t colon = error.rfind(": ");
  std::string reason = std::string(executable) + ": " + (colon == std::string::npos ? error : error.substr(colon + 2));
  reason.resize(std::min(reason.size(), kMostReasonBytes));
  std::string why;
  const int parent = OpenOwn(directory, name, &why);
  if (parent < 0) return;
  [[maybe_unused]] const int made = symlinkat(reason.c_str(), parent, (name + kUncountedSuffix).c_str());
  close(parent);
}

}  // namespace

CounterFile::CounterFile(char* base, uint32_t thread_count)
    : header_(reinterpret_cast<FileHeader*>(base)),
      names_(reinterpret_cast<NameEntry*>(base + NamesOffset())),
      facts_(base + FactsOffset(kHookCount)),
      decisions_(reinterpret_cast<DecisionEntry*>(base + DecisionsOffset(kHookCount))),
      samples_(reinterpret_cast<MemorySample*>(base + MemoryOffset(kHookCount))),
      threads_(reinterpret_cast<ThreadBlock*>(base + ThreadsOffset(kHookCount))),
      thread_count_(thread_count) {}

CounterFile* CounterFile::Create(const std::string& directory, uint32_t max_threads, const ProcessIdentity& identity,
                                 std::string* error) {
  const uint64_t start = NowNs();
  // A process that execs keeps its pid, so the name holds the time as well.
  const std::string name = std::to_string(getpid()) + "-" + std::to_string(start);
  CounterFile* const file = Make(directory, name, start, max_threads, identity, error);
  if (file == nullptr) LeaveReason(directory, name, *error);
  return file;
}

CounterFile* CounterFile::Make(const std::string& directory, const std::string& name, uint64_t start,
                               uint32_t max_threads, const ProcessIdentity& identity, std::string* error) {
  const uint32_t thread_count = max_threads + 1;  // and the shared block
  const size_t size = ThreadsOffset(kHookCount) + thread_count * sizeof(ThreadBlock);
  const std::string path = directory + "/" + name + kCounterSuffix;

  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < size) {
    *error = "RLIMIT_FSIZE allows no file of " + std::to_string(size) + " bytes";  // trying would raise SIGXFSZ
    return nullptr;
  }
  const int fd = CreateIn(directory, path, error);
  if (fd < 0) return nullptr;
  const int allocated = posix_fallocate(fd, 0, static_cast<off_t>(size));
  void* base = MAP_FAILED;
  int map_error = 0;
  if (allocated == 0) {
    base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    map_error = errno;
  }
  close(fd);
  if (allocated != 0 || base == MAP_FAILED) {
    *error = Describe(allocated != 0 ? "cannot allocate" : "cannot map", path, allocated != 0 ? allocated : map_error);
    unlink(path.c_str());
    return nullptr;
  }

  auto* file = new (std::nothrow) CounterFile(static_cast<char*>(base), thread_count);
  if (file == nullptr) {
    munmap(base, size);
    unlink(path.c_str());
    *error = "out of memory";
    return nullptr;
  }
  FileHeader* header = file->header_;
  header->format = kCounterFormat;
  header->hook_count = kHookCount;
  header->thread_count = thread_count;
  header->name_bytes = sizeof(NameEntry);
  header->facts_bytes = kFactsBytes;
  header->decision_bytes = sizeof(DecisionEntry);
  header->sample_bytes = sizeof(MemorySample);
  header->thread_block_bytes = sizeof(ThreadBlock);
  header->pid = getpid();
  header->parent_pid = getppid();
  header->rank = identity.rank;
  header->local_rank = identity.local_rank;
  header->start_unix_ns = UnixNs();
  header->start_monotonic_ns = start;
  ReadExecutableName(header->executable, sizeof(header->executable));
  for (size_t i = 0; i < kHookCount; ++i) {
    const auto id = static_cast<HookId>(i);
    CopyText(file->names_[i].name, kNameBytes, NameOf(id));
    file->names_[i].group = static_cast<uint8_t>(GroupOf(id));
    CopyText(file->names_[i].group_name, sizeof(file->names_[i].group_name), NameOf(GroupOf(id)));
  }
  header->magic.store(kCounterMagic, std::memory_order_release);
  return file;
}

void CounterFile::AddFact(std::string_view key, std::string_view value) {
  const std::lock_guard lock(facts_mutex_);
  const uint32_t used = header_->facts_used.load(std::memory_order_relaxed);
  const size_t length = key.size() + 1 + value.size() + 1;
  if (used + length > kFactsBytes) return;
  char* to = facts_ + used;
  std::memcpy(to, key.data(), key.size());
  to[key.size()] = '=';
  for (size_t i = 0; i < value.size(); ++i) {
    to[key.size() + 1 + i] = value[i] == '\n' || value[i] == '\0' ? ' ' : value[i];
  }
  to[length - 1] = '\n';
  header_->facts_used.store(used + static_cast<uint32_t>(length), std::memory_order_release);
}

void CounterFile::SetBound(HookId id, bool bound) {
  names_[Index(id)].bound.store(bound ? 1 : 0, std::memory_order_relaxed);
}

void CounterFile::NameDecisions(std::span<const char* const> names) {
  if (decision_count_ != 0) return;
  const size_t count = std::min<size_t>(names.size(), kMaxDecisions);
  for (size_t i = 0; i < count; ++i) CopyText(decisions_[i].name, kNameBytes, names[i]);
  decision_count_ = count;
  header_->decision_count.store(static_cast<uint32_t>(count), std::memory_order_release);
}

CounterTotals CounterFile::Totals() const {
  CounterTotals totals;
  totals.hooks.resize(kHookCount);
  totals.decisions.resize(decision_count_);
  const auto add = [](const std::atomic<uint64_t>& counter, uint64_t* to) {
    *to += counter.load(std::memory_order_acquire);
  };
  for (uint32_t i = 0; i < thread_count_; ++i) {
    const ThreadBlock& block = threads_[i];
    for (size_t hook = 0; hook < kHookCount; ++hook) {
      const CallCounter& counter = block.hooks[hook];
      Counted& to = totals.hooks[hook];
      add(counter.calls, &to.calls);
      add(counter.errors, &to.errors);
      add(counter.bytes, &to.bytes);
      add(counter.time_ns, &to.time_ns);
    }
    for (size_t decision = 0; decision < decision_count_; ++decision) {
      const DecisionCounter& counter = block.decisions[decision];
      Counted& to = totals.decisions[decision];
      add(counter.count, &to.calls);
      add(counter.bytes, &to.bytes);
      add(counter.time_ns, &to.time_ns);
    }
  }
  return totals;
}

void CounterFile::RecordMemory(const MemoryFigures& figures) {
  const uint64_t number = next_sample_.fetch_add(1, std::memory_order_relaxed);
  MemorySample& sample = samples_[(number - 1) % kMemorySamples];
  sample.number.exchange(0, std::memory_order_acq_rel);  // before any of the rest
  sample.time_ns.store(NowNs() - header_->start_monotonic_ns, std::memory_order_relaxed);
  sample.live_bytes.store(figures.live_bytes, std::memory_order_relaxed);
  sample.idle_bytes.store(figures.idle_bytes, std::memory_order_relaxed);
  sample.parked_bytes.store(figures.parked_bytes, std::memory_order_relaxed);
  sample.peak_idle_bytes.store(figures.peak_idle_bytes, std::memory_order_relaxed);
  sample.trims.store(static_cast<uint32_t>(figures.trims), std::memory_order_relaxed);
  sample.retries.store(static_cast<uint32_t>(figures.retries), std::memory_order_relaxed);
  sample.device.store(figures.device, std::memory_order_relaxed);
  sample.number.store(number, std::memory_order_release);
}

ThreadBlock* CounterFile::Claim(uint32_t thread_id) {
  for (uint32_t i = 1; i < thread_count_; ++i) {
    uint32_t expected = 0;
    // A relaxed look first: a compare-exchange would take the owner's cache line for every thread that starts.
    if (threads_[i].owner.load(std::memory_order_relaxed) != 0) continue;
    if (threads_[i].owner.compare_exchange_strong(expected, thread_id, std::memory_order_acquire)) return &threads_[i];
  }
  return &threads_[0];
}

void CounterFile::Release(ThreadBlock* block) {
  if (!IsShared(block)) block->owner.store(0, std::memory_order_release);
}

}  // namespace slipstream::tracer
