#include "cuda/pinned_memory.h"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14; older C libraries lack the name
#endif

namespace slipstream::cuda {
namespace {

// Has the system make the pages, huge ones where it can. False: it says that it has none left. Then none is made by
// writing to it either, which would end the process.
bool Populate(char* memory, size_t bytes) {
  if (madvise(memory, bytes, MADV_POPULATE_WRITE) == 0) return true;
  return errno == EINVAL;  // before Linux 5.14: pinning makes them, in the kernel as well
}

// Pages that are not there yet. Where the system refuses (a container's filter, a node that the process may not use)
// they come from wherever they would. By the system call: the C library has no name for it.
void PreferNode(char* memory, size_t bytes, int node) {
  constexpr size_t kBits = sizeof(unsigned long) * CHAR_BIT;
  std::array<unsigned long, 16> nodes = {};  // 1,024, which is the most that Linux is built for
  const auto index = static_cast<size_t>(node);
  if (node < 0 || index >= nodes.size() * kBits) return;
  nodes[index / kBits] = 1UL << index % kBits;
  (void)syscall(SYS_mbind, memory, bytes, MPOL_PREFERRED, nodes.data(), nodes.size() * kBits + 1, 0UL);
}

}  // namespace

int NumaNodeOf(const Driver& driver, CUdevice device) {
  int node = -1;
  return driver.cuDeviceGetAttribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device) == CUDA_SUCCESS ? node : -1;
}

char* PinSegment(const Driver& driver, size_t bytes, int numa_node) {
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
  PreferNode(memory, bytes, numa_node);
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

}  // namespace slipstream::cuda
