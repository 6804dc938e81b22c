#include "tracer/device/device_buffers.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace slipstream::tracer {
namespace {

uint8_t* Map() {
  void* const memory =
      mmap(nullptr, DeviceBuffers::kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  return memory != MAP_FAILED ? static_cast<uint8_t*>(memory) : nullptr;
}

}  // namespace

uint8_t* DeviceBuffers::Pop() {
  const std::lock_guard guard(mutex_);
  return count_ != 0 ? idle_[--count_] : nullptr;
}

void DeviceBuffers::Push(uint8_t* buffer) {
  {
    const std::lock_guard guard(mutex_);
    if (count_ < idle_.size()) {
      idle_[count_++] = buffer;
      return;
    }
  }
  {
    const std::lock_guard guard(mutex_);
    *std::find(all_.begin(), all_.end(), buffer) = nullptr;
  }
  munmap(buffer, kBytes);
}

uint8_t* DeviceBuffers::New() {
  uint8_t* const buffer = Map();
  if (buffer == nullptr) return nullptr;
  {
    const std::lock_guard guard(mutex_);
    auto* const place = std::find(all_.begin(), all_.end(), nullptr);
    if (place != all_.end()) {
      *place = buffer;
      return buffer;
    }
  }
  munmap(buffer, kBytes);
  return nullptr;
}

bool DeviceBuffers::Has(const uint8_t* buffer) {
  const std::lock_guard guard(mutex_);
  return std::find(all_.begin(), all_.end(), buffer) != all_.end();
}

void DeviceBuffers::Prepare() {
  for (size_t i = 0; i < kReady; ++i) {
    if (uint8_t* const buffer = New()) Push(buffer);
  }
}

uint8_t* DeviceBuffers::Take() {
  uint8_t* const idle = Pop();
  return idle != nullptr ? idle : New();
}

void DeviceBuffers::Give(uint8_t* buffer, size_t used) {
  std::memset(buffer, 0, std::min(used, kBytes));
  Push(buffer);
}

}  // namespace slipstream::tracer
