// Which executable graphs touch nothing that the host can see, and which take memory of their own: looked at when they
// are made (S10, S70).
//
// A graph of kernels, device copies, device memsets and events is harmless; one with a copy to or from host memory, a
// host function, a semaphore, a memory operation or a kind of node that is not known here is not, and neither is one
// that was never looked at.
// Threading: any thread. Inspecting calls the driver's graph functions, with no lock held.
#pragma once

#include <atomic>
#include <mutex>
#include <unordered_set>

#include "cuda/driver.h"

namespace slipstream::cuda {

// Whether no node of the graph, child graphs included, has an effect that the host can see.
bool HasNoHostEffects(const Driver& driver, CUgraph graph);

class GraphWatch {
 public:
  void Instantiated(const Driver& driver, CUgraphExec executable, CUgraph graph);
  // Changed in a way that was not looked at, or destroyed.
  void Forget(CUgraphExec executable);
  bool IsHarmless(CUgraphExec executable);
  // Whether it has nodes that allocate: the driver takes that memory at an upload or a launch.
  bool OwnsMemory(CUgraphExec executable);

 private:
  std::mutex mutex_;
  std::unordered_set<CUgraphExec> harmless_;
  std::unordered_set<CUgraphExec> with_memory_;
  std::atomic<bool> any_with_memory_{false};  // ever
};

}  // namespace slipstream::cuda
