// The thread that looks after a pool's idle memory: at intervals while there is some, asleep while there is none.
//
// Threading: any thread. The lock is held for moments only, never around the owner's functions.
// Ownership: never destroyed. The thread is detached and lasts as long as the process.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace slipstream::allocator {

class Trimmer {
 public:
  struct Owner {
    void* pool;
    void (*trim)(void* pool);  // gives back what nobody wants
    bool (*idle)(void* pool);  // whether there is anything to look after
  };

  // `name` has at most 15 characters. The thread starts with the first Start.
  Trimmer(const char* name, std::chrono::milliseconds interval, const Owner& owner)
      : name_(name), interval_(interval), owner_(owner) {}
  Trimmer(const Trimmer&) = delete;
  Trimmer& operator=(const Trimmer&) = delete;

  // False: the system gives no thread, so nobody would look after idle memory.
  bool Start() { return started_.load(std::memory_order_acquire) || StartThread(); }
  // Memory became idle.
  void MemoryIsIdle() {
    if (waits_.load(std::memory_order_seq_cst)) Wake();
  }
  // Trims without waiting for the interval.
  void TrimNow() {
    now_.store(true, std::memory_order_relaxed);
    Wake();
  }
  // Nothing is trimmed any more when this returns; but a thread that is stuck in the driver, behind work of the device
  // that does not end, is left there.
  void Stop();

  // Nothing is trimmed while this lives: a device is being reset.
  class Pause {
   public:
    explicit Pause(Trimmer& trimmer) : trimmer_(trimmer) {
      trimmer_.pauses_.fetch_add(1, std::memory_order_seq_cst);
      trimmer_.Await();
    }
    ~Pause() { trimmer_.pauses_.fetch_sub(1, std::memory_order_seq_cst); }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    Trimmer& trimmer_;
  };

 private:
  static void* Main(void* self);
  bool StartThread();
  void Wake();
  void Run();
  void Await();

  const char* const name_;
  const std::chrono::milliseconds interval_;
  const Owner owner_;
  std::mutex mutex_;
  std::condition_variable wanted_;
  std::atomic<bool> started_{false};
  std::atomic<bool> stopped_{false};
  std::atomic<uint32_t> pauses_{0};
  std::atomic<bool> waits_{true};  // for memory to look after
  std::atomic<bool> now_{false};
  std::condition_variable left_;
  bool trimming_ = false;  // in the owner's function; under mutex_
};

}  // namespace slipstream::allocator
