// dlsym of the C library. Whoever looks for a function of libcudart is given its hook (resolver.h): CuPy, JAX and
// ctypes come to the runtime this way. So is, where the policy has the driver's functions seen, whoever looks for one
// of libcuda (driver_library.h): static runtimes, Triton, CuPy and JAX, for cuGetProcAddress at least. And whoever
// looks for one of CUPTI's functions is given slipstream's, whatever is intercepted (cupti_lookup.h).
//
// Every other look-up is a jump to the real function, with the arguments and the return address as they came: RTLD_NEXT
// means "behind the caller", and the caller must not be us (C5). What goes through a call is the look-up of a name of
// the runtime's, the driver's or CUPTI's by somebody other than ourselves; RTLD_NEXT never does.
//
// Threading: any thread, at any time: before main, before this library's own constructors, in somebody's memory
// allocator.
//   No allocation, no lock but the dynamic loader's own.
// Hazard: compiled with optimisation and without a sanitizer whatever the rest is (CMakeLists.txt): a look-up that is
// no jump breaks RTLD_NEXT for everybody, and sanitizers look their own functions up before they have themselves in
// order.

#include <dlfcn.h>

#include <atomic>

#include "shim/cupti_lookup.h"
#include "shim/driver_library.h"
#include "shim/hook_address.h"
#include "shim/loaded_object.h"
#include "shim/resolver.h"

namespace slipstream::shim {
namespace {

using Find = void*(void*, const char*) noexcept;  // else a noexcept caller would have to stay, to catch what is thrown

constinit std::atomic<Find*> g_real{nullptr};

// What the loader would have bound without us. By dlvsym, which nobody wraps: it takes an unversioned wrapper of
// somebody preloaded behind us as readily as the C library's own, under the newest of its versions or those before it.
[[gnu::noinline]] Find* LookUpReal() {
  Find* real = nullptr;
  for (const char* const version : {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"}) {
    real = reinterpret_cast<Find*>(dlvsym(RTLD_NEXT, "dlsym", version));
    if (real != nullptr) break;
  }
  g_real.store(real, std::memory_order_relaxed);
  return real;
}

Find* Real() {
  Find* const real = g_real.load(std::memory_order_relaxed);
  return real != nullptr ? real : LookUpReal();
}

// Of the runtime: "cudaMalloc". Those that begin with underscores are called by what nvcc makes, which is linked.
constexpr bool IsNameOfRuntime(const char* name) {
  return name[0] == 'c' && name[1] == 'u' && name[2] == 'd' && name[3] == 'a' && name[4] >= 'A' && name[4] <= 'Z';
}

bool IsHooked(const char* name) {
  if (name[0] != 'c' || name[1] != 'u') return false;
  return IsCuptiName(name) ? IsHookedCupti(name) : HookNamed(name) != tracer::HookId::kCount;
}

// The runtime's function as the caller is to have it. Out of line, so that the jump stays one.
[[gnu::noinline]] void* FindInRuntime(Find* real, void* handle, const char* name, const void* caller) {
  void* found = real(handle, name);
  if (found == nullptr) return nullptr;
  const bool is_ours = IsOurs(found);
  if (is_ours) {
    // In the global scope, where our own name hides what is there, if anything is. One that only the caller's own
    // libraries have is found for the caller alone.
    found = real(RTLD_NEXT, name);
    if (found == nullptr && handle == RTLD_DEFAULT) found = FoundFrom(caller, name);
    if (found == nullptr) return nullptr;
  }
  void* const function = Resolver::InPlaceOf(found, name, caller, is_ours);
  dlerror();  // the look-up succeeded, and leaves no error behind
  return function;
}

// The same of the driver's.
[[gnu::noinline]] void* FindInDriver(Find* real, void* handle, const char* name, const void* caller) {
  void* found = real(handle, name);
  if (found == nullptr || !IsHooked(name)) return found;
  // In the global scope, where our own name hides libcuda's, if that is there at all.
  if (IsOurs(found)) {
    found = real(RTLD_NEXT, name);
    if (found == nullptr && handle == RTLD_DEFAULT) found = FoundFrom(caller, name);
  }
  return found != nullptr ? DriverLibrary::InPlaceOf(found, name, caller) : nullptr;
}

// The same for CUPTI's. In the global scope our own name is found even where no libcupti is there; bare, it would not
// be.
[[gnu::noinline]] void* FindInCupti(Find* real, void* handle, const char* name, const void* caller) {
  void* found = real(handle, name);
  if (found != nullptr && IsOurs(found)) {
    found = real(RTLD_NEXT, name);
    if (found == nullptr && handle == RTLD_DEFAULT) found = LinkedCupti(name, caller);
  }
  return CuptiInPlaceOf(found, name, caller);
}

}  // namespace
}  // namespace slipstream::shim

using namespace slipstream::shim;  // NOLINT(google-build-using-namespace): nothing else is in this file

// The C library's header says noexcept (a __THROW).
extern "C" [[gnu::visibility("default")]] void* dlsym(void* handle, const char* name) noexcept {
  Find* const real = Real();
  const void* const caller = __builtin_return_address(0);
  // RTLD_DEFAULT is the caller's scope, and not ours, which matters where the name is none of ours.
  if (handle == RTLD_DEFAULT && !IsHooked(name)) return real(handle, name);
  if (handle != RTLD_NEXT && IsDriverName(name) && !IsOurs(caller)) [[unlikely]]
    return FindInDriver(real, handle, name, caller);
  if (handle != RTLD_NEXT && IsNameOfRuntime(name) && !IsOurs(caller)) [[unlikely]]
    return FindInRuntime(real, handle, name, caller);
  if (handle != RTLD_NEXT && IsCuptiName(name) && !IsOurs(caller)) [[unlikely]]
    return FindInCupti(real, handle, name, caller);
  return real(handle, name);
}
