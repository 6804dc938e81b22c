// How far a stream's host side may run ahead: at most two synchronises owed a stream (S23).
//
// A program that makes blocking copies is one copy ahead of its device; two keep the device busy while the host
// prepares the next step, and more would let a fast host fill memory with steps that have not run. Threading: any
// thread; the lock is held while the driver is asked whether a fence has passed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transfer/fence.h"
#include "transfer/stream_ref.h"

namespace slipstream::transfer {

class RunAhead {
 public:
  static constexpr size_t kOwedAStream = 2;

  // The fence to wait for before another synchronise of the stream may be owed; empty: none. The youngest is asked
  // first: where that has passed so have all, and the next two need no question, which costs 0.1 to 1.5 us where the
  // answer is yes (measured on several H200).
  FenceRef MustWaitFor(const StreamKey& stream) {
    const std::lock_guard lock(mutex_);
    const auto found = owed_.find(stream);
    if (found == owed_.end()) return {};
    Owed& owed = found->second;
    if (!owed.front()) return {};
    if (owed.back().Done()) {
      owed = {};
      return {};
    }
    return owed.front().Done() ? FenceRef() : owed.front();
  }
  void Owe(const StreamKey& stream, const FenceRef& fence) {
    const std::lock_guard lock(mutex_);
    Owed& owed = owed_[stream];
    owed[0] = std::move(owed[1]);
    owed[1] = fence;
  }
  // All that is owed by whatever thread and not done.
  std::vector<FenceRef> Open() {
    std::vector<FenceRef> open;
    const std::lock_guard lock(mutex_);
    std::erase_if(orphans_, [](const FenceRef& fence) { return fence.Done(); });
    open = orphans_;
    for (const auto& [stream, owed] : owed_) {
      for (const FenceRef& fence : owed) {
        if (fence && !fence.Done()) open.push_back(fence);
      }
    }
    return open;
  }
  // The stream is being destroyed: its handle may come back as another stream.
  void Retire(CUstream handle) {
    const std::lock_guard lock(mutex_);
    for (auto entry = owed_.begin(); entry != owed_.end();) {
      if (entry->first.handle == handle && handle != nullptr) {
        for (const FenceRef& fence : entry->second) {
          if (fence && !fence.Done()) orphans_.push_back(fence);
        }
        entry = owed_.erase(entry);
      } else {
        ++entry;
      }
    }
  }

 private:
  struct Hash {
    size_t operator()(const StreamKey& key) const {
      return std::hash<const void*>()(key.handle) ^ (std::hash<uint64_t>()(key.thread) << 1);
    }
  };
  using Owed = std::array<FenceRef, kOwedAStream>;  // the last ones, oldest first

  std::mutex mutex_;
  std::unordered_map<StreamKey, Owed, Hash> owed_;
  std::vector<FenceRef> orphans_;  // of streams that are gone
};

}  // namespace slipstream::transfer
