// A library that calls CUDA while it is loaded, and when it is asked to.

#include <cuda_runtime_api.h>

namespace plugin {

volatile int g_left = 0;

[[gnu::noinline]] void AtLoading() {
  cudaPeekAtLastError();
  g_left = g_left + 1;
}
[[gnu::constructor]] void Begin() {
  AtLoading();
  g_left = g_left + 1;
}

}  // namespace plugin

extern "C" [[gnu::visibility("default")]] int PluginCall() {
  const int status = cudaPeekAtLastError();
  plugin::g_left = plugin::g_left + 1;
  return status;
}
