// What NVTX looks for in the library that NVTX_INJECTION64_PATH names: `slipstream run` names this one there when the
// program's own ranges are to be recorded. It is no use of CUDA: nothing is built but what keeps names.
//
// A process may have the variable and not the preload, where somebody has cleared LD_PRELOAD in between. Then NVTX has
// loaded this library by itself, nothing will ever be recorded, and it is told to let go of it.

#include <string_view>

#include "policy/environment.h"
#include "tracer/ranges/nvtx_injection.h"

namespace slipstream::shim {
namespace {

bool IsPreloaded() {
  const char* const path = policy::EnvironmentValue("NVTX_INJECTION64_PATH");
  const char* const preload = policy::EnvironmentValue("LD_PRELOAD");
  if (path == nullptr || preload == nullptr) return false;
  std::string_view left = preload;
  while (!left.empty()) {
    const size_t end = left.find_first_of(": ");
    if (left.substr(0, end) == path) return true;
    left.remove_prefix(end == std::string_view::npos ? left.size() : end + 1);
  }
  return false;
}

}  // namespace
}  // namespace slipstream::shim

// NVTX's NvtxInitializeInjectionNvtxFunc_t; 0: no tool.
extern "C" [[gnu::visibility("default")]] int InitializeInjectionNvtx2(const void* (*get_table)(unsigned));

extern "C" int InitializeInjectionNvtx2(const void* (*get_table)(unsigned)) {
  return slipstream::shim::IsPreloaded() && slipstream::tracer::AttachToNvtx(get_table) ? 1 : 0;
}
