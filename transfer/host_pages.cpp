#include "transfer/host_pages.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace slipstream::transfer {
namespace {

#ifndef MADV_POPULATE_WRITE
constexpr int MADV_POPULATE_WRITE = 23;  // Linux 5.14; older headers lack the name
#endif

char* At(uintptr_t address) { return reinterpret_cast<char*>(address); }  // NOLINT(performance-no-int-to-ptr)

bool IsPresent(uintptr_t page) {
  unsigned char present = 0;
  return mincore(At(page), PageBytes(), &present) == 0 && (present & 1) != 0;
}

}  // namespace

size_t PageBytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

void ReadEveryPage(const char* memory, size_t bytes) {
  const auto read = [](const char* byte) { (void)*static_cast<const volatile char*>(byte); };
  const size_t page = PageBytes();
  const size_t to_next = page - reinterpret_cast<uintptr_t>(memory) % page;
  read(memory);
  for (size_t at = to_next; at < bytes; at += page) read(memory + at);
}

bool HandlesFaults() {
  for (const int fault : {SIGSEGV, SIGBUS}) {
    struct sigaction action = {};
    if (sigaction(fault, nullptr, &action) != 0) return true;
    const bool has_handler = (action.sa_flags & SA_SIGINFO) != 0 || action.sa_handler != SIG_DFL;
    if (has_handler) return true;
  }
  return false;
}

bool MakeWritable(char* memory, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(memory) & ~(PageBytes() - 1);
  const auto end = reinterpret_cast<uintptr_t>(memory) + bytes;
  int result = 0;
  do {
    result = madvise(At(begin), end - begin, MADV_POPULATE_WRITE);
  } while (result != 0 && (errno == EINTR || errno == EAGAIN));
  return result == 0;
}

bool CanMakeWritable() {
  static const bool can = [] {
    void* const page = mmap(nullptr, PageBytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return false;
    const bool made = MakeWritable(static_cast<char*>(page), PageBytes());
    munmap(page, PageBytes());
    return made;
  }();
  return can;
}

bool IsWritableMemory(const char* memory, size_t bytes) {
  // As <linux/fs.h> of Linux 6.11 has it; older headers do not.
  struct Query {
    uint64_t size;
    uint64_t flags;
    uint64_t address;
    uint64_t begin;
    uint64_t end;
    uint64_t found_flags;
    uint64_t page_size;
    uint64_t offset;
    uint64_t inode;
    uint32_t device[2];
    uint32_t name_size;
    uint32_t build_id_size;
    uint64_t name_address;
    uint64_t build_id_address;
  };
  constexpr unsigned long kProcmapQuery = _IOWR('f', 17, Query);
  constexpr uint64_t kWritable = 2;
  constexpr uint64_t kShared = 8;
  constexpr int kMostMappings = 16;

  const int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (maps < 0) return false;
  auto at = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t end = at + bytes;
  for (int i = 0; i < kMostMappings && at < end; ++i) {
    Query query = {};
    query.size = sizeof(query);
    query.address = at;
    const bool found = ioctl(maps, kProcmapQuery, &query) == 0;
    if (!found || (query.found_flags & (kWritable | kShared)) != kWritable || query.inode != 0) break;
    at = query.end;
  }
  close(maps);
  return at >= end;
}

bool HasPages(const char* memory, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  return IsPresent((begin + bytes / 2) & ~(PageBytes() - 1));
}

void AskForHugePages(char* memory, size_t bytes) {
  if (bytes < kWorthHugePages) return;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(memory) + kHugePageBytes - 1) & ~(kHugePageBytes - 1);
  const uintptr_t end = (reinterpret_cast<uintptr_t>(memory) + bytes) & ~(kHugePageBytes - 1);
  // What has pages keeps them.
  if (end <= begin || IsPresent(begin) || IsPresent(begin + (end - begin) / 2)) return;
  (void)madvise(At(begin), end - begin, MADV_HUGEPAGE);
}

}  // namespace slipstream::transfer
