#include "tools/dev/bench/driver_memory.h"

#include <dlfcn.h>

namespace bench {
namespace {

// nvmlMemory_t (NVML reference, device queries); bytes.
struct Memory {
  unsigned long long total = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};

struct Nvml {
  int (*handle)(const char* bus_id, void** device) = nullptr;
  int (*memory)(void* device, Memory* memory) = nullptr;
};

// Both functions, or none.
Nvml Load() {
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return {};
  auto* const initialize = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
  Nvml found;
  found.handle = reinterpret_cast<int (*)(const char*, void**)>(dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2"));
  found.memory = reinterpret_cast<int (*)(void*, Memory*)>(dlsym(library, "nvmlDeviceGetMemoryInfo"));
  if (initialize == nullptr || found.handle == nullptr || found.memory == nullptr || initialize() != 0) return {};
  return found;
}

const Nvml& Library() {
  static const Nvml kNvml = Load();
  return kNvml;
}

}  // namespace

DriverMemory::DriverMemory(const std::string& bus_id) {
  auto* const handle = Library().handle;
  if (handle == nullptr || handle(bus_id.c_str(), &device_) != 0) device_ = nullptr;
}

std::optional<uint64_t> DriverMemory::UsedBytes() const {
  Memory memory;
  auto* const get = Library().memory;
  if (device_ == nullptr || get == nullptr || get(device_, &memory) != 0) return std::nullopt;
  return memory.used;
}

}  // namespace bench
