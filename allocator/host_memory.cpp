#include "allocator/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string>

#include "allocator/numa.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14; older C libraries lack the name
#endif

namespace slipstream::allocator {
namespace {

// Large enough to be worth a thread, small enough that the threads end together.
constexpr size_t kPieceBytes = size_t{4} << 20;

size_t PageBytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }
size_t RoundUp(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

bool Populate(char* memory, size_t bytes) {
  if (madvise(memory, bytes, MADV_POPULATE_WRITE) == 0) return true;
  if (errno != EINVAL) return false;
  const size_t page = PageBytes();
  for (size_t offset = 0; offset < bytes; offset += page) static_cast<volatile char*>(memory)[offset] = 0;
  return true;
}

// Lives on the stack of the thread that asked, which waits until nobody else is inside.
class Filling {
 public:
  Filling(char* memory, size_t bytes) : memory_(memory), bytes_(bytes) {}

  // False: a page could not be had.
  bool Run(int threads, bool (*start_thread)(const char*, void* (*)(void*), void*)) {
    const size_t pieces = (bytes_ + kPieceBytes - 1) / kPieceBytes;
    const size_t helpers = std::min(static_cast<size_t>(std::max(threads, 1)), pieces) - 1;
    for (size_t i = 0; i < helpers; ++i) {
      {
        const std::lock_guard lock(mutex_);
        ++inside_;
      }
      if (start_thread("slipstream-fill", Main, this)) continue;
      Leave();
      break;
    }
    Fill();
    std::unique_lock lock(mutex_);
    left_.wait(lock, [this] { return inside_ == 0; });
    return !failed_.load(std::memory_order_relaxed);
  }

 private:
  static void* Main(void* self) {
    static_cast<Filling*>(self)->Fill();
    static_cast<Filling*>(self)->Leave();
    return nullptr;
  }

  void Fill() {
    for (;;) {
      const size_t begin = next_.fetch_add(kPieceBytes, std::memory_order_relaxed);
      if (begin >= bytes_ || failed_.load(std::memory_order_relaxed)) return;
      if (!Populate(memory_ + begin, std::min(kPieceBytes, bytes_ - begin))) {
        failed_.store(true, std::memory_order_relaxed);
      }
    }
  }

  void Leave() {
    const std::lock_guard lock(mutex_);
    --inside_;
    left_.notify_one();  // with the lock held: this object is gone when the thread that waits has it
  }

  char* const memory_;
  const size_t bytes_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::condition_variable left_;
  size_t inside_ = 0;
};

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// What the control group in the folder leaves of its limit; UINT64_MAX: it has none.
uint64_t LeftOfGroup(const std::string& folder) {
  const uint64_t limit = NumberBehind(ReadText(folder + "/memory.max"), "");
  if (limit == 0) return UINT64_MAX;
  const uint64_t used = NumberBehind(ReadText(folder + "/memory.current"), "");
  const uint64_t cached = NumberBehind(ReadText(folder + "/memory.stat"), "inactive_file ");
  const uint64_t needed = used - std::min(used, cached);
  return limit - std::min(limit, needed);
}

}  // namespace

uint64_t NumberBehind(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.substr(0, name.size()) == name) {
      const std::string_view rest = line.substr(name.size());
      const size_t digits = std::min(rest.find_first_not_of(' '), rest.size());
      uint64_t value = 0;
      (void)std::from_chars(rest.data() + digits, rest.data() + rest.size(), value);
      return value;
    }
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return 0;
}

uint64_t AvailableHostMemory() {
  uint64_t available = NumberBehind(ReadText("/proc/meminfo"), "MemAvailable:") * 1024;
  const std::string groups = ReadText("/proc/self/cgroup");
  const size_t unified = groups.find("0::/");
  std::string group = unified == std::string::npos ? "" : groups.substr(unified + 3);
  group.resize(std::min(group.find('\n'), group.size()));
  // Its own group and those around it; where the process does not see them, the topmost is its own.
  for (;;) {
    available = std::min(available, LeftOfGroup("/sys/fs/cgroup" + group));
    if (group.empty()) return available;
    group.resize(group.rfind('/'));
  }
}

char* MapFilledHost(size_t bytes, int threads, bool (*start_thread)(const char*, void* (*)(void*), void*)) {
  if (bytes > SIZE_MAX - 2 * kHugePageBytes) return nullptr;
  const size_t kept = RoundUp(bytes, PageBytes());
  const size_t reserved = kept + kHugePageBytes;
  void* const mapping = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  char* const begin = static_cast<char*>(mapping);
  const size_t before =
      RoundUp(reinterpret_cast<uintptr_t>(begin), kHugePageBytes) - reinterpret_cast<uintptr_t>(begin);
  char* const memory = begin + before;
  if (before != 0) munmap(begin, before);
  if (before != kHugePageBytes) munmap(memory + kept, kHugePageBytes - before);
  (void)madvise(memory, kept, MADV_HUGEPAGE);
  (void)madvise(memory, kept, MADV_DONTFORK);
  if (Filling(memory, kept).Run(ThreadsThatMayFill(memory, kept, threads), start_thread)) return memory;
  munmap(memory, kept);
  return nullptr;
}

void UnmapHost(void* memory, size_t bytes) { munmap(memory, RoundUp(bytes, PageBytes())); }

}  // namespace slipstream::allocator
