#include "tracer/spool/record_rings.h"

#include <new>

namespace slipstream::tracer {

RecordRings::RecordRings(uint32_t records, uint32_t rings)
    : records_(records), limit_(rings), rings_(new (std::nothrow) std::atomic<RecordRing*>[rings]()) {}

RecordRings::~RecordRings() {
  for (uint32_t i = 0; rings_ != nullptr && i < mapped(); ++i) RecordRing::Unmap(ring(i));
  delete[] rings_;
}

RecordRing* RecordRings::Take(RecordRing::Owner owner) {
  owner.number = last_number_.fetch_add(1, std::memory_order_relaxed) + 1;
  for (uint32_t i = 0; i < mapped(); ++i) {
    if (ring(i)->TryTake(owner)) return ring(i);
  }
  if (mapped() >= limit_) return nullptr;
  RecordRing* const mine = RecordRing::Map(records_, owner);
  if (mine == nullptr) return nullptr;
  // Into the first place that is empty. Whoever finds a place filled helps to count it: places below mapped_ are never
  // empty, and a thread that stops in between keeps nobody waiting.
  uint32_t index = mapped();
  while (index < limit_) {
    RecordRing* expected = nullptr;
    const bool placed = rings_[index].compare_exchange_strong(expected, mine, std::memory_order_acq_rel);
    uint32_t count = index;
    mapped_.compare_exchange_strong(count, index + 1, std::memory_order_acq_rel);
    if (placed) return mine;
    ++index;
  }
  RecordRing::Unmap(mine);
  return nullptr;
}

}  // namespace slipstream::tracer
