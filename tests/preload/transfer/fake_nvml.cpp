// libnvidia-ml.so.1 as far as it is asked whether the machine computes confidentially.
#include <cstdlib>
#include <cstring>

#pragma GCC visibility push(default)
extern "C" {
struct FakeConfComputeState {
  unsigned environment;
  unsigned cc_feature;
  unsigned dev_tools_mode;
};
int nvmlInit_v2() { return 0; }
int nvmlInitWithFlags(unsigned) { return 0; }
int nvmlShutdown() { return 0; }
int nvmlSystemGetConfComputeState(FakeConfComputeState* state) {
  const char* const text = std::getenv("FAKE_NVML_CONFIDENTIAL");
  *state = {};
  state->cc_feature = text != nullptr && std::strcmp(text, "1") == 0 ? 1 : 0;
  return 0;
}
}
