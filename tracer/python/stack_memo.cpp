#include "tracer/python/stack_memo.h"

#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <type_traits>

namespace slipstream::tracer {
namespace {

static_assert(std::is_trivially_copyable_v<StackMemo>);

constinit thread_local StackMemo* t_memo = nullptr;

// 0: not made yet, or there is none; else the key + 1.
std::atomic<uint32_t> g_key{0};

void Leave(void* memo) {
  t_memo = nullptr;
  munmap(memo, sizeof(StackMemo));
}

bool GetKey(pthread_key_t* key) {
  uint32_t known = g_key.load(std::memory_order_acquire);
  if (known == 0) {
    if (pthread_key_create(key, Leave) != 0) return false;
    if (g_key.compare_exchange_strong(known, *key + 1, std::memory_order_acq_rel)) return true;
    pthread_key_delete(*key);  // another thread was faster
  }
  *key = known - 1;
  return true;
}

StackMemo* Make() {
  pthread_key_t key = 0;
  if (!GetKey(&key)) return nullptr;
  void* const memory = mmap(nullptr, sizeof(StackMemo), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  if (pthread_setspecific(key, memory) != 0) {
    munmap(memory, sizeof(StackMemo));
    return nullptr;
  }
  return t_memo = static_cast<StackMemo*>(memory);
}

}  // namespace

StackMemo* StackMemo::Get() {
  StackMemo* const memo = t_memo;
  return memo != nullptr ? memo : Make();
}

uint32_t InternStack(std::span<const PythonFrame> frames, bool cut, CodeSites* sites, StackTree* stacks,
                     uint32_t* found) {
  if (frames.empty()) return StackTree::kNone;
  StackMemo* const memo = StackMemo::Get();
  uint32_t stack = cut ? StackTree::kCut : StackTree::kNone;
  if (memo != nullptr && memo->tree != stacks->number()) [[unlikely]] {
    memo->count = 0;
    std::memset(memo->frames, 0, sizeof(memo->frames));  // sites of another kind, too
    memo->tree = stacks->number();
  }
  bool as_before = memo != nullptr && memo->first == stack;
  if (memo != nullptr) memo->first = stack;
  uint32_t depth = 0;
  for (size_t i = frames.size(); i-- > 0; ++depth) {
    StackMemo::Frame forgotten = {};
    StackMemo::Frame& last = memo != nullptr ? memo->frames[depth] : forgotten;
    const uint32_t before = last.sight.site;
    found[i] = sites->Intern(frames[i], &last.sight);
    // The stack up to here is the one before as long as all frames further out are what they were.
    as_before = as_before && depth < memo->count && found[i] == before;
    if (!as_before) {
      const bool has_parent = depth == 0 || stack != StackTree::kNone;  // there was room for those further out
      last.stack = has_parent ? stacks->Intern(found[i], stack) : StackTree::kNone;
    }
    stack = last.stack;
  }
  if (memo != nullptr) memo->count = depth;
  return stack;
}

}  // namespace slipstream::tracer
