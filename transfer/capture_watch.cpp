#include "transfer/capture_watch.h"

#include <algorithm>
#include <mutex>

namespace slipstream::transfer {

void CaptureWatch::Opened(const StreamKey& stream) {
  if (std::find(streams_.begin(), streams_.end(), stream) == streams_.end()) streams_.push_back(stream);
  live_.store(static_cast<uint32_t>(streams_.size()), std::memory_order_release);
}

void CaptureWatch::Ended(const StreamKey& stream) {
  const std::unique_lock lock(mutex_);
  std::erase(streams_, stream);
  live_.store(static_cast<uint32_t>(streams_.size()), std::memory_order_release);
}

}  // namespace slipstream::transfer
