#include "tracer/python/stack_tree.h"

#include <sys/mman.h>

#include <bit>
#include <new>

#include "tracer/base/claim.h"

namespace slipstream::tracer {
namespace {

constexpr uint32_t kMostStacks = 1U << 28;  // native_stack.h needs the two bits above

std::atomic<uint64_t> g_last_tree_number{0};

// Never 0.
uint64_t Pack(uint32_t site, uint32_t parent) { return uint64_t{parent + 1} << 32 | site; }

size_t HashOf(uint64_t packed) {
  uint64_t hash = (packed ^ (packed >> 32)) * 0x9e3779b97f4a7c15;
  hash = (hash ^ (hash >> 29)) * 0xbf58476d1ce4e5b9;
  return hash ^ (hash >> 32);
}

}  // namespace

StackTree* StackTree::Create(const Limits& limits) {
  if (limits.stacks == 0 || limits.stacks > kMostStacks) return nullptr;
  const uint32_t limit = limits.stacks + kFirst;
  const size_t slots = std::bit_ceil(size_t{limits.stacks} * 2);
  const size_t bytes = limit * sizeof(uint64_t) + slots * sizeof(uint32_t);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* const tree = new (std::nothrow) StackTree(limit, static_cast<uint32_t>(slots - 1), memory, bytes);
  if (tree == nullptr) munmap(memory, bytes);
  return tree;
}

// The memory begins as zeros, which is what both tables begin as.
StackTree::StackTree(uint32_t limit, uint32_t slot_mask, void* memory, size_t bytes)
    : number_(g_last_tree_number.fetch_add(1, std::memory_order_relaxed) + 1),
      limit_(limit),
      slot_mask_(slot_mask),
      memory_(memory),
      bytes_(bytes),
      stacks_(static_cast<std::atomic<uint64_t>*>(memory)),
      slots_(reinterpret_cast<std::atomic<uint32_t>*>(stacks_ + limit)) {}

StackTree::~StackTree() { munmap(memory_, bytes_); }

uint32_t StackTree::Intern(uint32_t site, uint32_t parent) {
  const uint64_t packed = Pack(site, parent);
  uint32_t mine = kNone;
  for (size_t at = HashOf(packed);; ++at) {
    std::atomic<uint32_t>& slot = slots_[at & slot_mask_];
    uint32_t found = slot.load(std::memory_order_acquire);
    if (found == kNone) {
      if (mine == kNone) {
        if (!Claim(&count_, limit_, 1, &mine)) {
          refused_.fetch_add(1, std::memory_order_relaxed);
          return kNone;
        }
        stacks_[mine].store(packed, std::memory_order_release);
      }
      if (slot.compare_exchange_strong(found, mine, std::memory_order_acq_rel, std::memory_order_acquire)) return mine;
    }
    // Taken, maybe since the line before, maybe with just this.
    if (stacks_[found].load(std::memory_order_relaxed) == packed) return found;
  }
}

bool StackTree::Describe(uint32_t stack, Stack* description) const {
  if (stack < kFirst || stack >= limit_) return false;
  const uint64_t packed = stacks_[stack].load(std::memory_order_acquire);
  if (packed == 0) return false;
  *description = {.site = static_cast<uint32_t>(packed), .parent = static_cast<uint32_t>(packed >> 32) - 1};
  return true;
}

}  // namespace slipstream::tracer
