// Who stands around a hooked call beside the pools: the ledger, which hears of every call, and the transfer engine
// where it serves. What needs both is here; the rest asks one of them.
//
// Threading: any thread. A value: two references.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "cuda/ledger.h"
#include "transfer/engine.h"

namespace slipstream::shim {

struct Engines {
  cuda::Ledger& ledger;
  transfer::Engine* transfer;  // null: it does not serve in this process

  // A promoted copy's synchronization does not follow immediately any more (S09).
  static void OtherCall() { transfer::Engine::OtherCall(); }

  // Before calls that wait, or that could show what the calling thread has deferred; or any thread (S13).
  void Settle(cuda::Before what) const {
    if (transfer != nullptr) transfer->LookAtVerified();
    ledger.Settle(what);
  }
  void SettleForAll(cuda::Before what) const {
    if (transfer != nullptr) transfer->LookAtVerified();
    ledger.SettleForAll(what);
  }

  // The device is about to be reset, by its ordinal; below 0: the calling thread's.
  void DeviceReset(int device) const {
    if (ledger.DeviceReset(device) && transfer != nullptr) transfer->ForgetDevice();
  }

  // Staging memory is nobody's loss: transfer::Engine says what each does. Nothing where there is none.
  bool GiveBackHostStaging() const { return transfer != nullptr && transfer->GiveBackHostStaging(); }
  bool GiveBackDeviceStaging(CUdevice device) const {
    return transfer != nullptr && transfer->GiveBackDeviceStaging(device);
  }
  void AfterAllocation() const {
    if (transfer != nullptr) transfer->AfterAllocation();
  }
  void AddDeviceStaging(size_t* free, const size_t* total) const {
    if (transfer != nullptr) transfer->AddDeviceStaging(free, total);
  }
};

}  // namespace slipstream::shim
