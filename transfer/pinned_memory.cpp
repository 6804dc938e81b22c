#include "transfer/pinned_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14; older C libraries lack the name
#endif

namespace slipstream::transfer {
namespace {

// Has the system make the pages, huge ones where it can. False: it says that it has none left. Then none is made by
// writing to it either, which would end the process.
bool Populate(char* memory, size_t bytes) {
  if (madvise(memory, bytes, MADV_POPULATE_WRITE) == 0) return true;
  return errno == EINVAL;  // before Linux 5.14: pinning makes them, in the kernel as well
}

}  // namespace

char* PinSegment(const Driver& driver, size_t bytes) {
  const size_t reserved = bytes + kHugePageBytes;
  void* const mapping = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<uintptr_t>(mapping);
  const uintptr_t aligned = (begin + kHugePageBytes - 1) & ~(kHugePageBytes - 1);
  char* const memory = static_cast<char*>(mapping) + (aligned - begin);
  if (aligned != begin) munmap(mapping, aligned - begin);
  munmap(memory + bytes, kHugePageBytes - (aligned - begin));
  (void)madvise(memory, bytes, MADV_HUGEPAGE);
  (void)madvise(memory, bytes, MADV_DONTFORK);
  // Portable: a second context would see it as pinned too, and not stage its own copies of it.
  if (!Populate(memory, bytes) ||
      driver.cuMemHostRegister(memory, bytes, CU_MEMHOSTREGISTER_PORTABLE) != CUDA_SUCCESS) {
    munmap(memory, bytes);
    return nullptr;
  }
  return memory;
}

bool UnpinSegment(const Driver& driver, char* memory, size_t bytes) {
  if (driver.cuMemHostUnregister(memory) != CUDA_SUCCESS) return false;
  munmap(memory, bytes);
  return true;
}

}  // namespace slipstream::transfer
