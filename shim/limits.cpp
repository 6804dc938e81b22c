// setrlimit and prlimit of the C library: a process that limits its own memory gets back what is kept for it
// (transfer/kept_blocks.h), before it allocates within the new limit. All else is a straight call of the real function.
//
// Threading: any thread, at any time. No allocation; once the lock of the dynamic loader, as for any lazy binding.
// A limit that another process sets is seen when the bound of what is kept is asked for again.

#include "shim/limits.h"

#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "shim/gate.h"
#include "shim/runtime.h"
#include "transfer/kept_blocks.h"

namespace slipstream::shim {
namespace {

using Set = int(__rlimit_resource_t, const rlimit*);
using Exchange = int(pid_t, __rlimit_resource, const rlimit*, rlimit*);

constinit std::atomic<Set*> g_set{nullptr};
constinit std::atomic<Exchange*> g_exchange{nullptr};

void AfterLimit(int resource) {
  if (resource != RLIMIT_AS && resource != RLIMIT_DATA) return;
  if ((TheGate().recording.load(std::memory_order_acquire) & kRouteHostMemory) == 0) return;
  Runtime::kept_blocks().LimitsChanged();
}

}  // namespace

void LookUpLimits() noexcept {
  g_set.store(reinterpret_cast<Set*>(dlsym(RTLD_NEXT, "setrlimit")), std::memory_order_relaxed);
  g_exchange.store(reinterpret_cast<Exchange*>(dlsym(RTLD_NEXT, "prlimit")), std::memory_order_relaxed);
}

}  // namespace slipstream::shim

using namespace slipstream;  // NOLINT(google-build-using-namespace): nothing else is in this file

#define SLIPSTREAM_EXPORT extern "C" [[gnu::visibility("default")]]

// rlim_t has 64 bits on every machine with CUDA: the two names are one function.
static_assert(sizeof(rlim_t) == 8);

SLIPSTREAM_EXPORT int setrlimit(__rlimit_resource_t resource, const rlimit* limit) noexcept {
  if (shim::g_set.load(std::memory_order_relaxed) == nullptr) [[unlikely]]
    shim::LookUpLimits();
  shim::Set* const real = shim::g_set.load(std::memory_order_relaxed);
  const int result =
      real != nullptr ? real(resource, limit) : static_cast<int>(syscall(SYS_prlimit64, 0, resource, limit, nullptr));
  if (result == 0) shim::AfterLimit(static_cast<int>(resource));
  return result;
}
SLIPSTREAM_EXPORT int setrlimit64(__rlimit_resource_t, const rlimit64*) noexcept __attribute__((alias("setrlimit")));

SLIPSTREAM_EXPORT int prlimit(pid_t pid, __rlimit_resource resource, const rlimit* limit, rlimit* before) noexcept {
  if (shim::g_exchange.load(std::memory_order_relaxed) == nullptr) [[unlikely]]
    shim::LookUpLimits();
  shim::Exchange* const real = shim::g_exchange.load(std::memory_order_relaxed);
  const int result = real != nullptr ? real(pid, resource, limit, before)
                                     : static_cast<int>(syscall(SYS_prlimit64, pid, resource, limit, before));
  if (result == 0 && limit != nullptr && (pid == 0 || pid == getpid())) shim::AfterLimit(static_cast<int>(resource));
  return result;
}
SLIPSTREAM_EXPORT int prlimit64(pid_t, __rlimit_resource, const rlimit64*, rlimit64*) noexcept
    __attribute__((alias("prlimit")));
