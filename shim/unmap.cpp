// mmap and munmap of the C library, for the shared memory that loader processes hand batches over in
// (transfer/background_unmap.h). Every other mapping is a straight call of the real function: so are all of a process
// that has not used CUDA, and of a forked child, where the gate is closed.
//
// Threading: any thread, at any time, before main and inside somebody's memory allocator too. No allocation; once the
//   lock of the dynamic loader, as for any lazy binding.

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "shim/exec.h"
#include "shim/gate.h"
#include "shim/limits.h"
#include "shim/run_root.h"
#include "shim/runtime.h"
#include "transfer/background_unmap.h"

namespace slipstream::shim {
namespace {

using transfer::BackgroundUnmap;
using Map = void*(void*, size_t, int, int, int, off_t);
using Unmap = int(void*, size_t);

// What the loader would have bound without us: the C library's, or that of somebody preloaded behind us.
struct Real {
  std::atomic<Map*> mmap{nullptr};
  std::atomic<Unmap*> munmap{nullptr};
  std::atomic<bool> wanted{false};  // by the call that looks them up; others make the system call meanwhile
};
constinit Real g_real;

void LookUp() {
  if (g_real.wanted.exchange(true, std::memory_order_relaxed)) return;
  g_real.munmap.store(reinterpret_cast<Unmap*>(dlsym(RTLD_NEXT, "munmap")), std::memory_order_relaxed);
  g_real.mmap.store(reinterpret_cast<Map*>(dlsym(RTLD_NEXT, "mmap")), std::memory_order_relaxed);
  LookUpExec();
  LookUpExit();
  LookUpLimits();
}

void* RealMap(void* address, size_t length, int protection, int flags, int fd, off_t offset) {
  if (g_real.mmap.load(std::memory_order_relaxed) == nullptr) [[unlikely]]
    LookUp();
  if (Map* const real = g_real.mmap.load(std::memory_order_relaxed)) [[likely]]
    return real(address, length, protection, flags, fd, offset);
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, length, protection, flags, fd, offset));
}

int RealUnmap(void* address, size_t length) {
  if (g_real.munmap.load(std::memory_order_relaxed) == nullptr) [[unlikely]]
    LookUp();
  if (Unmap* const real = g_real.munmap.load(std::memory_order_relaxed)) [[likely]]
    return real(address, length);
  return static_cast<int>(syscall(SYS_munmap, address, length));
}

bool Concerns(size_t length) {
  return length >= BackgroundUnmap::kLeastBytes &&
         (TheGate().recording.load(std::memory_order_acquire) & kRouteUnmap) != 0;
}

}  // namespace
}  // namespace slipstream::shim

using namespace slipstream::shim;  // NOLINT(google-build-using-namespace): nothing else is in this file

#define SLIPSTREAM_EXPORT extern "C" [[gnu::visibility("default")]]

// The C library's headers say noexcept (a __THROW); a hook that differed would not be the same function.
SLIPSTREAM_EXPORT void* mmap(void* address, size_t length, int protection, int flags, int fd, off_t offset) noexcept {
  void* const mapped = RealMap(address, length, protection, flags, fd, offset);
  if (Concerns(length) && mapped != MAP_FAILED) [[unlikely]]
    Runtime::unmap().Mapped(mapped, length, flags, fd);
  return mapped;
}

// off_t has 64 bits on every machine with CUDA: the two names are one function.
static_assert(sizeof(off_t) == 8);
SLIPSTREAM_EXPORT void* mmap64(void*, size_t, int, int, int, off_t) noexcept __attribute__((alias("mmap")));

SLIPSTREAM_EXPORT int munmap(void* address, size_t length) noexcept {
  if (Concerns(length) && Runtime::unmap().Unmap(address, length)) [[unlikely]]
    return 0;
  return RealUnmap(address, length);
}
