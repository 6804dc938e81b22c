// The process's libcuda: the real functions behind the hooks of the driver level, and the hooks in their place.
//
// A process has one libcuda.so.1. Programs reach its functions in three ways, and each is answered with the hook of the
// very function that would have been found: linked names (the exported symbols of driver_entry.cpp), dlsym (find.cpp),
// and cuGetProcAddress, whose answer depends on the version and the default stream that the caller asks for. So the
// question is never interpreted: the real call is made, and the address that comes back is looked up here. The name
// only says where to look first.
//
// Threading: any thread; no lock, nobody waits. The loader's own lock is taken inside dlsym and dlopen.
// Ownership: the libcuda that was found is kept loaded, since its functions' addresses are kept.
// Hazard: no CUDA call here. In a forked child of a process that has used CUDA the loader is not asked; what is known
//   stays known (S51).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "shim/gate.h"
#include "tracer/base/hook_id.h"

namespace slipstream::shim {

class DriverLibrary {
 public:
  // The real function of a hook of the driver's; null: there is no libcuda in the process, or it has none of that name.
  // Another preloaded library that wraps it comes first, as the dynamic linker would have bound it without us; it is
  // then behind the hook for those too who looked libcuda's own function up.
  static void* Function(tracer::HookId id);

  // Looks for every function, once there is a libcuda, for the reason of Resolver::ResolveAll. Where the dynamic loader
  // may be asked: from a look-up of somebody's, and when the first call of CUDA is made.
  static void ResolveAll();

  // What stands in place of `real`, which was found for `caller`: the hook, where the policy has the function seen
  // (Runtime::LevelOfDriver, IsWatched), it has one, and the caller is a program. `real` itself otherwise. Tools of
  // CUDA's own (CUPTI, the sanitizer, the profilers) keep what they found: their calls are not the program's. So does
  // another preloaded library that wraps the function, and wants what is behind it; and whoever alone sees libcuda,
  // which such a library could not hand the call on to.
  // `name` is what was asked for: of cuGetProcAddress without the version's suffix.
  static void* InPlaceOf(void* real, const char* name, const void* caller);

  // As Resolver::WrapperOf, of libcuda's.
  static const char* WrapperOf(tracer::HookId id);

  // Function(id) as it is known now, without looking for it. For the straight path.
  static void* Known(tracer::HookId id) { return functions_[tracer::Index(id)].load(std::memory_order_relaxed); }

  // Whether the device has one. True also where nobody can be asked.
  static bool HasPrimaryContext(int device);

  // The file of the libcuda that was found, as the loader names it; empty: none was. NUL-terminated.
  static const char* Path();

 private:
  static void* Handle();
  static bool IsPastWrapper(tracer::HookId id, const void* caller);
  static tracer::HookId HookFor(const void* real, const char* name, DriverLevel level);
  // Libcuda's own, whoever wraps it.
  static void* OwnFunction(tracer::HookId id);

  // An older libcuda lacks it, and nobody else has it: a loader that finds nothing takes long to say so.
  static bool IsAbsent(tracer::HookId id) { return is_absent_[tracer::Index(id)].load(std::memory_order_relaxed); }

  static std::atomic<void*> functions_[tracer::kHookCount];
  static std::atomic<void*> own_functions_[tracer::kHookCount];
  static std::atomic<bool> is_absent_[tracer::kHookCount];
};

// Whether the driver's function is seen at every `intercept.level` while an engine serves: what the engines defer is
// settled, and what they withhold is given back, before a call that could notice, by whatever door it comes (S70); and
// what is submitted is known (S71). At the level "runtime" such a call is neither counted nor recorded, and no engine
// serves it. Of driver_entry.cpp.
bool IsWatched(tracer::HookId id);

// The exported names begin so, and a capital letter follows: "cuMemAlloc_v2". Not "cudaMalloc".
constexpr bool IsDriverName(const char* name) {
  const bool of_file =
      name[0] == 'c' && name[1] == 'u' && name[2] == 'F' && name[3] == 'i';  // cuFile is another library
  return name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z' && !of_file;
}

}  // namespace slipstream::shim
