#include "tracer/spool/record_ring.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

namespace slipstream::tracer {

static_assert(sizeof(RecordRing) % alignof(TraceRecord) == 0);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

size_t RecordRing::BytesOf(uint32_t records) { return sizeof(RecordRing) + size_t{records} * sizeof(TraceRecord); }

RecordRing* RecordRing::Map(uint32_t records, const Owner& owner) {
  if (records < kMinRecords || records > kMaxRecords || !std::has_single_bit(records)) return nullptr;
  void* const memory =
      mmap(nullptr, BytesOf(records), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : new (memory) RecordRing(records, owner);
}

void RecordRing::Unmap(RecordRing* ring) {
  const size_t bytes = BytesOf(ring->capacity_);
  ring->~RecordRing();
  munmap(ring, bytes);
}

RecordRing::RecordRing(uint32_t records, const Owner& owner) : capacity_(records) { Settle(owner); }

bool RecordRing::TryTake(const Owner& owner) {
  State expected = State::kFree;
  // A relaxed look first: a compare-exchange would take the owner's cache line for every thread that starts.
  if (state_.load(std::memory_order_relaxed) != State::kFree) return false;
  if (!state_.compare_exchange_strong(expected, State::kBeingTaken, std::memory_order_acquire)) return false;
  Settle(owner);
  state_.store(State::kTaken, std::memory_order_release);
  return true;
}

// The ring is empty, and this thread's alone.
void RecordRing::Settle(const Owner& owner) {
  owner_ = owner;
  first_ = head_.load(std::memory_order_relaxed);
  look_at_ = first_ + capacity_ / 2;
  dropped_.store(0, std::memory_order_relaxed);
  unsaid_ = 0;
}

RecordRing::Pushed RecordRing::PushSlowly(const TraceRecord& record) {
  uint64_t head = head_.load(std::memory_order_relaxed);
  const uint64_t tail = tail_.load(std::memory_order_acquire);
  const uint64_t needed = unsaid_ != 0 ? 2 : 1;
  if (capacity_ - (head - tail) < needed) {
    if (unsaid_ == 0) unsaid_start_ns_ = record.start_ns;
    unsaid_end_ns_ = std::max(record.start_ns, record.end_ns);
    ++unsaid_;
    dropped_.store(dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    look_at_ = head;  // the next one comes here too: the count goes before it
    return Pushed::kDropped;
  }
  if (unsaid_ != 0) {
    Put(head++, DropRecord(unsaid_start_ns_, unsaid_end_ns_, unsaid_, dropped_.load(std::memory_order_relaxed)));
    unsaid_ = 0;
  }
  Put(head++, record);
  head_.store(head, std::memory_order_release);
  const bool half_full = head - tail >= capacity_ / 2;
  look_at_ = tail + (half_full ? capacity_ : capacity_ / 2);
  return half_full ? Pushed::kHalfFull : Pushed::kYes;
}

const RecordRing::Owner* RecordRing::owner() const {
  const State state = state_.load(std::memory_order_acquire);
  return state == State::kTaken || state == State::kEnded ? &owner_ : nullptr;
}

uint64_t RecordRing::AvailableOwn() const {
  const uint64_t head = head_.load(std::memory_order_acquire);
  uint64_t own = 0;
  for (uint64_t at = tail_.load(std::memory_order_relaxed); at != head; ++at) {
    own += IsTold(records()[at & (capacity_ - 1)].kind) ? 1 : 0;
  }
  return own;
}

void RecordRing::Copy(uint64_t count, void* to) const {
  if (count == 0) return;
  const uint64_t at = tail_.load(std::memory_order_relaxed) & (capacity_ - 1);
  const uint64_t until_wrap = std::min<uint64_t>(count, capacity_ - at);
  std::memcpy(to, records() + at, until_wrap * sizeof(TraceRecord));
  std::memcpy(static_cast<char*>(to) + until_wrap * sizeof(TraceRecord), records(),
              (count - until_wrap) * sizeof(TraceRecord));
}

void RecordRing::Advance(uint64_t count) {
  tail_.store(tail_.load(std::memory_order_relaxed) + count, std::memory_order_release);
}

}  // namespace slipstream::tracer
