#include "transfer/mirrors.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "cuda/mutant.h"
#include "policy/log.h"
#include "policy/memory_left.h"
#include "transfer/fingerprint.h"
#include "transfer/host_pages.h"

namespace slipstream::transfer {
namespace {

using Pages = policy::WriteWatch::Pages;

constexpr const char* kPinned = "something in the process may write through pages that it has pinned";

Pages PagesOf(const char* source, size_t bytes) { return Pages::Inside(source, bytes); }

// What lies outside of the source's whole pages: work(offset, bytes) for either end.
template <typename Work>
void EachEnd(const char* source, size_t bytes, const Work& work) {
  const Pages pages = PagesOf(source, bytes);
  const auto at = reinterpret_cast<uintptr_t>(source);
  if (pages.begin != at) work(size_t{0}, pages.begin - at);
  if (pages.end != at + bytes) work(pages.end - at, at + bytes - pages.end);
}

bool Pending(const cuda::FenceRef& fence) { return fence && !fence.Done(); }

}  // namespace

void Mirrors::Sent(Held held, const cuda::FenceRef& fence) {
  held.mirror_->block.last = fence;
  if (fence) return;
  const std::lock_guard lock(mutex_);
  Unwatch(*held.mirror_);
  held.mirror_->block = Block();
}

void Mirrors::Close(const char* why) {
  if (closed_.exchange(true, std::memory_order_acq_rel)) return;
  policy::LogWarn(std::string("transfer: there are no mirrors any more: ") + why);
}

std::shared_ptr<Mirrors::Mirror> Mirrors::Of(const char* source, size_t bytes) {
  const std::lock_guard lock(mutex_);
  const Key key(source, bytes);
  if (const auto found = sources_.find(key); found != sources_.end()) return found->second;
  if (sources_.size() >= kMostSources) {
    std::erase_if(sources_, [](const auto& entry) {
      const std::unique_lock held(entry.second->mutex, std::try_to_lock);
      return held && entry.second.use_count() == 1 && entry.second->block.memory == nullptr;
    });
  }
  auto mirror = std::make_shared<Mirror>(source, bytes);
  sources_.emplace(key, mirror);
  return mirror;
}

Mirrors::Held Mirrors::Find(const char* source, size_t bytes, uint64_t samples, const CopyIn& copy_in,
                            const MayWriteByPage& may_write_by_page) {
  std::shared_ptr<Mirror> mirror = Of(source, bytes);
  std::unique_lock lock(mirror->mutex, std::try_to_lock);
  if (!lock) return {};
  const uint64_t number = copies_.fetch_add(1, std::memory_order_relaxed) + 1;
  mirror->used.store(number, std::memory_order_relaxed);
  if (samples != mirror->seen || mirror->in_a_row == 0) {
    mirror->seen = samples;
    mirror->in_a_row = 0;
    mirror->since = number;
  }
  ++mirror->in_a_row;
  if (mirror->block.memory == nullptr &&
      (mirror->in_a_row < mirror->next_at || !GetBlock(*mirror, may_write_by_page))) {
    return {};
  }
  const bool ready =
      mirror->filled ? Refresh(*mirror, copy_in, may_write_by_page) : Fill(*mirror, copy_in, may_write_by_page);
  if (!ready) return {};
  return {std::move(mirror), std::move(lock)};
}

bool Mirrors::GetBlock(Mirror& mirror, const MayWriteByPage& may_write_by_page) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_.load(std::memory_order_relaxed)) return false;
    mirror.block = TakeFree(mirror.bytes);
  }
  if (mirror.block.memory != nullptr) return true;
  if (!MayRead(may_write_by_page)) return false;
  const std::lock_guard lock(mutex_);
  if (policy::MappingsAreLimited()) {
    Close("the process's addresses or its data are limited");
    return false;
  }
  if (const char* const why_not = watch_.Open(); why_not != nullptr) {
    Close(why_not);
    return false;
  }
  const size_t bytes = RoundUp(mirror.bytes, kHugePageBytes);
  size_t pinned = pinned_.load(std::memory_order_relaxed);
  for (const size_t wanted : wanted_) pinned += wanted;
  if (no_more_ || pinned + bytes > most_bytes_) {
    mirror.block = TakeFromIdle(mirror);
    if (mirror.block.memory == nullptr) mirror.next_at = mirror.in_a_row * 2;  // it takes a look at all of them
  } else if (!mirror.asked || wanted_.empty()) {
    wanted_.push_back(bytes);
    mirror.asked = true;
    any_wanted_.store(true, std::memory_order_release);
  }
  return mirror.block.memory != nullptr;
}

