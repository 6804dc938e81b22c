// tracer/: what slipstream records of a process. This depth: calls, errors, bytes and host time of every hooked
// function, what the engines decided, and NVTX ranges; readable while the process runs and after it died in any way.
//
// Uses policy/ and the CUDA headers; is used by shim/ (writing) and tools/ (reading). Start reading here, then span.h
// for the path of one call, counter_layout.h for what is on disk.
//
// Threading: Start once, NameDecisions once; the rest from any thread, lock-free.
// Hazard: everything reached from Span runs inside the user's CUDA calls: no lock, no allocation, no log line there.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "policy/policy.h"
#include "tracer/counter_file.h"
#include "tracer/hook_id.h"

namespace slipstream::tracer {

class NvtxDomain;

// What a call moved; filled in by the hook's row in shim/hooks.def.
struct CallDetail {
  uint64_t bytes = 0;
  int copy_kind = -1;  // a cudaMemcpyKind, or -1: not a copy
};

// What is to be recorded, as bits: 0 means that a hook may go straight to the real function.
enum Recording : uint32_t { kRecordNothing = 0, kRecordCalls = 1, kRecordTime = 2, kRecordNvtx = 4 };

class Tracer {
 public:
  // Sets up what the policy asks for. Counters need `run_directory` (empty: there is no `slipstream run` to read them).
  // Failures leave that part off and add a line to *problem. The tracer is leaked on purpose: threads may record until
  // the process is gone.
  static Tracer* Start(const policy::Tracer& policy, const std::string& run_directory, const ProcessIdentity& identity,
                       std::string* problem);

  uint32_t recording() const { return recording_; }
  NvtxDomain* nvtx() const { return nvtx_; }

  // Counts one finished call on the calling thread.
  void Count(HookId id, const CallDetail& detail, bool failed, uint64_t time_ns);

  // Facts for the summary; nothing without a counter file.
  void AddFact(std::string_view key, std::string_view value);
  void SetBound(HookId id, bool bound);
  // What an engine decides, by name. Once, before any count; more than kMaxDecisions are left out.
  void NameDecisions(std::span<const char* const> names);
  // Counts one decision for the whole process. Lock-free; nothing without a counter file.
  void CountDecision(size_t index, uint64_t bytes, uint64_t time_ns);
  // What the pool of a device holds now. Lock-free; nothing without a counter file.
  void RecordMemory(const MemoryFigures& figures);
  bool has_counter_file() const { return file_ != nullptr; }

 private:
  Tracer() = default;

  ThreadBlock* BlockOfThisThread();

  uint32_t recording_ = kRecordNothing;
  NvtxDomain* nvtx_ = nullptr;
  CounterFile* file_ = nullptr;
  pthread_key_t release_key_ = 0;
  bool has_release_key_ = false;
};

}  // namespace slipstream::tracer
