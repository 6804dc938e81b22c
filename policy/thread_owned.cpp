#include "policy/thread_owned.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>

namespace slipstream::policy {
namespace {

// In front of what Take gives.
struct alignas(std::max_align_t) Head {
  Head* next;  // of the same thread, an older one
  void** where;
  size_t bytes;   // of the mapping
  size_t rounds;  // that the end of its thread has come to, for the newest
};

// 0: not made yet, or there is none; else the key + 1. A thread's value is its newest.
constinit std::atomic<uint32_t> g_key{0};

// Destructors of thread-specific data run in rounds, as long as one of them sets something again, and so many at most
// (pthread_key_create). Whoever calls CUDA in one, or ends what it has here, finds it there until the last.
constexpr uintptr_t kRounds = PTHREAD_DESTRUCTOR_ITERATIONS;

void Leave(void* newest);

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

#ifdef __SANITIZE_THREAD__
// ThreadSanitizer has to see that pages which a thread gets are not those that another one had.
void* Map(size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory != MAP_FAILED ? memory : nullptr;
}
void Unmap(void* memory, size_t bytes) { munmap(memory, bytes); }
#else
// By system calls: mmap and munmap have hooks, which are for the program's memory.
void* Map(size_t bytes) {
  const long memory = syscall(SYS_mmap, nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1L, 0L);
  return memory >= 0 ? reinterpret_cast<void*>(memory) : nullptr;
}
void Unmap(void* memory, size_t bytes) { syscall(SYS_munmap, memory, bytes); }
#endif

void Leave(void* newest) {
  auto* head = static_cast<Head*>(newest);
  pthread_key_t key = 0;
  if (++head->rounds < kRounds && GetKey(&key) && pthread_setspecific(key, head) == 0) return;
  while (head != nullptr) {
    Head* const next = head->next;
    *head->where = nullptr;
    Unmap(head, head->bytes);
    head = next;
  }
}

}  // namespace

void ThreadPages::Prepare() noexcept {
  pthread_key_t key = 0;
  (void)GetKey(&key);
}

void* ThreadPages::Take(size_t bytes, void** where) {
  const int error = errno;
  pthread_key_t key = 0;
  if (!GetKey(&key)) return nullptr;
  bytes += sizeof(Head);
  void* const memory = Map(bytes);
  errno = error;  // the caller may be inside a call of the program's
  if (memory == nullptr) return nullptr;
  auto* const older = static_cast<Head*>(pthread_getspecific(key));
  auto* const head =
      new (memory) Head{.next = older, .where = where, .bytes = bytes, .rounds = older != nullptr ? older->rounds : 0};
  if (pthread_setspecific(key, head) == 0) return head + 1;
  Unmap(memory, bytes);
  return nullptr;
}

}  // namespace slipstream::policy
