#include "transfer/small_staging.h"

#include <utility>

namespace slipstream::transfer {

void SmallStaging::Provide(char* memory) { memory_.store(memory, std::memory_order_release); }

SmallStaging::Place SmallStaging::Take(CUcontext context, const cuda::StreamKey& stream, uint64_t thread,
                                       uint32_t& recent, size_t bytes) {
  char* const memory = memory_.load(std::memory_order_acquire);
  if (memory == nullptr) return {};
  const auto rounded = static_cast<uint32_t>((bytes + kAlignment - 1) / kAlignment * kAlignment);
  Locked found = FindOpen(context, stream, thread, recent, rounded);
  if (found.page == kPages) {
    found = FindIdle(recent);
    if (found.page == kPages) return {};
    Page& page = pages_[found.page];
    page.thread.store(thread, std::memory_order_relaxed);
    page.context = context;
    page.stream = stream;
    page.used.store(0, std::memory_order_relaxed);
    page.fence = cuda::FenceRef();
    newest_.store(found.page, std::memory_order_relaxed);
  }
  recent = found.page;
  Page& page = pages_[found.page];
  const uint32_t used = page.used.load(std::memory_order_relaxed);
  const Place place = {memory + size_t{found.page} * kPageBytes + used, found.page};
  page.used.store(used + rounded, std::memory_order_relaxed);
  ++page.open_copies;
  return place;
}

// A page of the thread's for the stream that has so much room; mostly the one that it used last.
SmallStaging::Locked SmallStaging::FindOpen(CUcontext context, const cuda::StreamKey& stream, uint64_t thread,
                                            uint32_t recent, uint32_t bytes) {
  for (uint32_t i = 0; i < kPages; ++i) {
    const uint32_t index = (recent + i) % kPages;
    Page& page = pages_[index];
    if (!page.HasRoom(thread, bytes)) continue;
    Locked locked = {std::unique_lock(page.mutex), index};
    // Meanwhile another thread may have taken it, or destroyed its stream.
    if (page.HasRoom(thread, bytes) && page.context == context && page.stream == stream) return locked;
  }
  return {};
}

SmallStaging::Locked SmallStaging::FindIdle(uint32_t recent) {
  // The cache still has it, unless another thread does.
  if (Locked last = {std::unique_lock(pages_[recent].mutex, std::try_to_lock), recent};
      last.lock && pages_[recent].Idle()) {
    return last;
  }
  // Pages are taken in turn, so the oldest is the next; but one that is open still is younger than it lies.
  const uint32_t newest = newest_.load(std::memory_order_relaxed);
  cuda::Behind behind;
  for (const bool ask_all : {false, true}) {
    for (uint32_t i = 1; i <= kPages; ++i) {
      const uint32_t index = (newest + i) % kPages;
      const Page& page = pages_[index];
      Locked locked = {std::unique_lock(pages_[index].mutex, std::try_to_lock), index};
      if (!locked.lock) continue;  // somebody is about to use it
      if (ask_all ? page.Idle() : page.open_copies == 0 && (!page.fence || behind.Done(page.fence))) return locked;
    }
  }
  return {};
}

void SmallStaging::Commit(const Place& place, cuda::FenceRef fence) {
  Page& page = pages_[place.page];
  const std::lock_guard lock(page.mutex);
  page.fence = std::move(fence);
  --page.open_copies;
}

void SmallStaging::Cancel(const Place& place) {
  Page& page = pages_[place.page];
  const std::lock_guard lock(page.mutex);
  --page.open_copies;
}

void SmallStaging::Retire(CUstream handle) {
  for (Page& page : pages_) {
    const std::lock_guard lock(page.mutex);
    if (page.stream.handle == handle) page.thread.store(0, std::memory_order_relaxed);  // nothing is added to it
  }
}

cuda::FenceRef SmallStaging::AnyInFlight() {
  for (Page& page : pages_) {
    const std::lock_guard lock(page.mutex);
    if (!page.Idle() && page.fence) return page.fence;
  }
  return {};
}

}  // namespace slipstream::transfer
