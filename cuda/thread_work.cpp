#include "cuda/thread_work.h"

#include <algorithm>

#include "cuda/mutant.h"

namespace slipstream::cuda {

bool ThreadWork::SubmittedElsewhere(Mine& mine, CUstream stream, uint64_t turn) {
  const bool is_new = mine.slot == nullptr;
  for (size_t i = 0; i < kThreads && mine.slot == nullptr; ++i) {
    if (slots_[i].taken.exchange(true, std::memory_order_acq_rel)) continue;
    mine.slot = &slots_[i];
    for (Entry& entry : mine.slot->streams) entry.turn.store(0, std::memory_order_relaxed);
    for (size_t used = used_.load(); used <= i && !used_.compare_exchange_weak(used, i + 1);) {
    }
  }
  if (mine.slot == nullptr) {
    too_many_.store(true, std::memory_order_relaxed);
    return false;
  }
  const auto known = std::find_if(mine.slot->streams.begin(), mine.slot->streams.end(), [stream](const Entry& entry) {
    return entry.stream.load(std::memory_order_relaxed) == stream;
  });
  const auto oldest =
      std::min_element(mine.slot->streams.begin(), mine.slot->streams.end(), [](const Entry& one, const Entry& other) {
        return one.turn.load(std::memory_order_relaxed) < other.turn.load(std::memory_order_relaxed);
      });
  mine.last = known != mine.slot->streams.end() ? &*known : &*oldest;
  if (known == mine.slot->streams.end()) {
    mine.last->turn.store(0, std::memory_order_relaxed);  // of the stream that the entry was
    mine.last->stream.store(stream, std::memory_order_release);
  }
  mine.last->turn.store(turn, std::memory_order_release);
  return is_new;
}

void ThreadWork::Leave(Mine& mine) {
  if (mine.slot == nullptr) return;
  for (Entry& entry : mine.slot->streams) {
    entry.turn.store(0, std::memory_order_relaxed);
    entry.stream.store(nullptr, std::memory_order_relaxed);
  }
  mine.slot->taken.store(false, std::memory_order_release);
  mine = {};
}

ThreadWork::Lately ThreadWork::LatelyOf(const Slot& slot, CUstream stream, uint64_t turn) {
  Lately lately = {};
  for (const Entry& entry : slot.streams) {
    const uint64_t last = entry.turn.load(std::memory_order_acquire);
    if (last == 0 || last + kLately < turn) continue;
    // A per-thread default stream has the same handle in every thread.
    const bool is_it = stream != CU_STREAM_PER_THREAD && entry.stream.load(std::memory_order_relaxed) == stream;
    (is_it ? lately.to_it : lately.elsewhere) = true;
  }
  return lately;
}

template <typename Matches>
bool ThreadWork::AnyOther(const Mine& mine, CUstream stream, uint64_t turn, const Matches& matches) const {
  const auto end = slots_.begin() + static_cast<ptrdiff_t>(used_.load(std::memory_order_acquire));
  return std::any_of(slots_.begin(), end, [&](const Slot& slot) {
    return &slot != mine.slot && slot.taken.load(std::memory_order_acquire) && matches(LatelyOf(slot, stream, turn));
  });
}

bool ThreadWork::OthersHaveTheirOwn(const Mine& mine, CUstream stream) const {
  const uint64_t turn = turn_.load(std::memory_order_relaxed);
  return too_many_.load(std::memory_order_relaxed) || AnyOther(mine, stream, turn, [](const Lately& lately) {
           return lately.elsewhere && !(lately.to_it && Broken(Mutant::kS74));
         });
}

bool ThreadWork::OthersUse(const Mine& mine, CUstream stream) const {
  const uint64_t turn = turn_.load(std::memory_order_relaxed);
  return too_many_.load(std::memory_order_relaxed) ||
         AnyOther(mine, stream, turn, [](const Lately& lately) { return lately.to_it; });
}

}  // namespace slipstream::cuda
