// How far a stream's host side may run ahead: at most two synchronises owed a stream (S23).
//
// A program that makes blocking copies is one copy ahead of its device; two keep the device busy while the host
// prepares the next step, and more would let a fast host fill memory with steps that have not run. Threading: any
// thread; the lock is held while the driver is asked whether a fence has passed.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "transfer/fence.h"
#include "transfer/stream_ref.h"

namespace slipstream::transfer {

class RunAhead {
 public:
  static constexpr size_t kOwedAStream = 2;

  // The fence to wait for before another synchronise of the stream may be owed; empty: none.
  FenceRef MustWaitFor(const StreamKey& stream) {
    const std::lock_guard lock(mutex_);
    const auto found = owed_.find(stream);
    if (found == owed_.end()) return {};
    std::deque<FenceRef>& owed = found->second;
    while (!owed.empty() && owed.front().Done()) owed.pop_front();
    if (owed.size() < kOwedAStream) return {};
    FenceRef oldest = owed.front();
    owed.pop_front();
    return oldest;
  }
  void Owe(const StreamKey& stream, const FenceRef& fence) {
    const std::lock_guard lock(mutex_);
    owed_[stream].push_back(fence);
  }
  // The stream is being destroyed.
  void Retire(CUstream handle) {
    const std::lock_guard lock(mutex_);
    std::erase_if(owed_, [handle](const auto& entry) { return entry.first.handle == handle; });
  }

 private:
  struct Hash {
    size_t operator()(const StreamKey& key) const {
      return std::hash<const void*>()(key.handle) ^ (std::hash<uint64_t>()(key.thread) << 1);
    }
  };
  std::mutex mutex_;
  std::unordered_map<StreamKey, std::deque<FenceRef>, Hash> owed_;
};

}  // namespace slipstream::transfer
