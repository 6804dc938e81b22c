#include "transfer/host_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace slipstream::transfer {
namespace {

#ifndef MADV_POPULATE_WRITE
constexpr int MADV_POPULATE_WRITE = 23;  // Linux 5.14; older headers lack the name
#endif

constexpr size_t kHugePage = size_t{2} << 20;
// Less is filled as fast without.
constexpr size_t kWorthHugePages = size_t{4} << 20;

uintptr_t PageBytes() {
  static const auto bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

char* At(uintptr_t address) { return reinterpret_cast<char*>(address); }  // NOLINT(performance-no-int-to-ptr)

bool IsPresent(uintptr_t page) {
  unsigned char present = 0;
  return mincore(At(page), PageBytes(), &present) == 0 && (present & 1) != 0;
}

}  // namespace

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

void AskForHugePages(char* memory, size_t bytes) {
  if (bytes < kWorthHugePages) return;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(memory) + kHugePage - 1) & ~(kHugePage - 1);
  const uintptr_t end = (reinterpret_cast<uintptr_t>(memory) + bytes) & ~(kHugePage - 1);
  // What has pages keeps them.
  if (end <= begin || IsPresent(begin) || IsPresent(begin + (end - begin) / 2)) return;
  (void)madvise(At(begin), end - begin, MADV_HUGEPAGE);
}

}  // namespace slipstream::transfer
