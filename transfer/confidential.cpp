#include "transfer/confidential.h"

#include <dlfcn.h>

namespace slipstream::transfer {
namespace {

// nvmlConfComputeSystemState_t (NVML reference, confidential computing queries).
struct SystemState {
  unsigned environment = 0;
  unsigned feature = 0;  // not 0: on
  unsigned developer_tools = 0;
};

template <typename Function>
Function* Find(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

bool ConfidentialComputing() {
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return false;
  auto* const initialize = Find<int()>(library, "nvmlInit_v2");
  auto* const shut_down = Find<int()>(library, "nvmlShutdown");
  auto* const get_state = Find<int(SystemState*)>(library, "nvmlSystemGetConfComputeState");
  bool on = false;
  if (initialize != nullptr && shut_down != nullptr && get_state != nullptr && initialize() == 0) {
    SystemState state;
    on = get_state(&state) == 0 && state.feature != 0;
    shut_down();
  }
  dlclose(library);
  return on;
}

}  // namespace slipstream::transfer
