// NVTX ranges around hooked calls: domain "slipstream", a category a kind of call, one registered string a
// function, and the bytes of the call in the payload. What an engine decided about the call is a mark of category
// "decision" at the end of its range. (NVTX 3 documentation: domains, categories, registered strings, event
// attributes.)
//
// Threading: Open and NameDecisions once; Push, Note and Pop from any thread, one range of a thread at a time.
// Hazard: Open makes NVTX load the tool named by NVTX_INJECTION64_PATH, whose initializer may call CUDA: the hooks must
//   pass through on this thread meanwhile (the reentrancy guard sees to it). Engines decide with locks held, and a tool
//   may do anything, so it is told of a decision when the call is over.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tracer/base/hook_id.h"
#include "tracer/counters/counter_layout.h"

struct nvtxDomainRegistration_st;
struct nvtxStringRegistration_st;

namespace slipstream::tracer {

class NvtxDomain {
 public:
  // Returns null when no tool is attached: then nothing of NVTX is on the path of a call. Leaked on purpose.
  static NvtxDomain* Open();

  // Decisions of one call that become marks; further ones are left out.
  static constexpr size_t kMaxMarks = 32;

  // By the index that Note has: the names that counters and traces have. Before any Note.
  void NameDecisions(std::span<const char* const> names);

  // `bytes` is what the call moves or allocates; 0 is written as such.
  void Push(HookId id, uint64_t bytes) const;
  // A decision in the calling thread's range; on a thread that is in none this does nothing.
  static void Note(size_t decision, uint64_t bytes);
  void Pop() const;

 private:
  explicit NvtxDomain(nvtxDomainRegistration_st* domain);

  nvtxDomainRegistration_st* domain_;
  std::array<nvtxStringRegistration_st*, kHookCount> names_;
  std::array<uint32_t, kHookCount> categories_;
  std::array<nvtxStringRegistration_st*, kMaxDecisions> decisions_;
};

}  // namespace slipstream::tracer
