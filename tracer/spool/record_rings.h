// The rings of a process's threads. They are made when needed, up to a limit, and reused.
//
// Threading: Take and IsWorthTrying from any thread, lock-free; mapped and ring from any thread; Freed is for the
//   consumer.
// Ownership: rings stay mapped for as long as this object lives, and every thread that took one must have ended, or
//   record no more, before that.
#pragma once

#include <atomic>
#include <cstdint>

#include "tracer/spool/record_ring.h"

namespace slipstream::tracer {

class RecordRings {
 public:
  static constexpr uint32_t kMaxRings = 4096;

  // `records` is RecordRing's; at most `rings` of them. Check valid() before anything else.
  RecordRings(uint32_t records, uint32_t rings);
  ~RecordRings();
  RecordRings(const RecordRings&) = delete;
  RecordRings& operator=(const RecordRings&) = delete;

  bool valid() const { return rings_ != nullptr; }

  // A ring of its own for the calling thread: a free one, or else a new one. Null: all are taken, or there is no
  // memory. Fills in the owner's number.
  RecordRing* Take(RecordRing::Owner owner);

  // For a thread that got none: a number that changes whenever it is worth asking again.
  uint32_t times_freed() const { return times_freed_.load(std::memory_order_acquire); }
  // The consumer has freed a ring.
  void Freed() { times_freed_.fetch_add(1, std::memory_order_release); }

  // Rings are 0 to mapped() - 1.
  uint32_t mapped() const { return mapped_.load(std::memory_order_acquire); }
  RecordRing* ring(uint32_t index) const { return rings_[index].load(std::memory_order_acquire); }

 private:
  const uint32_t records_;
  const uint32_t limit_;
  std::atomic<RecordRing*>* const rings_;
  std::atomic<uint32_t> mapped_{0};
  std::atomic<uint32_t> last_number_{0};
  std::atomic<uint32_t> times_freed_{0};
};

}  // namespace slipstream::tracer
