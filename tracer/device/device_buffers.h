// The buffers that CUPTI writes its records to: 4 MiB pieces of zeros, whose pages exist before CUPTI asks for them.
//
// Threading: any thread, under a lock that is held for a few instructions and never around a call of CUPTI.
// Hazard: Take runs inside the program's launches: it maps memory only where CUPTI holds more pieces than ever before.
// Ownership: never destroyed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace slipstream::tracer {

class DeviceBuffers {
 public:
  static constexpr size_t kBytes = size_t{4} << 20;
  // That are made in advance.
  static constexpr size_t kReady = 2;
  // That are kept when they come back.
  static constexpr size_t kKept = 8;

  void Prepare();
  // Null: the system has no memory.
  uint8_t* Take();
  // It is one of these.
  bool Has(const uint8_t* buffer);
  // `used` bytes of it were written to.
  void Give(uint8_t* buffer, size_t used);

 private:
  // More than CUPTI ever holds; a piece without a place here is not handed out.
  static constexpr size_t kMost = 256;

  uint8_t* New();
  uint8_t* Pop();
  void Push(uint8_t* buffer);

  std::mutex mutex_;
  std::array<uint8_t*, kKept> idle_{};
  size_t count_ = 0;
  std::array<uint8_t*, kMost> all_{};
};

}  // namespace slipstream::tracer
