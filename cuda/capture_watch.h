// Whether some stream of the process is being captured into a graph.
//
// A context-wide event or wait during a capture fails and breaks the capture (measured), so whoever makes one holds
// the lock shared, and whoever begins a capture holds it exclusively. Captures are rare, and the others are not: each
// thread shares a lock of its own, and a capture begins with all of them held. Unsure counts as live: a capture whose
// end was not seen stays counted.
// Threading: any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "cuda/sharded.h"
#include "cuda/stream_ref.h"

namespace slipstream::cuda {

class CaptureWatch {
 public:
  // Room for more captures than programs have at a time: one that could not be remembered would be live for good.
  CaptureWatch() noexcept;

  // Calls begin() and counts a capture that it began.
  template <typename BeginIt>
  auto Begin(const StreamKey& stream, const BeginIt& begin) {
    const AllLocked all(locks_);
    const auto result = begin();
    if (result == 0) Opened(stream);
    return result;
  }

  // The stream is not being captured any more.
  void Ended(const StreamKey& stream);

  bool live() const { return live_.load(std::memory_order_acquire) != 0; }

  // Calls work() while no capture can begin; false, without calling it, when one is live.
  template <typename Work>
  bool Without(const Work& work) {
    const std::shared_lock lock(locks_.Mine());
    if (live()) return false;
    work();
    return true;
  }

 private:
  void Opened(const StreamKey& stream) noexcept;

  Sharded<std::shared_mutex> locks_;
  std::atomic<uint32_t> live_{0};
  std::vector<StreamKey> streams_;
  bool lost_one_ = false;  // out of memory: a capture that cannot be counted stays live
};

}  // namespace slipstream::cuda
