#include "cuda/host_effects.h"

#include <algorithm>

namespace slipstream::cuda {

void HostEffects::Shard::Prune() {
  std::erase_if(entries, [](const Entry& entry) { return entry.fence && entry.fence.Done(); });
  SetCount();
}

void HostEffects::Add(const StreamKey& stream, uint64_t thread, HostEffectKind kind, const AddressRange& range,
                      FenceRef fence) {
  Shard& shard = shards_.Mine();
  const std::lock_guard lock(shard.mutex);
  const auto earlier = std::find_if(shard.entries.begin(), shard.entries.end(), [&](const Entry& entry) {
    const bool both = entry.fence && fence;
    return entry.kind == kind && entry.thread == thread && entry.stream == stream &&
           (!both || entry.fence.context() == fence.context());
  });
  if (earlier == shard.entries.end()) {
    // Where no copy is promoted nobody else looks, and threads come and go.
    if (shard.entries.size() >= shard.many) {
      shard.Prune();
      shard.many = std::max(Shard::kMany, 2 * shard.entries.size());
    }
    shard.entries.push_back({stream, thread, kind, range, std::move(fence)});
    shard.SetCount();
    return;
  }
  const bool finished = earlier->fence && earlier->fence.Done();
  earlier->range = finished ? range : earlier->range.Cover(range);
  if (earlier->fence) earlier->fence = std::move(fence);  // one that could not be fenced stays unfinished
}

template <typename AllAre>
bool HostEffects::AllUnfinished(const AllAre& all_are) {
  return !shards_.AnyFromMine([&](Shard& shard) {
    if (shard.Empty()) return false;
    const std::lock_guard lock(shard.mutex);
    shard.Prune();
    return !std::all_of(shard.entries.begin(), shard.entries.end(), all_are);
  });
}

bool HostEffects::MayWrite(HostEffectKind kind, const AddressRange& range) {
  return !AllUnfinished([&](const Entry& entry) { return entry.kind != kind || !entry.range.Overlaps(range); });
}

bool HostEffects::OnlyOn(const StreamKey& stream, std::vector<FenceRef>* fences) {
  return AllUnfinished([&](const Entry& entry) {
    if (!(entry.stream == stream) || !entry.fence) return false;
    fences->push_back(entry.fence);
    return true;
  });
}

bool HostEffects::All(CUcontext context, std::vector<FenceRef>* fences) {
  return AllUnfinished([&](const Entry& entry) {
    if (!entry.fence) return false;
    if (context == nullptr || entry.fence.context() == context) fences->push_back(entry.fence);
    return true;
  });
}

void HostEffects::On(const StreamKey& stream, std::vector<FenceRef>* fences) {
  (void)AllUnfinished([&](const Entry& entry) {
    if (entry.stream == stream && entry.fence) fences->push_back(entry.fence);
    return true;
  });
}

void HostEffects::Retire(CUstream handle) {
  shards_.ForEach([handle](Shard& shard) {
    if (shard.Empty()) return;
    const std::lock_guard lock(shard.mutex);
    for (Entry& entry : shard.entries) {
      if (entry.stream.handle == handle) entry.stream = {};
    }
  });
}

}  // namespace slipstream::cuda
