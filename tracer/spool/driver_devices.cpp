#include "tracer/spool/driver_devices.h"

#include <cuda.h>
#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstring>

namespace slipstream::tracer {
namespace {

class Driver {
 public:
  // False: there is none in the process, or it lacks what every driver has.
  bool Load() {
    void* const library = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
    if (library == nullptr) return false;
    // By the exported names: cuda.h renames some functions by macros.
    Find(library, "cuDeviceGetCount", &get_count_);
    Find(library, "cuDeviceGetName", &get_name_);
    Find(library, "cuDeviceGetAttribute", &get_attribute_);
    Find(library, "cuDeviceGetPCIBusId", &get_bus_);
    Find(library, "cuDeviceTotalMem_v2", &total_memory_);
    Find(library, "cuThreadExchangeStreamCaptureMode", &exchange_capture_mode_);
    // The second one knows of devices that are a part of one (MIG).
    if (!Find(library, "cuDeviceGetUuid_v2", &get_uuid_)) Find(library, "cuDeviceGetUuid", &get_uuid_);
    return get_count_ != nullptr && get_name_ != nullptr && get_attribute_ != nullptr;
  }

  bool Ask(std::vector<DeviceFacts>* devices) const {
    int count = 0;
    if (get_count_(&count) != CUDA_SUCCESS) return false;
    // No question of these is known to disturb a capture. Should one do, it is not the program's.
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    const bool relaxed = exchange_capture_mode_ != nullptr && exchange_capture_mode_(&mode) == CUDA_SUCCESS;
    bool answered = true;
    for (CUdevice device = 0; device < count && answered; ++device) answered = Describe(device, devices);
    if (relaxed) exchange_capture_mode_(&mode);
    return answered;
  }

 private:
  template <typename Function>
  static bool Find(void* library, const char* name, Function** function) {
    *function = reinterpret_cast<Function*>(dlsym(library, name));
    return *function != nullptr;
  }

  // Where it may not be asked, the name is not told either.
  bool Describe(CUdevice device, std::vector<DeviceFacts>* devices) const {
    char name[256] = "";
    if (get_name_(name, sizeof(name) - 1, device) != CUDA_SUCCESS) return false;
    DeviceFacts& facts = devices->emplace_back();
    facts.name = name;
    CUuuid uuid{};
    if (get_uuid_ != nullptr && get_uuid_(&uuid, device) == CUDA_SUCCESS) {
      std::array<unsigned char, 16> bytes{};
      static_assert(sizeof(uuid.bytes) == sizeof(bytes));
      std::memcpy(bytes.data(), uuid.bytes, sizeof(bytes));
      facts.uuid = UuidText(bytes);
    }
    char bus[64] = "";
    if (get_bus_ != nullptr && get_bus_(bus, sizeof(bus) - 1, device) == CUDA_SUCCESS) facts.bus = bus;
    size_t memory = 0;
    if (total_memory_ != nullptr && total_memory_(&memory, device) == CUDA_SUCCESS) {
      facts.total_memory = static_cast<int64_t>(memory);
    }
#define SLIPSTREAM_ASK(word, attribute) facts.word = Attribute(attribute, device);
    SLIPSTREAM_DEVICE_ATTRIBUTES(SLIPSTREAM_ASK)
#undef SLIPSTREAM_ASK
    return true;
  }

  std::optional<int64_t> Attribute(CUdevice_attribute attribute, CUdevice device) const {
    int value = 0;
    return get_attribute_(&value, attribute, device) == CUDA_SUCCESS ? std::optional<int64_t>(value) : std::nullopt;
  }

  decltype(::cuDeviceGetCount)* get_count_ = nullptr;
  decltype(::cuDeviceGetName)* get_name_ = nullptr;
  decltype(::cuDeviceGetAttribute)* get_attribute_ = nullptr;
  decltype(::cuDeviceGetPCIBusId)* get_bus_ = nullptr;
  decltype(::cuDeviceGetUuid)* get_uuid_ = nullptr;
  CUresult (*total_memory_)(size_t*, CUdevice) = nullptr;
  decltype(::cuThreadExchangeStreamCaptureMode)* exchange_capture_mode_ = nullptr;
};

}  // namespace

bool AskDriverForDevices(std::vector<DeviceFacts>* devices) {
  devices->clear();
  Driver driver;
  return driver.Load() && driver.Ask(devices);
}

int DeviceOfMemory(uint64_t address) {
  using GetAttribute = decltype(::cuPointerGetAttribute);
  static constinit std::atomic<GetAttribute*> known{nullptr};
  GetAttribute* get = known.load(std::memory_order_relaxed);
  if (get == nullptr) {
    void* const library = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
    if (library == nullptr) return -1;
    get = reinterpret_cast<GetAttribute*>(dlsym(library, "cuPointerGetAttribute"));
    if (get == nullptr) return -1;
    known.store(get, std::memory_order_relaxed);
  }
  int device = -1;
  return get(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) == CUDA_SUCCESS ? device : -1;
}

}  // namespace slipstream::tracer
