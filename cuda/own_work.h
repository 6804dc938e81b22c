// What slipstream asks of a device by itself: a copy from or to its staging memory, in the place of one of the
// program's or beside it; a wait, of the host or of a stream. Whoever records calls of the driver tells these from the
// program's own by OwnWork::Here.
//
// Threading: of the calling thread.
// Errors: the driver's.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>

#include "cuda/driver.h"

namespace slipstream::cuda {

class OwnWork {
 public:
  OwnWork() { ++t_depth_; }
  ~OwnWork() { --t_depth_; }
  OwnWork(const OwnWork&) = delete;
  OwnWork& operator=(const OwnWork&) = delete;

  // Whether the calling thread is at such work.
  static bool Here() { return t_depth_ != 0; }
  // The thread has left all such work by siglongjmp.
  static void Forget() { t_depth_ = 0; }

 private:
  inline static constinit thread_local unsigned t_depth_ = 0;
};

// While one is alive, the calling thread reads memory of the program's that may not be readable, and nothing else. A
// call that it makes then is one of the handler of the fault, or one after that handler has left by siglongjmp.
class MayFault {
 public:
  MayFault() {
    t_here_ = true;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  ~MayFault() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    t_here_ = false;
  }
  MayFault(const MayFault&) = delete;
  MayFault& operator=(const MayFault&) = delete;

  static bool Here() { return t_here_; }
  static void Forget() { t_here_ = false; }

 private:
  inline static constinit thread_local bool t_here_ = false;
};

inline CUresult CopyHtoD(const Driver& driver, CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  const OwnWork own;
  return driver.cuMemcpyHtoDAsync(to, from, bytes, stream);
}

inline CUresult CopyDtoH(const Driver& driver, void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  const OwnWork own;
  return driver.cuMemcpyDtoHAsync(to, from, bytes, stream);
}

inline CUresult CopyDtoD(const Driver& driver, CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  const OwnWork own;
  return driver.cuMemcpyDtoDAsync(to, from, bytes, stream);
}

}  // namespace slipstream::cuda
