#include "transfer/small_staging.h"

namespace slipstream::transfer {

void SmallStaging::Provide(char* memory) { memory_.store(memory, std::memory_order_release); }

SmallStaging::Place SmallStaging::Take(CUcontext context, const StreamKey& stream, uint64_t thread, size_t bytes) {
  const auto rounded = static_cast<uint32_t>((bytes + kAlignment - 1) / kAlignment * kAlignment);
  const std::lock_guard lock(mutex_);
  char* const memory = memory_.load(std::memory_order_acquire);  // provided without the lock
  if (memory == nullptr) return {};
  uint32_t found = kPages;
  for (uint32_t i = 0; i < kPages && found == kPages; ++i) {
    Page& page = pages_[i];
    if (page.thread != thread || page.context != context || !(page.stream == stream)) continue;
    if (page.used + rounded <= kPageBytes) found = i;
  }
  if (found == kPages && (found = FindIdle()) != kPages) {
    Page& page = pages_[found];
    page.context = context;
    page.stream = stream;
    page.thread = thread;
    page.used = 0;
    page.fence = FenceRef();
    recent_ = found;
  }
  if (found == kPages) return {};
  Page& page = pages_[found];
  const Place place = {memory + size_t{found} * kPageBytes + page.used, found};
  page.used += rounded;
  ++page.open_copies;
  return place;
}

// With the lock held. kPages: none.
uint32_t SmallStaging::FindIdle() {
  // The cache still has it.
  if (pages_[recent_].Idle()) return recent_;
  // Pages are taken in turn, so the oldest is the next; but one that is open still is younger than it lies.
  Behind behind;
  for (const bool ask_all : {false, true}) {
    for (uint32_t i = 1; i < kPages; ++i) {
      const uint32_t index = (recent_ + i) % kPages;
      const Page& page = pages_[index];
      if (ask_all ? page.Idle() : page.open_copies == 0 && (!page.fence || behind.Done(page.fence))) return index;
    }
  }
  return kPages;
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
