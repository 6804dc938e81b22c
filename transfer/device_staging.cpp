#include "transfer/device_staging.h"

#include <algorithm>

#include "transfer/mutant.h"

namespace slipstream::transfer {
namespace {

// At least this part of the device's memory stays free when a segment is taken.
constexpr size_t kStaysFreeOneIn = 16;

}  // namespace

bool DeviceStaging::IsShort(size_t free, size_t total) { return free < total / kStaysFreeOneIn; }

bool DeviceStaging::Grow() {
  size_t free = 0;
  size_t total = 0;
  CUdeviceptr memory = 0;
  CUstream stream = stream_.load(std::memory_order_relaxed);
  const bool plenty = driver_.cuMemGetInfo(&free, &total) == CUDA_SUCCESS && free > kSegmentBytes &&
                      !IsShort(free - kSegmentBytes, total);
  if (!plenty || (stream == nullptr && driver_.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) ||
      driver_.cuMemAlloc(&memory, kSegmentBytes) != CUDA_SUCCESS) {
    closed_.store(true, std::memory_order_release);
    return false;
  }
  stream_.store(stream, std::memory_order_release);
  const std::lock_guard lock(mutex_);
  segments_.push_back(memory);
  for (size_t offset = 0; offset < kSegmentBytes; offset += kBlockBytes) blocks_.push_back({memory + offset, {}});
  bytes_.fetch_add(kSegmentBytes, std::memory_order_release);
  return true;
}

CUdeviceptr DeviceStaging::Take() {
  if (closed()) return 0;
  const std::lock_guard lock(mutex_);
  const auto free = std::find_if(blocks_.rbegin(), blocks_.rend(), [](const Block& block) {
    return !block.fence || block.fence.Done() || Broken(Mutant::kS08Early);
  });
  if (free == blocks_.rend()) return 0;
  const CUdeviceptr memory = free->memory;
  blocks_.erase(std::next(free).base());
  return memory;
}

void DeviceStaging::Commit(const std::vector<CUdeviceptr>& blocks, const FenceRef& fence) {
  const std::lock_guard lock(mutex_);
  if (!fence) unfenced_.insert(unfenced_.end(), blocks.begin(), blocks.end());
  for (const CUdeviceptr memory : blocks) {
    if (fence) blocks_.push_back({memory, fence});
  }
}

void DeviceStaging::Forget() {
  closed_.store(true, std::memory_order_release);
  const std::lock_guard lock(mutex_);
  segments_.clear();
  blocks_.clear();
  unfenced_.clear();
  bytes_.store(0, std::memory_order_release);
}

bool DeviceStaging::GiveBack(const std::function<bool()>& all_has_run) {
  if (bytes() == 0) return false;
  closed_.store(true, std::memory_order_release);
  std::vector<FenceRef> fences;
  std::vector<CUdeviceptr> unfenced;
  {
    const std::lock_guard lock(mutex_);
    for (const Block& block : blocks_) {
      if (block.fence) fences.push_back(block.fence);
    }
    unfenced.swap(unfenced_);
  }
  // The program waits here for work of its own, as it does where the device is out of memory: its framework
  // synchronises before it tries again.
  for (const FenceRef& fence : fences) (void)fence.Wait();
  const bool all_run = !unfenced.empty() && all_has_run();

  std::vector<CUdeviceptr> whole;
  {
    const std::lock_guard lock(mutex_);
    if (!all_run) unfenced_.insert(unfenced_.end(), unfenced.begin(), unfenced.end());
    for (const CUdeviceptr memory : unfenced) {
      if (all_run) blocks_.push_back({memory, {}});
    }
    const auto in = [](const Block& block, CUdeviceptr segment) {
      return block.memory >= segment && block.memory < segment + kSegmentBytes;
    };
    for (const CUdeviceptr segment : segments_) {
      const auto idle = std::count_if(blocks_.begin(), blocks_.end(), [&](const Block& block) {
        return in(block, segment) && (!block.fence || block.fence.Done());
      });
      if (static_cast<size_t>(idle) == kSegmentBytes / kBlockBytes) whole.push_back(segment);
    }
    for (const CUdeviceptr segment : whole) {
      std::erase(segments_, segment);
      std::erase_if(blocks_, [&](const Block& block) { return in(block, segment); });
    }
    bytes_.fetch_sub(whole.size() * kSegmentBytes, std::memory_order_release);
  }
  for (const CUdeviceptr segment : whole) (void)driver_.cuMemFree(segment);
  return !whole.empty();
}

}  // namespace slipstream::transfer
