// transfer.verify: what a promoted copy wrote is read back from the device and compared with what its source held.
//
// The source is summed when the copy is made. The destination is read back in the caller's stream, right behind the
// copy, so it is what the program's next work finds; the sum of that is taken by whichever thread asks next, once it is
// there. Nothing waits: what finds no staging memory is not compared, and counted.
//
// Threading: any thread. The lock is held while the driver is asked whether a fence has passed, as the ring's is; not
//   while memory is copied or summed.
// Ownership: slots of the ring, for as long as they are in flight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "cuda/driver.h"
#include "cuda/fence.h"
#include "transfer/delivery.h"
#include "transfer/ring.h"

namespace slipstream::transfer {

class Verifier {
 public:
  Verifier(const cuda::Driver& driver, cuda::FencePool& fences, Ring& ring)
      : driver_(driver), fences_(fences), ring_(ring) {}

  // Depends on every byte and its place.
  static uint64_t SumOf(const char* memory, size_t bytes, uint64_t before = 0);

  // The copy is enqueued, and its source had `sum`; `site`: where in the program it was made (CallSites). False: it
  // will not be compared.
  bool Expect(const Delivery::To& to, uint64_t sum, uint32_t site);

  struct Finding {
    size_t compared = 0;  // copies
    bool wrong = false;
    CUdeviceptr destination = 0;  // of the first one that was wrong
    size_t bytes = 0;
    uint32_t site = 0;
  };
  // Compares what has come back.
  Finding Look();

 private:
  struct Copy {
    CUdeviceptr destination;
    size_t bytes;
    uint64_t sum;
    uint32_t site;
    std::vector<char*> slots;
    cuda::FenceRef back;
  };

  const cuda::Driver& driver_;
  cuda::FencePool& fences_;
  Ring& ring_;
  std::mutex mutex_;
  std::deque<Copy> copies_;
};

}  // namespace slipstream::transfer
