#include "cuda/contexts.h"

#include "cuda/primary_context.h"

namespace slipstream::cuda {

bool Contexts::Find() {
  if (there()) return true;
  // Nobody waits: the loader's lock is taken below, and a thread that holds it, in a constructor that calls CUDA, may
  // be here too.
  const std::unique_lock lock(find_mutex_, std::try_to_lock);
  if (!lock) return there();
  if (there_.load(std::memory_order_relaxed)) return true;
  if (!LoadDriver(&driver_)) return false;
  if (!HasContextEvents(driver_)) {
    driver_is_old_.store(true, std::memory_order_relaxed);
    return false;
  }
  if (driver_.cuDeviceGetCount(&device_count_) != CUDA_SUCCESS) return false;
  if (device_count_ > static_cast<int>(kMostDevices)) return false;
  there_.store(true, std::memory_order_release);
  return true;
}

CUcontext Contexts::Primary(CUdevice device) {
  CUcontext context = primary_[device].load(std::memory_order_acquire);
  if (context != nullptr) return context;
  context = ActivePrimary(driver_, device);
  if (context == nullptr) return nullptr;
  primary_[device].store(context, std::memory_order_seq_cst);
  const CUcontext unexplained = unexplained_[device].load(std::memory_order_seq_cst);
  if (unexplained != nullptr && unexplained != context) ServeNoMore();
  return context;
}

// While there is no primary context to compare it with, it is one of the program's own, or what a reset has left of the
// primary one in a thread: that shows when there is one again. Whoever comes second, here or in Primary, sees the
// other.
void Contexts::Unexplained(CUdevice device, CUcontext context) {
  CUcontext before = nullptr;
  const bool first = unexplained_[device].compare_exchange_strong(before, context, std::memory_order_seq_cst);
  const CUcontext primary = primary_[device].load(std::memory_order_seq_cst);
  if ((!first && before != context) || (primary != nullptr && primary != context)) ServeNoMore();
}

CUcontext Contexts::Current(CUdevice* device) {
  CUcontext context = nullptr;
  if (driver_.cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == nullptr) return nullptr;
  if (driver_.cuCtxGetDevice(device) != CUDA_SUCCESS) return nullptr;
  const CUcontext primary = Primary(*device);
  if (primary == context) return context;
  if (primary == nullptr) {
    Unexplained(*device, context);
  } else {
    ServeNoMore();
  }
  return nullptr;
}

bool Contexts::Active(CUdevice device, CUcontext known, Set* contexts) {
  contexts->count = 0;
  if (others()) return false;
  contexts->Add(known, device);
  for (CUdevice other = 0; other < device_count_; ++other) {
    if (other == device) continue;
    unsigned flags = 0;
    int active = 0;
    if (driver_.cuDevicePrimaryCtxGetState(other, &flags, &active) != CUDA_SUCCESS) return false;
    if (active == 0) continue;
    const CUcontext context = Primary(other);
    if (context == nullptr) return false;
    contexts->Add(context, other);
  }
  return true;
}

}  // namespace slipstream::cuda
