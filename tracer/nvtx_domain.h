// NVTX ranges around hooked calls: domain "slipstream", a category a kind of call, one registered string a
// function, and the bytes of the call in the payload. (NVTX 3 documentation: domains, categories,
// registered strings, event attributes.)
//
// Threading: Open once; Push and Pop from any thread, nested as the calls are.
// Hazard: Open makes NVTX load the tool named by NVTX_INJECTION64_PATH, whose initialiser may call CUDA: the hooks must
//   pass through on this thread meanwhile (the reentrancy guard sees to it).
#pragma once

#include <array>
#include <cstdint>

#include "tracer/hook_id.h"

struct nvtxDomainRegistration_st;
struct nvtxStringRegistration_st;

namespace slipstream::tracer {

class NvtxDomain {
 public:
  // Returns null when no tool is attached: then nothing of NVTX is on the path of a call. Leaked on purpose.
  static NvtxDomain* Open();

  // `bytes` is what the call moves or allocates; 0 is written as such.
  void Push(HookId id, uint64_t bytes) const;
  void Pop() const;

 private:
  explicit NvtxDomain(nvtxDomainRegistration_st* domain);

  nvtxDomainRegistration_st* domain_;
  std::array<nvtxStringRegistration_st*, kHookCount> names_;
  std::array<uint32_t, kHookCount> categories_;
};

}  // namespace slipstream::tracer
