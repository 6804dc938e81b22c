#include "cuda/capture_watch.h"

#include <algorithm>

namespace slipstream::cuda {

CaptureWatch::CaptureWatch() noexcept {
  constexpr size_t kCaptures = 64;
  try {
    streams_.reserve(kCaptures);
  } catch (...) {
    // There may be memory when a capture begins.
  }
}

void CaptureWatch::Opened(const StreamKey& stream) noexcept {
  try {
    if (std::find(streams_.begin(), streams_.end(), stream) == streams_.end()) streams_.push_back(stream);
  } catch (...) {
    lost_one_ = true;
  }
  live_.store(static_cast<uint32_t>(streams_.size()) + (lost_one_ ? 1 : 0), std::memory_order_release);
}

void CaptureWatch::Ended(const StreamKey& stream) {
  const AllLocked all(locks_);
  std::erase(streams_, stream);
  live_.store(static_cast<uint32_t>(streams_.size()) + (lost_one_ ? 1 : 0), std::memory_order_release);
}

}  // namespace slipstream::cuda
