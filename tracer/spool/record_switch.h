// Whether a process records now, and when that changed.
//
// Recording begins once and ends once. In between it may be paused, for several reasons at the same time: it is on when
// there is none. All of that is one word, which every call looks at. A thread that pauses or resumes the recording
// leaves the time for the thread that writes the file.
//
// The times are such that what lies outside of a pause is recorded as a whole: a pause begins before the first call
// that it leaves out, and ends behind the last one.
//
// Threading: on, ended_by_itself and Pause from any thread, lock-free; Begin, End, Next and Bind from one.
// Hazard: zeros mean that nothing is recorded: it is in memory that is zeros in a forked child. Between two rounds of the
//   thread that writes there may be kChanges changes.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace slipstream::tracer {

class RecordSwitch {
 public:
  // Why not.
  enum Reason : uint32_t { kOutsideWindow = 4, kTurnedOff = 8 };
  static constexpr uint32_t kChanges = 64;

  bool on() const { return IsOn(word_.load(std::memory_order_relaxed)); }
  bool paused_for(uint32_t reasons) const { return (word_.load(std::memory_order_relaxed) & reasons) != 0; }
  // It has, and would be on had it not.
  bool ended_by_itself() const { return (word_.load(std::memory_order_relaxed) & kBits) == kEndedByItself; }

  // `reasons`: those that there are from the start.
  void Begin(uint32_t reasons);
  void End(bool by_itself);
  // For this reason, from now on or no more.
  void Pause(Reason reason, bool paused);

  // From now on the bit of this word says whether there is no reason not to record, whether or not the recording has
  // ended. The word lives as long as the process.
  void Bind(std::atomic<uint32_t>* word, uint32_t bit);

  struct Change {
    uint64_t at_ns = 0;
    bool on = false;
  };
  // The changes since Begin, one after the other. False: there are no more yet.
  bool Next(Change* change);

 private:
  static constexpr uint32_t kLive = 1;
  static constexpr uint32_t kEndedByItself = 2;
  static constexpr uint32_t kReasons = kOutsideWindow | kTurnedOff;
  static constexpr uint32_t kBits = 0xff;
  static constexpr uint32_t kOneChange = 0x100;  // above them, changes are counted

  static bool IsOn(uint32_t word) { return (word & kBits) == kLive; }
  static uint32_t NumberOf(uint32_t word) { return word / kOneChange; }
  void TellBound();

  struct Slot {
    std::atomic<uint64_t> at_ns;
    std::atomic<uint32_t> number;  // of the change, from 1, written last
    std::atomic<uint32_t> on;
  };

  std::atomic<uint32_t> word_;
  uint32_t taken_;
  std::atomic<std::atomic<uint32_t>*> bound_;
  uint32_t bit_;
  std::array<Slot, kChanges> slots_;
};

}  // namespace slipstream::tracer