// With no lock that another thread waits for: the dynamic loader is asked, whose lock may be held by one that copies
// (S78).
bool Mirrors::MayRead(const MayWriteByPage& may_write_by_page) {
  if (!watch_.PinsPages() && !may_write_by_page()) return true;
  Close(kPinned);
  return false;
}

// Of the smallest that is long enough, and not much longer. With the lock held.
Mirrors::Block Mirrors::TakeFree(size_t bytes) {
  auto best = free_.end();
  for (auto block = free_.begin(); block != free_.end(); ++block) {
    const bool fits = block->bytes >= bytes && block->bytes / 2 <= RoundUp(bytes, kHugePageBytes);
    if (fits && !Pending(block->last) && (best == free_.end() || block->bytes < best->bytes)) best = block;
  }
  if (best == free_.end()) return {};
  Block block = std::move(*best);
  free_.erase(best);
  return block;
}

// That of a source which has not been copied since this one first was. With the lock held.
Mirrors::Block Mirrors::TakeFromIdle(const Mirror& mirror) {
  for (const auto& [key, other] : sources_) {
    if (other->used.load(std::memory_order_relaxed) >= mirror.since) continue;
    const std::unique_lock held(other->mutex, std::try_to_lock);
    if (!held || other->block.bytes < mirror.bytes || Pending(other->block.last)) continue;
    Unwatch(*other);
    return std::exchange(other->block, Block());
  }
  return {};
}

// Nobody else has an account of the same pages: whoever asks has them protected anew. A source that has not been copied
// since this one first was may be gone.
bool Mirrors::Watch(Mirror& mirror) {
  const Pages pages = PagesOf(mirror.source, mirror.bytes);
  const std::lock_guard lock(mutex_);
  for (auto place = watched_.upper_bound(pages.begin); place != watched_.end() && !Broken(Mutant::kS80Shared);) {
    Mirror& other = *place->second;
    if (PagesOf(other.source, other.bytes).begin >= pages.end) break;
    const std::unique_lock held(other.mutex, std::try_to_lock);
    if (!held || other.used.load(std::memory_order_relaxed) >= mirror.since) return false;
    ++place;
    Unwatch(other);
    free_.push_back(std::exchange(other.block, Block()));
  }
  if (!watch_.Add(pages)) return false;
  watched_.emplace(pages.end, &mirror);
  mirror.filled = true;
  return true;
}

// With both locks held.
void Mirrors::Unwatch(Mirror& mirror) {
  if (!std::exchange(mirror.filled, false)) return;
  const Pages pages = PagesOf(mirror.source, mirror.bytes);
  watch_.Remove(pages);
  watched_.erase(pages.end);
}

void Mirrors::LetGo(Mirror& mirror) {
  const std::lock_guard lock(mutex_);
  Unwatch(mirror);
  mirror.in_a_row = 0;
  free_.push_back(std::exchange(mirror.block, Block()));
}

void Mirrors::LetGoForLong(Mirror& mirror) {
  LetGo(mirror);
  mirror.next_at *= kLongerEachTime;
}

