#include "policy/write_watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>

namespace slipstream::policy {
namespace {

// As <linux/userfaultfd.h> and <linux/fs.h> of Linux 6.7 have them; older headers do not.
// Needs no privilege. In the asynchronous mode the kernel's own writes are seen all the same.
constexpr int kUserModeOnly = 1;
constexpr uint64_t kUnpopulated = uint64_t{1} << 13;
constexpr uint64_t kAsync = uint64_t{1} << 15;

constexpr uint64_t kIsWritten = 1 << 1;
constexpr uint64_t kIsFile = 1 << 2;
constexpr uint64_t kIsPresent = 1 << 3;
constexpr uint64_t kProtectMatching = 1 << 0;
constexpr uint64_t kCheckAsync = 1 << 1;

struct Region {
  uint64_t begin;
  uint64_t end;
  uint64_t categories;
};

struct Scan {
  uint64_t size;
  uint64_t flags;
  uint64_t begin;
  uint64_t end;
  uint64_t walked_to;
  uint64_t regions;
  uint64_t regions_length;
  uint64_t most_pages;
  uint64_t inverted;
  uint64_t all_of;
  uint64_t any_of;
  uint64_t told;
};
constexpr unsigned long kPagemapScan = _IOWR('f', 16, Scan);

struct CloseFile {
  void operator()(FILE* file) const { std::fclose(file); }
  void operator()(DIR* folder) const { closedir(folder); }
};

// A filter may end the process for a system call that it does not know; those of containers know this one, and forbid
// it.
bool IsFiltered() {
  const std::unique_ptr<FILE, CloseFile> status(std::fopen("/proc/self/status", "re"));
  std::array<char, 256> line = {};
  while (status != nullptr && std::fgets(line.data(), line.size(), status.get()) != nullptr) {
    if (std::strncmp(line.data(), "Seccomp:", 8) == 0) return std::strpbrk(line.data() + 8, "12") != nullptr;
  }
  return true;
}

constexpr int kHighEnough = 512;  // where no program expects the number of its next file

// The descriptor, or -1 and why not.
int NewDescriptor(const char** why_not) {
  *why_not = "a filter of system calls (seccomp) is in force";
  if (IsFiltered()) return -1;
  const int descriptor = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | kUserModeOnly));
  *why_not = "the system refuses userfaultfd";
  if (descriptor < 0) return -1;
  uffdio_api api = {};
  api.api = UFFD_API;
  api.features = kUnpopulated | kAsync;
  Scan scan = {};  // of nothing
  scan.size = sizeof(scan);
  const int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  const bool can = ioctl(descriptor, UFFDIO_API, &api) == 0 && ioctl(pagemap, kPagemapScan, &scan) == 0;
  if (pagemap >= 0) close(pagemap);
  *why_not = can ? nullptr : "the kernel cannot say which memory was written (Linux 6.7 can)";
  const int high = can ? fcntl(descriptor, F_DUPFD_CLOEXEC, kHighEnough) : -1;
  if (can && high < 0) *why_not = "the process may have too few descriptors";
  close(descriptor);
  return high;
}

// Whether all of it is mapped. The call does nothing else (Linux, msync(2), MS_ASYNC).
bool IsThere(const WriteWatch::Pages& pages) {
  return msync(reinterpret_cast<void*>(pages.begin), pages.bytes(), MS_ASYNC) == 0;
}

// Whether all of it is private memory without a file.
bool IsOwn(const WriteWatch::Pages& pages) {
  const std::unique_ptr<FILE, CloseFile> maps(std::fopen("/proc/self/maps", "re"));
  std::array<char, 512> line = {};
  uintptr_t known_to = pages.begin;
  bool at_start = true;  // of a line: names may be longer than `line`
  while (maps != nullptr && known_to < pages.end && std::fgets(line.data(), line.size(), maps.get()) != nullptr) {
    const bool is_start = at_start;
    at_start = std::strchr(line.data(), '\n') != nullptr;
    uintptr_t begin = 0;
    uintptr_t end = 0;
    char shared = 's';
    uint64_t inode = 1;
    if (!is_start || std::sscanf(line.data(), "%" SCNxPTR "-%" SCNxPTR " %*c%*c%*c%c %*s %*s %" SCNu64, &begin, &end,
                                 &shared, &inode) != 4) {
      continue;
    }
    if (end <= known_to) continue;
    if (begin > known_to || shared != 'p' || inode != 0) return false;
    // The C library looks for the stack's end there (pthread_getattr_np), and would find where the watched part ends.
    if (std::strstr(line.data(), "[stack]") != nullptr) return false;
    known_to = end;
  }
  return known_to >= pages.end;
}

}  // namespace

