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
  constexpr size_t kBlocks = kSegmentBytes / kBlockBytes;
  {
    // Room for every block that there is, held or not: to take one back, or to give memory back, needs no memory.
    const std::lock_guard lock(mutex_);
    segments_.reserve(segments_.size() + 1);
    blocks_.reserve((segments_.size() + 1) * kBlocks);
  }
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
  for (size_t offset = 0; offset < kSegmentBytes; offset += kBlockBytes) blocks_.push_back({memory + offset, {}, 0});
  bytes_.fetch_add(kSegmentBytes, std::memory_order_release);
  return true;
}

CUdeviceptr DeviceStaging::Take() {
  if (closed()) return 0;
  const std::lock_guard lock(mutex_);
  const auto free = std::find_if(blocks_.rbegin(), blocks_.rend(), [](const Block& block) {
    return block.unfenced == 0 && (!block.fence || block.fence.Done() || Broken(Mutant::kS08Early));
  });
  if (free == blocks_.rend()) return 0;
  const CUdeviceptr memory = free->memory;
  blocks_.erase(std::next(free).base());
  return memory;
}

void DeviceStaging::Commit(const std::vector<CUdeviceptr>& blocks, const FenceRef& fence) {
  const std::lock_guard lock(mutex_);
  for (const CUdeviceptr memory : blocks) blocks_.push_back({memory, fence, fence ? 0 : ++unfenced_});
}

void DeviceStaging::Forget() {
  closed_.store(true, std::memory_order_release);
  const std::lock_guard lock(mutex_);
  segments_.clear();
  blocks_.clear();
  bytes_.store(0, std::memory_order_release);
}

bool DeviceStaging::GiveBack(const std::function<bool()>& all_has_run) {
  if (bytes() == 0) return false;
  closed_.store(true, std::memory_order_release);
  // The program waits here for work of its own, as it does where the device is out of memory: its framework
  // synchronizes before it tries again.
  WaitForFences();
  ClearUnfenced(all_has_run);
  bool any = false;
  while (const CUdeviceptr segment = TakeIdleSegment()) {
    any = true;
    (void)driver_.cuMemFree(segment);
  }
  return any;
}

void DeviceStaging::WaitForFences() {
  for (;;) {
    CUdeviceptr memory = 0;
    FenceRef fence;
    {
      const std::lock_guard lock(mutex_);
      const auto pending = std::find_if(blocks_.begin(), blocks_.end(),
                                        [](const Block& block) { return static_cast<bool>(block.fence); });
      if (pending == blocks_.end()) return;
      memory = pending->memory;
      fence = pending->fence;
    }
    const bool passed = fence.Wait() == CUDA_SUCCESS;
    const std::lock_guard lock(mutex_);
    for (Block& block : blocks_) {
      if (block.memory != memory || !block.fence || block.fence.event() != fence.event()) continue;
      block.fence = {};
      if (!passed) block.unfenced = ++unfenced_;
    }
  }
}

void DeviceStaging::ClearUnfenced(const std::function<bool()>& all_has_run) {
  uint64_t last = 0;  // what is committed behind this question is not in its answer
  {
    const std::lock_guard lock(mutex_);
    for (const Block& block : blocks_) last = std::max(last, block.unfenced);
  }
  if (last == 0 || !all_has_run()) return;
  const std::lock_guard lock(mutex_);
  for (Block& block : blocks_) {
    if (block.unfenced <= last) block.unfenced = 0;
  }
}

CUdeviceptr DeviceStaging::TakeIdleSegment() {
  const std::lock_guard lock(mutex_);
  for (const CUdeviceptr segment : segments_) {
    const auto in = [&](const Block& block) {
      return block.memory >= segment && block.memory < segment + kSegmentBytes;
    };
    const auto idle = std::count_if(blocks_.begin(), blocks_.end(), [&](const Block& block) {
      return in(block) && !block.fence && block.unfenced == 0;
    });
    if (static_cast<size_t>(idle) != kSegmentBytes / kBlockBytes) continue;
    std::erase_if(blocks_, in);
    std::erase(segments_, segment);
    bytes_.fetch_sub(kSegmentBytes, std::memory_order_release);
    return segment;
  }
  return 0;
}

}  // namespace slipstream::transfer
