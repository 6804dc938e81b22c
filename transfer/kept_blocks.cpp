#include "transfer/kept_blocks.h"

#include <malloc.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <thread>

#include "transfer/kept_errno.h"

namespace slipstream::transfer {
namespace {

// For how long the bound holds before the system is asked again.
constexpr std::chrono::milliseconds kBoundHolds{250};
constexpr size_t kPageBytes = 4096;

// The whole pages inside a block; what is beside them is its allocator's too.
std::span<std::byte> PagesOf(void* memory, size_t bytes) {
  const auto begin = (reinterpret_cast<uintptr_t>(memory) + kPageBytes - 1) / kPageBytes * kPageBytes;
  const auto end = (reinterpret_cast<uintptr_t>(memory) + bytes) / kPageBytes * kPageBytes;
  return {reinterpret_cast<std::byte*>(begin), end - begin};
}

// Whether it is so of all of them.
bool Advise(std::span<std::byte> pages, int advice) { return madvise(pages.data(), pages.size(), advice) == 0; }

enum class Pages {
  kPlain,  // as new ones are: private memory of no file that can be read and written, and is there in children
  kOther,  // what the program has made of them is not for us to undo: they are the allocator's
  kLost,   // they are empty in children, and cannot be made otherwise
};

// Undoes what the program has set of its memory (K5), with system calls that look at mappings and at no page: 2 us.
Pages MakePlain(std::span<std::byte> pages) {
  // Locked, or not there.
  if (msync(pages.data(), pages.size(), MS_ASYNC | MS_INVALIDATE) != 0) return Pages::kOther;
  // Sealed, or of a file that must not be written.
  if (mprotect(pages.data(), pages.size(), PROT_READ | PROT_WRITE) != 0) return Pages::kOther;
  // In children it is there, and no secret in a core. Linux 4.14 has all of these.
  for (const int advice : {MADV_KEEPONFORK, MADV_DOFORK, MADV_DODUMP}) {
    if (!Advise(pages, advice)) return Pages::kOther;
  }
  // Only private memory of no file can be empty in children: the one question about it that needs no file of /proc.
  const bool of_no_file = Advise(pages, MADV_WIPEONFORK);
  if (!Advise(pages, MADV_KEEPONFORK)) return Pages::kLost;
  return of_no_file ? Pages::kPlain : Pages::kOther;
}

}  // namespace

KeptBlocks::KeptBlocks(uint64_t most_bytes, std::chrono::nanoseconds idle, const Parts& parts)
    : pid_(getpid()), most_bytes_(most_bytes), idle_(idle), parts_(parts) {}

KeptBlocks::Block KeptBlocks::Remove(size_t place) {
  const Block block = blocks_[place];
  std::move(blocks_.begin() + place + 1, blocks_.begin() + count_, blocks_.begin() + place);
  --count_;
  kept_bytes_ -= block.bytes;
  return block;
}

bool KeptBlocks::LockSoon() noexcept {
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries; ++i) {
    if (mutex_.try_lock()) return true;
    sched_yield();
  }
  return false;
}

// With as little stack as a handler may have, and no word to the thread: it sleeps until the next block was due.
void KeptBlocks::Empty() noexcept {
  const KeptErrno errno_before;
  while (LockSoon()) {
    const bool some = count_ != 0;
    const Block block = some ? Remove(count_ - 1) : Block();
    mutex_.unlock();
    if (!some) return;
    (void)Advise(PagesOf(block.memory, block.bytes), MADV_DONTNEED);
    parts_.free(block.memory);
  }
}

void KeptBlocks::BeforeFork() noexcept {
  if (getpid() != pid_) return;
  forks_.fetch_add(1, std::memory_order_acquire);
  Empty();
}

void KeptBlocks::AfterFork() noexcept {
  if (getpid() == pid_) forks_.fetch_sub(1, std::memory_order_release);
}

void KeptBlocks::LimitsChanged() noexcept {
  if (getpid() != pid_ || !LockSoon()) return;
  bound_of_ = Clock::time_point();
  mutex_.unlock();
  Empty();
}

uint64_t KeptBlocks::Bound() {
  const Clock::time_point now = Clock::now();
  if (bound_of_ == Clock::time_point() || now - bound_of_ >= kBoundHolds) {
    bound_ = std::min(most_bytes_, parts_.most(kept_bytes_));
    bound_of_ = now;
  }
  return bound_;
}

void KeptBlocks::Enter(void* block, size_t bytes) {
  if (given_.insert_or_assign(block, bytes).second) given_at_[PlaceOf(block)].fetch_add(1, std::memory_order_relaxed);
}

void* KeptBlocks::Take(size_t bytes) noexcept {
  void* memory = nullptr;
  try {
    const std::lock_guard lock(mutex_);
    // The one that was freed last: its pages are the likeliest to be in a cache.
    for (size_t place = count_; place-- != 0;) {
      if (blocks_[place].bytes != bytes) continue;
      Enter(blocks_[place].memory, bytes);
      memory = Remove(place).memory;
      break;
    }
  } catch (...) {
    return nullptr;  // it stays kept
  }
  if (memory != nullptr) parts_.count(Decision::kHostReused, bytes, 0);
  return memory;
}

void KeptBlocks::Given(void* block, size_t bytes) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    Enter(block, bytes);
  } catch (...) {
    return;
  }
}

bool KeptBlocks::Started() {
  if (!thread_runs_) thread_runs_ = parts_.start_thread("slipstream-keep", ThreadMain, this);
  return thread_runs_;
}

bool KeptBlocks::Keep(void* block) noexcept {
  const KeptErrno errno_before;
  std::array<void*, kMostBlocks> free;
  size_t free_count = 0;
  bool kept = false;
  try {
    const std::lock_guard lock(mutex_);
    const auto found = given_.find(block);
    if (found == given_.end()) return false;
    const size_t bytes = found->second;
    given_.erase(found);
    given_at_[PlaceOf(block)].fetch_sub(1, std::memory_order_relaxed);
    // Something else may lie there by now, if the block was freed by other means than its own.
    if (malloc_usable_size(block) < bytes || parts_.pinned(block, bytes)) return false;
    const uint64_t bound = Bound();
    if (bytes > bound || forks_.load(std::memory_order_acquire) != 0 || !Started()) return false;
    const Pages pages = MakePlain(PagesOf(block, bytes));
    if (pages != Pages::kPlain) return pages == Pages::kLost;  // nobody's for ever
    while (count_ == kMostBlocks || kept_bytes_ + bytes > bound) free[free_count++] = Remove(0).memory;
    blocks_[count_++] = {block, bytes, Clock::now()};
    kept_bytes_ += bytes;
    kept = true;
  } catch (...) {
    kept = false;
  }
  for (size_t i = 0; i < free_count; ++i) parts_.free(free[i]);
  return kept;
}

void* KeptBlocks::ThreadMain(void* self) {
  static_cast<KeptBlocks*>(self)->GiveBack();
  return nullptr;
}

// Until nothing is left.
void KeptBlocks::GiveBack() {
  std::unique_lock lock(mutex_);
  while (count_ != 0) {
    const Clock::time_point now = Clock::now();
    if (now - blocks_[0].since >= idle_) {
      const Block block = Remove(0);
      lock.unlock();
      parts_.free(block.memory);
      lock.lock();
      continue;
    }
    const Clock::time_point due = blocks_[0].since + idle_;
    lock.unlock();
    std::this_thread::sleep_until(due);
    lock.lock();
  }
  thread_runs_ = false;
}

}  // namespace slipstream::transfer
