#include "transfer/host_effects.h"

#include <algorithm>

namespace slipstream::transfer {

bool HostEffects::Prune() {
  std::erase_if(entries_, [](const Entry& entry) { return entry.fence && entry.fence.Done(); });
  count_.store(static_cast<uint32_t>(entries_.size()), std::memory_order_release);
  return !entries_.empty();
}

void HostEffects::Add(const StreamKey& stream, uint64_t thread, HostEffectKind kind, const AddressRange& range,
                      FenceRef fence) {
  const std::lock_guard lock(mutex_);
  const auto earlier = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    const bool both = entry.fence && fence;
    return entry.kind == kind && entry.thread == thread && entry.stream == stream &&
           (!both || entry.fence.context() == fence.context());
  });
  if (earlier == entries_.end()) {
    // Where no copy is promoted nobody else looks, and threads come and go.
    if (entries_.size() >= many_) {
      Prune();
      many_ = std::max(kMany, 2 * entries_.size());
    }
    entries_.push_back({stream, thread, kind, range, std::move(fence)});
    count_.store(static_cast<uint32_t>(entries_.size()), std::memory_order_release);
    return;
  }
  const bool finished = earlier->fence && earlier->fence.Done();
  earlier->range = finished ? range : earlier->range.Cover(range);
  if (earlier->fence) earlier->fence = std::move(fence);  // one that could not be fenced stays unfinished
}

bool HostEffects::MayWrite(HostEffectKind kind, const AddressRange& range) {
  if (count_.load(std::memory_order_acquire) == 0) return false;
  const std::lock_guard lock(mutex_);
  if (!Prune()) return false;
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const Entry& entry) { return entry.kind == kind && entry.range.Overlaps(range); });
}

bool HostEffects::OnlyOn(const StreamKey& stream, std::vector<FenceRef>* fences) {
  if (count_.load(std::memory_order_acquire) == 0) return true;
  const std::lock_guard lock(mutex_);
  Prune();
  for (const Entry& entry : entries_) {
    if (!(entry.stream == stream) || !entry.fence) return false;
    fences->push_back(entry.fence);
  }
  return true;
}

bool HostEffects::All(CUcontext context, std::vector<FenceRef>* fences) {
  if (count_.load(std::memory_order_acquire) == 0) return true;
  const std::lock_guard lock(mutex_);
  Prune();
  for (const Entry& entry : entries_) {
    if (!entry.fence) return false;
    if (context == nullptr || entry.fence.context() == context) fences->push_back(entry.fence);
  }
  return true;
}

void HostEffects::On(const StreamKey& stream, std::vector<FenceRef>* fences) {
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.stream == stream && entry.fence) fences->push_back(entry.fence);
  }
}

void HostEffects::Retire(CUstream handle) {
  if (count_.load(std::memory_order_acquire) == 0) return;
  const std::lock_guard lock(mutex_);
  for (Entry& entry : entries_) {
    if (entry.stream.handle == handle) entry.stream = {};
  }
}

}  // namespace slipstream::transfer
