// Records the program's own NVTX ranges and marks in the trace.
//
//   nvtx_injection.h   NVTX's own calls come in there, when `slipstream run` has made slipstream the tool
//   ProgramRanges      what is open, by thread; a record when it ends
//
// Pushed ranges belong to a thread and a domain: a pop ends the last one of its domain on its thread. A started range
// may be ended by any thread.
//
// Threading: SetRecorder once; the rest from any thread, lock-free. A thread's first range maps a page.
// Hazard: runs inside the program's calls of NVTX, before there is a recorder and after it has ended too, and in a
// forked child: what was open stays in order, and nothing is recorded.
// Errors: ranges without room (kOpen a thread, kStarted in the process, a thread without memory) are counted and not
//   recorded.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "policy/thread_owned.h"
#include "tracer/ranges/step_window.h"
#include "tracer/spool/range_names.h"
#include "tracer/spool/range_record.h"
#include "tracer/spool/recorder.h"

namespace slipstream::tracer {

// What a range carries beside its name.
struct RangeDetail {
  uint32_t name = RangeNames::kUnknown;
  uint32_t category = 0;
  uint32_t color = 0;  // ARGB; 0: none
  RangePayload payload = RangePayload::kNone;
  uint64_t payload_bits = 0;
};

class ProgramRanges {
 public:
  static constexpr size_t kOpen = 64;
  static constexpr uint64_t kStarted = 1024;

  explicit ProgramRanges(RangeNames& names) : names_(names) {}
  ProgramRanges(const ProgramRanges&) = delete;
  ProgramRanges& operator=(const ProgramRanges&) = delete;

  RangeNames& names() { return names_; }
  // From now on, ranges that begin are recorded when they end. The recorder lives as long as the process.
  void SetRecorder(Recorder* recorder);

  // `domain`: the number of its name; 0: the one without a name. Returns how many of this domain the thread had open
  // (NVTX: "the 0-based level of range being started").
  int Push(uint32_t domain, const RangeDetail& range);
  // The level of the range that ends; below 0: there is none.
  int Pop(uint32_t domain);
  // 0: there is no room.
  uint64_t Start(uint32_t domain, const RangeDetail& range);
  void End(uint64_t range);
  void Mark(uint32_t domain, const RangeDetail& mark);

  // Whether the program names its steps, where there is a window of steps.
  bool names_steps() const { return steps_.any(); }

  // Ranges that found no room.
  const std::atomic<uint64_t>& lost() const { return lost_; }

 private:
  struct Open {
    uint64_t start_ns = 0;  // 0: nothing was recorded then
    uint32_t domain = 0;
    RangeDetail range;
    bool is_step = false;  // for the window
  };
  // A thread's. Ranges beyond kOpen are assumed to end before all others, whatever their domain.
  struct Stack {
    uint32_t count = 0;
    uint32_t beyond = 0;
    std::array<Open, kOpen> open;
  };
  struct Started {
    std::atomic<uint64_t> id{0};  // 0: free; kBusy: being filled or emptied
    uint32_t thread = 0;
    Open open;
  };
  static constexpr uint64_t kBusy = 1;  // no range's: those are kStarted and more

  Recorder* Recording() const;
  bool IsStep(const Stack& stack, const RangeDetail& range);
  void Record(const Open& open, uint64_t end_ns, RangeKind kind, uint32_t thread) const;

  using Here = policy::ThreadOwned<Stack>;

  RangeNames& names_;
  std::atomic<Recorder*> recorder_{nullptr};
  StepWindow steps_;
  std::atomic<uint64_t> next_{1};
  std::atomic<uint64_t> lost_{0};
  std::array<Started, kStarted> started_;
};

}  // namespace slipstream::tracer
