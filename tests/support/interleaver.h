// Threads that run one at a time and are switched at chosen points by a seed, as in probabilistic concurrency testing:
// each has a priority, the one with the highest runs, and at a few steps, drawn from the seed, the running one's
// becomes the lowest. So a few unlucky switches, which is what most faults need, are tried with a known chance, and a
// failure comes again with its seed.
//
// Threading: Run from one thread; Yield from any, those that Run did not start are left alone. A thread that waits for
//   another one by a lock, at a point where it cannot yield, loses its turn after kPatience; both go on then, side by
//   side, until its next Yield.
// Source: Burckhardt, Kothari, Musuvathi and Nagarakatti, "A Randomized Scheduler with Probabilistic Guarantees of
//   Finding Bugs", ASPLOS 2010.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace slipstream::test {

class Interleaver {
 public:
  static constexpr std::chrono::milliseconds kPatience{20};

  // `switches`: how often the running thread becomes the last; `steps`: among so many calls of Yield.
  Interleaver(uint32_t seed, size_t switches, size_t steps) : random_(seed) {
    for (size_t i = 0; i < switches; ++i) switch_at_.push_back(random_() % steps);
  }

  // Runs the bodies to their ends, each on a thread of its own.
  void Run(const std::vector<std::function<void()>>& bodies) {
    for (size_t i = 0; i < bodies.size(); ++i) priorities_.push_back(static_cast<int64_t>(i));
    std::shuffle(priorities_.begin(), priorities_.end(), random_);
    done_.assign(bodies.size(), false);
    current_ = Highest();
    std::vector<std::thread> threads;
    for (size_t i = 0; i < bodies.size(); ++i) {
      threads.emplace_back([this, i, &body = bodies[i]] {
        Self() = {this, i};
        WaitForTurn(i);
        body();
        Self() = {};
        const std::lock_guard lock(mutex_);
        done_[i] = true;
        current_ = Highest();
        ++step_;
        turn_.notify_all();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // Another thread may run here.
  static void Yield() {
    if (Self().all != nullptr) Self().all->YieldFrom(Self().number);
  }

 private:
  struct Place {
    Interleaver* all = nullptr;
    size_t number = 0;
  };
  static Place& Self() {
    static thread_local Place self;
    return self;
  }

  void YieldFrom(size_t number) {
    {
      const std::lock_guard lock(mutex_);
      if (std::find(switch_at_.begin(), switch_at_.end(), step_) != switch_at_.end()) priorities_[number] = --lowest_;
      ++step_;
      current_ = Highest();
      turn_.notify_all();
    }
    WaitForTurn(number);
  }

  void WaitForTurn(size_t number) {
    std::unique_lock lock(mutex_);
    while (current_ != number) {
      const uint64_t seen = step_;
      const bool moved = turn_.wait_for(lock, kPatience, [&] { return current_ == number || step_ != seen; });
      if (!moved) current_ = number;  // whose turn it is waits for a lock
    }
  }

  // With the lock held.
  size_t Highest() const {
    size_t highest = 0;
    for (size_t i = 0; i < priorities_.size(); ++i) {
      if (!done_[i] && (done_[highest] || priorities_[i] > priorities_[highest])) highest = i;
    }
    return highest;
  }

  std::mt19937 random_;
  std::vector<uint64_t> switch_at_;
  std::mutex mutex_;
  std::condition_variable turn_;
  std::vector<int64_t> priorities_;
  std::vector<bool> done_;
  int64_t lowest_ = 0;
  uint64_t step_ = 0;
  size_t current_ = 0;
};

}  // namespace slipstream::test
