#include "tracer/spool/record_switch.h"

#include "tracer/base/clock.h"

namespace slipstream::tracer {

void RecordSwitch::Begin(uint32_t reasons) { word_.store(kLive | (reasons & kReasons), std::memory_order_seq_cst); }

// Reasons stay: calls that nobody wanted are not counted as later ones. In one step, so that a call finds the one or
// the other.
void RecordSwitch::End(bool by_itself) {
  uint32_t old = word_.load(std::memory_order_relaxed);
  uint32_t now = 0;
  do {
    if ((old & kLive) == 0) return;
    now = (old & ~kLive) | (by_itself ? kEndedByItself : 0);
  } while (!word_.compare_exchange_weak(old, now, std::memory_order_seq_cst, std::memory_order_relaxed));
}

void RecordSwitch::Pause(Reason reason, bool paused) {
  const uint64_t before_ns = NowNs();
  uint32_t old = word_.load(std::memory_order_relaxed);
  uint32_t now = 0;
  do {
    now = paused ? old | reason : old & ~uint32_t{reason};
    if (now == old) return;
    if (IsOn(old) != IsOn(now)) now += kOneChange;
  } while (!word_.compare_exchange_weak(old, now, std::memory_order_seq_cst, std::memory_order_relaxed));
  TellBound();
  if (IsOn(old) == IsOn(now)) return;
  Slot& slot = slots_[NumberOf(now) % kChanges];
  slot.at_ns.store(paused ? before_ns : NowNs(), std::memory_order_relaxed);
  slot.on.store(paused ? 0 : 1, std::memory_order_relaxed);
  slot.number.store(NumberOf(now), std::memory_order_release);
}

// Of two threads that change it at once, one may tell what is no longer so: each looks again behind what it told.
void RecordSwitch::TellBound() {
  // With Bind: of a change and a binding at the same time, one of the two sees the other.
  std::atomic<uint32_t>* const word = bound_.load(std::memory_order_seq_cst);
  if (word == nullptr) return;
  const auto wanted = [this] { return (word_.load(std::memory_order_seq_cst) & kReasons) == 0; };
  bool told = false;
  do {
    told = wanted();
    if (told) {
      word->fetch_or(bit_, std::memory_order_seq_cst);
    } else {
      word->fetch_and(~bit_, std::memory_order_seq_cst);
    }
  } while (wanted() != told);
}

void RecordSwitch::Bind(std::atomic<uint32_t>* word, uint32_t bit) {
  bit_ = bit;
  bound_.store(word, std::memory_order_seq_cst);
  TellBound();
}

bool RecordSwitch::Next(Change* change) {
  const uint32_t number = NumberOf(uint32_t{taken_ + 1} * kOneChange);  // as the word counts
  const Slot& slot = slots_[number % kChanges];
  // 0 is no change's number until the count begins anew.
  if (slot.number.load(std::memory_order_acquire) != number ||
      NumberOf(word_.load(std::memory_order_relaxed)) == taken_)
    return false;
  *change = {.at_ns = slot.at_ns.load(std::memory_order_relaxed), .on = slot.on.load(std::memory_order_relaxed) != 0};
  taken_ = number;
  return true;
}

}  // namespace slipstream::tracer
