// The exported functions, one a row of hooks.def. Entry points hold no logic: entry.h has the one path that
// all of them take.

#include "shim/entry.h"

#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>
#include <signal.h>

#include <iterator>
#include <string_view>

#include "cuda/own_work.h"

// Some hooked functions are deprecated; their callers are still out there.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

// Called by what nvcc makes of <<<>>> from CUDA 13 on; declared only in headers for that compiler
// (crt/device_functions.h).
extern "C" cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t);
extern "C" cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t);

#define SLIPSTREAM_EXPORT extern "C" [[gnu::visibility("default")]]

namespace slipstream::shim {

constinit thread_local CallHere t_call;

namespace {

// Stacks grow downwards: a call inside the other has its frame below that one's, which is still there with the address
// that it returns to. A handler's own stack may lie anywhere. The address may outlive its frame where another one's
// unused bytes come to lie upon it; a call that reads the program's memory, where most jumps come from, is known
// without it: it has nothing in its hands, and is not harmed by being left where the handler was only at work.
bool IsInside(const void* frame, const CallHere& call) {
  if (cuda::MayFault::Here()) return false;
  stack_t stack = {};
  if (frame >= call.frame) return sigaltstack(nullptr, &stack) != 0 || (stack.ss_flags & SS_ONSTACK) != 0;
  return ReturnsTo(call.frame) == call.returns_to;
}

}  // namespace

bool IsInsideAnother(const void* frame) {
  if (IsInside(frame, t_call)) return true;
  t_call.passed_on = 0;
  LeaveCall();
  return false;
}

void LeaveCall() {
  if (t_call.passed_on != 0) {
    --t_call.passed_on;
    return;
  }
  if (t_call.cancel_state >= 0) pthread_setcancelstate(t_call.cancel_state, nullptr);
  UncountInside();
  t_call = {};
  cuda::OwnWork::Forget();
  cuda::MayFault::Forget();
}

namespace {

// A header macro that renames a function (as cuda.h does with cuMemAlloc) would make its row hook another symbol. The
// names on the left went through the CUDA headers' macros, those on the right were made without any CUDA header.
#define SLIPSTREAM_STRING(text) SLIPSTREAM_STRING_AS_IS(text)
#define SLIPSTREAM_STRING_AS_IS(text) #text
constexpr std::string_view kNamesAfterHeaders[] = {
#define HOOK_NAME(group, function) SLIPSTREAM_STRING(function),
#define HOOK_DRIVER_NAME(group, function, name) SLIPSTREAM_STRING(function),
#include "shim/hooks.def"
};
constexpr std::string_view kNamesOfTable[] = {
#define SLIPSTREAM_HOOK(group, function) #function,
#define SLIPSTREAM_DRIVER_HOOK(group, function, name) #function,
#include "generated/hook_names.inc"
#undef SLIPSTREAM_HOOK
#undef SLIPSTREAM_DRIVER_HOOK
};

constexpr bool SameNames() {
  if (std::size(kNamesAfterHeaders) != std::size(kNamesOfTable)) return false;
  for (size_t i = 0; i < std::size(kNamesOfTable); ++i) {
    if (kNamesAfterHeaders[i] != kNamesOfTable[i]) return false;
  }
  return true;
}
static_assert(SameNames(), "a CUDA header renames a function of hooks.def by a macro: #undef it above");

}  // namespace
}  // namespace slipstream::shim

// In the global namespace, like the declarations that they are held against.
using namespace slipstream::shim;  // NOLINT(google-build-using-namespace): nothing else is in this file
namespace tracer = slipstream::tracer;

// A function of the same signature in every CUDA version: defined under its own name, so that the compiler holds the
// row against the header's declaration.
#define HOOK(group, function, parameters, arguments, detail)                                                        \
  SLIPSTREAM_EXPORT cudaError_t function parameters {                                                               \
    using Function = decltype(function);                                                                            \
    if (Function* const real = Straight<Function>(tracer::HookId::function)) [[likely]]                             \
      return real arguments;                                                                                        \
    return Routed<tracer::HookId::function, EnterGate, Function>(__builtin_return_address(0),                       \
                                                                 [=] { return detail; } SLIPSTREAM_PASS arguments); \
  }

// ", a, b, c" from "(a, b, c)", and nothing from "()".
#define SLIPSTREAM_PASS(...) __VA_OPT__(, ) __VA_ARGS__

// A function whose signature depends on the CUDA version. Defined under a name of our own and exported under the right
// one, past the declaration of whatever version the headers are.
#define HOOK_WORDS(group, function, words, runtimes, detail)                                                         \
  SLIPSTREAM_EXPORT cudaError_t slipstream_words_##function(SLIPSTREAM_WORDS_##words(uintptr_t)) __asm__(#function); \
  cudaError_t slipstream_words_##function(SLIPSTREAM_WORDS_##words(uintptr_t)) {                                     \
    using Function = cudaError_t(SLIPSTREAM_WORDS_##words(uintptr_t));                                               \
    return Routed<tracer::HookId::function, Runtime::EnterByCaller, Function>(                                       \
        __builtin_return_address(0), [=] { return detail; } SLIPSTREAM_PASS(SLIPSTREAM_WORDS_##words()));            \
  }

#define SLIPSTREAM_WORDS_0(type)
#define SLIPSTREAM_WORDS_1(type) type word0
#define SLIPSTREAM_WORDS_2(type) SLIPSTREAM_WORDS_1(type), type word1
#define SLIPSTREAM_WORDS_3(type) SLIPSTREAM_WORDS_2(type), type word2
#define SLIPSTREAM_WORDS_4(type) SLIPSTREAM_WORDS_3(type), type word3
#define SLIPSTREAM_WORDS_5(type) SLIPSTREAM_WORDS_4(type), type word4
#define SLIPSTREAM_WORDS_6(type) SLIPSTREAM_WORDS_5(type), type word5
#define SLIPSTREAM_WORDS_7(type) SLIPSTREAM_WORDS_6(type), type word6
#define SLIPSTREAM_WORDS_9(type) SLIPSTREAM_WORDS_7(type), type word7, type word8

#include "shim/hooks.def"