// What was written is protected first, so that what is written while it is read will be told the next time: also by
// whoever pins pages from then on, for pinning one to write to it takes the protection away.
bool Mirrors::Read(Mirror& mirror, bool all, const CopyIn& copy_in, const MayWriteByPage& may_write_by_page) {
  const Pages pages = PagesOf(mirror.source, mirror.bytes);
  char* const memory = mirror.block.memory;
  std::vector<Pages> written;
  if (!watch_.Look(pages, !Broken(Mutant::kS80Late), &written)) return false;
  if (!MayRead(may_write_by_page)) return false;
  if (all) written = {pages};
  for (const Pages& some : written) {
    const size_t offset = some.begin - reinterpret_cast<uintptr_t>(mirror.source);
    copy_in(memory + offset, mirror.source + offset, some.bytes());
  }
  EachEnd(mirror.source, mirror.bytes,
          [&](size_t offset, size_t bytes) { std::memcpy(memory + offset, mirror.source + offset, bytes); });
  mirror.samples = FingerprintOf(memory, mirror.bytes);
  return !Broken(Mutant::kS80Late) || watch_.Look(pages, true, &written);
}

bool Mirrors::Fill(Mirror& mirror, const CopyIn& copy_in, const MayWriteByPage& may_write_by_page) {
  if (Pending(mirror.block.last)) return false;
  if (Watch(mirror) && Read(mirror, true, copy_in, may_write_by_page)) return true;
  LetGoForLong(mirror);
  return false;
}

bool Mirrors::Refresh(Mirror& mirror, const CopyIn& copy_in, const MayWriteByPage& may_write_by_page) {
  std::vector<Pages> written;
  if (!watch_.Look(PagesOf(mirror.source, mirror.bytes), false, &written)) {
    LetGo(mirror);
    return false;
  }
  bool ends_differ = false;
  EachEnd(mirror.source, mirror.bytes, [&](size_t offset, size_t bytes) {
    ends_differ |= std::memcmp(mirror.block.memory + offset, mirror.source + offset, bytes) != 0;
  });
  if (Broken(Mutant::kS80) || (Broken(Mutant::kS80Ends) && written.empty())) return true;
  if (written.empty() && !ends_differ) {
    mirror.often = 0;
    if (mirror.samples == mirror.seen) return true;
    Close(kPinned);
    return false;
  }
  if (!Broken(Mutant::kS80Pending) && Pending(mirror.block.last)) return false;

  size_t bytes = 0;
  for (const Pages& some : written) bytes += some.bytes();
  mirror.often = bytes > mirror.bytes / 4 ? mirror.often + 1 : 0;
  if (mirror.often == kMostOften) {
    mirror.often = 0;
    LetGoForLong(mirror);
    return false;
  }
  if (Read(mirror, false, copy_in, may_write_by_page)) return true;
  LetGo(mirror);
  return false;
}

size_t Mirrors::TakeWanted() {
  const std::lock_guard lock(mutex_);
  if (wanted_.empty()) return 0;
  const size_t bytes = wanted_.front();
  wanted_.erase(wanted_.begin());
  any_wanted_.store(!wanted_.empty(), std::memory_order_release);
  return bytes;
}

void Mirrors::Add(char* memory, size_t bytes) {
  const std::lock_guard lock(mutex_);
  free_.push_back({memory, bytes, {}});
  pinned_.fetch_add(bytes, std::memory_order_release);
}

void Mirrors::NoMore() {
  const std::lock_guard lock(mutex_);
  wanted_.clear();
  any_wanted_.store(false, std::memory_order_release);
  no_more_ = true;
}

void Mirrors::GiveBack(const std::function<void(char* memory, size_t bytes)>& unpin) {
  Close("the program needs the memory that can be pinned");
  std::vector<std::shared_ptr<Mirror>> mirrors;
  std::vector<Block> blocks;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, mirror] : sources_) mirrors.push_back(mirror);
    blocks.swap(free_);
    blocks.reserve(blocks.size() + mirrors.size());
  }
  for (const auto& mirror : mirrors) {
    const std::unique_lock held(mirror->mutex, std::try_to_lock);
    if (!held || mirror->block.memory == nullptr) continue;
    const std::lock_guard lock(mutex_);
    Unwatch(*mirror);
    blocks.push_back(std::exchange(mirror->block, Block()));
  }
  for (const Block& block : blocks) {
    if (block.last) (void)block.last.Wait();
    unpin(block.memory, block.bytes);
    pinned_.fetch_sub(block.bytes, std::memory_order_release);
  }
}

}  // namespace slipstream::transfer
