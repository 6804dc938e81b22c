// How the bytes of one copy get from staging memory to their destination, as one operation of the caller's stream
// (S62): by one DMA out of one place in staging memory; or piece by piece into device memory that the copy has leased,
// on a stream of the engine's own, which waits for nothing that the caller's stream still has to do, and from there by
// one copy in the caller's stream. Either way the destination is written when the program's own copy would have written
// it (S07).
//
// Threading: one thread, which has the context as its current one.
// Errors: a call that failed is remembered; End says what that means.
#pragma once

#include <cstddef>

#include "cuda/driver.h"
#include "cuda/fence.h"
#include "transfer/device_staging.h"

namespace slipstream::transfer {

class Delivery {
 public:
  struct To {
    CUcontext context;
    CUdeviceptr destination;
    size_t bytes;
    CUstream stream;
  };

  // `lease`: of `staging`, as long as the copy; 0: none, and Add is called once, with all of it.
  Delivery(const cuda::Driver& driver, cuda::FencePool& fences, const To& to, DeviceStaging& staging, CUdeviceptr lease)
      : driver_(driver), fences_(fences), to_(to), stream_(staging.stream()), lease_(staging, lease) {}
  Delivery(const Delivery&) = delete;
  Delivery& operator=(const Delivery&) = delete;

  // The bytes from `offset` on, where the last ones ended. False: a call failed.
  bool Add(size_t offset, const char* staged, size_t bytes);
  // Behind the reading of what was added so far, of a copy with a lease.
  cuda::FenceRef Read() { return fences_.Record(to_.context, stream_); }

  struct Ends {
    cuda::FenceRef read;       // staging memory has been read
    cuda::FenceRef delivered;  // and the destination has been written; empty unless `whole`
  };
  // Nothing is added any more. Unless all of it was, which is `whole`, the destination is not written. Where fences are
  // missing nobody can say when staging memory has been read. `failed()` says whether the destination gets it all.
  Ends End(bool whole);
  // In place of End, where Add was never called.
  void Cancel() { lease_.Cancel(); }

  bool failed() const { return failed_; }

 private:
  bool Went(CUresult result);
  // What the lease holds from `offset` on goes on in the caller's stream, behind `arrived`.
  void PassOn(const cuda::FenceRef& arrived, size_t offset, size_t bytes);

  const cuda::Driver& driver_;
  cuda::FencePool& fences_;
  const To to_;
  CUstream const stream_;  // that fills the lease
  DeviceLease lease_;
  bool joined_ = false;  // the caller's stream waits for the lease, and may read it
  bool failed_ = false;
};

}  // namespace slipstream::transfer
