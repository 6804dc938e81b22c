// How the bytes of one copy get from staging memory to their destination: by DMA in the caller's stream; or, where that
// stream has other work to do first, at once into device memory of the engine's own, and from there in the caller's
// stream. Either way the destination is written when the program's own copy would have written it (S07).
//
// Threading: one thread, which has the context as its current one.
// Errors: a call that failed is remembered; End says what that means.
#pragma once

#include <cstddef>
#include <vector>

#include "transfer/device_staging.h"
#include "transfer/driver.h"
#include "transfer/fence.h"

namespace slipstream::transfer {

class Delivery {
 public:
  struct To {
    CUcontext context;
    CUdeviceptr destination;
    size_t bytes;
    CUstream stream;
  };

  // `ahead`: where bytes go ahead of the caller's stream; null: they wait for it.
  Delivery(const Driver& driver, FencePool& fences, const To& to, DeviceStaging* ahead)
      : driver_(driver), fences_(fences), to_(to), staging_(ahead), ahead_(ahead != nullptr) {}
  // Without End, as where memory ran out: nobody can say when the blocks have been read.
  ~Delivery();
  Delivery(const Delivery&) = delete;
  Delivery& operator=(const Delivery&) = delete;

  // The bytes from `offset` on, where the last ones ended; they do not cross a multiple of Ring::kSlotBytes. False: a
  // call failed.
  bool Add(size_t offset, const char* staged, size_t bytes);
  // Behind the reading of what was added so far.
  FenceRef Read();

  struct Ends {
    FenceRef read;       // staging memory has been read
    FenceRef delivered;  // and the destination has been written
  };
  // Nothing is added any more. Where fences are missing nobody can say when staging memory has been read. `failed()`
  // says whether the destination gets it all.
  Ends End();

  bool failed() const { return failed_; }
  // Bytes that went ahead.
  size_t ahead_bytes() const { return ahead_bytes_; }

 private:
  bool Went(CUresult result);
  void PassOn();

  const Driver& driver_;
  FencePool& fences_;
  const To to_;
  DeviceStaging* const staging_;
  bool ahead_;  // what comes next goes ahead, if there is a block for it
  std::vector<CUdeviceptr> blocks_;
  CUdeviceptr block_ = 0;    // that is being filled
  size_t block_offset_ = 0;  // of its bytes in the copy
  size_t filled_ = 0;
  size_t ahead_bytes_ = 0;
  bool direct_ = false;  // some of it waits for the caller's stream
  bool failed_ = false;
};

}  // namespace slipstream::transfer
