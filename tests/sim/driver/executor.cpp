#include "tests/sim/driver/executor.h"

#include <time.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "tests/sim/driver/observe.h"

namespace simcuda {
namespace {

class CallbackThread {
 public:
  void Run(Op& op) {
    std::unique_lock<std::mutex> lock(mutex_);
    idle_.wait(lock, [this] { return job_ == nullptr; });
    if (!started_) {
      started_ = true;
      std::thread([this] { Loop(); }).detach();
    }
    job_ = &op;
    const uint64_t mine = ++submitted_;
    wake_.notify_one();
    idle_.wait(lock, [this, mine] { return finished_ >= mine; });
  }

 private:
  void Loop() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return job_ != nullptr; });
      Op* op = job_;
      lock.unlock();
      RunBody(*op);
      lock.lock();
      job_ = nullptr;
      ++finished_;
      idle_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  Op* job_ = nullptr;
  uint64_t submitted_ = 0;
  uint64_t finished_ = 0;
  bool started_ = false;
};

void SleepUntil(uint64_t when_ns) {
  timespec when = {static_cast<time_t>(when_ns / 1000000000), static_cast<long>(when_ns % 1000000000)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr) == EINTR) {
  }
}

// One engine of one device in timed mode. Start and end are computed, not measured, so that the lateness of this
// thread's wake-ups does not add up over a queue of short operations.
void EngineLoop(int device, Engine engine) {
  World& world = TheWorld();
  Lock lock(world.mutex);
  for (;;) {
    OpPtr op = TakeFor(world, device, engine);
    if (!op) {
      std::condition_variable& wake = world.engine_wake[device][static_cast<int>(engine)];
      if (engine == Engine::kNone && AnyConditionPending(world)) {
        wake.wait_for(lock, std::chrono::microseconds(50));  // a value in memory changes without telling anybody
      } else {
        wake.wait(lock);
      }
      continue;
    }
    if (engine == Engine::kNone || op->work.duration_ns == 0) {
      ExecuteTaken(world, lock, op);
      continue;
    }
    uint64_t& engine_free = world.devices[device].engine_free_ns[static_cast<int>(engine)];
    const uint64_t start = std::max(op->ready_ns, engine_free);
    const uint64_t end = start + op->work.duration_ns;
    const bool broken = op->context->sticky != CUDA_SUCCESS;
    op->began_ns = broken ? 0 : ObservedNowNs();
    lock.unlock();
    const uint64_t body_start = NowNs(world);
    if (op->work.body && !broken) {
      RunBody(*op);
    }
    const uint64_t body_ns = NowNs(world) - body_start;
    SleepUntil(end);
    lock.lock();
    // A body that takes longer than the kernel's declared duration makes the kernel longer.
    op->end_ns = std::max(end, start + body_ns);
    engine_free = op->end_ns;
    CompleteTimed(world, op);
  }
}

}  // namespace

void RunBody(Op& op) {
  ThreadState& thread = ThisThread();
  Op* const before = thread.running;
  const bool was_in_device_work = thread.in_device_work;
  thread.running = &op;
  thread.in_device_work = true;
  op.work.body(op);
  thread.in_device_work = was_in_device_work;
  thread.running = before;
}

void RunOnCallbackThread(Op& op) {
  static CallbackThread* const thread = new CallbackThread;
  thread->Run(op);
}

// SIMCUDA_IDLE_PROGRESS_MS: a program that waits for its own host function, or for a value a kernel writes, waits for
// something that adversarial mode would never run. When nobody has called CUDA for a while, one operation runs.
void StartIdleWatch(World& world) {
  static bool started = false;  // under World::mutex
  if (started || world.settings.idle_progress_ns == 0 || world.settings.timed) {
    return;
  }
  started = true;
  std::thread([&world, period = std::chrono::nanoseconds(world.settings.idle_progress_ns)] {
    uint64_t seen = world.calls.load(std::memory_order_relaxed);
    for (;;) {
      std::this_thread::sleep_for(period);
      const uint64_t now = world.calls.load(std::memory_order_relaxed);
      if (now == seen) {
        Lock lock(world.mutex);
        if (!world.ready.empty()) {
          RunUntilDone(world, lock, {world.ready.front()});
        }
      }
      seen = now;
    }
  }).detach();
}

void StartExecutors(World& world) {
  static bool started = false;  // under World::mutex
  if (started || !world.settings.timed) {
    return;
  }
  started = true;
  for (int device = 0; device < kDeviceCount; ++device) {
    for (int engine = 0; engine < kEngineCount; ++engine) {
      std::thread([device, engine] { EngineLoop(device, static_cast<Engine>(engine)); }).detach();
    }
  }
}

}  // namespace simcuda
