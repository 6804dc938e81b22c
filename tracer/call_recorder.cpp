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
  uint64_t stream = 0;
  int64_t saved_ns = 0;
};
constinit thread_local CurrentCall t_call;

}  // namespace

CallRecorder* CallRecorder::Start(const RecorderOptions& options, bool with_lines, SpoolFailure* why) {
  Recorder* const recorder = Recorder::Start(options, why);
  if (recorder == nullptr) return nullptr;
  BackwardLines* const backward = with_lines ? BackwardLines::Create() : nullptr;
  auto* const calls = new (std::nothrow) CallRecorder(*recorder, with_lines, backward);
  if (calls == nullptr) {
    delete backward;
    *why = {SpoolProblem::kNoMemory, 0};
    delete recorder;
  }
  return calls;
}

// The writer has to know the sites before a record refers to one: also one that another thread saw.
CallRecorder::Line CallRecorder::LineOfCaller() {
  const int kept = errno;
  const CodeSites::Chosen chosen = ProgramSites::Place();
  Line line = {.site = chosen.site};
  if (line.site != CodeSites::kUnknown && !has_sites_.load(std::memory_order_acquire)) {
    recorder_.SetSites(ProgramSites::Sites());
    has_sites_.store(true, std::memory_order_release);
  }
  if (backward_ != nullptr) {
    const bool may_be_autograds = line.site == CodeSites::kUnknown || chosen.in_backward;
    if (may_be_autograds && IsAutogradThread()) {
      // Without a line of its own it is at work for the thread that waits. With one, as in a function of the program's
      // or where a checkpoint is computed anew, it is at that; and one that calls backward() again is itself inside it.
      if (line.site == CodeSites::kUnknown) line = {.site = backward_->Get(), .flags = kSiteIsBackward};
    } else {
      backward_->Set(chosen.in_backward ? line.site : 0);
    }
  }
  errno = kept;
  return line;
}

uint64_t CallRecorder::Begin(uint64_t stream) {
  t_call = {.open = recorder_.recording(), .stream = stream};
  if (t_call.open && with_lines_) {
    const Line line = LineOfCaller();
    t_call.site = line.site;
    t_call.flags = line.flags;
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
