// The trace of this process as the tracer writes it: a record for every call, with the line of the program behind it
// and what an engine decided about it, and what the pools hold.
//
//   Begin   on the calling thread, before an engine does anything: Python's frames are still the caller's
//   Decided the engines, while the call goes on: on the same thread, or it is about no call
//   End     the record, into the thread's ring (recorder.h)
//
// What is known of a call until it ends lies in a slot of its thread. Calls inside calls do not come here (the shim's
// reentrancy guard), so one slot is enough; threads of slipstream's own have theirs empty.
//
// Threading: Start once; the rest from any thread, lock-free.
// Hazard: everything but Start runs inside the user's CUDA calls. A thread's first record maps its ring; the process's
//   first line takes the loader's lock (program_sites.h). errno stays as it was.
// Ownership: never destroyed: threads record until the process is gone.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tracer/backward_lines.h"
#include "tracer/hook_id.h"
#include "tracer/memory_figures.h"
#include "tracer/memory_pace.h"
#include "tracer/program_ranges.h"
#include "tracer/recorder.h"
#include "tracer/stack_tree.h"

namespace slipstream::tracer {

// How much a decision says about the call that it was made in, least first: a call's record has room for one, and a
// later one takes the place of one that says as much or less.
enum class CallShare : uint8_t {
  kBeside = 1,   // about something else that happened then
  kWaited,       // beside, and the call took so much longer than the program's own would have
  kSynchronize,  // what became of a wait, which may be a part of the call only
  kOutcome,      // what became of the call
};

class CallRecorder {
 public:
  // What a call's record has of Python's stack.
  enum class Python : uint8_t { kNothing, kLine, kStack };
  // Null, and *why says why. Of the options' stacks it takes care itself.
  static CallRecorder* Start(RecorderOptions options, Python python, SpoolFailure* why);

  // Opens the calling thread's call. Returns its start, after whatever this took.
  uint64_t Begin(uint64_t stream);
  // Records it. An end without a beginning (the recording began or ended in between) records nothing.
  void End(HookId id, uint64_t start_ns, uint64_t end_ns, uint64_t bytes, int32_t status);

  // The decision of that number in the options' list was made. On a thread that is in no recorded call this does
  // nothing.
  static void Decided(size_t index, CallShare share, uint64_t time_ns);

  // Recorded if it differs from what was recorded last by enough to be seen (memory_pace.h).
  void Memory(const MemoryFigures& figures);

  // From now on these are recorded too. They live as long as the process.
  void Record(ProgramRanges* ranges) { ranges->SetRecorder(&recorder_); }

  // Recorder::Finish.
  bool Finish(uint64_t timeout_ns) { return recorder_.Finish(timeout_ns); }

 private:
  CallRecorder(Recorder& recorder, Python python, StackTree* stacks, BackwardLines* backward)
      : recorder_(recorder), python_(python), stacks_(stacks), backward_(backward) {}

  // As records have them.
  struct Caller {
    uint32_t site = 0;
    uint32_t stack = 0;
    uint8_t flags = 0;
  };
  Caller FindCaller();

  Recorder& recorder_;
  const Python python_;
  StackTree* const stacks_;             // null: records have a line at most
  BackwardLines* const backward_;       // null: threads of autograd's have no line
  std::atomic<bool> has_sites_{false};  // the recorder knows where lines are described
  MemoryPace pace_;
};

}  // namespace slipstream::tracer
