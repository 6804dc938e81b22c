#include "cuda/driver.h"

#include <dlfcn.h>

#include <atomic>
#include <new>

namespace slipstream::cuda {
namespace {

constexpr int kFirstWithContextEvents = 12050;

template <typename Function>
bool Find(void* library, const char* name, Function** function) {
  *function = reinterpret_cast<Function*>(dlsym(library, name));
  return *function != nullptr;
}

}  // namespace

bool LoadDriver(Driver* driver) {
  static constinit std::atomic<const Driver*> found{nullptr};
  if (const Driver* const known = found.load(std::memory_order_acquire); known != nullptr) {
    *driver = *known;
    return true;
  }
  void* const library = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
  if (library == nullptr) return false;
  bool complete = true;
  // Through a second macro, without '#' on the first: cuda.h renames functions by macros (cuMemHostRegister is
  // cuMemHostRegister_v2), and the row names what is exported.
#define SLIPSTREAM_TEXT(name) #name
#define SLIPSTREAM_REQUIRED(member, name) complete &= Find(library, SLIPSTREAM_TEXT(name), &driver->member);
#define SLIPSTREAM_OPTIONAL(member, name) (void)Find(library, SLIPSTREAM_TEXT(name), &driver->member);
  SLIPSTREAM_DRIVER_FUNCTIONS(SLIPSTREAM_REQUIRED)
  SLIPSTREAM_CONTEXT_EVENT_FUNCTIONS(SLIPSTREAM_OPTIONAL)
#undef SLIPSTREAM_REQUIRED
#undef SLIPSTREAM_OPTIONAL
#undef SLIPSTREAM_TEXT
  if (!complete) return false;
  const auto* const kept = new (std::nothrow) Driver(*driver);
  const Driver* before = nullptr;
  if (!found.compare_exchange_strong(before, kept, std::memory_order_acq_rel)) delete kept;
  return true;
}

bool HasContextEvents(const Driver& driver) {
  int version = 0;
  return driver.cuCtxRecordEvent != nullptr && driver.cuCtxWaitEvent != nullptr &&
         driver.cuDriverGetVersion(&version) == CUDA_SUCCESS && version >= kFirstWithContextEvents;
}

}  // namespace slipstream::cuda
