// Where device memory lies, and who has which range.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "tests/sim/driver/pool.h"
#include "tests/sim/driver/world.h"

namespace simcuda {
namespace {

// Allocations start at multiples of this and nothing more is promised (semantics: at least 512).
constexpr size_t kAlignment = 512;
// Behind every allocation, so that one byte too far is outside of it.
constexpr size_t kGuard = 512;
// Filling costs time: of a larger block only the ends are filled, and a page of each part of what is between.
constexpr size_t kPoisonEnd = size_t{1} << 20;
constexpr size_t kPoisonPart = size_t{256} << 10;

size_t RoundUp(size_t value, size_t step) { return (value + step - 1) / step * step; }

// What an allocation takes of the device's memory. Those of more than 1 MiB are made of pieces of 2 MiB that they share
// with nobody (measured on an H200 with sizes from 1.1 to 9 MiB: free memory falls by exactly so much).
size_t TakenFor(Allocation::Kind kind, size_t reserved) {
  const bool in_pieces = kind == Allocation::Kind::kDevice && reserved > (size_t{1} << 20);
  return in_pieces ? RoundUp(reserved, size_t{2} << 20) : reserved;
}

}  // namespace

bool TakeRange(Arena& arena, size_t bytes, uintptr_t* offset) {
  // A block freed just now comes back first: a program that still uses it shall see it change.
  if (auto same = arena.recently_freed.find(bytes); same != arena.recently_freed.end()) {
    while (!same->second.empty()) {
      const uintptr_t candidate = same->second.back();
      same->second.pop_back();
      const auto range = arena.free_ranges.upper_bound(candidate);
      if (range == arena.free_ranges.begin()) {
        continue;
      }
      const auto holder = std::prev(range);
      const uintptr_t start = holder->first;
      const size_t length = holder->second;
      if (start + length < candidate + bytes) {
        continue;  // used by something else since
      }
      arena.free_ranges.erase(holder);
      if (candidate > start) {
        arena.free_ranges[start] = candidate - start;
      }
      if (start + length > candidate + bytes) {
        arena.free_ranges[candidate + bytes] = start + length - candidate - bytes;
      }
      *offset = candidate;
      return true;
    }
  }
  for (auto range = arena.free_ranges.begin(); range != arena.free_ranges.end(); ++range) {
    if (range->second >= bytes) {
      *offset = range->first;
      const size_t rest = range->second - bytes;
      arena.free_ranges.erase(range);
      if (rest > 0) {
        arena.free_ranges[*offset + bytes] = rest;
      }
      return true;
    }
  }
  if (arena.top + bytes > arena.bytes) {
    return false;
  }
  *offset = arena.top;
  arena.top += bytes;
  return true;
}

void GiveRange(Arena& arena, uintptr_t offset, size_t bytes) {
  arena.recently_freed[bytes].push_back(offset);
  auto next = arena.free_ranges.lower_bound(offset);
  uintptr_t start = offset;
  size_t length = bytes;
  if (next != arena.free_ranges.end() && offset + bytes == next->first) {
    length += next->second;
    next = arena.free_ranges.erase(next);
  }
  if (next != arena.free_ranges.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == start) {
      start = previous->first;
      length += previous->second;
      arena.free_ranges.erase(previous);
    }
  }
  arena.free_ranges[start] = length;
}

void CreateArenas(World& world) {
  for (Device& device : world.devices) {
    Arena& arena = device.arena;
    if (arena.base != 0) {
      continue;
    }
    // Room for several times the memory, so that holes never decide whether an allocation succeeds.
    const size_t bytes = std::max(size_t{16} << 30, RoundUp(device.total_bytes, size_t{1} << 30) * 4);
    const int file = memfd_create("simcuda-device", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) {
      continue;
    }
    void* base = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void* alias = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (base == MAP_FAILED || alias == MAP_FAILED) {
      close(file);
      continue;
    }
    madvise(alias, bytes, MADV_DONTFORK);
    madvise(alias, bytes, MADV_DONTDUMP);
    arena.file = file;
    arena.base = reinterpret_cast<uintptr_t>(base);
    arena.alias = static_cast<std::byte*>(alias);
    arena.bytes = bytes;
  }
}

static bool FirstDeviceHas(World& world, CUdevice_attribute attribute) {
  const auto found = world.devices[0].attributes.find(attribute);
  return found != world.devices[0].attributes.end() && found->second != 0;
}

bool DeviceReadsPageable(World& world) {
  return FirstDeviceHas(world, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS) || DeviceUsesHostPageTables(world);
}

