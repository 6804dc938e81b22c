#include "tracer/call_recorder.h"

#include <cerrno>
#include <new>

#include "tracer/clock.h"
#include "tracer/program_sites.h"
#include "tracer/trace_record.h"

namespace slipstream::tracer {
namespace {

struct CurrentCall {
  bool open = false;
  CallShare share = CallShare::kBeside;  // of the decision
  uint8_t flags = 0;                     // of the record
  uint16_t decision = 0;
  uint32_t site = 0;
  uint32_t stack = 0;
  uint64_t stream = 0;
  int64_t saved_ns = 0;
};
constinit thread_local CurrentCall t_call;

}  // namespace

CallRecorder* CallRecorder::Start(RecorderOptions options, Python python, SpoolFailure* why) {
  StackTree* const stacks = python == Python::kStack ? StackTree::Create({}) : nullptr;
  options.stacks = stacks;
  Recorder* const recorder = Recorder::Start(options, why);
  if (recorder == nullptr) {
    // The thread of one that took too long has it for as long as it takes (recorder.h).
    if (why->problem != SpoolProblem::kTooSlow) delete stacks;
    return nullptr;
  }
  BackwardLines* const backward = python != Python::kNothing ? BackwardLines::Create() : nullptr;
  auto* const calls = new (std::nothrow) CallRecorder(*recorder, python, stacks, backward);
  if (calls == nullptr) {
    *why = {SpoolProblem::kNoMemory, 0};
    delete backward;
    delete recorder;
    delete stacks;
  }
  return calls;
}

// The writer has to know the sites before a record refers to one: also one that another thread saw.
CallRecorder::Caller CallRecorder::FindCaller() {
  const int kept = errno;
  ProgramSites::PlaceAndStack at;
  if (stacks_ != nullptr) {
    at = ProgramSites::PlaceIn(stacks_);
  } else {
    at.place = ProgramSites::Place();
  }
  Caller caller = {.site = at.place.site, .stack = at.stack};
  const bool refers_to_sites = caller.site != CodeSites::kUnknown || caller.stack != StackTree::kNone;
  if (refers_to_sites && !has_sites_.load(std::memory_order_acquire)) {
    recorder_.SetSites(ProgramSites::Sites());
    has_sites_.store(true, std::memory_order_release);
  }
  if (backward_ != nullptr) {
    const bool may_be_autograds = caller.site == CodeSites::kUnknown || at.place.in_backward;
    if (may_be_autograds && IsAutogradThread()) {
      // Without a line of its own it is at work for the thread that waits. With one, as in a function of the program's
      // or where a checkpoint is computed anew, it is at that; and one that calls backward() again is itself inside it.
      if (caller.site == CodeSites::kUnknown) {
        caller.site = backward_->Get();
        caller.flags = kSiteIsBackward;
      }
    } else {
      backward_->Set(at.place.in_backward ? caller.site : 0);
    }
  }
  errno = kept;
  return caller;
}

uint64_t CallRecorder::Begin(uint64_t stream) {
  t_call = {.open = recorder_.recording(), .stream = stream};
  if (t_call.open && python_ != Python::kNothing) {
    const Caller caller = FindCaller();
    t_call.site = caller.site;
    t_call.stack = caller.stack;
    t_call.flags = caller.flags;
  }
  return NowNs();
}

void CallRecorder::End(HookId id, uint64_t start_ns, uint64_t end_ns, uint64_t bytes, int32_t status) {
  CurrentCall& call = t_call;
  if (!call.open) return;
  call.open = false;
  recorder_.Record({.start_ns = start_ns,
                    .end_ns = end_ns,
                    .bytes = bytes,
                    .stream = call.stream,
                    .saved_ns = call.saved_ns,
                    .stack = call.stack,
                    .site = call.site,
                    .status = status,
                    .hook = static_cast<uint16_t>(id),
                    .decision = call.decision,
                    .kind = RecordKind::kCall,
                    .flags = call.flags});
}

void CallRecorder::Decided(size_t index, CallShare share, uint64_t time_ns) {
  CurrentCall& call = t_call;
  if (!call.open) return;
  if (share == CallShare::kWaited) call.saved_ns -= static_cast<int64_t>(time_ns);
  if (call.decision != 0 && share < call.share) return;
  call.decision = static_cast<uint16_t>(index + 1);
  call.share = share;
}

void CallRecorder::Memory(const MemoryFigures& figures) {
  if (!recorder_.recording()) return;
  const uint64_t now = NowNs();
  if (pace_.Passes(figures, now)) recorder_.Record(MemoryRecord(now, figures));
}

}  // namespace slipstream::tracer
