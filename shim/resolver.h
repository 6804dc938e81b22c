// Finds the real function behind a hook.
//
// One libcudart in the process (nearly always): its functions, or those of another preloaded library that wraps
// them, as the dynamic linker would have bound them without us (RTLD_NEXT). When it was brought in under
// RTLD_LOCAL, RTLD_NEXT cannot see it and its own handle is asked. Several libcudarts (S57): the one that the
// calling library was linked to.
//
// Threading: any thread; no lock, nobody waits. The loader's own lock is taken inside dlsym and dlopen, as any lazy
// binding does.
// Ownership: a libcudart that was found is kept loaded, since its functions' addresses are kept.
// Hazard: no CUDA call and no allocation of ours here: it runs in constructors of libraries that register kernels.
#pragma once

#include <atomic>
#include <cstdint>

#include "shim/runtime_exports.h"
#include "tracer/base/hook_id.h"

namespace slipstream::shim {

struct RuntimeLibrary {
  // As the loader knows it; NUL-terminated, cut at the end.
  char path[512];
  // Of its file, for example "libcudart.so.13": what a caller's DT_NEEDED entry says.
  char soname[64];
  void* handle;
  uintptr_t begin;  // of its mapping; end is one past it
  uintptr_t end;
  UnknownFunctions unknown;
  // Null: it has none of that name, or nobody has looked (ResolveAll).
  mutable std::atomic<void*> functions[tracer::kHookCount];
};

// More libcudarts than this in one process: the further ones are reached uncached, by name.
inline constexpr uint32_t kMaxRuntimes = 4;

class Resolver {
 public:
  // Looks at the loaded objects for libcudarts that are not known yet. Returns how many are known.
  static uint32_t Scan();

  static uint32_t Count();
  static const RuntimeLibrary* At(uint32_t index);

  // Whether one of them has functions that slipstream does not know (S66).
  static bool AnyUnknown();

  // The only known libcudart, or null.
  static const RuntimeLibrary* Sole() { return Count() == 1 ? At(0) : nullptr; }

  // Looks for every function of those that are known, so that nobody has to when one is called for the first time: the
  // dynamic loader's lock may then be another thread's, which waits for this one in a library's constructor (S78).
  static void ResolveAll();

  // The function of the only libcudart; null when it has none of that name.
  static void* Function(const RuntimeLibrary& sole, tracer::HookId id);

  // The function as `caller`, an address inside the calling library, is linked to it. Null: there is none.
  static void* FunctionForCaller(tracer::HookId id, const void* caller);

  // What stands in place of `found`, which `caller` found by the name: the hook, if there is one, the policy lets
  // slipstream do anything, and the hook's call would come to `found`, which it does not where another preloaded
  // library wraps the function or there are several libcudarts. `found` itself otherwise, and for CUDA's own tools.
  // Where the look-up came to the hook by itself, the linked name is it too, whatever the policy says.
  static void* InPlaceOf(void* found, const char* name, const void* caller, bool is_behind_ours);

  // The file of a preloaded library whose function stands behind the hook, in front of libcudart's own: the loader's
  // name for it; empty: none does. It sees every call that it would see without us (S72).
  static const char* WrapperOf(tracer::HookId id);

  // Another function of the libcudart that `function`, its `id`, is from. Null: there is none.
  static void* Beside(tracer::HookId id, const void* function, tracer::HookId wanted);
};

}  // namespace slipstream::shim
