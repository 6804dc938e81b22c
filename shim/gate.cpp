#include "shim/gate.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

namespace slipstream::shim {
namespace {

void EmptyGate() {
  Gate& gate = TheGate();
  gate.library.store(nullptr, std::memory_order_relaxed);
  gate.recording.store(0, std::memory_order_relaxed);
  gate.state.store(GateState::kUnbuilt, std::memory_order_relaxed);
  gate.driver_level.store(DriverLevel::kUnknown, std::memory_order_relaxed);
  gate.watched_straight.store(false, std::memory_order_relaxed);
  gate.driver_straight.store(false, std::memory_order_relaxed);
  for (CallsInside& inside : g_gate_page.inside) inside.count.store(0, std::memory_order_relaxed);
}

}  // namespace

constinit GatePage g_gate_page{};

int OtherCallsInside() {
  int count = t_call.counted ? -1 : 0;
  for (const CallsInside& inside : g_gate_page.inside) count += inside.count.load(std::memory_order_acquire);
  return count;
}

void EmptyGateInForkedChildren() {
  const bool whole_page = sysconf(_SC_PAGESIZE) == static_cast<long>(kGatePageBytes);
  if (whole_page && madvise(&g_gate_page, sizeof(g_gate_page), MADV_WIPEONFORK) == 0) return;
  pthread_atfork(nullptr, nullptr, EmptyGate);
}

}  // namespace slipstream::shim
