// The exported functions of the driver, one a row of driver_hooks.def. As in entry.cpp, entry points hold no logic.

#include <cuda.h>
#include <cudaProfiler.h>

#include <array>
#include <cstddef>
#include <utility>

#include "shim/entry.h"

// Some hooked functions are deprecated; their callers are still out there.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#define SLIPSTREAM_EXPORT extern "C" [[gnu::visibility("default")]]

// In the global namespace, like the declarations that they are held against.
using namespace slipstream::shim;  // NOLINT(google-build-using-namespace): nothing else is in this file
namespace tracer = slipstream::tracer;

#define SLIPSTREAM_PASS(...) __VA_OPT__(, ) __VA_ARGS__

#define SLIPSTREAM_DRIVER_BODY(group, id, function, arguments, detail)                                   \
  {                                                                                                      \
    using Function = decltype(function);                                                                 \
    if (Function* const real = StraightDriver<tracer::HookId::id, Function>()) [[likely]]                \
      return real arguments;                                                                             \
    return RoutedDriver<tracer::HookId::id, Function>(__builtin_return_address(0),                       \
                                                      [=] { return detail; } SLIPSTREAM_PASS arguments); \
  }

// Defined under its own name, so that the compiler holds the row against the header's declaration.
#define HOOK_DRIVER(group, function, parameters, arguments, detail) \
  SLIPSTREAM_EXPORT CUresult function parameters SLIPSTREAM_DRIVER_BODY(group, function, function, arguments, detail)
#define HOOK_DRIVER_V1(group, function, parameters, arguments, detail)                                             \
  SLIPSTREAM_EXPORT CUresult function parameters SLIPSTREAM_DRIVER_BODY(group, function##_v1, function, arguments, \
                                                                        detail)
#include "shim/hooks.def"

namespace slipstream::shim {

bool IsWatched(tracer::HookId id) {
  static constexpr auto kWatched = []<size_t... kIndices>(std::index_sequence<kIndices...>) {
    return std::array<bool, tracer::kHookCount>{kIsWatched<static_cast<tracer::HookId>(kIndices)>...};
  }
  (std::make_index_sequence<tracer::kHookCount>());
  return kWatched[tracer::Index(id)];
}

}  // namespace slipstream::shim
