#include "allocator/numa.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <fstream>
#include <string>

namespace slipstream::allocator {
namespace {

// "0" or "0-1" or "0,2"; unknown counts as several.
bool LookForSeveralNodes() {
  std::ifstream file("/sys/devices/system/node/online");
  std::string nodes;
  return !(file >> nodes) || nodes.find_first_of("-,") != std::string::npos;
}

bool SeveralNodes() {
  static constinit std::atomic<int> known{-1};
  int several = known.load(std::memory_order_relaxed);
  if (several < 0) {
    several = LookForSeveralNodes() ? 1 : 0;
    known.store(several, std::memory_order_relaxed);
  }
  return several == 1;
}

}  // namespace

int CurrentNode() {
  unsigned processor = 0;
  unsigned node = 0;
  return getcpu(&processor, &node) == 0 ? static_cast<int>(node) : 0;
}

int ThreadsThatMayFill(void* memory, size_t bytes, int threads) {
  if (threads <= 1 || !SeveralNodes()) return threads;
  int mode = 0;
  if (syscall(SYS_get_mempolicy, &mode, nullptr, 0UL, nullptr, 0UL) != 0) return 1;
  if (mode != MPOL_DEFAULT) return threads;  // the program's own choice, which threads inherit
  constexpr size_t kWordBits = 8 * sizeof(unsigned long);
  std::array<unsigned long, 16> nodes{};
  const auto node = static_cast<size_t>(CurrentNode());
  if (node >= nodes.size() * kWordBits) return 1;
  nodes[node / kWordBits] |= 1UL << (node % kWordBits);
  return syscall(SYS_mbind, memory, bytes, MPOL_PREFERRED, nodes.data(), nodes.size() * kWordBits, 0U) == 0 ? threads
                                                                                                            : 1;
}

}  // namespace slipstream::allocator
