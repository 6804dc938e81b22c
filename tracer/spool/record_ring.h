// The ring of one thread's records for the writer, with one producer and one consumer.
//
// A full ring takes no records. It counts them, and the count becomes a record of its own as soon as there is room for
// two, at the place of the missing ones.
//
// States, and who moves them on: free -> taken (a thread that has none) -> ended (that thread, at its end) -> free (the
// consumer, once it has drained it). Positions run on from owner to owner.
//
// Threading: Push and End belong to the thread that took the ring; Available, Copy, Advance and Free to the consumer;
//   TryTake to any thread. Nobody ever waits.
// Hazard: if a signal handler on the same thread pushes during a Push, one of the two records is lost. The shim's
//   reentrancy guard prevents that.
// Ownership: is in a mapping of its own; a forked child has a copy that is never drained.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tracer/spool/trace_record.h"

namespace slipstream::tracer {

class RecordRing {
 public:
  static constexpr uint32_t kMinRecords = 8;
  static constexpr uint32_t kMaxRecords = 1U << 20;

  struct Owner {
    uint32_t number = 0;  // counted from 1 over the life of the recorder: thread numbers of the system are reused
    uint32_t thread = 0;  // the system's
    char name[16] = {};   // as it was when the thread recorded for the first time; NUL-terminated
  };

  // Taken by `owner`. `records` is a power of two within the limits above. Null when there is no memory.
  static RecordRing* Map(uint32_t records, const Owner& owner);
  static void Unmap(RecordRing* ring);
  static size_t BytesOf(uint32_t records);

  // Takes a free ring. False: it is not free, or another thread was faster.
  bool TryTake(const Owner& owner);
  void End() { state_.store(State::kEnded, std::memory_order_release); }

  enum class Pushed : uint8_t {
    kYes,
    kHalfFull,  // and the consumer should come
    kDropped,   // and so it should
  };
  // 64 bytes are copied; no system call.
  Pushed Push(const TraceRecord& record) {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    if (head >= look_at_) [[unlikely]]
      return PushSlowly(record);
    Put(head, record);
    head_.store(head + 1, std::memory_order_release);
    return Pushed::kYes;
  }

  // The owner of the records that are in the ring; null while the ring is free. Valid until Free.
  const Owner* owner() const;
  bool HasEnded() const { return state_.load(std::memory_order_acquire) == State::kEnded; }
  // Of this owner, the drop records among them, up to now.
  uint64_t pushed() const { return head_.load(std::memory_order_acquire) - first_; }
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

  uint64_t Available() const { return head_.load(std::memory_order_acquire) - tail_.load(std::memory_order_relaxed); }
  bool IsHalfFull() const { return Available() >= capacity_ / 2; }
  // How many of this owner's went to the consumer before.
  uint64_t taken() const { return tail_.load(std::memory_order_relaxed) - first_; }
  // How many of the available records are the thread's own, that is, no drop records.
  uint64_t AvailableOwn() const;
  // The next `count` of those that are available; they stay until Advance.
  void Copy(uint64_t count, void* to) const;
  void Advance(uint64_t count);
  void Free() { state_.store(State::kFree, std::memory_order_release); }

 private:
  enum class State : uint32_t { kFree, kBeingTaken, kTaken, kEnded };

  RecordRing(uint32_t records, const Owner& owner);

  Pushed PushSlowly(const TraceRecord& record);
  void Settle(const Owner& owner);
  TraceRecord* records() { return reinterpret_cast<TraceRecord*>(this + 1); }
  const TraceRecord* records() const { return reinterpret_cast<const TraceRecord*>(this + 1); }

  void Put(uint64_t position, const TraceRecord& record) { records()[position & (capacity_ - 1)] = record; }

  // The producer's line, which the consumer reads the head of.
  alignas(64) std::atomic<uint64_t> head_{0};
  uint64_t look_at_ = 0;  // up to this position there is room, and less than half of the ring is used
  const uint32_t capacity_;
  [[maybe_unused]] uint32_t reserved_ = 0;
  std::atomic<uint64_t> dropped_{0};
  uint64_t unsaid_ = 0;  // of these, not yet in a record
  uint64_t unsaid_start_ns_ = 0;
  uint64_t unsaid_end_ns_ = 0;

  alignas(64) std::atomic<uint64_t> tail_{0};

  alignas(64) std::atomic<State> state_{State::kTaken};
  Owner owner_;
  uint64_t first_ = 0;  // the position at which this owner began
};

}  // namespace slipstream::tracer
