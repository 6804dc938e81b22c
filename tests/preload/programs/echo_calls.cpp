// Calls every function of the hook table once, with arguments whose every byte is known, and checks that the runtime
// was entered by the same name with the same bytes and that its result came back. Run bare it checks itself; run under
// the preload it checks all wrappers. Prints one line per wrong function and "N functions, M wrong" at the end; exit
// status 1 if M is not 0.

#define __CUDA_API_VERSION_INTERNAL
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>
#include <tuple>
#include <type_traits>

#include "tests/preload/programs/echo_runtime.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace {

int g_functions = 0;
int g_wrong = 0;

template <typename Result, typename... Arguments>
void Check(const char* name, Result (*function)(Arguments...)) {
  std::tuple<std::remove_cv_t<Arguments>...> values;
  unsigned char expected[1024];
  size_t size = 0;
  unsigned char next = static_cast<unsigned char>(17 * ++g_functions);
  [[maybe_unused]] const auto fill = [&](auto& value) {
    if constexpr (std::is_enum_v<std::remove_reference_t<decltype(value)>>) {
      value = static_cast<std::remove_reference_t<decltype(value)>>(1);  // any other bytes may be no value of the type
    } else {
      std::memset(static_cast<void*>(&value), next += 3, sizeof(value));
    }
    std::memcpy(expected + size, &value, sizeof(value));
    size += sizeof(value);
  };
  std::apply([&](auto&... value) { (fill(value), ...); }, values);
  const Result result = std::apply(function, values);
  const Echo& echo = *EchoLast();
  const char* problem = nullptr;
  if (echo.function == nullptr || std::strcmp(echo.function, name) != 0) {
    problem = "another function was entered";
  } else if (echo.size != size || std::memcmp(echo.bytes, expected, size) != 0) {
    problem = "the arguments differ";
  } else if constexpr (std::is_same_v<Result, cudaError_t>) {
    if (result != kEchoResult) problem = "the result differs";
  }
  if (problem != nullptr) {
    ++g_wrong;
    std::printf("%s: %s\n", name, problem);
  }
}

}  // namespace

extern "C" cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t);
extern "C" cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t);
extern "C" void** __cudaRegisterFatBinary(void*);

#define HOOK_WORDS(group, function, words, runtimes, detail) \
  extern "C" cudaError_t words_##function(ECHO_WORDS_##words(uintptr_t)) __asm__(#function);
#include "shim/hooks.def"

int main() {
#define HOOK(group, function, parameters, arguments, detail) Check(#function, &function);
#define HOOK_WORDS(group, function, words, runtimes, detail) Check(#function, &words_##function);
#define HOOK_CUSTOM(group, function, runtimes) Check(#function, &function);
#include "shim/hooks.def"
  std::printf("%d functions, %d wrong\n", g_functions, g_wrong);
  return g_wrong == 0 ? 0 : 1;
}
