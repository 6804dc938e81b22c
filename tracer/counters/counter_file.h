// The writing side of a counter file (counter_layout.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "tracer/base/counted.h"
#include "tracer/base/memory_figures.h"
#include "tracer/counters/counter_layout.h"

namespace slipstream::tracer {

struct ProcessIdentity {
  int32_t rank = -1;
  int32_t local_rank = -1;
};

// Threading: Create once; SetBound under the caller's own order (the shim calls it while it builds its Runtime),
//   NameDecisions once, before any decision is counted; AddFact from any thread, under a lock; Claim and Release from
//   any thread, lock-free.
// Ownership: the mapping is never unmapped: threads count into it until the last instruction of the process.
class CounterFile {
 public:
  // Makes, allocates and maps the file: 0600, O_EXCL, never through a symbolic link, and only in a directory of the
  // user's own that not everybody may write (S59). The descriptor is
  // closed again, so that a program that closes every descriptor cannot make us write elsewhere. Returns null
  // and fills *error on failure; the reason is then left in the directory, where that can be written
  // (kUncountedSuffix).
  static CounterFile* Create(const std::string& directory, uint32_t max_threads, const ProcessIdentity& identity,
                             std::string* error);

  // Appends "key=value". Dropped whole when it does not fit. Newlines in the value become spaces.
  void AddFact(std::string_view key, std::string_view value);
  void SetBound(HookId id, bool bound);

  // Through which other processes ask for the recording to be paused. Stays for good.
  RecordControl* record_control() { return &header_->record; }

  // Names the rows that decisions are counted in, by position. Those after the first kMaxDecisions are left out; a name
  // that is too long is cut. Once: a second call does nothing.
  void NameDecisions(std::span<const char* const> names);
  // How many have a name: a decision without one is not counted.
  size_t decision_count() const { return decision_count_; }

  // The sums over all threads. From any thread, while others count: whatever a thread did before it counted what is in
  // a sum has happened for the caller too. Throws where there is no memory.
  CounterTotals Totals() const;

  // Adds a sample of now; the oldest one makes room. From any thread, lock-free.
  void RecordMemory(const MemoryFigures& figures);

  // A block for the calling thread alone, or block 0 (shared) when none is free.
  ThreadBlock* Claim(uint32_t thread_id);
  void Release(ThreadBlock* block);
  bool IsShared(const ThreadBlock* block) const { return block == &threads_[0]; }

 private:
  static CounterFile* Make(const std::string& directory, const std::string& name, uint64_t start, uint32_t max_threads,
                           const ProcessIdentity& identity, std::string* error);

  CounterFile(char* base, uint32_t thread_count);

  FileHeader* header_;
  NameEntry* names_;
  std::mutex facts_mutex_;
  char* facts_;
  DecisionEntry* decisions_;
  MemorySample* samples_;
  std::atomic<uint64_t> next_sample_{1};
  ThreadBlock* threads_;
  uint32_t thread_count_;
  size_t decision_count_ = 0;  // not the file's: whoever can write the file must not decide where we write
};

}  // namespace slipstream::tracer
