// The few words that every hooked call reads first.
//
// Threading: read from any thread at any time; written by the thread that builds the Runtime and by the one that finds
//   another libcudart. No lock anywhere.
// Fork (S51): the words live alone in a page that the kernel empties in a forked child, however it was forked (fork,
//   clone without shared memory), so the child sees "nothing built" with no call to getpid on the way. Where the kernel
//   cannot do that (before Linux 4.14, or pages larger than 4 KiB) pthread_atfork does it for fork alone.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "cuda/sharded.h"

namespace slipstream::shim {

struct RuntimeLibrary;

enum class GateState : uint32_t {
  kUnbuilt = 0,  // no hooked call yet, or a forked child: must be what a zeroed page says
  kBuilding,
  kReady,
};

// Which of the driver's functions are seen, as the policy says. Known before anything is built: it decides which
// addresses are handed out.
enum class DriverLevel : uint32_t {
  kUnknown = 0,
  kPassing,      // none: they are called straight
  kWatched,      // those that matter to the engines (IsWatched), by them alone
  kIntercepted,  // all, as the runtime's are
};

struct Gate {
  // The only libcudart of the process, or null: not built yet, or there are several and the caller decides (S57).
  std::atomic<const RuntimeLibrary*> library;
  // tracer::Recording bits; 0: straight to the real function.
  std::atomic<uint32_t> recording;
  std::atomic<GateState> state;
  std::atomic<DriverLevel> driver_level;
  // Of the driver's hooks, those that are watched and the others. Straight: nothing to do but the call, now and later;
  // true only once that is known.
  std::atomic<bool> watched_straight;
  std::atomic<bool> driver_straight;
};

// How many threads are inside calls around which an engine may stand, by shards of the threads: exit() waits for them
// to be through (S75).
struct alignas(128) CallsInside {  // processors fetch lines in pairs
  std::atomic<int32_t> count;
};

inline constexpr unsigned kGatePageBytes = 4096;
inline constexpr size_t kInsideShards = 16;

struct alignas(kGatePageBytes) GatePage {
  Gate gate;
  CallsInside inside[kInsideShards];
};
static_assert(sizeof(GatePage) == kGatePageBytes);

[[gnu::visibility("hidden")]] extern GatePage g_gate_page;  // hidden: reached without the GOT

// The hooked call that the thread is inside of, one that is more than passed on.
struct CallHere {
  const void* frame = nullptr;  // null: none
  uint32_t returns_to = 0;      // the lower half of the address that is in that frame
  int8_t cancel_state = -1;     // the caller's, where the call has changed it
  bool counted = false;         // among the calls inside
  uint16_t passed_on = 0;       // calls inside of it
};
[[gnu::visibility("hidden")]] extern constinit thread_local CallHere t_call;
// The thread leaves the innermost one by something else than a return. With the outermost it is as it was before it.
void LeaveCall();

inline Gate& TheGate() { return g_gate_page.gate; }

// Of the thread's outermost call, before its route is looked up: the thread finds either that the engines are off, or
// that it is waited for.
inline CallsInside& InsideOfThread() { return g_gate_page.inside[cuda::ThreadNumber() % kInsideShards]; }
inline void CountInside() {
  InsideOfThread().count.fetch_add(1, std::memory_order_seq_cst);
  t_call.counted = true;
}
inline void UncountInside() {
  if (!t_call.counted) return;
  t_call.counted = false;
  InsideOfThread().count.fetch_sub(1, std::memory_order_release);
}
// Other threads' calls. Of one that a thread has left by siglongjmp it says so until that thread's next one.
int OtherCallsInside();

// Asks the kernel, or failing that the C library, to empty the page in forked children. Once a process.
void EmptyGateInForkedChildren();

}  // namespace slipstream::shim