bool DeviceUsesHostPageTables(World& world) {
  return FirstDeviceHas(world, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
}

void Poison(World& world, std::byte* bytes, size_t count, int value) {
  if (!world.settings.poison) {
    return;
  }
  const size_t head = std::min(count, kPoisonEnd);
  std::memset(bytes, value, head);
  const size_t tail = std::min(count - head, kPoisonEnd);
  std::memset(bytes + count - tail, value, tail);
  for (size_t at = head; at + kPage <= count - tail; at += kPoisonPart) {
    std::memset(bytes + at, value, kPage);
  }
}

Allocation* AllocateDevice(World& world, Context* context, size_t bytes, Allocation::Kind kind) {
  Device& device = *context->device;
  const size_t reserved = RoundUp(bytes, kAlignment);
  const size_t taken = TakenFor(kind, reserved);
  if (taken < bytes || taken > device.total_bytes - std::min(device.total_bytes, device.used_bytes)) {
    return nullptr;
  }
  uintptr_t offset = 0;
  if (device.arena.base == 0 || !TakeRange(device.arena, reserved + kGuard, &offset)) {
    return nullptr;
  }
  device.used_bytes += taken;
  Allocation allocation;
  allocation.kind = kind;
  allocation.base = device.arena.base + offset;
  allocation.bytes = bytes;
  allocation.reserved = reserved;
  allocation.alias = device.arena.alias + offset;
  allocation.device = device.ordinal;
  allocation.context = context;
  allocation.file_offset = offset;
  allocation.id = world.next_id++;
  Poison(world, allocation.alias, reserved, 0xA5);
  return &(world.allocations[allocation.base] = allocation);
}

Allocation* FindAllocation(World& world, uintptr_t address) {
  auto next = world.allocations.upper_bound(address);
  if (next == world.allocations.begin()) {
    return nullptr;
  }
  Allocation& candidate = std::prev(next)->second;
  return address - candidate.base < std::max<size_t>(candidate.bytes, 1) ? &candidate : nullptr;
}

void ReleaseAllocation(World& world, uintptr_t base) {
  const auto found = world.allocations.find(base);
  if (found == world.allocations.end()) {
    return;
  }
  const Allocation allocation = found->second;
  world.allocations.erase(found);
  Device& device = world.devices[allocation.device];
  switch (allocation.kind) {
    case Allocation::Kind::kDevice:
    case Allocation::Kind::kPooled:
      Poison(world, allocation.alias, allocation.reserved, 0xDF);
      GiveRange(device.arena, allocation.file_offset, allocation.reserved + kGuard);
      device.used_bytes -= TakenFor(allocation.kind, allocation.reserved);
      break;
    case Allocation::Kind::kManaged:
    case Allocation::Kind::kPinned:
      munmap(allocation.alias, allocation.reserved);
      break;
    case Allocation::Kind::kImported:
      // The block lies somewhere inside the pages that were mapped for it.
      munmap(reinterpret_cast<void*>(allocation.base / kPage * kPage), allocation.reserved);
      munmap(reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(allocation.alias) / kPage * kPage),
             allocation.reserved);
      break;
    case Allocation::Kind::kRegistered:
    case Allocation::Kind::kMapped:
      break;
  }
}

std::byte* Translate(World& world, uintptr_t address, size_t bytes, bool* known) {
  Allocation* allocation = FindAllocation(world, address);
  *known = allocation != nullptr;
  if (allocation == nullptr) {
    // Inside a device's range but no allocation: a stale or wild device pointer, never host memory.
    for (const Device& device : world.devices) {
      if (device.arena.base != 0 && address - device.arena.base < device.arena.bytes) {
        *known = true;
        return nullptr;
      }
    }
    return reinterpret_cast<std::byte*>(address);
  }
  const size_t offset = address - allocation->base;
  if (bytes > allocation->bytes - offset) {
    if (allocation->kind != Allocation::Kind::kMapped) {
      return nullptr;
    }
    // Maps side by side in one reservation are one range to the program, and to the simulator's second mapping too.
    uintptr_t end = allocation->base + allocation->bytes;
    while (end < address + bytes) {
      const auto next = world.allocations.find(end);
      if (next == world.allocations.end() || next->second.kind != Allocation::Kind::kMapped ||
          !next->second.accessible ||
          next->second.alias - allocation->alias != static_cast<ptrdiff_t>(next->second.base - allocation->base)) {
        return nullptr;
      }
      end += next->second.bytes;
    }
  }
  return allocation->accessible ? allocation->alias + offset : nullptr;
}

}  // namespace simcuda

using namespace simcuda;

// Whether a kernel of the operation's context may touch the memory: its own device's, host memory, or a peer's after
// access was given.
static bool Reachable(const Op& op, const Allocation& allocation) {
  switch (allocation.kind) {
    case Allocation::Kind::kManaged:
    case Allocation::Kind::kPinned:
    case Allocation::Kind::kRegistered:
      return true;
    case Allocation::Kind::kMapped:
      return (allocation.access >> op.device & 1) != 0;
    case Allocation::Kind::kPooled:
      return allocation.device == op.device || (allocation.pool != nullptr && allocation.pool->access[op.device] != 0);
    case Allocation::Kind::kImported:
      return true;  // cudaIpcMemLazyEnablePeerAccess
    case Allocation::Kind::kDevice:
      break;
  }
  return allocation.device == op.device || op.context->peers.count(allocation.context) != 0;
}

extern "C" __attribute__((visibility("default"))) void* simDevicePointer(const void* pointer, size_t bytes) {
  World& world = TheWorld();
  ThreadState& thread = ThisThread();
  Lock lock(world.mutex);
  bool known = false;
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  std::byte* found = Translate(world, address, bytes, &known);
  const Allocation* allocation = FindAllocation(world, address);
  if (known && found != nullptr && (thread.running == nullptr || Reachable(*thread.running, *allocation))) {
    return found;
  }
  if (!known && pointer != nullptr && DeviceReadsPageable(world)) {
    return found;
  }
  if (thread.running != nullptr) {
    Fault(thread.running->context, CUDA_ERROR_ILLEGAL_ADDRESS);
  }
  return nullptr;
}
