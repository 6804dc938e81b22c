// PyTorch's own allocator of memory on the host, c10::alloc_cpu and c10::free_cpu (c10/core/impl/alloc_cpu.h): what
// libc10 and libtorch_cpu call for every tensor that is not on a device. Blocks of 2 MiB and more are kept for the next
// allocation of their size (transfer/kept_blocks.h); every other call is a straight one of the real function, as are
// all of a process that has not used CUDA, and of a forked child, where the gate is closed.
//
// Threading: any thread. The lock of the dynamic loader once, at the first call.
// Errors: PyTorch's own, which pass through here: no frame of this file has anything to undo.

#include "shim/host_memory.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>

#include "shim/gate.h"
#include "shim/loaded_object.h"
#include "shim/runtime.h"
#include "transfer/kept_blocks.h"

namespace slipstream::shim {
namespace {

using transfer::KeptBlocks;
using Allocate = void*(size_t);
using Free = void(void*);

constexpr const char* kAllocate = "_ZN3c109alloc_cpuEm";
constexpr const char* kFree = "_ZN3c108free_cpuEPv";
// Flags of PyTorch's command-line tools: fresh memory is filled, which a kept block would not be.
constexpr const char* kFills[] = {"FLAGS_caffe2_cpu_allocator_do_zero_fill", "FLAGS_caffe2_cpu_allocator_do_junk_fill"};

constinit std::atomic<Allocate*> g_allocate{nullptr};
constinit std::atomic<Free*> g_free{nullptr};
constinit std::atomic<const bool*> g_fills[2] = {};

// The one that the loader would have bound without us: in the caller's object or one that it needs.
void* Real(const void* caller, const char* name) {
  void* found = FoundFrom(caller, name);
  if (found == nullptr) found = dlsym(RTLD_NEXT, name);
  // It stays loaded: blocks go back to it when nobody has wanted them for a while.
  const LoadedObject owner = LoadedObject::At(found);
  if (owner.name[0] != '\0') (void)dlopen(owner.name, RTLD_NOLOAD | RTLD_LAZY | RTLD_NODELETE);
  return found;
}

Allocate* RealAllocate(const void* caller) {
  if (Allocate* const known = g_allocate.load(std::memory_order_acquire)) [[likely]]
    return known;
  for (size_t i = 0; i < 2; ++i) {
    g_fills[i].store(static_cast<const bool*>(FoundFrom(caller, kFills[i])), std::memory_order_relaxed);
  }
  auto* const real = reinterpret_cast<Allocate*>(Real(caller, kAllocate));
  g_allocate.store(real, std::memory_order_release);
  return real;
}

Free* RealFree(const void* caller) {
  if (Free* const known = g_free.load(std::memory_order_acquire)) [[likely]]
    return known;
  auto* const real = reinterpret_cast<Free*>(Real(caller, kFree));
  g_free.store(real, std::memory_order_release);
  return real;
}

bool Fills() {
  for (const std::atomic<const bool*>& fill : g_fills) {
    const bool* const flag = fill.load(std::memory_order_relaxed);
    if (flag != nullptr && *flag) return true;
  }
  return false;
}

// What there is where the real one cannot be found.
void* Nearest(size_t bytes) {
  void* block = nullptr;
  return bytes != 0 && posix_memalign(&block, 64, bytes) == 0 ? block : nullptr;
}

bool Keeps() { return (TheGate().recording.load(std::memory_order_acquire) & kRouteHostMemory) != 0; }

}  // namespace

// By the addresses that the loader has bound, without its lock (S78). One in the program itself may be the entry by
// which a program that is not relocatable calls the C library's.
bool LibcAllocates() {
  const LoadedObject libc = LoadedObject::At(reinterpret_cast<const void*>(&gnu_get_libc_version));
  const auto is_its_own = [&](auto* function) {
    const auto* const address = reinterpret_cast<const void*>(function);
    if (libc.Holds(address)) return true;
    const LoadedObject other = LoadedObject::At(address);
    return other.end != 0 && other.name[0] == '\0';
  };
  return is_its_own(&std::malloc) && is_its_own(&posix_memalign) && is_its_own(&std::free);
}

void FreeHostBlock(void* block) {
  if (Free* const real = g_free.load(std::memory_order_acquire)) {
    real(block);
  } else {
    std::free(block);  // what c10::free_cpu does
  }
}

}  // namespace slipstream::shim

using namespace slipstream::shim;  // NOLINT(google-build-using-namespace): nothing else is in this file

#define SLIPSTREAM_EXPORT extern "C" [[gnu::visibility("default")]]

SLIPSTREAM_EXPORT void* _ZN3c109alloc_cpuEm(size_t bytes) {
  Allocate* const real = RealAllocate(__builtin_return_address(0));
  if (real == nullptr) [[unlikely]]
    return Nearest(bytes);
  if (bytes < KeptBlocks::kLeastBytes || !Keeps() || Fills()) [[likely]]
    return real(bytes);
  KeptBlocks& kept = Runtime::kept_blocks();
  if (void* const block = kept.Take(bytes)) return block;
  void* const block = real(bytes);
  if (block != nullptr) kept.Given(block, bytes);
  return block;
}

SLIPSTREAM_EXPORT void _ZN3c108free_cpuEPv(void* block) {
  Free* const real = RealFree(__builtin_return_address(0));
  if (block != nullptr && Keeps()) {
    KeptBlocks& kept = Runtime::kept_blocks();
    if (kept.MayConcern(block) && kept.Keep(block)) return;
  }
  if (real != nullptr) [[likely]]
    return real(block);
  std::free(block);
}