const char* WriteWatch::Open() {
  if (opened_) return why_not_;
  opened_ = true;
  descriptor_ = NewDescriptor(&why_not_);
  struct stat file = {};
  if (descriptor_ >= 0 && fstat(descriptor_, &file) == 0) inode_ = file.st_ino;
  return why_not_;
}

bool WriteWatch::IsOpen() const {
  struct stat file = {};
  return descriptor_ >= 0 && fstat(descriptor_, &file) == 0 && file.st_ino == inode_;
}

bool WriteWatch::Add(const Pages& pages) const {
  if (!IsOpen() || pages.bytes() == 0 || !IsOwn(pages)) return false;
  uffdio_register range = {};
  range.range = {pages.begin, pages.bytes()};
  range.mode = UFFDIO_REGISTER_MODE_WP;
  return ioctl(descriptor_, UFFDIO_REGISTER, &range) == 0;
}

void WriteWatch::Remove(const Pages& pages) const {
  uffdio_range range = {pages.begin, pages.bytes()};
  if (IsOpen()) (void)ioctl(descriptor_, UFFDIO_UNREGISTER, &range);
}

bool WriteWatch::Look(const Pages& pages, bool protect, std::vector<Pages>* written) const {
  // Opened each time: a program may close descriptors that are not its own, and the number be another file's.
  const int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  std::array<Region, 256> regions;
  Scan scan = {};
  scan.size = sizeof(scan);
  scan.flags = kCheckAsync | (protect ? kProtectMatching : 0);
  scan.begin = pages.begin;
  scan.end = pages.end;
  scan.regions = reinterpret_cast<uint64_t>(regions.data());
  scan.regions_length = regions.size();
  // A page that is not there may be another one when it comes back, and one of a file is not the process's alone.
  scan.inverted = kIsPresent;
  scan.any_of = kIsWritten | kIsPresent | kIsFile;
  scan.told = kIsWritten;
  // The scan passes over what is not there; and without the descriptor the protection may be another one's.
  bool known = pagemap >= 0 && IsOpen() && IsThere(pages);
  while (known && scan.begin < scan.end) {
    const int found = ioctl(pagemap, kPagemapScan, &scan);
    known = found >= 0 && scan.walked_to > scan.begin;
    for (int i = 0; known && i < found; ++i) {
      const Region& region = regions[static_cast<size_t>(i)];
      if (!written->empty() && written->back().end == region.begin) {
        written->back().end = region.end;
      } else {
        written->push_back({region.begin, region.end});
      }
    }
    scan.begin = scan.walked_to;
  }
  if (pagemap >= 0) close(pagemap);
  return known;
}

bool WriteWatch::PinsPages() const {
  const std::unique_ptr<DIR, CloseFile> folder(opendir("/proc/self/fd"));
  if (folder == nullptr) return true;
  for (const dirent* entry; (entry = readdir(folder.get())) != nullptr;) {
    std::array<char, 64> target = {};
    const ssize_t length = readlinkat(dirfd(folder.get()), entry->d_name, target.data(), target.size());
    const std::string_view name(target.data(), length > 0 ? static_cast<size_t>(length) : 0);
    for (const std::string_view pins : {"anon_inode:[io_uring]", "/dev/infiniband/", "/dev/vfio"}) {
      if (name.starts_with(pins)) return true;
    }
  }
  return false;
}

const char* WhyNoWriteWatch() {
  const char* why_not = nullptr;
  const int descriptor = NewDescriptor(&why_not);
  if (descriptor >= 0) close(descriptor);
  return why_not;
}

}  // namespace slipstream::policy
