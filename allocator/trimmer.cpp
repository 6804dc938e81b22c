#include "allocator/trimmer.h"

#include "policy/helper_thread.h"

namespace slipstream::allocator {

bool Trimmer::StartThread() {
  const std::lock_guard lock(mutex_);
  if (started_.load(std::memory_order_relaxed)) return true;
  const bool started = policy::StartHelperThread(name_, Main, this);
  started_.store(started, std::memory_order_release);
  return started;
}

void Trimmer::Wake() {
  const std::lock_guard lock(mutex_);
  waits_.store(false, std::memory_order_seq_cst);
  wanted_.notify_one();
}

void* Trimmer::Main(void* self) {
  static_cast<Trimmer*>(self)->Run();
  return nullptr;
}

void Trimmer::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wanted_.wait_for(lock, interval_, [this] { return now_.exchange(false, std::memory_order_relaxed); });
    if (!stopped_.load(std::memory_order_seq_cst) && pauses_.load(std::memory_order_seq_cst) == 0) {
      trimming_ = true;
      lock.unlock();
      owner_.trim(owner_.pool);
      lock.lock();
      trimming_ = false;
      left_.notify_all();
    }
    // Said before looking: whoever makes memory idle after that sees it, and wakes this thread.
    waits_.store(true, std::memory_order_seq_cst);
    if (!stopped_.load(std::memory_order_seq_cst) && owner_.idle(owner_.pool)) {
      waits_.store(false, std::memory_order_seq_cst);
      continue;
    }
    wanted_.wait(lock, [this] { return !waits_.load(std::memory_order_seq_cst); });
  }
}

// Until the thread is out of the owner's function.
void Trimmer::Await() {
  constexpr auto kLongest = std::chrono::seconds(1);
  std::unique_lock lock(mutex_);
  left_.wait_for(lock, kLongest, [this] { return !trimming_; });
}

// Before the driver's own exit handlers run.
void Trimmer::Stop() {
  stopped_.store(true, std::memory_order_seq_cst);
  Await();
}

}  // namespace slipstream::allocator
