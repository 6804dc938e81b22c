// Virtual memory management: address ranges, physical handles, maps. Two maps of one handle show the same bytes, for
// both map the same part of the device's memory file.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "tests/sim/driver/use_context.h"

namespace simcuda {

struct Physical {
  int device = 0;
  int file = -1;
  bool imported = false;  // then the file is this handle's own
  uintptr_t offset = 0;
  size_t bytes = 0;
  CUmemAllocationProp properties = {};
  int references = 1;
  int maps = 0;
};

namespace {

constexpr size_t kGranularity = size_t{2} << 20;
constexpr uint64_t kTicketMagic = 0x51AC0DE0A110C000u;

struct Reservation {
  size_t bytes = 0;
  std::byte* alias = nullptr;
};

// What a shareable file descriptor holds: where the memory really is.
struct Ticket {
  uint64_t magic;
  int32_t pid;
  int32_t file;
  uint64_t offset;
  uint64_t bytes;
  CUmemAllocationProp properties;
};

struct Registry {
  std::map<uintptr_t, Reservation> reservations;
  std::map<Physical*, std::unique_ptr<Physical>> handles;
};
Registry& TheRegistry() {
  static auto* const registry = new Registry;  // under World::mutex
  return *registry;
}

Physical* FindHandle(CUmemGenericAllocationHandle handle) {
  const auto& handles = TheRegistry().handles;
  const auto found = handles.find(reinterpret_cast<Physical*>(handle));
  return found != handles.end() && found->first->references > 0 ? found->first : nullptr;
}

// The memory goes when neither a reference nor a map is left (cuMemRelease in cuda.h).
void DropIfUnused(World& world, Physical* physical) {
  if (physical->references > 0 || physical->maps > 0) {
    return;
  }
  if (physical->imported) {
    close(physical->file);
  } else {
    GiveRange(world.devices[physical->device].physical, physical->offset, physical->bytes);
    world.devices[physical->device].used_bytes -= physical->bytes;
  }
  TheRegistry().handles.erase(physical);
}

bool CreatePhysicalArena(Device& device) {
  Arena& arena = device.physical;
  if (arena.file >= 0) {
    return true;
  }
  arena.bytes = std::max(size_t{16} << 30, device.total_bytes * 4);
  arena.file = memfd_create("simcuda-physical", MFD_CLOEXEC);
  return arena.file >= 0 && ftruncate(arena.file, static_cast<off_t>(arena.bytes)) == 0;
}

// The reservation that [base, base + bytes) lies in.
const Reservation* Within(uintptr_t base, size_t bytes, uintptr_t* start) {
  const auto& reservations = TheRegistry().reservations;
  auto next = reservations.upper_bound(base);
  if (next == reservations.begin()) {
    return nullptr;
  }
  --next;
  *start = next->first;
  return base + bytes <= next->first + next->second.bytes ? &next->second : nullptr;
}

// The maps that exactly make up the range; empty if something else lies at an end of it or in between.
std::vector<uintptr_t> MapsOf(World& world, uintptr_t base, size_t bytes) {
  std::vector<uintptr_t> maps;
  uintptr_t next = base;
  while (next < base + bytes) {
    const auto found = world.allocations.find(next);
    if (found == world.allocations.end() || found->second.kind != Allocation::Kind::kMapped ||
        next + found->second.bytes > base + bytes) {
      return {};
    }
    maps.push_back(next);
    next += found->second.bytes;
  }
  return maps;
}

CUresult CheckProperties(const CUmemAllocationProp* properties) {
  if (properties == nullptr || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CUDA_ERROR_NOT_SUPPORTED;  // README.md: no host handles
  }
  return properties->location.id >= 0 && properties->location.id < kDeviceCount ? CUDA_SUCCESS
                                                                                : CUDA_ERROR_INVALID_DEVICE;
}

}  // namespace

bool FindReservation(uintptr_t address, uintptr_t* base, size_t* bytes) {
  const Reservation* reservation = Within(address, 1, base);
  if (reservation == nullptr) {
    return false;
  }
  *bytes = reservation->bytes;
  return true;
}

CUmemAllocationHandleType HandleTypesOf(const Physical* physical) { return physical->properties.requestedHandleTypes; }

void ForgetVirtualMemory(World& world) {
  Registry& registry = TheRegistry();
  for (const auto& [base, reservation] : registry.reservations) {
    munmap(reinterpret_cast<void*>(base), reservation.bytes);
    munmap(reservation.alias, reservation.bytes);
  }
  registry.reservations.clear();
  for (const auto& [handle, owned] : registry.handles) {
    if (handle->imported) {
      close(handle->file);
    }
  }
  registry.handles.clear();
  for (Device& device : world.devices) {
    device.physical.top = 0;
    device.physical.free_ranges.clear();
    device.physical.recently_freed.clear();
  }
}

}  // namespace simcuda

using namespace simcuda;

