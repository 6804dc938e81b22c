// The counter file: what one process under `slipstream run` leaves behind, laid out for a shared mapping.
//
// One file a process in the run's directory, named "<pid>-<start>.counters". The process maps it and counts in place,
// so the numbers survive SIGKILL, _exit and exec without anything being done at exit (S58, S53). The whole file is
// allocated when it is made: a later full disk cannot turn a store into SIGBUS.
//
//   FileHeader                      fixed size; magic is written last, so a torn file is recognized
//   NameEntry[hook_count]           the writer's own table: a reader needs no table of its own
//   char facts[facts_bytes]         "key=value\n" lines, NUL-padded: runtimes bound, engines and why they stand aside
//   DecisionEntry[kMaxDecisions]    what an engine can decide; the first decision_count are named
//   MemorySample[kMemorySamples]    what the pool of a device held, over time; the newest take the place of the oldest
//   ThreadBlock[thread_count]       one per thread; block 0 is shared by the threads that found no free block
//
// All integers are in the byte order of the machine. Times are nanoseconds, sizes bytes.
// Threading: a ThreadBlock is written by the thread that owns it with loads and stores (no read-modify-write), block 0
//   with fetch_add, both releasing: what was recorded before it was counted has been recorded for whoever acquires the
//   counter. A sample is written by whoever took its number. Readers may read at any time.
// Hazard: plain offsets, no pointers; change kFormat with any change here.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tracer/base/hook_id.h"
#include "tracer/base/record_control.h"

namespace slipstream::tracer {

inline constexpr uint64_t kCounterMagic = 0x3152544e434c5353;  // "SSLCNTR1"
inline constexpr uint32_t kCounterFormat = 5;
inline constexpr uint32_t kNameBytes = 64;
inline constexpr uint32_t kFactsBytes = 8192;
inline constexpr uint32_t kMaxDecisions = 128;
inline constexpr uint32_t kMemorySamples = 2048;
inline constexpr char kCounterSuffix[] = ".counters";

// The suffix of a symbolic link in place of a file that could not be made. It leads to nothing, and its target is the
// reason. It takes no room, which the file system may not have.
inline constexpr char kUncountedSuffix[] = ".uncounted";
inline constexpr size_t kMostReasonBytes = 100;

// Directions of a copy, in the order of cudaMemcpyKind (CUDA Runtime API, data types).
inline constexpr size_t kCopyKinds = 5;
inline constexpr const char* kCopyKindNames[kCopyKinds] = {"host_to_host", "host_to_device", "device_to_host",
                                                           "device_to_device", "default"};

struct FileHeader {
  std::atomic<uint64_t> magic;
  uint32_t format;
  uint32_t hook_count;
  uint32_t thread_count;
  uint32_t name_bytes;
  uint32_t facts_bytes;
  uint32_t decision_bytes;
  uint32_t sample_bytes;
  uint32_t thread_block_bytes;
  int32_t pid;
  int32_t parent_pid;
  int32_t rank;        // of a distributed job, from the launcher's variables; -1: none
  int32_t local_rank;  // -1: none
  uint64_t start_unix_ns;
  uint64_t start_monotonic_ns;
  std::atomic<uint32_t> facts_used;
  std::atomic<uint32_t> decision_count;  // written after the names
  char executable[64];  // base name of the program, NUL-terminated; never its arguments, which may hold secrets
  RecordControl record;
};

struct NameEntry {
  char name[kNameBytes];       // NUL-terminated
  uint8_t group;               // HookGroup, for color only: group_name is what counts
  std::atomic<uint8_t> bound;  // 1: the loaded runtime has this function
  char group_name[30];
};

struct DecisionEntry {
  char name[kNameBytes];  // NUL-terminated, dotted: "transfer.h2d.promoted.small"
};

struct alignas(64) MemorySample {
  std::atomic<uint64_t> number;   // counted from 1, written last; 0: nothing here, or just being written
  std::atomic<uint64_t> time_ns;  // since start_monotonic_ns
  std::atomic<uint64_t> live_bytes;
  std::atomic<uint64_t> idle_bytes;
  std::atomic<uint64_t> parked_bytes;
  std::atomic<uint64_t> peak_idle_bytes;
  std::atomic<uint32_t> trims;
  std::atomic<uint32_t> retries;
  std::atomic<int32_t> device;
};

struct CallCounter {
  std::atomic<uint64_t> calls;
  std::atomic<uint64_t> errors;   // calls that returned anything but success; cudaErrorNotReady is not an error
  std::atomic<uint64_t> bytes;    // of successful calls
  std::atomic<uint64_t> time_ns;  // host time inside the call
};

struct CopyCounter {
  std::atomic<uint64_t> calls;
  std::atomic<uint64_t> bytes;
};

struct DecisionCounter {
  std::atomic<uint64_t> count;
  std::atomic<uint64_t> bytes;
  std::atomic<uint64_t> time_ns;
};

struct alignas(64) ThreadBlock {
  std::atomic<uint32_t> owner;  // thread id; 0: free, and its counts stand
  uint32_t reserved;
  CopyCounter copies[kCopyKinds];
  DecisionCounter decisions[kMaxDecisions];
  CallCounter hooks[kHookCount];
};

static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(sizeof(std::atomic<uint64_t>) == sizeof(uint64_t));

constexpr size_t RoundUp(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }
constexpr size_t NamesOffset() { return RoundUp(sizeof(FileHeader), 64); }
constexpr size_t FactsOffset(size_t hook_count) { return NamesOffset() + hook_count * sizeof(NameEntry); }
constexpr size_t DecisionsOffset(size_t hook_count) { return RoundUp(FactsOffset(hook_count) + kFactsBytes, 64); }
constexpr size_t MemoryOffset(size_t hook_count) {
  return DecisionsOffset(hook_count) + kMaxDecisions * sizeof(DecisionEntry);
}
constexpr size_t ThreadsOffset(size_t hook_count) {
  return MemoryOffset(hook_count) + kMemorySamples * sizeof(MemorySample);
}

}  // namespace slipstream::tracer
