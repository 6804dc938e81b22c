#include "transfer/small_staging.h"

namespace slipstream::transfer {

void SmallStaging::Provide(char* memory) { memory_.store(memory, std::memory_order_release); }

SmallStaging::Place SmallStaging::Take(const StreamKey& stream, uint64_t thread, size_t bytes) {
  const auto rounded = static_cast<uint32_t>((bytes + kAlignment - 1) / kAlignment * kAlignment);
  const std::lock_guard lock(mutex_);
  char* const memory = memory_.load(std::memory_order_acquire);  // provided without the lock
  if (memory == nullptr) return {};
  uint32_t found = kPages;
  for (uint32_t i = 0; i < kPages && found == kPages; ++i) {
    Page& page = pages_[i];
    if (page.thread != thread || !(page.stream == stream)) continue;
    if (page.used + rounded <= kPageBytes) found = i;
  }
  for (uint32_t i = 0; i < kPages && found == kPages; ++i) {
    // First the page that was used last: the cache still has it.
    const uint32_t index = (recent_ + i) % kPages;
    Page& page = pages_[index];
    if (!page.Idle()) continue;
    page.stream = stream;
    page.thread = thread;
    page.used = 0;
    page.fence = FenceRef();
    found = index;
    recent_ = index;
  }
  if (found == kPages) return {};
  Page& page = pages_[found];
  const Place place = {memory + size_t{found} * kPageBytes + page.used, found};
  page.used += rounded;
  ++page.open_copies;
  return place;
}

void SmallStaging::Commit(const Place& place, FenceRef fence) {
  const std::lock_guard lock(mutex_);
  Page& page = pages_[place.page];
  page.fence = std::move(fence);
  --page.open_copies;
}

void SmallStaging::Cancel(const Place& place) {
  const std::lock_guard lock(mutex_);
  --pages_[place.page].open_copies;
}

void SmallStaging::Retire(CUstream handle) {
  const std::lock_guard lock(mutex_);
  for (Page& page : pages_) {
    if (page.stream.handle == handle) page.thread = 0;  // nobody's: nothing is added to it
  }
}

FenceRef SmallStaging::AnyInFlight() {
  const std::lock_guard lock(mutex_);
  for (const Page& page : pages_) {
    if (!page.Idle() && page.fence) return page.fence;
  }
  return {};
}

}  // namespace slipstream::transfer