SIM_DRIVER(cuMemGetAllocationGranularity, 10020, cuMemGetAllocationGranularity,
           (size_t * granularity, const CUmemAllocationProp* prop, CUmemAllocationGranularity_flags option),
           (granularity, prop, option)) {
  (void)option;
  SIM_TRY(CheckProperties(prop))
  if (granularity == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *granularity = kGranularity;
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuMemAddressReserve, 10020, cuMemAddressReserve,
           (CUdeviceptr * ptr, size_t size, size_t alignment, CUdeviceptr addr, unsigned long long flags),
           (ptr, size, alignment, addr, flags)) {
  SIM_USE_WORLD()
  (void)addr;  // a wish
  if (ptr == nullptr || size == 0 || size % kGranularity != 0 || flags != 0 || (alignment & (alignment - 1)) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const size_t align = std::max(alignment, kGranularity);
  // More than asked for, to cut an aligned piece out of.
  void* room = mmap(nullptr, size + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  void* alias = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED || alias == MAP_FAILED) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const auto start = reinterpret_cast<uintptr_t>(room);
  const uintptr_t base = (start + align - 1) / align * align;
  if (base > start) {
    munmap(room, base - start);
  }
  if (const size_t rest = start + size + align - (base + size); rest > 0) {
    munmap(reinterpret_cast<void*>(base + size), rest);
  }
  TheRegistry().reservations[base] = {size, static_cast<std::byte*>(alias)};
  *ptr = base;
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuMemAddressFree, 10020, cuMemAddressFree, (CUdeviceptr ptr, size_t size), (ptr, size)) {
  SIM_USE_WORLD()
  auto& reservations = TheRegistry().reservations;
  const auto found = reservations.find(ptr);
  if (found == reservations.end() || found->second.bytes != size) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto mapped = world.allocations.lower_bound(ptr);
  if (mapped != world.allocations.end() && mapped->first < ptr + size) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  munmap(reinterpret_cast<void*>(ptr), size);
  munmap(found->second.alias, size);
  reservations.erase(found);
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuMemCreate, 10020, cuMemCreate,
           (CUmemGenericAllocationHandle * handle, size_t size, const CUmemAllocationProp* prop,
            unsigned long long flags),
           (handle, size, prop, flags)) {
  SIM_USE_WORLD()
  SIM_TRY(CheckProperties(prop))
  if (handle == nullptr || size == 0 || size % kGranularity != 0 || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  SIM_TRY(CheckUnsafeCall(world))
  Device& device = world.devices[prop->location.id];
  uintptr_t offset = 0;
  if (size > device.total_bytes - std::min(device.total_bytes, device.used_bytes) || !CreatePhysicalArena(device) ||
      !TakeRange(device.physical, size, &offset)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  device.used_bytes += size;
  auto physical = std::make_unique<Physical>();
  physical->device = device.ordinal;
  physical->file = device.physical.file;
  physical->offset = offset;
  physical->bytes = size;
  physical->properties = *prop;
  void* view = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, physical->file, static_cast<off_t>(offset));
  if (view != MAP_FAILED) {
    Poison(world, static_cast<std::byte*>(view), size, 0xA5);
    munmap(view, size);
  }
  Physical* raw = physical.get();
  TheRegistry().handles[raw] = std::move(physical);
  *handle = reinterpret_cast<CUmemGenericAllocationHandle>(raw);
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuMemRelease, 10020, cuMemRelease, (CUmemGenericAllocationHandle handle), (handle)) {
  SIM_USE_WORLD()
  Physical* physical = FindHandle(handle);
  if (physical == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  --physical->references;
  DropIfUnused(world, physical);
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuMemMap, 10020, cuMemMap,
           (CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags),
           (ptr, size, offset, handle, flags)) {
  SIM_USE_WORLD()
  Physical* physical = FindHandle(handle);
  uintptr_t start = 0;
  const Reservation* reservation = Within(ptr, size, &start);
  if (physical == nullptr || reservation == nullptr || size == 0 || size % kGranularity != 0 ||
      ptr % kGranularity != 0 || offset != 0 || size != physical->bytes || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto next = world.allocations.upper_bound(ptr);
  const bool overlaps =
      (next != world.allocations.end() && next->first < ptr + size) || FindAllocation(world, ptr) != nullptr;
  if (overlaps) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::byte* alias = reservation->alias + (ptr - start);
  if (mmap(alias, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, physical->file,
           static_cast<off_t>(physical->offset)) == MAP_FAILED) {
    return CUDA_ERROR_MAP_FAILED;
  }
  madvise(alias, size, MADV_DONTFORK);
  Allocation allocation;
  allocation.kind = Allocation::Kind::kMapped;
  allocation.base = ptr;
  allocation.bytes = allocation.reserved = size;
  allocation.alias = alias;
  allocation.device = physical->device;
  allocation.context = nullptr;  // belongs to no context: cuDevicePrimaryCtxReset leaves it
  allocation.id = world.next_id++;
  allocation.accessible = false;
  allocation.access = 0;
  allocation.physical = physical;
  world.allocations[ptr] = allocation;
  ++physical->maps;
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuMemUnmap, 10020, cuMemUnmap, (CUdeviceptr ptr, size_t size), (ptr, size)) {
  SIM_USE_WORLD()
  const std::vector<uintptr_t> maps = MapsOf(world, ptr, size);
  if (maps.empty()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // Waits for nothing: work that still uses the range faults, as it may on a device.
  for (const uintptr_t base : maps) {
    const Allocation allocation = world.allocations[base];
    mmap(allocation.alias, allocation.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    world.allocations.erase(base);
    --allocation.physical->maps;
    DropIfUnused(world, allocation.physical);
  }
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuMemSetAccess, 10020, cuMemSetAccess,
           (CUdeviceptr ptr, size_t size, const CUmemAccessDesc* desc, size_t count), (ptr, size, desc, count)) {
  SIM_USE_WORLD()
  const std::vector<uintptr_t> maps = MapsOf(world, ptr, size);
  if (maps.empty() || desc == nullptr || count == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; ++i) {
    if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || desc[i].location.id < 0 ||
        desc[i].location.id >= kDeviceCount) {
      return CUDA_ERROR_INVALID_DEVICE;
    }
  }
  for (const uintptr_t base : maps) {
    Allocation& allocation = world.allocations[base];
    for (size_t i = 0; i < count; ++i) {
      const auto bit = static_cast<uint8_t>(1u << desc[i].location.id);
      const bool grant =
          desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE || desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ;
      allocation.access = static_cast<uint8_t>(grant ? allocation.access | bit : allocation.access & ~bit);
    }
    allocation.accessible = allocation.access != 0;
  }
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuMemGetAccess, 10020, cuMemGetAccess,
           (unsigned long long* flags, const CUmemLocation* location, CUdeviceptr ptr), (flags, location, ptr)) {
  SIM_USE_WORLD()
  const Allocation* allocation = FindAllocation(world, ptr);
  if (flags == nullptr || location == nullptr || allocation == nullptr ||
      allocation->kind != Allocation::Kind::kMapped || location->id < 0 || location->id >= kDeviceCount) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *flags = (allocation->access >> location->id & 1) != 0 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                                         : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuMemGetAllocationPropertiesFromHandle, 10020, cuMemGetAllocationPropertiesFromHandle,
           (CUmemAllocationProp * prop, CUmemGenericAllocationHandle handle), (prop, handle)) {
  SIM_USE_WORLD()
  const Physical* physical = FindHandle(handle);
  if (prop == nullptr || physical == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *prop = physical->properties;
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuMemRetainAllocationHandle, 11000, cuMemRetainAllocationHandle,
           (CUmemGenericAllocationHandle * handle, void* addr), (handle, addr)) {
  SIM_USE_WORLD()
  const Allocation* allocation = FindAllocation(world, reinterpret_cast<uintptr_t>(addr));
  if (handle == nullptr || allocation == nullptr || allocation->physical == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  ++allocation->physical->references;
  *handle = reinterpret_cast<CUmemGenericAllocationHandle>(allocation->physical);
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuMemExportToShareableHandle, 10020, cuMemExportToShareableHandle,
           (void* shareableHandle, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType handleType,
            unsigned long long flags),
           (shareableHandle, handle, handleType, flags)) {
  SIM_USE_WORLD()
  const Physical* physical = FindHandle(handle);
  if (shareableHandle == nullptr || physical == nullptr || flags != 0 ||
      (physical->properties.requestedHandleTypes & handleType) == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  Ticket ticket = {};
  ticket.magic = kTicketMagic;
  ticket.pid = getpid();
  ticket.file = physical->file;
  ticket.offset = physical->offset;
  ticket.bytes = physical->bytes;
  ticket.properties = physical->properties;
  const int file = memfd_create("simcuda-handle", MFD_CLOEXEC);
  if (file < 0 || pwrite(file, &ticket, sizeof ticket, 0) != static_cast<ssize_t>(sizeof ticket)) {
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  std::memcpy(shareableHandle, &file, sizeof file);
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuMemImportFromShareableHandle, 10020, cuMemImportFromShareableHandle,
           (CUmemGenericAllocationHandle * handle, void* osHandle, CUmemAllocationHandleType shHandleType),
           (handle, osHandle, shHandleType)) {
  SIM_USE_WORLD()
  if (handle == nullptr || shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int shared = static_cast<int>(reinterpret_cast<intptr_t>(osHandle));
  Ticket ticket = {};
  if (pread(shared, &ticket, sizeof ticket, 0) != static_cast<ssize_t>(sizeof ticket) || ticket.magic != kTicketMagic) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::string path = "/proc/" + std::to_string(ticket.pid) + "/fd/" + std::to_string(ticket.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) {
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  auto physical = std::make_unique<Physical>();
  physical->device = ticket.properties.location.id;
  physical->file = file;
  physical->imported = true;
  physical->offset = ticket.offset;
  physical->bytes = ticket.bytes;
  physical->properties = ticket.properties;
  Physical* raw = physical.get();
  TheRegistry().handles[raw] = std::move(physical);
  *handle = reinterpret_cast<CUmemGenericAllocationHandle>(raw);
  return CUDA_SUCCESS;
}
