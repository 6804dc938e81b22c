// tracer/ records a process: calls, errors, bytes and host time of every hooked function, what the engines decided,
// NVTX ranges, and, if the policy asks for it, a trace with every single call. All can be read while the process runs
// and after any end of it.
//
// It uses policy/ and the CUDA headers. shim/ uses it to write, tools/ to read. Start reading here, then span.h for the
// path of one call, counter_layout.h and spool_format.h for what is on disk.
//
// Threading: Start once, NameDecisions once, StartTrace at most once, before any call; the rest from any thread,
//   lock-free.
// Hazard: everything reached from Span runs inside the user's CUDA calls: no lock, no allocation, no log line there.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "policy/policy.h"
#include "tracer/base/call_detail.h"
#include "tracer/base/hook_id.h"
#include "tracer/calls/call_recorder.h"
#include "tracer/counters/counter_file.h"
#include "tracer/spool/job_identity.h"
#include "tracer/spool/process_facts.h"

namespace slipstream::tracer {

class DeviceTracer;
class NvtxDomain;

// What is to be recorded, as bits: 0 means that a hook may go straight to the real function.
enum Recording : uint32_t {
  kRecordNothing = 0,
  kRecordCalls = 1,
  kRecordTime = 2,
  kRecordNvtx = 4,
  kRecordTrace = 8,
  kRecordSteps = 16,  // a step may begin with any call, and the trace with it
};

// What goes into a process's trace beside its calls.
struct TraceFacts {
  JobIdentity job;
  Facts facts;
  std::span<const char* const> decisions;  // by the index that CountDecision has
  std::string runtime = {};                // path of the process's libcudart
  std::string other_profiler = {};         // why CUPTI is left alone; empty: it need not be
};

class Tracer {
 public:
  // Sets up what the policy asks for. Counters need `run_directory` (empty: there is no `slipstream run` to read them).
  // A part that fails stays off and adds a line to *problem. The tracer is leaked on purpose: threads may record until
  // the process is gone.
  static Tracer* Start(const policy::Tracer& policy, const std::string& run_directory, const ProcessIdentity& identity,
                       std::string* problem);

  // Begins the trace that the policy asks for, in the run's directory. False: there is no trace, and *problem says why;
  // if the policy asks for none, *problem stays as it was.
  bool StartTrace(const policy::Tracer& policy, const std::string& run_directory, const TraceFacts& facts,
                  std::string* problem);

  uint32_t recording() const { return recording_.load(std::memory_order_relaxed); }
  // That, and what is only paused: what hooks must not go past.
  uint32_t may_record() const { return recording() | (trace_ != nullptr ? kRecordTrace : kRecordNothing); }
  NvtxDomain* nvtx() const { return nvtx_; }
  // The process is exiting, and the attached tool with it: no range is opened any more. Open ranges still end. Tools do
  // not survive their own exit handlers (Nsight Compute's injection library faults), and libraries' destructors call
  // the driver after those.
  void StopNvtx() { recording_.fetch_and(~kRecordNvtx, std::memory_order_relaxed); }

  // Counts one finished call on the calling thread.
  void Count(HookId id, const CallDetail& detail, bool failed, uint64_t time_ns);

  // With kRecordSteps, around each call. BeforeCall returns recording() as it is behind it.
  uint32_t BeforeCall(HookId id) {
    trace_->BeforeCall(id);
    return recording();
  }
  void AfterCall(HookId id, const CallDetail& detail, bool failed) { trace_->AfterCall(id, detail, failed); }

  // One call of the trace (kRecordTrace), on the calling thread: Begin returns its start; End counts it too, if calls
  // are counted. `status` is what the call returned.
  uint64_t BeginCall(uint64_t stream) { return trace_->Begin(stream); }
  void EndCall(HookId id, const CallDetail& detail, bool failed, int32_t status, uint64_t start_ns);

  // Begins to record what the devices do, where the policy asks for it and there is a trace; as StartTrace.
  bool StartDevice(const policy::Tracer& policy, const TraceFacts& facts, std::string* problem);
  // Before the program's libraries are taken down: nothing of the devices is recorded any more. Not in a forked child.
  void FinishDevice();

  // The process is exiting: when this returns, all records are in the file, or a while has passed. No CUDA call, no
  // lock (S53). Not in a forked child.
  void FinishTrace();

  // Facts for the summary; nothing without a counter file.
  void AddFact(std::string_view key, std::string_view value);
  // The same for the trace too, behind its start: in its file the last one of a key counts. Out of memory throws.
  void AddLateFact(const char* key, const char* value);
  void SetBound(HookId id, bool bound);
  // What an engine decides, by name. Once, before any count; more than kMaxDecisions are left out.
  void NameDecisions(std::span<const char* const> names);
  // Counts one decision on the calling thread, and notes it in the record and the NVTX range of the call that the
  // thread is in. Lock-free; nothing without a counter file, a trace or a tool. `contents`: a fingerprint of what the
  // copy carries, for the trace; 0: not known.
  void CountDecision(size_t index, uint64_t bytes, uint64_t time_ns, CallShare share, uint64_t contents = 0);
  // What the pool of a device holds now. Lock-free; nothing without a counter file or a trace.
  void RecordMemory(const MemoryFigures& figures);
  // CallRecorder::WantsDeviceUse; false: there is no trace.
  bool WantsDeviceUse(int32_t device);
  bool has_counter_file() const { return file_ != nullptr; }

 private:
  Tracer() = default;

  ThreadBlock* BlockOfThisThread();

  std::atomic<uint32_t> recording_ = kRecordNothing;
  NvtxDomain* nvtx_ = nullptr;
  CounterFile* file_ = nullptr;
  CallRecorder* trace_ = nullptr;
  DeviceTracer* device_ = nullptr;
  pthread_key_t release_key_ = 0;
  bool has_release_key_ = false;
};

}  // namespace slipstream::tracer
