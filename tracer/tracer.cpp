#include "tracer/tracer.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <new>
#include <optional>

#include "policy/log.h"
#include "policy/record_window.h"
#include "tracer/base/call_clock.h"
#include "tracer/base/clock.h"
#include "tracer/device/device_tracer.h"
#include "tracer/ranges/nvtx_domain.h"
#include "tracer/ranges/nvtx_injection.h"

namespace slipstream::tracer {
namespace {

// The calling thread's block.
constinit thread_local ThreadBlock* t_block = nullptr;

CounterFile* g_file = nullptr;  // for the thread-exit handler, which gets one pointer only

void ReleaseBlock(void* block) {
  t_block = nullptr;  // a later destructor of this thread that calls CUDA claims a block anew
  g_file->Release(static_cast<ThreadBlock*>(block));
}

// One owner: load and store are enough, and cheaper than a locked add.
void AddOwned(std::atomic<uint64_t>& counter, uint64_t value) {
  counter.store(counter.load(std::memory_order_relaxed) + value, std::memory_order_release);
}

void AddShared(std::atomic<uint64_t>& counter, uint64_t value) { counter.fetch_add(value, std::memory_order_release); }

template <void (*Add)(std::atomic<uint64_t>&, uint64_t)>
void AddCall(ThreadBlock& block, HookId id, const CallDetail& detail, bool failed, uint64_t time_ns) {
  CallCounter& counter = block.hooks[Index(id)];
  Add(counter.calls, 1);
  if (time_ns != 0) Add(counter.time_ns, time_ns);
  if (failed) {
    Add(counter.errors, 1);
    return;
  }
  if (detail.bytes != 0) Add(counter.bytes, detail.bytes);
  if (detail.copy_kind >= 0 && static_cast<size_t>(detail.copy_kind) < kCopyKinds) {
    CopyCounter& copy = block.copies[detail.copy_kind];
    Add(copy.calls, 1);
    Add(copy.bytes, detail.bytes);
  }
}

template <void (*Add)(std::atomic<uint64_t>&, uint64_t)>
void AddDecision(DecisionCounter& counter, uint64_t bytes, uint64_t time_ns) {
  Add(counter.count, 1);
  if (bytes != 0) Add(counter.bytes, bytes);
  if (time_ns != 0) Add(counter.time_ns, time_ns);
}

CallRecorder::Stacks StacksOf(policy::Stacks stacks) {
  switch (stacks) {
    case policy::Stacks::kNone:
      return CallRecorder::Stacks::kNone;
    case policy::Stacks::kLine:
      return CallRecorder::Stacks::kLine;
    case policy::Stacks::kPython:
      break;
    case policy::Stacks::kFull:
      return CallRecorder::Stacks::kFull;
  }
  return CallRecorder::Stacks::kPython;
}

}  // namespace

Tracer* Tracer::Start(const policy::Tracer& policy, const std::string& run_directory, const ProcessIdentity& identity,
                      std::string* problem) {
  auto* tracer = new (std::nothrow) Tracer();
  if (tracer == nullptr) {
    *problem = "out of memory";
    return nullptr;
  }
  if (policy.counters != policy::Counters::kOff && !run_directory.empty()) {
    tracer->file_ = CounterFile::Create(run_directory, static_cast<uint32_t>(policy.max_threads), identity, problem);
    if (tracer->file_ != nullptr) {
      g_file = tracer->file_;
      tracer->has_release_key_ = pthread_key_create(&tracer->release_key_, ReleaseBlock) == 0;
      tracer->recording_ |= kRecordCalls;
      if (policy.counters == policy::Counters::kTime) {
        g_call_clock.Start(TimeStampCounterIsAClock());
        tracer->recording_ |= kRecordTime;
      }
    }
  }
  if (policy.nvtx) {
    tracer->nvtx_ = NvtxDomain::Open();
    if (tracer->nvtx_ != nullptr) tracer->recording_ |= kRecordNvtx;
  }
  return tracer;
}

bool Tracer::StartTrace(const policy::Tracer& policy, const std::string& run_directory, const TraceFacts& facts,
                        std::string* problem) {
  if (policy.record == policy::Record::kOff) return false;
  if (run_directory.empty()) {
    *problem = "there is no `slipstream run` to keep it";
    return false;
  }
  RecorderOptions options = {.directory = run_directory, .job = facts.job, .facts = facts.facts};
  options.counters = file_;
  options.max_file_bytes = policy.max_file;
  options.keep_newest = policy.keep == policy::Keep::kNewest;
  const std::optional<policy::RecordWindow> window = policy::RecordWindow::Parse(policy.window);
  if (!window) {
    *problem = "tracer.window is no window";
    return false;
  }
  const bool of_steps = window->unit() == policy::RecordWindow::Unit::kSteps;
  const bool has_lines = policy.stacks != policy::Stacks::kNone;
  if (of_steps && !policy.ranges && !has_lines) {
    *problem = "tracer.window has steps, which are seen by tracer.ranges, or by lines of Python (tracer.stacks)";
    return false;
  }
  if (policy.record == policy::Record::kPaused && file_ == nullptr) {
    *problem = "tracer.record is \"paused\", and without tracer.counters nobody can turn it on";
    return false;
  }
  options.samples_tasks = true;
  options.turned_off = policy.record == policy::Record::kPaused;
  options.control = file_ != nullptr ? file_->record_control() : nullptr;
  options.window = *window;
  if (!policy.window.empty()) options.facts.emplace_back(kFactWindow, policy.window);
  if (policy.command_line) options.facts.emplace_back(kFactCommandLine, CommandLine());
  options.decisions.assign(facts.decisions.begin(), facts.decisions.end());
  SpoolFailure why;
  trace_ = CallRecorder::Start(options, StacksOf(policy.stacks), &why);
  if (trace_ == nullptr) {
    *problem = NameOf(why.problem);
    if (why.error != 0) *problem += std::string(": ") + std::strerror(why.error);
    return false;
  }
  if (const int error = trace_->cannot_keep_newest(); error != 0) {
    const std::string what = std::string("the oldest records cannot make room: ") + std::strerror(error);
    AddFact("trace_keep", what);
    policy::LogWarn("tracer.keep: " + what + "; the recording ends at tracer.max_file");
  }
  recording_ |= kRecordTrace;
  trace_->BindPause(&recording_, kRecordTrace);
  ProgramRanges* const ranges = policy.ranges ? MakeProgramRanges() : nullptr;
  if (ranges != nullptr) trace_->Record(ranges);
  if (of_steps && has_lines) recording_ |= kRecordSteps;
  return true;
}

bool Tracer::StartDevice(const policy::Tracer& policy, const TraceFacts& facts, std::string* problem) {
  if (trace_ == nullptr || policy.device == policy::DeviceWork::kOff) return false;
  if (!facts.other_profiler.empty()) {
    *problem = facts.other_profiler;
    return false;
  }
  constexpr uint64_t kSecondNs = 1'000'000'000;
  const DeviceWindow window = {.after_ns = static_cast<uint64_t>(policy.device_after) * kSecondNs,
                               .for_ns = static_cast<uint64_t>(policy.device_for) * kSecondNs};
  device_ = DeviceTracer::Start(trace_, window, facts.runtime, problem);
  return device_ != nullptr;
}

// A device that does not answer must not keep a process that wants to end.
void Tracer::FinishDevice() {
  constexpr uint64_t kPatienceNs = 1'000'000'000;
  if (device_ != nullptr) device_->Finish(kPatienceNs);
}

// Recorded before it is counted, as decisions are: the trace has all that the counters had when the recording ended.
void Tracer::EndCall(HookId id, const CallDetail& detail, bool failed, int32_t status, uint64_t start_ns) {
  const uint64_t end_ns = NowNs();
  trace_->End(id, start_ns, end_ns, detail, status);
  if (recording() & kRecordCalls) Count(id, detail, failed, recording() & kRecordTime ? end_ns - start_ns : 0);
}

void Tracer::FinishTrace() {
  constexpr uint64_t kPatienceNs = 200'000'000;
  if (trace_ != nullptr) trace_->Finish(kPatienceNs);
}

ThreadBlock* Tracer::BlockOfThisThread() {
  if (t_block != nullptr) [[likely]]
    return t_block;
  t_block = file_->Claim(static_cast<uint32_t>(syscall(SYS_gettid)));
  // pthread_setspecific may allocate for keys above the first 32: once a thread, never again.
  if (has_release_key_ && !file_->IsShared(t_block)) pthread_setspecific(release_key_, t_block);
  return t_block;
}

void Tracer::Count(HookId id, const CallDetail& detail, bool failed, uint64_t time_ns) {
  ThreadBlock* block = BlockOfThisThread();
  if (file_->IsShared(block)) {
    AddCall<AddShared>(*block, id, detail, failed, time_ns);
  } else {
    AddCall<AddOwned>(*block, id, detail, failed, time_ns);
  }
}

void Tracer::AddFact(std::string_view key, std::string_view value) {
  if (file_ != nullptr) file_->AddFact(key, value);
}

void Tracer::AddLateFact(const char* key, const char* value) {
  AddFact(key, value);
  if (trace_ != nullptr) trace_->Say({{key, value}});
}

void Tracer::NameDecisions(std::span<const char* const> names) {
  if (file_ != nullptr) file_->NameDecisions(names);
  if (nvtx_ != nullptr) nvtx_->NameDecisions(names);
}

void Tracer::RecordMemory(const MemoryFigures& figures) {
  if (file_ != nullptr) file_->RecordMemory(figures);
  if (trace_ != nullptr) trace_->Memory(figures);
}

bool Tracer::WantsDeviceUse(int32_t device) { return trace_ != nullptr && trace_->WantsDeviceUse(device); }

void Tracer::CountDecision(size_t index, uint64_t bytes, uint64_t time_ns, CallShare share, uint64_t contents) {
  if (trace_ != nullptr) trace_->Decided(index, share, bytes, time_ns, contents);
  if (file_ != nullptr && index < file_->decision_count()) {
    ThreadBlock* const block = BlockOfThisThread();
    DecisionCounter& counter = block->decisions[index];
    if (file_->IsShared(block)) {
      AddDecision<AddShared>(counter, bytes, time_ns);
    } else {
      AddDecision<AddOwned>(counter, bytes, time_ns);
    }
  }
  if (nvtx_ != nullptr) NvtxDomain::Note(index, bytes);
}

void Tracer::SetBound(HookId id, bool bound) {
  if (file_ != nullptr) file_->SetBound(id, bound);
}

}  // namespace slipstream::tracer
