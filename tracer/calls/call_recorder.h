// The trace of this process as the tracer writes it: a record for every call, with the line of the program behind it
// and what an engine decided about it, and what the pools hold.
//
//   Begin   on the calling thread, before an engine does anything: Python's frames are still the caller's
//   Decided the engines: a record of its own, and what the call's record says of it
//   End     the record, into the thread's ring (recorder.h)
//
// The first calls that succeed ask the driver what devices there are (driver_devices.h), until it answers. That is done
// here, and not by a thread of slipstream's, because no such thread may be inside the driver when the program forks or
// exits, and because a process whose first call succeeds has just waited far longer for the driver to set itself up.
//
// If CUPTI records the devices, it says which driver function a call led to (device_tracer.h).
//
// What is known of a call until it ends is in a slot of its thread (policy/thread_owned.h). Calls inside calls do not
// come here (the shim's reentrancy guard), so one slot is enough; the slots of slipstream's own threads stay empty.
//
// Threading: Start once; the rest from any thread, lock-free.
// Hazard: everything but Start runs inside the user's CUDA calls. A thread's first record maps its ring; the process's
//   first line takes the loader's lock (program_sites.h), and so does asking for the devices. errno stays as it was.
// Ownership: never destroyed: threads record until the process is gone.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "tracer/base/call_detail.h"
#include "tracer/base/clock.h"
#include "tracer/base/hook_id.h"
#include "tracer/base/memory_figures.h"
#include "tracer/base/memory_sampler.h"
#include "tracer/calls/caller_names.h"
#include "tracer/calls/line_steps.h"
#include "tracer/python/backward_lines.h"
#include "tracer/python/native_frames.h"
#include "tracer/python/stack_tree.h"
#include "tracer/ranges/program_ranges.h"
#include "tracer/spool/recorder.h"

namespace slipstream::tracer {

// How much a decision says about the call that it was made in, least first: a call's record names one, and a later one
// takes the place of one that says as much or less.
enum class CallShare : uint8_t {
  kAside,        // less: a sum of times for summaries, beside a decision that has a name of its own
  kBeside = 1,   // about something else that happened then
  kWaited,       // beside, and the call took so much longer than the program's own would have
  kSynchronize,  // what became of a wait, which may be a part of the call only
  kOutcome,      // what became of the call
};

// Where a call is made, as records have it.
struct Caller {
  uint32_t site = 0;
  uint32_t stack = 0;
  uint8_t flags = 0;
};

// What a function of the driver's does, that CUPTI says is called.
enum class DriverUse : uint8_t {
  kNone,
  kWork,   // makes work for a device
  kWait,   // the host waits for a device
  kOrder,  // a stream or a context is to wait for an event
};

class CallRecorder {
 public:
  // What a call's record has of the stack: a line of Python, Python's stack, and the native one.
  enum class Stacks : uint8_t { kNone, kLine, kPython, kFull };
  // Null on failure, and *why says why. It sets up the options' stacks itself. If there can be no native stacks, it
  // records Python's, and the log and the trace say so.
  static CallRecorder* Start(RecorderOptions options, Stacks what, SpoolFailure* why);

  // Opens the calling thread's call. Returns its start, after whatever this took.
  uint64_t Begin(uint64_t stream);
  // Records it, and the memory that it got or gave back, if it succeeded. An end without a beginning (the recording
  // began or ended in between) records nothing.
  void End(HookId id, uint64_t start_ns, uint64_t end_ns, const CallDetail& detail, int32_t status);

  // The decision of that number in the options' list was made: in the calling thread's call, if it is in one. `bytes`,
  // `time_ns`: as the counters have them; `contents`: DecisionMade's.
  void Decided(size_t index, CallShare share, uint64_t bytes, uint64_t time_ns, uint64_t contents = 0);

  // CUPTI says that the calling thread enters a function of the driver, and leaves it. Of those that make work the
  // first one in a hooked call is that call's; any other has a record of its own, with the line that it was made at.
  // So it is with waits, of the host or of a stream, but for slipstream's own (cuda::OwnWork): these are no call's, and
  // by that are told from the program's. Returns where the call was made, if no hook saw it: CalledBy may then say
  // which library it comes from. Else null.
  const Caller* EnterDriver(uint32_t correlation, DriverUse use);
  static void CalledBy(uint32_t library);
  void LeaveDriver(uint16_t function, uint32_t correlation, int32_t status);

  // Recorder::Say.
  void Say(Facts facts) { recorder_.Say(std::move(facts)); }

  // Recorder::SetDevice.
  void SetDevice(DeviceRecords* device) { recorder_.SetDevice(device); }

  // Recorded if it differs from what was recorded last by enough to be seen (memory_sampler.h).
  // What has the device's use in it (MemoryFigures::device_used) is recorded with the end of the call that it was found
  // in: as of the blocks that the call gets, which that use includes.
  void Memory(const MemoryFigures& figures);
  // Whether the figures of the device are to have what the driver has to be asked for: something is recorded, and it
  // was not asked for 10 ms.
  bool WantsDeviceUse(int32_t device) { return recorder_.recording() && pace_.MayAsk(device, NowNs()); }

  // From now on these are recorded too. They live as long as the process.
  void Record(ProgramRanges* ranges) {
    ranges_.store(ranges, std::memory_order_release);
    ranges->SetRecorder(&recorder_);
  }

  // Steps by the program's lines, for a window of steps and a program that names none (line_steps.h): before a call,
  // which may begin one and the recording with it, and behind it. Outside of Begin and End.
  void BeforeCall(HookId id);
  void AfterCall(HookId id, const CallDetail& detail, bool failed);

  // Recorder::Finish.
  bool Finish(uint64_t timeout_ns) { return recorder_.Finish(timeout_ns); }
  // Recorder's.
  void BindPause(std::atomic<uint32_t>* word, uint32_t bit) { recorder_.BindPause(word, bit); }
  bool pauses_devices() const { return recorder_.pauses_devices(); }
  int cannot_keep_newest() const { return recorder_.cannot_keep_newest(); }

 private:
  CallRecorder(Recorder& recorder, Stacks what, StackTree* stacks, NativeFrames* native, BackwardLines* backward,
               CallerNames* callers)
      : recorder_(recorder), what_(what), stacks_(stacks), native_(native), backward_(backward), callers_(callers) {
    for (size_t i = 0; i < kHookCount; ++i) roles_[i] = RoleOf(NameOf(static_cast<HookId>(i)));
  }

  void StepBegins(uint64_t number);
  bool NamesSteps() const;

  Caller FindCaller();
  uint32_t NativeStack() const;
  void RecordBlock(HookId id, uint64_t start_ns, uint64_t end_ns, const CallDetail& detail, uint64_t stream,
                   const Caller& caller);
  // After a call that succeeded, until the file has the process's devices.
  void DescribeDevices();

  Recorder& recorder_;
  const Stacks what_;
  StackTree* const stacks_;             // null: records have a line at most
  NativeFrames* const native_;          // null: records have no native stack
  BackwardLines* const backward_;       // null: threads of autograd's have no line
  CallerNames* const callers_;          // null: blocks have no library
  std::atomic<bool> has_sites_{false};  // the recorder knows where lines are described
  std::atomic<bool> devices_described_{false};
  std::atomic<uint64_t> successes_{0};  // until then
  std::atomic<bool> asking_{false};
  MemorySampler pace_;
  std::atomic<const ProgramRanges*> ranges_{nullptr};
  LineSteps line_steps_;
  std::array<StepRole, kHookCount> roles_{};
};

}  // namespace slipstream::tracer
